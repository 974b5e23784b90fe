"""The functions of the planted networks, computed by networks with other weights."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from snellen.plugins.checks.planted_networks import SelfAttention


@dataclass(frozen=True)
class HiddenChannels:
    """Channels between layers of a network."""

    producers: tuple[tuple[str, ...], ...]
    """The layers that output them: a convolution together with the normalisation after it."""
    consumers: tuple[str, ...]
    """The layers that read them."""
    positions: int = 1
    """How many neighbouring weights of a consumer belong to one channel: a flattened map has one per position."""


HIDDEN = {
    "cnn": (HiddenChannels((("colours",),), ("features",)), HiddenChannels((("features",),), ("head",), positions=36)),
    "resnet": (
        HiddenChannels((("layer1.conv1", "layer1.bn1"),), ("layer1.conv2",)),
        HiddenChannels((("layer2.conv1", "layer2.bn1"),), ("layer2.conv2",)),
        HiddenChannels(
            (("conv1", "bn1"), ("layer1.conv2", "layer1.bn2")), ("layer1.conv1", "layer2.conv1", "layer2.skip.0")
        ),
        HiddenChannels((("layer2.conv2", "layer2.bn2"), ("layer2.skip.0", "layer2.skip.1")), ("head",)),
    ),
    "vit": tuple(HiddenChannels(((f"blocks.{i}.mlp.0",),), (f"blocks.{i}.mlp.2",)) for i in range(2)),
}


def rewrites(kind: str, net: nn.Module) -> dict[str, nn.Module]:
    """Networks with other weights that compute the same function as this planted one, by the kind of rewriting."""
    changes = {"permuted": _permute, "rescaled": _rescale, "cancelling": _cancel}
    if kind == "resnet":
        changes["folded"] = _fold
    rewritten = {}
    for name, change in changes.items():
        rewritten[name] = copy.deepcopy(net).eval()
        with torch.no_grad():
            change(kind, rewritten[name])
    return rewritten


def _permute(kind: str, net: nn.Module) -> None:
    """Hidden channels, and the heads of attention, in another order."""
    for channels in HIDDEN[kind]:
        order = torch.arange(_count(net, channels)).roll(1)
        for group in channels.producers:
            for name in group:
                _select(_layer(net, name), order)
        for name in channels.consumers:
            consumer = _layer(net, name)
            consumer.weight.copy_(consumer.weight.unflatten(1, (-1, channels.positions))[:, order].flatten(1, 2))
    for attention in _attentions(net):
        width = attention.proj.in_features
        order = torch.arange(width).view(attention.heads, -1).roll(1, dims=0).flatten()
        _select(attention.qkv, torch.cat([order + part * width for part in range(3)]))
        attention.proj.weight.copy_(attention.proj.weight[:, order])


def _rescale(kind: str, net: nn.Module) -> None:
    """Rectified channels times positive numbers that the next layer divides by; queries against keys in a transformer."""
    for attention in _attentions(net):
        factors = torch.linspace(0.5, 2, attention.proj.in_features)
        scale = torch.cat([factors, 1 / factors, factors])
        attention.qkv.weight.mul_(scale[:, None])
        attention.qkv.bias.mul_(scale)
        attention.proj.weight.div_(factors)
    if kind == "vit":  # a GELU does not let factors through
        return
    for channels in HIDDEN[kind]:
        factors = torch.linspace(0.4, 2.5, _count(net, channels))
        for group in channels.producers:
            last = _layer(net, group[-1])
            last.weight.mul_(factors.view(-1, *[1] * (last.weight.dim() - 1)))
            last.bias.mul_(factors)
        for name in channels.consumers:
            consumer = _layer(net, name)
            scale = factors.repeat_interleave(channels.positions)
            consumer.weight.div_(scale.view(1, -1, *[1] * (consumer.weight.dim() - 2)))


def _cancel(kind: str, net: nn.Module) -> None:
    """Two more copies of every second channel, with opposite weights in the next layer, so that they cancel."""
    for channels in HIDDEN[kind]:
        if len(channels.producers) > 1:
            continue
        count = _count(net, channels)
        doubled = torch.arange(0, count, 2)
        for name in channels.producers[0]:
            _select(_layer(net, name), torch.cat([torch.arange(count), doubled, doubled]))
        for name in channels.consumers:
            consumer = _layer(net, name)
            columns = consumer.weight.unflatten(1, (-1, channels.positions))
            extra = 0.5 * columns[:, (doubled + 1) % count]
            consumer.weight = nn.Parameter(torch.cat([columns, extra, -extra], dim=1).flatten(1, 2))
            setattr(consumer, "in_features" if isinstance(consumer, nn.Linear) else "in_channels", consumer.weight.shape[1])


def _fold(kind: str, net: nn.Module) -> None:
    """Batch normalisation as part of the convolution before it."""
    pairs = [group for channels in HIDDEN[kind] for group in channels.producers]
    for convolution, norm in pairs:
        net.set_submodule(convolution, fuse_conv_bn_eval(_layer(net, convolution), _layer(net, norm)))
        net.set_submodule(norm, nn.Identity())


def _layer(net: nn.Module, name: str) -> Any:
    return net.get_submodule(name)


def _attentions(net: nn.Module) -> list[SelfAttention]:
    return [layer for layer in net.modules() if isinstance(layer, SelfAttention)]


def _count(net: nn.Module, channels: HiddenChannels) -> int:
    return len(_layer(net, channels.producers[0][0]).weight)


def _select(layer: nn.Module, rows: Tensor) -> None:
    """Keeps these outputs of the layer, in this order."""
    for name in ("weight", "bias"):
        if getattr(layer, name) is not None:
            setattr(layer, name, nn.Parameter(getattr(layer, name)[rows].clone()))
    for name in ("running_mean", "running_var"):
        if hasattr(layer, name):
            setattr(layer, name, getattr(layer, name)[rows].clone())
    for name in ("out_channels", "out_features", "num_features"):
        if hasattr(layer, name):
            setattr(layer, name, len(rows))
