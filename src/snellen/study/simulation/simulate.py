"""A simulation: simulated participants take part in a served study over HTTP, and log which answers were confirmed.

They behave as in `behaviour.py`, and read the study folder to find the item of a picture and its right answer. They send the
study's secret token for simulations with every request, so that the server marks them as simulated.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from snellen.errors import SnellenError
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.simulation.behaviour import Behaviour
from snellen.study.simulation.effect import Effect
from snellen.study.simulation.participant import Faults, ParticipantLog, SimulatedParticipant
from snellen.study.simulation.server import serving
from snellen.types import Rng


@dataclass(frozen=True)
class Simulation:
    """The result of a simulation."""

    logs: tuple[ParticipantLog, ...]
    times: dict[str, list[float]]
    """By kind of request, seconds; `step` is from sending an answer until the next page is loaded."""
    seconds: float
    """Of the whole simulation."""

    @property
    def arms(self) -> dict[str, Counter[str]]:
        """By arm, how many participants ended in which state."""
        states: dict[str, Counter[str]] = defaultdict(Counter)
        for log in self.logs:
            states[log.arm][log.state] += 1
        return dict(states)


@dataclass(frozen=True, kw_only=True)
class AnswerCheck:
    """The logs of participants compared with the stored answers: counts of answers."""

    confirmed: int
    """By the server, according to the logs."""
    stored: int
    """In the database."""
    lost: int
    """Confirmed, but not stored."""
    changed: int
    """Stored with other content than was sent first."""
    doubled: int
    """Answers that are stored more than once, and participants who were admitted more than once."""

    @property
    def clean(self) -> bool:
        """Whether nothing is lost, changed or doubled."""
        return not (self.lost or self.changed or self.doubled)


@dataclass(frozen=True)
class ServedStudy:
    """A served study that simulated participants can reach."""

    link: str
    store: AnswerStore | None
    """None where it cannot be read."""
    before: int = 0
    """Participants who were simulated earlier."""

    def compare(self, simulation: Simulation) -> AnswerCheck | None:
        """Compares the stored answers of these participants with their logs; None where the store cannot be read."""
        if self.store is None:
            return None
        participations = {
            participation.participant: participation for participation in self.store.participations(simulated=True)
        }
        stored = lost = changed = admitted = 0
        for log in simulation.logs:
            person = self.store.find(log.token) if log.token else None
            replies = participations[person.participant].replies if person is not None else {}
            admitted += person is not None
            stored += len(replies)
            lost += len(log.confirmed - set(replies))
            changed += sum(dict(reply.content) != log.sent.get(page) for page, reply in replies.items())
        repeated = self.store.reply_count(simulated=True) - sum(
            len(participation.replies) for participation in participations.values()
        )
        return AnswerCheck(
            confirmed=sum(len(log.confirmed) for log in simulation.logs),
            stored=stored,
            lost=lost,
            changed=changed,
            doubled=repeated + len(participations) - self.before - admitted,
        )


@contextmanager
def served_study(study: Study, link: str | None = None, database: str | None = None) -> Iterator[ServedStudy]:
    """A study that is served at `link` already, or without a link by a server of its own, which ends with the block."""
    if link is not None:
        if urlsplit(link).scheme not in ("http", "https") or not urlsplit(link).hostname:
            raise SnellenError(f"'{link}' is no address of a study; write it as http://127.0.0.1:8000")
        yield ServedStudy(link.rstrip("/"), None)
        return
    with serving(study.folder, database) as server, closing(AnswerStore.open(study, database)) as store:
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
    on_progress: Callable[[ParticipantLog], None] = lambda _: None,
) -> Simulation:
    """Lets simulated participants take part in a served study.

    Args:
        study: The study.
        link: Its address.
        participants: How many take part.
        effect: What is assumed of them.
        seed: Another seed draws other participants.
        concurrency: How many take part at the same time.
        think: Mean seconds before an answer; the time that is sent with it is drawn by `behaviour.py`.
        faults: How often participants misuse pages.
        on_progress: Called with the log of each participant who ends.
    """
    simulated = Behaviour.of(study, effect).participants(participants, seed)
    times: defaultdict[str, list[float]] = defaultdict(list)
    turns, clock = asyncio.Semaphore(concurrency), asyncio.get_running_loop().time

    async def take_part(row: int) -> ParticipantLog:
        async with turns:
            participant = SimulatedParticipant(
                study, link, simulated.participant(row), draw=Rng(seed, ()).shared(f"visit/{row}"),
                think=think, faults=faults, times=times,
            )  # fmt: skip
            try:
                await participant.take_part()
            finally:
                participant.browser.close()
            on_progress(participant.log)
            return participant.log

    began = clock()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(take_part(row)) for row in range(participants)]
    except ExceptionGroup as problems:
        # An error of one participant stops all of them; the first is reported.
        raise problems.exceptions[0] from None
    return Simulation(tuple(task.result() for task in tasks), dict(times), clock() - began)
