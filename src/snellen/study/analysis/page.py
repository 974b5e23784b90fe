"""The analysis as one HTML page that opens offline, and as a file for programs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from snellen.charts import numbers
from snellen.charts.page_frame import render, write_page
from snellen.charts.scale import Scale
from snellen.charts.verdict_marks import MARKS
from snellen.errors import SnellenError
from snellen.files.atomic import write_whole
from snellen.plugins.citations import CITATIONS
from snellen.study.analysis import pictures, words
from snellen.study.analysis.calibration import Measure
from snellen.study.analysis.comparisons import Contrast
from snellen.study.analysis.distributions import Distribution
from snellen.study.analysis.equivalence import Equivalence
from snellen.study.analysis.mixed import NOTHING, Coefficient
from snellen.study.analysis.record import Analysis, Reading

SIMULATED = "SIMULATED: nobody took part"

CITED = (
    "kares2025", "hoffman2018", "welch1951", "delacre2019", "greenhouse1959", "holm1979", "hedges1981", "steiger2004",
    "baayen2008", "mancl2001", "schuirmann1987", "brier1950", "feldt1965",
)  # fmt: skip

_PARTS = {
    "participant": "between participants",
    "item": "between items",
    "participant × arm": "in how arms act on participants",
    "rest": "the rest",
}
"""What each part of the variance is, in words."""

_EQUAL = {"equal": "pass", "different": "fail", "different but close": "pass", "neither": "inconclusive"}
"""Which verdict's shape and colour a finding about equality borrows."""


def write_analysis(analysis: Analysis, folder: str | Path) -> list[Path]:
    """Writes `analysis.html` and `analysis.json`."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        values = json.dumps(analysis.as_values(), indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(place / "analysis.json", values.encode())
    except OSError as problem:
        raise SnellenError(f"cannot write the analysis to '{place}': {problem.strerror}; choose another place") from None
    return [write_page(page(analysis), place / "analysis.html"), place / "analysis.json"]


def page(analysis: Analysis) -> str:
    """The whole page as text."""
    return render("study/report/analysis.html", ["charts/page.css", "study/report/analysis.css"], _facts(analysis))


def _facts(analysis: Analysis) -> dict[str, Any]:
    return {
        "record": {"snellen": analysis.versions["snellen"]},
        "a": analysis,
        "simulated": SIMULATED if analysis.simulated else "",
        "caption": f" {SIMULATED}." if analysis.simulated else "",
        "headline": words.headline(analysis),
        "findings": words.findings(analysis),
        "which_p": words.which_p(analysis),
        "total": analysis.flow.total,
        "outcomes": [_outcome(analysis, one) for one in analysis.readings],
        "mixed": [_mixed(one) for one in analysis.readings if one.mixed],
        "equalities": [_equality(one) for one in analysis.readings if one.equivalences],
        "calibration": _calibration(analysis),
        "bets": _bets(analysis),
        "why_decision": words.WHY_WELCH if analysis.design == "between" else words.WHY_REPEATED,
        "why_linear": words.WHY_LINEAR,
        "agreement": analysis.agreement,
        "protocol": json.dumps(analysis.protocol, indent=1, ensure_ascii=False),
        "citations": [CITATIONS[key] for key in CITED],
        "number": _number,
        "measure": _measure,
        "signed": _signed,
        "bare": words.bare,
        "statistic": words.statistic,
        "name_of": words.name_of,
        "span": numbers.span,
    }


# Outcomes ----------------------------------------------------------------------------------------------------------------


def _outcome(analysis: Analysis, one: Reading) -> dict[str, Any]:
    facts, comparison = one.facts, one.comparison
    every = [value for some in one.distributions for value in some.values]
    # Intervals of few people reach far beyond anything; they are drawn as far as the outcome can go.
    ends = [float(np.clip(end, *facts.bounds)) for some in one.distributions for end in (some.low, some.high)]
    field, ticks = pictures.field_of([*every, *(end for end in ends if math.isfinite(end))], facts.bounds)
    scale = pictures.contrast_scale(comparison.contrasts)
    better = {"high": "high is better", "low": "low is better", "neither": "neither end is better"}[facts.better]
    return {
        "facts": facts,
        "id": f"outcome-{facts.name}",
        "better": better,
        "rows": [_row(some, one, field) for some in one.distributions],
        "axis": pictures.axis(field, ticks, facts.better, facts.title.lower()) if every else "",
        "empty": not every,
        "found": one.found,
        "kind": {"differ": "pass", "no difference found": "inconclusive"}.get(one.found, "not-counted"),
        "mark": {"differ": MARKS["pass"], "no difference found": MARKS["inconclusive"]}.get(one.found, MARKS["not counted"]),
        "decision": comparison.decision,
        "every": [comparison.decision, *comparison.beside, *comparison.checks],
        "factors": comparison.factors,
        "left_out": [f"{words.name_of(arm)}: {why}" for arm, why in comparison.left_out.items()],
        "dropped": comparison.dropped,
        "size": comparison.size,
        "holm": one.holm,
        "again": one.again,
        "contrasts": [_contrast(pair, scale, one.different(pair, analysis.alpha)) for pair in comparison.contrasts],
        "contrast_axis": _difference_axis(scale) if scale else "",
        "quantiles": pictures.quantile_plot(
            comparison.quantiles, f"{facts.title}: {len(comparison.quantiles)} residuals against a normal distribution"
        )
        if comparison.quantiles
        else "",
    }


def _row(some: Distribution, one: Reading, field: Scale) -> dict[str, Any]:
    interval = numbers.interval(some.low, some.high, some.n) if some.n else ""
    about = (
        f"{words.name_of(some.arm)}: {numbers.count(some.n, 'participant')}, mean {numbers.short(some.mean)} {interval}, "
        f"standard deviation {numbers.short(some.deviation)}, median {numbers.short(some.median)}"
    )
    return {
        "arm": some.arm,
        "n": some.n,
        "svg": pictures.swarm(some, field, about) if some.n else "",
        "mean": numbers.short(some.mean) if some.n else "nobody",
        "interval": interval,
        "deviation": _number(some.deviation),
        "median": _number(some.median),
        "quartiles": f"{_number(some.quartiles[0])} – {_number(some.quartiles[1])}" if some.n else "–",
    }


def _contrast(pair: Contrast, scale: Scale | None, shown: bool) -> dict[str, Any]:
    return {
        "pair": pair,
        "name": f"{pair.first} − {words.name_of(pair.second)}",
        "shown": shown,
        "word": "not tested" if pair.why else "different" if shown else "not shown",
        "svg": pictures.contrast_strip(pair, scale, shown) if scale and not pair.why else "",
        "value": numbers.gain(pair.difference),
        "interval": numbers.interval(pair.low, pair.high, min(pair.n), signs=True) if not pair.why else pair.why,
        "g": f"{numbers.gain(pair.g)} {numbers.interval(pair.g_low, pair.g_high, min(pair.n), signs=True)}"
        if not math.isnan(pair.g)
        else "–",
    }


def _difference_axis(scale: Scale) -> Any:
    """Under differences: their ends and zero."""
    _, ticks = pictures.field_of([scale.low, scale.high], (-math.inf, math.inf))
    return pictures.ruler(scale, [tick for tick in ticks if scale.low <= tick <= scale.high])


# Mixed models and equality -----------------------------------------------------------------------------------------------


def _mixed(one: Reading) -> dict[str, Any]:
    mixed = one.mixed
    assert mixed is not None
    return {
        "facts": one.facts,
        "model": mixed,
        "reference": words.name_of(mixed.reference),
        "overall": words.statistic(mixed.overall),
        "coefficients": [_coefficient(some) for some in mixed.coefficients],
        "parts": [
            f"{100 * mixed.shares[name]:.0f} % {_PARTS[name]} (SD {_deviation(mixed.variances[name], mixed.shares[name])})"
            for name in _PARTS
            if mixed.shares and mixed.variances and name in mixed.shares
        ],
        "odds": mixed.odds and words.statistic(mixed.odds.overall),
        "ratios": [_ratio(some) for some in mixed.odds.coefficients] if mixed.odds else [],
        "problems": [*mixed.problems, *(mixed.odds.problems if mixed.odds else ())],
    }


def _deviation(part: float, share: float) -> str:
    return numbers.short(math.sqrt(part)) if share > NOTHING else "0"


def _coefficient(some: Coefficient) -> dict[str, str]:
    ends = numbers.interval(some.low, some.high, 0, signs=True)
    return {"arm": some.arm, "value": f"{numbers.gain(some.value)} {ends}", "p": words.bare(some.p)}


def _ratio(some: Coefficient) -> dict[str, str]:
    ends = numbers.interval(some.low, some.high, 0)
    return {"arm": some.arm, "value": f"× {numbers.short(some.value)} {ends}", "p": words.bare(some.p)}


def _equality(one: Reading) -> dict[str, Any]:
    scale = pictures.equality_scale(one.equivalences)
    rows = []
    for some in one.equivalences:
        kind = _EQUAL.get(some.found, "not counted")
        told = words.equal_words(some)
        svg = pictures.equality_strip(some, scale, kind, told) if scale and some.found != "not tested" else ""
        rows.append({
            "name": f"{some.first} − {words.name_of(some.second)}",
            "svg": svg,
            "mark": MARKS[kind],
            "kind": kind.replace(" ", "-"),
            "word": _short(some),
            "told": told,
            "value": numbers.gain(some.difference),
            "interval": numbers.interval(some.low, some.high, 0, signs=True),
            "p": words.bare(some.p),
            "holm": words.bare(some.holm),
        })  # fmt: skip
    return {"facts": one.facts, "rows": rows, "axis": _difference_axis(scale) if scale else ""}


def _short(some: Equivalence) -> str:
    return {"different but close": "close"}.get(some.found, some.found)


# Calibration -------------------------------------------------------------------------------------------------------------


def _calibration(analysis: Analysis) -> list[dict[str, Any]]:
    found = []
    for one in analysis.calibrations:
        over = numbers.gain(100 * one.over.mean)
        about = f"{words.name_of(one.arm)}: share right by certainty; certainty less share right {over} percentage points"
        plot = pictures.calibration_plot(one.bins, (50.0, 100.0), ("certainty, per cent", "share right"), about)
        found.append({"one": one, "svg": plot, "state": _confidence(one.over)})
    return found


def _confidence(over: Measure) -> str:
    """Over- or underconfident where the interval says so."""
    if not math.isfinite(over.low):
        return "too few to say"
    if over.low > 0:
        return "overconfident"
    return "underconfident" if over.high < 0 else "neither is shown"


def _bets(analysis: Analysis) -> list[dict[str, Any]]:
    found = []
    for one in analysis.bets:
        about = f"{words.name_of(one.arm)}: share right by stake; {numbers.gain(one.points.mean)} points per bet"
        plot = pictures.calibration_plot(one.bins, (0.0, 10.0), ("points staked", "share right"), about)
        found.append({"one": one, "svg": plot})
    return found


# Numbers -----------------------------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    return "–" if math.isnan(value) else numbers.short(value)


def _measure(one: Measure) -> str:
    return f"{_number(one.mean)} {numbers.interval(one.low, one.high, one.n)}" if one.n else "–"


def _signed(one: Measure) -> str:
    return f"{numbers.gain(one.mean)} {numbers.interval(one.low, one.high, one.n, signs=True)}" if one.n else "–"
