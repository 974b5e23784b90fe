"""What follows a layer, noted once as a list of calls and made again on other activations of that layer.

Methods that change one layer a thousand times need not run what comes before it a thousand times. A tail exists only where
nothing after the layer reads what was computed from the image before it; where that is in doubt, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

_STRUCTURE = {
    "__get__", "dim", "size", "numel", "nelement", "ndimension", "stride", "is_floating_point", "is_complex", "__hash__",
    "is_contiguous", "element_size", "get_device", "storage_offset", "type", "__len__", "is_inference",
}  # fmt: skip
"""Questions whose answers do not hang on a tensor's values."""

_GRADIENT_MODES = {"_set_grad_enabled", "set_grad_enabled"}


@dataclass(frozen=True)
class _Made:
    """Stands for a tensor that an earlier call of the tape made; number 0 is the layer's output."""

    number: int


@dataclass(frozen=True)
class _PerRow:
    """Stands for a whole number that grows with the rows of the batch."""

    times: int


@dataclass(frozen=True, eq=False)
class _Call:
    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    makes: tuple[int, ...]
    frees: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class LayerToLogits:
    """The calls from a layer's output to the logits; gradients flow through it as through the model."""

    calls: tuple[_Call, ...]
    end: int

    def __call__(self, activations: Float[Tensor, "rows ..."]) -> Float[Tensor, "rows classes"]:
        held: dict[int, Tensor] = {0: activations.clone()}  # a call may work in place
        rows = len(activations)

        def given(value: Any) -> Any:
            if isinstance(value, _Made):
                return held[value.number]
            return value.times * rows if isinstance(value, _PerRow) else value

        for call in self.calls:
            args, kwargs = _mapped(call.args, given), _mapped(call.kwargs, given)
            result = call.func(*args, **kwargs)
            held.update(zip(call.makes, _tensors(_written(call.func, args, result)), strict=True))
            for number in call.frees:
                del held[number]
        return held[self.end]


def trace_layer_to_logits(
    layer: nn.Module, run: Callable[[Tensor], Tensor], image: Float[Tensor, "1 channels height width"]
) -> LayerToLogits | None:
    """The tail behind a layer of the model that `run` calls, or None where the whole model must run.

    Two recordings with two and three rows tell which numbers mean the batch. The tail must then give the model's own
    logits for four rows of other activations.
    """
    with torch.no_grad():
        two, three = (_record(layer, run, image.repeat(rows, 1, 1, 1)) for rows in (2, 3))
        if two is None or three is None or len(two.calls) != len(three.calls) or two.end != three.end:
            return None
        try:
            calls = [_common(call, other) for call, other in zip(two.calls, three.calls, strict=True)]
        except _DifferError:
            return None
        tail = LayerToLogits(_freeing(calls, two.end), two.end)
        own = two.start[:1]
        others = torch.cat([own, 0.5 * own, own.flip(1), torch.zeros_like(own)])
        expected = run_replaced(layer, lambda _: others.clone(), lambda: run(image.repeat(4, 1, 1, 1)))
        try:
            found = tail(others)
        except (RuntimeError, ValueError, TypeError, IndexError):  # whatever shape did not fit: the model itself will do
            return None
        near = found.shape == expected.shape and torch.allclose(
            found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max())
        )
    return tail if near else None


def run_replaced(layer: nn.Module, replace: Callable[[Tensor], Tensor], run: Callable[[], Tensor]) -> Tensor:
    """What the model gives when this layer puts out something else; `replace` is given what it would have put out."""
    handle = layer.register_forward_hook(lambda module, args, output: replace(output))
    try:
        return run()
    finally:
        handle.remove()


@dataclass(frozen=True, eq=False)
class _Tape:
    calls: list[_Call]
    start: Tensor
    end: int


class _DifferError(Exception):
    """Two recordings cannot be told by the number of rows alone."""


class _Recorder(TorchFunctionMode):
    """Follows the image up to the layer, and notes every call from there on."""

    def __init__(self, image: Tensor) -> None:
        super().__init__()
        self.before: Any = WeakTensorKeyDictionary()
        self.before[image] = True
        self.numbers: Any = WeakTensorKeyDictionary()
        self.start: Tensor | None = None
        self.calls: list[_Call] = []
        self.made = 0
        self.whole = True

    def begin(self, output: Any) -> Any:
        if not isinstance(output, Tensor) or self.start is not None:
            self.whole = False
            return None
        # Whoever holds the layer's own output from within the layer holds something else than what the layer put out.
        fresh = output.clone()
        self.start = output.detach().clone()
        self.numbers[fresh] = 0
        return fresh

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = list(_tensors((tuple(args), kwargs)))
        if self.start is None:
            result = func(*args, **kwargs)
            if any(one in self.before for one in given):
                for tensor in _tensors(_written(func, args, result)):
                    self.before[tensor] = True
            return result
        noted_args, noted_kwargs = _mapped(tuple(args), self._noted), _mapped(kwargs, self._noted)
        result = func(*args, **kwargs)
        made = list(_tensors(_written(func, args, result)))
        name = getattr(func, "__name__", "")
        follows = [one in self.numbers for one in given]
        if not made:
            # Here the model would look at values, and might go another way with others.
            self.whole &= name in _STRUCTURE or not (any(follows) or name in _GRADIENT_MODES)
            return result
        from_before = any(one in self.before and one not in self.numbers for one in given)
        known = {id(one) for one in given}
        over_constant = any(id(one) in known and one not in self.numbers for one in made)
        self.whole &= not from_before and not over_constant
        makes = []
        for one in made:
            if one not in self.numbers:
                self.made += 1
                self.numbers[one] = self.made
            makes.append(self.numbers[one])
        self.calls.append(_Call(func, noted_args, noted_kwargs, tuple(makes)))
        return result

    def _noted(self, value: Any) -> Any:
        return _Made(self.numbers[value]) if isinstance(value, Tensor) and value in self.numbers else value


def _record(layer: nn.Module, run: Callable[[Tensor], Tensor], images: Tensor) -> _Tape | None:
    recorder = _Recorder(images)
    handle = layer.register_forward_hook(lambda module, args, output: recorder.begin(output))
    try:
        with recorder:
            logits = run(images)
    finally:
        handle.remove()
    if not recorder.whole or recorder.start is None or logits not in recorder.numbers:
        return None
    return _Tape(recorder.calls, recorder.start, recorder.numbers[logits])


def _common(two: _Call, three: _Call) -> _Call:
    """One call for any number of rows, from the same call with two rows and with three."""
    if two.func != three.func or two.makes != three.makes:
        raise _DifferError
    return _Call(two.func, _merged(two.args, three.args), _merged(two.kwargs, three.kwargs), two.makes)


def _merged(two: Any, three: Any) -> Any:
    if type(two) is not type(three):
        raise _DifferError
    if isinstance(two, tuple | list):
        if len(two) != len(three):
            raise _DifferError
        merged = [_merged(*pair) for pair in zip(two, three, strict=True)]
        return merged if isinstance(two, list) else tuple(merged)
    if isinstance(two, dict):
        if two.keys() != three.keys():
            raise _DifferError
        return {key: _merged(two[key], three[key]) for key in two}
    if isinstance(two, slice):
        return slice(*(_merged(*pair) for pair in zip(_ends(two), _ends(three), strict=True)))
    if isinstance(two, Tensor):
        if two is three or (two.shape == three.shape and torch.equal(two, three)):
            return two
        raise _DifferError
    if two == three:
        return two
    if isinstance(two, int) and not isinstance(two, bool) and 3 * two == 2 * three:
        return _PerRow(two // 2)
    raise _DifferError


def _freeing(calls: list[_Call], end: int) -> tuple[_Call, ...]:
    """The same calls, each told which tensors nobody needs after it."""
    needed = {end}
    found: list[_Call] = []
    for call in reversed(calls):
        touched = {leave.number for leave in _leaves((call.args, call.kwargs)) if isinstance(leave, _Made)} | set(call.makes)
        found.append(_Call(call.func, call.args, call.kwargs, call.makes, tuple(touched - needed)))
        needed |= touched
    return tuple(reversed(found))


def _written(func: Any, args: Any, result: Any) -> Any:
    return args[0] if func is Tensor.__setitem__ else result


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple | list):
        changed = [_mapped(one, change) for one in value]
        return changed if isinstance(value, list) else tuple(changed)
    if isinstance(value, dict):
        return {key: _mapped(one, change) for key, one in value.items()}
    if isinstance(value, slice):
        return slice(*(_mapped(end, change) for end in _ends(value)))
    return change(value)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, slice):
        value = _ends(value)
    if isinstance(value, tuple | list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _tensors(value: Any) -> Iterator[Tensor]:
    return (leave for leave in _leaves(value) if isinstance(leave, Tensor))


def _ends(value: slice) -> tuple[Any, Any, Any]:
    return value.start, value.stop, value.step
