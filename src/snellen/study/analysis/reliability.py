"""Whether the statements of a scale measure one thing: Cronbach's alpha, and what each statement adds to it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pingouin

from snellen.study.analysis.comparisons import MINIMUM_FOR_TESTS, is_constant
from snellen.study.scales import Questionnaire


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement, after reversing."""

    item: int
    """Its number, from 1."""
    text: str
    reversed: bool
    """Whether disagreeing is the favourable answer."""
    mean: float
    deviation: float
    """Standard deviation."""
    rest_correlation: float
    """Its correlation with the mean of the other statements."""
    alpha_without: float
    """Alpha of the scale without it."""


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """Alpha of one scale with its 95 % interval (Feldt), or in `why` the reason that there is none."""

    scale: str
    n: int
    """Participants who rated every statement."""
    alpha: float
    low: float
    high: float
    """Ends of the interval."""
    statements: tuple[Statement, ...]
    source: str
    """Where the scale was published."""
    why: str = ""
    """Why there is no alpha; empty where there is."""


def reliability(scale: Questionnaire, ratings: pd.DataFrame) -> Reliability:
    """Alpha over participants who rated every statement; within subjects a rating is the mean over arms."""
    rows = ratings[ratings["scale"] == scale.name]
    scores = pd.to_numeric(rows["score"]).astype(np.float64)
    table = rows.assign(score=scores).pivot_table(index="participant", columns="item", values="score", aggfunc="mean")
    table = table.reindex(columns=range(1, scale.items + 1)).dropna()
    texts = scale.statements.get("en", next(iter(scale.statements.values())))
    alpha, low, high, why = _alpha(table)
    statements = tuple(
        Statement(
            item=item,
            text=texts[item - 1],
            reversed=item in scale.reverse,
            mean=float(table[item].mean()),
            deviation=float(table[item].std()),
            rest_correlation=_rest_correlation(table, item),
            alpha_without=_alpha(table.drop(columns=item))[0],
        )
        for item in range(1, scale.items + 1)
    )
    return Reliability(
        scale=scale.name, n=len(table), alpha=alpha, low=low, high=high,
        statements=statements, source=scale.source, why=why,
    )  # fmt: skip


def _alpha(table: pd.DataFrame) -> tuple[float, float, float, str]:
    undefined = (math.nan, math.nan, math.nan)
    if table.shape[1] < 2:
        return *undefined, "one statement cannot agree with itself"
    if len(table) < MINIMUM_FOR_TESTS:
        return *undefined, f"{len(table)} of at least {MINIMUM_FOR_TESTS} participants rated every statement"
    if is_constant(table.sum(axis=1).to_numpy()):
        return *undefined, "everybody has the same sum"
    alpha, (low, high) = pingouin.cronbach_alpha(table)
    return float(alpha), float(low), float(high), ""


def _rest_correlation(table: pd.DataFrame, item: int) -> float:
    ratings, rest = table[item].to_numpy(), table.drop(columns=item).mean(axis=1).to_numpy()
    if len(ratings) < MINIMUM_FOR_TESTS or is_constant(ratings) or table.shape[1] < 2 or is_constant(rest):
        return math.nan
    return float(np.corrcoef(ratings, rest)[0, 1])
