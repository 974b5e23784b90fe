"""Random sequences of what happens to a store, beside a model of it that is nothing but lists."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.study.planted_study import plant

from snellen.study.answers.store import AnswerStore, ClosedError, Participant
from snellen.study.answers.tables import METADATA
from snellen.study.folder import Study
from snellen.study.participation import Reply

PEOPLE = 5
ABANDONED = 10.0


@dataclass
class Somebody:
    """What the model knows of a participant."""

    person: Participant
    token: str
    state: str = "started"
    seen: float = 0.0
    replies: dict[str, Reply] = field(default_factory=dict)


class Model:
    """The rules of a store, written down as simply as can be."""

    def __init__(self, store: AnswerStore) -> None:
        self.store = store
        self.minutes = 0.0
        self.state = "open"
        self.everybody: list[Somebody] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self.minutes)

    def counting(self, simulated: bool) -> list[Somebody]:
        return [
            entry
            for entry in self.everybody
            if entry.person.simulated == simulated
            and (entry.state == "finished" or (entry.state == "started" and self.minutes - entry.seen <= ABANDONED))
        ]

    def admit(self, who: int, simulated: bool) -> None:
        token = f"{who} {simulated}"
        earlier = next((entry for entry in self.everybody if entry.token == token), None)
        counting = self.counting(simulated)
        refused = self.state if self.state != "open" else "full" if len(counting) >= PEOPLE else None
        if earlier is None and refused is not None:
            with pytest.raises(ClosedError) as error:
                self.store.admit(token=token, language="de", simulated=simulated, recruited={})
            assert error.value.state == refused
            return
        person = self.store.admit(token=token, language="de", simulated=simulated, recruited={})
        if earlier is not None:
            assert person.participant == earlier.person.participant
            return
        held = Counter(entry.person.group for entry in counting)
        assert held[person.group] == min(held[group] for group in range(3))
        assert person.number == sum(entry.person.simulated == simulated for entry in self.everybody)
        self.everybody.append(Somebody(person, token, seen=self.minutes))

    def reply(self, who: int, page: int, value: int, last: bool) -> None:
        entry = self._entry(who)
        if entry is None:
            return
        name = f"p{page:03d}"
        stored = self.store.reply(entry.person, name, {"value": value}, value / 4, last=last)
        assert stored == (entry.state == "started" and name not in entry.replies)
        if stored:
            entry.replies[name] = Reply({"value": value}, value / 4, self.now().isoformat(timespec="milliseconds"))
            entry.seen = self.minutes
            entry.state = "finished" if last else "started"

    def withdraw(self, who: int) -> None:
        entry = self._entry(who)
        if entry is not None:
            self.store.withdraw(entry.person)
            entry.state = "withdrawn" if entry.state == "started" else entry.state

    def erase(self, who: int) -> None:
        entry = self._entry(who)
        if entry is not None:
            assert self.store.erase(entry.person.participant) == (entry.state != "erased")
            entry.state, entry.token = "erased", ""

    def wait(self, minutes: float) -> None:
        self.minutes += minutes

    def switch(self, state: Any) -> None:
        self.store.set_state(state)
        self.state = state

    def compare(self) -> None:
        assert self.store.state == self.state
        for simulated in (False, True):
            left = [entry for entry in self.everybody if entry.person.simulated == simulated]
            there = [entry for entry in left if entry.state != "erased"]
            participations = self.store.participations(simulated=simulated)
            assert [
                (participation.participant, participation.state, dict(participation.replies))
                for participation in participations
            ] == [(entry.person.participant, entry.state, entry.replies) for entry in there]
            assert self.store.erased(simulated=simulated) == len(left) - len(there)
        for entry in self.everybody:
            person = self.store.find(entry.token)
            assert (person and person.state) == (entry.state if entry.token else None)
            assert self.store.replies(entry.person) == ({} if entry.state == "erased" else entry.replies)

    def _entry(self, who: int) -> Somebody | None:
        return self.everybody[who % len(self.everybody)] if self.everybody else None


WHO = st.integers(0, 11)
STEPS = st.one_of(
    st.tuples(st.just("admit"), WHO, st.booleans()),
    st.tuples(st.just("admit"), WHO, st.just(False)),
    st.tuples(st.just("reply"), WHO, st.integers(0, 3), st.integers(0, 100), st.booleans()),
    st.tuples(st.just("withdraw"), WHO),
    st.tuples(st.just("erase"), WHO),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 4.0, 11.0])),
    st.tuples(st.just("switch"), st.sampled_from(["open", "open", "paused", "closed"])),
)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return plant(tmp_path / "study", people=PEOPLE, abandoned=ABANDONED)[0]


@pytest.mark.slow
def test_whatever_happens_the_store_follows_its_rules(study: Study, url: str) -> None:
    tried: Counter[str] = Counter()

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(STEPS, min_size=5, max_size=40))
    def follow(steps: list[tuple[Any, ...]]) -> None:
        store = AnswerStore.open(study, url)
        with store.database.writing() as connection:
            for table in reversed(METADATA.sorted_tables):
                connection.execute(table.delete())
        store.close()
        store = AnswerStore.open(study, url, now=lambda: model.now())
        model = Model(store)
        for what, *how in steps:
            getattr(model, what)(*how)
            tried[what] += 1
        model.compare()
        store.close()

    follow()
    assert set(tried) == {"admit", "reply", "withdraw", "erase", "wait", "switch"}
