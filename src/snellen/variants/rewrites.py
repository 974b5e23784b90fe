"""The same function with other weights: rewrites of a network that change nothing but how it is written.

Which layers can be rewritten is guessed from the order of a pass and then tried: a rewrite stays only where the logits of
noise pictures agree to float tolerance, so a network that the guess does not fit is left as it is.
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
from snellen.variants.variants import agree, made_of, probe, put

Way = Literal["folded", "permuted", "rescaled", "widened"]
WAYS: tuple[Way, ...] = ("folded", "permuted", "rescaled", "widened")

Undo = Callable[[], None]


@dataclass(frozen=True)
class Joint:
    """Hidden channels: the layer that puts them out, those that work on each channel alone, and the one that reads them.

    `places` is how many neighbouring weights of the reader belong to one channel: a flattened map has one per place.
    `skipped` is how many outputs come before the channels: the values of attention follow its queries and keys.
    """

    producer: str
    between: tuple[str, ...]
    reader: str
    places: int = 1
    skipped: int = 0


_CACHE = CachePerObject()


def ways(classifier: Classifier, size: tuple[int, int]) -> tuple[Way, ...]:
    """In which ways this classifier can be written anew; none for a black box.

    `folded`: a batch normalisation becomes part of the layer before it. `permuted`: hidden channels change places.
    `rescaled`: rectified channels, or the values of attention, are multiplied by powers of two that the next layer divides
    by. `widened`: some hidden channels are there twice more, and what one copy adds the other takes away.
    """
    if "layer" not in classifier.offers:
        return ()
    joints = _cached_joints(classifier, size)
    return tuple(way for way in WAYS if joints[way])


def rewritten(classifier: Classifier, way: Way, size: tuple[int, int]) -> Classifier:
    """The same function as another network."""
    module = copy.deepcopy(classifier.module)
    with torch.no_grad():
        for joint in _cached_joints(classifier, size)[way]:
            _DO[way](module, joint)
    return made_of(classifier, module, way, larger=way == "widened")


def _cached_joints(classifier: Classifier, size: tuple[int, int]) -> dict[Way, tuple[Joint, ...]]:
    return _CACHE.get_or_compute(classifier, size, lambda: _search(classifier, size))


def _search(classifier: Classifier, size: tuple[int, int]) -> dict[Way, tuple[Joint, ...]]:
    pictures = probe(classifier, size)[1:]  # the loud one, which no ceiling and no bend lets through
    wanted = classifier.uncounted_logits(pictures)
    order = probes.called(classifier.module, lambda: classifier.uncounted_logits(pictures))
    layers = [(name, classifier.module.get_submodule(name)) for name in order]
    passed = _passed(classifier.operations(pictures))
    joints = [one for one in _joints(layers) if not _MEETING & {kind for kind, _ in passed(one)}]
    trial = classifier.variant(classifier.module, "on trial")

    def tried(way: Way, guessed: list[Joint]) -> tuple[Joint, ...]:
        undo: list[Undo] = []
        with torch.no_grad():
            found = _kept(trial, way, guessed, lambda: agree(trial.uncounted_logits(pictures), wanted), undo)
            _go_back(undo)
        return found

    permuted = tried("permuted", [one for one in joints if _count(classifier.module, one) > 1])
    return {
        "folded": tried("folded", _norms(layers)),
        "permuted": permuted,
        "rescaled": tried("rescaled", [one for one in joints if passed(one) <= _STRAIGHT] + _values(layers)),
        "widened": tried("widened", list(permuted)),  # works where channels may change places
    }


def _kept(
    trial: Classifier, way: Way, guessed: list[Joint], same: Callable[[], bool], undo: list[Undo]
) -> tuple[Joint, ...]:
    """The rewrites that leave the function as it is: all of them at once, or those that do so in two halves."""
    if not guessed:
        return ()
    steps = [_DO[way](trial.module, joint) for joint in guessed]
    if same():
        undo += steps
        return tuple(guessed)
    _go_back(steps)
    if len(guessed) == 1:
        return ()
    half = len(guessed) // 2
    return _kept(trial, way, guessed[:half], same, undo) + _kept(trial, way, guessed[half:], same, undo)


def _go_back(steps: list[Undo]) -> None:
    for step in reversed(steps):
        step()


# Where --------------------------------------------------------------------------------------------------------------


def _norms(layers: list[tuple[str, nn.Module]]) -> list[Joint]:
    """Batch normalisations right after a convolution or linear layer of as many channels."""
    found = []
    last: tuple[str, nn.Module] | None = None
    for name, layer in layers:
        if isinstance(layer, _BatchNorm) and last is not None and layer.num_features == _width(last[1]):
            found.append(Joint(last[0], (), name))
        if next(layer.parameters(recurse=False), None) is not None or isinstance(layer, _BatchNorm):
            last = (name, layer) if type(layer) in (nn.Conv2d, nn.Linear) else None
    return found


def _joints(layers: list[tuple[str, nn.Module]]) -> list[Joint]:
    """Each convolution or linear layer with the next one that could read its channels."""
    weighty = [one for one in layers if next(one[1].parameters(recurse=False), None) is not None]
    found = []
    for place, (name, layer) in enumerate(weighty):
        if type(layer) not in (nn.Conv2d, nn.Linear) or getattr(layer, "groups", 1) > 1:
            continue
        width = _width(layer)
        between: list[str] = []
        for after, other in weighty[place + 1 :]:
            if (isinstance(other, _BatchNorm) and other.num_features == width) or _depthwise(other, width):
                between.append(after)
                continue
            reads = _reads(other)
            if reads == width or (isinstance(layer, nn.Conv2d) and isinstance(other, nn.Linear) and reads % width == 0):
                found.append(Joint(name, tuple(between), after, max(1, reads // width)))
            break
    return found


def _values(layers: list[tuple[str, nn.Module]]) -> list[Joint]:
    """A linear layer for queries, keys and values together, and the one that reads what attention made of the values."""
    linear = [(name, layer) for name, layer in layers if type(layer) is nn.Linear]
    return [
        Joint(name, (), after, skipped=2 * other.in_features)
        for (name, layer), (after, other) in itertools.pairwise(linear)
        if layer.out_features == 3 * other.in_features
    ]


_MEETING: set[Kind] = {"add", "multiply", "product", "concatenate", "attention", "softmax", "normalisation"}
"""Where channels meet others, so that they cannot change places alone."""

_STRAIGHT: set[tuple[Kind, str]] = {
    ("rectifier", "relu"), ("activation", "leaky_relu"), ("max-pool", ""), ("mean-pool", ""), ("shape", ""),
    ("identity", ""),
}  # fmt: skip
"""What lets positive factors through."""


def _passed(operations: Sequence[Operation]) -> Callable[[Joint], set[tuple[Kind, str]]]:
    """Tells what happens between the last layer of a joint that works on its channels and the one that reads them."""
    places = {one.layer: place for place, one in enumerate(operations)}

    def passed(joint: Joint) -> set[tuple[Kind, str]]:
        last = (joint.producer, *joint.between)[-1]
        some = operations[places.get(last, 0) : places.get(joint.reader, 0)]
        named = ("rectifier", "activation", "other")
        return {(one.kind, one.name if one.kind in named else "") for one in some if one.layer not in (last, joint.reader)}

    return passed


def _width(layer: nn.Module) -> int:
    return int(getattr(layer, "out_channels", 0) or getattr(layer, "out_features", 0))


def _reads(layer: nn.Module) -> int:
    if type(layer) is nn.Linear:
        return layer.in_features
    return layer.in_channels if type(layer) is nn.Conv2d and layer.groups == 1 else -1


def _depthwise(layer: nn.Module, width: int) -> bool:
    return type(layer) is nn.Conv2d and layer.groups == layer.in_channels == layer.out_channels == width > 1


def _count(module: nn.Module, joint: Joint) -> int:
    return _width(module.get_submodule(joint.producer)) - joint.skipped


# How ----------------------------------------------------------------------------------------------------------------


def _fold(module: nn.Module, joint: Joint) -> Undo:
    layer: Any = module.get_submodule(joint.producer)
    norm: Any = module.get_submodule(joint.reader)
    fuse: Callable[[Any, Any], nn.Module] = fuse_conv_bn_eval if isinstance(layer, nn.Conv2d) else fuse_linear_bn_eval
    put(module, joint.producer, fuse(layer, norm).requires_grad_(False))
    put(module, joint.reader, nn.Identity() if type(norm) in _PLAIN else _neutral(norm))

    def undo() -> None:
        put(module, joint.producer, layer)
        put(module, joint.reader, norm)

    return undo


_PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d)


def _neutral(norm: Any) -> nn.Module:
    """A normalisation that changes nothing; what its class does beside normalising, such as rectifying, stays."""
    made = copy.deepcopy(norm)
    for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0 - norm.eps)):
        if getattr(made, name) is not None:
            getattr(made, name).fill_(value)
    return cast(nn.Module, made)


def _permute(module: nn.Module, joint: Joint) -> Undo:
    order = torch.arange(_count(module, joint)).roll(1)
    undo = _remember(module, joint)
    for name in (joint.producer, *joint.between):
        for one in _by_channel(module.get_submodule(name)):
            one.copy_(one[order])
    reader: Any = module.get_submodule(joint.reader)
    reader.weight.copy_(reader.weight.unflatten(1, (-1, joint.places))[:, order].flatten(1, 2))
    return undo


def _rescale(module: nn.Module, joint: Joint) -> Undo:
    count = _count(module, joint)
    factors = 2.0 ** (torch.arange(count) % 3 - 1)  # powers of two, so that nothing is rounded
    undo = _remember(module, joint)
    last: Any = module.get_submodule((joint.producer, *joint.between)[-1])
    for one in last.parameters(recurse=False):
        one[joint.skipped :].mul_(factors.to(one).view(-1, *[1] * (one.dim() - 1)))
    reader: Any = module.get_submodule(joint.reader)
    by = factors.repeat_interleave(joint.places).to(reader.weight)
    reader.weight.div_(by.view(1, -1, *[1] * (reader.weight.dim() - 2)))
    return undo


def _widen(module: nn.Module, joint: Joint) -> Undo:
    count = _count(module, joint)
    twice = torch.arange(0, count, 2)[:32]  # enough to be seen, and cheap
    rows = torch.cat([torch.arange(count), twice, twice])
    names = (joint.producer, *joint.between, joint.reader)
    old = {name: put(module, name, copy.deepcopy(module.get_submodule(name))) for name in names}
    for name in names[:-1]:
        layer: Any = module.get_submodule(name)
        for held in (layer._parameters, layer._buffers):
            for key, one in held.items():
                if one is not None and one.dim() > 0:
                    fresh = one[rows].clone()
                    held[key] = nn.Parameter(fresh, requires_grad=False) if held is layer._parameters else fresh
        for key in ("out_channels", "out_features", "num_features"):
            if hasattr(layer, key):
                setattr(layer, key, len(rows))
        if name in joint.between and isinstance(layer, nn.Conv2d):
            layer.in_channels = layer.groups = len(rows)
    reader: Any = module.get_submodule(joint.reader)
    columns = reader.weight.unflatten(1, (-1, joint.places))
    extra = columns[:, (twice + 1) % count]
    reader.weight = nn.Parameter(torch.cat([columns, extra, -extra], dim=1).flatten(1, 2), requires_grad=False)
    setattr(reader, "in_features" if isinstance(reader, nn.Linear) else "in_channels", reader.weight.shape[1])

    def undo() -> None:
        for name, layer in old.items():
            put(module, name, layer)

    return undo


def _by_channel(layer: nn.Module) -> list[Tensor]:
    """Everything that a layer holds per output channel."""
    return [one for one in (*layer.parameters(recurse=False), *layer.buffers(recurse=False)) if one.dim() > 0]


def _remember(module: nn.Module, joint: Joint) -> Undo:
    names = (joint.producer, *joint.between, joint.reader)
    held = [(one, one.clone()) for name in names for one in _by_channel(module.get_submodule(name))]

    def undo() -> None:
        for one, before in held:
            one.copy_(before)

    return undo


_DO: dict[Way, Callable[[nn.Module, Joint], Undo]] = {
    "folded": _fold, "permuted": _permute, "rescaled": _rescale, "widened": _widen,
}  # fmt: skip
