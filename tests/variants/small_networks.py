"""Small networks and images on which variants are tested."""

from __future__ import annotations

import torch
from torch import nn

from snellen.classifier import Classifier
from snellen.types import Rng

NETS = ("cnn", "resnet", "vit")
"""Planted networks."""

SIZE = (24, 24)
"""Height and width of their images."""


def net_of(*layers: nn.Module, seed: int = 0) -> Classifier:
    """A small network with random weights that depend on the seed only."""
    draw = torch.Generator().manual_seed(seed)
    module = nn.Sequential(*layers).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=draw) - 0.4)
        for name, buffer in module.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.copy_(torch.rand(buffer.shape, generator=draw) + 0.1)
    return Classifier(module)


def pictures(channels: int = 3, side: int = 8) -> torch.Tensor:
    return Rng(0, ("a", "b")).uniform("picture", (channels, side, side))
