"""The analysis as one HTML page that opens offline, and as a JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from snellen.charts import numbers
from snellen.charts.chart import Chart
from snellen.charts.html_page import TemplateValues, render_page, write_page
from snellen.charts.scale import Scale, round_scale
from snellen.charts.verdict_marks import MARKS
from snellen.errors import SnellenError
from snellen.files.atomic import write_whole
from snellen.plugins.citations import CITATIONS
from snellen.study.analysis import charts, sentences
from snellen.study.analysis.analyse import Analysis, OutcomeAnalysis
from snellen.study.analysis.calibration import BettingResults, Calibration, ParticipantMean
from snellen.study.analysis.comparisons import ArmDifference
from snellen.study.analysis.distributions import Distribution
from snellen.study.analysis.equivalence import Equivalence
from snellen.study.analysis.mixed_model import NEGLIGIBLE, Coefficient, MixedModel
from snellen.study.tasks import find_task

T = TypeVar("T", Calibration, BettingResults)

SIMULATED = "SIMULATED: nobody took part"

CITED = (
    "kares2025", "hoffman2018", "welch1951", "delacre2019", "greenhouse1959", "holm1979", "hedges1981", "steiger2004",
    "baayen2008", "mancl2001", "schuirmann1987", "brier1950", "feldt1965",
)  # fmt: skip

_VARIANCES = {
    "participant": "between participants",
    "item": "between items",
    "participant × arm": "in the effect of arms on participants",
    "rest": "the rest",
}
"""What each part of the variance is, in words."""

_BETTER = {"high": "high is better", "low": "low is better", "neither": "neither end is better"}

_OUTCOME_VERDICTS = {"differ": "pass", "no difference found": "inconclusive"}
"""The verdict whose shape and colour a conclusion about an outcome has."""

_EQUALITY_VERDICTS = {"equal": "pass", "different": "fail", "different but close": "pass", "neither": "inconclusive"}
"""The verdict whose shape and colour a conclusion about equality has."""


def write_analysis(analysis: Analysis, folder: str | Path) -> list[Path]:
    """Writes `analysis.html` and `analysis.json` into a folder, and returns their paths."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        values = json.dumps(analysis.as_values(), indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(folder / "analysis.json", values.encode())
    except OSError as problem:
        raise SnellenError(f"cannot write the analysis to '{folder}': {problem.strerror}; choose another folder") from None
    return [write_page(page(analysis), folder / "analysis.html"), folder / "analysis.json"]


def page(analysis: Analysis) -> str:
    """The whole page as text."""
    return render_page(
        "study/report/analysis.html", ["charts/page.css", "study/report/analysis.css"], _template_values(analysis)
    )


def _template_values(analysis: Analysis) -> TemplateValues:
    setup = analysis.setup
    return {
        "record": {"snellen": analysis.versions["snellen"]},
        "analysis": analysis,
        "setup": setup,
        "simulated": SIMULATED if setup.simulated else "",
        "headline": sentences.headline(analysis),
        "findings": sentences.findings(analysis),
        "which_p": sentences.which_p(analysis),
        "total": analysis.flow.total,
        "outcomes": [_outcome(outcome, setup.alpha) for outcome in analysis.outcomes],
        "mixed_models": [_mixed_model(outcome, outcome.mixed) for outcome in analysis.outcomes if outcome.mixed],
        "equalities": [_equality(outcome) for outcome in analysis.outcomes if outcome.equivalences],
        "calibrations": _calibrations(analysis.calibrations),
        "bets": _bets(analysis.bets),
        "why_decision": sentences.WHY_WELCH if setup.design == "between" else sentences.WHY_REPEATED,
        "why_linear": sentences.WHY_LINEAR,
        "agreement": analysis.agreement,
        "protocol": json.dumps(setup.protocol, indent=1, ensure_ascii=False),
        "citations": [CITATIONS[key] for key in CITED],
        "number": _number,
        "mean": _mean,
        "signed_mean": _signed_mean,
        "confidence": _confidence,
        "p_cell": sentences.p_cell,
        "statistic": sentences.statistic,
        "arm_name": sentences.arm_name,
        "duration": numbers.duration,
    }


# Outcomes ----------------------------------------------------------------------------------------------------------------


def _outcome(outcome: OutcomeAnalysis, alpha: float) -> TemplateValues:
    facts, comparison = outcome.facts, outcome.comparison
    scores = [score for arm in outcome.distributions for score in arm.values]
    # Intervals of few participants are wide; they are drawn within the bounds of the outcome.
    ends = [float(np.clip(end, *facts.bounds)) for arm in outcome.distributions for end in (arm.low, arm.high)]
    scale, ticks = round_scale([*scores, *(end for end in ends if math.isfinite(end))], facts.bounds)
    contrast_scale = charts.contrast_scale(comparison.contrasts)
    kind = _OUTCOME_VERDICTS.get(outcome.conclusion, "not counted")
    about_residuals = f"{facts.title}: {len(comparison.quantiles)} residuals against a normal distribution"
    return {
        "facts": facts,
        "id": f"outcome-{facts.name}",
        "better": _BETTER[facts.better],
        "arms": [_arm(arm, scale) for arm in outcome.distributions],
        "axis": charts.axis(scale, ticks, facts.better, facts.title.lower()) if scores else "",
        "empty": not scores,
        "conclusion": outcome.conclusion,
        "kind": kind.replace(" ", "-"),
        "mark": MARKS[kind],
        "decision": comparison.decision,
        "tests": [comparison.decision, *comparison.alternatives, *comparison.checks],
        "factors": comparison.factors,
        "left_out": [f"{sentences.arm_name(arm)}: {why}" for arm, why in comparison.left_out.items()],
        "dropped": comparison.dropped,
        "effect_size": comparison.effect_size,
        "p_holm": outcome.p_holm,
        "without_exclusions": outcome.without_exclusions,
        "contrasts": [
            _contrast(pair, contrast_scale, different=outcome.different(pair, alpha)) for pair in comparison.contrasts
        ],
        "contrast_axis": _difference_axis(contrast_scale) if contrast_scale else "",
        "quantiles": charts.quantile_plot(comparison.quantiles, about_residuals) if comparison.quantiles else "",
    }


def _arm(arm: Distribution, scale: Scale) -> TemplateValues:
    interval = numbers.interval(arm.low, arm.high, arm.n) if arm.n else ""
    about = (
        f"{sentences.arm_name(arm.arm)}: {numbers.count(arm.n, 'participant')}, mean {numbers.short(arm.mean)} {interval}, "
        f"standard deviation {numbers.short(arm.deviation)}, median {numbers.short(arm.median)}"
    )
    return {
        "arm": arm.arm,
        "n": arm.n,
        "chart": charts.swarm(arm, scale, about) if arm.n else "",
        "mean": numbers.short(arm.mean) if arm.n else "nobody",
        "interval": interval,
        "deviation": _number(arm.deviation),
        "median": _number(arm.median),
        "quartiles": f"{_number(arm.quartiles[0])} – {_number(arm.quartiles[1])}" if arm.n else "–",
    }


def _contrast(pair: ArmDifference, scale: Scale | None, *, different: bool) -> TemplateValues:
    return {
        "pair": pair,
        "name": f"{pair.first} − {sentences.arm_name(pair.second)}",
        "different": different,
        "word": "not tested" if pair.why else "different" if different else "not shown",
        "chart": charts.contrast_strip(pair, scale, different=different) if scale and not pair.why else "",
        "value": numbers.signed(pair.difference),
        "interval": numbers.interval(pair.low, pair.high, min(pair.n), signs=True) if not pair.why else pair.why,
        "g": f"{numbers.signed(pair.g)} {numbers.interval(pair.g_low, pair.g_high, min(pair.n), signs=True)}"
        if not math.isnan(pair.g)
        else "–",
    }


def _difference_axis(scale: Scale) -> Chart:
    """The axis under differences."""
    _, ticks = round_scale([scale.low, scale.high], (-math.inf, math.inf))
    return charts.difference_axis(scale, [tick for tick in ticks if scale.low <= tick <= scale.high])


# Mixed models and equality -----------------------------------------------------------------------------------------------


def _mixed_model(outcome: OutcomeAnalysis, model: MixedModel) -> TemplateValues:
    variances, shares, odds = model.variances or {}, model.shares or {}, model.odds
    return {
        "facts": outcome.facts,
        "model": model,
        "reference": sentences.arm_name(model.reference),
        "overall": sentences.statistic(model.overall),
        "coefficients": [_coefficient(coefficient) for coefficient in model.coefficients],
        "variances": [
            f"{100 * shares[name]:.0f} % {words} (SD {_deviation(variances[name], shares[name])})"
            for name, words in _VARIANCES.items()
            if name in shares
        ],
        "odds": odds and sentences.statistic(odds.overall),
        "ratios": [_odds_ratio(coefficient) for coefficient in odds.coefficients] if odds else [],
        "problems": [*model.problems, *(odds.problems if odds else ())],
    }


def _deviation(variance: float, share: float) -> str:
    return numbers.short(math.sqrt(variance)) if share > NEGLIGIBLE else "0"


def _coefficient(coefficient: Coefficient) -> dict[str, str]:
    interval = numbers.interval(coefficient.low, coefficient.high, 0, signs=True)
    value = f"{numbers.signed(coefficient.value)} {interval}"
    return {"arm": coefficient.arm, "value": value, "p": sentences.p_cell(coefficient.p)}


def _odds_ratio(coefficient: Coefficient) -> dict[str, str]:
    interval = numbers.interval(coefficient.low, coefficient.high, 0)
    value = f"× {numbers.short(coefficient.value)} {interval}"
    return {"arm": coefficient.arm, "value": value, "p": sentences.p_cell(coefficient.p)}


def _equality(outcome: OutcomeAnalysis) -> TemplateValues:
    scale = charts.equality_scale(outcome.equivalences)
    pairs = [_equal_pair(pair, scale) for pair in outcome.equivalences]
    return {"facts": outcome.facts, "pairs": pairs, "axis": _difference_axis(scale) if scale else ""}


def _equal_pair(pair: Equivalence, scale: Scale | None) -> TemplateValues:
    kind = _EQUALITY_VERDICTS.get(pair.conclusion, "not counted")
    conclusion = sentences.equivalence(pair)
    tested = pair.conclusion != "not tested"
    return {
        "name": f"{pair.first} − {sentences.arm_name(pair.second)}",
        "chart": charts.equality_strip(pair, scale, kind, conclusion) if scale and tested else "",
        "mark": MARKS[kind],
        "kind": kind.replace(" ", "-"),
        "word": {"different but close": "close"}.get(pair.conclusion, pair.conclusion),
        "conclusion": conclusion,
        "value": numbers.signed(pair.difference),
        "interval": numbers.interval(pair.low, pair.high, 0, signs=True),
        "p": sentences.p_cell(pair.p),
        "p_holm": sentences.p_cell(pair.p_holm),
    }


# Calibration -------------------------------------------------------------------------------------------------------------


def _calibrations(rows: Sequence[Calibration]) -> list[TemplateValues]:
    """The tasks with certainties, each with its arms."""
    return _by_task(rows, _calibration_about, ("certainty, per cent", "share right"))


def _bets(rows: Sequence[BettingResults]) -> list[TemplateValues]:
    """The tasks with stakes, each with its arms."""
    return _by_task(rows, _bets_about, ("points staked", "share right"))


def _by_task(rows: Sequence[T], about: Callable[[str, T], str], axes: tuple[str, str]) -> list[TemplateValues]:
    tasks: dict[str, list[TemplateValues]] = {}
    for row in rows:
        assurance = find_task(row.task).form.assurance
        assert assurance is not None
        name = sentences.arm_name(row.arm)
        plot = charts.calibration_plot(row.bins, assurance, axes, about(name, row))
        tasks.setdefault(row.task, []).append({"name": name, "results": row, "chart": plot})
    return [{"title": find_task(task).traits.title, "arms": arms} for task, arms in tasks.items()]


def _calibration_about(name: str, row: Calibration) -> str:
    over = numbers.signed(100 * row.overconfidence.mean)
    return f"{name}: share right by certainty; certainty less share right {over} percentage points"


def _bets_about(name: str, row: BettingResults) -> str:
    return f"{name}: share right by stake; {numbers.signed(row.points.mean)} points per bet"


def _confidence(overconfidence: ParticipantMean) -> str:
    if not math.isfinite(overconfidence.low):
        return "too few to say"
    if overconfidence.low > 0:
        return "overconfident"
    return "underconfident" if overconfidence.high < 0 else "neither is shown"


# Numbers -----------------------------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    return "–" if math.isnan(value) else numbers.short(value)


def _mean(value: ParticipantMean) -> str:
    return f"{_number(value.mean)} {numbers.interval(value.low, value.high, value.n)}" if value.n else "–"


def _signed_mean(value: ParticipantMean) -> str:
    return f"{numbers.signed(value.mean)} {numbers.interval(value.low, value.high, value.n, signs=True)}" if value.n else "–"
