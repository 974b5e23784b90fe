"""Do the statements of a scale measure one thing? Cronbach's alpha, and what each statement adds to it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pingouin

from snellen.study.analysis.comparisons import LEAST_FOR_TESTS, still
from snellen.study.scales import Scale


@dataclass(frozen=True)
class Statement:
    """One statement, after reversing."""

    item: int
    text: str
    reversed: bool
    mean: float
    deviation: float
    rest: float
    """Its correlation with the mean of the other statements."""
    without: float
    """Alpha of the scale without it."""


@dataclass(frozen=True)
class Reliability:
    """Alpha of one scale with its 95 % interval (Feldt), or in words why there is none."""

    scale: str
    n: int
    alpha: float
    low: float
    high: float
    statements: tuple[Statement, ...]
    source: str
    why: str = ""


def reliability(scale: Scale, ratings: pd.DataFrame) -> Reliability:
    """Alpha over participants who rated every statement; within subjects a participant's rating is the mean over arms."""
    own = ratings[ratings["scale"] == scale.name]
    scores = pd.to_numeric(own["score"]).astype(np.float64)
    table = own.assign(score=scores).pivot_table(index="participant", columns="item", values="score", aggfunc="mean")
    table = table.reindex(columns=range(1, scale.items + 1)).dropna()
    texts = scale.statements.get("en", next(iter(scale.statements.values())))
    alpha, low, high, why = _alpha(table)
    statements = tuple(
        Statement(
            item,
            texts[item - 1],
            item in scale.reverse,
            float(table[item].mean()),
            float(table[item].std()),
            _rest(table, item),
            _alpha(table.drop(columns=item))[0],
        )
        for item in range(1, scale.items + 1)
    )
    return Reliability(scale.name, len(table), alpha, low, high, statements, scale.source, why)


def _alpha(table: pd.DataFrame) -> tuple[float, float, float, str]:
    nothing = (math.nan, math.nan, math.nan)
    if table.shape[1] < 2:
        return *nothing, "one statement cannot agree with itself"
    if len(table) < LEAST_FOR_TESTS:
        return *nothing, f"{len(table)} of at least {LEAST_FOR_TESTS} participants rated every statement"
    if still(table.sum(axis=1).to_numpy()):
        return *nothing, "everybody has the same sum"
    alpha, (low, high) = pingouin.cronbach_alpha(table)
    return float(alpha), float(low), float(high), ""


def _rest(table: pd.DataFrame, item: int) -> float:
    own, others = table[item].to_numpy(), table.drop(columns=item).mean(axis=1).to_numpy()
    if len(own) < LEAST_FOR_TESTS or still(own) or table.shape[1] < 2 or still(others):
        return math.nan
    return float(np.corrcoef(own, others)[0, 1])
