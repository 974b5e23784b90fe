"""Reasonings: a rule with its scenes and its network, named by what is unusual, and made again from its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snellen.errors import SnellenError
from snellen.textbox.scenes.reasoning import Reasoning
from snellen.textbox.scenes.settings import RULES
from snellen.textbox.scenes.things import THINGS, Thing, box

STAR = Thing("star", ("..#..\n#####\n.#.#.", "#.#\n.#.\n#.#"), ("five", "four"))


@pytest.mark.parametrize(
    "reasoning",
    [
        *(Reasoning.of_setting(name) for name in RULES),
        Reasoning.of_setting("complex-cr2", architecture="vit-tiny", background="noise", robust=True),
        Reasoning.of(
            "2 if star == 'four' and bar else bar",
            things=(STAR, box("bar", 2, 9)),
            side=40,
            colour=(9, 200, 30),
            name="mine",
        ),
    ],
    ids=lambda one: one.name,
)
def test_a_reasoning_is_made_again_from_its_record(reasoning: Reasoning) -> None:
    again = Reasoning.from_record(json.loads(json.dumps(reasoning.record())))
    assert again == reasoning
    assert again.rule.truths == reasoning.rule.truths
    assert again.layout == reasoning.layout


def test_the_published_network_is_taken_unless_another_is_named() -> None:
    assert Reasoning.of_setting("simple-nr").architecture == "small-cnn"
    assert Reasoning.of_setting("complex-cr1").architecture == "deep-cnn"
    assert Reasoning.of("if box2: box1 else: 0").architecture == "deep-cnn"
    assert Reasoning.of("box1", architecture="resnet").architecture == "resnet"


def test_the_name_says_what_is_unusual(tmp_path: Path) -> None:
    (tmp_path / "lakes").mkdir()
    assert Reasoning.of_setting("simple-fr").name == "simple-fr"
    assert Reasoning.of_setting("simple-fr", architecture="resnet", background="noise").name == "simple-fr-resnet-noise"
    assert Reasoning.of_setting("simple-fr", robust=True).name == "simple-fr-robust"
    assert Reasoning.of_setting("simple-fr", background=str(tmp_path / "lakes")).name == "simple-fr-lakes"


def test_refusals() -> None:
    with pytest.raises(SnellenError, match="no architecture 'resnet50'; did you mean 'resnet'"):
        Reasoning.of("box1", architecture="resnet50")
    with pytest.raises(SnellenError, match="there is no background 'noisy'"):
        Reasoning.of("box1", background="noisy")
    with pytest.raises(SnellenError, match="larger than a scene of 8×8"):
        Reasoning.of("box1", side=8)
    with pytest.raises(SnellenError, match="there is no setting 'complex-cr5'"):
        Reasoning.of_setting("complex-cr5")
    assert Reasoning.of("box1").rule.things == THINGS
