"""Sentences: the results of a study in words, with their numbers."""

from __future__ import annotations

import math
from collections import Counter

from snellen.charts import numbers
from snellen.study.analysis.analyse import Analysis, OutcomeAnalysis
from snellen.study.analysis.comparisons import ArmDifference, StatisticalTest
from snellen.study.analysis.distributions import Distribution
from snellen.study.analysis.equivalence import Equivalence
from snellen.study.protocol import NONE

CONCLUSIONS = {
    "equal": "shown to be equal within {margin} points",
    "different": "different",
    "different but close": "different, but by less than {margin} points",
    "neither": "neither shown to differ nor shown to be equal",
    "not tested": "not tested",
}

WHY_WELCH = (
    "Welch's test was chosen before anybody took part. It allows for arms of unequal spread and loses almost no power where "
    "spreads are equal. No test of assumptions decides which test counts: to look first and choose then would raise the "
    "rate of false findings. The classical ANOVA, its checks and Kruskal–Wallis are shown too, so that one can see whether "
    "the choice matters."
)
WHY_REPEATED = (
    "Everybody saw every arm, so differences within a participant are tested: repeated-measures ANOVA with the correction "
    "of Greenhouse and Geisser, always applied, because to test sphericity first and choose then would raise the rate of "
    "false findings. A test by ranks is shown too."
)
WHY_LINEAR = (
    "Right-or-wrong answers are modelled as shares by the linear model, whose numbers are percentage points and easy to "
    "read. The check uses odds instead, by generalised estimating equations with participants as clusters and errors "
    "corrected for few of them. A Bayesian logistic mixed model would have random items too, but the intervals of its "
    "quick variational fit are too narrow."
)


def p_value(p: float) -> str:
    """A p-value in a sentence.

    >>> p_value(0.0123), p_value(0.00001), p_value(float("nan"))
    ('p = 0.012', 'p < 0.001', 'no p')
    """
    if math.isnan(p):
        return "no p"
    return "p < 0.001" if p < 0.001 else f"p = {numbers.short(p)}"


def p_cell(p: float) -> str:
    """A p-value in a table, whose column says that it is p."""
    return "–" if math.isnan(p) else p_value(p).removeprefix("p = ").removeprefix("p ")


def statistic(test: StatisticalTest) -> str:
    """A statistic with its degrees of freedom, or why there is none.

    >>> statistic(StatisticalTest(name="Welch", symbol="F", value=5.3123, df=(2.0, 87.25), p=0.006))
    'F(2, 87.2) = 5.31, p = 0.006'
    """
    if not test.defined:
        return test.why or "undefined"
    df = f"({', '.join(numbers.amount(value) for value in test.df)})" if test.df else ""
    return f"{test.symbol}{df} = {numbers.short(test.value)}, {p_value(test.p)}"


def headline(analysis: Analysis) -> str:
    """Who took part, and on how many outcomes the arms differ."""
    return f"{participants(analysis)} {summary(analysis)}".strip()


def findings(analysis: Analysis) -> list[tuple[str, str]]:
    """Title and conclusion of every outcome: first where arms differ, then where they do not, then what was not tested."""
    order = {"differ": 0, "no difference found": 1, "not tested": 2}
    ranked = sorted(analysis.outcomes, key=lambda outcome: order[outcome.conclusion])
    return [(outcome.facts.title, conclusion(analysis, outcome)) for outcome in ranked]


def summary(analysis: Analysis) -> str:
    """On how many outcomes the arms differ."""
    tested = numbers.count(analysis.tested_outcomes, "outcome")
    if not analysis.tested_outcomes:
        return "Nothing could be tested." if analysis.flow.total.arrived else ""
    differ = [outcome.facts.title.lower() for outcome in analysis.outcomes if outcome.conclusion == "differ"]
    if not differ:
        return f"No difference between arms was found on {tested}."
    return f"The arms differ on {len(differ)} of {tested}: {numbers.join_names(differ)}."


def participants(analysis: Analysis) -> str:
    """How many began, finished and are analysed."""
    total, setup = analysis.flow.total, analysis.setup
    if not total.arrived:
        return "Nobody has taken part yet."
    who = "simulated participant" if setup.simulated else "participant"
    arms = f"{len(setup.arms)} arms" if len(setup.arms) > 1 else "one arm"
    design = f"divided over {arms}" if setup.design == "between" else f"each of whom was to see all {arms}"
    return (
        f"{numbers.count(total.arrived, who)} began, {design}; {total.finished} finished, and {total.analysed} are analysed."
    )


def conclusion(analysis: Analysis, outcome: OutcomeAnalysis) -> str:
    """The conclusion on one outcome."""
    if outcome.conclusion == "not tested":
        return f"not tested: {outcome.comparison.decision.why or 'undefined'}."
    p = p_value(outcome.p_holm)
    if outcome.conclusion == "differ":
        return f"the arms differ, {p}. {extremes(outcome)} {against_none(outcome, analysis.setup.alpha)}".strip()
    rest = equality(outcome, analysis.setup.margin) if outcome.equivalences else possible_difference(outcome)
    return f"no difference between arms was found, {p}. {rest}".strip()


def which_p(analysis: Analysis) -> str:
    """Which p-value is meant in the conclusions."""
    if not analysis.tested_outcomes:
        return ""
    many = f" after Holm's correction over {analysis.tested_outcomes} outcomes" if analysis.tested_outcomes > 1 else ""
    return (
        f"Here p is that of the pre-stated test{many}, and a difference counts below {analysis.setup.alpha:g}. Brackets "
        "hold 95 % intervals, not corrected for their number. A pair of arms is called different only where the arms differ "
        "at all, and after Holm's correction over the pairs."
    )


def extremes(outcome: OutcomeAnalysis) -> str:
    """The best and the worst arm, or the highest and the lowest where neither is better."""
    tested = [arm for arm in outcome.distributions if arm.n and arm.arm in outcome.comparison.arms]
    first, last = ("Highest", "lowest") if outcome.facts.better == "neither" else ("Best", "worst")
    ranked = sorted(tested, key=lambda arm: arm.mean, reverse=outcome.facts.better != "low")
    return f"{first} with {_arm_mean(ranked[0], outcome)}, {last} with {_arm_mean(ranked[-1], outcome)}."


def _arm_mean(arm: Distribution, outcome: OutcomeAnalysis) -> str:
    interval = numbers.interval(arm.low, arm.high, arm.n)
    brackets = interval if interval.startswith("[") else f"({interval})"
    return f"{arm_name(arm.arm)}, {with_unit(arm.mean, outcome)} {brackets}"


def arm_name(arm: str) -> str:
    """The name of an arm in a sentence."""
    return "no explanation" if arm == NONE else arm


def with_unit(number: float, outcome: OutcomeAnalysis) -> str:
    """A mean or difference in the unit of the outcome."""
    return f"{numbers.short(number)} {outcome.facts.unit}".strip()


def against_none(outcome: OutcomeAnalysis, alpha: float) -> str:
    """The methods that are shown to differ from no explanation, and those that are not."""
    contrasts = outcome.comparison.contrasts
    pairs = [pair for pair in contrasts if pair.against_none and not math.isnan(pair.p_holm)]
    if not pairs:
        differing = [f"{pair.first} and {pair.second}, {difference(pair)}" for pair in contrasts if pair.p_holm < alpha]
        if not differing:
            return "No single pair of arms is shown to differ after correction."
        return f"Pairs that differ: {'; '.join(differing)}."
    differing = [f"{pair.first} {difference(pair)}" for pair in pairs if pair.p_holm < alpha]
    others = [pair.first for pair in pairs if not pair.p_holm < alpha]
    parts = [f"Against no explanation: {'; '.join(differing)}"] if differing else []
    if others:
        verb = "is" if len(others) == 1 else "are"
        parts.append(f"{numbers.join_names(others)} {verb} not shown to differ from no explanation")
    return f"{'; '.join(parts)}."


def difference(pair: ArmDifference) -> str:
    """The difference of two arms with its interval."""
    return f"{numbers.signed(pair.difference)} {numbers.interval(pair.low, pair.high, min(pair.n), signs=True)}"


def equality(outcome: OutcomeAnalysis, margin: float) -> str:
    """What the tests of equality add where no difference was found."""
    counts = Counter(pair.conclusion for pair in outcome.equivalences)
    tested, equal = sum(counts.values()) - counts["not tested"], counts["equal"]
    within = f"shown to be equal within {margin:g} points"
    if not tested:
        return "Whether arms are equal could not be tested."
    if equal == tested:
        return f"{'The two arms were' if tested == 1 else f'All {tested} pairs of arms were'} {within}."
    if not equal:
        return f"That is no evidence of absence: no pair was {within} either. {possible_difference(outcome)}"
    return f"{equal} of {tested} pairs were {within}; of the others that is not shown, so a difference may be there."


def possible_difference(outcome: OutcomeAnalysis) -> str:
    """How large a difference may still be, where none was found."""
    pairs = [pair for pair in outcome.comparison.contrasts if not math.isnan(pair.low)]
    if not pairs:
        return ""
    farthest = with_unit(max(max(abs(pair.low), abs(pair.high)) for pair in pairs), outcome)
    return f"Differences of up to {farthest} between two arms remain possible (the farthest end of any interval)."


def equivalence(pair: Equivalence) -> str:
    """The conclusion on the equality of two arms."""
    return CONCLUSIONS[pair.conclusion].format(margin=f"{pair.margin:g}")
