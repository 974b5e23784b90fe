"""Small scenes with a handwritten digit each, made from the digits in scikit-learn.

A digit of 8×8 pixels is enlarged to 16×16 and drawn in one colour at a random position of a 32×32 background with uneven
colour, grain and a few specks. The truth is where its strokes are. A scene depends only on the seed and its number. Training
and evaluation scenes show different digits.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from snellen.errors import SnellenError
from snellen.images import Samples, from_arrays
from snellen.types import Rng

SIDE = 32
"""Height and width of a scene in pixels."""
DIGIT = 16
"""Height and width of a digit in a scene."""
CLASSES = tuple("0123456789")

Split = Literal["evaluation", "training"]

EVALUATION_SCENES = 64
TRAINING_SCENES = 2874
"""Two scenes for each of the 1437 training digits."""

_SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
_SPECKS = 4
_INK = 0.35
"""Smallest amount of ink, from 0 to 1, of a pixel that belongs to the strokes."""


@dataclass(frozen=True, eq=False)
class Scenes:
    """Scenes with their digits and strokes."""

    pixels: Float[Tensor, "scenes 3 height width"]
    """The scenes, in [0, 1]."""
    labels: Int[Tensor, " scenes"]
    """The digit of each scene."""
    truth: Bool[Tensor, "scenes height width"]
    """The strokes of each digit."""


def scenes(split: Split, count: int, *, seed: int = 0) -> Scenes:
    """The first `count` scenes of a split; another seed gives other scenes of the same digits."""
    pictures, labels = split_digits(split)
    rng = Rng(seed, tuple(f"digits/{split}/{place}" for place in range(count)))
    order = torch.from_numpy(rng.shared(f"order/{split}").permutation(len(labels)))
    turn = order[torch.arange(count) % len(order)]  # in rounds, so that every digit occurs equally often
    corners = (rng.uniform("place", (2,)) * (SIDE - DIGIT + 1)).long()
    ink, where = draw_digits(pictures[turn], corners, SIDE)
    colour = 0.6 + 0.4 * rng.uniform("ink", (3,))
    pixels = background(rng, SIDE) * (1 - ink[:, None]) + colour[:, :, None, None] * ink[:, None]
    return Scenes(pixels.clamp(0, 1), labels[turn], where)


def digit_samples() -> Samples:
    """64 evaluation scenes with label and truth."""
    return _samples("evaluation", EVALUATION_SCENES)


def training_digits() -> Samples:
    """The scenes that the default classifier was trained on, with label and truth."""
    return _samples("training", TRAINING_SCENES)


def _samples(split: Split, count: int) -> Samples:
    batch = scenes(split, count)
    names = [f"{split}/{place:04d}" for place in range(count)]
    samples = from_arrays(batch.pixels, batch.labels, batch.truth, names)
    return replace(samples, description=f"scikit-learn's digits ({split} scenes)")


def split_digits(split: Split) -> tuple[Float[Tensor, "digits 8 8"], Int[Tensor, " digits"]]:
    """Ink and label of the digits of a split; no digit is in both."""
    pictures, labels = _digits()
    chosen = np.arange(len(labels)) % 5 == 0  # every fifth digit is for evaluation
    chosen = chosen if split == "evaluation" else ~chosen
    return pictures[chosen], labels[chosen]


def draw_digits(
    pictures: Float[Tensor, "scenes 8 8"], corners: Int[Tensor, "scenes 2"], side: int
) -> tuple[Float[Tensor, "scenes height width"], Bool[Tensor, "scenes height width"]]:
    """Each digit enlarged, with its upper left corner at a (row, column) of a scene of `side`×`side` pixels.

    Returns:
        The ink of each pixel, and which pixels are strokes.
    """
    count = len(pictures)
    large = functional.interpolate(pictures[:, None], size=(DIGIT, DIGIT), mode="bicubic", align_corners=False)[:, 0]
    canvas = torch.zeros(count, side, side)
    rows = corners[:, 0, None] + torch.arange(DIGIT)
    columns = corners[:, 1, None] + torch.arange(DIGIT)
    canvas[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]] = large.clamp(0, 1)
    return canvas, canvas > _INK


def background(rng: Rng, side: int) -> Float[Tensor, "scenes 3 height width"]:
    """Uneven colour, grain, and specks on `side`×`side` pixels, by the draws of `rng`."""
    tone = 0.1 + 0.35 * rng.uniform("tone", (3, 1, 1))
    waves = functional.interpolate(rng.uniform("waves", (3, 4, 4)) - 0.5, size=(side, side), mode="bicubic")
    grain = rng.uniform("grain", (3, side, side)) - 0.5
    paper = tone + 0.3 * waves + 0.12 * grain
    places = torch.arange(side)
    middle = rng.uniform("specks", (_SPECKS, 2)) * side
    reach = 0.7 + 1.3 * rng.uniform("reach", (_SPECKS, 2))
    shade = rng.uniform("shade", (_SPECKS, 3))
    for speck in range(_SPECKS):
        down = (places - middle[:, speck, 0, None]).abs() < reach[:, speck, 0, None]
        across = (places - middle[:, speck, 1, None]).abs() < reach[:, speck, 1, None]
        covered = (down[:, :, None] & across[:, None, :])[:, None]
        paper = torch.where(covered, shade[:, speck, :, None, None], paper)
    return paper.clamp(0, 1)


@lru_cache
def _digits() -> tuple[Float[Tensor, "digits 8 8"], Int[Tensor, " digits"]]:
    """Ink in [0, 1] and label of all 1797 digits. The file is read without importing scikit-learn, which takes seconds."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise SnellenError("the digits come with scikit-learn: pip install 'snellen[demo]'")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    content = gzip.decompress(path.read_bytes())
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise SnellenError(f"'{path}' does not hold the digits that Snellen expects; install scikit-learn again")
    table = np.loadtxt(content.decode().splitlines(), delimiter=",", dtype=np.float32)
    return torch.from_numpy(table[:, :64].reshape(-1, 8, 8) / 16), torch.from_numpy(table[:, 64]).long()
