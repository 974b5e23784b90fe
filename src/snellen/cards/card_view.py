"""One card as its page shows it: facts, examples, and ten attributes with their grades, tests and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from markupsafe import Markup, escape

from snellen.cards.card_set import CardSet
from snellen.cards.examples import Example
from snellen.cards.finding_tables import facts_of, settings_of
from snellen.cards.grades import BORROWED
from snellen.cards.people import baselines, categories, lead, studies, study_line
from snellen.cards.schema import Card, Evidence, Grade, Priority
from snellen.charts import numbers
from snellen.charts.chart import Chart
from snellen.charts.scale import Scale, scale_of
from snellen.charts.strips import Estimate, strip, strip_axis
from snellen.charts.verdict_marks import MARKS, colour_of
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS, METRICS, Test, text_of
from snellen.report.page import bounds_of
from snellen.verdicts import MINIMUM_IMAGES, PairedDifference
from snellen.verdicts.trust import RELIABLE

NEEDS = {
    "gradients": "gradients of the model",
    "layer": "a layer that keeps the layout of the image",
    "relu": "ReLU units",
    "training-data": "images to learn from",
}
"""What a method asks for beyond the model's answers, in words."""


@dataclass(frozen=True, kw_only=True)
class MetricScale:
    """What a metric's strips have in common on every card: the scale, and where the controls stand."""

    scale: Scale | None
    controls: Mapping[str, float]
    higher_is_better: bool
    settings: Mapping[str, Any]


def metric_scales(card_set: CardSet) -> dict[str, MetricScale]:
    """By metric; one scale for all methods, so that cards can be laid side by side."""
    spec = card_set.run.record.spec
    scores = card_set.run.scores()
    controls = [method.label for method in spec.methods if method.control]
    means = scores[scores["method"].isin(controls)].groupby(["metric", "method"])["value"].mean().to_dict()
    scales = {}
    for metric in spec.metrics:
        label = metric.label
        ticks = {control: float(means[(label, control)]) for control in controls if (label, control) in means}
        scale = scale_of([*_values(card_set, label), *ticks.values()], bounds_of(metric))
        scales[label] = MetricScale(
            scale=scale, controls=ticks, higher_is_better=metric.higher_is_better, settings=metric.params
        )
    higher = {
        evidence.metric: bool(evidence.higher_is_better)
        for card in card_set.cards
        for evidence in card.evidence
        if evidence.by_people
    }
    for label, ticks in baselines(card_set.run).items():
        scale = scale_of([*_values(card_set, label), *ticks.values()])
        scales[label] = MetricScale(scale=scale, controls=ticks, higher_is_better=higher.get(label, True), settings={})
    return scales


def _values(card_set: CardSet, label: str) -> list[float]:
    evidences = [evidence for card in card_set.cards for evidence in card.evidence if evidence.metric == label]
    return [value for evidence in evidences for value in (evidence.mean, evidence.low, evidence.high)]


def card_view(
    card: Card,
    place: str,
    sticks: Mapping[str, MetricScale],
    examples: Sequence[Example] = (),
    costs: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """What the template of a card asks for; `place` is its address in the page."""
    return {
        "id": place,
        "label": card.method,
        "title": title(card),
        "control": card.control,
        "prose": card.prose,
        "summary": paragraphs(card.prose.summary),
        "methodology": paragraphs(card.prose.methodology),
        "source": card.source,
        "cost": _cost(card, costs),
        "needs": [NEEDS.get(need, need) for need in card.needs],
        "claims": card.claims,
        "basis": basis(card),
        "examples": examples,
        "glance": glance(card),
        "categories": [
            {
                "name": name,
                "attributes": [
                    _attribute(card, key, full(name, named), asks, sticks)  # type: ignore[arg-type]
                    for key, (named, asks) in attributes.items()
                ],
            }
            for name, attributes in categories(card.grades).items()
        ],
        "disagreements": [
            {
                "test": measured.test,
                "verdict": verdict(measured.verdict),
                "other": verdict(other.verdict),
                "reason": measured.reason,
                "note": other.reason,
                "paper": other.source.name,
                "data": other.source.data,
            }
            for measured, other in card.disagreements
        ],
        "references": [CITATIONS.get(key, key) for key in card.prose.references],
    }


def proven(card: Card) -> bool:
    """Whether its claims were tested: those of methods that come with Snellen were, those of other packages are claims."""
    return card.name in METHODS and METHODS[card.name].__module__.startswith("snellen.")


def basis(card: Card) -> str:
    """What stands behind its claims: the tests that tried to disprove them, or the word of another package."""
    return f"shown by tests on {METHODS[card.name].traits.tested_on}" if proven(card) else "claims of its own"  # type: ignore[attr-defined]


def title(card: Card) -> str:
    """The method's name for people, with the settings that this run gave it."""
    settings = re.fullmatch(r"[^(]+\((.*)\)", card.method)
    return f"{card.prose.title} ({settings[1]})" if settings else card.prose.title


def glance(card: Card) -> list[dict[str, Any]]:
    """The grades of all ten attributes, and of use to people where that was studied, under their categories."""
    return [
        {"name": name, "grades": [{"title": full(name, named), **shown(card.grades[key])}  # type: ignore[index]
                                  for key, (named, _) in attributes.items()]}
        for name, attributes in categories(card.grades).items()
    ]  # fmt: skip


def full(category: str, named: str) -> str:
    """An attribute's name where its category's does not stand above it: Input alone says nothing, Input sensitivity does."""
    return f"{named} sensitivity" if category == "sensitivity" else named


def shown(grade: Grade) -> dict[str, Any]:
    """A grade as shape, word and number."""
    return {
        **verdict(BORROWED[grade.word]),
        "word": grade.word,
        "number": "" if math.isnan(grade.share) else f"{grade.share:.2f}",
        "reason": grade.reason,
    }


def verdict(word: str, n: int = MINIMUM_IMAGES) -> dict[str, str]:
    """A verdict as shape and word; from too few images, these words instead of one that sounds like a fault."""
    text = "too few yet" if word == "not counted" and 0 < n < MINIMUM_IMAGES else word
    return {"mark": MARKS[word], "kind": word.replace(" ", "-"), "word": text}


def paragraphs(text: str) -> Markup:
    """Prose as HTML: paragraphs, and code between backticks."""
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
    return Markup("").join(
        Markup("<p>{}</p>").format(Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(part))))) for part in parts
    )


def _cost(card: Card, costs: Mapping[str, float] | None) -> str:
    finding = card.findings.get("computational-efficiency")
    values: Mapping[str, Any] = finding.numbers if finding else (costs or {})
    if not values or any(not math.isfinite(float(values.get(key, math.nan))) for key in ("forward", "backward", "seconds")):
        return ""
    passes = [f"{numbers.amount(float(values[way]))} {way}" for way in ("forward", "backward") if values[way]]
    work = f"{' + '.join(passes)} pass{'' if values['forward'] + values['backward'] == 1 else 'es'}" if passes else "no pass"
    return f"{work} of the model, {numbers.duration(float(values['seconds']))} a map"


# Attributes --------------------------------------------------------------------------------------------------------------


def _attribute(card: Card, key: Priority, named: str, asks: str, sticks: Mapping[str, MetricScale]) -> dict[str, Any]:
    finding = card.findings.get(key) if key != "people" else None
    text = studies(card) if key == "people" else card.prose.sections.get(key, "")
    tests = _tests(card, key, sticks)
    return {
        "title": named,
        "question": asks,
        "grade": shown(card.grades[key]),
        "finding": {
            # An order of magnitude as in the paper, 1e-1, is in the sentence; as a word it says nothing to most readers.
            "word": "" if key == "computational-efficiency" else finding.word,
            "sentence": finding.sentence, "facts": facts_of(finding), "settings": settings_of(finding),
        } if finding else None,
        "prose": paragraphs(text) if text else "",
        "tests": tests,
        "idle": _idle(key, {test["name"] for test in tests}),
    }  # fmt: skip


def _settings(params: Mapping[str, Any]) -> str:
    """Settings as one would type them; a part with settings of its own is written by its name."""
    written = []
    for name, value in params.items():
        part = isinstance(value, Mapping) and "name" in value
        inside = _settings(value.get("params") or {}) if part else ""
        text = f"{value['name']}({inside})" if inside else str(value["name"]) if part else text_of(value)
        written.append(f"{name}={text}")
    return ", ".join(written)


def _idle(key: Priority, run: set[str]) -> list[str]:
    """Tests of the saliency card under this attribute of which nothing is known here."""
    tests = {value.traits.test for value in METRICS.values() if value.traits.attribute == key}  # type: ignore[attr-defined]
    return [get_arg for get_arg in get_args(Test) if get_arg in tests and get_arg not in run]


# Tests -------------------------------------------------------------------------------------------------------------------


def _tests(card: Card, key: Priority, sticks: Mapping[str, MetricScale]) -> list[dict[str, Any]]:
    """One row per measured metric, then one per test that only papers ran."""
    papers: dict[str, list[Evidence]] = {}
    for evidence in card.literature(key):
        papers.setdefault(evidence.test, []).append(evidence)
    rows = [
        _test(card, evidence, papers.get(evidence.test, ()), sticks[str(evidence.metric)]) for evidence in card.measured(key)
    ]
    done = {evidence.test for evidence in card.measured(key)}
    rows += [
        {"name": test, "metric": "", "arrow": "", "direction": "", "run": False, **verdict("not counted"), "word": "not run",
         "literature": _literature(group, None)}
        for test, group in papers.items() if test not in done
    ]  # fmt: skip
    return rows


def _test(card: Card, evidence: Evidence, papers: Sequence[Evidence], stick: MetricScale) -> dict[str, Any]:
    span = numbers.interval(evidence.low, evidence.high, evidence.n) if evidence.n else ""
    mean = numbers.short(evidence.mean) if evidence.n or evidence.undefined else "not run"
    words = f"{card.method}: mean {mean}, {span or 'no interval'}, {evidence.counted}"
    if stick.controls:
        words += f"; {'beside' if evidence.by_people else 'controls'}: " + ", ".join(
            f"{name} {numbers.short(value)}" for name, value in stick.controls.items()
        )
    chart: Chart | None = None
    footer: Chart | None = None
    if stick.scale is not None:
        estimate = Estimate(mean=evidence.mean, low=evidence.low, high=evidence.high, colour=colour_of(evidence.verdict))
        chart = strip(stick.scale, estimate, description=words, ticks=list(stick.controls.values()))
        footer = strip_axis(stick.scale, stick.controls, higher_is_better=stick.higher_is_better)
    marks = evidence.trust.marks if evidence.trust else ()
    trust = evidence.trust.weight if evidence.trust else 0.0 if evidence.source.kind == "simulated people" else 1.0
    return {
        "name": evidence.test,
        "metric": evidence.metric,
        "arrow": evidence.arrow,
        "direction": {"↑": "higher is better", "↓": "lower is better"}.get(evidence.arrow, ""),
        "run": True,
        **verdict(evidence.verdict, MINIMUM_IMAGES if evidence.by_people else evidence.n),
        "reason": evidence.reason,
        "study": study_line(evidence) if evidence.by_people else "",
        "seen": ""
        if not evidence.by_people
        else evidence.source.data
        if evidence.attribute == "people"
        else study_line(evidence),
        "lead": lead(evidence) if evidence.by_people else "",
        "noun": evidence.noun,
        "advice": evidence.advice,
        "note": evidence.note,
        "strip": chart,
        "footer": footer,
        "mean": mean,
        "interval": span,
        "n": evidence.n,
        "undefined": evidence.undefined,
        "summary": evidence.summary,
        "rule": evidence.rule,
        "settings": _settings(stick.settings),
        "weight": f"{trust:.2f}",
        "counts": _counts(trust),
        "doubtful": trust < RELIABLE,
        "marks": marks,
        "flags": [mark.split(":")[0] for mark in marks],
        "pairs": [_pair(pair) for pair in evidence.against],
        "literature": _literature(papers, evidence),
    }


def _counts(weight: float) -> str:
    """How much a test counts in the grade, in words; nothing where it counts in full, or almost."""
    share = round(100 * weight)
    return "" if share >= 98 else f"counts {share} %" if share else "does not count"


def _pair(pair: PairedDifference) -> dict[str, Any]:
    return {
        "control": pair.control,
        "mean": numbers.signed(pair.mean),
        "interval": numbers.interval(pair.low, pair.high, pair.n, signs=True),
        "margin": f"±{numbers.short(pair.margin)}",
        "n": pair.n,
    }


def _literature(papers: Sequence[Evidence], measured: Evidence | None) -> dict[str, Any] | None:
    """What papers found in this test, in a word, and whether that is the opposite of what was found here."""
    if not papers:
        return None
    words = sorted({paper.verdict for paper in papers})
    against = measured is not None and any({measured.verdict, paper.verdict} == {"pass", "fail"} for paper in papers)
    return {
        "word": words[0] if len(words) == 1 else "mixed",
        "count": numbers.count(len(papers), "paper"),
        "against": against,
        "notes": [
            {**verdict(paper.verdict), "paper": paper.source.name, "data": paper.source.data, "note": paper.reason}
            for paper in papers
        ],
    }
