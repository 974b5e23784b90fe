from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from tests.study.planted_study import plant

from snellen.errors import SnellenError
from snellen.study.folder import Study, new_password
from snellen.study.participation import Participation, Reply, collect_data
from snellen.study.protocol import Protocol, latin_square
from snellen.study.scales import Questionnaire, shipped


@pytest.fixture
def between(tmp_path: Path) -> Study:
    return plant(tmp_path / "between")[0]


@pytest.fixture
def within(tmp_path: Path) -> Study:
    return plant(tmp_path / "within", design="within", tasks=[{"task": "error-detection", "items": 7, "practice": 1}])[0]


def test_a_participant_meets_every_item_of_every_task_once(between: Study) -> None:
    for group in range(3):
        pages = between.pages(group, number=group)
        met = Counter(page.item.id for page in pages if page.kind == "trial" and page.item)
        assert met == Counter(item.id for item in between.items)
        assert {page.condition for page in pages} == {between.protocol.conditions[group]}
        assert len({page.id for page in pages}) == len(pages)


def test_every_practice_trial_is_followed_by_its_feedback_and_no_other_trial_is(between: Study) -> None:
    pages = between.pages(0, 0)
    for before, after in pairwise(pages):
        assert (after.kind == "feedback") == (before.kind == "trial" and before.practice)
        if after.kind == "feedback":
            assert after.item is before.item


def test_attention_checks_stand_in_different_stretches_and_ask_for_different_answers(between: Study) -> None:
    requested, places = set(), set()
    for number in range(40):
        pages = between.pages(0, number)
        checks = [place for place, page in enumerate(pages) if page.kind == "attention"]
        assert len(checks) == 2
        assert sum(page.kind == "trial" and not page.practice for page in pages[: checks[0]]) <= 5
        requested |= {pages[place].requested for place in checks}
        places |= set(checks)
    assert requested == {1, 2, 3, 4, 5}
    assert len(places) > 4


def test_order_differs_between_participants_and_is_always_the_same_for_one(between: Study) -> None:
    def order(number: int) -> list[str]:
        return [page.item.id for page in between.pages(0, number) if page.item and page.kind == "trial"]

    assert order(3) == order(3)
    assert len({tuple(order(number)) for number in range(8)}) > 6


def test_without_maps_nobody_rates_them(tmp_path: Path) -> None:
    study, _ = plant(tmp_path / "s", tasks=[{"task": "sharpness", "items": 2}, {"task": "confidence", "items": 2}])
    kinds = {(page.kind, page.task) for page in study.pages(2, 0)}
    assert ("trial", "confidence") in kinds
    assert ("trial", "sharpness") not in kinds
    assert [page.scale for page in study.pages(2, 0) if page.kind == "scale"] == ["trust"]
    assert [page.scale for page in study.pages(0, 0) if page.kind == "scale"] == ["satisfaction", "trust"]


def test_within_subjects_every_item_is_met_under_every_condition_over_the_groups(within: Study) -> None:
    met: Counter[tuple[str, str]] = Counter()
    for group in range(len(within.protocol.groups)):
        pages = within.pages(group, group)
        own = [page.item.id for page in pages if page.kind == "trial" and not page.practice and page.item]
        assert sorted(own) == sorted(item.id for item in within.items if not item.practice)
        met += Counter((page.item.id, page.condition.name) for page in pages if page.kind == "trial" and page.item)
    counts = {count for (item, _), count in met.items() if item != "error-detection-0"}
    assert counts == {2}  # three conditions need six orders, and each of three shares comes twice


@pytest.mark.parametrize("size", range(1, 8))
def test_in_a_latin_square_everyone_follows_everyone_equally_often(size: int) -> None:
    rows = latin_square(size)
    assert all(sorted(row) == list(range(size)) for row in rows)
    pairs = Counter(pair for row in rows for pair in pairwise(row))
    assert len(set(pairs.values())) <= 1
    assert len(pairs) == size * (size - 1)
    for place in range(size):
        assert len(set(Counter(row[place] for row in rows).values())) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arms": ["none"]}, "needs an arm with maps"),
        ({"arms": ["lime", "lime"]}, "twice"),
        ({"desing": "within"}, "did you mean 'design'"),
        ({"design": "across"}, "'design' cannot be 'across'"),
        ({"tasks": []}, "has no 'tasks'"),
        ({"tasks": [{"task": "betting", "item": 3}]}, "did you mean 'items'"),
        ({"tasks": [{"task": "beting"}]}, "'tasks.0.task' cannot be 'beting'"),
        ({"tasks": [{"task": "betting"}, {"task": "betting"}]}, "same task twice"),
        ({"design": "within", "tasks": [{"task": "betting", "items": 2}]}, "at least 3"),
        ({"alpha": 1.0}, "alpha"),
        ({"people": 0}, "people"),
        ({"exclude": {"missed": -1}}, "'exclude.missed' cannot be -1; it must be at least 0"),
    ],
)
def test_a_protocol_that_cannot_be_carried_out_is_refused_in_a_sentence(changes: dict[str, object], words: str) -> None:
    good = {"title": "T", "arms": ["a", "b", "none"], "tasks": [{"task": "error-detection"}]}
    Protocol.of(good, "study.yaml")
    with pytest.raises(SnellenError, match=words):
        Protocol.of(good | changes, "study.yaml")


def test_presentation_is_crossed_with_arms_but_the_photograph_alone_has_one() -> None:
    protocol = Protocol.of(
        {"title": "T", "arms": ["a", "none"], "presentation": ["overlay", "map"], "tasks": [{"task": "betting"}]}, "x"
    )
    assert [condition.name for condition in protocol.conditions] == ["a/overlay", "a/map", "none"]
    assert protocol == Protocol.of(protocol.as_values(), "again")


def test_questionnaires_have_eight_statements_in_both_languages_and_only_wariness_is_turned_round() -> None:
    scales = {name: Questionnaire.read(path) for name, path in shipped().items()}
    assert set(scales) == {"satisfaction", "trust"}
    for scale in scales.values():
        assert set(scale.statements) == {"en", "de"}
        assert scale.items == 8
        assert scale.points == 5
    assert scales["satisfaction"].reverse == ()
    assert scales["trust"].reverse == (6,)
    assert [scales["trust"].score(6, answer) for answer in (1, 3, 5)] == [5, 3, 1]
    assert scales["trust"].score(5, 4) == 4


def test_a_password_is_kept_as_a_hash_and_a_new_one_keeps_the_key(between: Study) -> None:
    key = between.key
    password = new_password(between.folder)
    again = Study.read(between.folder)
    assert again.key == key
    assert again.admits(password)
    assert not again.admits(password + "x")
    assert password not in (between.folder / "secret.json").read_text()
    assert (between.folder / "secret.json").stat().st_mode & 0o077 == 0


def test_the_digest_follows_what_makes_answers_comparable(tmp_path: Path) -> None:
    first = plant(tmp_path / "a")[0].digest
    assert plant(tmp_path / "b", title="Another", people=9)[0].digest == first
    assert plant(tmp_path / "c", seed=1)[0].digest != first


def _visit(study: Study, *, missed: int = 0, seconds: float = 4.0, state: str = "finished") -> Participation:
    replies = {}
    left = missed
    for page in study.pages(0, 0):
        content: dict[str, object] = {}
        if page.kind == "trial" and page.item:
            content = {"value": 1, "beside": 80}
        elif page.kind == "attention":
            content = {"value": page.requested % 5 + 1 if left > 0 else page.requested}
            left -= 1
        elif page.kind == "scale":
            content = {"answers": [4] * 8}
        replies[page.id] = Reply(content, seconds, "2026-01-01T00:00:00+00:00")
    return Participation("a", 0, 0, "en", False, state, "", "", replies)  # type: ignore[arg-type]


def test_replies_become_scores(between: Study) -> None:
    tables = collect_data(between, [_visit(between)], simulated=False)
    assert len(tables.answers) == len(between.items)
    scores = tables.answers[tables.answers["task"] == "error-detection"].set_index("item")["score"]
    assert scores.to_dict() == {f"error-detection-{place}": float(place % 2) for place in range(7)}
    estimates = tables.answers[tables.answers["task"] == "class-accuracy"].set_index("item")["score"]
    assert estimates["class-accuracy-2"] == abs(1 - (5 + 13 * 2))
    trust = tables.ratings[tables.ratings["scale"] == "trust"]
    assert trust["score"].tolist() == [4, 4, 4, 4, 4, 2, 4, 4]
    assert len(tables.counted.answers) == sum(not item.practice for item in between.items)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({}, ""),
        ({"missed": 1}, "attention"),
        ({"seconds": 0.5}, "too fast"),
        ({"state": "withdrawn"}, "withdrawn"),
        ({"state": "started"}, "unfinished"),
    ],
)
def test_who_is_excluded_is_decided_by_the_rule_of_the_protocol(between: Study, how: dict[str, object], why: str) -> None:
    person = collect_data(between, [_visit(between, **how)], simulated=False).participants.iloc[0]  # type: ignore[arg-type]
    assert person["excluded"] == why


def test_real_and_simulated_participants_never_share_a_table(between: Study) -> None:
    with pytest.raises(ValueError, match="never"):
        collect_data(between, [_visit(between)], simulated=True)
