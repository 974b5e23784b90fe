"""A mixed model of single answers: arms as what is asked, participants and items as what happened to be drawn.

Means per participant forget that items differ, and that other items might have been shown. Here both participants and
items have random intercepts that cross each other; within subjects arms may also act differently on every participant.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats
from statsmodels.tools.sm_exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from snellen.study.analysis.comparisons import LEAST_FOR_TESTS, Statistic, still
from snellen.study.protocol import NONE

_PROBLEMS = (np.linalg.LinAlgError, ValueError, ZeroDivisionError, FloatingPointError, IndexError)


@dataclass(frozen=True)
class Coefficient:
    """How an arm differs from the reference, in the outcome's own unit, or by which factor of odds, at 95 %."""

    arm: str
    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Mixed:
    """The model of one outcome, with everything that went wrong while it was fitted."""

    trials: int
    participants: int
    items: int
    reference: str
    overall: Statistic
    coefficients: tuple[Coefficient, ...] = ()
    variances: dict[str, float] | None = None
    """Of participants, items, participant × arm (within subjects) and the rest."""
    shares: dict[str, float] | None = None
    """The same as shares of their sum: intraclass correlations."""
    problems: tuple[str, ...] = ()
    odds: Odds | None = None


@dataclass(frozen=True)
class Odds:
    """The check for right-or-wrong answers: odds ratios by generalised estimating equations."""

    overall: Statistic
    coefficients: tuple[Coefficient, ...] = ()
    problems: tuple[str, ...] = ()


SMALL = 1000
"""Answers above which matrices are kept sparse, which is faster from there on."""

NOTHING = 1e-5
"""A variance below this share of the whole is none."""

OVERALL = Statistic("Arms together", "F")


def mix(trials: pd.DataFrame, arms: tuple[str, ...], *, within: bool, binary: bool) -> Mixed:
    """The model of trials with the columns participant, item, arm and score."""
    counts = trials.groupby("arm")["participant"].nunique()
    kept = [arm for arm in arms if counts.get(arm, 0) >= LEAST_FOR_TESTS]
    reference = NONE if NONE in kept else (kept[0] if kept else "")
    order = [reference, *(arm for arm in kept if arm != reference)]
    table = trials[trials["arm"].isin(kept)].assign(everyone=1)
    # A number per arm, the reference first: names of methods hold brackets and quotes, which formulas read as their own.
    table = table.assign(place=table["arm"].map(order.index))
    whole = table if len(kept) > 1 else trials
    size = (len(whole), whole["participant"].nunique(), whole["item"].nunique())
    if len(kept) < 2:
        why = f"a model needs two arms with at least {LEAST_FOR_TESTS} participants each"
        return Mixed(*size, reference, Statistic(OVERALL.name, "F", why=why))
    if still(table["score"].to_numpy()):
        return Mixed(*size, reference, Statistic(OVERALL.name, "F", why="all answers have the same score"))
    if size[0] == size[1] or size[2] == 1:
        why = "everybody gave one answer, or all to one item, so that people and items cannot be told from chance"
        return Mixed(*size, reference, Statistic(OVERALL.name, "F", why=why))
    random = {"participant": "0 + C(participant)", "item": "0 + C(item)"}
    if within and _repeats(table):
        random["participant × arm"] = "0 + C(participant):C(place)"
    # In its own standard deviations, so that one tolerance of the search fits shares, points and per cent alike.
    unit = float(table["score"].std())
    try:
        # Matrices are small and many: on a busy machine threads that wait for each other take ten times as long as one.
        with threadpool_limits(1, "blas"), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = sm.MixedLM.from_formula(
                "score ~ C(place)",
                groups="everyone",
                vc_formula=random,
                data=table.assign(score=table["score"] / unit),
                use_sparse=len(table) > SMALL,
            )
            # Powell's search needs no gradient, which is misleading where a variance is zero; the others stop short there.
            fitted = model.fit(reml=True, method=["powell"])
        problems = _said(said, fitted, model)
        overall, coefficients = _arms(fitted.fe_params, fitted.cov_params(), order, _freedom(size, len(kept), within), unit)
    except _PROBLEMS as problem:
        why = f"the model could not be fitted: {' '.join(str(problem).split()) or type(problem).__name__}"
        return Mixed(*size, reference, Statistic(OVERALL.name, "F", why=why), odds=_odds(table, order, binary))
    parts = {name: float(part) * unit**2 for name, part in zip(model.exog_vc.names, fitted.vcomp, strict=True)}
    parts["rest"] = float(fitted.scale) * unit**2
    total = sum(parts.values())
    shares = {name: part / total for name, part in parts.items()}
    odds = _odds(table, order, binary)
    return Mixed(*size, reference, overall, coefficients, parts, shares, tuple(problems), odds)


def _repeats(table: pd.DataFrame) -> bool:
    """Whether participants have several answers in an arm; otherwise arm and chance are one for each of them."""
    return bool(table.groupby(["participant", "arm"]).size().max() > 1)


def _freedom(size: tuple[int, int, int], arms: int, within: bool) -> float:
    """Denominator degrees of freedom as a plan of both kinds counts them: participants, less what the arms take."""
    return float((size[1] - 1) * (arms - 1) if within else size[1] - arms)


def _said(said: list[warnings.WarningMessage], fitted: Any, model: Any) -> list[str]:
    """What a reader must know of the fit, a sentence each."""
    found = [] if fitted.converged else ["the search for the best fit did not converge; do not rely on these numbers"]
    parts = zip(model.exog_vc.names, fitted.vcomp, strict=True)
    found += [f"the variance of {name} is estimated as zero" for name, part in parts if part < NOTHING]
    # A variance of zero lies on the boundary; that a warning says so too is nothing new.
    if found:
        return found
    kinds = (ConvergenceWarning, RuntimeWarning)
    warned = {str(one.message).splitlines()[0].rstrip(".") for one in said if issubclass(one.category, kinds)}
    near = "a variance is close to zero, where its own estimate is unsure"
    return sorted({near if "boundary" in one else f"the fit warned: {one}" for one in warned})


def _arms(
    estimates: Any, covariance: Any, order: list[str], rest: float, unit: float = 1.0
) -> tuple[Statistic, tuple[Coefficient, ...]]:
    """All arms at once by Wald's F, and each against the reference by t; the first estimate is the reference's own."""
    count = len(order) - 1
    places = slice(1, count + 1)
    values, spread = np.asarray(estimates)[places], np.asarray(covariance)[places, places]
    if not np.isfinite(spread).all() or (np.diag(spread) <= 0).any():
        raise ValueError("the errors of the arms are undefined")
    wald = float(values @ np.linalg.solve(spread, values)) / count
    overall = Statistic(OVERALL.name, "F", wald, (float(count), rest), float(stats.f.sf(wald, count, rest)))
    return overall, tuple(
        _coefficient(arm, unit * float(value), unit * float(math.sqrt(error)), rest)
        for arm, value, error in zip(order[1:], values, np.diag(spread), strict=True)
    )


def _coefficient(arm: str, value: float, error: float, rest: float) -> Coefficient:
    reach = float(stats.t.isf(0.025, rest)) * error
    return Coefficient(arm, value, value - reach, value + reach, float(2 * stats.t.sf(abs(value) / error, rest)))


def _odds(table: pd.DataFrame, order: list[str], binary: bool) -> Odds | None:
    """Right or wrong on the scale of log odds, participants as clusters, with errors corrected for few of them."""
    if not binary:
        return None
    name = "Arms together (odds)"
    shares = table.groupby("arm")["score"].mean()
    if flat := [str(arm) for arm, share in shares.items() if share in (0.0, 1.0)]:
        why = f"all answers in {flat[0]} are {'right' if shares[flat[0]] else 'wrong'}, and odds are infinite"
        return Odds(Statistic(name, "F", why=why))
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = sm.GEE.from_formula(
                "score ~ C(place)",
                groups="participant",
                data=table.sort_values("participant"),
                family=sm.families.Binomial(),
                cov_struct=sm.cov_struct.Exchangeable(),
            )
            fitted = model.fit(cov_type="bias_reduced")
        rest = float(table["participant"].nunique() - len(order))
        overall, coefficients = _arms(fitted.params, fitted.cov_params(), order, rest)
    except _PROBLEMS as problem:
        return Odds(Statistic(name, "F", why=f"could not be fitted: {' '.join(str(problem).split())}"))
    factors = tuple(
        Coefficient(
            coefficient.arm,
            math.exp(coefficient.value),
            math.exp(coefficient.low),
            math.exp(coefficient.high),
            coefficient.p,
        )
        for coefficient in coefficients
    )
    problems = tuple(sorted({f"the fit warned: {one.message}" for one in said if issubclass(one.category, RuntimeWarning)}))
    if not fitted.converged:
        problems = ("the search for the best fit did not converge; do not rely on these numbers", *problems)
    return Odds(Statistic(name, "F", overall.value, overall.df, overall.p), factors, problems)
