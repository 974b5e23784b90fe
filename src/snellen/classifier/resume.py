"""Resuming a pass from a layer: the calls after the layer are recorded once and repeated on other activations.

Methods that change the output of one layer many times then run only the part after it. This works only if nothing after the
layer reads values that were computed from the image before it; in case of doubt it is not used.
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

QUERIES = {
    "__get__", "dim", "size", "numel", "nelement", "ndimension", "stride", "is_floating_point", "is_complex", "__hash__",
    "is_contiguous", "element_size", "get_device", "storage_offset", "type", "__len__", "is_inference",
}  # fmt: skip
"""Functions whose results do not depend on a tensor's values."""

_GRADIENT_MODES = {"_set_grad_enabled", "set_grad_enabled"}


@dataclass(frozen=True)
class _Result:
    """Placeholder for a tensor that an earlier recorded call returned; number 0 is the layer's output."""

    number: int


@dataclass(frozen=True)
class _PerRow:
    """Placeholder for an integer that is proportional to the number of rows."""

    times: int


@dataclass(frozen=True, eq=False)
class _Call:
    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[int, ...]
    """Numbers of the tensors that the call returns."""
    frees: tuple[int, ...] = ()
    """Numbers of the tensors that no later call needs."""


@dataclass(frozen=True, eq=False)
class LayerToLogits:
    """The part of a model from a layer's output to the logits; gradients flow through it."""

    calls: tuple[_Call, ...]
    """The recorded calls after the layer, in their order."""
    end: int
    """Number of the tensor that holds the logits."""

    def __call__(self, activations: Float[Tensor, "rows ..."]) -> Float[Tensor, "rows classes"]:
        tensors: dict[int, Tensor] = {0: activations.clone()}  # a call may work in place
        rows = len(activations)

        def fill_in(value: Any) -> Any:
            if isinstance(value, _Result):
                return tensors[value.number]
            return value.times * rows if isinstance(value, _PerRow) else value

        for call in self.calls:
            args, kwargs = _map(call.args, fill_in), _map(call.kwargs, fill_in)
            result = call.func(*args, **kwargs)
            tensors.update(zip(call.results, tensors_in(changed_tensors(call.func, args, result)), strict=True))
            for number in call.frees:
                del tensors[number]
        return tensors[self.end]


def trace_layer_to_logits(
    layer: nn.Module, run: Callable[[Tensor], Tensor], image: Float[Tensor, "1 channels height width"]
) -> LayerToLogits | None:
    """The part of a model after a layer, or None if the whole model must run.

    Recordings with two and with three rows show which integers depend on the batch size. The result is tested: it must give
    the model's own logits for four rows of other activations.

    Args:
        layer: the layer.
        run: makes a pass of the model that contains the layer.
        image: an input as a batch of one.
    """
    with torch.no_grad():
        two, three = (_record(layer, run, image.repeat(rows, 1, 1, 1)) for rows in (2, 3))
        if two is None or three is None or len(two.calls) != len(three.calls) or two.end != three.end:
            return None
        try:
            calls = [_common(*pair) for pair in zip(two.calls, three.calls, strict=True)]
        except _DifferError:
            return None
        rest = LayerToLogits(_with_frees(calls, two.end), two.end)
        activations = two.start[:1]
        others = torch.cat([activations, 0.5 * activations, activations.flip(1), torch.zeros_like(activations)])
        expected = run_replaced(layer, lambda _: others.clone(), lambda: run(image.repeat(4, 1, 1, 1)))
        try:
            logits = rest(others)
        except (RuntimeError, ValueError, TypeError, IndexError):  # some shape did not fit
            return None
        is_same = logits.shape == expected.shape and torch.allclose(
            logits, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max())
        )
    return rest if is_same else None


def run_replaced(layer: nn.Module, replace: Callable[[Tensor], Tensor], run: Callable[[], Tensor]) -> Tensor:
    """The result of `run` when the layer's output is replaced by `replace(output)`."""
    handle = layer.register_forward_hook(lambda module, args, output: replace(output))
    try:
        return run()
    finally:
        handle.remove()


@dataclass(frozen=True, eq=False)
class _Recording:
    calls: list[_Call]
    start: Tensor
    end: int


class _DifferError(Exception):
    """Two recordings differ by more than the number of rows."""


class _Recorder(TorchFunctionMode):
    """Follows values computed from the image up to the layer, and records every call after it."""

    def __init__(self, image: Tensor) -> None:
        super().__init__()
        self.before: Any = WeakTensorKeyDictionary()
        self.before[image] = True
        self.numbers: Any = WeakTensorKeyDictionary()
        self.start: Tensor | None = None
        self.calls: list[_Call] = []
        self.count = 0
        self.complete = True

    def begin(self, output: Any) -> Any:
        if not isinstance(output, Tensor) or self.start is not None:
            self.complete = False
            return None
        # A copy, to distinguish the layer's output from the same tensor inside the layer.
        fresh = output.clone()
        self.start = output.detach().clone()
        self.numbers[fresh] = 0
        return fresh

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        arguments = list(tensors_in((tuple(args), kwargs)))
        if self.start is None:
            result = func(*args, **kwargs)
            if any(tensor in self.before for tensor in arguments):
                for tensor in tensors_in(changed_tensors(func, args, result)):
                    self.before[tensor] = True
            return result
        recorded_args, recorded_kwargs = _map(tuple(args), self._placeholder), _map(kwargs, self._placeholder)
        result = func(*args, **kwargs)
        results = list(tensors_in(changed_tensors(func, args, result)))
        name = getattr(func, "__name__", "")
        follows = [tensor in self.numbers for tensor in arguments]
        if not results:
            # The model reads values here, and might take another branch with other values.
            self.complete &= name in QUERIES or not (any(follows) or name in _GRADIENT_MODES)
            return result
        from_before = any(tensor in self.before and tensor not in self.numbers for tensor in arguments)
        argument_ids = {id(tensor) for tensor in arguments}
        over_constant = any(id(tensor) in argument_ids and tensor not in self.numbers for tensor in results)
        self.complete &= not from_before and not over_constant
        numbers = []
        for tensor in results:
            if tensor not in self.numbers:
                self.count += 1
                self.numbers[tensor] = self.count
            numbers.append(self.numbers[tensor])
        self.calls.append(_Call(func=func, args=recorded_args, kwargs=recorded_kwargs, results=tuple(numbers)))
        return result

    def _placeholder(self, value: Any) -> Any:
        return _Result(self.numbers[value]) if isinstance(value, Tensor) and value in self.numbers else value


def _record(layer: nn.Module, run: Callable[[Tensor], Tensor], images: Tensor) -> _Recording | None:
    recorder = _Recorder(images)
    handle = layer.register_forward_hook(lambda module, args, output: recorder.begin(output))
    try:
        with recorder:
            logits = run(images)
    finally:
        handle.remove()
    if not recorder.complete or recorder.start is None or logits not in recorder.numbers:
        return None
    return _Recording(recorder.calls, recorder.start, recorder.numbers[logits])


def _common(two: _Call, three: _Call) -> _Call:
    """The call for any number of rows, from the recorded calls with two and with three rows."""
    if two.func != three.func or two.results != three.results:
        raise _DifferError
    return _Call(
        func=two.func, args=_merge(two.args, three.args), kwargs=_merge(two.kwargs, three.kwargs), results=two.results
    )


def _merge(two: Any, three: Any) -> Any:
    if type(two) is not type(three):
        raise _DifferError
    if isinstance(two, tuple | list):
        if len(two) != len(three):
            raise _DifferError
        merged = [_merge(*pair) for pair in zip(two, three, strict=True)]
        return merged if isinstance(two, list) else tuple(merged)
    if isinstance(two, dict):
        if two.keys() != three.keys():
            raise _DifferError
        return {key: _merge(two[key], three[key]) for key in two}
    if isinstance(two, slice):
        return slice(*(_merge(*pair) for pair in zip(_ends(two), _ends(three), strict=True)))
    if isinstance(two, Tensor):
        if two is three or (two.shape == three.shape and torch.equal(two, three)):
            return two
        raise _DifferError
    if two == three:
        return two
    if isinstance(two, int) and not isinstance(two, bool) and 3 * two == 2 * three:
        return _PerRow(two // 2)
    raise _DifferError


def _with_frees(calls: list[_Call], end: int) -> tuple[_Call, ...]:
    """The same calls with `frees` filled in."""
    needed = {end}
    reversed_calls: list[_Call] = []
    for call in reversed(calls):
        used = {leaf.number for leaf in _leaves((call.args, call.kwargs)) if isinstance(leaf, _Result)} | set(call.results)
        reversed_calls.append(
            _Call(func=call.func, args=call.args, kwargs=call.kwargs, results=call.results, frees=tuple(used - needed))
        )
        needed |= used
    return tuple(reversed(reversed_calls))


def changed_tensors(func: Any, args: Any, result: Any) -> Any:
    """What a call writes to: its result, or the tensor whose items it sets."""
    return args[0] if func is Tensor.__setitem__ else result


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple | list):
        changed = [_map(item, change) for item in value]
        return changed if isinstance(value, list) else tuple(changed)
    if isinstance(value, dict):
        return {key: _map(item, change) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_map(item, change) for item in _ends(value)))
    return change(value)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, slice):
        value = _ends(value)
    if isinstance(value, tuple | list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists, dictionaries and slices."""
    return (item for item in _leaves(value) if isinstance(item, Tensor))


def _ends(value: slice) -> tuple[Any, Any, Any]:
    return value.start, value.stop, value.step
