from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, event, text
from tests.study import crowds, postgres
from tests.study.crowds import admit
from tests.study.planted_study import plant

from snellen.study.answers.store import LONGEST, AnswerStore, ClosedError, Participant
from snellen.study.answers.tables import METADATA
from snellen.study.folder import Study
from snellen.study.participation import collect_data


class Clock:
    """A time that passes when it is told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def pass_minutes(self, minutes: float) -> None:
        self.time += timedelta(minutes=minutes)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return plant(tmp_path / "study", recruiting=["PROLIFIC_PID"])[0]


@pytest.fixture
def store(study: Study, url: str, clock: Clock) -> Iterator[AnswerStore]:
    opened = AnswerStore.open(study, url, now=clock)
    yield opened
    opened.close()


def finish(store: AnswerStore, person: Participant) -> None:
    assert store.reply(person, "p000", {}, 1.0, last=True)


def groups(store: AnswerStore, *, simulated: bool = False) -> Counter[int]:
    return Counter(participation.group for participation in store.participations(simulated=simulated))


def spread(counts: Counter[int]) -> int:
    return max(counts[group] for group in range(3)) - min(counts[group] for group in range(3))


def test_what_a_participant_did_is_read_back_as_it_was(store: AnswerStore, study: Study, clock: Clock) -> None:
    person = admit(store, "a")
    assert (person.number, person.language, person.simulated, person.state) == (0, "en", False, "started")
    assert store.find("a") == person
    assert store.find("b") is None
    clock.pass_minutes(1)
    odd = {"value": 3, "beside": None, "chosen": [1, 2], "text": "ü ☃ \x00 \ud800 'quoted' \"twice\" 100 %"}
    assert store.reply(person, "p000", odd, 1.25, last=False)
    clock.pass_minutes(1)
    assert store.reply(person, "p001", {}, 0.5, last=True)
    replies = store.replies(person)
    assert list(replies) == ["p000", "p001"]
    assert replies["p000"].content == odd
    assert replies["p000"].seconds == 1.25
    assert replies["p000"].at == "2026-03-01T00:01:00.000+00:00"
    (visit,) = store.participations(simulated=False)
    assert (visit.participant, visit.number, visit.group, visit.state) == (person.participant, 0, person.group, "finished")
    assert (visit.started, visit.finished) == ("2026-03-01T00:00:00.000+00:00", "2026-03-01T00:02:00.000+00:00")
    assert visit.replies == replies
    person_now = store.find("a")
    assert person_now is not None
    assert person_now.state == "finished"
    assert len(collect_data(study, store.participations(simulated=False), simulated=False).participants) == 1


def test_names_codes_and_orders_of_participants_are_their_own(store: AnswerStore) -> None:
    people = [admit(store, f"t{number}") for number in range(30)]
    assert [person.number for person in people] == list(range(30))
    assert len({person.participant for person in people}) == len({person.code for person in people}) == 30


def test_whoever_comes_twice_is_the_same_participant_also_when_the_study_is_closed(store: AnswerStore) -> None:
    person = admit(store, "a")
    store.set_state("closed")
    assert admit(store, "a") == person
    assert len(store.participations(simulated=False)) == 1


def test_only_the_hash_of_a_token_and_only_named_recruiting_ids_are_kept(store: AnswerStore) -> None:
    person = admit(store, "the-token-itself", PROLIFIC_PID="\x00\r\n" + "x" * 999, EMAIL="somebody@example.org")
    assert store.recruited(simulated=False) == {person.participant: {"PROLIFIC_PID": "x" * LONGEST}}
    everything = dump(store)
    assert "the-token-itself" not in everything
    assert "example.org" not in everything


def dump(store: AnswerStore) -> str:
    with store.database.reading() as connection:
        return "\n".join(str(tuple(row)) for table in METADATA.sorted_tables for row in connection.execute(table.select()))


def test_a_page_answered_many_times_at_once_has_the_first_answer_only(store: AnswerStore) -> None:
    person = admit(store, "a")
    for page in range(5):
        gate = threading.Barrier(16)

        def send(value: int, page: int = page, gate: threading.Barrier = gate) -> bool:
            gate.wait()
            return store.reply(person, f"p{page:03d}", {"value": value}, 1.0, last=False)

        with ThreadPoolExecutor(16) as pool:
            stored = list(pool.map(send, range(16)))
        assert stored.count(True) == 1
        assert store.replies(person)[f"p{page:03d}"].content == {"value": stored.index(True)}
    assert len(store.participations(simulated=False)[0].replies) == 5


def test_the_last_answer_finishes_and_nothing_comes_after_it(store: AnswerStore) -> None:
    person = admit(store, "a")
    finish(store, person)
    assert not store.reply(person, "p001", {}, 1.0, last=False)
    store.withdraw(person)
    assert store.participations(simulated=False)[0].state == "finished"
    assert list(store.replies(person)) == ["p000"]


def test_who_withdrew_answers_no_more_and_keeps_what_was_answered(store: AnswerStore) -> None:
    person = admit(store, "a")
    assert store.reply(person, "p000", {"value": 1}, 1.0, last=False)
    store.withdraw(person)
    store.withdraw(person)
    assert not store.reply(person, "p001", {}, 1.0, last=True)
    (visit,) = store.participations(simulated=False)
    assert (visit.state, visit.finished, list(visit.replies)) == ("withdrawn", "", ["p000"])
    assert dump(store).count("'withdrawn'") == 2  # the participant's row and one event


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(store: AnswerStore, wrong: float) -> None:
    person = admit(store, "a")
    with pytest.raises(ValueError, match="no time"):
        store.reply(person, "p000", {}, wrong, last=False)
    with pytest.raises(ValueError, match="JSON"):
        store.reply(person, "p000", {"value": wrong}, 1.0, last=False)
    assert not store.replies(person)


def test_without_drop_out_every_block_holds_every_group_once_in_changing_order(store: AnswerStore) -> None:
    order = [admit(store, f"t{number}").group for number in range(30)]
    blocks = [tuple(order[start : start + 3]) for start in range(0, 30, 3)]
    assert all(sorted(block) == [0, 1, 2] for block in blocks)
    assert len(set(blocks)) > 2


def test_two_hundred_arriving_at_once_leave_the_groups_balanced(store: AnswerStore) -> None:
    crowds.arrive(store, [f"t{number}" for number in range(200)], 32)
    counts = groups(store)
    assert counts.total() == 200
    assert spread(counts) <= 1
    assert sorted(participation.number for participation in store.participations(simulated=False)) == list(range(200))


@pytest.mark.slow
def test_arriving_at_several_servers_at_once_leaves_the_groups_balanced(study: Study, url: str) -> None:
    # Half of the people try two servers, and the tables are made by whichever server comes first.
    names = [f"t{number}" for number in range(200)]
    gate = crowds.PROCESSES.Barrier(3)
    servers = [
        crowds.PROCESSES.Process(target=crowds.serve_arrivals, args=(study.folder, url, some, gate))
        for some in (names[:100], names[50:150], names[100:])
    ]
    for server in servers:
        server.start()
    for server in servers:
        server.join()
        assert server.exitcode == 0
    store = AnswerStore.open(study, url)
    counts = groups(store)
    store.close()
    assert counts.total() == 200
    assert spread(counts) <= 1


def test_two_servers_that_open_a_new_database_at_once_both_succeed(study: Study, url: str) -> None:
    both = threading.Barrier(2)

    def meet(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
        if statement.startswith("INSERT INTO study"):
            with suppress(threading.BrokenBarrierError):
                both.wait(timeout=0.3)  # for another server that also saw no row; there should be none

    event.listen(Engine, "before_cursor_execute", meet)
    try:
        with ThreadPoolExecutor(2) as pool:
            stores = list(pool.map(lambda _: AnswerStore.open(study, url), range(2)))
    finally:
        event.remove(Engine, "before_cursor_execute", meet)
    assert [store.state for store in stores] == ["open", "open"]
    for store in stores:
        store.close()


def test_answers_survive_the_sudden_death_of_the_server(study: Study, url: str) -> None:
    receiver, sender = crowds.PROCESSES.Pipe(duplex=False)
    server = crowds.PROCESSES.Process(target=crowds.serve_answers, args=(study.folder, url, sender))
    server.start()
    sender.close()
    pages = [receiver.recv() for _ in range(40)]
    server.kill()
    with suppress(EOFError):
        while True:
            pages.append(receiver.recv())
    server.join()
    store = AnswerStore.open(study, url)
    person = store.find("only")
    assert person is not None
    replies = store.replies(person)
    store.close()
    assert list(replies) == [f"p{page:05d}" for page in range(len(replies))]
    assert len(replies) in (len(pages), len(pages) + 1)  # one more may have been kept before it could be told


def test_the_place_of_who_left_is_given_to_the_next(store: AnswerStore, clock: Clock) -> None:
    people = [admit(store, f"t{number}") for number in range(6)]
    store.withdraw(people[1])
    assert admit(store, "after withdrawal").group == people[1].group
    assert store.erase(people[4].participant)
    assert admit(store, "after erasure").group == people[4].group
    clock.pass_minutes(59)
    for number in (0, 2, 3):
        finish(store, people[number])
    clock.pass_minutes(2)
    # Only number 5 and the two late-comers said nothing for an hour.
    silent = {people[5].group, people[1].group, people[4].group}
    assert {admit(store, f"late {number}").group for number in range(3)} == silent
    # Who comes back is let in and counts.
    assert store.reply(people[5], "p000", {}, 1.0, last=True)
    assert (
        Counter(
            participation.group
            for participation in store.participations(simulated=False)
            if participation.state == "finished"
        )[people[5].group]
        == 2
    )


def test_groups_of_those_who_finish_stay_balanced_under_drop_out(store: AnswerStore, clock: Clock) -> None:
    # In group 0 half of the people leave, in group 1 nearly nobody; ten are on the way at a time.
    draw = np.random.default_rng(0)
    leaving = (0.5, 0.05, 0.25)
    inside: list[Participant] = []
    for number in range(150):
        clock.pass_minutes(5)
        inside.append(admit(store, f"t{number}"))
        if len(inside) > 10:
            person = inside.pop(0)
            if draw.random() > leaving[person.group]:
                finish(store, person)
            elif draw.random() < 0.5:
                store.withdraw(person)
    admitted = groups(store)
    done = Counter(
        participation.group for participation in store.participations(simulated=False) if participation.state == "finished"
    )
    assert done.total() > 80
    assert spread(admitted) > 15  # so many more had to be admitted to the group that people leave
    assert spread(done) <= 10  # of the ten who are on the way, some will leave
    for person in inside:
        finish(store, person)
    clock.pass_minutes(61)
    for number in range(12):
        finish(store, admit(store, f"end {number}"))
    assert (
        spread(
            Counter(
                participation.group
                for participation in store.participations(simulated=False)
                if participation.state == "finished"
            )
        )
        <= 1
    )


def test_real_and_simulated_participants_are_numbered_assigned_and_listed_apart(store: AnswerStore) -> None:
    order = [admit(store, f"r{number}").group for number in range(6)]
    rehearsed = [admit(store, f"s{number}", simulated=True, PROLIFIC_PID="s") for number in range(6)]
    assert [person.number for person in rehearsed] == list(range(6))
    assert sorted(person.group for person in rehearsed) == sorted(order)
    assert {participation.simulated for participation in store.participations(simulated=False)} == {False}
    assert {participation.simulated for participation in store.participations(simulated=True)} == {True}
    assert set(store.recruited(simulated=True)) == {person.participant for person in rehearsed}
    store.erase(rehearsed[0].participant)
    assert (store.erased(), store.erased(simulated=True)) == (0, 1)


@pytest.mark.parametrize("state", ["paused", "closed"])
def test_a_paused_or_closed_study_admits_nobody_but_who_is_inside_may_finish(store: AnswerStore, state: Any) -> None:
    person = admit(store, "a")
    assert store.state == "open"
    store.set_state(state)
    assert store.state == state
    with pytest.raises(ClosedError) as refused:
        admit(store, "b")
    assert refused.value.state == state
    finish(store, person)
    store.set_state("open")
    assert admit(store, "b").number == 1


def test_a_full_study_admits_the_next_when_somebody_leaves(tmp_path: Path, url: str, clock: Clock) -> None:
    store = AnswerStore.open(plant(tmp_path / "study", people=3)[0], url, now=clock)
    people = [admit(store, f"t{number}") for number in range(3)]
    with pytest.raises(ClosedError) as refused:
        admit(store, "d")
    assert refused.value.state == "full"
    assert admit(store, "rehearsal", simulated=True).number == 0
    store.withdraw(people[0])
    finish(store, admit(store, "d"))
    finish(store, people[1])
    clock.pass_minutes(61)
    finish(store, admit(store, "e"))
    clock.pass_minutes(1000)
    with pytest.raises(ClosedError):
        admit(store, "f")
    assert store.reply(people[2], "p000", {}, 1.0, last=True)
    store.close()


def test_erasure_leaves_a_place_and_nothing_else(store: AnswerStore) -> None:
    person = admit(store, "a", PROLIFIC_PID="the-recruit")
    other = admit(store, "b")
    assert store.reply(person, "p000", {"value": 1}, 1.0, last=False)
    assert store.erase(person.participant)
    assert not store.erase(person.participant)
    assert not store.erase("nobody")
    assert not store.erase("\x00'; --")
    assert store.find("a") is None
    assert not store.reply(person, "p001", {}, 1.0, last=False)
    assert store.replies(person) == {}
    assert [participation.participant for participation in store.participations(simulated=False)] == [other.participant]
    assert store.recruited(simulated=False) == {other.participant: {}}
    assert store.erased() == 1
    assert admit(store, "a").number == 2  # a newcomer as far as anybody can tell
    for trace in (person.participant, person.code, "the-recruit"):
        assert trace not in dump(store)


def test_erasure_leaves_no_trace_in_the_files(study: Study, tmp_path: Path) -> None:
    (tmp_path / "erased").mkdir()
    store = AnswerStore.open(study, f"sqlite:///{tmp_path}/erased/a.sqlite")
    # Some builds of SQLite overwrite what is deleted on their own; it must not depend on that.
    event.listen(store.database.engine, "connect", lambda connection, _: connection.execute("PRAGMA secure_delete = OFF"))
    store.database.engine.dispose()
    people = [admit(store, f"t{number}", PROLIFIC_PID=f"recruit-{number}-") for number in range(12)]
    for page in range(30):
        for number, person in enumerate(people):
            # Some contents fill a page of the file, so that rows move about.
            store.reply(
                person, f"p{page:03d}", {"text": f"content-{number}-" * (1 + 300 * (page % 7 == 0))}, 1.0, last=False
            )
    assert "content-5-" in _bytes(tmp_path / "erased")
    assert store.erase(people[5].participant)
    left = _bytes(tmp_path / "erased")
    for trace in ("content-5-", "recruit-5-", people[5].participant):
        assert trace not in left
    for kept in ("content-4-", "recruit-4-", people[4].participant):
        assert kept in left
    store.close()


def test_erasure_leaves_no_trace_in_the_tables_files_of_postgresql(study: Study, cluster: postgres.Cluster) -> None:
    store = AnswerStore.open(study, cluster.fresh())
    people = [admit(store, f"t{number}", PROLIFIC_PID=f"recruit-{number}-") for number in range(3)]
    for person in people:
        store.reply(person, "p000", {"text": f"content-of-{person.number}-"}, 1.0, last=False)
    _checkpoint(store)
    with store.database.reading() as connection:
        number = connection.execute(text("SELECT oid FROM pg_database WHERE datname = current_database()")).scalar_one()
    folder = cluster.folder / "data" / "base" / str(number)
    assert "content-of-1-" in _bytes(folder)
    assert store.erase(people[1].participant)
    _checkpoint(store)
    left = _bytes(folder)
    assert not [trace for trace in ("content-of-1-", "recruit-1-", people[1].participant) if trace in left]
    assert "content-of-2-" in left
    store.close()


def _checkpoint(store: AnswerStore) -> None:
    with store.database.reading() as connection:
        connection.execute(text("CHECKPOINT"))


def _bytes(folder: Path) -> str:
    return "\n".join(path.read_bytes().decode("latin-1") for path in sorted(folder.rglob("*")) if path.is_file())
