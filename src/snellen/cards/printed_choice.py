"""Comparisons, recommendations and profiles for a terminal; every colour has a shape and a word too."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from snellen.cards.compare import CardComparison
from snellen.cards.grades import BORROWED
from snellen.cards.people import categories
from snellen.cards.priorities import LEVELS, Priorities, Profile
from snellen.cards.reasons import plain
from snellen.cards.recommend import DRAWS, Difference, Need, NeedState, RankedMethod, Recommendation
from snellen.cards.schema import Card, Evidence, Grade
from snellen.charts import numbers
from snellen.charts.verdict_marks import MARKS, STYLES, legend
from snellen.report.summary_table import split_evenly

_STATES: dict[NeedState, tuple[str, str]] = {
    "met": ("pass", "meets your needs"),
    "not known": ("not counted", "not known to meet your needs"),
    "missed": ("fail", "misses a need"),
}
_NAMES, _COLUMN = 31, 15
_ROOMY = 21
"""From this column width on, a verdict is written as a word beside its shape."""
_DETAILED = 3
TELLING = 0.2
"""A second attribute is named as deciding if it contributed at least this share of what the first contributed."""


class PrintedRecommendation:
    """What rich prints for a recommendation: the answer, a reason for every rank, and how stable the order is."""

    def __init__(self, recommendation: Recommendation) -> None:
        self._recommendation = recommendation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The answer, the ranked methods, then warnings."""
        choice = self._recommendation
        source = choice.card_set.cards[0].source
        yield Text(wishes(choice.priorities), style="dim")
        if source:
            yield Text(f"On {source.model}, {source.data}.", style="dim")
        yield Text("")
        yield Text(choice.sentence, style="bold")
        if choice.nearest and not choice.contenders:
            yield Text("Nearest: " + "; ".join(f"{ranked.card.method} {_lacks(ranked)}" for ranked in choice.nearest) + ".")
        for ranked in choice.places:
            yield from self._ranked_method(ranked)
        yield Text("")
        yield from _bullets("How firm the order is", self._stability())
        yield from _bullets("Take care", choice.cautions)
        yield from _bullets("What would show more", choice.remedies)
        yield Text(
            "Score: mean grade, essential counts 3, nice 1, unwanted 1 turned round; a grade that is not known counts ½; "
            "a need is met from 0.5 on.",
            style="dim",
        )

    def _ranked_method(self, ranked: RankedMethod) -> Iterator[RenderableType]:
        kind, words = _STATES[ranked.state]
        head = Text.assemble(
            (f"{ranked.place:>2}  ", "bold"),
            (f"{MARKS[kind]} {words}", STYLES[kind]),
            ("  " + ranked.card.method, "bold"),
        )
        if not math.isnan(ranked.score):
            head.append(f"  score {ranked.score:.2f}", style="dim")
        yield Text("")
        yield head
        detailed = ranked.place <= _DETAILED and ranked.state != "missed"
        rows = [("needs", need) for need in _needs(ranked.needs, detailed)]
        if detailed:
            priorities, grades = self._recommendation.priorities, ranked.card.grades
            for level, write in (("nice", _graded), ("unwanted", _unwanted)):
                texts = [write(grades[attribute]) for attribute in priorities.at(level)]  # type: ignore[arg-type]
                rows += [(level, Text(", ").join(texts))] if texts else []
        rows += [("decided by", Text(words)) for words in self._decided(ranked)]
        if ranked.shares and (detailed or ranked.state == "met"):
            rows.append(("gives up", Text(_sacrificed(ranked.sacrifice, self._recommendation.priorities))))
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column(width=10, style="dim")
        table.add_column(overflow="fold")
        for number, (name, text) in enumerate(rows):
            table.add_row("" if number and name == rows[number - 1][0] else name, text)
        yield Padding(table, (0, 0, 0, 4))

    def _decided(self, ranked: RankedMethod) -> list[str]:
        after = next((other for other in self._recommendation.places if other.place == ranked.place + 1), None)
        if after is None:
            return []
        if ranked.state != after.state:
            return [f"its needs: {after.card.method}, the next, {_lacks(after)}"]
        if math.isnan(ranked.score):
            return ["the name: conditions alone put no method before another"]
        if not ranked.decided:
            return [f"the name: {after.card.method} has the same score"]
        telling = [
            difference for difference in ranked.decided[:2] if difference.weighed >= TELLING * ranked.decided[0].weighed
        ]
        parts = [_against(difference, self._recommendation.priorities) for difference in telling]
        return [f"{', then '.join(parts)} of {after.card.method}, the next"]

    def _stability(self) -> list[str]:
        choice = self._recommendation
        contenders = choice.contenders
        if len(contenders) < 2 or math.isnan(choice.holds):
            return []
        moved = f"when every weight moves at random, down to half or up to double ({numbers.count(DRAWS, 'time')})"
        firsts = sorted((ranked for ranked in contenders if ranked.first > 0), key=lambda ranked: -ranked.first)[:3]
        top = min(3, len(contenders))
        front = [ranked.card.method for ranked in contenders if ranked.pareto]
        level = "; among equals the name decides" if len(choice.level) > 1 else ""
        return [
            f"{moved}: first is " + ", ".join(f"{first.card.method} in {_percent(first.first)}" for first in firsts) + level,
            f"the first {top} keep their order in {_percent(choice.holds)}",
            f"Pareto set, which no other beats in all that you asked for: {', '.join(front)}",
        ]


class PrintedComparison:
    """What rich prints for a comparison: attributes and their tests down, methods across."""

    def __init__(self, comparison: CardComparison) -> None:
        self._comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """As many tables as the width of the terminal requires."""
        cards = self._comparison.cards
        if cards[0].source:
            yield Text(f"On {cards[0].source.model}, {cards[0].source.data}.", style="dim")
        for group in split_evenly(cards, lambda card: _COLUMN, options.max_width - _NAMES):
            yield Text("")
            yield self._table(group, min(30, (options.max_width - _NAMES) // len(group) - 1))
        yield Text("")
        yield legend() + Text("means over images; ↑ higher is better, ↓ lower is better; ! a marked metric", style="dim")
        yield from _bullets("Where they differ most", [difference.words for difference in self._comparison.differences[:3]])
        yield from _bullets("Otherwise than in the literature", self._comparison.disagreements)
        yield from _bullets("Take care", self._comparison.notes)

    def _table(self, cards: Sequence[Card], width: int) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("", width=_NAMES - 1)
        for card in cards:
            table.add_column(Text("\n".join(_wrapped(card.method, width))), width=width, vertical="bottom")
        for category, attributes in categories(cards[0].grades).items():
            table.add_row(Text(category.upper(), style="bold dim"))
            for row in (row for row in self._comparison.rows if row.attribute in attributes):
                grades = [card.grades[row.attribute] for card in cards]
                table.add_row(Text(plain(row.attribute), style="bold"), *(_grade_cell(grade) for grade in grades))
                for test in row.tests:
                    cells = [test.of(card) for card in cards]
                    marked = "!" if test.marks else ""
                    name = textwrap.fill(
                        f"{test.title} {test.arrow}{marked}", _NAMES - 2, initial_indent="  ", subsequent_indent="    "
                    )
                    table.add_row(Text(name), *(_test_cell(cell, width) for cell in cells), style="dim")
        return table


class PrintedProfiles:
    """What rich prints for `--profile list`."""

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self._profiles = profiles

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """One paragraph each."""
        for profile in self._profiles:
            yield Text.assemble((profile.name, "bold"), f"  {profile.role} ({profile.user}): {profile.task}")
            for level in LEVELS:
                names = [plain(name) for name, chosen in profile.levels.items() if chosen == level]
                if names:
                    yield Padding(
                        Text(f"{level}: {', '.join(names)}", style="bold" if level == "essential" else "dim"), (0, 0, 0, 4)
                    )
            if profile.note:
                yield Padding(Text(f"note: {profile.note}", style="dim"), (0, 0, 0, 4))
            yield Text("")


def wishes(priorities: Priorities) -> str:
    """Priorities in a sentence."""
    parts = []
    for level, words in (("essential", "needed"), ("nice", "nice to have"), ("unwanted", "unwanted")):
        names = [plain(attribute) for attribute in priorities.at(level)]  # type: ignore[arg-type]
        if names:
            parts.append(f"{words}: {', '.join(names)}")
    if priorities.avoid_cost is not None:
        parts.append(f"at most {numbers.duration(priorities.avoid_cost)} per image")
    if priorities.black_box:
        parts.append("the model is a black box")
    who = "Asked for: "
    if role := priorities.profile:
        who = f"As a {role.role}{f' ({role.name})' if role.name != role.role else ''}: "
    note = f" ({priorities.profile.note})" if priorities.profile and priorities.profile.note else ""
    return who + "; ".join(parts) + note + "."


def _need(need: Need) -> Text:
    kind = {"met": "pass", "not known": "not counted", "missed": "fail"}[need.state]
    grade = number(need.grade) if need.grade else ""
    return Text.assemble(
        (f"{MARKS[kind]} {need.state} ", STYLES[kind]), (plain(need.name) + grade, "bold"), f": {need.words}"
    )


def _needs(needs: Sequence[Need], detailed: bool) -> Iterator[Text]:
    """A line per need; if not `detailed`, one line for all that are met and one for all that are not known."""
    if detailed:
        yield from map(_need, needs)
        return
    yield from (_need(need) for need in needs if need.state == "missed")
    for state, kind in (("not known", "not counted"), ("met", "pass")):
        texts = [f"{plain(need.name)}{number(need.grade) if need.grade else ''}" for need in needs if need.state == state]
        if texts:
            yield Text.assemble((f"{MARKS[kind]} {state} ", STYLES[kind]), ", ".join(texts))


def _graded(grade: Grade) -> Text:
    kind = BORROWED[grade.word]
    return Text.assemble((f"{MARKS[kind]} {grade.word} ", STYLES[kind]), plain(grade.attribute) + number(grade))


def _unwanted(grade: Grade) -> Text:
    """The grade of an unwanted attribute, where less is better."""
    kind, word = {
        "good": ("fail", "much"),
        "mixed": ("inconclusive", "some"),
        "poor": ("pass", "little"),
        "not known": ("not counted", "not known"),
    }[grade.word]
    return Text.assemble((f"{MARKS[kind]} {word} ", STYLES[kind]), plain(grade.attribute) + number(grade))


def number(grade: Grade) -> str:
    """The number of a grade after its word; empty if it is not known."""
    return "" if math.isnan(grade.share) else f" {grade.share:.2f}"


def _lacks(ranked: RankedMethod) -> str:
    parts = []
    for need in ranked.unmet:
        if need.state == "missed" and need.grade is None:
            parts.append(need.words)
        elif need.state == "missed" and need.grade:
            parts.append(f"misses {plain(need.name)} ({need.grade.share:.2f})")
        else:
            parts.append(f"is not known for {plain(need.name)}")
    return " and ".join(parts)


def _against(difference: Difference, priorities: Priorities) -> str:
    if priorities.level(difference.attribute) == "unwanted":
        return f"less {plain(difference.attribute)}, {1 - difference.own:.2f} against {1 - difference.other:.2f}"
    return f"{plain(difference.attribute)}, {difference.own:.2f} against {difference.other:.2f}"


def _sacrificed(difference: Difference | None, priorities: Priorities) -> str:
    if difference is None:
        return "nothing: no method is better in anything you asked for"
    attribute, own, other = plain(difference.attribute), difference.own, difference.other
    if priorities.level(difference.attribute) == "unwanted":
        return f"it has {attribute}, {1 - own:.2f}, where {difference.method} has only {1 - other:.2f}"
    return f"{attribute}: {own:.2f}, where {difference.method} has {other:.2f}"


def _grade_cell(grade: Grade) -> Text:
    kind = BORROWED[grade.word]
    return Text(f"{MARKS[kind]} {grade.word}{number(grade)}", style=f"bold {STYLES[kind]}")


def _test_cell(evidence: Evidence | None, width: int) -> Text:
    if evidence is None:
        return Text("–", style="dim")
    mean = "–" if math.isnan(evidence.mean) else numbers.short(evidence.mean)
    word = f"{evidence.verdict} " if width >= _ROOMY else ""
    return Text(
        f"{MARKS[evidence.verdict]} {word}{mean}", style=f"not dim {STYLES[evidence.verdict]}" if evidence.weight else "dim"
    )


def _bullets(title: str, lines: Iterable[str]) -> Iterator[RenderableType]:
    lines = list(lines)
    if lines:
        yield Text(f"{title}:", style="bold")
        table = Table.grid(padding=(0, 1, 0, 0))
        for line in lines:
            table.add_row("·", Text(line))
        yield Padding(table, (0, 0, 0, 2))


def _wrapped(label: str, width: int) -> list[str]:
    """A label in a narrow column, broken where its settings begin."""
    name, bracket, settings = label.partition("(")
    parts = [name, *([bracket + settings] if bracket else [])]
    return [line for part in parts for line in textwrap.wrap(part, width)]


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
