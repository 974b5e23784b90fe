from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from tests.study.planted_study import plant
from typer.testing import CliRunner

from snellen.cli.study import app
from snellen.errors import SnellenError
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.participation import collect_data
from snellen.study.simulation.behaviour import Behaviour
from snellen.study.simulation.browser import Browser, PageView
from snellen.study.simulation.effect import Effect, ParticipantMix
from snellen.study.simulation.participant import Faults
from snellen.study.simulation.server import Server, serving
from snellen.study.simulation.simulate import AnswerCheck, ServedStudy, Simulation, served_study, simulate
from snellen.study.simulation.summary_table import SimulationSummary

pytestmark = pytest.mark.slow

PEOPLE, SEED = 12, 7
EFFECT = Effect({"all": {"grad-cam": 0.6}}, mix=ParticipantMix(leaving=0.0, inattentive=0.2))
TASKS = [
    {"task": name, "items": 3, "practice": 1} for name in ("betting", "class-accuracy", "forward-selection", "sharpness")
]


@dataclass(frozen=True)
class Played:
    """A study in which twelve have taken part, while its server was killed once; it is served again."""

    study: Study
    server: Server
    store: AnswerStore
    simulation: Simulation
    check: AnswerCheck | None


async def _played(study: Study, server: Server, store: AnswerStore) -> Simulation:
    async def kill() -> None:
        while await asyncio.to_thread(store.reply_count, simulated=True) < 80:
            await asyncio.sleep(0.02)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)

    killing = asyncio.create_task(kill())
    faults = Faults(reload=0.1, double=0.15, back=0.15)
    simulation = await simulate(study, server.link, PEOPLE, EFFECT, seed=SEED, concurrency=6, faults=faults)
    await killing
    return simulation


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    study, _ = plant(tmp_path_factory.mktemp("simulate") / "s", tasks=TASKS)
    with serving(study.folder) as server, closing(AnswerStore.open(study)) as store:
        simulation = asyncio.run(_played(study, server, store))
        yield Played(study, server, store, simulation, ServedStudy(server.link, store).compare(simulation))


def test_nothing_confirmed_is_lost_changed_or_doubled(played: Played) -> None:
    check = played.check
    assert check is not None
    assert check.clean
    assert check.confirmed <= check.stored
    assert sum(log.unanswered for log in played.simulation.logs) > 0  # the server was really away
    assert [words for log in played.simulation.logs for words in log.errors] == []
    assert {log.state for log in played.simulation.logs} == {"finished"}


def test_every_answer_is_the_one_that_was_meant(played: Played) -> None:
    """Compared with what the schedule says, and not with what the simulation recognised on the pages."""
    people = Behaviour.of(played.study, EFFECT).participants(PEOPLE, SEED)
    participations = {
        participation.participant: participation for participation in played.store.participations(simulated=True)
    }
    compared: Counter[str] = Counter()
    for log in played.simulation.logs:
        person = played.store.find(log.token)
        assert person is not None
        replies, participant, turn = participations[person.participant].replies, people.participant(log.row), 0
        pages = played.study.pages(person.group, person.number)
        assert list(replies) == [page.id for page in pages]
        for page in pages:
            assert dict(replies[page.id].content) == participant.content(page, turn)
            assert replies[page.id].seconds == pytest.approx(participant.seconds(page), abs=0.001)
            turn += page.kind == "attention"
            compared[page.kind] += 1
    assert compared["trial"] > 150
    assert compared["attention"] == 2 * PEOPLE
    assert compared["scale"] == 2 * PEOPLE - 4  # four saw no maps to be satisfied with


def test_arms_are_balanced_and_all_are_marked_and_none_is_real(played: Played) -> None:
    participations = played.store.participations(simulated=True)[:PEOPLE]
    assert Counter(participation.group for participation in participations) == {0: 4, 1: 4, 2: 4}
    assert {arm: sum(counts.values()) for arm, counts in played.simulation.arms.items()} == dict.fromkeys(
        played.study.protocol.arms, 4
    )
    assert all(participation.simulated for participation in participations)
    tables = collect_data(played.study, participations, simulated=True)
    assert tables.simulated
    assert tables.participants["simulated"].all()
    real = collect_data(played.study, played.store.participations(simulated=False), simulated=False)
    assert real.participants.empty
    assert real.answers.empty


async def _consent(link: str, headers: dict[str, str]) -> int:
    browser = Browser(link, headers)
    try:
        shown = PageView.of((await browser.get("/", "arrive")).body)
        return (await browser.post("/consent", list(shown.fields.items()), "consent")).status
    finally:
        browser.close()


def test_a_wrong_mark_makes_nobody_simulated(played: Played) -> None:
    before = len(played.store.participations(simulated=True))
    for headers in ({"X-Snellen-Rehearsal": "0" * 64}, {"X-Snellen-Rehearsal": ""}, {}):
        assert asyncio.run(_consent(played.server.link, headers)) == 303
    assert len(played.store.participations(simulated=True)) == before
    assert len(played.store.participations(simulated=False)) == 3
    for person in played.store.participations(simulated=False):
        assert played.store.erase(person.participant)


def test_another_study_is_left_alone(played: Played, tmp_path: Path) -> None:
    other, _ = plant(tmp_path / "other")
    before = len(played.store.participations(simulated=False))
    with pytest.raises(SnellenError, match=r"is not '.*other'"):
        asyncio.run(simulate(other, played.server.link, 3, EFFECT))
    assert len(played.store.participations(simulated=False)) == before
    with pytest.raises(SnellenError, match="no address"), served_study(other, "localhost:8000"):
        pass


def test_the_books_find_what_is_lost_and_what_is_changed(played: Played) -> None:
    """The comparison itself must be able to fail."""
    log = played.simulation.logs[0]
    log.confirmed.add("p999")
    page = next(iter(log.sent))
    kept, log.sent[page] = log.sent[page], {"value": -1}
    try:
        others = len(played.store.participations(simulated=True)) - PEOPLE
        check = ServedStudy(played.server.link, played.store, before=others - 1).compare(played.simulation)
    finally:
        log.confirmed.discard("p999")
        log.sent[page] = kept
    assert check is not None
    assert (check.lost, check.changed, check.doubled) == (1, 1, 1)
    assert not check.clean


def test_the_command_simulates_at_a_link_and_says_what_came_of_it(played: Played) -> None:
    before = len(played.store.participations(simulated=True))
    words = [
        "simulate",
        str(played.study.folder),
        "--participants",
        "3",
        "--url",
        f"{played.server.link}/",
        "--effect",
        "none",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "3 simulated participants" in result.output
    assert "--simulated" in result.output
    assert len(played.store.participations(simulated=True)) == before + 3


def test_a_simulation_is_told_with_arms_times_and_books(played: Played) -> None:
    with (console := Console(width=100)).capture() as shown:
        console.print(SimulationSummary(played.simulation, played.check))
    assert "guided-backprop" in shown.get()
    assert "answer until next page" in shown.get()
    assert "0 lost, 0 changed, 0 doubled" in shown.get()
