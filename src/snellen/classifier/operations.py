"""Operations: the tensor functions of a forward pass, by kind and layer; a handler may replace each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn
from torch.overrides import TorchFunctionMode

Kind = Literal[
    "rectifier", "activation", "linear", "convolution", "batch-norm", "normalisation", "softmax", "attention", "max-pool",
    "mean-pool", "add", "multiply", "product", "concatenate", "shape", "identity", "other",
]  # fmt: skip

_KINDS: dict[Kind, str] = {
    "activation": "silu gelu elu leaky_relu hardswish mish selu celu prelu softplus rrelu sigmoid tanh hardsigmoid hardtanh "
    "logsigmoid softsign tanhshrink threshold glu erf exp",
    "linear": "linear",
    "convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "batch-norm": "batch_norm",
    "normalisation": "layer_norm group_norm instance_norm rms_norm local_response_norm normalize",
    "softmax": "softmax log_softmax softmin",
    "attention": "scaled_dot_product_attention multi_head_attention_forward",
    "max-pool": "max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d amax",
    "mean-pool": "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d mean sum",
    "add": "add sub rsub __add__ __radd__ __sub__ __rsub__ __iadd__ __isub__",
    "multiply": "mul div true_divide __mul__ __rmul__ __truediv__ __imul__ __itruediv__ multiply divide",
    "product": "matmul mm bmm einsum addmm baddbmm bilinear __matmul__ mv dot",
    "concatenate": "cat concat concatenate stack",
    "shape": "flatten reshape view permute transpose t squeeze unsqueeze contiguous chunk split tensor_split __getitem__ "
    "narrow select expand expand_as view_as reshape_as repeat repeat_interleave roll flip unfold pad movedim moveaxis "
    "swapaxes pixel_shuffle pixel_unshuffle unflatten unbind channel_shuffle tile index_select",
    "identity": "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout clone to float type_as detach "
    "requires_grad_ positive",
}  # fmt: skip
_KIND_OF: dict[str, Kind] = {name: kind for kind, names in _KINDS.items() for name in names.split()}

_QUERIES = {
    "__get__", "__set__", "dim", "size", "numel", "ndimension", "stride", "is_floating_point", "is_complex", "is_contiguous",
    "element_size", "get_device", "storage_offset", "item", "tolist", "type", "__len__", "__bool__", "__int__", "__index__",
    "__hash__", "__format__",
}  # fmt: skip
"""Functions that only read properties of a tensor."""

_INFINITE = float("inf")
_RECTIFIERS = {"relu": _INFINITE, "relu6": 6.0}
_IN_PLACE_OPERATORS = {"__iadd__": "__add__", "__isub__": "__sub__", "__imul__": "__mul__", "__itruediv__": "__truediv__"}


@dataclass(frozen=True, eq=False)
class Operation:
    """One call of a tensor function."""

    kind: Kind
    """What it does, as far as methods distinguish operations."""
    name: str
    """Name of the function."""
    layer: str
    """The innermost layer that makes the call."""
    ceiling: float = _INFINITE
    """The upper limit of a rectifier: infinite for a ReLU, 6 for a ReLU6."""
    func: Callable[..., Any] | None = field(default=None, repr=False)
    """The function itself."""
    args: tuple[Any, ...] = field(default=(), repr=False)
    """Its arguments by position."""
    kwargs: dict[str, Any] = field(default_factory=dict, repr=False)
    """Its arguments by name."""

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """An argument, given by position or by name."""
        return self.args[place] if len(self.args) > place else self.kwargs.get(name, default)

    @property
    def values(self) -> Any:
        """The first argument: the tensor that the operation works on."""
        return self.argument(0, "input")

    def run(self) -> Any:
        """The result of the original operation."""
        assert self.func is not None, "an operation without its arguments cannot run"
        return self.func(*self.args, **self.kwargs)

    def without_arguments(self) -> Operation:
        """The same operation without its arguments, which saves memory."""
        return Operation(kind=self.kind, name=self.name, layer=self.layer, ceiling=self.ceiling)


Handler = Callable[[Operation], Any]
"""A function that returns the result of an operation; `Operation.run` is the handler that changes nothing."""


class _Mode(TorchFunctionMode):
    def __init__(self, handler: Handler, layers: list[str]) -> None:
        super().__init__()
        self.handler = handler
        self.layers = layers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        raw_name = getattr(func, "__name__", "")
        name = raw_name.lstrip("_") if raw_name.startswith("_") and not raw_name.startswith("__") else raw_name
        if not self.layers or name in _QUERIES:  # outside of the model, or only a query
            return func(*args, **kwargs)
        name, in_place = _out_of_place(name, args, kwargs)
        kind, name, ceiling = _kind(name, args, kwargs)
        if not in_place:
            return self.handler(
                Operation(
                    kind=kind, name=name, layer=self.layers[-1], ceiling=ceiling, func=func, args=tuple(args), kwargs=kwargs
                )
            )
        target = args[0] if args else kwargs["input"]
        on_copy = _on_copy(func, raw_name)
        result = self.handler(
            Operation(
                kind=kind, name=name, layer=self.layers[-1], ceiling=ceiling, func=on_copy, args=tuple(args), kwargs=kwargs
            )
        )
        return target if result is target else target.copy_(result)


@contextmanager
def intercepting(module: nn.Module, handler: Handler) -> Iterator[None]:
    """Sends every tensor operation of the module's forward passes in the body through the handler.

    Functions, modules and in-place operations are all intercepted. An in-place operation reaches the handler as an ordinary
    one, and its result is written back.
    """
    layers: list[str] = []

    def enter(name: str) -> Callable[..., None]:
        return lambda *_: layers.append(name)

    def leave(*_: Any) -> None:
        layers.pop()

    handles = []
    for name, layer in module.named_modules():
        handles.append(layer.register_forward_pre_hook(enter(name)))
        handles.append(layer.register_forward_hook(leave, always_call=True))
    try:
        with _Mode(handler, layers):
            yield
    finally:
        for handle in handles:
            handle.remove()


def _out_of_place(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, bool]:
    """The name of the ordinary operation, and whether this one works in place."""
    if name in _IN_PLACE_OPERATORS:
        return _IN_PLACE_OPERATORS[name], True
    if name.endswith("_") and not name.endswith("__"):
        return name[:-1], True
    place = {"relu": 1, "relu6": 1, "silu": 1, "mish": 1, "selu": 1, "hardswish": 1, "hardsigmoid": 1, "elu": 2, "celu": 2,
             "leaky_relu": 2, "hardtanh": 3, "threshold": 3, "rrelu": 4, "dropout": 3}.get(name)  # fmt: skip
    if place is None:
        return name, False
    flag = bool(args[place]) if len(args) > place else bool(kwargs.get("inplace", False))
    return name, flag


def _on_copy(func: Any, raw_name: str) -> Callable[..., Any]:
    """The function applied to a copy of the tensor that it would overwrite."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if raw_name in _IN_PLACE_OPERATORS:
            return getattr(args[0], _IN_PLACE_OPERATORS[raw_name])(*args[1:], **kwargs)
        if args:
            return func(args[0].clone(), *args[1:], **kwargs)
        return func(**{**kwargs, "input": kwargs["input"].clone()})

    return run


def _kind(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Kind, str, float]:
    """Kind, name and ceiling of an operation."""

    def argument(place: int, key: str, default: Any) -> Any:
        return args[place] if len(args) > place else kwargs.get(key, default)

    if name in _RECTIFIERS:
        return "rectifier", name, _RECTIFIERS[name]
    if name == "hardtanh" and argument(1, "min_val", -1.0) == 0:
        ceiling = float(argument(2, "max_val", 1.0))
        return "rectifier", "relu6" if ceiling == 6 else "hardtanh", ceiling
    if name in ("clamp", "clamp_min", "clip") and _is_zero(argument(1, "min", None)):
        upper = None if name == "clamp_min" else argument(2, "max", None)
        return "rectifier", "relu" if upper is None else "relu6", _INFINITE if upper is None else float(upper)
    return _KIND_OF.get(name, "other"), name, _INFINITE


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0
