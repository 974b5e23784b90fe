"""Integrated gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.maps.folding import Fold, fold
from snellen.plugins.registry import method
from snellen.plugins.traits import TraitEvidence
from snellen.types import Fill, Images, Maps, Output, Passes, Rng, Targets

FEWEST, MOST = 32, 512
"""Steps of the first attempt, and the most steps: after these an image is left as it is, even if its sum misses the rise."""

ROUNDING = 1e-6
"""A rise of no more than this share of the outputs is rounding: more steps would not bring the sum closer to it."""


@method(
    "integrated-gradients",
    cite="sundararajan2017",
    family="path",
    signed=True,
    complete=TraitEvidence(0.05, images=157, networks=11, missed=1),
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5, missed=1),
    needs={"gradients"},
    at_most=True,
    presets={
        "zhang2024": {"steps": 100, "fold": "absolute-max"},
        "cose2023": {"steps": 25, "of": "probability", "fold": "absolute-sum"},
        "kim2022": {"steps": 64, "baseline": "black"},
        "boggust2023": {"steps": 50, "baseline": "gaussian", "fold": "absolute-sum"},
    },
    ranges={
        "steps": (8, 32, 100),
        "tolerance": (0.01, 0.1),
        "baseline": ("black", "blur", "gaussian"),
        "of": ("probability",),
        "fold": ("absolute-sum", "absolute-max", "norm"),
    },
    version=2,
)
@dataclass(frozen=True)
class IntegratedGradients:
    """Each pixel's share of the rise from a baseline's output to the image's: mean gradient on the line times difference.

    Steps are added image by image until the map's sum meets the rise to within `tolerance` of it: 32 at first, then twice as
    many, up to 512, by the trapezoid rule, which uses each gradient again. With `steps` the mean is taken at so many
    Gauss-Legendre nodes instead, however far the sum misses.
    """

    steps: int | None = None
    tolerance: float = 0.05
    baseline: Fill = MEAN
    of: Output = "logit"
    fold: Fold = "sum"

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")
        if not self.tolerance > 0:
            raise ValueError(f"tolerance must be positive, not {self.tolerance}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per step; without `steps`, those of the largest number of steps."""
        count = MOST + 1 if self.steps is None else self.steps
        return Passes(count, count)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        start = self.baseline(classifier, inputs, rng=rng)
        if self.steps is None:
            shares = integrated_within(classifier, start, inputs, targets, tolerance=self.tolerance, of=self.of)
        else:
            shares = integrated(classifier, start, inputs, targets, steps=self.steps, of=self.of)
        return fold(shares, self.fold)


def integrated(classifier: Classifier, start: Images, inputs: Images, targets: Targets, *, steps: int, of: Output) -> Images:
    """Each input value's share of the rise of the output on the straight line from `start`.

    Args:
        classifier: the model.
        start: where the line begins, for each image.
        inputs: where the line ends.
        targets: the target class of each image.
        steps: number of Gauss-Legendre nodes on the line.
        of: which output of the target.
    """
    places, weights = (torch.from_numpy(values).to(inputs) for values in np.polynomial.legendre.leggauss(steps))
    gradient, _ = _along(classifier, start, inputs, targets, (places + 1) / 2, weights / 2, of)
    return (inputs - start) * gradient


def integrated_within(
    classifier: Classifier, start: Images, inputs: Images, targets: Targets, *, tolerance: float, of: Output
) -> Images:
    """The same with as many steps for each image as its sum needs to meet the rise.

    Args:
        classifier: the model.
        start: where the line begins, for each image.
        inputs: where the line ends.
        targets: the target class of each image.
        tolerance: largest gap between the sum and the rise, as a share of the rise.
        of: which output of the target.
    """
    difference = inputs - start
    weights = torch.full((FEWEST + 1,), 1 / FEWEST).to(inputs)
    weights[[0, -1]] /= 2
    places = torch.linspace(0, 1, FEWEST + 1).to(inputs)
    gradient, outputs = _along(classifier, start, inputs, targets, places, weights, of)
    at_start, at_image = outputs[:, 0].double(), outputs[:, -1].double()
    rise = at_image - at_start
    moved = rise.abs() > ROUNDING * torch.maximum(at_image.abs(), at_start.abs())
    steps = FEWEST
    while steps < MOST:
        total = (difference.double() * gradient).sum(dim=(1, 2, 3))
        (rows,) = torch.nonzero(moved & ((total - rise).abs() > tolerance * rise.abs()), as_tuple=True)
        if not len(rows):
            break
        # Half of the points of twice as many steps are computed already: the new ones lie in the middle between them.
        places = ((torch.arange(steps) + 0.5) / steps).to(inputs)
        weights = torch.full_like(places, 1 / steps)
        between, _ = _along(classifier, start[rows], inputs[rows], targets[rows], places, weights, of)
        gradient[rows] = (gradient[rows] + between) / 2
        steps *= 2
    return difference * gradient


def _along(
    classifier: Classifier,
    start: Images,
    inputs: Images,
    targets: Targets,
    places: Float[Tensor, " places"],
    weights: Float[Tensor, " places"],
    of: Output,
) -> tuple[Images, Float[Tensor, "batch places"]]:
    """The weighted sum of the gradients at these places on the line, and the outputs there."""
    total, outputs = torch.zeros_like(inputs), []
    count = classifier.copies(inputs)
    for share, weight in zip(places.split(count), weights.split(count), strict=True):
        line = start[:, None] + share.view(1, -1, 1, 1, 1) * (inputs - start)[:, None]
        gradient, output = classifier.gradient(line.flatten(0, 1), targets.repeat_interleave(len(share)), of=of)
        total += torch.einsum("bs...,s->b...", gradient.view(line.shape), weight)
        outputs.append(output.view(len(inputs), -1))
    return total, torch.cat(outputs, dim=1)
