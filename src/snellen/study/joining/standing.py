"""How the people of each arm did beside those who saw no map. A person is one value: the mean of that person's answers.

Answers of one person hang together, so answers are never counted as if each came from somebody else. Between subjects, arms
are compared by Welch's test; within subjects, by the paired one.
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

from snellen.runs.people import NO_MAP, Arm, Contrast, Outcome, Standing
from snellen.study.collected import Collected
from snellen.study.folder import Study
from snellen.study.tasks import find_task
from snellen.verdicts import MARGIN, Against
from snellen.verdicts.against import further_images
from snellen.verdicts.rule import MOST
from snellen.verdicts.statistics import holm

MINIMUM_PEOPLE = 12
"""Fewer in an arm get no verdict; it is the least that Julious (2005, Pharmaceutical Statistics 4) advises for a pilot."""

ABILITY = (
    "pass: people did better with these maps than people without any; fail: worse, or the whole 95 % interval of the "
    f"difference lies within {MARGIN:g} standard deviations of people; inconclusive: neither. A person is one value; "
    "{test}, p below {alpha:g}, Holm-corrected over the methods of the task; "
    f"at least {MINIMUM_PEOPLE} people in each arm."
)
SHARPNESS = (
    "pass: rated sharper than every control that people saw; fail: less sharp than some, or the whole 95 % interval lies "
    f"within {MARGIN:g} standard deviations of people of it; inconclusive: neither. A person is one value; "
    "{test}, p below {alpha:g}, Holm-corrected over methods and controls; "
    f"at least {MINIMUM_PEOPLE} people in each arm."
)
SCALE = "a questionnaire is information: liking a map and being able to use it are two things"

Key = tuple[str, str]
"""An arm and its presentation."""
Values = dict[Key, "pd.Series[float]"]
"""A value per person, by arm and presentation."""


def outcomes(study: Study, collected: Collected, controls: Collection[str]) -> tuple[Outcome, ...]:
    """Every task and questionnaire of a study, with a verdict on each method where one can be given.

    `controls` are the methods that know nothing about the model: sharpness is judged by them.
    """
    counted, protocol = collected.counted, study.protocol
    test = "the paired t test" if protocol.design == "within" else "Welch's test"
    known = {"test": test, "alpha": protocol.alpha}
    found = []
    for plan in protocol.tasks:
        task = find_task(plan.task).traits
        values = _values(counted.answers[counted.answers["task"] == plan.task])
        rule = (SHARPNESS if task.needs_map else ABILITY).format(**known)
        kind: Literal["ability", "sharpness"] = "sharpness" if task.needs_map else "ability"
        outcome = Outcome(plan.task, kind, task.score, task.higher_is_better, rule, _arms(values), ())
        found.append(replace(outcome, standings=_standings(outcome, values, study, controls)))
    for name, scale in study.scales.items():
        values = _values(counted.ratings[counted.ratings["scale"] == name])
        words = f"mean of {scale.items} answers, from 1 to {scale.points}"
        told = tuple(Standing(*key, "not counted", SCALE, ()) for key in values if key[0] != NO_MAP)
        found.append(Outcome(name, "scale", words, True, SCALE, _arms(values), told))
    return tuple(found)


def _values(rows: pd.DataFrame) -> Values:
    means = rows.groupby(["arm", "presentation", "participant"], sort=True)["score"].mean()
    keys = dict.fromkeys((str(arm), str(shown)) for arm, shown, _ in means.index)
    return {key: means.loc[key] for key in keys}


def _arms(values: Values) -> tuple[Arm, ...]:
    found = []
    for key, some in values.items():
        low, high = (math.nan, math.nan) if len(some) < 2 else DescrStatsW(some.to_numpy()).tconfint_mean()
        found.append(Arm(*key, len(some), float(some.mean()), float(low), float(high)))
    return tuple(found)


def _standings(outcome: Outcome, values: Values, study: Study, controls: Collection[str]) -> tuple[Standing, ...]:
    shown = [key for key in values if key[0] != NO_MAP]
    judging = {key: [other for other in values if _judges(outcome, key, other, controls) and other != key] for key in shown}
    beside = {key: [other for other in shown if other[1] == key[1] and other not in (key, *judging[key])] for key in shown}
    against = _family(judging, values, outcome, study)
    others = _family(beside, values, outcome, study)
    family = sum(map(len, judging.values()))
    found = []
    for key in shown:
        verdict, reason, advice = _verdict(outcome, against[key], study.protocol.alpha, family)
        if outcome.kind == "sharpness" and key[0] in controls:
            verdict, reason, advice = "not counted", "a control, which knows nothing about the model", ""
        found.append(Standing(*key, verdict, reason, against[key], others[key], advice))
    return tuple(found)


def _judges(outcome: Outcome, key: Key, other: Key, controls: Collection[str]) -> bool:
    """Whether an arm is what others are held against: no map or, where maps are rated, controls shown in the same way."""
    if outcome.kind == "ability":
        return other[0] == NO_MAP
    return key[0] not in controls and other[0] in controls and other[1] == key[1]


def _family(pairs: dict[Key, list[Key]], values: Values, outcome: Outcome, study: Study) -> dict[Key, tuple[Contrast, ...]]:
    """All comparisons of one kind; their p values are corrected together."""
    paired = study.protocol.design == "within"
    made = {
        (key, other): contrast(values[key], values[other], other[0], higher=outcome.higher_is_better, paired=paired)
        for key, some in pairs.items()
        for other in some
    }
    # Two methods are compared once, though each has the other beside it.
    once = {frozenset(pair): one.p for pair, one in made.items()}
    corrected = dict(zip(once, holm(np.array(list(once.values()), dtype=np.float64)), strict=True))
    return {
        key: tuple(replace(made[key, other], p=float(corrected[frozenset((key, other))])) for other in some)
        for key, some in pairs.items()
    }


def contrast(own: "pd.Series[float]", other: "pd.Series[float]", name: str, *, higher: bool, paired: bool) -> Contrast:
    """How much better the people of one arm did than those of another, with the p value of this comparison alone.

    Where nobody's value differs there is nothing to test: interval and p are NaN.
    """
    sign = 1.0 if higher else -1.0
    if paired:
        both = own.index.intersection(other.index)
        own, other = own.loc[both], other.loc[both]
    mine, theirs = (sign * one.to_numpy(dtype=np.float64) for one in (own, other))
    people = min(len(mine), len(theirs))
    mean = float(mine.mean() - theirs.mean()) if people else math.nan
    nothing = Contrast(name, mean, math.nan, math.nan, math.nan, math.nan, math.nan, people)
    if people < 2:
        return nothing
    margin = MARGIN * math.sqrt((mine.var(ddof=1) + theirs.var(ddof=1)) / 2)
    if paired:
        differences = mine - theirs
        if _still(differences):
            return replace(nothing, margin=margin)
        said = DescrStatsW(differences)
        (low, high), p, error = said.tconfint_mean(), said.ttest_mean()[1], said.std_mean
    else:
        if _still(mine) and _still(theirs):
            return replace(nothing, margin=margin)
        both_arms = CompareMeans(DescrStatsW(mine), DescrStatsW(theirs))
        low, high = both_arms.tconfint_diff(usevar="unequal")
        p, error = both_arms.ttest_ind(usevar="unequal")[1], both_arms.std_meandiff_separatevar
    return Contrast(name, mean, float(low), float(high), margin, float(error), float(p), people)


def _still(values: Float[np.ndarray, " people"]) -> bool:
    return float(np.ptp(values)) <= 1e-12 * max(1.0, float(np.abs(values).max()))


def _verdict(outcome: Outcome, against: Sequence[Contrast], alpha: float, family: int) -> tuple[str, str, str]:
    """The verdict by the outcome's rule, why, and what would settle an open one."""
    without = outcome.kind == "ability"
    if not against:
        return "not counted", "no arm without maps to compare with" if without else "no control among the arms", ""
    fewest = min(one.people for one in against)
    if fewest < MINIMUM_PEOPLE:
        return "not counted", f"{fewest} people in an arm, where a verdict needs {MINIMUM_PEOPLE}", ""
    names = {one.other: "people without a map" if without else one.other for one in against}
    worse = [names[one.other] for one in against if one.p < alpha and one.mean < 0]
    alike = [names[one.other] for one in against if -one.margin <= one.low and one.high <= one.margin]
    open_ = [names[one.other] for one in against if not (one.p < alpha and one.mean > 0)]
    if worse:
        return "fail", f"worse than {', '.join(worse)}", ""
    if alike:
        return "fail", f"no better than {', '.join(alike)}, within the margin", ""
    if not open_:
        return "pass", "better than people without a map" if without else "sharper than every control that people saw", ""
    # An interval that is clear of zero alone may not be in company; the p values tell.
    hidden = any(one.low > 0 or one.high < 0 for one in against if not one.p < alpha)
    why = f" in company of {family} comparisons, p {max(one.p for one in against):.2g}" if hidden else ""
    return "inconclusive", f"not clear of {', '.join(open_)}{why}", _advice(against, alpha, family)


def _advice(against: Sequence[Contrast], alpha: float, family: int) -> str:
    z = NormalDist().inv_cdf
    wider = z(1 - alpha / (2 * family)) / z(0.975)
    more = further_images([as_against(one, wider) for one in against if one.error > 0])
    if more is None or more > MOST:
        return "more people will hardly settle it"
    return f"about {more} more {'person' if more == 1 else 'people'} in each arm would settle it"


def as_against(one: Contrast, wider: float = 1.0) -> Against:
    """A contrast in the form in which methods are compared with controls: n people spread so much give this error."""
    low, high = (one.mean + wider * (end - one.mean) for end in (one.low, one.high))
    return Against(one.other, one.mean, low, high, one.margin, one.error * math.sqrt(one.people), one.people)
