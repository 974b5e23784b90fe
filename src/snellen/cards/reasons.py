"""Why an attribute has its grade, in words and numbers, and what would have to be measured to know more."""

from __future__ import annotations

import math
from collections.abc import Sequence

from snellen.cards.grades import why_not_counted
from snellen.cards.schema import METHODOLOGY, Card, Evidence, Priority
from snellen.charts import numbers
from snellen.plugins.registry import METRICS
from snellen.verdicts import MINIMUM_GROUPS, MINIMUM_IMAGES
from snellen.verdicts.rule import TOO_FEW


def because(card: Card, attribute: Priority) -> str:
    """The reason for a grade: how many tests were passed and failed, with an example of each."""
    if math.isnan(card.grades[attribute].share):
        return why_unknown(card, attribute)
    if attribute in METHODOLOGY:
        return card.findings[attribute].sentence.rstrip(".")
    counted = [evidence for evidence in card.measured(attribute) if evidence.weight > 0]
    parts: list[str] = []
    for verdict, verb in (("pass", "passes"), ("fail", "fails"), ("inconclusive", "leaves open")):
        tests = sorted(
            (evidence for evidence in counted if evidence.verdict == verdict),
            key=lambda evidence: (not evidence.against, -evidence.weight),
        )
        if tests:
            of = f" of {numbers.count(len(counted), 'test')}" if not parts else ""
            parts.append(f"{verb} {len(tests)}{of} ({_telling(tests[0])})")
    return ", ".join(parts)


def _telling(evidence: Evidence) -> str:
    """A test with its decisive number: the difference to the control that comes closest, or beats the method most."""
    if not evidence.against:
        return f"{evidence.test}: {evidence.reason}, mean {numbers.short(evidence.mean)}"
    rival = min(evidence.against, key=lambda pair: pair.high if pair.worse else pair.low)
    if evidence.verdict == "fail" and not rival.worse:
        rival = next((pair for pair in evidence.against if pair.alike), rival)
    ends = numbers.interval(rival.low, rival.high, rival.n, signs=True)
    how = {"pass": "better than", "inconclusive": "not clear of"}.get(
        evidence.verdict, "worse than" if rival.worse else "no better than"
    )
    return f"{evidence.test}: {how} {rival.control}, {numbers.signed(rival.mean)} {ends}"


def plain(name: str) -> str:
    """The name of an attribute or a condition in a sentence."""
    return {"avoid-cost": "cost", "people": "use to people"}.get(name, name.replace("-", " "))


def why_unknown(card: Card, attribute: Priority) -> str:
    """Why there is no grade."""
    if attribute in METHODOLOGY:
        finding = card.findings.get(attribute)
        return finding.sentence.rstrip(".") if finding else "not measured yet"
    measured = card.measured(attribute)
    if not measured:
        return "no metric of the run measures it" if attribute != "people" else "its maps were not shown to people"
    if any(evidence.reason == TOO_FEW["image"] for evidence in measured):
        images = numbers.count(max(evidence.n for evidence in measured), "image")
        return f"{images} of the {MINIMUM_IMAGES} that a verdict needs"
    first = measured[0]
    return f"none of {numbers.count(len(measured), 'test')} counts, such as {first.test}: {why_not_counted(first)}"


def remedies(cards: Sequence[Card], attribute: Priority) -> tuple[str, ...]:
    """What would have to be measured for a grade of these cards, or for clearer verdicts."""
    sentences = []
    for card in cards:
        measured = card.measured(attribute)
        if not math.isnan(card.grades[attribute].share):
            undecided = [
                evidence
                for evidence in measured
                if evidence.verdict == "inconclusive" and evidence.weight > 0 and evidence.advice.startswith("about")
            ]
            sentences += [
                f"{card.method}, {plain(attribute)}: {evidence.advice} in {evidence.test}" for evidence in undecided[:1]
            ]
        elif attribute in METHODOLOGY:
            continue  # `Recommendation.remedies` names one command for all of them
        elif attribute == "people":
            sentences.append(
                f"{plain(attribute)}: a study that shows {card.method} and no map; `snellen study new` makes one"
            )
        elif not measured:
            names = ",".join(metrics_of(attribute))
            sentences.append(f"{plain(attribute)}: run the same model and images with --metrics {names}, and give both runs")
        elif any(evidence.reason == TOO_FEW["image"] for evidence in measured):
            lacking = MINIMUM_IMAGES - max(evidence.n for evidence in measured)
            sentences.append(f"{plain(attribute)}: {numbers.count(lacking, 'more image')} would allow a verdict")
        elif any(evidence.reason == TOO_FEW["group"] for evidence in measured):
            sentences.append(f"{plain(attribute)}: images of at least {MINIMUM_GROUPS} groups would allow a verdict")
    return tuple(dict.fromkeys(sentences))


def metrics_of(attribute: Priority) -> list[str]:
    """Up to three metrics of an attribute: those without special needs, if there are any."""
    every = {name: METRICS[name].traits for name in METRICS}  # type: ignore[attr-defined]
    measuring_it = {name: facts for name, facts in every.items() if facts.attribute == attribute}
    easy = [name for name, facts in measuring_it.items() if facts.needs <= {"explain", "layer"}]
    return (easy or list(measuring_it))[:3]


def doubts(card: Card, attribute: Priority) -> str:
    """How many tests of an attribute are by doubtful metrics, with a doubt about the one of least weight; empty if none."""
    counted = [evidence for evidence in card.measured(attribute) if evidence.weight > 0]
    marks = {str(evidence.metric): evidence.trust.marks for evidence in counted if evidence.trust and evidence.trust.marks}
    if not marks:
        return ""
    words = f"{plain(attribute)}: {len(marks)} of {numbers.count(len(counted), 'test')} by marked metrics"
    for evidence in sorted(counted, key=lambda evidence: evidence.weight):
        # Many metrics have the mark about single images, which does not change the weight; other marks come first.
        if serious := [mark for mark in marks.get(str(evidence.metric), ()) if not mark.startswith("one image")]:
            return f"{words}; {evidence.metric} weighs {evidence.weight:.2f} ({serious[-1]})"
    name = next(iter(marks))
    return f"{words}; {name}: {marks[name][0]}"
