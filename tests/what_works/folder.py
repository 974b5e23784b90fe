"""The folder in which every command of the table runs: small models, images, labels, maps and plug-ins of a user."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 32
FINDINGS = [f"finding{number}" for number in range(14)]

_MODELS = """
import torch
from torch import nn


def _network(outputs, channels=3, *last):
    torch.manual_seed(0)
    layers = [nn.Conv2d(channels, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, outputs), *last).eval()


def five():
    return _network(5)


def five_probabilities():
    return _network(5, 3, nn.Softmax(1))


def fourteen():
    return _network(14)


def fourteen_probabilities():
    return _network(14, 3, nn.Sigmoid())


def one():
    return _network(1)


def four_channels():
    return _network(5, 4)


def grey():
    return _network(5, 1)


def black_box():
    network = five()
    return lambda images: network(images).detach()


def no_model():
    return "weights.pt"


def second_minus_first(logits):
    return logits[:, 1] - logits[:, 0]
"""


def write_folder(folder: Path) -> Path:
    """Writes everything that the commands name."""
    (folder / "models.py").write_text(_MODELS, encoding="utf-8")
    generator = np.random.default_rng(0)
    pictures = folder / "pictures"
    pictures.mkdir()
    for number in range(3):
        small = generator.integers(0, 255, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(pictures / f"p{number}.png")
    _write_tables(folder)
    return folder


def _write_tables(folder: Path) -> None:
    (folder / "findings.txt").write_text("\n".join(FINDINGS) + "\n", encoding="utf-8")
    marks = {0: ["1", "0", "", "-1", *["0"] * 10], 1: ["1", "1", *["0"] * 12], 2: ["0"] * 13 + ["1"]}
    columns = ["file," + ",".join(FINDINGS), *(f"p{number}.png," + ",".join(row) for number, row in marks.items())]
    tables = {
        "findings.csv": columns,
        "rows.csv": ["file,label", "p0.png,finding0", "p1.png,finding0", "p1.png,finding1", "p2.png,finding13"],
        "classes.csv": ["file,label", "p0.png,0", "p1.png,1", "p2.png,4"],
        "beyond.csv": ["file,label", "p0.png,0", "p1.png,7", "p2.png,4"],
        "short.csv": ["file,label", "p0.png,0"],
        "two.csv": ["file,mark", "p0.png,0", "p1.png,1", "p2.png,1"],
        "marks.csv": [columns[0], *(line[:-1] + "2" for line in columns[1:])],
        "ages.csv": ["file,label", "p0.png,63", "p1.png,41.5", "p2.png,70"],
    }
    for name, lines in tables.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
