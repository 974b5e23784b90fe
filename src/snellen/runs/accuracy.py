"""Accuracy: how often the classifier is right about the labelled images, with a remark where that is doubtful."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

USUAL_REASONS = "a mean, std or size other than in training, or classes in another order"


@dataclass(frozen=True)
class Accuracy:
    """The share of labelled images that the classifier is right about, with its 95 % interval (Wilson) and a remark."""

    correct: int
    """How many images the classifier is right about."""
    n: int
    """How many labelled images."""
    low: float
    high: float
    """Ends of the interval of the share."""
    chance: float
    """The share that guessing would reach."""
    remark: str
    """A sentence about the share; empty where it needs none."""
    doubtful: bool
    """Whether the remark questions how the model was set up."""

    name = "Accuracy"

    @property
    def share(self) -> float:
        """The share of labelled images that the classifier is right about."""
        return self.correct / self.n

    @property
    def words(self) -> str:
        """The number with its interval and n."""
        images = f"{self.n} labelled image{'' if self.n == 1 else 's'}"
        return f"{self.share:.2f} [{self.low:.2f}, {self.high:.2f}], {self.correct} of {images}"

    @property
    def sentence(self) -> str:
        """The same in a sentence, for pages."""
        return f"The classifier is right about {self.correct} of {self.n} labelled images."


def accuracy(
    labels: Sequence[int | None],
    predictions: Sequence[int],
    classes: int,
    names: Sequence[str] | None = None,
    condition: str | None = None,
) -> Accuracy | None:
    """The accuracy over the labelled images; None where none is labelled.

    Chance is 1 / classes: a guess does not use which labels these images have, so a classifier that is right about
    every image of a single class is far above chance. Always giving the most frequent label is a separate comparison.

    Args:
        labels: The class of each image; None where it has no label.
        predictions: The class that the classifier predicts for each image.
        classes: How many classes the classifier has.
        names: Names of the classes, for the remark.
        condition: How the images were changed, for the remark.
    """
    pairs = [(label, prediction) for label, prediction in zip(labels, predictions, strict=True) if label is not None]
    if not pairs:
        return None
    from scipy.stats import binomtest  # half a second, which workers do not need

    n, correct, chance = len(pairs), sum(label == prediction for label, prediction in pairs), 1 / classes
    interval = binomtest(correct, n).proportion_ci(method="wilson")
    low, high = float(interval.low), float(interval.high)
    share = correct / n
    reasons = USUAL_REASONS + (f", or the condition {condition}" if condition else "")
    frequent, count = Counter(label for label, _ in pairs).most_common(1)[0]

    def name(index: int) -> str:
        return f"'{names[index]}'" if names else f"class {index}"

    remark, doubtful = "", False
    if low <= chance and share < (1 + chance) / 2:
        remark = f"Not shown to be above chance (1 of {classes}, {chance:.2g}). The usual reasons: {reasons}."
        doubtful = True
    elif count < n and len({prediction for _, prediction in pairs}) == 1:
        remark = f"Every image is called {name(pairs[0][1])}. The usual reasons: {reasons}."
        doubtful = True
    elif low <= chance:
        remark = f"Too few labelled images to tell it from chance (1 of {classes})."
    elif count < n and correct <= count:
        remark = f"No more than always saying {name(frequent)} would reach ({count / n:.2f})."
    elif share < 0.5:
        remark = f"If this model is known to do better, the usual reasons are {reasons}."
    return Accuracy(correct=correct, n=n, low=low, high=high, chance=chance, remark=remark, doubtful=doubtful)
