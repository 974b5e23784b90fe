"""A user's function or class as a method or metric: its calls, and its cost, which is counted as it states none."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from snellen.errors import SnellenError, no_exit
from snellen.plugins.named_code import reason_and_line
from snellen.plugins.traits import MethodTraits, MetricTraits
from snellen.types import Case, Images, Maps, Passes, Rng, Targets

if TYPE_CHECKING:
    from snellen.classifier import Classifier


@dataclass(frozen=True)
class WrappedCode:
    """What wrapped methods and metrics have in common; each function or class gets a subclass of its own."""

    code: ClassVar[tuple[Any]]
    """The user's function or class; in a tuple, so that a function does not become a method of this class."""
    with_rng: ClassVar[bool]
    """Whether it takes random numbers."""

    def call(self, *arguments: Any, rng: Rng) -> Any:
        """Calls the user's code with the settings; gradients are enabled, because plain functions differentiate."""
        (value,) = self.code
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        function = value(**settings) if isinstance(value, type) else functools.partial(value, **settings)
        with torch.enable_grad():
            return function(*arguments, **({"rng": rng} if self.with_rng else {}))


@dataclass(frozen=True)
class MethodOfFunction(WrappedCode):
    """A user's function as a method."""

    traits: ClassVar[MethodTraits]

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """Counted on one grey image, because a plain function does not state its cost."""
        key = (type(self), tuple(sorted(vars(self).items())), size, classifier.fingerprint)
        if key not in _PASSES:
            inputs = classifier.to_inputs(torch.full((1, classifier.channels, *size), 0.5))
            try:
                with classifier.counting() as ledger, torch.no_grad(), no_exit(f"'{self.traits.name}'"):
                    self(classifier, inputs, torch.zeros(1, dtype=torch.long), rng=Rng(0, ("probe",)))
            except SnellenError:
                raise
            except Exception as problem:
                raise SnellenError(
                    f"'{self.traits.name}' failed on a grey image of {size[0]}×{size[1]} {reason_and_line(problem)}"
                ) from problem
            _PASSES[key] = ledger.passes
        return _PASSES[key]

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        """The maps of the user's function."""
        maps = self.call(classifier, inputs.detach(), targets, rng=rng)
        expected = (len(inputs), *inputs.shape[2:])
        maps = torch.as_tensor(maps).detach().cpu().to(torch.float32)
        if tuple(maps.shape) != expected:
            actual, needed = ("×".join(map(str, shape)) for shape in (maps.shape, expected))
            raise SnellenError(
                f"{self.traits.name} gave maps of {actual}, but it must give one number per pixel of each image, {needed}"
            )
        return maps


_PASSES: dict[Any, Passes] = {}
"""Passes per image of each method, with its settings, on images of a size by a classifier."""


@dataclass(frozen=True)
class MetricOfFunction(WrappedCode):
    """A user's function as a metric."""

    traits: ClassVar[MetricTraits]

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """Counted on two noisy images, because a plain function does not state its cost."""
        if self.traits.needs & {"recipe", "checkpoints"}:
            return Passes()  # it needs models that are not there yet
        key = (type(self), tuple(sorted(vars(self).items())), size, classifier.fingerprint)
        if key not in _METRIC_PASSES:
            rng = Rng(0, ("probe", "probe again"))
            explain_probe = _ProbeExplain()
            case = Case(
                classifier=classifier,
                inputs=classifier.to_inputs(rng.uniform("pixels", (classifier.channels, *size))),
                targets=torch.zeros(2, dtype=torch.long),
                maps=rng.uniform("map", size),
                explain=explain_probe,
                truth=rng.uniform("truth", size) > 0.5,
                labels=torch.zeros(2, dtype=torch.long),
            )
            try:
                with classifier.counting() as ledger, torch.no_grad(), no_exit(f"'{self.traits.name}'"):
                    self(case, rng=rng)
            except SnellenError:
                raise
            except Exception as problem:
                raise SnellenError(
                    f"'{self.traits.name}' failed on two noisy images of {size[0]}×{size[1]} {reason_and_line(problem)}"
                ) from problem
            rows = Passes(-(-ledger.passes.forward // 2), -(-ledger.passes.backward // 2))
            _METRIC_PASSES[key] = rows, -(-explain_probe.images // 2)
        own, explained = _METRIC_PASSES[key]
        return own + explained * explain

    def __call__(self, case: Case, *, rng: Rng) -> torch.Tensor:
        """The scores of the user's function, one per image."""
        if "truth" in self.traits.needs and case.truth is None:
            raise SnellenError(
                f"{self.traits.name} needs a truth mask, but these samples have none; drop the metric or give masks"
            )
        try:
            values = self.call(case, rng=rng)
        except (TypeError, AttributeError) as problem:
            if case.truth is not None or "NoneType" not in str(problem):
                raise
            raise SnellenError(
                f"{self.traits.name} failed {reason_and_line(problem)} on images without masks; if it uses case.truth, "
                f'state its attribute needs = {{"truth"}}, and give masks'
            ) from problem
        scores = torch.as_tensor(values).detach().cpu().to(torch.float32)
        if tuple(scores.shape) != (len(case),):
            actual = "×".join(map(str, scores.shape)) or "a single number"
            raise SnellenError(f"{self.traits.name} gave scores of {actual}, but it must give one per image, {len(case)}")
        return scores


_METRIC_PASSES: dict[Any, tuple[Passes, int]] = {}
"""Passes of a metric's own and maps that it asks for, per image."""


class _ProbeExplain:
    """Stands in for a method while the cost of a metric is counted: returns noise, and counts the images."""

    def __init__(self) -> None:
        self.images = 0

    def __call__(
        self, inputs: Images, *, targets: Targets | None = None, classifier: Classifier | None = None, rng: Rng
    ) -> Maps:
        self.images += len(inputs)
        return torch.rand(len(inputs), *inputs.shape[2:], generator=torch.Generator().manual_seed(self.images))
