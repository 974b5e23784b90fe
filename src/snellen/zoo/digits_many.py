"""Scenes with zero to three handwritten digits each, for a classifier with an independent label per digit.

The digits, their strokes and the background are those of `digits`, on 48×48 pixels. Each digit has a quarter of the scene
and a colour of its own; a digit may occur twice. The truth of a label is where the strokes of its digits are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from snellen.images import Samples, from_list
from snellen.types import Findings, Rng, Sample
from snellen.zoo.digits import CLASSES, DIGIT, Split, background, draw_digits, split_digits

SIDE = 48
"""Height and width of a scene in pixels."""
MOST = 3
"""The most digits in a scene."""

EVALUATION_SCENES = 64
TRAINING_SCENES = 5748
"""1.5 digits each on average, so that each of the 1437 training digits is shown about six times."""

_QUARTER = SIDE // 2
_CORNERS = torch.tensor([(0, 0), (0, _QUARTER), (_QUARTER, 0), (_QUARTER, _QUARTER)])


@dataclass(frozen=True, eq=False)
class ManyScenes:
    """Scenes with the strokes of each digit."""

    pixels: Float[Tensor, "scenes 3 height width"]
    """The scenes, in [0, 1]."""
    truths: Bool[Tensor, "scenes labels height width"]
    """The strokes of each digit from 0 to 9; none for a digit that the scene does not hold."""

    @property
    def labels(self) -> Bool[Tensor, "scenes labels"]:
        """Whether each digit is in the scene."""
        return self.truths.flatten(2).any(dim=2)


def many_scenes(split: Split, count: int, *, seed: int = 0) -> ManyScenes:
    """The first `count` scenes of a split; another seed gives other scenes of the same digits."""
    pictures, labels = split_digits(split)
    rng = Rng(seed, tuple(f"digits-many/{split}/{place}" for place in range(count)))
    order = torch.from_numpy(rng.shared(f"order/{split}").permutation(len(labels)))
    turn = order[torch.arange(count * MOST) % len(order)].view(count, MOST)
    shown = (rng.uniform("count", (1,)) * (MOST + 1)).long() > torch.arange(MOST)
    colours = 0.6 + 0.4 * rng.uniform("ink", (MOST, 3))
    quarters = rng.uniform("quarters", (len(_CORNERS),)).argsort(dim=1)
    within = (rng.uniform("place", (MOST, 2)) * (_QUARTER - DIGIT + 1)).long()
    pixels = background(rng, SIDE)
    truths = torch.zeros(count, len(CLASSES), SIDE, SIDE, dtype=torch.bool)
    for number in range(MOST):
        ink, strokes = draw_digits(pictures[turn[:, number]], _CORNERS[quarters[:, number]] + within[:, number], SIDE)
        visible = shown[:, number, None, None]
        ink, strokes = (ink * visible)[:, None], strokes & visible
        pixels = pixels * (1 - ink) + colours[:, number, :, None, None] * ink
        truths[torch.arange(count), labels[turn[:, number]]] |= strokes
    return ManyScenes(pixels.clamp(0, 1), truths)


def many_digit_samples() -> Samples:
    """64 evaluation scenes with a finding and a truth for each of the ten labels; the truth of an absent label is empty."""
    batch = many_scenes("evaluation", EVALUATION_SCENES)
    samples = [
        Sample(
            id=f"evaluation/{place:04d}",
            image=pixels,
            label=Findings(tuple(present.nonzero().flatten().tolist()), tuple((~present).nonzero().flatten().tolist())),
            truths=dict(enumerate(truths)),
        )
        for place, (pixels, present, truths) in enumerate(zip(batch.pixels, batch.labels, batch.truths, strict=True))
    ]
    return replace(from_list(samples), description="scikit-learn's digits (evaluation scenes with several digits)")
