"""A study with people whose verdicts are known, beside the planted card set's run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
from tests.cards.planted_card_set import TESTS, measured, run_of
from tests.cards.recorded_card_set import deck_of

from snellen.cards.card_set import CardSet
from snellen.runs.people import COLUMNS, ArmContrast, ArmMean, MethodStanding, MetricLink, StudyResult, TaskOutcome

RULE = "pass: better than no map; fail: worse, or within the margin."
# By method: error detection, class accuracy and sharpness; + better, - worse, = alike, ? open.
SAID = {"grad-cam": "+?+", "rise(masks=100)": "--?", "gradient": "?==", "integrated-gradients(steps=8)": "+++"}
WORDS = {"+": ("pass", "better than people without a map", 0.2), "-": ("fail", "worse than people without a map", -0.2),
         "=": ("fail", "no better than people without a map, within the margin", 0.0),
         "?": ("inconclusive", "not clear of people without a map", 0.05)}  # fmt: skip


def contrast(other: str, mean: float, width: float = 0.1) -> ArmContrast:
    return ArmContrast(other, mean, mean - width, mean + width, 0.03, width / 2, 0.01 if abs(mean) > width else 0.4, 30)


def outcome(
    name: str, kind: Any, at: int, rivals: tuple[str, ...], *, higher: bool = True, middle: float = 0.6
) -> TaskOutcome:
    arms = [
        ArmMean(arm, "photograph" if arm == "none" else "overlay", 31, middle, middle - 0.1, middle + 0.1) for arm in rivals
    ]
    standings = []
    for method, signs in SAID.items():
        verdict, reason, gain = WORDS[signs[at]]
        mean = middle + (gain if higher else -gain)
        arms.append(ArmMean(method, "overlay", 30, mean, mean - 0.08, mean + 0.08))
        advice = "about 40 more people in each arm would settle it" if verdict == "inconclusive" else ""
        standings.append(
            MethodStanding(method, "overlay", verdict, reason, tuple(contrast(arm, gain) for arm in rivals), (), advice)
        )
    return TaskOutcome(name, kind, "1 for a right answer, 0 for a wrong one", higher, RULE, tuple(arms), tuple(standings))


def scale(name: str) -> TaskOutcome:
    arms = tuple(ArmMean(method, "overlay", 30, 3.4, 3.1, 3.7) for method in SAID)
    standings = tuple(
        MethodStanding(method, "overlay", "not counted", "a questionnaire is information", ()) for method in SAID
    )
    return TaskOutcome(
        name, "scale", "mean of 8 answers, from 1 to 5", True, "a questionnaire is information", arms, standings
    )


def study(**changes: Any) -> StudyResult:
    """Thirty people in each arm; one metric is said to go against them, and one to go with them."""
    controls = [MethodStanding(method, "overlay", "not counted", "a control", ()) for method in ("random", "edge")]
    sharp = outcome("sharpness", "sharpness", 2, ("random", "edge"), middle=4.0)
    sharp = replace(sharp, score="rating from 1, blurred, to 7, sharp", standings=(*sharp.standings, *controls))
    outcomes = (
        outcome("error-detection", "ability", 0, ("none",)),
        outcome("class-accuracy", "ability", 1, ("none",), higher=False, middle=18.0),
        sharp,
        scale("satisfaction"),
        scale("trust"),
    )
    links = (
        MetricLink("error-detection", "input-sensitivity-1", "opposite", -0.61, -0.8, -0.4, 0.004, 12, 4),
        MetricLink("error-detection", "minimality-2", "predicts", 0.55, 0.3, 0.8, 0.01, 12, 4),
    )
    rows = [("000.png", "grad-cam", "overlay", "people:error-detection", 0.8, 30, 0.07, "human")]
    fields = {
        "title": "Do maps help?", "digest": "5" * 32, "source": "human", "begun": "2026-02-03", "ended": "2026-02-17",
        "design": "between", "people": 151, "left_out": 9, "outcomes": outcomes, "links": links,
        "images": pd.DataFrame(rows, columns=list(COLUMNS)),
    }  # fmt: skip
    return StudyResult(**(fields | changes))


def studied_deck(*studies: StudyResult) -> CardSet:
    """The planted card set after these studies, or after the one above."""
    return CardSet.of(run_of(studies=studies or (study(),)), {label: measured(label) for label in TESTS})


def seen_by_many(images: int) -> CardSet:
    """The recorded card set of the browser's tests, of whose methods three were shown to people."""
    card_set = deck_of(images)
    methods = {card.method for card in card_set.methods}
    assert {"grad-cam", "gradient", "rise"} <= methods
    study_result = study(outcomes=tuple(_renamed(task_outcome) for task_outcome in study().outcomes), links=(
        MetricLink("error-detection", "complexity", "opposite", -0.61, -0.8, -0.4, 0.004, 12, 3),
    ))  # fmt: skip
    findings = {card.method: dict(card.findings) for card in card_set.cards}
    return CardSet.of(replace(card_set.run, studies=(study_result,)), findings)  # type: ignore[type-var]


def _renamed(task_outcome: TaskOutcome) -> TaskOutcome:
    names = {"rise(masks=100)": "rise", "integrated-gradients(steps=8)": "integrated-gradients"}

    def of(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(each, method=names.get(each.method, each.method)) for each in items)

    return replace(task_outcome, arms=of(task_outcome.arms), standings=of(task_outcome.standings))
