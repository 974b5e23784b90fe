"""Small networks for the digit scenes, the recipe that trains them in seconds, and trained weights."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from snellen.images.geometry import Geometry
from snellen.variants.recipes import Training, seeded
from snellen.zoo import digits_many
from snellen.zoo.digits import CLASSES, SIDE

MEAN = 0.33
STD = 0.22
GEOMETRY = Geometry(size=(SIDE, SIDE), crop=1.0)
MANY_GEOMETRY = Geometry(size=(digits_many.SIDE, digits_many.SIDE), crop=1.0)

EPOCHS = 8
MOST_EPOCHS = 24
STEPS = 472
"""With fewer images there are more epochs, up to about this many steps."""

BATCH = 48
RATE = 0.015
SHIFT = 2
"""Images are rolled by up to this many pixels in training."""


Loss = Callable[[Tensor, Tensor], Tensor]
"""The loss of logits and labels."""

SMOOTHED: Loss = partial(functional.cross_entropy, label_smoothing=0.05)
"""For exclusive classes."""


class DigitNet(nn.Module):
    """Four convolutions; `features` ends in 48 maps of 8×8 for scenes of 32×32, whose means a linear layer reads."""

    def __init__(self, classes: int = len(CLASSES), channels: int = 3) -> None:
        super().__init__()
        self.features = nn.Sequential(
            _convolution(channels, 16, stride=2), _convolution(16, 24, stride=2), _convolution(24, 32), _convolution(32, 48)
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flat = nn.Flatten()
        self.classifier = nn.Linear(48, classes)

    def forward(self, inputs: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
        """Logits."""
        logits: Tensor = self.classifier(self.flat(self.pool(self.features(inputs))))
        return logits


class DigitResNet(nn.Module):
    """The other architecture, with a residual block and a 1×1 convolution at the end."""

    def __init__(self, classes: int = len(CLASSES), channels: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(channels, 16, stride=2), _convolution(16, 32, stride=2))
        self.body = nn.Sequential(_convolution(32, 32), _convolution(32, 32, active=False))
        self.relu = nn.ReLU()
        self.head = _convolution(32, 64, kernel=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flat = nn.Flatten()
        self.classifier = nn.Linear(64, classes)

    def forward(self, inputs: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
        """Logits."""
        stem = self.stem(inputs)
        logits: Tensor = self.classifier(self.flat(self.pool(self.head(self.relu(stem + self.body(stem))))))
        return logits


def _convolution(channels: int, out: int, *, kernel: int = 3, stride: int = 1, active: bool = True) -> nn.Sequential:
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["conv"] = nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)
    parts["norm"] = nn.BatchNorm2d(out)
    if active:
        parts["relu"] = nn.ReLU()
    return nn.Sequential(parts)


def digits_recipe(dataset: Dataset[tuple[Tensor, int]], seed: int, options: Mapping[str, Any]) -> nn.Module:
    """A recipe (see `Recipe`): a small network trained on (input, label) pairs, in seconds for some thousand small images.

    The same seed gives the same weights on the same machine; the global random state does not change.
    """
    inputs, labels = dataset.tensors() if isinstance(dataset, Training) else _stacked(dataset)
    classes = int(options.get("classes", int(labels.max()) + 1))
    build = DigitResNet if options.get("architecture") == "other" else DigitNet
    with seeded(seed):
        network = build(classes, inputs.shape[1])
    return train(network, inputs, labels, seed=seed)


def train(
    network: nn.Module,
    inputs: Float[Tensor, "images channels height width"],
    labels: Int[Tensor, " images"] | Float[Tensor, "images labels"],
    *,
    seed: int,
    epochs: int | None = None,
    loss: Loss = SMOOTHED,
    after_epoch: Callable[[int, nn.Module], None] | None = None,
) -> nn.Module:
    """The network, trained in place on these images and left in evaluation mode.

    Args:
        network: the network, with its initial weights.
        inputs: the images.
        labels: a class per image, or whatever `loss` compares with logits.
        seed: decides the order and the shifts of the images.
        epochs: how often each image is seen; by the number of images if None.
        loss: the loss of logits and labels.
        after_epoch: called with the number of epochs so far and the network.
    """
    generator = torch.Generator().manual_seed(seed)
    count = max(1, len(inputs) // BATCH)
    epochs = epochs or min(MOST_EPOCHS, max(EPOCHS, round(STEPS / count)))
    inputs = inputs.contiguous(memory_format=torch.channels_last)
    network.train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=RATE, total_steps=epochs * count)
    with torch.enable_grad():
        for epoch in range(epochs):
            order = torch.randperm(len(inputs), generator=generator)
            for chosen in order.chunk(count):
                down, across = torch.randint(-SHIFT, SHIFT + 1, (2,), generator=generator).tolist()
                moved = inputs[chosen].roll((down, across), (2, 3))
                optimiser.zero_grad()
                loss(network(moved), labels[chosen]).backward()
                optimiser.step()
                schedule.step()
            if after_epoch is not None:
                after_epoch(epoch + 1, network)
    return network.eval()


def digit_network() -> nn.Module:
    """The trained default classifier of the digit scenes."""
    network = DigitNet()
    network.load_state_dict(load_file(weight_folder() / "final.safetensors"))
    return network.eval()


def many_digits_network() -> nn.Module:
    """The trained classifier of scenes with several digits: a logit per digit."""
    network = DigitNet()
    network.load_state_dict(load_file(many_digits_weights()))
    return network.eval()


def many_digits_weights() -> Path:
    """The file of its weights; in a folder of its own, because those beside `final` are checkpoints of another network."""
    return weight_folder() / "many" / "final.safetensors"


def weight_folder() -> Path:
    """The folder of the weights: `final`, and checkpoints such as `epoch-1`, in half precision."""
    return Path(str(resources.files("snellen.zoo"))) / "digit_weights"


def _stacked(dataset: Dataset[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    inputs, labels = zip(*(dataset[place] for place in range(len(dataset))), strict=True)  # type: ignore[arg-type]
    return torch.stack(inputs), torch.tensor(labels)
