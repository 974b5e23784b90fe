"""A rehearsal: simulated participants who take part in a served study over HTTP, and keep book of what was confirmed.

They behave as `behaviour.py` says, and know the study folder, so that they know which item a picture belongs to and what is
right. They send the study's rehearsal mark with everything, so that the server marks them as simulated.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from snellen.errors import SnellenError
from snellen.study.answers.store import Store
from snellen.study.folder import Study
from snellen.study.simulation.behaviour import Behaviour
from snellen.study.simulation.effect import Effect
from snellen.study.simulation.participant import Faults, ParticipantLog, SimulatedParticipant
from snellen.study.simulation.server import serving
from snellen.types import Rng


@dataclass(frozen=True)
class Simulation:
    """What came of it."""

    ledgers: tuple[ParticipantLog, ...]
    times: dict[str, list[float]]
    """By kind of request, seconds; `step` is from sending an answer until the next page is there."""
    seconds: float

    @property
    def arms(self) -> dict[str, Counter[str]]:
        """By arm, how many participants ended in which state."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for ledger in self.ledgers:
            found[ledger.arm][ledger.state] += 1
        return dict(found)


@dataclass(frozen=True)
class AnswerCheck:
    """The books of participants against the store."""

    confirmed: int
    stored: int
    lost: int
    """Confirmed, but not stored."""
    changed: int
    """Stored otherwise than it was sent first."""
    doubled: int
    """Answers that are stored more than once, and participants who were admitted more than once."""

    @property
    def clean(self) -> bool:
        """Whether nothing is lost, changed or doubled."""
        return not (self.lost or self.changed or self.doubled)


@dataclass(frozen=True)
class ServedStudy:
    """Where a study is served, and its store where that can be read; `before` were simulated in it already."""

    link: str
    store: Store | None
    before: int = 0

    def compare(self, rehearsal: Simulation) -> AnswerCheck | None:
        """What the store holds of these participants; None where it cannot be read."""
        if self.store is None:
            return None
        participations = {visit.participant: visit for visit in self.store.participations(simulated=True)}
        stored = lost = changed = known = 0
        for ledger in rehearsal.ledgers:
            person = self.store.find(ledger.token) if ledger.token else None
            replies = participations[person.participant].replies if person is not None else {}
            known += person is not None
            stored += len(replies)
            lost += len(ledger.confirmed - set(replies))
            changed += sum(dict(reply.content) != ledger.sent.get(page) for page, reply in replies.items())
        twice = self.store.kept(simulated=True) - sum(len(visit.replies) for visit in participations.values())
        confirmed = sum(len(one.confirmed) for one in rehearsal.ledgers)
        return AnswerCheck(confirmed, stored, lost, changed, twice + len(participations) - self.before - known)


@contextmanager
def served_study(study: Study, link: str | None = None, database: str | None = None) -> Iterator[ServedStudy]:
    """A study that is served at a link already, or here until the block ends."""
    if link is not None:
        if urlsplit(link).scheme not in ("http", "https") or not urlsplit(link).hostname:
            raise SnellenError(f"'{link}' is no address of a study; write it as http://127.0.0.1:8000")
        yield ServedStudy(link.rstrip("/"), None)
        return
    with serving(study.folder, database) as server, closing(Store.open(study, database)) as store:
        yield ServedStudy(server.link, store, len(store.participations(simulated=True)))


async def simulate(
    study: Study,
    link: str,
    participants: int,
    effect: Effect,
    *,
    seed: int = 0,
    concurrency: int = 20,
    think: float = 0.0,
    faults: Faults = Faults(),  # noqa: B008  (frozen)
    tell: Callable[[ParticipantLog], None] = lambda _: None,
) -> Simulation:
    """Lets people take part in the study that is served at `link`, so many at a time.

    They think for `think` seconds per page on average; what they say they took is what `behaviour.py` draws.
    """
    people = Behaviour.of(study, effect).people(participants, seed)
    times: defaultdict[str, list[float]] = defaultdict(list)
    turns, clock = asyncio.Semaphore(concurrency), asyncio.get_running_loop().time

    async def one(row: int) -> ParticipantLog:
        async with turns:
            participant = SimulatedParticipant(
                study, link, people.replies(row), Rng(seed, ()).shared(f"visit/{row}"), think, faults, times
            )
            try:
                await participant.take_part()
            finally:
                participant.browser.close()
            tell(participant.ledger)
            return participant.ledger

    began = clock()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(row)) for row in range(participants)]
    except ExceptionGroup as problems:
        # What stops one stops all of them, and one sentence is enough.
        raise problems.exceptions[0] from None
    return Simulation(tuple(task.result() for task in tasks), dict(times), clock() - began)
