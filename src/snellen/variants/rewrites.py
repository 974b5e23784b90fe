"""Rewrites: variants of a network that compute the same function with other weights.

Which layers can be rewritten is guessed from the order of a pass and then tested: a rewrite is used only where the logits of
noise images stay the same up to rounding. A network that the guess does not fit is left as it is.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from snellen.classifier import Classifier, probes
from snellen.classifier.cache import CachePerObject
from snellen.classifier.operations import Kind, Operation
from snellen.variants.build import logits_agree, make_variant, noise_images, replace_layer

Rewrite = Literal["folded", "permuted", "rescaled", "widened"]
REWRITES: tuple[Rewrite, ...] = ("folded", "permuted", "rescaled", "widened")

Undo = Callable[[], None]


@dataclass(frozen=True)
class ChannelPair:
    """Two layers and the hidden channels between them, or a layer and the batch normalisation after it."""

    producer: str
    """The layer that outputs the channels."""
    between: tuple[str, ...]
    """Layers that work on each channel separately."""
    reader: str
    """The layer that reads the channels."""
    positions: int = 1
    """Weights of the reader per channel: after flattening, a channel has one value per position."""
    skipped: int = 0
    """Outputs of the producer before the channels: in attention, values follow queries and keys."""


_CACHE = CachePerObject()


def possible_rewrites(classifier: Classifier, size: tuple[int, int]) -> tuple[Rewrite, ...]:
    """The rewrites that work for this classifier and images of this height and width; none for a black box.

    `folded`: a batch normalisation becomes part of the layer before it. `permuted`: hidden channels change their order.
    `rescaled`: rectified channels, or the values of attention, are multiplied by powers of two, and the next layer divides
    by them. `widened`: some hidden channels are repeated twice; the next layer adds one copy and subtracts the other.
    """
    if "layer" not in classifier.offers:
        return ()
    channels = _rewritable_channels(classifier, size)
    return tuple(kind for kind in REWRITES if channels[kind])


def rewrite(classifier: Classifier, kind: Rewrite, size: tuple[int, int]) -> Classifier:
    """A network with other weights that computes the same function.

    Args:
        classifier: the original.
        kind: which of the rewrites (see `possible_rewrites`).
        size: height and width of an image that the classifier takes.
    """
    module = copy.deepcopy(classifier.module)
    with torch.no_grad():
        for channels in _rewritable_channels(classifier, size)[kind]:
            _CHANGES[kind](module, channels)
    return make_variant(classifier, module, kind, larger=kind == "widened")


def _rewritable_channels(classifier: Classifier, size: tuple[int, int]) -> dict[Rewrite, tuple[ChannelPair, ...]]:
    return _CACHE.get_or_compute(classifier, size, lambda: _search(classifier, size))


def _search(classifier: Classifier, size: tuple[int, int]) -> dict[Rewrite, tuple[ChannelPair, ...]]:
    images = noise_images(classifier, size)[1:]  # the strong noise: activations reach both sides of every kink
    expected = classifier.uncounted_logits(images)
    order = probes.call_order(classifier.module, lambda: classifier.uncounted_logits(images))
    layers = [(name, classifier.module.get_submodule(name)) for name in order]
    kinds_between = _operation_finder(classifier.operations(images))
    separate = [pair for pair in _channel_pairs(layers) if not _JOINING & {kind for kind, _ in kinds_between(pair)}]
    trial = classifier.variant(classifier.module, "on trial")

    def test(kind: Rewrite, guesses: list[ChannelPair]) -> tuple[ChannelPair, ...]:
        undo: list[Undo] = []
        with torch.no_grad():
            working = _working(trial, kind, guesses, lambda: logits_agree(trial.uncounted_logits(images), expected), undo)
            _undo_all(undo)
        return working

    permuted = test("permuted", [pair for pair in separate if _count(classifier.module, pair) > 1])
    return {
        "folded": test("folded", _norms(layers)),
        "permuted": permuted,
        "rescaled": test("rescaled", [pair for pair in separate if kinds_between(pair) <= _SCALABLE] + _values(layers)),
        "widened": test("widened", list(permuted)),  # works where channels may change their order
    }


def _working(
    trial: Classifier, kind: Rewrite, guesses: list[ChannelPair], is_same: Callable[[], bool], undo: list[Undo]
) -> tuple[ChannelPair, ...]:
    """The guesses whose rewrite does not change the function, found by testing all together and then each half."""
    if not guesses:
        return ()
    steps = [_CHANGES[kind](trial.module, channels) for channels in guesses]
    if is_same():
        undo += steps
        return tuple(guesses)
    _undo_all(steps)
    if len(guesses) == 1:
        return ()
    half = len(guesses) // 2
    return _working(trial, kind, guesses[:half], is_same, undo) + _working(trial, kind, guesses[half:], is_same, undo)


def _undo_all(steps: list[Undo]) -> None:
    for step in reversed(steps):
        step()


# Finding channels ---------------------------------------------------------------------------------------------------


def _norms(layers: list[tuple[str, nn.Module]]) -> list[ChannelPair]:
    """Batch normalisations right after a convolution or linear layer with the same number of channels."""
    pairs = []
    last: tuple[str, nn.Module] | None = None
    for name, layer in layers:
        if isinstance(layer, _BatchNorm) and last is not None and layer.num_features == _width(last[1]):
            pairs.append(ChannelPair(last[0], (), name))
        if next(layer.parameters(recurse=False), None) is not None or isinstance(layer, _BatchNorm):
            last = (name, layer) if type(layer) in (nn.Conv2d, nn.Linear) else None
    return pairs


def _channel_pairs(layers: list[tuple[str, nn.Module]]) -> list[ChannelPair]:
    """Each convolution or linear layer with the next one that could read its channels."""
    weighted = [(name, layer) for name, layer in layers if next(layer.parameters(recurse=False), None) is not None]
    pairs = []
    for place, (name, layer) in enumerate(weighted):
        if type(layer) not in (nn.Conv2d, nn.Linear) or getattr(layer, "groups", 1) > 1:
            continue
        width = _width(layer)
        between: list[str] = []
        for next_name, other in weighted[place + 1 :]:
            if (isinstance(other, _BatchNorm) and other.num_features == width) or _is_depthwise(other, width):
                between.append(next_name)
                continue
            reads = _input_width(other)
            if reads == width or (isinstance(layer, nn.Conv2d) and isinstance(other, nn.Linear) and reads % width == 0):
                pairs.append(
                    ChannelPair(producer=name, between=tuple(between), reader=next_name, positions=max(1, reads // width))
                )
            break
    return pairs


def _values(layers: list[tuple[str, nn.Module]]) -> list[ChannelPair]:
    """Linear layers for queries, keys and values together, each with the layer that reads the attended values."""
    linear = [(name, layer) for name, layer in layers if type(layer) is nn.Linear]
    return [
        ChannelPair(name, (), next_name, skipped=2 * other.in_features)
        for (name, layer), (next_name, other) in itertools.pairwise(linear)
        if layer.out_features == 3 * other.in_features
    ]


_JOINING: set[Kind] = {"add", "multiply", "product", "concatenate", "attention", "softmax", "normalisation"}
"""Operations that join channels with others, so that they cannot be reordered alone."""

_SCALABLE: set[tuple[Kind, str]] = {
    ("rectifier", "relu"), ("activation", "leaky_relu"), ("max-pool", ""), ("mean-pool", ""), ("shape", ""),
    ("identity", ""),
}  # fmt: skip
"""Operations f with f(c·x) = c·f(x) for positive factors c."""


def _operation_finder(operations: Sequence[Operation]) -> Callable[[ChannelPair], set[tuple[Kind, str]]]:
    """A function that returns the kinds (and names) of operations just before the reader of channels."""
    places = {operation.layer: place for place, operation in enumerate(operations)}

    def kinds_between(channels: ChannelPair) -> set[tuple[Kind, str]]:
        last = (channels.producer, *channels.between)[-1]
        steps = operations[places.get(last, 0) : places.get(channels.reader, 0)]
        named = ("rectifier", "activation", "other")
        return {
            (step.kind, step.name if step.kind in named else "")
            for step in steps
            if step.layer not in (last, channels.reader)
        }

    return kinds_between


def _width(layer: nn.Module) -> int:
    return int(getattr(layer, "out_channels", 0) or getattr(layer, "out_features", 0))


def _input_width(layer: nn.Module) -> int:
    if type(layer) is nn.Linear:
        return layer.in_features
    return layer.in_channels if type(layer) is nn.Conv2d and layer.groups == 1 else -1


def _is_depthwise(layer: nn.Module, width: int) -> bool:
    return type(layer) is nn.Conv2d and layer.groups == layer.in_channels == layer.out_channels == width > 1


def _count(module: nn.Module, channels: ChannelPair) -> int:
    return _width(module.get_submodule(channels.producer)) - channels.skipped


# Changing weights ---------------------------------------------------------------------------------------------------


def _fold(module: nn.Module, channels: ChannelPair) -> Undo:
    layer: Any = module.get_submodule(channels.producer)
    norm: Any = module.get_submodule(channels.reader)
    fuse: Callable[[Any, Any], nn.Module] = fuse_conv_bn_eval if isinstance(layer, nn.Conv2d) else fuse_linear_bn_eval
    replace_layer(module, channels.producer, fuse(layer, norm).requires_grad_(False))
    replace_layer(module, channels.reader, nn.Identity() if type(norm) in _PLAIN else _neutral(norm))

    def undo() -> None:
        replace_layer(module, channels.producer, layer)
        replace_layer(module, channels.reader, norm)

    return undo


_PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d)


def _neutral(norm: Any) -> nn.Module:
    """A normalisation without effect; if its class also does something else, such as rectifying, that stays."""
    neutral = copy.deepcopy(norm)
    for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0 - norm.eps)):
        if getattr(neutral, name) is not None:
            getattr(neutral, name).fill_(value)
    return cast(nn.Module, neutral)


def _permute(module: nn.Module, channels: ChannelPair) -> Undo:
    order = torch.arange(_count(module, channels)).roll(1)
    undo = _undo_for(module, channels)
    for name in (channels.producer, *channels.between):
        for tensor in _by_channel(module.get_submodule(name)):
            tensor.copy_(tensor[order])
    reader: Any = module.get_submodule(channels.reader)
    reader.weight.copy_(reader.weight.unflatten(1, (-1, channels.positions))[:, order].flatten(1, 2))
    return undo


def _rescale(module: nn.Module, channels: ChannelPair) -> Undo:
    count = _count(module, channels)
    factors = 2.0 ** (torch.arange(count) % 3 - 1)  # powers of two, so that nothing is rounded
    undo = _undo_for(module, channels)
    last: Any = module.get_submodule((channels.producer, *channels.between)[-1])
    for weight in last.parameters(recurse=False):
        weight[channels.skipped :].mul_(factors.to(weight).view(-1, *[1] * (weight.dim() - 1)))
    reader: Any = module.get_submodule(channels.reader)
    divisors = factors.repeat_interleave(channels.positions).to(reader.weight)
    reader.weight.div_(divisors.view(1, -1, *[1] * (reader.weight.dim() - 2)))
    return undo


def _widen(module: nn.Module, channels: ChannelPair) -> Undo:
    count = _count(module, channels)
    doubled = torch.arange(0, count, 2)[:32]  # enough to matter, and cheap
    rows = torch.cat([torch.arange(count), doubled, doubled])
    names = (channels.producer, *channels.between, channels.reader)
    old = {name: replace_layer(module, name, copy.deepcopy(module.get_submodule(name))) for name in names}
    for name in names[:-1]:
        layer: Any = module.get_submodule(name)
        for tensors in (layer._parameters, layer._buffers):
            for key, tensor in tensors.items():
                if tensor is not None and tensor.dim() > 0:
                    fresh = tensor[rows].clone()
                    tensors[key] = nn.Parameter(fresh, requires_grad=False) if tensors is layer._parameters else fresh
        for key in ("out_channels", "out_features", "num_features"):
            if hasattr(layer, key):
                setattr(layer, key, len(rows))
        if name in channels.between and isinstance(layer, nn.Conv2d):
            layer.in_channels = layer.groups = len(rows)
    reader: Any = module.get_submodule(channels.reader)
    columns = reader.weight.unflatten(1, (-1, channels.positions))
    extra = columns[:, (doubled + 1) % count]
    reader.weight = nn.Parameter(torch.cat([columns, extra, -extra], dim=1).flatten(1, 2), requires_grad=False)
    setattr(reader, "in_features" if isinstance(reader, nn.Linear) else "in_channels", reader.weight.shape[1])

    def undo() -> None:
        for name, layer in old.items():
            replace_layer(module, name, layer)

    return undo


def _by_channel(layer: nn.Module) -> list[Tensor]:
    """All tensors of a layer that have a row per output channel."""
    tensors = (*layer.parameters(recurse=False), *layer.buffers(recurse=False))
    return [tensor for tensor in tensors if tensor.dim() > 0]


def _undo_for(module: nn.Module, channels: ChannelPair) -> Undo:
    names = (channels.producer, *channels.between, channels.reader)
    saved = [(tensor, tensor.clone()) for name in names for tensor in _by_channel(module.get_submodule(name))]

    def undo() -> None:
        for tensor, before in saved:
            tensor.copy_(before)

    return undo


_CHANGES: dict[Rewrite, Callable[[nn.Module, ChannelPair], Undo]] = {
    "folded": _fold, "permuted": _permute, "rescaled": _rescale, "widened": _widen,
}  # fmt: skip
