"""A mixed model of single answers: arms as fixed effects, participants and items as crossed random intercepts.

The means per participant ignore that items differ and that other items might have been drawn. Within subjects the effect
of an arm may also vary between participants.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats
from statsmodels.tools.sm_exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from snellen.study.analysis.comparisons import MINIMUM_FOR_TESTS, StatisticalTest, is_constant
from snellen.study.protocol import NONE

FIT_ERRORS = (np.linalg.LinAlgError, ValueError, ZeroDivisionError, FloatingPointError, IndexError)
"""What statsmodels raises where a model cannot be fitted."""

NEVER_CONVERGED = "the search for the best fit did not converge; do not rely on these numbers"

SPARSE_ABOVE = 1000
"""With more answers sparse matrices are faster."""

NEGLIGIBLE = 1e-5
"""A variance below this share of the whole counts as zero."""


@dataclass(frozen=True, kw_only=True)
class Coefficient:
    """The difference between an arm and the reference, with its 95 % interval: in units of the outcome, or an odds ratio."""

    arm: str
    value: float
    low: float
    high: float
    p: float
    """Uncorrected."""


@dataclass(frozen=True, kw_only=True)
class OddsModel:
    """The check for right-or-wrong answers: odds ratios by generalised estimating equations."""

    overall: StatisticalTest
    """Wald's test of all arms together."""
    coefficients: tuple[Coefficient, ...] = ()
    """An odds ratio per arm but the reference."""
    problems: tuple[str, ...] = ()
    """What a reader must know of the fit, a sentence each."""


@dataclass(frozen=True, kw_only=True)
class MixedModel:
    """The model of one outcome, with the problems of its fit."""

    trials: int
    """How many answers."""
    participants: int
    items: int
    """How many participants and items."""
    reference: str
    """The arm that the others are compared with."""
    overall: StatisticalTest
    """Wald's test of all arms together."""
    coefficients: tuple[Coefficient, ...] = ()
    """A difference per arm but the reference, in units of the outcome."""
    variances: dict[str, float] | None = None
    """Of participants, items, participant × arm (within subjects) and the rest."""
    shares: dict[str, float] | None = None
    """The same as shares of their sum: intraclass correlations."""
    problems: tuple[str, ...] = ()
    """What a reader must know of the fit, a sentence each."""
    odds: OddsModel | None = None
    """For right-or-wrong answers only."""


OVERALL = StatisticalTest(name="Arms together", symbol="F")
OVERALL_ODDS = StatisticalTest(name="Arms together (odds)", symbol="F")


def fit_mixed_model(trials: pd.DataFrame, arms: tuple[str, ...], *, within: bool, binary: bool) -> MixedModel:
    """Fits the model.

    Args:
        trials: Columns participant, item, arm and score; a row per answer.
        arms: The arms in the order of the protocol.
        within: Whether every participant saw every arm.
        binary: Whether a score is 0 or 1, so that odds are modelled too.
    """
    counts = trials.groupby("arm")["participant"].nunique()
    tested = [arm for arm in arms if counts.get(arm, 0) >= MINIMUM_FOR_TESTS]
    reference = NONE if NONE in tested else (tested[0] if tested else "")
    order = [reference, *(arm for arm in tested if arm != reference)]
    table = trials[trials["arm"].isin(tested)].assign(everyone=1)
    # Arms by number, the reference first: names of methods contain brackets and quotes, which formulas would parse.
    table = table.assign(arm_number=table["arm"].map(order.index))
    whole = table if len(tested) > 1 else trials
    unfitted = MixedModel(
        trials=len(whole),
        participants=whole["participant"].nunique(),
        items=whole["item"].nunique(),
        reference=reference,
        overall=OVERALL,
    )
    if reason := _reason_not_to_fit(unfitted, tested, table):
        return replace(unfitted, overall=replace(OVERALL, why=reason))
    random_effects = {"participant": "0 + C(participant)", "item": "0 + C(item)"}
    if within and _has_repeats(table):
        random_effects["participant × arm"] = "0 + C(participant):C(arm_number)"
    # Scores in standard deviations, so that one tolerance of the search suits shares, points and per cent.
    unit = float(table["score"].std())
    odds = _fit_odds(table, order) if binary else None
    try:
        # The matrices are small and many: with several threads the fit takes ten times as long on a busy machine.
        with threadpool_limits(1, "blas"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = sm.MixedLM.from_formula(
                "score ~ C(arm_number)",
                groups="everyone",
                vc_formula=random_effects,
                data=table.assign(score=table["score"] / unit),
                use_sparse=len(table) > SPARSE_ABOVE,
            )
            fitted = _fit(model)
        residual_df = _residual_df(unfitted.participants, len(tested), within=within)
        overall, coefficients = _arm_effects(fitted.fe_params, fitted.cov_params(), order, residual_df, unit)
    except FIT_ERRORS as problem:
        why = f"the model could not be fitted: {' '.join(str(problem).split()) or type(problem).__name__}"
        return replace(unfitted, overall=replace(OVERALL, why=why), odds=odds)
    variances = {name: float(part) * unit**2 for name, part in zip(model.exog_vc.names, fitted.vcomp, strict=True)}
    variances["rest"] = float(fitted.scale) * unit**2
    total = sum(variances.values())
    return replace(
        unfitted,
        overall=overall,
        coefficients=coefficients,
        variances=variances,
        shares={name: variance / total for name, variance in variances.items()},
        problems=tuple(_fit_problems(caught, fitted, model)),
        odds=odds,
    )


def _fit(model: Any) -> Any:
    """The fitted model by a search without gradients, which mislead where a variance is zero."""
    try:
        return model.fit(reml=True, method=["powell"])
    except np.linalg.LinAlgError:  # so near zero that rounding makes a matrix singular; this search stops earlier
        return model.fit(reml=True, method=["nm"])


def _reason_not_to_fit(model: MixedModel, tested: list[str], table: pd.DataFrame) -> str:
    if len(tested) < 2:
        return f"a model needs two arms with at least {MINIMUM_FOR_TESTS} participants each"
    if is_constant(table["score"].to_numpy()):
        return "all answers have the same score"
    if model.trials == model.participants or model.items == 1:
        return (
            "everybody gave one answer, or all to one item, so that differences between participants or items cannot be "
            "separated from chance"
        )
    return ""


def _has_repeats(table: pd.DataFrame) -> bool:
    """Whether participants have several answers in an arm; otherwise their arm effects are confounded with noise."""
    return bool(table.groupby(["participant", "arm"]).size().max() > 1)


def _residual_df(participants: int, arms: int, *, within: bool) -> float:
    """Denominator degrees of freedom of the balanced design."""
    return float((participants - 1) * (arms - 1) if within else participants - arms)


def _fit_problems(caught: list[warnings.WarningMessage], fitted: Any, model: Any) -> list[str]:
    """What a reader must know of the fit, a sentence each."""
    problems = [] if fitted.converged else [NEVER_CONVERGED]
    parts = zip(model.exog_vc.names, fitted.vcomp, strict=True)
    problems += [f"the variance of {name} is estimated as zero" for name, part in parts if part < NEGLIGIBLE]
    # A variance of zero lies on the boundary, so a warning about the boundary adds nothing.
    if problems:
        return problems
    kinds = (ConvergenceWarning, RuntimeWarning)
    messages = {str(item.message).splitlines()[0].rstrip(".") for item in caught if issubclass(item.category, kinds)}
    near = "a variance is close to zero, where its own estimate is unsure"
    return sorted({near if "boundary" in message else f"the fit warned: {message}" for message in messages})


def _arm_effects(
    estimates: Any, covariance: Any, order: list[str], residual_df: float, unit: float = 1.0
) -> tuple[StatisticalTest, tuple[Coefficient, ...]]:
    """All arms together by Wald's F, and each against the reference by t; the first estimate is the reference's own."""
    count = len(order) - 1
    arms = slice(1, count + 1)
    values, spread = np.asarray(estimates)[arms], np.asarray(covariance)[arms, arms]
    if not np.isfinite(spread).all() or (np.diag(spread) <= 0).any():
        raise ValueError("the errors of the arms are undefined")
    wald = float(values @ np.linalg.solve(spread, values)) / count
    p = float(stats.f.sf(wald, count, residual_df))
    return replace(OVERALL, value=wald, df=(float(count), residual_df), p=p), tuple(
        _coefficient(arm, unit * float(value), unit * float(math.sqrt(variance)), residual_df)
        for arm, value, variance in zip(order[1:], values, np.diag(spread), strict=True)
    )


def _coefficient(arm: str, value: float, error: float, residual_df: float) -> Coefficient:
    half_width = float(stats.t.isf(0.025, residual_df)) * error
    p = float(2 * stats.t.sf(abs(value) / error, residual_df))
    return Coefficient(arm=arm, value=value, low=value - half_width, high=value + half_width, p=p)


def _fit_odds(table: pd.DataFrame, order: list[str]) -> OddsModel:
    """Log odds of a right answer, participants as clusters, with standard errors corrected for few clusters."""
    shares = table.groupby("arm")["score"].mean()
    if constant := [str(arm) for arm, share in shares.items() if share in (0.0, 1.0)]:
        why = f"all answers in {constant[0]} are {'right' if shares[constant[0]] else 'wrong'}, and odds are infinite"
        return OddsModel(overall=replace(OVERALL_ODDS, why=why))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = sm.GEE.from_formula(
                "score ~ C(arm_number)",
                groups="participant",
                data=table.sort_values("participant"),
                family=sm.families.Binomial(),
                cov_struct=sm.cov_struct.Exchangeable(),
            )
            fitted = model.fit(cov_type="bias_reduced")
        residual_df = float(table["participant"].nunique() - len(order))
        overall, log_odds = _arm_effects(fitted.params, fitted.cov_params(), order, residual_df)
    except FIT_ERRORS as problem:
        return OddsModel(overall=replace(OVERALL_ODDS, why=f"could not be fitted: {' '.join(str(problem).split())}"))
    ratios = tuple(
        replace(effect, value=math.exp(effect.value), low=math.exp(effect.low), high=math.exp(effect.high))
        for effect in log_odds
    )
    kinds = (item for item in caught if issubclass(item.category, RuntimeWarning))
    problems = tuple(sorted({f"the fit warned: {item.message}" for item in kinds}))
    if not fitted.converged:
        problems = (NEVER_CONVERGED, *problems)
    return OddsModel(overall=replace(overall, name=OVERALL_ODDS.name), coefficients=ratios, problems=problems)
