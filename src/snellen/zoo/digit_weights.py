"""Script that trains the default classifier of the digit scenes and writes its weights: `make digits-weights`."""

from __future__ import annotations

import torch
from safetensors.torch import save_file
from torch import nn

from snellen.variants.recipes import seeded
from snellen.zoo.digit_networks import EPOCHS, MEAN, STD, DigitNet, digit_network, train, weight_folder
from snellen.zoo.digits import TRAINING_SCENES, scenes

SAVED_EPOCHS = (1, 2, 4, 6)
"""Epochs whose weights are saved besides the final ones."""


def _write(epoch: int, network: nn.Module) -> None:
    name = "final" if epoch == EPOCHS else f"epoch-{epoch}"
    if epoch == EPOCHS or epoch in SAVED_EPOCHS:
        weights = {
            key: (value.half() if value.is_floating_point() else value).contiguous()
            for key, value in network.state_dict().items()
        }
        save_file(weights, weight_folder() / f"{name}.safetensors")


def main() -> None:
    """Trains, writes, and prints the accuracy on scenes of unseen digits."""
    torch.set_num_threads(1)
    weight_folder().mkdir(exist_ok=True)
    training = scenes("training", TRAINING_SCENES)
    with seeded(0):
        network = DigitNet()
    train(network, (training.pixels - MEAN) / STD, training.labels, seed=0, after_epoch=_write)
    unseen = scenes("evaluation", 1800, seed=1)
    with torch.no_grad():
        right = digit_network()((unseen.pixels - MEAN) / STD).argmax(dim=1) == unseen.labels
    print(f"right on {right.float().mean():.1%} of {len(right)} unseen scenes")


if __name__ == "__main__":
    main()
