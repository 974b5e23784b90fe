from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import SnellenError
from snellen.study.making.choosing import ItemChoice, choose
from snellen.study.protocol import Protocol
from snellen.study.tasks import Candidate, accuracy

SHOWN, FURTHER = 3, 6
ONE_IMAGE = ("error-detection", "betting", "confidence", "sharpness")


def _protocol(*tasks: str, seed: int = 0, **changes: Any) -> Protocol:
    """Tasks as the command line names them: NAME:ITEMS:PRACTICE."""
    plans = [dict(zip(("task", "items", "practice"), (name, int(items), int(practice)), strict=True))
             for name, items, practice in (task.split(":") for task in tasks)]  # fmt: skip
    return Protocol.of({"title": "T", "arms": ["a", "b"], "tasks": plans, "seed": seed} | changes, "test")


def _images(classes: int, each: int, wrong: int) -> list[Candidate]:
    """Of every class so many images, so many of them wrong, with probabilities in all bands."""
    return [
        Candidate(f"{label}/{place}", label, label if place >= wrong else (label + 1) % classes, (0.3, 0.6, 0.9)[place % 3])
        for label in range(classes)
        for place in range(each)
    ]


def _all(choice: ItemChoice) -> list[str]:
    return [image.sample for item in choice.items for image in (*item.images, *item.further)]


pools = st.lists(
    st.builds(
        lambda label, prediction, sure: (label, prediction, sure),
        st.integers(0, 3),
        st.integers(0, 3),
        st.sampled_from((0.2, 0.6, 0.95)),
    ),
    min_size=1,
    max_size=40,
).map(lambda some: [Candidate(f"s{place}", *facts) for place, facts in enumerate(some)])


@given(pools, st.sampled_from(ONE_IMAGE), st.integers(1, 12), st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=200)
def test_tasks_about_one_image_are_as_balanced_as_the_images_allow(
    pool: list[Candidate], task: str, items: int, practice: int, seed: int
) -> None:
    protocol = _protocol(f"{task}:{items}:{practice}", seed=seed)
    fit = [candidate for candidate in pool if candidate.right or task != "confidence"]
    right, wrong = (sum(candidate.right is answer for candidate in pool) for answer in (True, False))
    errors = task in ("error-detection", "betting")
    if len(fit) < items + practice or (errors and not (right and wrong)):
        with pytest.raises(SnellenError, match=task):
            choose(pool, protocol)
        return
    choice = choose(pool, protocol)
    assert choose(pool, protocol) == choice
    assert len(set(_all(choice))) == len(_all(choice)) == items + practice
    counted = [item.images[0] for item in choice.items if not item.practice]
    assert len(counted) == items
    assert all(candidate in fit for candidate in counted)
    if errors:
        mistakes = sum(not candidate.right for candidate in counted)
        possible = [some for some in range(items + 1) if some <= wrong and items - some <= right]
        assert abs(2 * mistakes - items) == min(abs(2 * some - items) for some in possible)
    elif task == "confidence":
        bands, there = Counter(candidate.band for candidate in counted), Counter(candidate.band for candidate in fit)
        assert all(bands[band] >= max(bands.values()) - 1 or bands[band] == there[band] for band in there)
    else:
        # No class could lend an image to one that has fewer: every class below the largest has given all it has.
        classes, there = Counter(candidate.label for candidate in counted), Counter(candidate.label for candidate in fit)
        assert all(classes[label] >= max(classes.values()) - 1 or classes[label] == there[label] for label in there)


@given(st.integers(2, 6), st.integers(3, 20), st.integers(0, 6), st.integers(0, 4))
def test_classes_are_asked_about_with_typical_images_and_estimated_once(
    classes: int, each: int, wrong: int, seed: int
) -> None:
    pool = _images(classes, each, min(wrong, each))
    choice = choose(pool, _protocol(f"class-accuracy:{classes - 1}:1", seed=seed))
    assert len({item.images[0].label for item in choice.items}) == classes
    for item in choice.items:
        assert len({image.label for image in item.images}) == 1
        assert len({image.sample for image in item.images}) == SHOWN
        assert sum(not image.right for image in item.images) == round(SHOWN * min(wrong, each) / each)


@given(st.integers(1, 4), st.integers(9, 40), st.integers(0, 20), st.integers(0, 4))
def test_six_further_images_are_others_and_mixed_where_that_is_possible(
    classes: int, each: int, wrong: int, seed: int
) -> None:
    wrong = min(wrong, each)
    pool = _images(classes, each, wrong) if classes > 1 else [
        Candidate(f"{place}", 0, int(place < wrong), 0.9) for place in range(each)
    ]  # fmt: skip
    items = classes * (each // (SHOWN + FURTHER))
    choice = choose(pool, _protocol(f"forward-selection:{items}:0", seed=seed))
    assert len(set(_all(choice))) == len(_all(choice)) == items * (SHOWN + FURTHER)
    class_counts = Counter(item.images[0].label for item in choice.items)
    assert max(class_counts.values()) - min(class_counts.values()) == 0
    for item in choice.items:
        assert {image.label for image in (*item.images, *item.further)} == {item.images[0].label}
    if 3 <= wrong <= each - 7:
        first = choose(pool, _protocol("forward-selection:1:0", seed=seed)).items[0]
        assert 2 <= sum(not image.right for image in first.further) <= 4


def test_how_many_of_the_six_are_wrong_differs() -> None:
    choice = choose(_images(2, 90, 45), _protocol("forward-selection:12:0"))
    assert {sum(not image.right for image in item.further) for item in choice.items} == {2, 3, 4}


def test_another_seed_chooses_other_images() -> None:
    pool = _images(4, 30, 15)
    choices = {tuple(_all(choose(pool, _protocol("error-detection:8:2", seed=seed)))) for seed in range(6)}
    assert len(choices) == 6


def test_classes_and_bands_are_even_where_the_run_has_plenty() -> None:
    choice = choose(_images(4, 30, 15), _protocol("error-detection:12:2", "confidence:12:0"))
    for row in choice.table():
        if not row["practice"]:
            assert row["classes"] == 4
            assert row["low"] == row["middle"] == row["high"] == 4
    rows = {(row["task"], row["practice"]): row for row in choice.table()}
    assert (rows["error-detection", False]["right"], rows["error-detection", False]["wrong"]) == (6, 6)
    assert (rows["error-detection", True]["right"], rows["error-detection", True]["wrong"]) == (1, 1)
    assert (rows["confidence", False]["right"], rows["confidence", False]["wrong"]) == (12, 0)
    assert [(row["task"], row["practice"]) for row in choice.table()] == [
        ("error-detection", True), ("error-detection", False), ("confidence", False)
    ]  # fmt: skip


def test_images_are_shown_again_only_where_there_are_too_few_and_that_is_said() -> None:
    tasks = ("error-detection:12:2", "sharpness:12:2", "class-accuracy:3:1", "forward-selection:3:1", "confidence:6:1")
    plenty = choose(_images(4, 60, 30), _protocol(*tasks))
    assert len(set(_all(plenty))) == len(_all(plenty))
    assert plenty.notes == ()
    few = choose(_images(1, 8, 0), _protocol("confidence:6:1", "sharpness:6:1"))
    assert Counter(Counter(_all(few)).values()) == {2: 6, 1: 2}
    assert few.notes == (
        "6 images shown again in another task (confidence and sharpness), 2 of them also for practice; "
        "a run with more images would avoid it",
    )


def test_within_subjects_every_condition_meets_right_and_wrong_answers() -> None:
    protocol = _protocol("error-detection:12:0", design="within", presentation=["overlay", "map"])
    items = choose(_images(4, 30, 15), protocol).items
    for share in range(4):
        assert Counter(item.images[0].right for item in items[share::4]) in ({True: 1, False: 2}, {True: 2, False: 1})
    # The order is no pattern of right and wrong, as it would be without shuffling the blocks.
    several = [_protocol("error-detection:12:0", seed=seed, design="within") for seed in range(8)]
    orders = {tuple(item.images[0].right for item in choose(_images(4, 30, 15), protocol).items) for protocol in several}
    assert len(orders) > 4


@pytest.mark.parametrize(
    ("pool", "task", "words"),
    [
        (
            _images(2, 5, 2),
            "error-detection:12:2",
            "asks for 12 items and 2 for practice, but the run has 10 images for it; give error-detection:8, or take a run",
        ),
        (_images(2, 5, 2), "confidence:6:1", "model is right on 6 images of the run; give confidence:5"),
        (_images(2, 5, 0), "betting:4:0", "needs images that the model gets wrong, but it is right on all 10; choose"),
        (_images(2, 5, 5), "betting:4:0", "needs images that the model gets right, but it is wrong on all 10"),
        (_images(2, 5, 2), "class-accuracy:2:1", "2 classes of the run have 3 images or more; give class-accuracy:1"),
        (_images(2, 2, 1), "class-accuracy:1:0", "0 classes of the run have 3 images or more; choose another task"),
        (_images(2, 10, 2), "forward-selection:3:0", "2 classes .* 9 images or more, which is enough for 2 items; give"),
        ([Candidate("a", None, 0, 0.5)], "confidence:1:0", "no image of the run has a label; give the run --labels"),
    ],
)
def test_what_a_run_cannot_serve_is_refused_with_the_numbers_there_are(pool: list[Candidate], task: str, words: str) -> None:
    with pytest.raises(SnellenError, match=words):
        choose(pool, _protocol(task))


def test_maps_of_another_class_are_not_shown_but_count_for_the_accuracy() -> None:
    pool = _images(2, 10, 5)
    target = [
        Candidate(
            candidate.sample, candidate.label, candidate.prediction, candidate.probability, explained=bool(candidate.right)
        )
        for candidate in pool
    ]
    with pytest.raises(SnellenError, match="right on all 10"):
        choose(target, _protocol("error-detection:2:0"))
    choice = choose(target, _protocol("sharpness:2:0"))
    assert choice.notes[0] == "10 images left out, because the run's maps explain another class than the predicted one"
    assert accuracy(target) == {0: 0.5, 1: 0.5}


def test_fewer_wrong_answers_than_half_are_told() -> None:
    choice = choose([*_images(2, 10, 0), Candidate("x", 0, 1, 0.4)], _protocol("error-detection:6:0"))
    assert choice.notes == (
        "error-detection: the model is wrong in 1 of 6 items, because it is wrong on 1 and right on 20 images of the run",
    )


def test_images_without_label_serve_for_sharpness_alone() -> None:
    pool = [Candidate(f"u{place}", None, 0, 0.5) for place in range(4)]
    choice = choose(pool, _protocol("sharpness:3:1"))
    assert len(choice.items) == 4
    assert choice.notes == ("4 images without a label can be shown for sharpness only",)
