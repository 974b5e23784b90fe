"""Failures that are too rare for the images to show, and verdicts that they could undo.

Of n images on which something never happened, up to 3 in n of all images may still show it (the rule of three: with 95 %).
No interval knows of what none of the images shows. How much it could matter is known where scores have an end.
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
"""Of n images, what up to this many in n of all images do may go unseen: e⁻³ is 5 %."""

DISTINCT = 3
"""Differences that take no more values than this say nothing of how bad another may be."""


def worst_value(metric: MetricSpec) -> float:
    """The worst score that a metric can give, turned so that larger is better; -inf where it has no such end."""
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
    """A sentence beside a pass that unseen failures could undo; empty beside others.

    `against` has an entry per column of `rivals`. A failure is taken to score as badly as the metric allows or, without
    such an end, as the worst map of the test did.
    """
    known = not math.isinf(worst)
    if not known:
        worst = float(np.nanmin(np.concatenate([own[:, None], rivals], axis=1)))
    for place, one in enumerate(against):
        share = HIDDEN / one.units
        lost = one.mean + float(np.nanmean(rivals[:, place])) - worst
        differences = own - rivals[:, place]
        steady = not known and _few(differences[~np.isnan(differences)])
        if steady or one.low <= share * lost:
            return _sentence(min(each.units for each in against), unit)
    return ""


def _few(values: Float[np.ndarray, " images"]) -> bool:
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return len(np.unique(np.round(values / largest, 6))) <= DISTINCT


def _sentence(n: int, unit: Unit) -> str:
    several = PLURAL[unit]
    return f"could be undone by large failures on fewer than 1 in {n // HIDDEN} {several}, which {n} need not show"
