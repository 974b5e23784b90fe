"""How a study is going, for a terminal."""

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
from snellen.study.answers.store import Openness, Store
from snellen.study.folder import Study

LINGERING = (
    "the database's files still hold a copy of somebody who was erased, because another program is reading them or the disk "
    "is full; end a backup or an open database shell, and ask for the status again, which removes it"
)


@dataclass(frozen=True)
class StudyStatus:
    """What rich prints of a study that runs: whether it is open, how many of each group are where, and where people left."""

    study: Study
    state: Openness
    real: Overview
    simulated: Overview
    lingering: bool

    @staticmethod
    def of(study: Study, store: Store) -> StudyStatus:
        """As things stand now."""
        real, simulated = (
            overview(
                study,
                store.participations(simulated=one),
                store.recruited(simulated=one),
                simulated=one,
                erased=store.erased(simulated=one),
                pages=study.pages,
                now=store.now(),
            )
            for one in (False, True)
        )
        return StudyStatus(study, store.state, real, simulated, store.lingering)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The study in a line, and a table of its groups; simulated participants, if any, in a table of their own."""
        people = self.study.protocol.people
        wanted = f" of {people} wanted" if people is not None else ""
        yield Text(self.study.protocol.title, style="bold")
        yield Text(f"{self.state}; {self.real.total.finished} finished{wanted}")
        yield from _people(self.real)
        if self.simulated.total.begun or self.simulated.erased:
            yield Text("\nSIMULATED participants, who are nobody:", style="yellow")
            yield from _people(self.simulated)
        if self.lingering:
            yield Text(LINGERING, style="yellow")


def switch(folder: Path, url: str | None, state: Openness) -> str:
    """Opens, pauses or closes a study, and says how many are inside."""
    study = Study.read(folder)
    with closing(Store.open(study, url)) as store:
        store.set_state(state)
        inside = StudyStatus.of(study, store).real.total.active
    return f"{state}; {count(inside, 'participant')} inside"


def _people(found: Overview) -> Iterator[RenderableType]:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for one in ("group", "sees", "begun", "active", "finished", "excluded", "left"):
        table.add_column(one, justify="left" if one == "sees" else "right")
    for place, group in enumerate(found.groups):
        table.add_row(str(place), group.name, *_cells(group))
    table.add_row("", "all", *_cells(found.total), style="bold")
    yield table
    if found.total.dropped:
        places = (f"{one.people} at {f'{one.kind} ({one.about})' if one.about else one.kind}" for one in found.leaving)
        yield Text(f"left: {', '.join(places)}; {found.withdrawn} of them withdrew")
    if found.flags:
        yield Text(f"{count(len(found.flags), 'remark')} on data quality; the experimenter's page lists them")
    if found.erased:
        yield Text(f"{count(found.erased, 'participant')} erased, in no number above")


def _cells(group: GroupCount) -> tuple[str, ...]:
    return tuple(map(str, (group.begun, group.active, group.finished, group.excluded, group.dropped)))
