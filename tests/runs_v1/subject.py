"""The classifier and the images of the stored runs, made by formula: every version of Snellen makes the same ones."""

from __future__ import annotations

import torch
from torch import nn

from snellen import Classifier, Sample

METHODS = ["gradient", "input-x-gradient", "grad-cam", "random", "centre"]
METRICS = ["completeness", "deletion(steps=4)", "complexity", "pointing-game"]


class Small(nn.Module):
    """Two convolutions over 8×8 pixels, and three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.second = nn.Conv2d(6, 6, 3, padding=1)
        self.head = nn.Linear(6, 3)
        for place, weights in enumerate(self.parameters()):
            steps = torch.arange(weights.numel(), dtype=torch.float64) * (0.7 + place / 10)
            weights.data = (torch.sin(steps) / 2).reshape(weights.shape).float()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits."""
        features = torch.relu(self.second(torch.relu(self.first(inputs))))
        logits: torch.Tensor = self.head(features.mean(dim=(2, 3)))
        return logits


def classifier() -> Classifier:
    """The small network, with names for its classes."""
    return Classifier(Small(), mean=[0.5] * 3, std=[0.25] * 3, classes=("red", "green", "blue"), name="small")


def samples(count: int) -> list[Sample]:
    """A bright square of 3×3 in one colour on a grey wave; the square is the truth."""
    squares = []
    for at in range(count):
        rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        image = (0.4 + 0.2 * torch.sin(rows * (1 + at % 5) + columns * 0.7 + at)).repeat(3, 1, 1)
        truth = torch.zeros(8, 8, dtype=torch.bool)
        top, left = at % 6, (3 * at) % 6
        truth[top : top + 3, left : left + 3] = True
        image[at % 3][truth] = 0.95
        squares.append(Sample(f"square {at:02d}", image.clamp(0, 1), label=at % 3, truth=truth))
    return squares
