"""A residual network and a transformer that learnt the planted problem, and the same functions written in other ways.

Both learnt from the hand-set network of `planted`: logit k is what patch k says and nothing else. `train_planted.py` makes
their weights again.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

WEIGHTS = Path(__file__).parent / "planted_weights"


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.skip = nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, inputs: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(inputs)))))
        out += self.skip(inputs)
        return self.relu(out)


class ResNet(nn.Module):
    """A stem, two residual blocks, the mean over all places, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = Block(8, 8, 1)
        self.layer2 = Block(8, 12, 2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(12, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        seen = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(inputs)))))
        return self.head(self.pool(seen).flatten(1))


class Attention(nn.Module):
    """Self-attention with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        batch, count, width = tokens.shape
        split = self.qkv(tokens).reshape(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        queries, keys, values = split.unbind(0)
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
        return self.proj(mixed.transpose(1, 2).reshape(batch, count, width))


class Layer(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attn(self.norm1(tokens))
        return tokens + self.mlp(self.norm2(tokens))


class ViT(nn.Module):
    """Patches of 4×4, a class token, two layers, a linear head."""

    def __init__(self, places: tuple[int, int] = (6, 6), width: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, 4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(0.5 * torch.randn(1, 1 + places[0] * places[1], width))
        self.blocks = nn.Sequential(Layer(width, heads), Layer(width, heads))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        patches = self.patch_embed(inputs).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(inputs), -1, -1), patches], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(tokens))[:, 0])


def resnet() -> ResNet:
    """The residual network with its learnt weights."""
    return _learnt(ResNet(), "resnet")


def vit() -> ViT:
    """The transformer with its learnt weights."""
    with torch.random.fork_rng():
        return _learnt(ViT(), "vit")


def _learnt(net: nn.Module, name: str) -> nn.Module:
    net.load_state_dict(_weights(name))
    return net.eval()


@functools.cache
def _weights(name: str) -> dict[str, Tensor]:
    return load_file(WEIGHTS / f"{name}.safetensors")


# The same functions, written in other ways ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Joint:
    """Hidden channels: the layers that put them out (a normalisation with the convolution before it) and those they enter.

    `places` is how many neighbouring weights of a consumer belong to one channel: a flattened map has one per place.
    """

    producers: tuple[tuple[str, ...], ...]
    consumers: tuple[str, ...]
    places: int = 1


JOINTS = {
    "cnn": (Joint((("colours",),), ("features",)), Joint((("features",),), ("head",), places=36)),
    "resnet": (
        Joint((("layer1.conv1", "layer1.bn1"),), ("layer1.conv2",)),
        Joint((("layer2.conv1", "layer2.bn1"),), ("layer2.conv2",)),
        Joint((("conv1", "bn1"), ("layer1.conv2", "layer1.bn2")), ("layer1.conv1", "layer2.conv1", "layer2.skip.0")),
        Joint((("layer2.conv2", "layer2.bn2"), ("layer2.skip.0", "layer2.skip.1")), ("head",)),
    ),
    "vit": tuple(Joint(((f"blocks.{i}.mlp.0",),), (f"blocks.{i}.mlp.2",)) for i in range(2)),
}


def rewrites(kind: str, net: nn.Module) -> dict[str, nn.Module]:
    """Networks with other weights that compute the same function as this one."""
    ways: dict[str, Callable[[str, nn.Module], None]] = {"permuted": _permute, "rescaled": _rescale, "cancelling": _cancel}
    if kind == "resnet":
        ways["folded"] = _fold
    found = {}
    for name, way in ways.items():
        found[name] = copy.deepcopy(net).eval()
        with torch.no_grad():
            way(kind, found[name])
    return found


def _permute(kind: str, net: nn.Module) -> None:
    """Hidden channels, and the heads of attention, in another order."""
    for joint in JOINTS[kind]:
        first = net.get_submodule(joint.producers[0][0])
        order = torch.arange(len(first.weight)).roll(1)
        for group in joint.producers:
            for name in group:
                _select(net.get_submodule(name), order)
        for name in joint.consumers:
            one = net.get_submodule(name)
            one.weight.copy_(one.weight.unflatten(1, (-1, joint.places))[:, order].flatten(1, 2))
    for one in net.modules():
        if isinstance(one, Attention):
            width = one.proj.in_features
            order = torch.arange(width).view(one.heads, -1).roll(1, dims=0).flatten()
            _select(one.qkv, torch.cat([order + part * width for part in range(3)]))
            one.proj.weight.copy_(one.proj.weight[:, order])


def _rescale(kind: str, net: nn.Module) -> None:
    """Rectified channels times positive numbers that the next layer divides by; queries against keys in a transformer."""
    for one in net.modules():
        if isinstance(one, Attention):
            width = one.proj.in_features
            factors = torch.linspace(0.5, 2, width)
            by = torch.cat([factors, 1 / factors, factors])
            one.qkv.weight.mul_(by[:, None])
            one.qkv.bias.mul_(by)
            one.proj.weight.div_(factors)
    if kind == "vit":  # a GELU does not let factors through
        return
    for joint in JOINTS[kind]:
        factors = torch.linspace(0.4, 2.5, len(net.get_submodule(joint.producers[0][0]).weight))
        for group in joint.producers:
            last = net.get_submodule(group[-1])
            last.weight.mul_(factors.view(-1, *[1] * (last.weight.dim() - 1)))
            last.bias.mul_(factors)
        for name in joint.consumers:
            one = net.get_submodule(name)
            by = factors.repeat_interleave(joint.places)
            one.weight.div_(by.view(1, -1, *[1] * (one.weight.dim() - 2)))


def _cancel(kind: str, net: nn.Module) -> None:
    """Every second channel twice more, with opposite weights in the next layer: what one adds, the other takes away."""
    for joint in JOINTS[kind]:
        if len(joint.producers) > 1:
            continue
        (group,) = joint.producers
        count = len(net.get_submodule(group[0]).weight)
        twice = torch.arange(0, count, 2)
        for name in group:
            _select(net.get_submodule(name), torch.cat([torch.arange(count), twice, twice]))
        for name in joint.consumers:
            one = net.get_submodule(name)
            columns = one.weight.unflatten(1, (-1, joint.places))
            extra = 0.5 * columns[:, (twice + 1) % count]
            one.weight = nn.Parameter(torch.cat([columns, extra, -extra], dim=1).flatten(1, 2))
            setattr(one, "in_features" if isinstance(one, nn.Linear) else "in_channels", one.weight.shape[1])


def _fold(kind: str, net: nn.Module) -> None:
    """Batch normalisation as part of the convolution before it."""
    pairs = [group for joint in JOINTS[kind] for group in joint.producers]
    for conv, bn in pairs:
        net.set_submodule(conv, fuse_conv_bn_eval(net.get_submodule(conv), net.get_submodule(bn)))
        net.set_submodule(bn, nn.Identity())


def _select(one: nn.Module, rows: Tensor) -> None:
    """A layer with these of its outputs."""
    for name in ("weight", "bias"):
        if getattr(one, name) is not None:
            setattr(one, name, nn.Parameter(getattr(one, name)[rows].clone()))
    for name in ("running_mean", "running_var"):
        if hasattr(one, name):
            setattr(one, name, getattr(one, name)[rows].clone())
    for name in ("out_channels", "out_features", "num_features"):
        if hasattr(one, name):
            setattr(one, name, len(rows))
