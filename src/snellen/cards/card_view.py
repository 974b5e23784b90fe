"""The template values of one card: facts, examples, and ten attributes with their grades, tests and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, get_args

from markupsafe import Markup, escape

from snellen.cards.card_set import CardSet
from snellen.cards.examples import Example
from snellen.cards.finding_tables import facts_of, settings_of
from snellen.cards.grades import BORROWED
from snellen.cards.people import baselines, categories, lead, studies, study_line
from snellen.cards.schema import Card, Evidence, Grade, Priority
from snellen.charts import numbers
from snellen.charts.chart import Chart
from snellen.charts.html_page import TemplateValues
from snellen.charts.scale import Scale, scale_of
from snellen.charts.strips import Estimate, strip, strip_axis
from snellen.charts.verdict_marks import DIRECTIONS, MARKS, colour_of
from snellen.plugins.citations import CITATIONS
from snellen.plugins.outside import UNSTATED
from snellen.plugins.registry import METHODS, METRICS, Test, text_of
from snellen.report.metric_blocks import bounds_of
from snellen.verdicts import MINIMUM_IMAGES, PairedDifference
from snellen.verdicts.trust import RELIABLE

NEEDS = {
    "gradients": "gradients of the model",
    "layer": "a layer that keeps the layout of the image",
    "relu": "ReLU units",
    "training-data": "images to be fitted to",
    UNSTATED: "perhaps more than the model's outputs, which it does not state",
}
"""By need of a method beyond the model's outputs, its description."""


class VerdictMark(TypedDict):
    """A verdict as shape and word."""

    mark: str
    kind: str
    """Its CSS class."""
    word: str


class GradeView(VerdictMark):
    """A grade as shape, word, number and reason."""

    number: str
    """Of two digits; empty where there is none."""
    reason: str


class GlanceGrade(GradeView):
    """A grade with the name of its attribute."""

    title: str


class Glance(TypedDict):
    """The grades of one category."""

    name: str
    grades: list[GlanceGrade]


@dataclass(frozen=True, kw_only=True)
class MetricScale:
    """What all charts of one metric share: the scale, and the means of the controls."""

    scale: Scale | None
    """None where no number is defined."""
    controls: Mapping[str, float]
    """By label of a control, its mean."""
    higher_is_better: bool
    settings: Mapping[str, Any]
    """Of the metric."""

    def strip(self, card: Card, evidence: Evidence) -> Chart | None:
        """The strip of one method; None where no number is known."""
        if self.scale is None:
            return None
        mean, interval = score_text(evidence)
        description = f"{card.method}: {evidence.verdict}, mean {mean}, {interval or 'no interval'}, {evidence.counted}"
        if self.controls:
            ticks = ", ".join(f"{name} {numbers.short(value)}" for name, value in self.controls.items())
            description += f"; {'beside' if evidence.by_people else 'controls'}: {ticks}"
        estimate = Estimate(mean=evidence.mean, low=evidence.low, high=evidence.high, colour=colour_of(evidence.verdict))
        return strip(self.scale, estimate, description=description, ticks=list(self.controls.values()))

    def axis(self) -> Chart | None:
        """The axis under the strips."""
        return strip_axis(self.scale, self.controls, higher_is_better=self.higher_is_better) if self.scale else None


def score_text(evidence: Evidence) -> tuple[str, str]:
    """The mean and its interval as text."""
    mean = numbers.short(evidence.mean) if evidence.n or evidence.undefined else "not run"
    return mean, numbers.interval(evidence.low, evidence.high, evidence.n) if evidence.n else ""


def metric_scales(card_set: CardSet) -> dict[str, MetricScale]:
    """By metric, one scale for all methods, so that cards can be compared."""
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
    anchor: str,
    scales: Mapping[str, MetricScale],
    examples: Sequence[Example] = (),
    costs: Mapping[str, float] | None = None,
) -> TemplateValues:
    """The values of the card template; `anchor` is the id of the card in the page."""
    return {
        "id": anchor,
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
        "basis": basis_of_traits(card),
        "examples": examples,
        "glance": glance(card),
        "categories": [
            {
                "name": name,
                "attributes": [
                    _attribute(card, key, full_name(name, label), question, scales)  # type: ignore[arg-type]
                    for key, (label, question) in attributes.items()
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


def is_tested(card: Card) -> bool:
    """Whether the traits of its method were tested: so for methods of Snellen, not for those of other packages."""
    return card.name in METHODS and METHODS[card.name].__module__.startswith("snellen.")


def basis_of_traits(card: Card) -> str:
    """What the traits rely on: Snellen's tests, or only the declaration of another package."""
    return f"shown by tests on {METHODS[card.name].traits.tested_on}" if is_tested(card) else "claims of its own"  # type: ignore[attr-defined]


def title(card: Card) -> str:
    """The title of the method, with its settings in this run."""
    settings = re.fullmatch(r"[^(]+\((.*)\)", card.method)
    return f"{card.prose.title} ({settings[1]})" if settings else card.prose.title


def glance(card: Card) -> list[Glance]:
    """By category, the grades of the ten attributes, and of use to people if that was studied."""
    return [
        {"name": name, "grades": [{**grade_view(card.grades[key]), "title": full_name(name, label)}  # type: ignore[index]
                                  for key, (label, _) in attributes.items()]}
        for name, attributes in categories(card.grades).items()
    ]  # fmt: skip


def full_name(category: str, label: str) -> str:
    """The name of an attribute without the context of its category: Input becomes Input sensitivity."""
    return f"{label} sensitivity" if category == "sensitivity" else label


def grade_view(grade: Grade) -> GradeView:
    """A grade as shape, word, number and reason."""
    mark = verdict(BORROWED[grade.word])
    return {
        "mark": mark["mark"],
        "kind": mark["kind"],
        "word": grade.word,
        "number": "" if math.isnan(grade.share) else f"{grade.share:.2f}",
        "reason": grade.reason,
    }


def verdict(word: str, n: int = MINIMUM_IMAGES) -> VerdictMark:
    """A verdict as shape and word; `too few yet` where `n` images are too few to count."""
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


def _attribute(card: Card, key: Priority, label: str, question: str, scales: Mapping[str, MetricScale]) -> TemplateValues:
    finding = card.findings.get(key) if key != "people" else None
    text = studies(card) if key == "people" else card.prose.sections.get(key, "")
    return {
        "title": label,
        "question": question,
        "grade": grade_view(card.grades[key]),
        "finding": {
            # The word is an order of magnitude such as 1e-1, which the sentence has too.
            "word": "" if key == "computational-efficiency" else finding.word,
            "sentence": finding.sentence, "facts": facts_of(finding), "settings": settings_of(finding),
        } if finding else None,
        "prose": paragraphs(text) if text else "",
        "tests": _tests(card, key, scales),
        "idle": _tests_not_run(key, {evidence.test for evidence in (*card.measured(key), *card.literature(key))}),
    }  # fmt: skip


def _settings(params: Mapping[str, Any]) -> str:
    """Settings as they are typed on the command line; a nested plug-in is written by its name."""
    written = []
    for name, value in params.items():
        part = isinstance(value, Mapping) and "name" in value
        inside = _settings(value.get("params") or {}) if part else ""
        text = f"{value['name']}({inside})" if inside else str(value["name"]) if part else text_of(value)
        written.append(f"{name}={text}")
    return ", ".join(written)


def _tests_not_run(key: Priority, run: set[str]) -> list[str]:
    """The saliency card's tests of this attribute that neither this run nor a known paper ran."""
    tests = {value.traits.test for value in METRICS.values() if value.traits.attribute == key}  # type: ignore[attr-defined]
    return [test for test in get_args(Test) if test in tests and test not in run]


# Tests -------------------------------------------------------------------------------------------------------------------


def _tests(card: Card, key: Priority, scales: Mapping[str, MetricScale]) -> list[TemplateValues]:
    """One row per measured metric, then one per test that only papers ran."""
    papers: dict[str, list[Evidence]] = {}
    for evidence in card.literature(key):
        papers.setdefault(evidence.test, []).append(evidence)
    rows: list[TemplateValues] = [
        _test(card, evidence, papers.get(evidence.test, ()), scales[str(evidence.metric)]) for evidence in card.measured(key)
    ]
    done = {evidence.test for evidence in card.measured(key)}
    rows += [
        {"name": test, "metric": "", "arrow": "", "direction": "", "run": False, **verdict("not counted"), "word": "not run",
         "literature": _literature(group, None)}
        for test, group in papers.items() if test not in done
    ]  # fmt: skip
    return rows


def _test(card: Card, evidence: Evidence, papers: Sequence[Evidence], metric_scale: MetricScale) -> TemplateValues:
    mean, span = score_text(evidence)
    marks = evidence.trust.marks if evidence.trust else ()
    trust = evidence.trust.weight if evidence.trust else 0.0 if evidence.source.kind == "simulated people" else 1.0
    return {
        "name": evidence.test,
        "metric": evidence.metric,
        "arrow": evidence.arrow,
        "direction": DIRECTIONS[evidence.higher_is_better],
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
        "strip": metric_scale.strip(card, evidence),
        "footer": metric_scale.axis(),
        "mean": mean,
        "interval": span,
        "n": evidence.n,
        "undefined": evidence.undefined,
        "summary": evidence.summary,
        "rule": evidence.rule,
        "settings": _settings(metric_scale.settings),
        "weight": f"{trust:.2f}",
        "counts": _counts(trust),
        "doubtful": trust < RELIABLE,
        "marks": marks,
        "flags": [mark.split(":")[0] for mark in marks],
        "pairs": [_pair(pair) for pair in evidence.against],
        "literature": _literature(papers, evidence),
    }


def _counts(weight: float) -> str:
    """How much a test counts in the grade, in words; empty if it counts 98 % or more."""
    share = round(100 * weight)
    return "" if share >= 98 else f"counts {share} %" if share else "does not count"


def _pair(pair: PairedDifference) -> TemplateValues:
    return {
        "control": pair.control,
        "mean": numbers.signed(pair.mean),
        "interval": numbers.interval(pair.low, pair.high, pair.n, signs=True),
        "margin": f"±{numbers.short(pair.margin)}",
        "n": pair.n,
    }


def _literature(papers: Sequence[Evidence], measured: Evidence | None) -> TemplateValues | None:
    """The verdicts of papers in this test, in a word, and whether one contradicts the verdict here."""
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
