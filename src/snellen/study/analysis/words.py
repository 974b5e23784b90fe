"""Sentences: what was found, with the numbers, and never more than that."""

from __future__ import annotations

import math
from collections import Counter

from snellen.charts import numbers
from snellen.study.analysis.comparisons import Contrast, Statistic
from snellen.study.analysis.distributions import Distribution
from snellen.study.analysis.equivalence import Equivalence
from snellen.study.analysis.record import Analysis, Reading
from snellen.study.protocol import NONE

FOUND = {
    "equal": "shown to be equal within {margin} points",
    "different": "different",
    "different but close": "different, but by less than {margin} points",
    "neither": "neither shown to differ nor shown to be equal",
    "not tested": "not tested",
}

WHY_WELCH = (
    "Welch's test was chosen before anybody took part. It allows for arms of unequal spread and loses next to nothing where "
    "spreads are equal. No test of assumptions decides which test counts: to look first and choose then would be a second "
    "chance. The classical ANOVA, its checks and Kruskal–Wallis stand beside it, to show whether the choice matters."
)
WHY_REPEATED = (
    "Everybody met every arm, so differences within a participant are tested: repeated-measures ANOVA with the correction "
    "of Greenhouse and Geisser, always applied, because to test sphericity first and choose then would be a second chance. "
    "A test by ranks stands beside it."
)
WHY_LINEAR = (
    "Right-or-wrong answers are modelled as shares by the linear model, whose numbers are percentage points, which anybody "
    "can read. The check beside it takes odds instead, by generalised estimating equations with participants as clusters "
    "and errors corrected for few of them. A Bayesian logistic mixed model would have random items too, but its quick "
    "variational fit promises too narrow intervals."
)


def chance(p: float) -> str:
    """A p-value as it stands in a sentence.

    >>> chance(0.0123), chance(0.00001), chance(float("nan"))
    ('p = 0.012', 'p < 0.001', 'no p')
    """
    if math.isnan(p):
        return "no p"
    return "p < 0.001" if p < 0.001 else f"p = {numbers.short(p)}"


def bare(p: float) -> str:
    """The same in a table, where a column says that it is p."""
    return "–" if math.isnan(p) else chance(p).removeprefix("p = ").removeprefix("p ")


def statistic(one: Statistic) -> str:
    """A statistic with its degrees of freedom, or why there is none.

    >>> statistic(Statistic("Welch", "F", 5.3123, (2.0, 87.25), 0.006))
    'F(2, 87.2) = 5.31, p = 0.006'
    """
    if not one.given:
        return one.why or "undefined"
    df = f"({', '.join(numbers.tally(value) for value in one.df)})" if one.df else ""
    return f"{one.symbol}{df} = {numbers.short(one.value)}, {chance(one.p)}"


def headline(analysis: Analysis) -> str:
    """Who took part, and on how many outcomes the arms differ."""
    return f"{took_part(analysis)} {in_short(analysis)}".strip()


def findings(analysis: Analysis) -> list[tuple[str, str]]:
    """Every outcome with what was found on it: first what differs, then what does not, then what was not tested."""
    order = {"differ": 0, "no difference found": 1, "not tested": 2}
    readings = sorted(analysis.readings, key=lambda one: order[one.found])
    return [(reading.facts.title, sentence(analysis, reading)) for reading in readings]


def in_short(analysis: Analysis) -> str:
    """On how many outcomes the arms differ."""
    if not analysis.family:
        return "Nothing could be tested." if analysis.flow.total.arrived else ""
    differ = [reading.facts.title.lower() for reading in analysis.readings if reading.found == "differ"]
    on = f"on {len(differ)} of {numbers.count(analysis.family, 'outcome')}: {numbers.listed(differ)}" if differ else ""
    return (
        f"The arms differ {on}."
        if differ
        else f"No difference between arms was found on {numbers.count(analysis.family, 'outcome')}."
    )


def took_part(analysis: Analysis) -> str:
    """Who came, and who counts."""
    total = analysis.flow.total
    who = "simulated participant" if analysis.simulated else "participant"
    arms = f"{len(analysis.arms)} arms" if len(analysis.arms) > 1 else "one arm"
    met = f"divided over {arms}" if analysis.design == "between" else f"each of whom was to meet all {arms}"
    if not total.arrived:
        return "Nobody has taken part yet."
    return f"{numbers.count(total.arrived, who)} began, {met}; {total.finished} finished, and {total.analysed} are analysed."


def sentence(analysis: Analysis, one: Reading) -> str:
    """What was found on one outcome."""
    if one.found == "not tested":
        return f"not tested: {one.comparison.decision.why or 'undefined'}."
    if one.found == "differ":
        return f"the arms differ, {chance(one.holm)}. {extremes(one)} {against_none(one, analysis.alpha)}".strip()
    rest = equality(one, analysis) if one.equivalences else open_end(one)
    return f"no difference between arms was found, {chance(one.holm)}. {rest}".strip()


def which_p(analysis: Analysis) -> str:
    """Which p is meant in the sentences above."""
    if not analysis.family:
        return ""
    many = f" after Holm's correction over {analysis.family} outcomes" if analysis.family > 1 else ""
    return (
        f"Here p is that of the pre-stated test{many}, and a difference counts below {analysis.alpha:g}. Brackets hold 95 % "
        "intervals, each for itself. A pair of arms is called different only where the arms differ at all, and after Holm's "
        "correction over the pairs."
    )


def extremes(one: Reading) -> str:
    """The best arm and the worst, or the highest and the lowest where neither is better."""
    known = [some for some in one.distributions if some.n and some.arm in one.comparison.arms]
    first, last = ("Highest", "lowest") if one.facts.better == "neither" else ("Best", "worst")
    ranked = sorted(known, key=lambda some: some.mean, reverse=one.facts.better != "low")
    return f"{first} with {_arm(ranked[0], one)}, {last} with {_arm(ranked[-1], one)}."


def _arm(some: Distribution, one: Reading) -> str:
    interval = numbers.interval(some.low, some.high, some.n)
    return f"{name_of(some.arm)}, {value(some.mean, one)} {interval if interval.startswith('[') else f'({interval})'}"


def name_of(arm: str) -> str:
    """An arm in a sentence."""
    return "no explanation" if arm == NONE else arm


def value(number: float, one: Reading) -> str:
    """A mean in its unit."""
    return f"{numbers.short(number)} {one.facts.unit}".strip()


def against_none(one: Reading, alpha: float) -> str:
    """Every method that is shown to differ from no explanation, and those that are not."""
    pairs = [pair for pair in one.comparison.contrasts if pair.against_none and not math.isnan(pair.holm)]
    if not pairs:
        shown = [pair for pair in one.comparison.contrasts if pair.holm < alpha]
        if not shown:
            return "No single pair of arms is shown to differ after correction."
        return f"Pairs that differ: {'; '.join(f'{pair.first} and {pair.second}, {difference(pair)}' for pair in shown)}."
    sure = [f"{pair.first} {difference(pair)}" for pair in pairs if pair.holm < alpha]
    unsure = [pair.first for pair in pairs if not pair.holm < alpha]
    parts = [f"Against no explanation: {'; '.join(sure)}"] if sure else []
    if unsure:
        verb = "is" if len(unsure) == 1 else "are"
        parts.append(f"{numbers.listed(unsure)} {verb} not shown to differ from no explanation")
    return f"{'; '.join(parts)}."


def difference(pair: Contrast) -> str:
    """A difference with its interval."""
    return f"{numbers.gain(pair.difference)} {numbers.interval(pair.low, pair.high, min(pair.n), signs=True)}"


def equality(one: Reading, analysis: Analysis) -> str:
    """What the tests of equality add to a difference that was not found."""
    margin = f"{analysis.margin:g}"
    counts = Counter(some.found for some in one.equivalences)
    tested = sum(counts.values()) - counts["not tested"]
    if not tested:
        return "Whether arms are equal could not be tested."
    if counts["equal"] == tested:
        whole = "The two arms were" if tested == 1 else f"All {tested} pairs of arms were"
        return f"{whole} shown to be equal within {margin} points."
    if not counts["equal"]:
        return (
            f"That is no evidence of absence: no pair was shown to be equal within {margin} points either. {open_end(one)}"
        )
    equal = f"{counts['equal']} of {tested} pairs were shown to be equal within {margin} points"
    return f"{equal}; of the others that is not shown, so a difference may be there."


def open_end(one: Reading) -> str:
    """How large a difference may still be, where none was found."""
    ends = [max(abs(pair.low), abs(pair.high)) for pair in one.comparison.contrasts if not math.isnan(pair.low)]
    if not ends:
        return ""
    return (
        f"Differences of up to {value(max(ends), one)} between two arms remain possible (the farthest end of any interval)."
    )


def equal_words(some: Equivalence) -> str:
    """What was found of two arms."""
    return FOUND[some.found].format(margin=f"{some.margin:g}")
