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
from snellen.verdicts.sampling import PLURAL, SamplingUnit

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
    method_scores: Float[np.ndarray, " images"],
    control_scores: Float[np.ndarray, "images controls"],
    against: Sequence[PairedDifference],
    worst: float,
    unit: SamplingUnit,
) -> str:
    """A caveat for a pass that unseen failures could undo; empty for other passes.

    A failure is assumed to score as badly as the metric allows or, where its scores have no bound, as the worst map of the
    test did.

    Args:
        method_scores: A score of the method per image; larger is better here and below.
        control_scores: The scores of the controls.
        against: The difference between the method and each control, in the order of the columns.
        worst: The worst score that the metric can give; -inf where there is none (see `worst_value`).
        unit: What was drawn at random.
    """
    bounded = not math.isinf(worst)
    if not bounded:
        worst = float(np.nanmin(np.concatenate([method_scores[:, None], control_scores], axis=1)))
    for column, difference in enumerate(against):
        share = HIDDEN / difference.units
        loss = difference.mean + float(np.nanmean(control_scores[:, column])) - worst
        differences = method_scores - control_scores[:, column]
        uninformative = not bounded and _has_few_values(differences[~np.isnan(differences)])
        if uninformative or difference.low <= share * loss:
            return _caveat(min(difference.units for difference in against), unit)
    return ""


def _has_few_values(values: Float[np.ndarray, " images"]) -> bool:
    """Whether there are at most `DISTINCT` distinct values, apart from rounding."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return len(np.unique(np.round(values / largest, 6))) <= DISTINCT


def _caveat(n: int, unit: SamplingUnit) -> str:
    return f"could be undone by large failures on fewer than 1 in {n // HIDDEN} {PLURAL[unit]}, which {n} need not show"
