"""What subprocesses load by name: `subject:load`, a small convolutional network with fixed random weights."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from snellen.files.folder import LocalFolder
from snellen.runs.unit_index import open_index


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


def second_minus_first(outputs: torch.Tensor) -> torch.Tensor:
    """A target without a probability."""
    return outputs[:, 1] - outputs[:, 0]


def logits_of():
    """A loader that gives a black box."""
    return logits


def finished_units(folder: Path) -> dict[str, tuple[str, int, int]]:
    """The key of each finished unit and the place of its frame: a unit that was written again has another."""
    return {unit.key: unit.frame for unit in open_index(LocalFolder(folder), compare=False)[0].units()}


def write_images(folder: Path, count: int, side: int = 32) -> Path:
    """Smooth coloured blobs, all different, as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for place in range(count):
        small = generator.integers(0, 255, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC).save(folder / f"{place:03d}.png")
    return folder


def write_labelled(folder: Path, count: int, side: int = 32) -> Path:
    """Images in five class sub-folders, each class with its own tint."""
    generator = np.random.default_rng(1)
    for place in range(count):
        tint = np.array([place % 5 * 40, 120, 200 - place % 5 * 40])
        small = generator.integers(0, 55, (4, 4, 3)) + tint
        inside = folder / str(place % 5)
        inside.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(small.clip(0, 255).astype(np.uint8)).resize((side, side), Image.Resampling.BICUBIC)
        picture.save(inside / f"{place:03d}.png")
    return folder


class Wide(nn.Module):
    """Another architecture."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 24, 5, padding=2)
        self.relu = nn.ReLU()
        self.head = nn.Linear(24, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.relu(self.body(images)).mean(dim=(2, 3)))


def recipe(dataset, seed, options):
    """A few steps of descent; seeds the global generators, which must not affect the caller."""
    import time

    torch.manual_seed(seed)
    np.random.seed(seed % 2**31)
    time.sleep(float(os.environ.get("RECIPE_SECONDS", "0")))
    net = Wide(options["classes"]) if options.get("architecture") == "other" else Small()
    if options["classes"] != 5 and options.get("architecture") != "other":
        net.head = nn.Linear(32, options["classes"])
    with torch.no_grad():
        net.head.weight.add_(0.1 * torch.randn(net.head.weight.shape))
    inputs, labels = (torch.stack([torch.as_tensor(value) for value in column]) for column in zip(*dataset, strict=True))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(5):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimiser.step()
    return net


def write_checkpoints(folder: Path) -> Path:
    """Three saved states of `Small`: two younger ones, and itself."""
    folder.mkdir(parents=True, exist_ok=True)
    net = Small()
    for step, share in ((2, -1.0), (10, 0.5), (30, 1.0)):
        torch.save({key: value * share for key, value in net.state_dict().items()}, folder / f"step-{step}.pt")
    return folder


class Exiting(Small):
    """Ends the process, as far as it may, when it sees a white picture."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if (images.flatten(1).amin(1) > 0.99).any():
            sys.exit(0)
        return super().forward(images)


def exiting() -> nn.Module:
    return Exiting()


def exits_at_once() -> nn.Module:
    sys.exit(0)


class Dying(Small):
    """Ends the process for good when it sees a white picture."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if (images.flatten(1).amin(1) > 0.99).any():
            os._exit(0)
        return super().forward(images)
