"""The progress of a study, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from snellen.charts.numbers import count
from snellen.study.answers.overview import GroupCount, Overview, overview
from snellen.study.answers.store import AnswerStore, Openness
from snellen.study.folder import Study

LINGERING = (
    "the database's files still hold a copy of an erased participant, because another program is reading them or the disk "
    "is full; end a backup or an open database shell, and ask for the status again, which removes it"
)


@dataclass(frozen=True)
class StudyStatus:
    """Prints whether the study is open, participants per group, and at which pages participants left."""

    study: Study
    state: Openness
    real: Overview
    simulated: Overview
    lingering: bool
    """Whether the database's files still hold data of an erased participant."""

    @staticmethod
    def of(study: Study, store: AnswerStore) -> StudyStatus:
        """The present status."""
        real, simulated = (
            overview(
                study,
                store.participations(simulated=flag),
                store.recruited(simulated=flag),
                simulated=flag,
                erased=store.erased(simulated=flag),
                pages=study.pages,
                now=store.now(),
            )
            for flag in (False, True)
        )
        return StudyStatus(study=study, state=store.state, real=real, simulated=simulated, lingering=store.lingering)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The study in a line, and a table of its groups; simulated participants, if any, in a table of their own."""
        people = self.study.protocol.people
        goal = f" of {people} wanted" if people is not None else ""
        yield Text(self.study.protocol.title, style="bold")
        yield Text(f"{self.state}; {self.real.total.finished} finished{goal}")
        yield from _people(self.real)
        if self.simulated.total.begun or self.simulated.erased:
            yield Text("\nSIMULATED participants; nobody took part:", style="yellow")
            yield from _people(self.simulated)
        if self.lingering:
            yield Text(LINGERING, style="yellow")


def switch(folder: Path, url: str | None, state: Openness) -> str:
    """Opens, pauses or closes a study, and says how many participants have begun and not finished."""
    study = Study.read(folder)
    with closing(AnswerStore.open(study, url)) as store:
        store.set_state(state)
        inside = StudyStatus.of(study, store).real.total.active
    return f"{state}; {count(inside, 'participant')} inside"


def _people(progress: Overview) -> Iterator[RenderableType]:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("group", "sees", "begun", "active", "finished", "excluded", "left"):
        table.add_column(column, justify="left" if column == "sees" else "right")
    for place, group in enumerate(progress.groups):
        table.add_row(str(place), group.name, *_cells(group))
    table.add_row("", "all", *_cells(progress.total), style="bold")
    yield table
    if progress.total.dropped:
        places = (
            f"{page.people} at {f'{page.kind} ({page.about})' if page.about else page.kind}"
            for page in progress.dropout_pages
        )
        yield Text(f"left: {', '.join(places)}; {progress.withdrawn} of them withdrew")
    if progress.flags:
        yield Text(f"{count(len(progress.flags), 'remark')} on data quality; the experimenter's page lists them")
    if progress.erased:
        yield Text(f"{count(progress.erased, 'participant')} erased, in no number above")


def _cells(group: GroupCount) -> tuple[str, ...]:
    return tuple(map(str, (group.begun, group.active, group.finished, group.excluded, group.dropped)))
