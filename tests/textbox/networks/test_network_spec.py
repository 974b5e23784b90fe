"""Reasonings: a rule with its scenes and its network, named by what is unusual, and made again from its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snellen.errors import SnellenError
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.scenes.objects import OBJECTS, SceneObject, box
from snellen.textbox.scenes.settings import RULES

STAR = SceneObject("star", ("..#..\n#####\n.#.#.", "#.#\n.#.\n#.#"), ("five", "four"))


@pytest.mark.parametrize(
    "spec",
    [
        *(NetworkSpec.of_setting(name) for name in RULES),
        NetworkSpec.of_setting("complex-cr2", architecture="vit-tiny", background="noise", robust=True),
        NetworkSpec.of(
            "2 if star == 'four' and bar else bar",
            objects=(STAR, box("bar", 2, 9)),
            side=40,
            colour=(9, 200, 30),
            name="mine",
        ),
    ],
    ids=lambda spec: spec.name,
)
def test_a_reasoning_is_made_again_from_its_record(spec: NetworkSpec) -> None:
    again = NetworkSpec.from_record(json.loads(json.dumps(spec.record())))
    assert again == spec
    assert again.rule.truths == spec.rule.truths
    assert again.layout == spec.layout


def test_the_published_network_is_taken_unless_another_is_named() -> None:
    assert NetworkSpec.of_setting("simple-nr").architecture == "small-cnn"
    assert NetworkSpec.of_setting("complex-cr1").architecture == "deep-cnn"
    assert NetworkSpec.of("if box2: box1 else: 0").architecture == "deep-cnn"
    assert NetworkSpec.of("box1", architecture="resnet").architecture == "resnet"


def test_the_name_says_what_is_unusual(tmp_path: Path) -> None:
    (tmp_path / "lakes").mkdir()
    assert NetworkSpec.of_setting("simple-fr").name == "simple-fr"
    assert NetworkSpec.of_setting("simple-fr", architecture="resnet", background="noise").name == "simple-fr-resnet-noise"
    assert NetworkSpec.of_setting("simple-fr", robust=True).name == "simple-fr-robust"
    assert NetworkSpec.of_setting("simple-fr", background=str(tmp_path / "lakes")).name == "simple-fr-lakes"


def test_refusals() -> None:
    with pytest.raises(SnellenError, match="no architecture 'resnet50'; did you mean 'resnet'"):
        NetworkSpec.of("box1", architecture="resnet50")
    with pytest.raises(SnellenError, match="there is no background 'noisy'"):
        NetworkSpec.of("box1", background="noisy")
    with pytest.raises(SnellenError, match="larger than a scene of 8×8"):
        NetworkSpec.of("box1", side=8)
    with pytest.raises(SnellenError, match="there is no setting 'complex-cr5'"):
        NetworkSpec.of_setting("complex-cr5")
    assert NetworkSpec.of("box1").rule.objects == OBJECTS
