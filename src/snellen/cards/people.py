"""Results of studies on cards: what people could do who saw a method's maps.

A study that was joined to the run (`RUN/people/`) gives a method one piece of evidence per task. What people can do
with a map is no attribute of the saliency card; it is the extra attribute `people`, which is graded by the same formula and
can be a priority in a recommendation. Ratings of sharpness belong to the card's test Visual Sharpening. Answers of simulated
people are marked and have no weight.
"""

from __future__ import annotations

import math
from collections.abc import Container
from typing import cast

from snellen.cards.schema import Card, Evidence, EvidenceSource
from snellen.charts import numbers
from snellen.report.attributes import CATEGORIES
from snellen.report.readable import Readable
from snellen.runs.people import NO_MAP, ArmContrast, MethodStanding, StudyResult, TaskOutcome, arm_name
from snellen.suite.card_tests import SHARPNESS
from snellen.verdicts import PairedDifference, Verdict

CATEGORY: dict[str, dict[str, tuple[str, str]]] = {"people": {"people": ("Use to people", "can they do more with it?")}}
"""The category beside the card's three, with its only attribute."""

STYLE = "cards/people.css"

OPPOSITE = "opposite"
"""The stored word for a metric that prefers what helps people less."""


def categories(grades: Container[str]) -> dict[str, dict[str, tuple[str, str]]]:
    """The categories of a card with these grades: those of the saliency card, and `people` if a study was joined."""
    return CATEGORIES | CATEGORY if "people" in grades else CATEGORIES


def evidence_of(run: Readable, source: EvidenceSource) -> dict[str, list[Evidence]]:
    """By method, the evidence from the studies of a run; `source` is the run."""
    studies = run.people()
    by_method: dict[str, list[Evidence]] = {}
    for people in studies:
        for outcome in people.outcomes:
            for standing in outcome.standings:
                evidence = _evidence(people, outcome, standing, source, several=len(studies) > 1)
                by_method.setdefault(standing.method, []).append(evidence)
    return by_method


def baselines(run: Readable) -> dict[str, dict[str, float]]:
    """By label of the evidence, the means of the arms that a method is compared with: no map, or controls."""
    studies = run.people()
    controls = {method.label for method in run.record.spec.methods if method.control}
    by_label: dict[str, dict[str, float]] = {}
    for people in studies:
        for outcome in people.outcomes:
            for standing in outcome.standings:
                beside = controls if outcome.kind == "sharpness" else {NO_MAP}
                by_label[_label(people, outcome, standing, several=len(studies) > 1)] = {
                    arm_name(arm.method): arm.mean
                    for arm in outcome.arms
                    if arm.method in beside and arm.presentation in (standing.presentation, "photograph")
                }
    return by_label


def opposed(run: Readable) -> dict[str, str]:
    """By metric that contradicts people's answers, the description of the contradiction."""
    by_metric: dict[str, list[str]] = {}
    for people in (study for study in run.people() if study.source == "human"):
        for link in (link for link in people.links if link.word == OPPOSITE):
            ends = numbers.interval(link.low, link.high, link.items, signs=True)
            by_metric.setdefault(link.metric, []).append(
                f"{link.task.replace('-', ' ')} in “{people.title}”, {numbers.signed(link.estimate)} {ends} "
                f"over {numbers.count(link.items, 'item')}"
            )
    return {metric: f"goes against people: {'; '.join(reasons)}" for metric, reasons in by_metric.items()}


def notes(run: Readable) -> tuple[str, ...]:
    """Warnings about the studies."""
    return tuple(
        f"“{study.title}” was answered by simulated people, not by real ones: it is marked so and counts nothing"
        for study in run.people()
        if study.source == "simulated"
    )


def _evidence(
    people: StudyResult, outcome: TaskOutcome, standing: MethodStanding, source: EvidenceSource, *, several: bool
) -> Evidence:
    arm = next(arm for arm in outcome.arms if (arm.method, arm.presentation) == (standing.method, standing.presentation))
    without = sum(arm.people for arm in outcome.arms if arm.method == NO_MAP)
    beside = f", {without} saw none" if without else ""
    days = people.ended if people.begun == people.ended else f"{people.begun} to {people.ended}"
    verdict, reason = cast(Verdict, standing.verdict), standing.reason
    simulated = people.source == "simulated"
    if simulated:
        otherwise = f"; otherwise {verdict}" if outcome.kind != "scale" else ""
        verdict, reason = "not counted", f"simulated people, not real ones{otherwise}"
    return Evidence(
        attribute="minimality" if outcome.kind == "sharpness" else "people",
        test=_test(people, outcome, standing),
        metric=_label(people, outcome, standing, several=several),
        verdict=verdict,
        reason=reason,
        source=EvidenceSource(
            kind="simulated people" if simulated else "people",
            name=people.title,
            model=source.model,
            data=f"{arm.people} {'simulated ' if simulated else ''}people saw its maps ({standing.presentation}){beside}",
            settings=f"{days}, {people.design} subjects, study {people.digest[:8]}",
        ),
        rule=outcome.rule,
        mean=arm.mean,
        low=arm.low,
        high=arm.high,
        n=arm.people,
        undefined=0,
        higher_is_better=outcome.higher_is_better,
        against=tuple(_against(contrast) for contrast in standing.against or standing.others),
        advice="" if simulated else standing.advice,
        trust=None,
        summary=f"{outcome.score[0].upper()}{outcome.score[1:]}; a person is one value.",
    )


def _test(people: StudyResult, outcome: TaskOutcome, standing: MethodStanding) -> str:
    if outcome.kind == "sharpness":
        return SHARPNESS
    presentation = f", {standing.presentation}" if len(people.presentations) > 1 else ""
    return f"{outcome.title}{' (questionnaire)' if outcome.kind == 'scale' else ''}{presentation}"


def _label(people: StudyResult, outcome: TaskOutcome, standing: MethodStanding, *, several: bool) -> str:
    presentation = f"/{standing.presentation}" if len(people.presentations) > 1 else ""
    return f"people:{outcome.name}{presentation}{f' ({people.title}, {people.digest[:8]})' if several else ''}"


def _against(contrast: ArmContrast) -> PairedDifference:
    spread = contrast.error * math.sqrt(contrast.people)
    return PairedDifference(
        control=arm_name(contrast.other),
        mean=contrast.mean,
        low=contrast.low,
        high=contrast.high,
        margin=contrast.margin,
        spread=spread,
        n=contrast.people,
    )


def study_line(evidence: Evidence) -> str:
    """Who answered, when and what they saw, in a line."""
    return f"{evidence.source.data}; {_study(evidence)}"


def studies(card: Card) -> str:
    """The studies in which people did tasks with a method's maps, a sentence each."""
    answers = [evidence for evidence in card.evidence if evidence.attribute == "people"]
    sentences = [f"Study {study}." for study in dict.fromkeys(map(_study, answers))]
    if any(pair.control == arm_name(NO_MAP) for evidence in answers for pair in evidence.against):
        sentences.append("The grey tick is people without a map.")
    return " ".join(sentences)


def _study(evidence: Evidence) -> str:
    who = " by simulated people, who count nothing" if evidence.source.kind == "simulated people" else ""
    return f"“{evidence.source.name}”{who}, {evidence.source.settings.partition(', study')[0]}"


def lead(evidence: Evidence) -> str:
    """By how much people did better than those in the compared arms; empty if there are none."""
    parts = [
        f"{numbers.signed(pair.mean)} {numbers.interval(pair.low, pair.high, pair.n, signs=True)} against {pair.control}"
        for pair in evidence.against
        if not math.isnan(pair.mean)
    ]
    return f"{', '.join(parts)} (+ is better)" if parts else ""
