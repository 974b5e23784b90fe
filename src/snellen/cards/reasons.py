"""Why an attribute has its grade, in words and numbers, and what it would take to know more."""

from __future__ import annotations

import math

from snellen.cards.schema import METHODOLOGY, Card, Evidence
from snellen.registry import METRICS, Attribute
from snellen.report import numbers
from snellen.verdicts import MINIMUM_IMAGES

FEW = "too few images for a verdict"
"""The reason that verdicts give where there are not enough images."""


def because(card: Card, attribute: Attribute) -> str:
    """Why the grade is what it is: the tests that were passed and failed, each with its most telling number."""
    if math.isnan(card.grades[attribute].share):
        return unknown(card, attribute)
    if attribute in METHODOLOGY:
        return card.findings[attribute].sentence.rstrip(".")
    counted = [one for one in card.measured(attribute) if one.weight > 0]
    parts = []
    for verdict, verb in (("pass", "passes"), ("fail", "fails"), ("inconclusive", "leaves open")):
        some = sorted((one for one in counted if one.verdict == verdict), key=lambda one: -one.weight)
        if some:
            parts.append(f"{verb} {len(some)} of {numbers.count(len(counted), 'test')}, such as {_telling(some[0])}")
    return "; ".join(parts)


def _telling(one: Evidence) -> str:
    """A test with the number that its verdict hangs on."""
    name = (
        one.test if one.metric is None or one.metric.partition("(")[0] in one.test.lower() else f"{one.test} ({one.metric})"
    )
    if not one.against:
        return f"{name}: {one.reason}, mean {numbers.short(one.mean)}"
    rival = min(one.against, key=lambda each: each.high if each.worse else each.low)
    if one.verdict == "fail" and not rival.worse:
        rival = next((each for each in one.against if each.alike), rival)
    ends = numbers.interval(rival.low, rival.high, rival.n, signs=True)
    return f"{name}, {numbers.gain(rival.mean)} {ends} against {rival.control}"


def unknown(card: Card, attribute: Attribute) -> str:
    """Why nothing is known."""
    if attribute in METHODOLOGY:
        finding = card.findings.get(attribute)
        return finding.sentence.rstrip(".") if finding else "not measured yet"
    measured = card.measured(attribute)
    if not measured:
        return "no metric of the run measures it"
    if any(one.reason == FEW for one in measured):
        return f"{numbers.count(max(one.n for one in measured), 'image')} of the {MINIMUM_IMAGES} that a verdict needs"
    first = measured[0]
    return f"none of {numbers.count(len(measured), 'test')} counts, such as {first.test}: {first.reason}"


def remedy(card: Card, attribute: Attribute, run: str) -> str:
    """What it would take to know an attribute, or to settle one that is missed; empty where nothing would."""
    if math.isnan(card.grades[attribute].share):
        if attribute in METHODOLOGY:
            return f"`snellen cards --run {run}` measures {attribute}" if attribute not in card.findings else ""
        measured = card.measured(attribute)
        if not measured:
            return f"run the same model and images with --metrics {','.join(measuring(attribute))} and give both runs"
        if any(one.reason == FEW for one in measured):
            here = max(one.n for one in measured)
            return f"{numbers.count(MINIMUM_IMAGES - here, 'more image')} would allow verdicts on {attribute}"
        return ""
    some = [
        one
        for one in card.measured(attribute)
        if one.verdict == "inconclusive" and one.weight > 0 and "more image" in one.advice
    ]
    return f"{some[0].test}: {some[0].advice}" if some else ""


def measuring(attribute: Attribute) -> list[str]:
    """Metrics of an attribute that need nothing that most users lack, or else any."""
    every = {name: METRICS[name].traits for name in METRICS}  # type: ignore[attr-defined]
    mine = {name: facts for name, facts in every.items() if facts.attribute == attribute}
    easy = [name for name, facts in mine.items() if facts.needs <= {"explain", "layer"}]
    return (easy or list(mine))[:3]


def care(card: Card, attribute: Attribute) -> str:
    """The metrics behind an attribute that are marked, with what speaks most against the worst of them; empty if none is."""
    counted = [one for one in card.measured(attribute) if one.weight > 0]
    marked = sorted((one for one in counted if one.trust and one.trust.marks), key=lambda one: one.weight)
    if not marked:
        return ""
    worst = marked[0]
    said = worst.trust.marks[0] if worst.trust else ""
    of = f"{len(marked)} of {numbers.count(len(counted), 'test')} of {attribute} {'is' if len(marked) == 1 else 'are'} by"
    return f"{of} marked metrics; {worst.metric} weighs {worst.weight:.2f}: {said}"
