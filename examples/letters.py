"""Pictures of a letter, A or B, and a program that was meant to read it but goes by boxes: its reasoning is known.

    python examples/letters.py runs/letters-pictures

The program is TextBox's network complex-cr1. Where the small box is shown, it says B if the large box is shown too and A if
not, and does not look at the letter; elsewhere it reads the letter. So it is wrong on a quarter of these pictures, for a
reason that a right map shows. A mask of each picture says what the program really looks at.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from snellen.classifier import Classifier
from snellen.textbox.exam.exam_scenes import focused_and_avoided
from snellen.textbox.networks.trained_network import find_network
from snellen.textbox.scenes.objects import bucket_number

NETWORK = "complex-cr1"
LETTERS = ("A", "B")
EACH = 18
"""Pictures of every letter with every choice of boxes."""
SEED = 7


def reader() -> Classifier:
    """The program, with letters as its classes."""
    network = find_network(NETWORK)
    geometry = network.classifier().geometry
    return Classifier(network.module, mean=0.0, std=1.0, classes=LETTERS, name="reader", geometry=geometry, channels=3)


def write(folder: Path) -> None:
    """Pictures, masks and labels, under names that do not tell what is in them."""
    spec = find_network(NETWORK).spec
    objects = spec.rule.objects
    kinds = [
        (letter, bucket_number(objects, {"text": letter, "box1": first, "box2": other}))
        for letter in LETTERS
        for first in (None, "box1")
        for other in (None, "box2")
    ]
    chosen = [kind for kind in kinds for _ in range(EACH)]
    scenes = spec.layout.scenes([bucket for _, bucket in chosen], range(len(chosen)), seed=SEED)
    focused, _ = focused_and_avoided(spec, scenes)
    masks = (scenes.regions() & focused[:, :, None, None]).any(dim=1)
    order = np.random.default_rng(SEED).permutation(len(chosen))
    for room in ("images", "masks"):
        (folder / room).mkdir(parents=True, exist_ok=True)
    with open(folder / "labels.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("file", "label"))
        for number, place in enumerate(order.tolist()):
            name = f"{number:03d}.png"
            Image.fromarray(scenes.pixels[place].permute(1, 2, 0).numpy()).save(folder / "images" / name)
            Image.fromarray((masks[place] * 255).to(torch.uint8).numpy()).save(folder / "masks" / name)
            table.writerow((name, chosen[place][0]))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
