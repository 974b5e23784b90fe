"""The cards of a run as one HTML page that opens offline: a gallery, the cards, a comparison, and a choice by priorities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from snellen import __version__
from snellen.cards.card_json import plain
from snellen.cards.card_set import CardSet
from snellen.cards.card_view import GradeView, VerdictMark, card_view, full_name, grade_view, metric_scales, title, verdict
from snellen.cards.examples import examples_of, style
from snellen.cards.grades import BORROWED
from snellen.cards.people import STYLE, categories
from snellen.cards.printed_choice import TELLING
from snellen.cards.priorities import LEVELS, Level, profiles
from snellen.cards.recommend import INSIDE, weak_sensitivities
from snellen.cards.schema import METHODOLOGY, Card, Priority
from snellen.charts import numbers, pictures
from snellen.charts.html_page import TemplateValues, render_page, write_page
from snellen.charts.verdict_marks import MARKS
from snellen.report.attributes import CATEGORIES
from snellen.report.page import subject_facts
from snellen.verdicts import MINIMUM_IMAGES, Trust, run_certainty
from snellen.verdicts.rule import AXIOM, RULE
from snellen.verdicts.trust import RELIABLE

STYLES = ["charts/page.css", "cards/cards.css"]

WISHES: Mapping[Priority, str] = {
    "determinism": "The same picture always gives the same map",
    "hyperparameter-dependence": "Its settings hardly matter",
    "model-agnosticism": "It works with any kind of model",
    "computational-efficiency": "It is quick",
    "semantic-directness": "It is easy to say what a bright spot means",
    "input-sensitivity": "It shows what the model's output depends on",
    "label-sensitivity": "It changes with the class that is explained",
    "model-sensitivity": "It changes when the model changes",
    "minimality": "It shows little, and only what matters",
    "perceptual-correspondence": "It points where people would point",
    "people": "People can do more with it than without",
}
"""The ten attributes, and use to people, as wishes in everyday words."""

SHORT_WISHES: Mapping[Priority, str] = {
    "determinism": "same map every time",
    "hyperparameter-dependence": "settings hardly matter",
    "model-agnosticism": "works with any model",
    "computational-efficiency": "quick",
    "semantic-directness": "easy to read",
    "input-sensitivity": "shows what the output depends on",
    "label-sensitivity": "changes with the explained class",
    "model-sensitivity": "changes with the model",
    "minimality": "shows little",
    "perceptual-correspondence": "points where people would",
    "people": "helps people",
}
"""The same in a few words, for lists."""

LEVEL_WORDS: Mapping[Level, str] = {
    "essential": "essential",
    "nice": "nice to have",
    "unimportant": "unimportant",
    "unwanted": "unwanted",
}


def write_cards(card_set: CardSet, folder: str | Path) -> Path:
    """Writes the page of all cards as `index.html` into a folder."""
    return write_page(page(card_set), Path(folder) / "index.html")


def write_card(card: Card, card_set: CardSet | None, path: str | Path) -> Path:
    """Writes one card as a page; without a set of cards, what holds for every model."""
    return write_page(card_page(card, card_set), path)


def page(card_set: CardSet) -> str:
    """The whole page as text."""
    return render_page("cards/cards.html", _styles(card_set.cards[0]), _facts(card_set))


def card_page(card: Card, card_set: CardSet | None = None) -> str:
    """One card as a page of its own."""
    facts: TemplateValues = {"record": {"snellen": __version__}, "sure": None, "pictures": "", **_common()}
    if card_set is None:
        return render_page("cards/single.html", STYLES, {**facts, "card": card_view(card, "card", {})})
    spec = next(method for method in card_set.run.record.spec.methods if method.label == card.method)
    examples = examples_of(card_set.run, [spec])
    view = card_view(card, "card", metric_scales(card_set), examples[card.method], _costs(card_set).get(card.method))
    facts |= subject_facts(card_set.run) | {"pictures": Markup(style(examples))}
    return render_page("cards/single.html", _styles(card), {**facts, "card": view})


def _styles(card: Card) -> list[str]:
    return [*STYLES, STYLE] if "people" in card.grades else STYLES


def _wishes(card_set: CardSet) -> dict[str, dict[str, tuple[str, str]]]:
    """By category, what a user may wish for."""
    return categories(card_set.priorities)


def _common() -> TemplateValues:
    return {"minimum": MINIMUM_IMAGES, "legend": pictures.LEGEND, "rules": (RULE, AXIOM)}


def _facts(card_set: CardSet) -> TemplateValues:
    spec = card_set.run.record.spec
    scales, costs = metric_scales(card_set), _costs(card_set)
    examples = examples_of(card_set.run, spec.methods)
    anchors = dict(zip((card.method for card in card_set.cards), _anchors(card_set.cards), strict=True))
    views = [
        card_view(card, anchors[card.method], scales, examples[card.method], costs.get(card.method))
        for card in card_set.cards
    ]
    return {
        **_common(),
        **subject_facts(card_set.run),
        "pictures": Markup(style(examples)),
        "notes": card_set.notes,
        "views": views,
        "methods": [view for view, card in zip(views, card_set.cards, strict=True) if not card.control],
        "controls": [view for view, card in zip(views, card_set.cards, strict=True) if card.control],
        "verdict_counts": _verdict_counts(card_set),
        "table": _table(card_set, anchors),
        "trial": _metric_rows(card_set),
        "wishes": [
            {"key": key, "wish": WISHES[key], "title": full_name(name, label), "category": name}  # type: ignore[index]
            for name, attributes in _wishes(card_set).items() for key, (label, _) in attributes.items()
        ],
        "levels": LEVELS,
        "level_words": LEVEL_WORDS,
        "profiles": [
            {"name": profile.name, "title": profile.name.replace("-", " "), "task": profile.task} for profile in profiles()
        ],
        "data": htmlsafe_json_dumps(_data(card_set, anchors), ensure_ascii=False, allow_nan=False),
    }  # fmt: skip


def _anchors(cards: Sequence[Card]) -> Iterator[str]:
    """The id of every card in the page: its label in characters that need no escape."""
    taken: set[str] = set()
    for card in cards:
        letters = re.sub(r"[^a-z0-9]+", "-", card.method.lower()).strip("-")
        anchor, number = f"card-{letters}", 2
        while anchor in taken:
            anchor, number = f"card-{letters}-{number}", number + 1
        taken.add(anchor)
        yield anchor


def _costs(card_set: CardSet) -> dict[str, dict[str, float]]:
    """By method, the mean cost of a map in the run itself, for cards whose cost was not measured."""
    return {
        str(row["method"]): {key: float(row[key]) / int(row["images"]) for key in ("forward", "backward", "seconds")}
        for row in card_set.run.costs().to_dict("records") if row["images"]
    }  # fmt: skip


def _verdict_counts(card_set: CardSet) -> list[TemplateValues]:
    own = [evidence for card in card_set.methods for evidence in card.evidence if evidence.source.kind == "run"]
    return [{**verdict(word), "count": sum(cell.verdict == word for cell in own)} for word in MARKS]


def _table(card_set: CardSet, anchors: Mapping[str, str]) -> TemplateValues:
    """The comparison table: a row per attribute and test, a column per method; the page shows the chosen columns."""
    cards = card_set.methods
    groups = []
    for name, attributes in categories(cards[0].grades if cards else ()).items():
        for key, (label, question) in attributes.items():
            tests = {evidence.metric: evidence for card in cards for evidence in card.measured(key)}  # type: ignore[arg-type]
            rows = [
                {"test": first.test, "arrow": first.arrow,
                 "cells": [_cell(card, metric) for card in cards]}
                for metric, first in tests.items()
            ]  # fmt: skip
            groups.append(
                {"category": name, "title": full_name(name, label), "question": question, "rows": rows,
                 "cells": [_grade_cell(card, key) for card in cards]}  # type: ignore[arg-type]
            )  # fmt: skip
    return {"columns": [{"id": anchors[card.method], "title": title(card)} for card in cards], "groups": groups}


def _grade_cell(card: Card, key: Priority) -> GradeView:
    grade = grade_view(card.grades[key])
    if key in METHODOLOGY and key in card.findings:
        return {**grade, "reason": card.findings[key].sentence}
    return grade


def _cell(card: Card, metric: str | None) -> TemplateValues | None:
    test = next((evidence for evidence in card.evidence if evidence.metric == metric), None)
    if test is None:
        return None
    return {
        **verdict(test.verdict, MINIMUM_IMAGES if test.by_people else test.n),
        "mean": numbers.short(test.mean),
        "interval": numbers.interval(test.low, test.high, test.n) if test.n else "",
        "reason": test.reason,
    }


def _metric_rows(card_set: CardSet) -> list[TemplateValues]:
    """The metrics, with the doubts about each and the weight of its verdicts."""
    spec = {metric.label: metric for metric in card_set.run.record.spec.metrics}
    choices = {
        key: (name, full_name(name, label))
        for name, attributes in CATEGORIES.items()
        for key, (label, _) in attributes.items()
    }
    rows: list[TemplateValues] = []
    for label, trust in card_set.trust.items():
        category, attribute = choices[spec[label].attribute]
        rows.append(
            {"label": label, "test": spec[label].test or "", "summary": spec[label].summary,
             "category": category, "attribute": attribute, "number": f"{trust.weight:.2f}",
             "share": f"{100 * trust.weight:.0f}", "marks": trust.marks, "kind": _trust_mark(trust)}
        )  # fmt: skip
    return rows


def _trust_mark(trust: Trust) -> VerdictMark:
    """How far a metric is trusted, as shape and word."""
    if trust.axiom:
        return {**verdict("pass"), "word": "must hold exactly"}
    if trust.weight >= RELIABLE:
        return {**verdict("pass"), "word": "counts"}
    if trust.weight > 0.1:
        return {**verdict("inconclusive"), "word": "counts less"}
    return {**verdict("not counted"), "word": "hardly counts" if trust.weight > 0 else "does not count"}


def _data(card_set: CardSet, anchors: Mapping[str, str]) -> TemplateValues:
    """The data that the page's script ranks methods by."""
    return {
        "methods": [
            {
                "id": anchors[card.method],
                "label": card.method,
                "title": title(card),
                "grades": {key: plain(grade.share) for key, grade in card.grades.items()},
                "words": {key: grade.word for key, grade in card.grades.items()},
                "seconds": plain(card.seconds),
                "inside": sorted(INSIDE.intersection(card.needs)),
                "weak": weak_sensitivities(card, title(card)),
            }
            for card in card_set.methods
        ],
        "wishes": {attribute: WISHES[attribute] for attribute in card_set.priorities},
        "briefly": {attribute: SHORT_WISHES[attribute] for attribute in card_set.priorities},
        "levels": LEVEL_WORDS,
        "marks": {word: verdict(word_of_verdict) for word, word_of_verdict in BORROWED.items()},
        "titles": {
            key: full_name(name, label)
            for name, attributes in _wishes(card_set).items()
            for key, (label, _) in attributes.items()
        },
        "profiles": {
            profile.name: {key: level for key, level in profile.levels.items() if level != "unimportant"}
            for profile in profiles()
        },
        "enough": run_certainty(card_set.run).enough,
        "minimum": MINIMUM_IMAGES,
        "telling": TELLING,
    }


__all__ = ["WISHES", "card_page", "page", "write_card", "write_cards"]
