"""Known answers: a question, the number that must come out, and why."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from snellen.conformance.scene import Scene
from snellen.conformance.toolkit import NONE, NotOffered, Settings, Toolkit
from snellen.errors import SnellenError
from snellen.plugins.registry import METRICS

Kind = Literal[
    "value", "direction", "fake-cam", "batch", "permutation", "channels", "ties", "constant", "empty truth", "scaling",
    "sign", "re-explaining", "unmodified",
]  # fmt: skip

Expected = float | tuple[float, ...] | Literal["above 0"]


@dataclass(frozen=True)
class Cell:
    """What became of one question: right, wrong, not offered, or an error."""

    outcome: Literal["right", "wrong", "not offered", "error"]
    said: str = ""

    def __str__(self) -> str:
        return {"right": "✓", "not offered": "–"}.get(self.outcome) or (
            f"✗ got {self.said}" if self.outcome == "wrong" else f"error: {self.said}"
        )


@dataclass(frozen=True)
class KnownAnswer:
    """One row of the table. `compute` asks a toolkit; `because` derives the expected value in one line."""

    id: str
    metric: str
    kind: Kind
    sentence: str
    expected: Expected
    because: str
    compute: Callable[[Toolkit], Sequence[float]]
    tolerance: float = 1e-5

    def put_to(self, toolkit: Toolkit) -> Cell:
        """Asks, and compares; whatever a toolkit raises becomes an error in its cell."""
        try:
            got = [float(one) for one in self.compute(toolkit)]
        except NotOffered:
            return Cell("not offered")
        except Exception as problem:  # any failure of a toolkit is its answer
            first = next((line for line in str(problem).splitlines() if line.strip()), "")
            return Cell("error", f"{type(problem).__name__}: {first}".rstrip(": ")[:120])
        right = self._right(got)
        return Cell("right") if right else Cell("wrong", ", ".join(_short(one) for one in got))

    def _right(self, got: list[float]) -> bool:
        if self.expected == "above 0":
            return bool(got) and all(one > 1e-9 for one in got)
        wanted = self.expected if isinstance(self.expected, tuple) else (self.expected,) * len(got)
        if len(wanted) != len(got) or not got:
            return False
        return all(_near(one, two, self.tolerance) for one, two in zip(got, wanted, strict=True))

    @property
    def wanted(self) -> str:
        """The expected value as a table shows it."""
        if self.expected == "above 0":
            return "> 0"
        values = self.expected if isinstance(self.expected, tuple) else (self.expected,)
        return ", ".join("undefined" if math.isnan(one) else _short(one) for one in values)


def _near(one: float, two: float, tolerance: float) -> bool:
    if math.isnan(one) or math.isnan(two):
        return math.isnan(one) and math.isnan(two)
    return abs(one - two) <= tolerance


def _short(one: float) -> str:
    return f"{one:.4g}"


# How a row is written -------------------------------------------------------------------------------------------------


def value(
    id: str,
    metric: str,
    sentence: str,
    scene: Scene,
    expected: float | tuple[float, ...],
    because: str,
    *,
    kind: Kind = "value",
    tolerance: float = 1e-5,
    settings: Settings = NONE,
) -> KnownAnswer:
    """The scores of a scene are these."""
    return KnownAnswer(
        id, metric, kind, sentence, expected, because, lambda toolkit: toolkit.ask(metric, scene, settings), tolerance
    )


def kept(
    id: str, metric: str, sentence: str, scene: Scene, expected: float, because: str, *, kind: Kind = "value"
) -> KnownAnswer:
    """The share of samples on which a toolkit finds an axiom kept, by its own verdict or by our tolerance."""

    def compute(toolkit: Toolkit) -> list[float]:
        if f"{metric}:holds" in toolkit.offers:
            found = toolkit.ask(f"{metric}:holds", scene)
        else:
            tolerance: float = METRICS[metric].traits.tolerance  # type: ignore[attr-defined]
            found = [float(one <= tolerance) for one in toolkit.ask(metric, scene)]
        return [sum(found) / len(found)]

    return KnownAnswer(id, metric, kind, sentence, expected, because, compute)


def better(
    id: str,
    metric: str,
    sentence: str,
    good: Scene,
    bad: Scene,
    because: str,
    *,
    kind: Kind = "direction",
    settings: Settings = NONE,
) -> KnownAnswer:
    """One scene scores better than another, in every sample; the answer is by how much."""

    def compute(toolkit: Toolkit) -> list[float]:
        sign = 1 if METRICS[metric].traits.higher_is_better else -1  # type: ignore[attr-defined]
        first, second = (toolkit.ask(metric, one, settings) for one in (good, bad))
        return [min(sign * (one - two) for one, two in zip(first, second, strict=True))]

    return KnownAnswer(id, metric, kind, sentence, "above 0", because, compute)


def same(
    id: str,
    metric: str,
    kind: Kind,
    sentence: str,
    first: Scene,
    second: Scene,
    because: str,
    *,
    back: Sequence[int] | None = None,
    tolerance: float = 1e-5,
    settings: Settings = NONE,
) -> KnownAnswer:
    """Two scenes have the same scores; the answer is the largest difference. `back` undoes a permutation of samples."""

    def compute(toolkit: Toolkit) -> list[float]:
        one, two = toolkit.ask(metric, first, settings), toolkit.ask(metric, second, settings)
        if back is not None and len(two) == len(back):
            two = [two[place] for place in back]
        if len(one) != len(two) or len(one) < len(first):  # a toolkit that gives out means is held to them
            one, two = [sum(one) / len(one)], [sum(two) / len(two)]
        return [max(_gap(*pair) for pair in zip(one, two, strict=True))]

    return KnownAnswer(id, metric, kind, sentence, 0.0, because, compute, tolerance)


def _gap(one: float, two: float) -> float:
    if math.isnan(one) and math.isnan(two):
        return 0.0
    return math.inf if math.isnan(one) or math.isnan(two) else abs(one - two)


def any_batch(
    id: str, metric: str, scene: Scene, *, sizes: tuple[int, int] = (1, 64), settings: Settings = NONE
) -> KnownAnswer:
    """How many samples are taken at a time moves no score."""
    few, many = (replace(scene, batch=size) for size in sizes)
    return same(
        id, metric, "batch", f"{len(scene)} samples one by one score as they do together.", few, many,
        "a score belongs to its sample", settings=settings,
    )  # fmt: skip


def any_order(id: str, metric: str, scene: Scene, *, settings: Settings = NONE) -> KnownAnswer:
    """The order of the samples moves no score."""
    order = [*range(1, len(scene)), 0]
    return same(
        id, metric, "permutation", "The last sample first, and the scores follow.", scene, scene.rows(order),
        "a score belongs to its sample", back=[order.index(place) for place in range(len(scene))], settings=settings,
    )  # fmt: skip


@cache
def known_answers() -> tuple[KnownAnswer, ...]:
    """Every row, in the order of the metrics' names; two rows with one id are refused."""
    from snellen.conformance import known

    rows: list[KnownAnswer] = []
    for module in pkgutil.iter_modules(known.__path__):
        rows += importlib.import_module(f"{known.__name__}.{module.name}").ANSWERS
    ids = [row.id for row in rows]
    if doubled := {sample_id for sample_id in ids if ids.count(sample_id) > 1}:
        raise SnellenError(f"two known answers are called {', '.join(sorted(doubled))}; choose other names")
    return tuple(sorted(rows, key=lambda one: one.metric))
