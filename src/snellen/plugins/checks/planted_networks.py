"""A small residual network and a small transformer, trained on the planted problem; and networks for wide images.

The first two were trained to reproduce the hand-set network of `planted`: logit k depends on patch k and on nothing else.
`tests/train_planted.py` trains them again.
"""

from __future__ import annotations

import functools
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

WEIGHTS = Path(__file__).parent / "planted_weights"

WIDE = (12, 20)
"""Height and width of an image that is not square."""


class ResidualBlock(nn.Module):
    """Two convolutions and a skip connection."""

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
        outputs: Tensor = self.relu(out)
        return outputs


class PlantedResNet(nn.Module):
    """A stem, two residual blocks, the mean over all positions, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = ResidualBlock(8, 8, 1)
        self.layer2 = ResidualBlock(8, 12, 2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(12, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(inputs)))))
        outputs: Tensor = self.head(self.pool(features).flatten(1))
        return outputs


class SelfAttention(nn.Module):
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
        outputs: Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, count, width))
        return outputs


class TransformerLayer(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = SelfAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attn(self.norm1(tokens))
        outputs: Tensor = tokens + self.mlp(self.norm2(tokens))
        return outputs


class PlantedViT(nn.Module):
    """Patches of 4×4, a class token, two layers, a linear head."""

    def __init__(self, places: tuple[int, int] = (6, 6), width: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, 4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(0.5 * torch.randn(1, 1 + places[0] * places[1], width))
        self.blocks = nn.Sequential(TransformerLayer(width, heads), TransformerLayer(width, heads))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        patches = self.patch_embed(inputs).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(inputs), -1, -1), patches], dim=1) + self.pos_embed
        outputs: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return outputs


def trained_resnet() -> PlantedResNet:
    """A new copy of the residual network with its trained weights."""
    net = PlantedResNet()
    net.load_state_dict(_read_weights("resnet"))
    return net.eval()


def trained_vit() -> PlantedViT:
    """A new copy of the transformer with its trained weights."""
    with torch.random.fork_rng():  # building it draws initial weights
        net = PlantedViT()
    net.load_state_dict(_read_weights("vit"))
    return net.eval()


@functools.cache
def _read_weights(name: str) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = load_file(WEIGHTS / f"{name}.safetensors")
    return weights


class WideCNN(nn.Module):
    """A small convolutional network for images that are not square."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
        self.head = nn.Linear(4 * (WIDE[0] // 2) * (WIDE[1] // 2), 3)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(inputs).flatten(1))
        return logits


def wide_network(kind: str) -> nn.Module:
    """A network of this kind with random weights, for images of the size `WIDE`."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "cnn":
            return WideCNN()
        return PlantedResNet() if kind == "resnet" else PlantedViT(places=(WIDE[0] // 4, WIDE[1] // 4))
