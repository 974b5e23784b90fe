"""Examination of a model in a single pass: memory, order of layers, kind of outputs, gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier.heads import Head, Number
from snellen.errors import SnellenError, first_line


def activation_bytes(module: nn.Module, run: Callable[[], Any]) -> tuple[int, int]:
    """Bytes of the largest layer output, and of all layer outputs together, in the pass that `run` makes."""
    sizes = [0]

    def note(layer: nn.Module, output: Any) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.numel() * output.element_size())

    with _watching([layer for layer in module.modules() if not list(layer.children())], note):
        run()
    return max(sizes), sum(sizes)


def call_order(module: nn.Module, run: Callable[[], Any]) -> tuple[str, ...]:
    """Names of all layers in the order in which the pass that `run` makes calls them.

    A layer that is never called, because its parent reads its weights directly, follows its parent.
    """
    places: dict[str, tuple[int, ...]] = {}
    names = {name: place for place, (name, _) in enumerate(module.named_modules())}

    def note(name: str, *_: Any) -> None:
        places.setdefault(name, (len(places), 0))

    handles = [layer.register_forward_pre_hook(functools.partial(note, name)) for name, layer in module.named_modules()]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    for name, place in names.items():
        if name not in places:
            parent = name.rpartition(".")[0]
            places[name] = (places.get(parent, (-1,))[0], place)
    return tuple(sorted(names, key=places.__getitem__))


SIGMOID_REMEDY = (
    "say heads='independent-labels' with outputs='probabilities' where several labels may be right per image, or return the "
    "values before the sigmoid where one class is right"
)
"""What to state for a model with a sigmoid per output."""

ENOUGH_IMAGES = 8
"""Number of images whose values are enough to conclude that a model ends in a sigmoid per class."""


@dataclass(frozen=True)
class OutputRange:
    """The range of a model's outputs for some images."""

    images: int
    """How many images were run."""
    low: float
    """The smallest output."""
    high: float
    """The largest output."""
    sum_error: float
    """Largest distance of a row's sum from 1; infinite for a single output."""

    @staticmethod
    def of(raw: Float[Tensor, "images classes"]) -> OutputRange:
        """Measured range of outputs."""
        return OutputRange(
            images=len(raw),
            low=float(raw.min()),
            high=float(raw.max()),
            sum_error=float((raw.sum(dim=1) - 1).abs().max()) if raw.shape[1] > 1 else float("inf"),
        )

    def __or__(self, other: OutputRange) -> OutputRange:
        return OutputRange(
            images=self.images + other.images,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            sum_error=max(self.sum_error, other.sum_error),
        )

    @property
    def within_one(self) -> bool:
        """Whether all values lie in [0, 1]."""
        return self.low >= 0 and self.high <= 1

    @property
    def sums_to_one(self) -> bool:
        """Whether all rows look like softmax probabilities."""
        return self.low >= 0 and self.sum_error < 1e-3


def check_outputs(raw: Tensor, images: int, name: str, head: Head) -> None:
    """Raises a SnellenError if the outputs are not one finite row per image, with as many values as the head needs.

    Args:
        raw: what the model returned.
        images: how many images it received.
        name: name of the model.
        head: what the outputs are taken for.
    """
    if raw.dim() != 2 or len(raw) != images:
        shape = "×".join(map(str, raw.shape))
        raise SnellenError(f"'{name}' returned {shape} for {images} images; it must return one row of logits per image")
    if raw.shape[1] < head.smallest:
        raise SnellenError(
            f"'{name}' has a single output; say heads='single-logit' where it decides between yes and no, or heads='number' "
            "where it estimates a number"
        )
    if not bool(raw.isfinite().all()):
        raise SnellenError(f"'{name}' returned NaN or infinite outputs; check its weights and its normalisation")


def check_output_range(observed: OutputRange, name: str, head: Head, *, stated: bool, sigmoid: bool = False) -> str | None:
    """A warning if the outputs are probably not what they are taken for; raises a SnellenError if they cannot be.

    Args:
        observed: range of the outputs.
        name: name of the model.
        head: what the outputs are taken for.
        stated: the user stated what the outputs are; logits may have any range, so this is accepted with a warning.
        sigmoid: the last operation of the model is a sigmoid.
    """
    if isinstance(head, Number):
        return None
    if head.form == "probabilities":
        _check_probabilities(observed, name, head)
        return None
    apart = "" if observed.sum_error == float("inf") else " that do not sum to 1"
    over = f"{observed.images} image{'' if observed.images == 1 else 's'}"
    sigmoids = f"values in [0, 1]{apart} ({observed.low:.2g} to {observed.high:.2g} over {over})"
    exclusive = head.exclusive and head.smallest > 1
    likely = observed.within_one and (sigmoid or _looks_like_sigmoids(observed))
    if stated:
        kind = "probabilities" if observed.sums_to_one else sigmoids if likely else ""
        return f"'{name}' returns {kind}; they are taken as logits, as was stated" if kind else None
    if observed.sums_to_one:
        raise SnellenError(
            f"'{name}' returns probabilities (each row sums to 1), not logits; "
            "leave out its softmax or say outputs='probabilities'"
        )
    remedy = SIGMOID_REMEDY if exclusive else "say outputs='probabilities'"
    if likely:
        raise SnellenError(
            f"'{name}' returns {sigmoids}, as a sigmoid{' per class' if exclusive else ''} does; {remedy}. "
            "If these are logits, say outputs='logits'."
        )
    if observed.within_one and observed.images >= ENOUGH_IMAGES:
        return f"'{name}' returns {sigmoids}; they are taken as logits. If they come from a sigmoid, {remedy}."
    return None


def _check_probabilities(observed: OutputRange, name: str, head: Head) -> None:
    """Refuses outputs that cannot be probabilities of this head."""
    if head.exclusive and head.smallest > 1:
        if not observed.sums_to_one:
            hint = f"; where each is a sigmoid, {SIGMOID_REMEDY}" if observed.within_one else ""
            raise SnellenError(f"'{name}' must return probabilities, but its rows do not sum to 1{hint}")
    elif not observed.within_one:
        raise SnellenError(
            f"'{name}' must return probabilities, but its outputs go from {observed.low:.2g} to {observed.high:.2g}; "
            "say outputs='logits' where they come before the sigmoid"
        )


def _looks_like_sigmoids(observed: OutputRange) -> bool:
    """Whether the values of many images lie in [0, 1], some close to 0 and some close to 1.

    Logits of an untrained network may lie in [0, 1] too, but near their bias and not at both ends.
    """
    return observed.within_one and observed.images >= ENOUGH_IMAGES and observed.low < 0.1 and observed.high > 0.9


DETACHED = "its forward pass detaches its outputs from its inputs"


def no_gradient_reason(output: Callable[[Tensor], Tensor], inputs: Tensor) -> str | None:
    """Why the output has no gradient at these inputs, in a few words; None if it has one."""
    try:
        with torch.inference_mode(False), torch.enable_grad():
            leaf = inputs.detach().clone().requires_grad_()
            total = output(leaf)
            if not total.requires_grad:
                return DETACHED
            (gradient,) = torch.autograd.grad(total, leaf, allow_unused=True)
    except Exception as problem:  # such as numpy in the model, or an operation without a backward pass
        return first_line(problem)
    return DETACHED if gradient is None else None


@contextmanager
def _watching(layers: list[nn.Module], note: Callable[[nn.Module, Any], None]) -> Iterator[None]:
    """Calls `note(layer, output)` whenever one of the layers finishes in the body."""
    handles = [layer.register_forward_hook(lambda layer, args, output: note(layer, output)) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
