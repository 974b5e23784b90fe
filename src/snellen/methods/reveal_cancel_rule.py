"""DeepLIFT's RevealCancel rule (section 3.5.3), which carries the rising and the falling part of each difference far.

Rows are differences, then distances, then references. The paper carries a rising part d⁺ and a falling part d⁻. Here their
sum s = d⁺ + d⁻ and distance t = d⁺ - d⁻ are carried instead: the same numbers, but s stays as exact as the model itself
however much of the parts cancels. A layer with weights W sorts its terms anew, each by the sign of w s (section 3.5.1): it
gives W s, and |W| |s| as the distance; where s is 0, half of each multiplier, which is a slope of 0 for |s|. What only
scales or adds keeps the parts that it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from snellen.classifier import Classifier
from snellen.classifier.operations import Operation
from snellen.methods.differences import (
    DIVISIONS,
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

_SIGNS = {"sub": (1, -1), "__sub__": (1, -1), "rsub": (-1, 1), "__rsub__": (-1, 1)}


def shares(
    name: str, classifier: Classifier, inputs: Images, starts: Images, targets: Targets, *, everywhere: bool
) -> Images:
    """Each input's share of the difference between the target's logit at the inputs and at the starts, by this rule.

    Three rows per image go through the model: both parts and the reference. Without `everywhere`, feature maps follow the
    Rescale rule and only what is behind a dense layer follows this one.
    """
    check(name, classifier)
    all_shares = []
    count = max(1, classifier.rows_for(inputs, gradients=True) // 3)
    for part, start, classes in zip(inputs.split(count), starts.split(count), targets.split(count), strict=True):
        change = part - start
        rows = torch.cat([change, change.abs(), start])
        handler = as_handler(name, _RevealCancel(name, everywhere), len(rows))
        multipliers, _ = classifier.gradient(rows, classes.repeat(3), through=handler, group=len(rows))
        difference, distance, taken = multipliers.chunk(3)
        all_shares.append(change * difference + change.abs() * (distance - taken))  # _Rows says why this is subtracted
    return torch.cat(all_shares)


def check_operations(name: str, classifier: Classifier, inputs: Images) -> None:
    """Refuses the first operation that the rule does not cover.

    Only a pass can tell a product with a constant from a product of two maps.
    """
    check(name, classifier)
    check_target(name, classifier, inputs)
    images = copies(classifier, inputs, 3)
    with torch.enable_grad():
        walk(classifier, images.requires_grad_(), as_handler(name, _RevealCancel(name, everywhere=True), len(images)))


@dataclass(frozen=True)
class _RevealCancel:
    name: str
    everywhere: bool

    def __call__(self, operation: Operation, carried: list[Tensor]) -> Any:
        if is_nonlinear(operation) and len(carried) == 1:
            both = self.everywhere or operation.values.dim() == 2
            return _Parts.apply(operation.values, operation, both)  # type: ignore[no-untyped-call]
        if operation.kind == "max-pool":
            return self.pooled(operation)
        if not is_linear(operation, carried):
            raise refusal(self.name, operation, REMEDY)
        if operation.kind in ("mean-pool", "identity"):
            return operation.run()
        if operation.kind == "shape":
            return _shaped(operation)
        if operation.kind == "concatenate":
            return _concatenated(operation, len(carried[0]))
        if operation.kind == "add":
            return self.added(operation, carried[0])
        return self.weighed(operation, carried[0])

    def pooled(self, operation: Operation) -> Tensor:
        """As with Rescale: both parts of the winning place share its multiplier, which is never negative."""
        difference, distance, start = operation.values.chunk(3)
        _, was, place, multiplier = pooling(self.name, operation, start + difference, start)
        return _rows(multiplier * gather(difference, place), multiplier * gather(distance, place), was)

    def weighed(self, operation: Operation, carried: Tensor) -> Tensor:
        """An operation with constant weights, which may have a constant term that belongs to the reference alone."""
        difference, distance, start = carried.chunk(3)
        if operation.kind == "multiply":
            other = operation.argument(1, "other")
            factor = torch.as_tensor(_third(operation.values if other is carried else other, carried)).to(carried)
            factor = 1 / factor if operation.name in DIVISIONS else factor
            return _rows(difference * factor, distance * factor.abs(), start.detach() * factor)
        if operation.kind == "batch-norm":
            if operation.func is not functional.batch_norm:  # torch.batch_norm has another order of arguments
                raise refusal(self.name, operation, REMEDY)
            scale = (operation.argument(2, "running_var") + operation.argument(7, "eps", 1e-5)).rsqrt()
            weight = operation.argument(3, "weight")
            scale = (scale if weight is None else scale * weight).view(1, -1, *[1] * (start.dim() - 2))
            return _rows(difference * scale, distance * scale.abs(), run_on(operation, start.detach()))
        if operation.kind == "product":
            if operation.name in ("addmm", "baddbmm", "bilinear"):
                raise refusal(self.name, operation, REMEDY)
            after = _product(operation, carried, start.detach(), size=False)
            total = _product(operation, carried, difference, size=False)
            return _rows(total, _product(operation, carried, difference.abs(), size=True), after)
        weight = operation.argument(1, "weight")
        return _rows(
            run_on(operation, difference, bias=None),
            run_on(operation, difference.abs(), weight=weight.abs(), bias=None),
            run_on(operation, start.detach()),
        )

    def added(self, operation: Operation, carried: Tensor) -> Tensor:
        if operation.kwargs.get("alpha", 1) != 1 or len(operation.args) > 2:
            raise refusal(self.name, operation, REMEDY)
        difference: list[Any] = []
        distance: list[Any] = []
        start: list[Any] = []
        for sign, operand in zip(
            _SIGNS.get(operation.name, (1, 1)), (operation.values, operation.argument(1, "other")), strict=True
        ):
            if not (isinstance(operand, Tensor) and operand.requires_grad):
                start.append(sign * _third(operand, carried))
                continue
            parts = operand.chunk(3)
            difference.append(sign * parts[0])
            distance.append(parts[1])
            start.append(sign * parts[2].detach())
        after = sum(start)
        return _rows(sum(difference).expand_as(after), sum(distance).expand_as(after), after)


class _Rows(torch.autograd.Function):
    """Joins the three kinds of rows, so that the sum of the outputs of all rows has the gradient of the difference alone.

    The gradient at the reference comes only from that sum; it is subtracted from the gradient at the distance.
    """

    @staticmethod
    def forward(ctx: Any, difference: Tensor, distance: Tensor, start: Tensor) -> Tensor:
        return torch.cat([difference, distance, start])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        difference, distance, start = upstream[0].chunk(3)
        return difference, distance - start, None


def _rows(difference: Tensor, distance: Tensor, start: Tensor) -> Tensor:
    joined: Tensor = _Rows.apply(difference, distance, start)  # type: ignore[no-untyped-call]
    return joined


class _Parts(torch.autograd.Function):
    """An elementwise function f of both parts, with the multipliers of equations 13 and 14.

    With the paper's y⁺ = m⁺ d⁺ and y⁻ = m⁻ d⁻, the new sum is S = f(r + s) - f(r) and the new distance is
    T = f(r + d⁺) - f(r + d⁻). Then S = c s + e t and T = e s + c t, with c and e half the sum and difference of m⁺ and m⁻.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, operation: Operation, both: bool) -> Tensor:
        s, t, r = values.chunk(3)
        rising, falling = (t + s) / 2, (s - t) / 2
        base, up, down, now = (run_on(operation, values) for values in (r, r + rising, r + falling, r + s))
        if both:
            size = 1e-6 * (1 + r.abs() + s.abs())
            plus = (up - base + now - down) / 2 / rising
            plus = torch.where(rising.abs() < size, _mean_slope(operation, r, r + falling), plus)
            minus = (down - base + now - up) / 2 / falling
            minus = torch.where(falling.abs() < size, _mean_slope(operation, r, r + rising), minus)
            # The same solved for c and e, where the parts are so large that their difference would be lost.
            share, total, spread = s / t, (now - base) / t, (up - down) / t
            far, rest = t.abs() > 2 * s.abs(), 1 - share.square()
            c = torch.where(far, (spread - total * share) / rest, (plus + minus) / 2)
            e = torch.where(far, (total - spread * share) / rest, (plus - minus) / 2)
            after = up - down
        else:
            c = secant(operation, r + s, r, now - base)
            e = torch.zeros_like(c)
            after = c * t
        ctx.save_for_backward(c, e)
        return torch.cat([now - base, after, base])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        c, e = ctx.saved_tensors
        s, t, r = upstream[0].chunk(3)
        t = t - r  # as in _Rows
        return torch.cat([c * s + e * t, e * s + c * t, torch.zeros_like(r)]), None, None


def _mean_slope(operation: Operation, start: Tensor, end: Tensor) -> Tensor:
    return (derivative(operation, start) + derivative(operation, end)) / 2


def _third(constant: Any, carried: Tensor) -> Any:
    """One third of a constant that the model made for every row; anything else as it is."""
    if isinstance(constant, Tensor) and constant.dim() == carried.dim() and len(constant) == len(carried):
        return constant.chunk(3)[0]
    return constant


def _product(operation: Operation, carried: Tensor, values: Tensor, *, size: bool) -> Any:
    """The operation with other values, and with the magnitudes of its constants if only their size matters."""

    def put(tensor: Tensor) -> Tensor:
        if tensor is carried:
            return values
        return tensor.abs() if size else tensor

    args, kwargs = tree_map_only(Tensor, put, (operation.args, operation.kwargs))
    assert operation.func is not None
    return operation.func(*args, **kwargs)


def _shaped(operation: Operation) -> Any:
    if operation.name == "pad" and operation.argument(3, "value"):  # padding with a constant belongs to the reference alone
        third = len(operation.values) // 3
        parts, start = operation.values.split([2 * third, third])
        return torch.cat([functional.pad(parts, operation.argument(1, "pad")), run_on(operation, start)])
    return operation.run()


def _concatenated(operation: Operation, rows: int) -> Any:
    """Constants belong to the reference alone."""
    parts = []
    for tensor in operation.argument(0, "tensors"):
        part = tensor if tensor.requires_grad else tensor.clone()
        if part is not tensor:
            part[: 2 * rows // 3] = 0
        parts.append(part)
    assert operation.func is not None
    rest = {key: value for key, value in operation.kwargs.items() if key != "tensors"}
    return operation.func(parts, *operation.args[1:], **rest)
