"""Which work comes next in a run that stops where enough is decided: `--until settled`, `--budget 10m`.

Such a run computes its images in an order that the seed draws. It goes in steps: a step brings some tests (metrics) to
their next look, on those methods and controls that the look needs. Who looks is a `Decider`, which `verdicts` supplies.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pandas as pd

from snellen.errors import SnellenError
from snellen.plugins.registry import traits
from snellen.runs.plan import PassSeconds, Plan
from snellen.runs.progress import duration
from snellen.runs.record import Cost, RunRecord
from snellen.runs.segments import FinishedUnit
from snellen.types import Method, Metric, Passes

SEEDED = "seeded"
"""What `Spec.order` calls an order that the seed draws."""

COMPANION = 0.5
"""Tests share a step where they settle at least this share of what the best test settles per second."""

SETTLED = "settled"
PRECISION = "precision"

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seeded_order(ids: Iterable[str], seed: int) -> list[int]:
    """The places of samples in an order that the seed and their ids decide, not the order of the folder.

    >>> seeded_order(["a", "b", "c"], 0) == [2 - place for place in seeded_order(["c", "b", "a"], 0)]
    True
    """
    drawn = [hashlib.sha256(f"{seed}/{sample_id}".encode()).digest() for sample_id in ids]
    return sorted(range(len(drawn)), key=drawn.__getitem__)


@dataclass(frozen=True)
class Until:
    """When a comparison has enough images: once its verdict is settled, or at a precision."""

    half_width: float | None = None
    """Half the width of the interval of a difference, in pooled standard deviations; None for a settled verdict."""

    @staticmethod
    def parse(text: str) -> Until:
        """Reads `settled` or `precision 0.1`.

        >>> Until.parse("precision 0.1").half_width
        0.1
        """
        words = text.split()
        if words == [SETTLED]:
            return Until()
        try:
            (half_width,) = (float(word) for word in words[1:])
        except ValueError:
            half_width = math.nan
        if words[:1] != [PRECISION] or not 0 < half_width < math.inf:
            raise SnellenError(
                f"until is '{SETTLED}' or '{PRECISION}' with half the width of an interval in standard deviations, such as "
                f"'{PRECISION} 0.1', not '{text}'"
            )
        return Until(half_width)


@dataclass(frozen=True)
class Budget:
    """How much one call may spend: seconds, or passes through the model."""

    seconds: float = math.inf
    passes: float = math.inf

    @staticmethod
    def parse(text: str) -> Budget:
        """Reads `90s`, `10m`, `1h30m` or `500000 passes`.

        >>> Budget.parse("1h30m").seconds, Budget.parse("500000 passes").passes
        (5400.0, 500000.0)
        """
        plain = text.replace(",", "").replace("_", "").strip().lower()
        if match := re.fullmatch(r"(\d+) ?(?:passes|pass)", plain):
            budget = Budget(passes=float(match[1]))
        elif re.fullmatch(r"(?:\d+(?:\.\d+)? ?[smh] ?)+", plain):
            budget = Budget(sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+) ?([smh])", plain)))
        else:
            raise SnellenError(
                f"budget is a time or a number of passes, such as 10m, 1h30m or '500000 passes', not '{text}'"
            )
        if min(budget.seconds, budget.passes) <= 0:
            raise SnellenError(f"budget must be more than nothing, not '{text}'; leave it out to compute everything")
        return budget


def check_judged(methods: Sequence[Method], metrics: Sequence[Metric]) -> None:
    """Refuses to stop early where no verdict will ever be given."""
    axioms = any(traits(metric).tolerance is not None for metric in metrics)
    if not axioms and not any(traits(method).control for method in methods):
        raise SnellenError(
            "--until and --budget need verdicts, which are against controls, but none is among the methods; add "
            "random,edge,fake-cam,centre, or leave them out"
        )
    if not metrics:
        raise SnellenError("--until and --budget need verdicts, but there are no metrics; name some, or leave them out")


@runtime_checkable
class Decider(Protocol):
    """Looks at the scores of each test (metric) and says what its next look needs. Tests are named by their label."""

    def look(self, metric: str, scores: pd.DataFrame, absent: Iterable[str]) -> bool:
        """Takes the next look, and returns whether the scores that it needs were there.

        Args:
            metric: The test.
            scores: Columns sample, method and value, of all pictures so far.
            absent: Methods whose maps the metric cannot score.
        """
        ...

    def size(self, metric: str) -> int:
        """After how many pictures the last look was."""
        ...

    def next_size(self, metric: str) -> int | None:
        """After how many pictures the next look is; None where none is needed."""
        ...

    def needs(self, metric: str) -> tuple[str, ...]:
        """The methods and controls whose scores the next look needs."""
        ...

    def expected(self, metric: str) -> float:
        """How many verdicts the next look is expected to settle."""
        ...

    def further(self, metric: str) -> int:
        """About how many pictures more, of this run, would settle what is open."""
        ...

    def words(self) -> str:
        """How many verdicts are settled, will hardly be, or are open."""
        ...


MakeDecider = Callable[[RunRecord], Decider]


@dataclass(frozen=True)
class Step:
    """The next work: by method, the metrics to score it by, on the pictures from one number to another."""

    metrics: Mapping[str, tuple[str, ...]]
    """By label of the method."""
    tests: tuple[str, ...]
    """The tests that look after it."""
    start: int
    stop: int

    @property
    def words(self) -> str:
        """For the progress bar."""
        return f"explaining, to {self.stop:,} images"


@dataclass
class Costs:
    """What a picture costs by method and metric: as planned, and as measured once there are units."""

    plan: Plan
    pass_seconds: PassSeconds
    workers: int = 1
    _spent: dict[tuple[str, str], Spent] = field(default_factory=dict)

    def add(self, unit: FinishedUnit) -> None:
        """Counts what a finished unit cost."""
        for part, cost in [("maps", unit.cost), *unit.metric_costs.items()]:
            if cost is not None:
                self._spent.setdefault((unit.method, part), Spent()).add(cost, unit.count)

    def picture(self, method: str, part: str) -> tuple[float, float]:
        """Seconds and passes per picture of a method's maps, or of a metric."""
        if spent := self._spent.get((method, part)):
            return spent.seconds / spent.pictures / self.workers, spent.passes / spent.pictures
        passes = self.plan.passes.get((method, part), Passes())
        return self.pass_seconds.seconds(passes) / self.workers, float(passes.forward + passes.backward)


@dataclass
class Spent:
    """What was spent on so many pictures."""

    seconds: float = 0.0
    passes: float = 0.0
    pictures: int = 0

    def add(self, cost: Cost, pictures: int) -> None:
        """Counts a unit."""
        self.seconds += cost.seconds
        self.passes += cost.forward + cost.backward
        self.pictures += pictures


class Schedule:
    """Chooses the steps of a run, one after the other."""

    def __init__(self, decider: Decider, tests: Sequence[str], costs: Costs, budget: Budget | None = None) -> None:
        self._decider, self._tests, self._costs, self.budget = decider, list(tests), costs, budget
        self._scores: dict[str, list[pd.DataFrame]] = {test: [] for test in tests}
        self._absent: dict[str, set[str]] = {test: set() for test in tests}
        self._mapped: dict[str, int] = {}
        self._stuck: set[str] = set()
        self._started = time.monotonic()
        self._passes = 0.0

    @property
    def is_spent(self) -> bool:
        """Whether the budget is used up."""
        if self.budget is None:
            return False
        return time.monotonic() - self._started >= self.budget.seconds or self._passes >= self.budget.passes

    def pay(self, *costs: Cost) -> None:
        """Counts what was computed now."""
        self._passes += sum(cost.forward + cost.backward for cost in costs)

    def next_step(self) -> Step | None:
        """The next step; None where everything is decided, or nothing more fits into the budget."""
        running = {test: size for test in self._tests if (size := self._decider.next_size(test)) and test not in self._stuck}
        if not running or self.is_spent:
            return None
        if self.budget is None:
            target = min(running.values())
            return self._step([test for test, size in running.items() if size == target])
        worth = {test: self._decider.expected(test) / max(1e-9, self._cost(self._step([test]))[0]) for test in running}
        for best in sorted(running, key=lambda test: -worth[test]):
            stage = self._stage(best)
            companions = [test for test in running if self._stage(test) == stage and worth[test] >= COMPANION * worth[best]]
            for tests in (companions, [best]):
                step = self._step(tests)
                if self._fits(step):
                    return step
        return None

    def finish(self, step: Step, units: Iterable[FinishedUnit], scores: pd.DataFrame) -> None:
        """Takes the looks that follow a step.

        Args:
            step: The step.
            units: Its units, computed now or before.
            scores: Columns sample, method, metric and value, of these units.
        """
        for unit in units:
            self._costs.add(unit)
            for metric in unit.refused:
                self._absent.setdefault(metric, set()).add(unit.method)
        for method in step.metrics:
            self._mapped[method] = max(self._mapped.get(method, 0), step.stop)
        for test in step.tests:
            self._scores[test].append(scores[scores["metric"] == test])
            if not self._decider.look(test, pd.concat(self._scores[test]), self._absent[test]):
                self._stuck.add(test)

    def closing_words(self) -> str:
        """What is decided, what is not, and how much more that would take."""
        words = self._decider.words()
        seconds = passes = 0.0
        most = 0
        for test in self._tests:
            if (size := self._decider.next_size(test)) is None:
                continue
            more = max(size - self._decider.size(test), self._decider.further(test))
            most = max(most, more)
            step = self._step([test])
            share = more / (step.stop - step.start)
            cost = self._cost(step)
            seconds, passes = seconds + cost[0] * share, passes + cost[1] * share
        if not most:
            return words
        return (
            f"{words}; to settle what is open would take up to about {most:,} more images for each, "
            f"{passes:,.0f} passes and {duration(seconds)}"
        )

    def _stage(self, test: str) -> tuple[int, int | None]:
        return self._decider.size(test), self._decider.next_size(test)

    def _step(self, tests: Sequence[str]) -> Step:
        metrics: dict[str, list[str]] = {}
        for test in tests:
            for method in self._decider.needs(test):
                metrics.setdefault(method, []).append(test)
        return Step(
            metrics={method: tuple(chosen) for method, chosen in metrics.items()},
            tests=tuple(tests),
            start=min(self._decider.size(test) for test in tests),
            stop=max(self._decider.next_size(test) or 0 for test in tests),
        )

    def _cost(self, step: Step) -> tuple[float, float]:
        """Seconds and passes of a step, about; maps that are there cost nothing."""
        seconds = passes = 0.0
        for method, metrics in step.metrics.items():
            unmapped = max(0, step.stop - max(step.start, self._mapped.get(method, 0)))
            parts = [("maps", unmapped), *((metric, step.stop - step.start) for metric in metrics)]
            for part, pictures in parts:
                cost = self._costs.picture(method, part)
                seconds, passes = seconds + cost[0] * pictures, passes + cost[1] * pictures
        return seconds, passes

    def _fits(self, step: Step) -> bool:
        if self.budget is None:
            return True
        seconds, passes = self._cost(step)
        return (
            time.monotonic() - self._started + seconds <= self.budget.seconds and self._passes + passes <= self.budget.passes
        )
