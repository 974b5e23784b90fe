"""Script that trains the classifiers of the digit scenes and writes their weights: `make digits-weights`.

`python -m snellen.zoo.digit_weights digits-many` trains only that classifier.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from snellen.variants.recipes import seeded
from snellen.zoo.digit_networks import (
    EPOCHS,
    MEAN,
    STD,
    DigitNet,
    digit_network,
    many_digits_network,
    many_digits_weights,
    train,
    weight_folder,
)
from snellen.zoo.digits import TRAINING_SCENES, scenes
from snellen.zoo.digits_many import TRAINING_SCENES as MANY_TRAINING_SCENES
from snellen.zoo.digits_many import many_scenes

SAVED_EPOCHS = (1, 2, 4, 6)
"""Epochs whose weights are saved besides the final ones."""

MANY_EPOCHS = 12
PRESENT_WEIGHT = 3.0
"""How much more a label counts in the loss where it is present: about 14 % of labels are."""


def _write(path: Path, network: nn.Module) -> None:
    path.parent.mkdir(exist_ok=True)
    weights = {
        key: (value.half() if value.is_floating_point() else value).contiguous()
        for key, value in network.state_dict().items()
    }
    save_file(weights, path)


def _write_epoch(epoch: int, network: nn.Module) -> None:
    name = "final" if epoch == EPOCHS else f"epoch-{epoch}"
    if epoch == EPOCHS or epoch in SAVED_EPOCHS:
        _write(weight_folder() / f"{name}.safetensors", network)


def train_digits() -> None:
    """Trains `digits`, writes its weights, and prints the accuracy on scenes of unseen digits."""
    training = scenes("training", TRAINING_SCENES)
    with seeded(0):
        network = DigitNet()
    train(network, (training.pixels - MEAN) / STD, training.labels, seed=0, after_epoch=_write_epoch)
    unseen = scenes("evaluation", 1800, seed=1)
    with torch.no_grad():
        right = digit_network()((unseen.pixels - MEAN) / STD).argmax(dim=1) == unseen.labels
    print(f"digits: right on {right.float().mean():.1%} of {len(right)} unseen scenes")


def train_digits_many() -> None:
    """Trains `digits-many`, writes its weights, and prints the balanced accuracy on scenes of unseen digits."""
    training = many_scenes("training", MANY_TRAINING_SCENES)
    with seeded(0):
        network = DigitNet()
    loss = partial(functional.binary_cross_entropy_with_logits, pos_weight=torch.tensor(PRESENT_WEIGHT))
    inputs, labels = (training.pixels - MEAN) / STD, training.labels.float()
    _write(many_digits_weights(), train(network, inputs, labels, seed=0, epochs=MANY_EPOCHS, loss=loss))
    unseen = many_scenes("evaluation", 1800, seed=1)
    with torch.no_grad():
        predicted = many_digits_network()((unseen.pixels - MEAN) / STD) > 0
    balanced = balanced_accuracy(predicted, unseen.labels)
    print(
        f"digits-many: balanced accuracy {balanced.mean():.3f} over ten labels, {balanced.min():.3f} of the worst, "
        f"all ten right on {(predicted == unseen.labels).all(dim=1).float().mean():.1%} of {len(predicted)} unseen scenes"
    )


def balanced_accuracy(predicted: Bool[Tensor, "scenes labels"], labels: Bool[Tensor, "scenes labels"]) -> Tensor:
    """Of each label, the mean of two shares: predicted where it is present, not predicted where it is absent."""
    present = (predicted & labels).sum(dim=0) / labels.sum(dim=0)
    absent = (~predicted & ~labels).sum(dim=0) / (~labels).sum(dim=0)
    return (present + absent) / 2


SCRIPTS = {"digits": train_digits, "digits-many": train_digits_many}


def main() -> None:
    """Trains the classifiers named on the command line, by default all."""
    torch.set_num_threads(1)
    for name in sys.argv[1:] or SCRIPTS:
        SCRIPTS[name]()


if __name__ == "__main__":
    main()
