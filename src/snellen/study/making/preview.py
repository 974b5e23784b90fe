"""Tables for the terminal about a study that has not begun: its items, its groups, and the pages of participants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from snellen.charts.numbers import count, short
from snellen.study.duration import SECONDS, minutes
from snellen.study.folder import Study
from snellen.study.tasks import BANDS, find_task
from snellen.study.tasks.task import FURTHER_SECONDS


@dataclass(frozen=True)
class GroupPreview:
    """What the participants of one group see."""

    conditions: tuple[str, ...]
    """Names of the conditions, in their order."""
    pages: int
    """How many a participant sees."""
    trials: int
    """Without practice."""
    minutes: float
    """Estimated."""
    bytes: int
    """Of all pictures that one participant loads."""


def groups(study: Study) -> list[GroupPreview]:
    """Every group of the study, by its first participant."""
    sizes = {path.name: path.stat().st_size for path in (study.folder / "pictures").iterdir()}
    result = []
    for group, conditions in enumerate(study.protocol.groups):
        pages = study.pages(group, group)
        names = {
            picture.name
            for page in pages
            if page.item
            for picture in (*page.item.pictures[page.condition.name], *page.item.choices)
        }
        trials = sum(page.kind == "trial" and not page.practice for page in pages)
        loaded = sum(sizes[name] for name in names)
        result.append(
            GroupPreview(
                conditions=tuple(condition.name for condition in conditions),
                pages=len(pages),
                trials=trials,
                minutes=minutes(pages),
                bytes=loaded,
            )
        )
    return result


@dataclass(frozen=True)
class NewStudyTable:
    """Prints which images were chosen for a new study, and notes about them."""

    study: Study

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """A row per task, then sentences."""
        subject = self.study.subject
        yield Text(f"{subject['model']}, {count(subject['images'], 'image')} of the run '{subject['run']}'", style="dim")
        yield _item_table(self.study)
        yield Text(f"Confidence of the model: {_bands()}. Images with maps are counted.", style="dim")
        remarks = [
            remark
            for plan in self.study.protocol.tasks
            for remark in find_task(plan.task).remarks(subject.get("classes", {}))
        ]
        for remark in (*remarks, *subject.get("notes", ())):
            yield Text(f"· {remark}")


@dataclass(frozen=True)
class StudyPreview:
    """Prints what participants of a study will see, and who will be excluded."""

    study: Study

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """What was chosen, the groups, and the rules."""
        study, protocol = self.study, self.study.protocol
        yield Text(protocol.title, style="bold")
        yield from NewStudyTable(study).__rich_console__(console, options)
        yield Text("")
        yield _group_table(groups(study))
        yield Text(
            f"Minutes are estimates: a trial takes {SECONDS['trial']} s, {FURTHER_SECONDS} s more for each further picture, "
            f"and a questionnaire {SECONDS['scale']} s.",
            style="dim",
        )
        for rule in _rules(study):
            yield Text(f"· {rule}")


def _item_table(study: Study) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    names = [name for name, _ in BANDS]
    for column in ("task", "items", "images", "classes", "right", "wrong", *names):
        table.add_column(column, justify="left" if column == "task" else "right")
    rows = sorted(study.subject.get("chosen", ()), key=lambda row: row["practice"])
    for plan in study.protocol.tasks:
        for row in (row for row in rows if row["task"] == plan.task):
            cells = [str(row[column]) for column in ("items", "images", "classes", "right", "wrong", *names)]
            style = "dim" if row["practice"] else ""
            table.add_row("  practice" if row["practice"] else plan.task, *cells, style=style)
    return table


def _bands() -> str:
    low, middle = (f"{100 * end:.0f} %" for _, end in BANDS[:2])
    return f"low is below {low}, high from {middle} on"


def _group_table(groups: list[GroupPreview]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("group", "sees", "pages", "trials", "minutes", "pictures"):
        table.add_column(column, justify="left" if column == "sees" else "right")
    for number, group in enumerate(groups):
        cells = (str(group.pages), str(group.trials), f"{group.minutes:.0f}", _size(group.bytes))
        table.add_row(str(number), ", ".join(group.conditions), *cells)
    return table


def _size(content: int) -> str:
    return f"{content / 1e3:.0f} kB" if content < 1e6 else f"{short(content / 1e6)} MB"


def _rules(study: Study) -> Iterator[str]:
    protocol, rule = study.protocol, study.protocol.exclude
    if protocol.attention:
        yield f"excluded: participants who miss more than {rule.missed} of {count(protocol.attention, 'attention check')}"
    yield f"excluded: participants who take less than {short(rule.seconds)} s per trial, as a median"
    yield "excluded: participants who do not finish, or withdraw"
    if protocol.people is None:
        yield "no new participant is admitted after you close the study"
    else:
        yield f"no new participant is admitted after {protocol.people} have finished"
    questionnaires = ", ".join(f"{name} ({scale.items} statements)" for name, scale in study.scales.items())
    yield f"questionnaires: {questionnaires or 'none'}; languages: {', '.join(protocol.languages)}"
