"""Sees and replaces every rectifier of a forward pass, whether module, function, method, in place or used twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

Rule = Callable[[Tensor, float], Tensor]
"""Replaces `clamp(values, 0, ceiling)`; the ceiling is infinite for a ReLU and 6 for a ReLU6."""

_INFINITE = float("inf")
_RELU = {functional.relu, torch.relu, Tensor.relu}
_RELU_IN_PLACE = {functional.relu_, torch.relu_, Tensor.relu_}
_HARDTANH = {functional.hardtanh, functional.hardtanh_}
_CLAMP_MIN = {torch.clamp_min, Tensor.clamp_min}
_CLAMP = {torch.clamp, Tensor.clamp}
_OTHERS = {
    getattr(functional, name): name
    for name in (
        "silu", "gelu", "elu", "elu_", "leaky_relu", "leaky_relu_", "hardswish", "mish", "selu", "selu_", "celu", "prelu",
        "softplus", "rrelu",
    )
}  # fmt: skip


class Rectifiers(TorchFunctionMode):
    """Counts activation functions by name, and applies `rule` in place of each rectifier when one is given.

    A functional ReLU and a module that is used twice look the same from here, so neither can be missed.
    """

    def __init__(self, rule: Rule | None = None) -> None:
        super().__init__()
        self.rule = rule
        self.seen: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _OTHERS:
            self.seen[_OTHERS[func].rstrip("_")] += 1
        ceiling, in_place = _ceiling(func, args, kwargs)
        if ceiling is None:
            return func(*args, **kwargs)
        self.seen["relu" if ceiling == _INFINITE else "relu6"] += 1
        if self.rule is None:
            return func(*args, **kwargs)
        values = args[0] if args else kwargs["input"]
        replaced = self.rule(values, ceiling)
        return values.copy_(replaced) if in_place else replaced


def _ceiling(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[float | None, bool]:
    """The upper end of a rectifier and whether it works in place; None for any other function."""

    def argument(place: int, name: str, default: Any) -> Any:
        return args[place] if len(args) > place else kwargs.get(name, default)

    if func in _RELU_IN_PLACE:
        return _INFINITE, True
    if func in _RELU:
        return _INFINITE, bool(argument(1, "inplace", False))
    if func is functional.relu6:
        return 6.0, bool(argument(1, "inplace", False))
    if func in _HARDTANH and argument(1, "min_val", -1.0) == 0:
        return float(argument(2, "max_val", 1.0)), func is functional.hardtanh_ or bool(argument(3, "inplace", False))
    if func in _CLAMP_MIN and _is_zero(argument(1, "min", None)):
        return _INFINITE, False
    if func in _CLAMP and _is_zero(argument(1, "min", None)):
        upper = argument(2, "max", None)
        return (_INFINITE if upper is None else float(upper)), False
    return None, False


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0
