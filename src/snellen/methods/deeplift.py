"""DeepLIFT, with each of its two rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.methods import rescale_rule, reveal_cancel_rule
from snellen.plugins.registry import method
from snellen.plugins.traits import TraitEvidence
from snellen.types import Fill, Images, Maps, Passes, Rng, Targets


@method(
    "deeplift-rescale",
    cite="shrikumar2017",
    family="relevance-propagation",
    signed=True,
    complete=TraitEvidence(0.001, images=157, networks=11),
    needs={"gradients", "layer"},
    caveats={"sundararajan2017": "two networks that compute the same function can get different maps"},
    presets={"kim2022": {"baseline": "black"}},
    ranges={"baseline": ("black", "blur", "gaussian")},
)
@dataclass(frozen=True)
class DeepLiftRescale:
    """Each pixel's share of the rise from a baseline's logit to the image's, every nonlinearity replaced by its secant."""

    baseline: Fill = MEAN

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Refuses a classifier with an operation that the rule does not cover."""
        rescale_rule.check_operations("deeplift-rescale", classifier, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """The image and its baseline forward, the image backward."""
        return Passes(2, 1)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        start = self.baseline(classifier, inputs, rng=rng)
        return rescale_rule.shares("deeplift-rescale", classifier, inputs, start, targets).sum(dim=1)


@method(
    "deeplift-reveal-cancel",
    cite="shrikumar2017",
    family="relevance-propagation",
    signed=True,
    complete=TraitEvidence(0.001, images=157, networks=11),
    needs={"gradients", "layer"},
    caveats={"sundararajan2017": "two networks that compute the same function can get different maps"},
    presets={"kim2022": {"baseline": "black"}, "shrikumar2017-genomics": {"maps": "rescale"}},
    ranges={"baseline": ("black", "blur", "gaussian"), "maps": ("rescale",)},
)
@dataclass(frozen=True)
class DeepLiftRevealCancel:
    """Each pixel's share of the rise from a baseline's logit to the image's, rises and falls credited apart.

    What raises a unit and what lowers it enter its nonlinearity as two players whose credit is averaged over both orders,
    so that two causes of which one would do share the credit. `maps` chooses the rule on feature maps.
    """

    baseline: Fill = MEAN
    maps: Literal["reveal-cancel", "rescale"] = "reveal-cancel"

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Refuses a classifier with an operation that the rule does not cover."""
        reveal_cancel_rule.check_operations("deeplift-reveal-cancel", classifier, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """The rising part, the falling part and the baseline, forward and backward."""
        return Passes(3, 3)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        start = self.baseline(classifier, inputs, rng=rng)
        everywhere = self.maps == "reveal-cancel"
        shares = reveal_cancel_rule.shares(
            "deeplift-reveal-cancel", classifier, inputs, start, targets, everywhere=everywhere
        )
        return shares.sum(dim=1)
