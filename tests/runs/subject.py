"""What subprocesses load by name: `subject:load`, a small convolutional network with fixed random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn


class Small(nn.Module):
    """Two convolutions and a head, large enough that a run over it can be killed half-way."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Linear(32, 5)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images).mean(dim=(2, 3)))


def load() -> nn.Module:
    return Small()


def logits(images: torch.Tensor) -> torch.Tensor:
    """A black box: class k likes channel k mod 3."""
    means = images.mean(dim=(2, 3))
    return torch.cat([means, 2 * means[:, :2]], dim=1)


def logits_of():
    """A loader that gives a black box."""
    return logits


def write_images(folder: Path, count: int, side: int = 32) -> Path:
    """Smooth coloured blobs, each another, as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for place in range(count):
        small = generator.integers(0, 255, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC).save(folder / f"{place:03d}.png")
    return folder
