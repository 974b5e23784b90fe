"""How the difference between an image and a reference travels through a network: the two rules of DeepLIFT.

Linear operations keep their ordinary gradient; what bends gets the slope of the straight line between image and reference,
so that the shares of the inputs sum to the difference of outputs.
Equations are those of Shrikumar et al. 2017.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.methods.refusals import refuse
from snellen.operations import Handler, Operation, intercepting

Images = Float[Tensor, "batch channels height width"]
Targets = Int[Tensor, " batch"]

_REMEDY = "use integrated-gradients"

_SMOOTH = {"silu", "gelu", "mish", "softplus", "sigmoid", "tanh", "logsigmoid", "softsign", "tanhshrink", "erf", "exp"}
_ELEMENTWISE = {
    "neg",
    "__neg__",
    "abs",
    "square",
    "sqrt",
    "log",
    "log1p",
    "sin",
    "cos",
    "clamp",
    "clip",
    "clamp_min",
    "clamp_max",
    "hardshrink",
    "softshrink",
}
"""Unary operations that have no kind of their own."""

_SHAPE_ALONE = {
    "ones_like",
    "zeros_like",
    "full_like",
    "empty_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "new_tensor",
}
_TURNING = {"permute", "transpose", "t", "movedim", "moveaxis", "swapaxes"}
_DIVISIONS = {"div", "divide", "true_divide", "__truediv__"}
_SIGNS = {"sub": (1, -1), "__sub__": (1, -1), "rsub": (-1, 1), "__rsub__": (-1, 1)}


def rescale(name: str, classifier: Classifier, inputs: Images, starts: Images, targets: Targets) -> Images:
    """Each input's share of the difference between the target's logit at the inputs and at the starts, by the Rescale rule.

    The references go first and only forward, and the shares sum to the difference exactly.
    """
    _check(name, classifier)
    found = []
    count = max(1, classifier.rows_for(inputs, gradients=True) // 2)
    for part, start, wanted in zip(inputs.split(count), starts.split(count), targets.split(count), strict=True):
        references = _References()
        classifier.logits(start, through=references)
        rule = _Rescale(name, references)
        handler = _handler(name, rule, len(part), rule.constant)
        multipliers, _ = classifier.gradient(part, wanted, through=handler, group=len(part))
        found.append((part - start) * multipliers)
    return torch.cat(found)


def reveal_cancel(
    name: str, classifier: Classifier, inputs: Images, starts: Images, targets: Targets, *, everywhere: bool
) -> Images:
    """The same by the RevealCancel rule, which carries the rising and the falling part of each difference apart.

    Three rows per image go through the model: both parts and the reference. Without `everywhere`, feature maps follow the
    Rescale rule and only what is behind a dense layer follows this one.
    """
    _check(name, classifier)
    found = []
    count = max(1, classifier.rows_for(inputs, gradients=True) // 3)
    for part, start, wanted in zip(inputs.split(count), starts.split(count), targets.split(count), strict=True):
        way = part - start
        rows = torch.cat([way, way.abs(), start])
        handler = _handler(name, _RevealCancel(name, everywhere), len(rows))
        multipliers, _ = classifier.gradient(rows, wanted.repeat(3), through=handler, group=len(rows))
        difference, distance, taken = multipliers.chunk(3)
        found.append(way * difference + way.abs() * (distance - taken))  # see _Rows for what is taken away
    return torch.cat(found)


def look(name: str, classifier: Classifier, inputs: Images, rule: Literal["rescale", "reveal-cancel"]) -> None:
    """Refuses the first operation that the rule does not cover.

    Only a pass can tell a product with a constant from a product of two maps; like every look, it is not counted.
    """
    _check(name, classifier)
    rows = 2 if rule == "rescale" else 3
    start = inputs[:1].expand(rows, *inputs.shape[1:]).to(classifier.device).clone()
    if rule == "rescale":
        references = _References()
        with torch.no_grad(), intercepting(classifier.module, references):
            classifier.module(start.clone())  # a copy, since a model may work in place on what it is given
        one = _Rescale(name, references)
        handler = _handler(name, one, rows, one.constant)
    else:
        handler = _handler(name, _RevealCancel(name, everywhere=True), rows)
    with torch.enable_grad(), intercepting(classifier.module, handler):
        classifier.module(start.requires_grad_().clone())


def _check(name: str, classifier: Classifier) -> None:
    if not isinstance(classifier.module, torch.nn.Module) or "layer" not in classifier.offers:
        raise SnellenError(f"{name} must see every operation, but '{classifier.name}' is a compiled graph; {_REMEDY}")
    if classifier.outputs != "logits":
        raise SnellenError(f"{name} explains logits, but '{classifier.name}' puts out {classifier.outputs}; {_REMEDY}")


def _handler(
    name: str, rule: Callable[[Operation, list[Tensor]], Any], rows: int, constant: Handler = Operation.run
) -> Handler:
    """The rule for operations on what depends on the inputs, which alone needs a gradient, and another for all others."""

    def handle(operation: Operation) -> Any:
        carried = [one for one in _tensors((operation.args, operation.kwargs)) if one.requires_grad]
        if not carried or operation.name in _SHAPE_ALONE:
            return constant(operation)
        result = rule(operation, carried)
        turned = operation.name in _TURNING and result.shape[0] != carried[0].shape[0]
        if turned or any(one.dim() == 0 or one.shape[0] % rows for one in _tensors(result)):
            raise refuse(name, operation, f"it mixes the images of a batch; {_REMEDY}")
        return result

    return handle


def _tensors(nest: Any) -> Iterator[Tensor]:
    if isinstance(nest, Tensor):
        yield nest
    elif isinstance(nest, list | tuple):
        for one in nest:
            yield from _tensors(one)
    elif isinstance(nest, dict):
        yield from _tensors(list(nest.values()))


def _on(operation: Operation, values: Tensor, **changed: Any) -> Any:
    """The operation on other values, with some of its named arguments changed."""
    names = ("input", "weight", "bias")
    args, kwargs = list(operation.args), dict(operation.kwargs)
    for key, value in {"input": values, **changed}.items():
        place = names.index(key) if key in names else len(args)
        if place < len(args):
            args[place] = value
        else:
            kwargs[key] = value
    assert operation.func is not None
    return operation.func(*args, **kwargs)


def _bends(operation: Operation) -> bool:
    """Whether each number depends on one number alone, in any shape."""
    known = operation.kind in ("rectifier", "activation") and operation.name != "glu"
    return known or (operation.kind == "other" and operation.name in _ELEMENTWISE)


def _linear(operation: Operation, carried: list[Tensor]) -> bool:
    """Whether the operation is linear, up to a constant, in what depends on the inputs."""
    if operation.kind in ("mean-pool", "concatenate", "shape", "identity", "add"):
        return True
    if operation.kind == "batch-norm":
        return len(carried) == 1 and not operation.argument(5, "training", False)
    if operation.kind == "multiply":
        whole = operation.kwargs.get("rounding_mode") is not None
        below = operation.name in _DIVISIONS and carried[0] is not operation.values
        return len(carried) == 1 and not whole and not below
    return operation.kind in ("linear", "convolution", "product") and len(carried) == 1


def _derivative(operation: Operation, at: Tensor) -> Tensor:
    if operation.kind == "rectifier":
        return ((at > 0) & (at < operation.ceiling)).to(at)
    with torch.enable_grad():
        leaf = at.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(_on(operation, leaf).sum(), leaf)
    return slope


def _secant(operation: Operation, high: Tensor, low: Tensor, rise: Tensor) -> Tensor:
    """The slope of the line between two points of an elementwise function that rises by `rise` between them."""
    run = high - low
    # Where the points nearly meet, a quotient of rounded differences says less than the derivative half-way, which for a
    # smooth function is as good as the line up to the square of their distance. A kink allows no such distance.
    near = run.abs() < (3e-3 if operation.name in _SMOOTH else 1e-6)
    if not bool(near.any()):
        return rise / run
    middle = (high + low) / 2 if operation.name in _SMOOTH else high
    return torch.where(near, _derivative(operation, middle), rise / run)


# Rescale (section 3.5.2) ---------------------------------------------------------------------------------------------


class _References:
    """Keeps what every operation that bends is given in the pass of the references, for the pass of the images."""

    def __init__(self) -> None:
        self.kept: deque[tuple[tuple[str, str], Tensor]] = deque()

    def __call__(self, operation: Operation) -> Any:
        if _keeps(operation):
            # A copy, since the model may overwrite its own.
            self.kept.append(((operation.layer, operation.name), operation.values.clone()))
        return operation.run()

    def take(self, name: str, operation: Operation) -> Tensor:
        """What the operation was given for the references; it is kept no longer."""
        seen, values = self.kept.popleft() if self.kept else (None, torch.empty(0))
        if seen != (operation.layer, operation.name) or values.shape != operation.values.shape:
            raise refuse(name, operation, f"the model takes another way for its baseline; {_REMEDY}")
        return values


def _keeps(operation: Operation) -> bool:
    return _bends(operation) or operation.kind == "max-pool"


@dataclass(frozen=True)
class _Rescale:
    name: str
    references: _References

    def __call__(self, operation: Operation, carried: list[Tensor]) -> Any:
        if operation.name == "detach":
            return operation.values  # it stops gradients, not numbers
        if _bends(operation) and len(carried) == 1:
            start = self.references.take(self.name, operation)
            return _Line.apply(operation.values, operation, start)  # type: ignore[no-untyped-call]
        if operation.kind == "max-pool":
            return self.pooled(operation)
        if not _linear(operation, carried):
            raise refuse(self.name, operation, _REMEDY)
        return operation.run()

    def constant(self, operation: Operation) -> Any:
        """What does not depend on the inputs was kept too, and is passed over."""
        if _keeps(operation):
            self.references.take(self.name, operation)
        return operation.run()

    def pooled(self, operation: Operation) -> Tensor:
        """The whole difference goes to the largest value of the image or of the reference, whichever is larger.

        There the values differ at least as much as the maxima do, so the multiplier lies between 0 and 1.
        """
        image, reference = operation.values, self.references.take(self.name, operation)
        (now, at_image), (start, at_reference) = (_maxima(self.name, operation, one.detach()) for one in (image, reference))
        place = torch.where(now >= start, at_image, at_reference)
        high, low = _gather(image, place), _gather(reference, place)
        multiplier = _quotient(now - start, (high - low).detach())
        return now + multiplier * (high - high.detach())


class _Line(torch.autograd.Function):
    """An elementwise function whose slope at the images is that of the line to the references."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, operation: Operation, reference: Tensor) -> Tensor:
        now: Tensor = _on(operation, image)
        start = _on(operation, reference)
        if operation.kind != "rectifier":
            slope = _secant(operation, image, reference, now - start)
        else:
            # On one piece of a rectifier, rise and run are equal or the rise is 0, in floating point too; so the quotient
            # is right wherever the points differ at all, and a quotient of zeros is the only one that is not a number.
            run = torch.sub(image, reference, out=reference)
            slope = torch.sub(now, start, out=start).div_(run)
            if bool(slope.sum().isnan()):
                meet = torch.where(run == 0)
                slope[meet] = _derivative(operation, image[meet])
        ctx.save_for_backward(slope)
        return now

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return upstream[0] * slope, None, None


def _quotient(rise: Tensor, run: Tensor) -> Tensor:
    return torch.where(run == 0, 1.0, rise / run)


def _maxima(name: str, operation: Operation, values: Tensor) -> tuple[Tensor, Tensor]:
    """What a max-pool gives, and where in the flattened map each maximum sits."""
    args, kwargs = operation.args[1:], dict(operation.kwargs)
    kwargs.pop("input", None)
    if operation.name == "amax":
        dims = operation.argument(1, "dim", ())
        dims = sorted(one % values.dim() for one in ([dims] if isinstance(dims, int) else dims))
        if dims != list(range(2, values.dim())):
            raise refuse(name, operation, _REMEDY)
        highest, places = values.flatten(2).max(dim=-1)
        shape = values.shape[:2] + (1,) * (len(dims) if operation.argument(2, "keepdim", False) else 0)
        return highest.view(shape), places.view(shape)
    most = 1 if operation.name.startswith("adaptive") else 5
    if kwargs.pop("return_indices", False) or any(args[most:]):
        raise refuse(name, operation, _REMEDY)
    pool = getattr(functional, operation.name)
    highest, places = pool(values, *args[:most], **kwargs, return_indices=True)
    return highest, places


def _gather(values: Tensor, places: Tensor) -> Tensor:
    """The values at these places; all dimensions behind the batch and channels are counted as one."""
    return values.flatten(2).gather(-1, places.reshape(*values.shape[:2], -1)).view(places.shape)


# RevealCancel (section 3.5.3): rows are differences, then distances, then references ----------------------------------
#
# The paper carries a rising part d⁺ and a falling part d⁻. Here their sum s = d⁺ + d⁻ and distance t = d⁺ - d⁻ are carried
# instead: the same numbers, but s stays as exact as the model itself however much of the parts cancels. A layer with
# weights W sorts its terms anew, each by the sign of w s (section 3.5.1): it gives W s, and |W| |s| as the distance; where
# s is 0, half of each multiplier, which is a slope of 0 for |s|. What only scales or adds keeps the parts that it is given.


@dataclass(frozen=True)
class _RevealCancel:
    name: str
    everywhere: bool

    def __call__(self, operation: Operation, carried: list[Tensor]) -> Any:
        if operation.name == "detach":
            return operation.values
        if _bends(operation) and len(carried) == 1:
            both = self.everywhere or operation.values.dim() == 2
            return _Parts.apply(operation.values, operation, both)  # type: ignore[no-untyped-call]
        if operation.kind == "max-pool":
            return self.pooled(operation)
        if not _linear(operation, carried):
            raise refuse(self.name, operation, _REMEDY)
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
        with torch.no_grad():
            image = start + difference
            (now, at_image), (was, at_start) = (_maxima(self.name, operation, one) for one in (image, start))
            place = torch.where(now >= was, at_image, at_start)
            multiplier = _quotient(now - was, _gather(image, place) - _gather(start, place))
        return _rows(multiplier * _gather(difference, place), multiplier * _gather(distance, place), was)

    def weighed(self, operation: Operation, carried: Tensor) -> Tensor:
        """An operation with constant weights, which may have a constant term that belongs to the reference alone."""
        difference, distance, start = carried.chunk(3)
        if operation.kind == "multiply":
            other = operation.argument(1, "other")
            factor = torch.as_tensor(_third(operation.values if other is carried else other, carried)).to(carried)
            factor = 1 / factor if operation.name in _DIVISIONS else factor
            return _rows(difference * factor, distance * factor.abs(), start.detach() * factor)
        if operation.kind == "batch-norm":
            if operation.func is not functional.batch_norm:  # its namesake has another order of arguments
                raise refuse(self.name, operation, _REMEDY)
            scale = (operation.argument(2, "running_var") + operation.argument(7, "eps", 1e-5)).rsqrt()
            weight = operation.argument(3, "weight")
            scale = (scale if weight is None else scale * weight).view(1, -1, *[1] * (start.dim() - 2))
            return _rows(difference * scale, distance * scale.abs(), _on(operation, start.detach()))
        if operation.kind == "product":
            if operation.name in ("addmm", "baddbmm", "bilinear"):
                raise refuse(self.name, operation, _REMEDY)
            after = _product(operation, carried, start.detach(), size=False)
            total = _product(operation, carried, difference, size=False)
            return _rows(total, _product(operation, carried, difference.abs(), size=True), after)
        weight = operation.argument(1, "weight")
        return _rows(
            _on(operation, difference, bias=None),
            _on(operation, difference.abs(), weight=weight.abs(), bias=None),
            _on(operation, start.detach()),
        )

    def added(self, operation: Operation, carried: Tensor) -> Tensor:
        if operation.kwargs.get("alpha", 1) != 1 or len(operation.args) > 2:
            raise refuse(self.name, operation, _REMEDY)
        difference: list[Any] = []
        distance: list[Any] = []
        start: list[Any] = []
        for sign, one in zip(
            _SIGNS.get(operation.name, (1, 1)), (operation.values, operation.argument(1, "other")), strict=True
        ):
            if not (isinstance(one, Tensor) and one.requires_grad):
                start.append(sign * _third(one, carried))
                continue
            parts = one.chunk(3)
            difference.append(sign * parts[0])
            distance.append(parts[1])
            start.append(sign * parts[2].detach())
        after = sum(start)
        return _rows(sum(difference).expand_as(after), sum(distance).expand_as(after), after)


class _Rows(torch.autograd.Function):
    """Puts the three together again, so that the sum of the outputs of all rows has the gradient of the difference alone.

    What is asked of the reference is taken away from the distance: nothing on the way asks it, but the sum of outputs does.
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
        base, up, down, now = (_on(operation, one) for one in (r, r + rising, r + falling, r + s))
        if both:
            size = 1e-6 * (1 + r.abs() + s.abs())
            plus = (up - base + now - down) / 2 / rising
            plus = torch.where(rising.abs() < size, _mean_slope(operation, r, r + falling), plus)
            minus = (down - base + now - up) / 2 / falling
            minus = torch.where(falling.abs() < size, _mean_slope(operation, r, r + rising), minus)
            # The same solved for c and e, where the parts are so large that their difference would be lost.
            share, total, spread = s / t, (now - base) / t, (up - down) / t
            apart, rest = t.abs() > 2 * s.abs(), 1 - share.square()
            c = torch.where(apart, (spread - total * share) / rest, (plus + minus) / 2)
            e = torch.where(apart, (total - spread * share) / rest, (plus - minus) / 2)
            after = up - down
        else:
            c = _secant(operation, r + s, r, now - base)
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


def _mean_slope(operation: Operation, one: Tensor, two: Tensor) -> Tensor:
    return (_derivative(operation, one) + _derivative(operation, two)) / 2


def _third(constant: Any, carried: Tensor) -> Any:
    """One third of a constant that the model made for every row; anything else as it is."""
    if isinstance(constant, Tensor) and constant.dim() == carried.dim() and len(constant) == len(carried):
        return constant.chunk(3)[0]
    return constant


def _product(operation: Operation, carried: Tensor, values: Tensor, *, size: bool) -> Any:
    """The operation with other values, and with the magnitudes of its constants if only their size matters."""

    def put(one: Any) -> Any:
        if one is carried:
            return values
        if isinstance(one, list | tuple):
            return type(one)(map(put, one))
        return one.abs() if size and isinstance(one, Tensor) else one

    assert operation.func is not None
    return operation.func(*map(put, operation.args), **{key: put(one) for key, one in operation.kwargs.items()})


def _shaped(operation: Operation) -> Any:
    if operation.name == "pad" and operation.argument(3, "value"):  # a border of the reference is no difference
        third = len(operation.values) // 3
        parts, start = operation.values.split([2 * third, third])
        return torch.cat([functional.pad(parts, operation.argument(1, "pad")), _on(operation, start)])
    return operation.run()


def _concatenated(operation: Operation, rows: int) -> Any:
    """Constants belong to the reference alone."""
    parts = []
    for one in operation.argument(0, "tensors"):
        part = one if one.requires_grad else one.clone()
        if part is not one:
            part[: 2 * rows // 3] = 0
        parts.append(part)
    assert operation.func is not None
    rest = {key: value for key, value in operation.kwargs.items() if key != "tensors"}
    return operation.func(parts, *operation.args[1:], **rest)
