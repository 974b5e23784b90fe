"""What rules say: Table 1 of Kim, Plumb and Talwalkar (2022) from seven lines, rules of users' own, and refusals."""

from __future__ import annotations

import pytest

from snellen.errors import SnellenError
from snellen.textbox.scenes.objects import OBJECTS, SceneObject, box, bucket_contents, bucket_count, bucket_states
from snellen.textbox.scenes.rules import SceneRule
from snellen.textbox.scenes.settings import RULES, find_setting

T, B1, B2 = "text", "box1", "box2"

# Typed from the paper's table. Labels: buckets with 0, buckets with 1. Focus and avoid: things by bucket. The avoid rows of
# the print leave out bucket 7 of Simple-FR and 8, 9 of Complex-FR; what its text says of them is added here.
TABLE = {
    "simple-fr": (
        {1, 2, 3, 4, 5, 6},
        {7, 8, 9, 10, 11, 12},
        {(1, 2, 3, 4, 5, 6): set(), (7, 8, 9, 10, 11, 12): {B1}},
        {(1, 7): set(), (2, 3, 8, 9): {T}, (4, 10): {B2}, (5, 6, 11, 12): {B2, T}},
    ),
    "simple-nr": (
        {2, 5, 8, 11},
        {3, 6, 9, 12},
        {(2, 3, 5, 6, 8, 9, 11, 12): {T}},
        {(2, 3): set(), (5, 6): {B2}, (8, 9): {B1}, (11, 12): {B1, B2}},
    ),
    "complex-fr": (
        {1, 2, 3, 4, 5, 6, 7, 8, 9},
        {10, 11, 12},
        {(1, 2, 3, 4, 5, 6, 7, 8, 9): set(), (10, 11, 12): {B1, B2}},
        {(1, 4, 7, 10): set(), (2, 3, 5, 6, 8, 9, 11, 12): {T}},
    ),
    "complex-cr1": (
        {2, 4, 5, 6, 8},
        {3, 9, 10, 11, 12},
        {(2, 3, 8, 9): {T}, (4, 5, 6): {B2}, (10, 11, 12): {B1, B2}},
        {(2, 3, 4, 10): set(), (8, 9): {B1}, (5, 6, 11, 12): {T}},
    ),
    "complex-cr2": (
        {2, 5, 7, 8, 9},
        {3, 6, 10, 11, 12},
        {(2, 3, 5, 6): {T}, (7, 8, 9): {B1}, (10, 11, 12): {B1, B2}},
        {(2, 3, 7, 10): set(), (5, 6): {B2}, (8, 9, 11, 12): {T}},
    ),
    "complex-cr3": (
        {1, 2, 3, 5, 11},
        {6, 7, 8, 9, 12},
        {(1, 2, 3): set(), (5, 6, 11, 12): {B2, T}, (7, 8, 9): {B1}},
        {(1, 5, 6, 7): set(), (2, 3, 8, 9): {T}, (11, 12): {B1}},
    ),
    "complex-cr4": (
        {1, 2, 3, 8, 11},
        {4, 5, 6, 9, 12},
        {(1, 2, 3): set(), (4, 5, 6): {B2}, (8, 9, 11, 12): {B1, T}},
        {(1, 4, 8, 9): set(), (2, 3, 5, 6): {T}, (11, 12): {B2}},
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_table_1_follows_from_the_rule(name: str) -> None:
    zeros, ones, focus, avoid = TABLE[name]
    rule = find_setting(name)
    assert {n for n, label in enumerate(rule.labels, 1) if label == 0} == zeros
    assert {n for n, label in enumerate(rule.labels, 1) if label == 1} == ones
    assert set(rule.defined) == zeros | ones
    assert {n: set(rule.truths[n - 1].focus) for n in rule.defined} == {n: what for ns, what in focus.items() for n in ns}
    assert {n: set(rule.truths[n - 1].avoid) for n in rule.defined} == {n: what for ns, what in avoid.items() for n in ns}
    assert rule.simple == name.startswith("simple")
    assert rule.classes == 2


def test_buckets_are_numbered_as_in_the_paper() -> None:
    for number, shown in enumerate(bucket_contents(OBJECTS), 1):
        assert shown["text"] == (None, "A", "B")[(number - 1) % 3]
        assert (shown["box2"] is not None) == bool((number - 1) // 3 % 2)
        assert (shown["box1"] is not None) == bool((number - 1) // 6)
        assert bucket_states(OBJECTS, number) == ((number - 1) % 3, (number - 1) // 3 % 2, (number - 1) // 6)
    assert number == bucket_count(OBJECTS) == 12
    for wrong in (0, 13):
        with pytest.raises(SnellenError, match="from 1 to 12"):
            bucket_states(OBJECTS, wrong)


@pytest.mark.parametrize(
    ("rule", "other"),
    [
        ("box1", "label = 1 if box1 else 0"),
        ("box1", "if box1: 1 else: 0"),
        ("box1", "if not box1: 0 else: 1"),
        ("box1", "not not box1"),
        ('text == "B"', "if text == A: 0; elif text == B: 1"),
        ('text == "B"', "text != 'A'"),
        ("1 if box1 and box2 else 0", "box1 & box2"),
        ('if box2: box1 else: text == "B"', 'box1 if box2 else text == "B"'),
        ('if box2: box1 else: text == "B"', "if box2: box1;\n otherwise: (text == 'B')"),
        ('if box2: box1 else: text == "B"', 'if not box2: text == "B" else: box1'),
    ],
)
def test_two_ways_to_write_one_rule(rule: str, other: str) -> None:
    assert SceneRule.read(rule, OBJECTS).truths == SceneRule.read(other, OBJECTS).truths


def test_a_lone_part_of_a_test_that_is_not_met_is_neutral() -> None:
    truth = SceneRule.read("box1 and box2", OBJECTS).truths[8 - 1]  # text A and box1
    assert (truth.label, truth.focus, truth.avoid) == (0, set(), {T})


def test_either_of_two() -> None:
    rule = SceneRule.read("box1 or box2", OBJECTS)
    assert rule.truths[5 - 1].focus == {B2}
    assert rule.truths[11 - 1].focus == {B1, B2}
    assert rule.truths[2 - 1].avoid == {T}
    assert not rule.simple


def test_an_answer_that_hangs_on_a_missing_thing_is_undefined() -> None:
    rule = SceneRule.read('box1 and text == "B"', OBJECTS)
    assert rule.labels == (0, 0, 0, 0, 0, 0, None, 0, 1, None, 0, 1)
    assert rule.truths[8 - 1].focus == {T}  # compared, though the test is not met
    assert rule.truths[2 - 1].focus == {T}
    assert rule.truths[1 - 1].label == 0  # without box1 no letter can change the answer


def test_more_labels_and_other_objects() -> None:
    objects = (SceneObject("sign", ("#", "##", "###"), ("x", "y", "z")), box("bar", 2, 7))
    rule = SceneRule.read("if bar: 3 elif sign == x: 0 elif sign == y: 1 else: 2", objects)
    assert rule.labels == (None, 0, 1, 2, 3, 3, 3, 3)
    assert rule.classes == 4
    assert rule.truths[4 - 1].focus == {"sign"}
    assert (
        rule.truths[8 - 1] == SceneRule.read("if bar: 3 elif sign == x: 0 elif sign == y: 1 else: 2", objects).truths[8 - 1]
    )
    assert (rule.truths[8 - 1].focus, rule.truths[8 - 1].avoid) == ({"bar"}, {"sign"})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("box3", "the rule 'box3' names 'box3', but the scenes hold text, box2 and box1"),
        ('text == "C"', "'text' is A or B, never 'C'"),
        ("box1 == A", "'box1' is of one kind only; write 'box1' alone to ask whether it is shown"),
        (
            "box1 and not box1",
            "the rule 'box1 and not box1' contradicts itself: where it reaches 'box1 and not box1', that is never true",
        ),
        (
            "if box1: (if box1: 0 else: 1) else: 0",
            "the rule 'if box1: (if box1: 0 else: 1) else: 0' contradicts itself: where it reaches 'box1', that is "
            "always true",
        ),
        (
            "if box1: box1 else: box2",
            "the rule 'if box1: box1 else: box2' contradicts itself: where it reaches 'box1', that is always true",
        ),
        (
            "if text == A: 0 elif text == B: 1 else: box1",
            "the rule 'if text == A: 0 elif text == B: 1 else: box1' contradicts itself: where it reaches "
            "'text == \"B\"', that is always true",
        ),
        ("if box1: 0 else: 0", "the rule 'if box1: 0 else: 0' gives every picture the label 0: nothing to be learnt"),
        ("if box1: 0 else: 2", "the labels of a rule are 0, 1, … without gaps, not 0, 2"),
        ("", "the rule '' cannot be read at its end: the name of an object should stand there"),
        ("box1 box2", "the rule 'box1 box2' cannot be read at 'box2': the end should stand there"),
        ("if box1 0 else: 1", "the rule 'if box1 0 else: 1' cannot be read at '0': ':' should stand there"),
        ("box1 $ box2", "the rule 'box1 $ box2' cannot be read at '$ box2'"),
        ("text ==", "the rule 'text ==' cannot be read at its end: a kind of text should stand there"),
    ],
)
def test_refusals(text: str, sentence: str) -> None:
    with pytest.raises(SnellenError) as caught:
        SceneRule.read(text, OBJECTS)
    assert str(caught.value) == sentence


def test_an_unknown_setting() -> None:
    with pytest.raises(SnellenError, match="there is no setting 'complex-cr5'; did you mean 'complex-cr"):
        find_setting("complex-cr5")


def test_pictures_of_objects_are_checked() -> None:
    with pytest.raises(SnellenError, match="empty margin"):
        SceneObject("dot", (".#",), ("dot",))
    with pytest.raises(SnellenError, match="rows of # and"):
        SceneObject("dot", ("##\n#",), ("dot",))
    with pytest.raises(SnellenError, match="a picture for each"):
        SceneObject("dot", ("#",), ("a", "b"))
