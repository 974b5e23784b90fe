"""Architectures: the published two, and others of about their cost. Inputs are pixels in [0, 1].

Class names and layer names enter the fingerprints of stored runs, so they stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.errors import SnellenError, nearest
from snellen.variants.recipes import seeded


class Stacked(nn.Module):
    """Convolutions, then fully connected layers."""

    def __init__(self, features: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.flat = nn.Flatten()
        self.head = head

    def forward(self, inputs: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch classes"]:
        """Logits."""
        logits: Tensor = self.head(self.flat(self.features(inputs)))
        return logits


def small_cnn(classes: int, side: int) -> nn.Module:
    """Kim et al. 2022, appendix A.2, for simple rules: three strided convolutions, one hidden layer."""
    return _published(classes, side, (32, 64, 64), (200,))


def deep_cnn(classes: int, side: int) -> nn.Module:
    """Kim et al. 2022, appendix A.2, for complex rules: four strided convolutions, two hidden layers."""
    return _published(classes, side, (64, 128, 256, 64), (200, 200))


def alexnet(classes: int, side: int) -> nn.Module:
    """The shape of AlexNet (five convolutions, three of them pooled, two wide layers), half as wide, for small scenes."""
    features = nn.Sequential(
        nn.Conv2d(3, 48, 5, 2, 2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(48, 96, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(96, 192, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(192, 128, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(128, 128, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2),
    )  # fmt: skip
    return Stacked(features, _dense(_width(features, side), (256, 256), classes))


def vgg16(classes: int, side: int) -> nn.Module:
    """The shape of VGG16 (thirteen convolutions in five pooled groups), a quarter as wide, with normalisation."""
    parts: list[nn.Module] = []
    channels = 3
    for width, times in ((16, 2), (32, 2), (64, 3), (128, 3), (128, 3)):
        for _ in range(times):
            parts += [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        parts.append(nn.MaxPool2d(2))
    features = nn.Sequential(*parts)
    return Stacked(features, _dense(_width(features, side), (256,), classes))


class Residual(nn.Module):
    """Two convolutions with normalisation, added to their inputs."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.short: nn.Module = nn.Identity()
        if stride > 1 or channels != out:
            self.short = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.relu2 = nn.ReLU()

    def forward(self, inputs: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch out rows columns"]:
        """Feature maps."""
        added = self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(inputs)))))
        features: Tensor = self.relu2(added + self.short(inputs))
        return features


def resnet(classes: int, side: int) -> nn.Module:
    """A small ResNet with BatchNorm: a strided stem and three residual blocks, with fully connected layers behind."""
    features = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        Residual(32, 64, 2), Residual(64, 96, 2), Residual(96, 64, 1),
    )  # fmt: skip
    return Stacked(features, _dense(_width(features, side), (128,), classes))


class TransformerBlock(nn.Module):
    """Attention over tokens, then a small network on each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def _get_name(self) -> str:
        return "Block"  # the name in the fingerprints of stored runs

    def forward(self, tokens: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens."""
        normalised = self.norm1(tokens)
        tokens = tokens + self.attn(normalised, normalised, normalised, need_weights=False)[0]
        result: Tensor = tokens + self.mlp(self.norm2(tokens))
        return result


class VitTiny(nn.Module):
    """A small vision transformer with a class token, one other token per 8×8 pixels.

    Three small convolutions make the tokens (Xiao et al. 2021): from patches as they are, box2, which may lie anywhere in a
    patch, takes much longer to be recognised.
    """

    def __init__(self, classes: int, side: int, *, width: int = 96, depth: int = 3, heads: int = 4) -> None:
        super().__init__()
        patch = 8
        if side % patch:
            raise SnellenError(
                f"vit-tiny cuts scenes into patches of {patch}×{patch}, so {side} must be a multiple of {patch}"
            )
        self.patches = nn.Sequential(
            nn.Conv2d(3, width // 4, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(width // 4, width // 2, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(width // 2, width, 3, 2, 1),
        )  # fmt: skip
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, inputs: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch classes"]:
        """Logits."""
        tokens = self.patches(inputs).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(inputs), -1, -1), tokens], dim=1) + self.places
        logits: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return logits


ARCHITECTURES: dict[str, Callable[[int, int], nn.Module]] = {
    "small-cnn": small_cnn,
    "deep-cnn": deep_cnn,
    "alexnet": alexnet,
    "vgg16": vgg16,
    "resnet": resnet,
    "vit-tiny": VitTiny,
}


def build_network(architecture: str, *, classes: int, side: int, seed: int) -> nn.Module:
    """An untrained network; its weights depend on the seed, and the global random state stays as it was."""
    if architecture not in ARCHITECTURES:
        hint = nearest(architecture, list(ARCHITECTURES)) or ";"
        raise SnellenError(f"there is no architecture '{architecture}'{hint} there are {', '.join(ARCHITECTURES)}")
    with seeded(seed):
        try:
            return ARCHITECTURES[architecture](classes, side)
        except RuntimeError:  # nothing is left of a scene after so many strides
            raise SnellenError(
                f"scenes of {side}×{side} are too small for {architecture}; make them larger or choose another architecture"
            ) from None


def _published(classes: int, side: int, widths: Sequence[int], units: Sequence[int]) -> nn.Module:
    parts: list[nn.Module] = []
    for before, after in zip((3, *widths), widths, strict=False):
        parts += [nn.Conv2d(before, after, 3, 2), nn.ReLU()]
    features = nn.Sequential(*parts)
    return Stacked(features, _dense(_width(features, side), units, classes))


def _dense(width: int, units: Sequence[int], classes: int) -> nn.Sequential:
    parts: list[nn.Module] = []
    for before, after in zip((width, *units), units, strict=False):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear((width, *units)[-1], classes))


def _width(features: nn.Module, side: int) -> int:
    """The number of features of a scene."""
    training = features.training
    with torch.no_grad():
        width = int(features.eval()(torch.zeros(1, 3, side, side)).numel())
    features.train(training)
    return width
