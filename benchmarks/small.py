"""The model that `memory.py` runs, by the name `small:load`: a small convolutional network with fixed random weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Small(nn.Module):
    """Two convolutions and a head: the model takes so little that a run's own memory shows."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Linear(16, 10)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(self.body(images).mean(dim=(2, 3)))
        return logits


def load() -> nn.Module:
    """A new one, always the same."""
    return Small()
