"""What trying a model's memory layout and batch size costs, once per shape of image: `python benchmarks/conventions.py`."""

from __future__ import annotations

import time

import torch
from torch import nn

from snellen.classifier import Classifier
from snellen.zoo import load_classifier

REPEATS = 3


def main() -> None:
    """Prints a table: the trial, one pass of one image, and how many such passes the trial takes."""
    print("| model | layout | trial | one pass | passes |\n|---|---|---|---|---|")
    for name, size in (("efficientnet-lite0", 224), ("digits", 32)):
        classifier = load_classifier(name)
        row(name, classifier.module, torch.rand(1, 3, size, size))
    lenet = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), View(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    row("LeNet with view", lenet, torch.rand(1, 3, 32, 32))


class View(nn.Module):
    """The flattening line of most tutorials."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of features."""
        return x.view(len(x), -1)


def row(name: str, module: nn.Module, image: torch.Tensor) -> None:
    """One line of the table, the medians of some trials and passes."""
    trials, passes = [], []
    for _ in range(REPEATS):
        classifier = Classifier(module)
        trials.append(seconds(lambda model=classifier: model.network.choose_convention(image)))
        passes += [seconds(lambda model=classifier: model.uncounted_logits(image)) for _ in range(5)]
    trial, forward = sorted(trials)[REPEATS // 2], sorted(passes)[len(passes) // 2]
    layout = "channels last" if classifier.network.convention.channels_last else "plain"
    print(f"| {name} | {layout} | {1000 * trial:.0f} ms | {1000 * forward:.1f} ms | {trial / forward:.0f} |", flush=True)


def seconds(call: object) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
