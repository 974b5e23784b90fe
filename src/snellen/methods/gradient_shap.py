"""Expected gradients, which captum and shap call GradientShap and GradientExplainer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.plugins.registry import method
from snellen.plugins.traits import TraitEvidence
from snellen.types import Fill, Images, Maps, Output, Passes, Rng, Targets


@method(
    "gradient-shap",
    cite="erion2021",
    family="path",
    signed=True,
    deterministic=False,
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5, missed=1),
    needs={"gradients"},
    # Its second baseline was the image itself, by mistake, which only adds rows of zeros; the first is the mean.
    presets={"boggust2023": {"samples": 5}},
    ranges={
        "samples": (5, 50, 100),
        "spread": (0.1, 0.3),
        "baseline": ("black", "noise", "gaussian"),
        "of": ("probability",),
    },
)
@dataclass(frozen=True)
class GradientShap:
    """Each pixel's expected share of the rise from a baseline: gradient at a random point of the line, times the difference.

    The mean is taken over `samples` draws: a point between the ends of the line, the baseline anew where it is random
    (`baseline=noise`), and Gaussian noise on the image with standard deviation `spread`, in inputs. The map's sum meets the
    rise only in the mean over many draws.
    """

    samples: int = 25
    spread: float = 0.0
    baseline: Fill = MEAN
    of: Output = "logit"

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if self.spread < 0:
            raise ValueError(f"spread must not be negative, not {self.spread}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per sample."""
        return Passes(self.samples, self.samples)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        total = torch.zeros_like(inputs[:, 0])
        count = max(1, classifier.rows_for(inputs, gradients=True) // len(inputs))
        for first in range(0, self.samples, count):
            copies = range(first, min(first + count, self.samples))
            draws = rng.child("gradient-shap").repeat(copies)
            image = inputs.repeat_interleave(len(copies), dim=0)
            if self.spread:
                image = image + self.spread * draws.normal("noise", tuple(inputs.shape[1:])).to(inputs)
            start = self.baseline(classifier, image, rng=draws)
            difference = image - start
            share = draws.uniform("point", (1, 1, 1)).to(inputs)
            gradient, _ = classifier.gradient(start + share * difference, targets.repeat_interleave(len(copies)), of=self.of)
            total += (gradient * difference).sum(dim=1).view(len(inputs), len(copies), *total.shape[1:]).sum(dim=1)
        return total / self.samples
