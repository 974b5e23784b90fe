"""What the papers conclude from their tables, as questions that any table of that form can be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from snellen.papers.table_values import MissingError, Values

GRADIENT = ("Gradient", "IG", "GuidedBP")
CAM = ("Grad-CAM", "Grad-CAM++", "Score-CAM")
FIDELITY = ("average_increase", "100-average_drop", "average_gain", "insertion", "100-deletion")
FAKE = "Fake-CAM"

Question = Callable[[Values], bool]


@dataclass(frozen=True)
class Finding:
    """One conclusion of a paper. `note` says what one should know about it."""

    claim: str
    asks: Question
    note: str = ""


def in_top_two(method: str, metric: str, arm: str = "") -> Question:
    """Whether a method is among the two best; a tie with second place counts."""

    def asked(values: Values) -> bool:
        own = values.get(arm, method, metric)
        ranked = list(values.methods(metric, arm).values())
        if len(ranked) < 4:
            raise MissingError("fewer than four methods were run, so the top two say nothing")
        return own >= ranked[1]

    return asked


def both(*questions: Question) -> Question:
    """Whether all of them hold."""
    return lambda values: all(question(values) for question in questions)


def neither(*questions: Question) -> Question:
    """Whether none of them holds."""
    return lambda values: not any(question(values) for question in questions)


def last_on_most(methods: Sequence[str], metrics: Sequence[str]) -> Question:
    """Whether these methods, as a group, take the lowest places on more than half of the metrics."""

    def asked(values: Values) -> bool:
        lowest = 0
        for metric in metrics:
            ranked = values.methods(metric)
            worst = max(values.row("", methods, metric))
            others = [value for method, value in ranked.items() if method not in methods and method != FAKE]
            if not others:
                raise MissingError("no other method was run")
            lowest += worst <= min(others)
        return lowest > len(metrics) / 2

    return asked


def best_group(group: Sequence[str], metrics: Sequence[str]) -> Question:
    """Whether these methods have the best mean rank over the metrics, Fake-CAM left out."""

    def asked(values: Values) -> bool:
        known = values.without([FAKE])
        methods = list(known.methods(metrics[0]))
        inside = [method for method in group if method in methods]
        outside = [method for method in methods if method not in group]
        if not inside or not outside:
            raise MissingError("the group or all others were not run")
        ranks = dict.fromkeys(methods, 0.0)
        for metric in metrics:
            row = known.methods(metric)
            for method in methods:
                own = known.get("", method, metric)
                ranks[method] += sum(other > own for other in row.values()) + sum(other == own for other in row.values()) / 2
        return sum(ranks[one] for one in inside) / len(inside) < sum(ranks[one] for one in outside) / len(outside)

    return asked


def moves(metric: str, before: str, after: str, *, up: bool) -> Question:
    """Whether the mean over methods is higher (or lower) in one arm than in another."""

    def asked(values: Values) -> bool:
        methods = [method for method in values.methods(metric, before) if method in values.methods(metric, after)]
        if not methods:
            raise MissingError(f"no method has {metric} for {before} and {after}")
        change = sum(values.get(after, one, metric) - values.get(before, one, metric) for one in methods)
        return change > 0 if up else change < 0

    return asked


def about(method: str, metric: str, value: float, within: float) -> Question:
    """Whether a number is what the definition demands."""
    return lambda values: abs(values.get("", method, metric) - value) <= within


def close_together(metric: str, factor: float) -> Question:
    """Whether the largest number of any method but Fake-CAM is less than `factor` times the smallest."""

    def asked(values: Values) -> bool:
        found = [value for method, value in values.methods(metric).items() if method != FAKE]
        if len(found) < 3:
            raise MissingError("fewer than three methods were run")
        return max(found) < factor * min(found)

    return asked


def extreme(method: str, metric: str, *, highest: bool, arm: str = "") -> Question:
    """Whether a method has the highest or lowest number of all."""

    def asked(values: Values) -> bool:
        own, found = values.get(arm, method, metric), values.methods(metric, arm).values()
        if len(found) < 3:
            raise MissingError("fewer than three methods were run")
        return own >= max(found) if highest else own <= min(found)

    return asked


def in_order(*methods: str, metric: str, arm: str = "") -> Question:
    """Whether these methods stand in this order, best first."""
    return lambda values: all(first > second for first, second in pairwise(values.row(arm, methods, metric)))


def steadiest(metric: str, metrics: Sequence[str], arms: Sequence[str]) -> Question:
    """Whether a metric moves least over the arms, in points, on average over methods other than Fake-CAM."""

    def asked(values: Values) -> bool:
        known = values.without([FAKE])
        methods = list(known.methods(metric, arms[0]))
        return min(metrics, key=lambda one: _mean_range(known, methods, one, arms)) == metric

    return asked


def moves_more(group: Sequence[str], than: Sequence[str], metrics: Sequence[str], arms: Sequence[str]) -> Question:
    """Whether the numbers of one group of methods spread more over the arms than those of another."""

    def asked(values: Values) -> bool:
        ours, theirs = ([method for method in one if method in values.methods(metrics[0], arms[0])] for one in (group, than))
        first, second = (sum(_mean_range(values, methods, metric, arms) for metric in metrics) for methods in (ours, theirs))
        return first > second

    return asked


def _mean_range(values: Values, methods: Sequence[str], metric: str, arms: Sequence[str]) -> float:
    if not methods:
        raise MissingError("the group was not run")
    spans = [[values.get(arm, method, metric) for arm in arms] for method in methods]
    return sum(max(one) - min(one) for one in spans) / len(spans)
