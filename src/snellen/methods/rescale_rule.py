"""DeepLIFT's Rescale rule (section 3.5.2): a nonlinearity becomes the line between its values at reference and image."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.operations import Handler, Operation
from snellen.methods.differences import (
    REMEDY,
    as_handler,
    check,
    check_target,
    copies,
    derivative,
    gather,
    is_linear,
    is_nonlinear,
    pooling,
    run_on,
    secant,
    walk,
)
from snellen.methods.refusals import refusal
from snellen.types import Images, Targets


def shares(name: str, classifier: Classifier, inputs: Images, starts: Images, targets: Targets) -> Images:
    """Each input's share of the difference between the target's logit at the inputs and at the starts, by this rule.

    The references go first and only forward, and the shares sum to the difference exactly.
    """
    check(name, classifier)
    parts = []
    count = max(1, classifier.rows_for(inputs, gradients=True) // 2)
    for part, start, classes in zip(inputs.split(count), starts.split(count), targets.split(count), strict=True):
        references = _References()
        classifier.logits(start, through=references)
        handler = _handler(name, references, len(part))
        multipliers, _ = classifier.gradient(part, classes, through=handler, group=len(part))
        parts.append((part - start) * multipliers)
    return torch.cat(parts)


def check_operations(name: str, classifier: Classifier, inputs: Images) -> None:
    """Refuses the first operation that the rule does not cover.

    Only a pass can tell a product with a constant from a product of two maps.
    """
    check(name, classifier)
    check_target(name, classifier, inputs)
    images = copies(classifier, inputs, 2)
    references = _References()
    with torch.no_grad():
        walk(classifier, images, references)
    with torch.enable_grad():
        walk(classifier, images.requires_grad_(), _handler(name, references, len(images)))


def _handler(name: str, references: _References, rows: int) -> Handler:
    rule = _Rescale(name, references)
    return as_handler(name, rule, rows, rule.constant)


class _References:
    """Stores the inputs of all nonlinearities in the pass of the references, for the pass of the images."""

    def __init__(self) -> None:
        self.stored: deque[tuple[tuple[str, str], Tensor]] = deque()

    def __call__(self, operation: Operation) -> Any:
        if _keeps(operation):
            # A copy, since the model may overwrite its own.
            self.stored.append(((operation.layer, operation.name), operation.values.clone()))
        return operation.run()

    def take(self, name: str, operation: Operation) -> Tensor:
        """Removes and returns the operation's input in the pass of the references."""
        key, values = self.stored.popleft() if self.stored else (None, torch.empty(0))
        if key != (operation.layer, operation.name) or values.shape != operation.values.shape:
            raise refusal(name, operation, f"the model computes other operations for its baseline; {REMEDY}")
        return values


def _keeps(operation: Operation) -> bool:
    return is_nonlinear(operation) or operation.kind == "max-pool"


@dataclass(frozen=True)
class _Rescale:
    name: str
    references: _References

    def __call__(self, operation: Operation, carried: list[Tensor]) -> Any:
        if is_nonlinear(operation) and len(carried) == 1:
            start = self.references.take(self.name, operation)
            return _Line.apply(operation.values, operation, start)  # type: ignore[no-untyped-call]
        if operation.kind == "max-pool":
            image = operation.values
            now, _, place, multiplier = pooling(self.name, operation, image, self.references.take(self.name, operation))
            high = gather(image, place)
            return now + multiplier * (high - high.detach())
        if not is_linear(operation, carried):
            raise refusal(self.name, operation, REMEDY)
        return operation.run()

    def constant(self, operation: Operation) -> Any:
        """Drops the stored values of an operation that does not depend on the inputs."""
        if _keeps(operation):
            self.references.take(self.name, operation)
        return operation.run()


class _Line(torch.autograd.Function):
    """An elementwise function whose slope at the images is that of the line to the references."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, operation: Operation, reference: Tensor) -> Tensor:
        now: Tensor = run_on(operation, image)
        start = run_on(operation, reference)
        if operation.kind != "rectifier":
            slope = secant(operation, image, reference, now - start)
        else:
            # On one piece of a rectifier, rise and run are equal or the rise is 0, in floating point too; so the quotient
            # is right wherever the points differ at all, and a quotient of zeros is the only one that is not a number.
            run = torch.sub(image, reference, out=reference)
            slope = torch.sub(now, start, out=start).div_(run)
            if bool(slope.sum().isnan()):
                equal = torch.where(run == 0)
                slope[equal] = derivative(operation, image[equal])
        ctx.save_for_backward(slope)
        return now

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return upstream[0] * slope, None, None
