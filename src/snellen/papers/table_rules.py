"""Rules that decide claims from a table with a number for every block, method and metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from snellen.papers.claims import MissingError, RuleResult
from snellen.papers.table_values import TableValues

GRADIENT = ("Gradient", "IG", "GuidedBP")
CAM = ("Grad-CAM", "Grad-CAM++", "Score-CAM")
FIDELITY = ("average_increase", "100-average_drop", "average_gain", "insertion", "100-deletion")
FAKE = "Fake-CAM"

TableRule = Callable[[TableValues], RuleResult]


def in_top_two(method: str, metric: str, block: str = "") -> TableRule:
    """A method is among the two best; a tie with second place counts."""

    def rule(values: TableValues) -> RuleResult:
        own = values.get(block, method, metric)
        ranked = list(values.methods(metric, block).values())
        if len(ranked) < 4:
            raise MissingError("fewer than four methods were run, so the top two say nothing")
        return RuleResult(own >= ranked[1])

    return rule


def last_on_most(methods: Sequence[str], metrics: Sequence[str]) -> TableRule:
    """These methods, as a group, take the lowest ranks on more than half of the metrics."""

    def rule(values: TableValues) -> RuleResult:
        lowest = 0
        for metric in metrics:
            ranked = values.methods(metric)
            best_of_group = max(values.row("", methods, metric))
            others = [value for method, value in ranked.items() if method not in methods and method != FAKE]
            if not others:
                raise MissingError("no other method was run")
            lowest += best_of_group <= min(others)
        return RuleResult(lowest > len(metrics) / 2)

    return rule


def best_group(group: Sequence[str], metrics: Sequence[str]) -> TableRule:
    """These methods have the best mean rank over the metrics, without Fake-CAM."""

    def rule(values: TableValues) -> RuleResult:
        genuine = values.without([FAKE])
        methods = list(genuine.methods(metrics[0]))
        inside = [method for method in group if method in methods]
        outside = [method for method in methods if method not in group]
        if not inside or not outside:
            raise MissingError("the group or all others were not run")
        ranks = dict.fromkeys(methods, 0.0)
        for metric in metrics:
            row = genuine.methods(metric)
            for method in methods:
                own = genuine.get("", method, metric)
                ranks[method] += sum(other > own for other in row.values()) + sum(other == own for other in row.values()) / 2
        mean_inside, mean_outside = (sum(ranks[name] for name in names) / len(names) for names in (inside, outside))
        return RuleResult(mean_inside < mean_outside)

    return rule


def moves(metric: str, before: str, after: str, *, up: bool) -> TableRule:
    """The mean over methods is higher (or lower) in one block than in another."""

    def rule(values: TableValues) -> RuleResult:
        methods = [method for method in values.methods(metric, before) if method in values.methods(metric, after)]
        if not methods:
            raise MissingError(f"no method has {metric} for {before} and {after}")
        change = sum(values.get(after, method, metric) - values.get(before, method, metric) for method in methods)
        return RuleResult(change > 0 if up else change < 0)

    return rule


def about(method: str, metric: str, value: float, within: float) -> TableRule:
    """A number is what the definition demands."""
    return lambda values: RuleResult(abs(values.get("", method, metric) - value) <= within)


def close_together(metric: str, factor: float) -> TableRule:
    """The largest number of any method but Fake-CAM is less than `factor` times the smallest."""

    def rule(values: TableValues) -> RuleResult:
        scores = [value for method, value in values.methods(metric).items() if method != FAKE]
        if len(scores) < 3:
            raise MissingError("fewer than three methods were run")
        return RuleResult(max(scores) < factor * min(scores))

    return rule


def extreme(method: str, metric: str, *, highest: bool, block: str = "") -> TableRule:
    """A method has the highest or the lowest number of all."""

    def rule(values: TableValues) -> RuleResult:
        own, scores = values.get(block, method, metric), values.methods(metric, block).values()
        if len(scores) < 3:
            raise MissingError("fewer than three methods were run")
        return RuleResult(own >= max(scores) if highest else own <= min(scores))

    return rule


def in_order(*methods: str, metric: str, block: str = "") -> TableRule:
    """These methods stand in this order, best first."""
    return lambda values: RuleResult(all(first > second for first, second in pairwise(values.row(block, methods, metric))))


def below(method: str, others: Sequence[str], metric: str, block: str = "") -> TableRule:
    """A method has a lower number than each of these others."""
    return lambda values: RuleResult(values.get(block, method, metric) < min(values.row(block, others, metric)))


def moves_least(metric: str, metrics: Sequence[str], blocks: Sequence[str]) -> TableRule:
    """Of these metrics, one changes least over the blocks, in points, on average over methods other than Fake-CAM."""

    def rule(values: TableValues) -> RuleResult:
        genuine = values.without([FAKE])
        methods = list(genuine.methods(metric, blocks[0]))
        return RuleResult(min(metrics, key=lambda name: _mean_range(genuine, methods, name, blocks)) == metric)

    return rule


def moves_more(group: Sequence[str], than: Sequence[str], metrics: Sequence[str], blocks: Sequence[str]) -> TableRule:
    """The numbers of one group of methods spread more over the blocks than those of another."""

    def rule(values: TableValues) -> RuleResult:
        measured = values.methods(metrics[0], blocks[0])
        groups = ([method for method in names if method in measured] for names in (group, than))
        first, second = (sum(_mean_range(values, methods, metric, blocks) for metric in metrics) for methods in groups)
        return RuleResult(first > second)

    return rule


def _mean_range(values: TableValues, methods: Sequence[str], metric: str, blocks: Sequence[str]) -> float:
    """Highest less lowest number over the blocks, on average over methods."""
    if not methods:
        raise MissingError("the group was not run")
    rows = [[values.get(block, method, metric) for block in blocks] for method in methods]
    return sum(max(row) - min(row) for row in rows) / len(rows)
