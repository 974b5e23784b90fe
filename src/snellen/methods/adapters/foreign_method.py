"""What all adapters share: names of foreign objects, their settings, and a network that is restored after use."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import json
import sys
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError, first_line, short_repr
from snellen.maps.folding import Fold, fold
from snellen.methods.class_activation import blank_image, upsample
from snellen.plugins.registry import label, traits
from snellen.types import Images, Maps, Passes, Rng, Targets

SIGNED = ("class-specific", "deterministic", "signed")
UNSIGNED = ("class-specific", "deterministic")
TRAITS = ("class-specific", "complete", "deterministic", "implementation-invariant", "signed")


@runtime_checkable
class ForeignMethod(Protocol):
    """The frame of an adapter: one image at a time, in a network that is restored, with seeds from the run's."""

    fold: Fold
    settings: str
    """Keyword arguments for the foreign code, as JSON."""
    stated: tuple[str, ...]
    """The traits of the maps that the user states."""

    def __post_init__(self) -> None:
        """Gives the method the stated traits, which the contract suite can test."""
        unknown = [name for name in self.stated if name not in TRAITS]
        if unknown:
            raise ValueError(f"stated must hold some of {', '.join(TRAITS)}, not {unknown[0]}")
        values = {name.replace("-", "_"): name in self.stated for name in TRAITS}
        object.__setattr__(self, "traits", dataclasses.replace(traits(type(self)), **values))

    @abstractmethod
    def explain_image(self, module: LogitsModule, inputs: Tensor, target: Tensor, settings: dict[str, Any]) -> Any:
        """The foreign attributions of one image: a tensor or array.

        Args:
            module: the user's module, whose outputs are logits.
            inputs: the image as a batch of one.
            target: its target class, as a batch of one.
            settings: keyword arguments for the foreign code.
        """
        ...

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        """One image at a time, so that neither other images of the batch nor their number can change a map."""
        classifier.rows_for(inputs)  # finds how the model is called, in passes that are not counted
        settings = json.loads(self.settings)
        maps = []
        for row in range(len(inputs)):
            place = slice(row, row + 1)
            module = LogitsModule(classifier)
            with restored(classifier.module), seeded(rng[place]), torch.enable_grad():
                values = self.explain_image(module, inputs[place].detach().clone(), targets[place].clone(), settings)
            maps.append(self._as_map(values, inputs[place]))
        return torch.cat(maps)

    def _as_map(self, values: Any, inputs: Images) -> Maps:
        tensor = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
        tensor = tensor.detach().to(inputs)
        if tensor.dim() == 3:
            tensor = tensor[:, None]
        if tensor.dim() != 4 or len(tensor) != 1:
            shape = "×".join(map(str, tensor.shape))
            raise SnellenError(
                f"{label(self)} gave {shape} for one image; it must be 1×channels×height×width or 1×height×width"
            )
        folded = tensor[:, 0] if tensor.shape[1] == 1 else fold(tensor, self.fold)
        return folded if folded.shape[1:] == inputs.shape[2:] else upsample(folded, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """Counted once for each classifier and size, on a blank image."""
        counts = _PASSES.setdefault(classifier, {})
        key = (self, size)
        if key not in counts:
            with classifier.counting() as ledger, torch.no_grad():
                self(classifier, blank_image(classifier, size), torch.zeros(1, dtype=torch.long), rng=Rng(0, ("blank",)))
            counts[key] = ledger.passes
        return counts[key]


_PASSES: weakref.WeakKeyDictionary[Classifier, dict[Any, Passes]] = weakref.WeakKeyDictionary()


class LogitsModule(nn.Module):
    """The user's module with logits as its output; all attributes, layers and their names are those of the user's module."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.snellen_module = classifier.module
        self.snellen_classifier = classifier
        self.training = False

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits; each pass is counted, a backward one when its gradient arrives."""
        classifier, rows = self.snellen_classifier, len(inputs)
        with classifier.booking(Passes(forward=rows)):
            logits = classifier.network(inputs)
        if logits.requires_grad:
            logits.register_hook(lambda gradient: _book(classifier, Passes(backward=rows)))
        return logits

    def named_modules(self, *arguments: Any, **options: Any) -> Iterator[tuple[str, nn.Module]]:
        """The parts of the user's module, by its own names."""
        yield from self.snellen_module.named_modules(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("snellen_module"), name)

    def __getitem__(self, place: Any) -> Any:
        return self.snellen_module[place]  # type: ignore[index]


def _book(classifier: Classifier, passes: Passes) -> None:
    with classifier.booking(passes):
        pass


@contextlib.contextmanager
def restored(module: nn.Module) -> Iterator[None]:
    """Afterwards hooks, modes and gradients of the module are as before, also when it raises."""
    parts = [(part, part.training, {name: dict(hooks) for name, hooks in _hooks(part).items()}) for part in module.modules()]
    tensors = [(parameter, parameter.requires_grad, parameter.grad) for parameter in module.parameters()]
    try:
        yield
    finally:
        for part, training, before in parts:
            part.training = training
            for name, hooks in _hooks(part).items():
                hooks.clear()
                hooks.update(before.get(name, {}))
        for parameter, requires_grad, gradient in tensors:
            parameter.requires_grad_(requires_grad)
            parameter.grad = gradient


def _hooks(part: nn.Module) -> Mapping[str, Any]:
    return {name: value for name, value in vars(part).items() if "hooks" in name and isinstance(value, dict)}


@contextlib.contextmanager
def seeded(rng: Rng) -> Iterator[None]:
    """Foreign code draws from the global generators: inside, they start from the run's seed and the image's id."""
    state = np.random.get_state()
    seed = int(rng.child("foreign").uniform("seed", (1,)).item() * 2**24)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(state)


def name_of(target: Any, adapter: str) -> str:
    """`module:name` of a class or function, from which `find` gets the same object again."""
    if isinstance(target, str):
        return target
    if not hasattr(target, "__qualname__"):
        raise SnellenError(
            f"{adapter} takes a class or a function, but this is an object of {type(target).__name__}, which is bound to "
            "one model; give its class, or a function from the model to such an object"
        )
    parts, name = str(getattr(target, "__module__", "")).split("."), target.__qualname__
    # The shortest path is the public one: captum.attr:Saliency, not captum.attr._core.saliency:Saliency.
    for count in range(1, len(parts) + 1):
        module = sys.modules.get(".".join(parts[:count]))
        if functools.reduce(lambda owner, part: getattr(owner, part, None), name.split("."), module) is target:
            return f"{'.'.join(parts[:count])}:{name}"
    raise SnellenError(
        f"{adapter} cannot find {short_repr(target)} by its name, so a run could not be resumed; "
        "define it at the top level of a module or notebook"
    )


def find(name: str, adapter: str) -> Any:
    """The class or function of `module:name`."""
    module, _, path = name.partition(":")
    try:
        value = importlib.import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except Exception as problem:  # a broken installation raises anything
        raise SnellenError(
            f"{adapter} cannot import '{name}' ({first_line(problem)}); install the package, or write module:name"
        ) from None
    return value


def settings_text(settings: Mapping[str, Any], adapter: str) -> str:
    """Settings as JSON."""
    try:
        return json.dumps(settings, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise SnellenError(
            f"{adapter}: settings must survive JSON, but {first_line(problem)}; set such a value in a function of your own"
        ) from None
