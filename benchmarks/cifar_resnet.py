"""The CIFAR-10 residual networks of He et al. 2016 (section 4.2, option A), for weights that a user has at hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.images import Samples, from_arrays

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Block(nn.Module):
    """Two convolutions beside a shortcut without weights: every second place, and zeros for the new channels."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu2 = nn.ReLU()
        self.stride, self.added = stride, (out - channels) // 2

    def forward(self, inputs: Tensor) -> Tensor:
        """Feature maps."""
        short = inputs[:, :, :: self.stride, :: self.stride]
        if self.added:
            short = functional.pad(short, (0, 0, 0, 0, self.added, self.added))
        outputs: Tensor = self.relu2(self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(inputs))))) + short)
        return outputs


class CifarResNet(nn.Module):
    """A stem, three groups of blocks, the mean over all places, a linear layer."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.layer1 = nn.Sequential(*(Block(16, 16, 1) for _ in range(blocks)))
        self.layer2 = nn.Sequential(*(Block(32 if i else 16, 32, 1 if i else 2) for i in range(blocks)))
        self.layer3 = nn.Sequential(*(Block(64 if i else 32, 64, 1 if i else 2) for i in range(blocks)))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flat = nn.Flatten()
        self.linear = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits."""
        features = self.layer3(self.layer2(self.layer1(self.relu(self.bn1(self.conv1(inputs))))))
        logits: Tensor = self.linear(self.flat(self.pool(features)))
        return logits


def read(weights: Path) -> Classifier:
    """The network of a safetensors file; its depth is told by the names of its weights."""
    stored = load_file(weights)
    blocks = 1 + max(int(match[1]) for name in stored if (match := re.match(r"layer1\.(\d+)\.", name)))
    network = CifarResNet(blocks)
    network.load_state_dict(stored)
    return Classifier(network.eval(), mean=MEAN, std=STD, name=f"CIFAR ResNet-{6 * blocks + 2}")


def pictures(archive: Path, count: int) -> Samples:
    """Some pictures of an npz file with `x` (bytes, channels last) and `y`, evenly spread over it."""
    held = np.load(archive)
    rows = np.linspace(0, len(held["y"]), count, endpoint=False).astype(int)
    pixels = torch.from_numpy(held["x"][rows]).permute(0, 3, 1, 2).float() / 255
    return from_arrays(pixels, torch.from_numpy(held["y"][rows]).long())
