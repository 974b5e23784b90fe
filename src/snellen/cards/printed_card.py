"""A card for a terminal: ten attributes, each with its grade, its tests, and the verdicts of papers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from snellen.cards.card_view import NEEDS, basis_of_traits
from snellen.cards.grades import BORROWED
from snellen.cards.markdown_format import CHAPTERS, PEOPLE, MarkdownCard
from snellen.cards.markdown_writer import in_order
from snellen.cards.people import categories, lead, study_line
from snellen.cards.printed_choice import number
from snellen.cards.schema import METHODOLOGY, Card, Evidence, Priority
from snellen.charts import numbers
from snellen.charts.verdict_marks import MARKS, STYLES, legend

_WIDEST = 120


def printable(card: Card | MarkdownCard, notes: Sequence[str] = ()) -> PrintedCard | PrintedMarkdownCard:
    """What rich prints for a card of either kind; `notes` are warnings about its run."""
    return PrintedCard(card, notes) if isinstance(card, Card) else PrintedMarkdownCard(card)


class PrintedCard:
    """What rich prints for a card: `Console().print(PrintedCard(card))`."""

    def __init__(self, card: Card, notes: Sequence[str] = ()) -> None:
        self._card, self._notes = card, notes

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The head of the card, then its attributes under the three headings."""
        card, room = self._card, min(options.max_width, _WIDEST)
        kind = " · a control, which knows nothing about the model" if card.control else ""
        yield Text.assemble("\n", (card.prose.title, "bold"), (f"  {card.method}{kind}", "dim"))
        if card.source:
            yield Text(f"{card.source.model} · {card.source.data} · {card.source.settings}", style="dim")
        else:
            yield Text("No run: this holds for every model. Give --run for what was measured.", style="dim")
        yield Padding(Text(card.prose.summary.replace("\n", " ")), (1, max(0, options.max_width - room), 0, 0))
        for category, attributes in categories(card.grades).items():
            yield Text(f"\n{category.upper()}", style="bold dim")
            if category == "methodology":
                needs = ", ".join(NEEDS.get(need, need) for need in card.needs) or "only the model's outputs"
                yield Text(f"{basis_of_traits(card).capitalize()}: {card.claims}. It needs {needs}.")
            for key, (title, question) in attributes.items():
                yield from self._attribute(key, title, question, room)  # type: ignore[arg-type]
        yield Text("")
        yield from self._words()

    def _attribute(self, key: Priority, title: str, question: str, room: int) -> Iterator[RenderableType]:
        card, grade = self._card, self._card.grades[key]
        kind = BORROWED[grade.word]
        head = Text(f"{MARKS[kind]} {grade.word}{number(grade)}", style=STYLES[kind])
        yield _row(title, head, grade.reason, question, room)
        if key in METHODOLOGY:
            return
        lines = [_tested(evidence) if evidence.own else _published(evidence) for evidence in in_order(card, key)]
        if lines:
            yield _table(lines, room)

    def _words(self) -> Iterator[Text]:
        yield legend() + Text("↑ higher is better, ↓ lower is better")
        yield from map(Text, self._notes)
        if self._card.source and not self._card.control and not set(METHODOLOGY[:-1]) & set(self._card.findings):
            yield Text("`snellen cards` with this run measures determinism, settings, needs and cost.", style="dim")
        for measured, other in self._card.disagreements:
            yield Text(
                f"{measured.test}: {measured.verdict} here, but {other.verdict} by {other.source.name}.", style="bold"
            )


class PrintedMarkdownCard:
    """The same for a card that was read from Markdown."""

    def __init__(self, card: MarkdownCard) -> None:
        self._card = card

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The head of the card, then its sections."""
        card, room = self._card, min(options.max_width, _WIDEST)
        aside = max(0, options.max_width - room)
        yield Text.assemble("\n", (card.title, "bold"), (f"  {', '.join(card.aliases)}", "dim"))
        for text in (card.developers, card.shared_by):
            if text:
                yield Text(text.replace("\n", " "), style="dim")
        yield Padding(Text(_plain(card.summary)), (1, aside, 0, 0))
        for chapter, headings in CHAPTERS.items():
            yield Text(f"\n{chapter.upper()}", style="bold dim")
            if introduction := card.methodology if chapter == "Methodology" else card.chapters.get(chapter):
                yield Padding(Text(_plain(introduction)), (0, aside, 0, 0))
            for heading, attribute in headings.items():
                yield Text(heading, style="bold")
                section = " ".join(filter(None, [card.sections.get(attribute, ""), card.measured.get(attribute, "")]))
                lines = [
                    (_mark(result.verdict), Text(result.test), Text(""), _plain(result.sentence))
                    for result in card.of(attribute)
                ]
                if section or not lines:
                    nothing = "nothing is said" if attribute in METHODOLOGY else "not tested"
                    yield Padding(Text(_plain(section) or nothing, style="" if section else "dim"), (0, aside, 0, 2))
                if lines:
                    yield _table(lines, room)
        if card.of("people") or "people" in card.sections:
            yield Text(f"\n{PEOPLE.upper()}", style="bold dim")
            if introduction := card.sections.get("people"):
                yield Padding(Text(_plain(introduction)), (0, aside, 0, 0))
            yield _table(
                [
                    (_mark(result.verdict), Text(result.test), Text(""), _plain(result.sentence))
                    for result in card.of("people")
                ],
                room,
            )
        if card.references or card.implementations or card.example or card.picture:
            yield Text("\nORIGIN", style="bold dim")
        for link in (*card.references, *card.implementations):
            yield Text(" ".join(filter(None, [f"{link.role}:" if link.role else "", link.name, link.url])))
        if card.example or card.picture:
            where = f" ({card.picture}: {card.caption})" if card.picture else ""
            yield Text(f"Example: {_plain(card.example)}{where}")
        works = [
            numbers.count(len(card.references), "reference"),
            numbers.count(len(card.implementations), "implementation"),
        ]
        yield Text("")
        yield Text(", ".join([*works, numbers.count(len(card.results), "result")]), style="dim")
        yield legend() + Text("↑ higher is better, ↓ lower is better")


def _plain(text: str) -> str:
    r"""Markdown as plain text: links by their names, and powers of ten, which public cards write in TeX, as 1e-2.

    >>> _plain("takes $1\\mathrm{e}{-2}$ s on a [small net](https://example.org/a)")
    'takes 1e-2 s on a small net'
    """
    text = re.sub(r"(?<!!)\[([^\[\]]+)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)", r"\1", " ".join(text.split()))
    return re.sub(r"\$(\d+)\\mathrm\{e\}\{(-?\d+)\}\$", r"\1e\2", text)


def _row(title: str, grade: Text, reason: str, question: str, room: int) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.width = room
    for width in (18, 14):
        grid.add_column(width=width)
    grid.add_column(ratio=1)
    measured = not grade.plain.endswith("not known") or reason != "nothing was measured"
    words = (
        Text(reason.replace("\n", " ")) if measured else Text(f"{question.capitalize()} Nothing was measured.", style="dim")
    )
    grid.add_row(Text(title, style="bold"), grade, words)
    return grid


def _table(lines: Sequence[tuple[Text, Text, Text, str]], room: int) -> Padding:
    """Verdict, test, number and words; the number's column is left out where no line has one."""
    numbered = any(line[2].plain for line in lines)
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.width = room - 2
    grid.add_column(width=14)
    grid.add_column(width=max(16, min(26, room // 5)))
    if numbered:
        grid.add_column(width=17 if room < 100 else 26)
    grid.add_column(ratio=1)
    for mark, test, value, words in lines:
        cells = [mark, test, value] if numbered else [mark, test]
        grid.add_row(*cells, Text(words.replace("\n", " "), style="dim" if mark.plain.startswith("○") else ""))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def _tested(evidence: Evidence) -> tuple[Text, Text, Text, str]:
    mean = Text(
        f"{numbers.short(evidence.mean)} {numbers.interval(evidence.low, evidence.high, evidence.n)}" if evidence.n else ""
    )
    words = (
        _joined(evidence.reason, lead(evidence), evidence.advice, study_line(evidence))
        if evidence.by_people
        else _joined(evidence.reason, evidence.note, evidence.advice, *_doubts(evidence))
    )
    return _mark(evidence.verdict), Text(f"{evidence.test} {evidence.arrow}"), mean, words


def _doubts(evidence: Evidence) -> list[str]:
    return [f"counts {evidence.weight:.2f} of 1"] if evidence.verdict != "not counted" and evidence.weight < 0.9 else []


def _published(evidence: Evidence) -> tuple[Text, Text, Text, str]:
    return (
        _mark(evidence.verdict),
        Text(evidence.test),
        Text("in the literature", style="dim"),
        f"{evidence.source.name.split(' (')[0]}: {evidence.reason}",
    )


def _mark(verdict: str) -> Text:
    return Text(f"{MARKS[verdict]} {verdict}", style=STYLES[verdict])


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))
