"""How the participants of each arm did compared with those who saw no map, as verdicts on methods.

Each participant counts as one value, the mean of the answers, because answers of one participant are correlated. Between
subjects, arms are compared by Welch's test; within subjects, by the paired t-test.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from snellen.runs.people import NO_MAP, ArmContrast, ArmMean, MethodStanding, TaskOutcome
from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.tasks import find_task
from snellen.verdicts import MARGIN, PairedDifference
from snellen.verdicts.paired_difference import further_images
from snellen.verdicts.rule import MOST_ADVISED
from snellen.verdicts.statistics import holm

MINIMUM_PEOPLE = 12
"""An arm with fewer participants gets no verdict; Julious (2005, Pharmaceutical Statistics 4) advises 12 for a pilot."""

ABILITY = (
    "pass: people did better with these maps than people without any; fail: worse, or the whole 95 % interval of the "
    f"difference lies within {MARGIN:g} standard deviations of people; inconclusive: neither. "
    "Each participant counts as one value; {test}, p below {alpha:g}, Holm-corrected over the methods of the task; "
    f"at least {MINIMUM_PEOPLE} people in each arm."
)
SHARPNESS = (
    "pass: rated sharper than every control that people saw; fail: less sharp than some, or the whole 95 % interval lies "
    f"within {MARGIN:g} standard deviations of people of it; inconclusive: neither. "
    "Each participant counts as one value; {test}, p below {alpha:g}, Holm-corrected over methods and controls; "
    f"at least {MINIMUM_PEOPLE} people in each arm."
)
SCALE = "a questionnaire is information: liking a map and being able to use it are two things"

ArmKey = tuple[str, str]
"""An arm and its presentation."""
ArmValues = dict[ArmKey, "pd.Series[float]"]
"""A value per participant, by arm and presentation."""


def outcomes(study: Study, collected: StudyData, controls: Collection[str]) -> tuple[TaskOutcome, ...]:
    """Every task and questionnaire of a study, with a verdict on each method where one can be given.

    Args:
        study: The study.
        collected: The answers of its participants.
        controls: The methods of the run that do not depend on the model; sharpness is judged against them.
    """
    counted, protocol = collected.counted, study.protocol
    test = "the paired t test" if protocol.design == "within" else "Welch's test"
    results = []
    for plan in protocol.tasks:
        task = find_task(plan.task).traits
        values = _participant_values(counted.answers[counted.answers["task"] == plan.task])
        kind: Literal["ability", "sharpness"] = "sharpness" if task.needs_map else "ability"
        outcome = TaskOutcome(
            name=plan.task,
            kind=kind,
            score=task.score,
            higher_is_better=task.higher_is_better,
            rule=(SHARPNESS if task.needs_map else ABILITY).format(test=test, alpha=protocol.alpha),
            arms=_arms(values),
            standings=(),
        )
        results.append(replace(outcome, standings=_standings(outcome, values, study, controls)))
    for name, scale in study.scales.items():
        values = _participant_values(counted.ratings[counted.ratings["scale"] == name])
        results.append(
            TaskOutcome(
                name=name,
                kind="scale",
                score=f"mean of {scale.items} answers, from 1 to {scale.points}",
                higher_is_better=True,
                rule=SCALE,
                arms=_arms(values),
                standings=tuple(
                    MethodStanding(*key, verdict="not counted", reason=SCALE, against=())
                    for key in values
                    if key[0] != NO_MAP
                ),
            )
        )
    return tuple(results)


def _participant_values(rows: pd.DataFrame) -> ArmValues:
    means = rows.groupby(["arm", "presentation", "participant"], sort=True)["score"].mean()
    keys = dict.fromkeys((str(arm), str(presentation)) for arm, presentation, _ in means.index)
    return {key: means.loc[key] for key in keys}


def _arms(values: ArmValues) -> tuple[ArmMean, ...]:
    arms = []
    for (method, presentation), series in values.items():
        low, high = (math.nan, math.nan) if len(series) < 2 else DescrStatsW(series.to_numpy()).tconfint_mean()
        arms.append(
            ArmMean(
                method=method,
                presentation=presentation,
                people=len(series),
                mean=float(series.mean()),
                low=float(low),
                high=float(high),
            )
        )
    return tuple(arms)


def _standings(
    outcome: TaskOutcome, values: ArmValues, study: Study, controls: Collection[str]
) -> tuple[MethodStanding, ...]:
    """The verdict on every arm with maps."""
    with_maps = [key for key in values if key[0] != NO_MAP]
    references = {
        key: [other for other in values if other != key and _is_reference(outcome, key, other, controls)]
        for key in with_maps
    }
    rivals = {
        key: [other for other in with_maps if other[1] == key[1] and other not in (key, *references[key])]
        for key in with_maps
    }
    against = _contrasts(references, values, outcome, study)
    others = _contrasts(rivals, values, outcome, study)
    comparisons = sum(map(len, references.values()))
    standings = []
    for key in with_maps:
        verdict, reason, advice = _verdict(outcome, against[key], study.protocol.alpha, comparisons)
        if outcome.kind == "sharpness" and key[0] in controls:
            verdict, reason, advice = "not counted", "a control, which knows nothing about the model", ""
        standings.append(
            MethodStanding(*key, verdict=verdict, reason=reason, against=against[key], others=others[key], advice=advice)
        )
    return tuple(standings)


def _is_reference(outcome: TaskOutcome, key: ArmKey, other: ArmKey, controls: Collection[str]) -> bool:
    """Whether an arm is judged against another: no map or, where maps are rated, controls in the same presentation."""
    if outcome.kind == "ability":
        return other[0] == NO_MAP
    return key[0] not in controls and other[0] in controls and other[1] == key[1]


def _contrasts(
    pairs: dict[ArmKey, list[ArmKey]], values: ArmValues, outcome: TaskOutcome, study: Study
) -> dict[ArmKey, tuple[ArmContrast, ...]]:
    """The contrasts of each arm with its partners, with Holm's correction over all of them."""
    paired = study.protocol.design == "within"
    contrasts = {
        (key, other): contrast(values[key], values[other], other[0], higher=outcome.higher_is_better, paired=paired)
        for key, partners in pairs.items()
        for other in partners
    }
    # Two methods are one comparison, though each is the partner of the other.
    p_values = {frozenset(pair): result.p for pair, result in contrasts.items()}
    corrected = dict(zip(p_values, holm(np.array(list(p_values.values()), dtype=np.float64)), strict=True))
    return {
        key: tuple(replace(contrasts[key, other], p=float(corrected[frozenset((key, other))])) for other in partners)
        for key, partners in pairs.items()
    }


def contrast(own: "pd.Series[float]", other: "pd.Series[float]", name: str, *, higher: bool, paired: bool) -> ArmContrast:
    """How much better the participants of one arm did than those of another, with an uncorrected p-value.

    Where all values are equal nothing can be tested: interval and p are NaN.

    Args:
        own: A value per participant of the arm.
        other: A value per participant of the other arm.
        name: Of the other arm.
        higher: Whether high values are better.
        paired: Whether the participants of both arms are the same.
    """
    sign = 1.0 if higher else -1.0
    if paired:
        both = own.index.intersection(other.index)
        own, other = own.loc[both], other.loc[both]
    mine, theirs = (sign * series.to_numpy(dtype=np.float64) for series in (own, other))
    smaller = min(len(mine), len(theirs))
    undefined = ArmContrast(
        other=name, mean=float(mine.mean() - theirs.mean()) if smaller else math.nan, low=math.nan, high=math.nan,
        margin=math.nan, error=math.nan, p=math.nan, people=smaller,
    )  # fmt: skip
    if smaller < 2:
        return undefined
    untested = replace(undefined, margin=MARGIN * math.sqrt((mine.var(ddof=1) + theirs.var(ddof=1)) / 2))
    if paired:
        differences = mine - theirs
        if _is_constant(differences):
            return untested
        summary = DescrStatsW(differences)
        (low, high), p, error = summary.tconfint_mean(), summary.ttest_mean()[1], summary.std_mean
    else:
        if _is_constant(mine) and _is_constant(theirs):
            return untested
        means = CompareMeans(DescrStatsW(mine), DescrStatsW(theirs))
        low, high = means.tconfint_diff(usevar="unequal")
        p, error = means.ttest_ind(usevar="unequal")[1], means.std_meandiff_separatevar
    return replace(untested, low=float(low), high=float(high), error=float(error), p=float(p))


def _is_constant(values: Float[np.ndarray, " participants"]) -> bool:
    return float(np.ptp(values)) <= 1e-12 * max(1.0, float(np.abs(values).max()))


def _verdict(outcome: TaskOutcome, against: Sequence[ArmContrast], alpha: float, comparisons: int) -> tuple[str, str, str]:
    """Verdict, reason and advice on one arm by the outcome's rule.

    Args:
        outcome: The task.
        against: The contrasts that the verdict rests on.
        alpha: The level of the tests.
        comparisons: How many the p-values are corrected for.
    """
    without_map = outcome.kind == "ability"
    if not against:
        return "not counted", "no arm without maps to compare with" if without_map else "no control among the arms", ""
    fewest = min(gap.people for gap in against)
    if fewest < MINIMUM_PEOPLE:
        return "not counted", f"{fewest} people in an arm, where a verdict needs {MINIMUM_PEOPLE}", ""
    names = {gap.other: "people without a map" if without_map else gap.other for gap in against}
    worse = [names[gap.other] for gap in against if gap.p < alpha and gap.mean < 0]
    alike = [names[gap.other] for gap in against if -gap.margin <= gap.low and gap.high <= gap.margin]
    undecided = [names[gap.other] for gap in against if not (gap.p < alpha and gap.mean > 0)]
    if worse:
        return "fail", f"worse than {', '.join(worse)}", ""
    if alike:
        return "fail", f"no better than {', '.join(alike)}, within the margin", ""
    if not undecided:
        reason = "better than people without a map" if without_map else "sharper than every control that people saw"
        return "pass", reason, ""
    # An interval may exclude zero although the corrected p-value is not significant; then the reason names the p-value.
    excludes_zero = any(gap.low > 0 or gap.high < 0 for gap in against if not gap.p < alpha)
    why = f" after correction over {comparisons} comparisons, p {max(gap.p for gap in against):.2g}" if excludes_zero else ""
    return "inconclusive", f"not clear of {', '.join(undecided)}{why}", _advice(against, alpha, comparisons)


def _advice(against: Sequence[ArmContrast], alpha: float, comparisons: int) -> str:
    z = NormalDist().inv_cdf
    widening = z(1 - alpha / (2 * comparisons)) / z(0.975)
    more = further_images([as_against(gap, widening) for gap in against if gap.error > 0])
    if more is None or more > MOST_ADVISED:
        return "more people will hardly settle it"
    return f"about {more} more {'person' if more == 1 else 'people'} in each arm would settle it"


def as_against(gap: ArmContrast, widening: float = 1.0) -> PairedDifference:
    """A contrast as a comparison with a control, for the estimate of a sample size.

    Args:
        gap: The contrast.
        widening: The factor by which the interval grows, for the correction over several comparisons.
    """
    low, high = (gap.mean + widening * (end - gap.mean) for end in (gap.low, gap.high))
    return PairedDifference(
        control=gap.other, mean=gap.mean, low=low, high=high, margin=gap.margin,
        spread=gap.error * math.sqrt(gap.people), n=gap.people,
    )  # fmt: skip
