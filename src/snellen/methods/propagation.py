"""Relevance propagation: the forward pass as the model computes it, and a backward pass that distributes relevance by rules.

Every operation keeps its forward value. What is propagated back is not a gradient but the relevance of an operation's
output, which the operation's rule distributes among its inputs. Which rule an operation gets:

- linear layers and convolutions: the method's rule, with a batch normalisation right behind them merged in (the
  same function, and the only reading under which signs of weights mean something); other batch normalisations are layers
  of their own, with one weight per channel;
- rectifiers, and other activation functions that keep zero at zero: relevance passes unchanged;
- means, sums over positions and additions: in proportion to what each part contributed (a constant that is added takes its
  share, as a bias does); a factor that is constant changes nothing;
- max-pooling: the winner takes all; changes of shape and concatenation: each number keeps its relevance.

Anything else is refused. Facts about a tensor (is it still the image, which layer made it) are an attribute of the tensor,
so that they end with the pass and a module that is used twice is no special case.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from snellen.classifier import Classifier
from snellen.classifier.operations import Operation, intercepting
from snellen.errors import SnellenError
from snellen.maps.folding import Fold, fold
from snellen.methods.refusals import refusal
from snellen.methods.relevance_rules import Layer, Rule, of_sign, output_and_transpose, per_unit
from snellen.types import Images, Maps, OneGradient, Rng, Targets

ZERO_KEEPING = frozenset(
    {"silu", "gelu", "elu", "leaky_relu", "hardswish", "mish", "selu", "celu", "prelu", "tanh", "softsign", "tanhshrink"}
)
"""Activation functions with f(0) = 0, so that relevance may pass them unchanged."""


@dataclass(frozen=True, eq=False)
class _Mark:
    """Facts about a tensor: whether a layer lies between it and the image, its bounds, and the layer that made it."""

    deep: bool
    bounds: tuple[Tensor, Tensor] | None = None
    layer: Layer | None = None
    rule: Rule | None = None
    version: int = -1


_MARK = "_snellen_mark"


@dataclass(frozen=True)
class Propagation:
    """A handler for `Classifier.gradient` under which relevance flows back: one rule per kind of layer.

    `first` is the rule of layers that read the image itself. `positive` makes additions and means give relevance only to
    parts that have the sign of the whole, and none to constants. `box` holds the inputs that black and white pixels become,
    channel by channel, for a first rule that needs bounds.
    """

    name: str
    """Name of the method, for messages."""
    dense: Rule
    """The rule of linear layers."""
    convolution: Rule
    """The rule of convolutions."""
    first: Rule | None = None
    positive: bool = False
    activations: frozenset[str] = ZERO_KEEPING
    """Names of the activation functions that relevance passes unchanged."""
    box: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    def __call__(self, operation: Operation) -> Any:
        """The operation's own result, with the rule for the way back."""
        maps = [leaf for leaf in tree_leaves((operation.args, operation.kwargs)) if _is_map(leaf)]
        if not maps:
            return operation.run()
        deep = any(_mark(tensor).deep for tensor in maps)
        result, layer, rule = self._result(operation, maps, deep)
        bounds = None if deep or layer is not None or self.box is None else self._bounds(operation)
        for index, tensor in enumerate(_maps(result)):
            if all(tensor is not old for old in maps):
                tensor_bounds = None if bounds is None else (_maps_like(bounds[0])[index], _maps_like(bounds[1])[index])
                is_deep = deep or layer is not None
                mark = _Mark(deep=is_deep, bounds=tensor_bounds, layer=layer, rule=rule, version=tensor._version)
                setattr(tensor, _MARK, mark)
        return result

    def _result(self, operation: Operation, maps: list[Tensor], deep: bool) -> tuple[Any, Layer | None, Rule | None]:
        kind = operation.kind
        at_image = not deep and self.first is not None  # the first rule applies after any scaling of the image
        if kind in ("linear", "convolution"):
            layer = self._layer(operation, maps)
            chosen = self.dense if kind == "linear" else self.convolution
            rule = self.first if at_image and self.first is not None else chosen
            return _through(operation, layer, rule), layer, None if _never_merged(operation) else rule
        if kind == "batch-norm":
            return self._batch_norm(operation, at_image)
        if kind == "rectifier" or (kind == "activation" and operation.name in self.activations):
            return _passed(operation, operation.values), None, None
        if kind == "mean-pool" or operation.name == "interpolate":
            return operation.run() if at_image else _mean(operation, self.positive), None, None
        if kind == "add":
            alone = len(maps) == 1 and (at_image or self.positive)
            return _passed(operation, maps[0]) if alone else _added(operation, self.positive), None, None
        if kind == "multiply" and len(maps) == 1 and (_is_map(operation.values) or "div" not in operation.name):
            return _passed(operation, maps[0]), None, None
        if kind in ("max-pool", "concatenate", "shape", "identity"):
            return operation.run(), None, None
        result = operation.run()
        if kind == "other" and not _maps(result):  # it returns no map, such as a shape
            return result, None, None
        raise self._refusal(operation)

    def _layer(self, operation: Operation, maps: list[Tensor]) -> Layer:
        values, weight, bias = operation.values, operation.argument(1, "weight"), operation.argument(2, "bias")
        if len(maps) != 1 or maps[0] is not values:
            raise self._refusal(operation)
        rest = {key: kwarg for key, kwarg in operation.kwargs.items() if key not in ("input", "weight", "bias")}
        func = operation.func
        assert func is not None

        def run(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
            out: Tensor = func(values, weight, bias, *operation.args[3:], **rest)
            return out

        return Layer(
            again=lambda values: run(values, weight, bias),
            run=run,
            weight=weight,
            bias=bias,
            values=values,
            bounds=self._bounds_of(values),
        )

    def _batch_norm(self, operation: Operation, at_image: bool) -> tuple[Any, Layer | None, Rule | None]:
        values = operation.values
        mean, variance = operation.argument(1, "running_mean"), operation.argument(2, "running_var")
        if mean is None or operation.argument(5, "training", False):
            raise self._refusal(operation)
        scale = (variance + operation.argument(7, "eps", 1e-5)).rsqrt()
        weight, bias = operation.argument(3, "weight"), operation.argument(4, "bias")
        scale = scale if weight is None else scale * weight
        shift = -mean * scale if bias is None else bias - mean * scale
        again = _on_other_values(operation)
        mark = _mark(values)
        before = mark.layer
        if before is not None and mark.rule is not None and mark.version == values._version:
            merged = replace(
                before,
                again=lambda values: again(before.again(values)),
                weight=before.weight * scale.view(-1, *[1] * (before.weight.dim() - 1)),
                bias=shift if before.bias is None else before.bias * scale + shift,
            )
            return _through(operation, merged, mark.rule), None, None
        if at_image:
            return _passed(operation, values), None, None
        shape = (1, -1, *[1] * (values.dim() - 2))
        own = Layer(
            again=again,
            run=lambda values, weight, bias: values * weight if bias is None else values * weight + bias,
            weight=scale.view(shape),
            bias=shift.view(shape),
            values=values,
        )
        return _through(operation, own, self.dense if values.dim() == 2 else self.convolution), None, None

    def _bounds_of(self, values: Tensor) -> tuple[Tensor, Tensor] | None:
        mark = _mark(values)
        if self.box is None or mark.deep:
            return None
        if mark.bounds is not None:
            return mark.bounds
        low, high = (torch.tensor(ends).to(values).view(1, -1, 1, 1) for ends in self.box)
        shape = (1, *values.shape[1:])
        return low.expand(shape), high.expand(shape)

    def _bounds(self, operation: Operation) -> tuple[Any, Any]:
        """The operation applied to the darkest and the brightest image."""
        assert operation.func is not None
        ends = []
        for end in (0, 1):

            def bound(tensor: Tensor, end: int = end) -> Tensor:
                bounds = self._bounds_of(tensor) if tensor.requires_grad else None
                return tensor if bounds is None else bounds[end].expand_as(tensor)

            args, kwargs = tree_map_only(Tensor, bound, (operation.args, operation.kwargs))
            with torch.no_grad():
                ends.append(operation.func(*args, **kwargs))
        low, high = ends
        if isinstance(low, Tensor):  # a negative factor turns the ends around
            return torch.minimum(low, high), torch.maximum(low, high)
        return low, high

    def _refusal(self, operation: Operation) -> SnellenError:
        return refusal(self.name, operation, "use integrated-gradients")


def check(propagation: Propagation, classifier: Classifier, inputs: Images) -> None:
    """Refuses a classifier that contains an operation without a rule; not counted as passes."""
    start = inputs[:1].detach().to(classifier.device).clone().requires_grad_()
    with torch.enable_grad(), intercepting(classifier.module, propagation):
        classifier.module(start.clone())


class RelevancePropagation(OneGradient, Protocol):
    """The frame of methods that hand the logit down by rules: a class that inherits from it defines `rules` and `fold`."""

    fold: Fold

    @abstractmethod
    def rules(self, classifier: Classifier) -> Propagation:
        """How relevance passes each operation."""
        ...

    def relevance(self, output: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """What is handed down: the target's logit."""
        return output

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Refuses a classifier with an operation that has no rule."""
        check(self.rules(classifier), classifier, inputs)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        if not classifier.head.outputs_as_columns:
            # Of a contrast a - b, the outputs have the relevances a and -b: gradient times output.
            given_down, _ = classifier.gradient(inputs, targets, through=self.rules(classifier), times_outputs=True)
            return fold(given_down, self.fold)
        # Every rule is linear in the relevance that comes from above, so the logit may enter at the end.
        shares, output = classifier.gradient(inputs, targets, through=self.rules(classifier))
        return fold(shares * self.relevance(output).view(-1, 1, 1, 1), self.fold)


def _never_merged(operation: Operation) -> bool:
    """Whether the first axis of the layer's weights is not the channels that a batch normalisation would scale."""
    return "transpose" in operation.name or (operation.kind == "linear" and operation.values.dim() != 2)


def _is_map(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _maps(result: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(result) if _is_map(leaf)]


def _maps_like(result: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def _mark(tensor: Tensor) -> _Mark:
    mark: _Mark | None = getattr(tensor, _MARK, None)
    return _Mark(deep=False) if mark is None else mark


# Backward passes ----------------------------------------------------------------------------------------------------


class _Send(torch.autograd.Function):
    """A result that was computed elsewhere, and a function that sends relevance back to the maps it was made of."""

    @staticmethod
    def forward(
        ctx: Any, back: Callable[..., Sequence[Tensor]], result: tuple[Tensor], saved: tuple[Tensor, ...], *maps: Tensor
    ) -> Tensor:
        ctx.back = back
        ctx.save_for_backward(*saved)
        return result[0]

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, None, *ctx.back(upstream[0], *ctx.saved_tensors))


def _send(
    result: Tensor, maps: Sequence[Tensor], back: Callable[..., Sequence[Tensor]], saved: tuple[Tensor, ...] = ()
) -> Tensor:
    out: Tensor = _Send.apply(back, (result,), saved, *maps)  # type: ignore[no-untyped-call]
    return out


def _result(operation: Operation) -> Tensor:
    with torch.no_grad():
        result: Tensor = operation.run()
    return result


def _through(operation: Operation, layer: Layer, rule: Rule) -> Tensor:
    """A linear layer under a rule. Its sums are computed again on the way back: the model may overwrite its outputs."""
    without_values = replace(layer, values=torch.empty(0))

    def back(relevance: Tensor, values: Tensor) -> Sequence[Tensor]:
        dtype = without_values.weight.dtype  # relevance is computed in the precision of the weights
        shares = rule(replace(without_values, values=values.detach().to(dtype)), relevance.to(dtype))
        return (shares.to(values.dtype),)

    return _send(_result(operation), (layer.values,), back, (layer.values,))


def _passed(operation: Operation, values: Tensor) -> Tensor:
    shape = values.shape
    return _send(_result(operation), (values,), lambda relevance: (relevance.sum_to_size(shape),))


def _on_other_values(operation: Operation) -> Callable[[Tensor], Tensor]:
    func, rest = operation.func, operation.args[1:]
    kwargs = {key: kwarg for key, kwarg in operation.kwargs.items() if key != "input"}
    assert func is not None
    return lambda values: func(values, *rest, **kwargs)


def _mean(operation: Operation, positive: bool) -> Tensor:
    again = _on_other_values(operation)

    def share(relevance: Tensor, values: Tensor) -> Tensor:
        total, back = output_and_transpose(again, values)
        return values * back(per_unit(relevance, total))

    def back(relevance: Tensor, values: Tensor) -> Sequence[Tensor]:
        values = values.detach()
        if not positive:
            return (share(relevance, values),)
        whole = again(values)
        parts = [share(relevance * (sign * whole > 0), of_sign(values, sign)) for sign in (1, -1)]
        return (parts[0] + parts[1],)

    return _send(_result(operation), (operation.values,), back, (operation.values,))


def _added(operation: Operation, positive: bool) -> Tensor:
    operands = (operation.values, operation.argument(1, "other"))
    kwargs = {key: kwarg for key, kwarg in operation.kwargs.items() if key not in ("input", "other")}
    func = operation.func
    assert func is not None
    result = _result(operation)

    def alone(place: int) -> Tensor:
        zeros = [torch.zeros_like(operand) if isinstance(operand, Tensor) else 0 for operand in operands]
        zeros[place] = operands[place]
        part: Tensor = func(*zeros, *operation.args[2:], **kwargs)
        return torch.where(part * result > 0, part, 0.0) if positive else part

    with torch.no_grad():
        places = [place for place in (0, 1) if _is_map(operands[place])]
        parts = [alone(place) for place in places]
        total = sum(parts, torch.zeros_like(result)) if positive else result
        # Shares are saved, not operands: an addition in place overwrites one of those.
        shares = tuple(per_unit(part, total) for part in parts)
    maps = [operands[place] for place in places]
    shapes = [tensor.shape for tensor in maps]

    def back(relevance: Tensor, *shares: Tensor) -> Sequence[Tensor]:
        return [(relevance * share).sum_to_size(shape) for share, shape in zip(shares, shapes, strict=True)]

    return _send(result, maps, back, shares)
