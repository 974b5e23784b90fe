"""Reference cases: a fixture, the score that a metric must give for it, and why."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from snellen.conformance.fixtures import Fixture
from snellen.conformance.toolkit import NONE, MetricSettings, NotOffered, Toolkit
from snellen.errors import SnellenError
from snellen.plugins.registry import METRICS

CaseKind = Literal[
    "value", "direction", "fake-cam", "batch", "permutation", "channels", "ties", "constant", "empty truth", "scaling",
    "sign", "re-explaining", "unmodified", "labels",
]  # fmt: skip

Expected = float | tuple[float, ...] | Literal["above 0"]


@dataclass(frozen=True)
class CaseResult:
    """The result of one reference case with one toolkit."""

    outcome: Literal["right", "wrong", "not offered", "error"]
    """Whether the score is right."""
    detail: str = ""
    """The wrong value, or the error message."""

    def __str__(self) -> str:
        return {"right": "✓", "not offered": "–"}.get(self.outcome) or (
            f"✗ got {self.detail}" if self.outcome == "wrong" else f"error: {self.detail}"
        )


@dataclass(frozen=True)
class ReferenceCase:
    """A metric, the score that it must give for a fixture, and why; one row of the table."""

    id: str
    metric: str
    kind: CaseKind
    """What the case is about."""
    sentence: str
    """What the fixture is."""
    expected: Expected
    because: str
    """Derivation of the expected value, in one line."""
    compute: Callable[[Toolkit], Sequence[float]]
    """Computes the scores with a toolkit."""
    tolerance: float = 1e-5
    """The largest difference that still counts as equal."""

    def run(self, toolkit: Toolkit) -> CaseResult:
        """Computes the scores and compares them; an exception of the toolkit becomes an error in its column."""
        try:
            scores = [float(score) for score in self.compute(toolkit)]
        except NotOffered:
            return CaseResult("not offered")
        except Exception as problem:
            first = next((line for line in str(problem).splitlines() if line.strip()), "")
            return CaseResult("error", f"{type(problem).__name__}: {first}".rstrip(": ")[:120])
        if self._matches(scores):
            return CaseResult("right")
        return CaseResult("wrong", ", ".join(_short(score) for score in scores))

    def _matches(self, scores: list[float]) -> bool:
        if self.expected == "above 0":
            return bool(scores) and all(score > 1e-9 for score in scores)
        expected = self.expected if isinstance(self.expected, tuple) else (self.expected,) * len(scores)
        if len(expected) != len(scores) or not scores:
            return False
        return all(_difference(*pair) <= self.tolerance for pair in zip(scores, expected, strict=True))

    @property
    def expected_text(self) -> str:
        """The expected value as the table shows it."""
        if self.expected == "above 0":
            return "> 0"
        values = self.expected if isinstance(self.expected, tuple) else (self.expected,)
        return ", ".join("undefined" if math.isnan(value) else _short(value) for value in values)


def _difference(first: float, second: float) -> float:
    """The absolute difference; two NaN are equal."""
    if math.isnan(first) and math.isnan(second):
        return 0.0
    return math.inf if math.isnan(first) or math.isnan(second) else abs(first - second)


def _short(value: float) -> str:
    return f"{value:.4g}"


# Kinds of cases ------------------------------------------------------------------------------------------------------


def value(
    id: str,
    metric: str,
    sentence: str,
    fixture: Fixture,
    expected: float | tuple[float, ...],
    because: str,
    *,
    kind: CaseKind = "value",
    tolerance: float = 1e-5,
    settings: MetricSettings = NONE,
) -> ReferenceCase:
    """The scores of the fixture equal `expected`."""
    return ReferenceCase(
        id=id,
        metric=metric,
        kind=kind,
        sentence=sentence,
        expected=expected,
        because=because,
        compute=lambda toolkit: toolkit.compute(metric, fixture, settings),
        tolerance=tolerance,
    )


def axiom_holds(
    id: str, metric: str, sentence: str, fixture: Fixture, expected: float, because: str, *, kind: CaseKind = "value"
) -> ReferenceCase:
    """The share of samples for which an axiom holds, as decided by the toolkit, or else by the tolerance of our metric."""

    def compute(toolkit: Toolkit) -> list[float]:
        if f"{metric}:holds" in toolkit.offers:
            holds = toolkit.compute(f"{metric}:holds", fixture)
        else:
            tolerance: float = METRICS[metric].traits.tolerance  # type: ignore[attr-defined]
            holds = [float(score <= tolerance) for score in toolkit.compute(metric, fixture)]
        return [sum(holds) / len(holds)]

    return ReferenceCase(
        id=id, metric=metric, kind=kind, sentence=sentence, expected=expected, because=because, compute=compute
    )


def better(
    id: str,
    metric: str,
    sentence: str,
    good: Fixture,
    bad: Fixture,
    because: str,
    *,
    kind: CaseKind = "direction",
    settings: MetricSettings = NONE,
) -> ReferenceCase:
    """The first fixture scores better than the second for every sample; the value is the smallest difference."""

    def compute(toolkit: Toolkit) -> list[float]:
        sign = 1 if METRICS[metric].traits.higher_is_better else -1  # type: ignore[attr-defined]
        pairs = zip(toolkit.compute(metric, good, settings), toolkit.compute(metric, bad, settings), strict=True)
        return [min(sign * (high - low) for high, low in pairs)]

    return ReferenceCase(
        id=id, metric=metric, kind=kind, sentence=sentence, expected="above 0", because=because, compute=compute
    )


def same(
    id: str,
    metric: str,
    kind: CaseKind,
    sentence: str,
    first: Fixture,
    second: Fixture,
    because: str,
    *,
    back: Sequence[int] | None = None,
    tolerance: float = 1e-5,
    settings: MetricSettings = NONE,
) -> ReferenceCase:
    """Two fixtures have the same scores; the value is the largest difference.

    Args:
        back: Undoes a permutation of the samples of `second`.
    """

    def compute(toolkit: Toolkit) -> list[float]:
        before, after = toolkit.compute(metric, first, settings), toolkit.compute(metric, second, settings)
        if back is not None and len(after) == len(back):
            after = [after[place] for place in back]
        if len(before) != len(after) or len(before) < len(first):  # some toolkits return only means
            before, after = [sum(before) / len(before)], [sum(after) / len(after)]
        return [max(_difference(*pair) for pair in zip(before, after, strict=True))]

    return ReferenceCase(
        id=id,
        metric=metric,
        kind=kind,
        sentence=sentence,
        expected=0.0,
        because=because,
        compute=compute,
        tolerance=tolerance,
    )


def batch_independent(
    id: str, metric: str, fixture: Fixture, *, sizes: tuple[int, int] = (1, 64), settings: MetricSettings = NONE
) -> ReferenceCase:
    """Scores do not depend on the batch size."""
    few, many = (replace(fixture, batch=size) for size in sizes)
    return same(
        id, metric, "batch", f"{len(fixture)} samples one by one score as they do together.", few, many,
        "a score belongs to its sample", settings=settings,
    )  # fmt: skip


def order_independent(id: str, metric: str, fixture: Fixture, *, settings: MetricSettings = NONE) -> ReferenceCase:
    """Scores do not depend on the order of the samples."""
    order = [*range(1, len(fixture)), 0]
    return same(
        id, metric, "permutation", "The last sample first, and the scores follow.", fixture, fixture.rows(order),
        "a score belongs to its sample", back=[order.index(place) for place in range(len(fixture))], settings=settings,
    )  # fmt: skip


@cache
def reference_cases() -> tuple[ReferenceCase, ...]:
    """All cases, sorted by metric; raises where two cases have the same id."""
    from snellen.conformance import cases

    rows: list[ReferenceCase] = []
    for module in pkgutil.iter_modules(cases.__path__):
        rows += importlib.import_module(f"{cases.__name__}.{module.name}").CASES
    ids = [case.id for case in rows]
    if repeated := {name for name in ids if ids.count(name) > 1}:
        raise SnellenError(f"two reference cases are called {', '.join(sorted(repeated))}; choose other names")
    return tuple(sorted(rows, key=lambda case: case.metric))
