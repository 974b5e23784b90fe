"""People on cards: what those could do who saw a method's maps, beside what formulas say of it.

A study that was joined to the run (`RUN/people/`) gives a method one piece of evidence per task. Tasks that ask what people
can do with a map are no attribute of the saliency card; they stand under `people`, get a grade by the formula of every other
grade, and can be asked for in a choice. Ratings of sharpness answer the card's test Visual Sharpening. What simulated people
answered is shown with that mark and counts nothing.
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
"""The heading beside the card's three, with its one question."""

STYLE = "cards/people.css"

OPPOSITE = "opposite"
"""What is said of a metric that goes against people."""


def categories(known: Container[str]) -> dict[str, dict[str, tuple[str, str]]]:
    """The headings of a card with these grades: the saliency card's, and people's where a study was joined."""
    return CATEGORIES | CATEGORY if "people" in known else CATEGORIES


def evidence_of(run: Readable, source: EvidenceSource) -> dict[str, list[Evidence]]:
    """By method, what the studies of a run say of it; `source` is the run."""
    studies = run.people()
    found: dict[str, list[Evidence]] = {}
    for people in studies:
        for outcome in people.outcomes:
            for standing in outcome.standings:
                evidence = _evidence(people, outcome, standing, source, several=len(studies) > 1)
                found.setdefault(standing.method, []).append(evidence)
    return found


def baselines(run: Readable) -> dict[str, dict[str, float]]:
    """By label of the evidence, the means that a method's people are held against: no map, or controls."""
    studies = run.people()
    controls = {method.label for method in run.record.spec.methods if method.control}
    found: dict[str, dict[str, float]] = {}
    for people in studies:
        for outcome in people.outcomes:
            for standing in outcome.standings:
                beside = controls if outcome.kind == "sharpness" else {NO_MAP}
                found[_label(people, outcome, standing, several=len(studies) > 1)] = {
                    arm_name(arm.method): arm.mean
                    for arm in outcome.arms
                    if arm.method in beside and arm.presentation in (standing.presentation, "photograph")
                }
    return found


def opposed(run: Readable) -> dict[str, str]:
    """By metric that people's answers speak against, the words for it."""
    found: dict[str, list[str]] = {}
    for people in (person for person in run.people() if person.source == "human"):
        for link in (one for one in people.links if one.word == OPPOSITE):
            ends = numbers.interval(link.low, link.high, link.items, signs=True)
            found.setdefault(link.metric, []).append(
                f"{link.task.replace('-', ' ')} in “{people.title}”, {numbers.signed(link.estimate)} {ends} "
                f"over {numbers.count(link.items, 'item')}"
            )
    return {metric: f"goes against people: {'; '.join(those)}" for metric, those in found.items()}


def notes(run: Readable) -> tuple[str, ...]:
    """What a reader should know of the studies."""
    return tuple(
        f"“{person.title}” was answered by simulated people, who are nobody: it is shown with that mark and counts nothing"
        for person in run.people()
        if person.source == "simulated"
    )


def _evidence(
    people: StudyResult, outcome: TaskOutcome, standing: MethodStanding, source: EvidenceSource, *, several: bool
) -> Evidence:
    arm = next(one for one in outcome.arms if (one.method, one.presentation) == (standing.method, standing.presentation))
    without = sum(one.people for one in outcome.arms if one.method == NO_MAP)
    beside = f", {without} saw none" if without else ""
    days = people.ended if people.begun == people.ended else f"{people.begun} to {people.ended}"
    verdict, reason = cast(Verdict, standing.verdict), standing.reason
    simulated = people.source == "simulated"
    if simulated:
        otherwise = f"; otherwise {verdict}" if outcome.kind != "scale" else ""
        verdict, reason = "not counted", f"simulated people, who are nobody{otherwise}"
    return Evidence(
        "minimality" if outcome.kind == "sharpness" else "people",
        _test(people, outcome, standing),
        _label(people, outcome, standing, several=several),
        verdict,
        reason,
        EvidenceSource(
            "simulated people" if simulated else "people",
            people.title,
            source.model,
            f"{arm.people} {'simulated ' if simulated else ''}people saw its maps ({standing.presentation}){beside}",
            f"{days}, {people.design} subjects, study {people.digest[:8]}",
        ),
        outcome.rule,
        arm.mean,
        arm.low,
        arm.high,
        arm.people,
        0,
        outcome.higher_is_better,
        tuple(_against(one) for one in standing.against or standing.others),
        "" if simulated else standing.advice,
        None,
        f"{outcome.score[0].upper()}{outcome.score[1:]}; a person is one value.",
    )


def _test(people: StudyResult, outcome: TaskOutcome, standing: MethodStanding) -> str:
    if outcome.kind == "sharpness":
        return SHARPNESS
    shown = f", {standing.presentation}" if len(people.presentations) > 1 else ""
    return f"{outcome.title}{' (questionnaire)' if outcome.kind == 'scale' else ''}{shown}"


def _label(people: StudyResult, outcome: TaskOutcome, standing: MethodStanding, *, several: bool) -> str:
    shown = f"/{standing.presentation}" if len(people.presentations) > 1 else ""
    return f"people:{outcome.name}{shown}{f' ({people.title}, {people.digest[:8]})' if several else ''}"


def _against(one: ArmContrast) -> PairedDifference:
    spread = one.error * math.sqrt(one.people)
    return PairedDifference(arm_name(one.other), one.mean, one.low, one.high, one.margin, spread, one.people)


def told(one: Evidence) -> str:
    """Who answered, when and what they saw, in a line."""
    return f"{one.source.data}; {_study(one)}"


def studies(card: Card) -> str:
    """The studies that asked people what they can do with a method's maps, in a sentence each."""
    asked = [one for one in card.evidence if one.attribute == "people"]
    said = [f"Study {name}." for name in dict.fromkeys(map(_study, asked))]
    if any(each.control == arm_name(NO_MAP) for one in asked for each in one.against):
        said.append("The grey tick is people without a map.")
    return " ".join(said)


def _study(one: Evidence) -> str:
    who = " by simulated people, who count nothing" if one.source.kind == "simulated people" else ""
    return f"“{one.source.name}”{who}, {one.source.settings.partition(', study')[0]}"


def lead(one: Evidence) -> str:
    """By how much people did better than those that they are held against; empty where that is nobody."""
    parts = [
        f"{numbers.signed(each.mean)} {numbers.interval(each.low, each.high, each.n, signs=True)} against {each.control}"
        for each in one.against
        if not math.isnan(each.mean)
    ]
    return f"{', '.join(parts)} (+ is better)" if parts else ""
