"""Failures that are too rare to occur in the images of a run, and passes that they could turn into fails.

Of n images on which something never happened, up to 3 in n of all images may still show it (the rule of three: with 95 %).
No interval covers what none of the images shows. How much it could matter is bounded where scores are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from snellen.runs.record import MetricSpec
from snellen.verdicts.paired_difference import PairedDifference
from snellen.verdicts.sampling import PLURAL, Unit

HIDDEN = 3
"""An event that happens on 3 in n of all images is absent from n images with a probability of e⁻³, about 5 %."""

DISTINCT = 3
"""Differences with at most this many distinct values do not show how large another difference may be."""


def worst_value(metric: MetricSpec) -> float:
    """The worst score that a metric can give, negated where lower is better; -inf where that end is open."""
    low, high = metric.bounds
    end = low if metric.higher_is_better else high
    return -math.inf if end is None else float(end) if metric.higher_is_better else -float(end)


def rare_failure_note(
    own: Float[np.ndarray, " images"],
    rivals: Float[np.ndarray, "images controls"],
    against: Sequence[PairedDifference],
    worst: float,
    unit: Unit,
) -> str:
    """A caveat for a pass that unseen failures could undo; empty for other passes.

    `against` has an entry per column of `rivals`. A failure is taken to score as badly as the metric allows or, without
    such an end, as the worst map of the test did.
    """
    bounded = not math.isinf(worst)
    if not bounded:
        worst = float(np.nanmin(np.concatenate([own[:, None], rivals], axis=1)))
    for place, difference in enumerate(against):
        share = HIDDEN / difference.units
        lost = difference.mean + float(np.nanmean(rivals[:, place])) - worst
        differences = own - rivals[:, place]
        uninformative = not bounded and _few(differences[~np.isnan(differences)])
        if uninformative or difference.low <= share * lost:
            return _sentence(min(difference.units for difference in against), unit)
    return ""


def _few(values: Float[np.ndarray, " images"]) -> bool:
    """Whether there are at most `DISTINCT` distinct values, apart from rounding."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return len(np.unique(np.round(values / largest, 6))) <= DISTINCT


def _sentence(n: int, unit: Unit) -> str:
    return f"could be undone by large failures on fewer than 1 in {n // HIDDEN} {PLURAL[unit]}, which {n} need not show"
