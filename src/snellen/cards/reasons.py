"""Why an attribute has its grade, in words and numbers, and what it would take to know more."""

from __future__ import annotations

import math
from collections.abc import Sequence

from snellen.cards.grades import idle
from snellen.cards.schema import METHODOLOGY, Card, Evidence, Priority
from snellen.charts import numbers
from snellen.plugins.registry import METRICS
from snellen.verdicts import MINIMUM_GROUPS, MINIMUM_IMAGES
from snellen.verdicts.rule import TOO_FEW


def because(card: Card, attribute: Priority) -> str:
    """Why the grade is what it is: the tests that were passed and failed, each with its most telling number."""
    if math.isnan(card.grades[attribute].share):
        return unknown(card, attribute)
    if attribute in METHODOLOGY:
        return card.findings[attribute].sentence.rstrip(".")
    counted = [one for one in card.measured(attribute) if one.weight > 0]
    parts: list[str] = []
    for verdict, verb in (("pass", "passes"), ("fail", "fails"), ("inconclusive", "leaves open")):
        some = sorted((one for one in counted if one.verdict == verdict), key=lambda one: (not one.against, -one.weight))
        if some:
            of = f" of {numbers.count(len(counted), 'test')}" if not parts else ""
            parts.append(f"{verb} {len(some)}{of} ({_telling(some[0])})")
    return ", ".join(parts)


def _telling(one: Evidence) -> str:
    """A test with the number that its verdict hangs on: against the control that comes closest, or beats the method most."""
    if not one.against:
        return f"{one.test}: {one.reason}, mean {numbers.short(one.mean)}"
    rival = min(one.against, key=lambda each: each.high if each.worse else each.low)
    if one.verdict == "fail" and not rival.worse:
        rival = next((each for each in one.against if each.alike), rival)
    ends = numbers.interval(rival.low, rival.high, rival.n, signs=True)
    how = {"pass": "better than", "inconclusive": "not clear of"}.get(
        one.verdict, "worse than" if rival.worse else "no better than"
    )
    return f"{one.test}: {how} {rival.control}, {numbers.signed(rival.mean)} {ends}"


def plain(name: str) -> str:
    """An attribute or a condition as it stands in a sentence."""
    return {"avoid-cost": "cost", "people": "use to people"}.get(name, name.replace("-", " "))


def unknown(card: Card, attribute: Priority) -> str:
    """Why nothing is known."""
    if attribute in METHODOLOGY:
        finding = card.findings.get(attribute)
        return finding.sentence.rstrip(".") if finding else "not measured yet"
    measured = card.measured(attribute)
    if not measured:
        return "no metric of the run measures it" if attribute != "people" else "its maps were not shown to people"
    if any(one.reason == TOO_FEW["image"] for one in measured):
        return f"{numbers.count(max(one.n for one in measured), 'image')} of the {MINIMUM_IMAGES} that a verdict needs"
    first = measured[0]
    return f"none of {numbers.count(len(measured), 'test')} counts, such as {first.test}: {idle(first)}"


def remedies(cards: Sequence[Card], attribute: Priority) -> tuple[str, ...]:
    """What it would take to know an attribute of these cards, or to settle what is undecided in it."""
    found = []
    for card in cards:
        measured = card.measured(attribute)
        if not math.isnan(card.grades[attribute].share):
            open_ = [
                one
                for one in measured
                if one.verdict == "inconclusive" and one.weight > 0 and one.advice.startswith("about")
            ]
            found += [f"{card.method}, {plain(attribute)}: {one.advice} in {one.test}" for one in open_[:1]]
        elif attribute in METHODOLOGY:
            continue  # measured all at once, and told once
        elif attribute == "people":
            found.append(f"{plain(attribute)}: a study that shows {card.method} and no map; `snellen study new` makes one")
        elif not measured:
            names = ",".join(measuring(attribute))
            found.append(f"{plain(attribute)}: run the same model and images with --metrics {names}, and give both runs")
        elif any(one.reason == TOO_FEW["image"] for one in measured):
            lacking = MINIMUM_IMAGES - max(one.n for one in measured)
            found.append(f"{plain(attribute)}: {numbers.count(lacking, 'more image')} would allow a verdict")
        elif any(one.reason == TOO_FEW["group"] for one in measured):
            found.append(f"{plain(attribute)}: images of at least {MINIMUM_GROUPS} groups would allow a verdict")
    return tuple(dict.fromkeys(found))


def measuring(attribute: Priority) -> list[str]:
    """Metrics of an attribute that need nothing that most users lack, or else any."""
    every = {name: METRICS[name].traits for name in METRICS}  # type: ignore[attr-defined]
    mine = {name: facts for name, facts in every.items() if facts.attribute == attribute}
    easy = [name for name, facts in mine.items() if facts.needs <= {"explain", "layer"}]
    return (easy or list(mine))[:3]


def care(card: Card, attribute: Priority) -> str:
    """The metrics behind an attribute that are marked, with what speaks against the lightest of them; empty if none is."""
    counted = [one for one in card.measured(attribute) if one.weight > 0]
    marks = {str(one.metric): one.trust.marks for one in counted if one.trust and one.trust.marks}
    if not marks:
        return ""
    words = f"{plain(attribute)}: {len(marks)} of {numbers.count(len(counted), 'test')} by marked metrics"
    for one in sorted(counted, key=lambda one: one.weight):
        # That one image alone says little is told of many metrics and weighs nothing; anything else comes first.
        if said := [mark for mark in marks.get(str(one.metric), ()) if not mark.startswith("one image")]:
            return f"{words}; {one.metric} weighs {one.weight:.2f} ({said[-1]})"
    name = next(iter(marks))
    return f"{words}; {name}: {marks[name][0]}"
