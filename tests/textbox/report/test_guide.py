"""The guide to TextBox: what it shows can be read, asked for and run as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from snellen.cli.textbox import app
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.scenes.objects import OBJECTS
from snellen.textbox.scenes.rules import SceneRule
from snellen.textbox.scenes.scene_files import read_scenes
from snellen.textbox.scenes.settings import RULES

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "textbox.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]
    return [shlex.split(line, comments=True) for line in lines]


def test_there_is_something_to_test() -> None:
    assert len(commands()) >= 12
    assert {words[2] for words in commands()} == {"show", "run", "train", "audit"}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_can_be_asked_for(words: list[str], tmp_path: Path) -> None:
    assert words[:2] == ["snellen", "textbox"]
    group = typer.main.get_command(app)
    assert words[2] in group.commands, f"there is no command {words[2]}"  # type: ignore[attr-defined]
    command = group.commands[words[2]]  # type: ignore[attr-defined]
    options = command.make_context(words[2], words[3:]).params  # unknown options and missing values are refused here
    for name in (options.get("setting"), *(options.get("settings") or "").split(",")):
        assert not name or name in RULES
    if options.get("rule"):
        file = options["rule"] == "harder.yaml"
        assert file or NetworkSpec.of_rule(options["rule"]).rule.defined


def test_every_rule_can_be_read() -> None:
    (rules,) = (block for block in blocks("text") if block.startswith("box1\n"))
    assert len([SceneRule.read(line, OBJECTS) for line in rules.splitlines()]) == 6
    lone = SceneRule.read(rules.splitlines()[2], OBJECTS).truths[6]  # box1 alone, under `box1 and box2`
    assert (lone.focus, lone.avoid) == (frozenset(), frozenset())
    last = SceneRule.read(rules.splitlines()[-1], OBJECTS)
    assert last.labels[2] is None  # a B without a box
    assert SceneRule.read("not box1", OBJECTS).truths[0].label == 1


def test_the_refusal_is_word_for_word() -> None:
    (shown,) = re.findall(r"^\$ snellen textbox show --rule '(.*)'\nsnellen: (.*)$", TEXT, re.MULTILINE)
    with pytest.raises(Exception, match="names '") as caught:
        NetworkSpec.of_rule(shown[0])
    assert str(caught.value) == shown[1]


def test_the_scene_file_is_one(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    (tmp_path / "harder.yaml").write_text(text, encoding="utf-8")
    scene_file = read_scenes(tmp_path / "harder.yaml")
    assert (scene_file.side, scene_file.colour, scene_file.background) == (96, (255, 165, 0), "noise")
    assert [item.name for item in scene_file.objects] == ["text", "box", "star"]


def test_what_is_linked_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(links) >= 2
    for link in links:
        assert (DOCS / link).is_file(), link
    assert (DOCS / "textbox.jpg").stat().st_size < 150_000


@pytest.mark.slow
def test_the_python_runs(tmp_path: Path) -> None:
    own, example = blocks("python")
    (tmp_path / "mymethod.py").write_text(own, encoding="utf-8")
    uses = (
        "from snellen.textbox.exam.method_list import own_method\n"
        "more = own_method('mymethod:MyMethod')(classifier, inputs, scenes.labels, rng=Rng(0, scenes.ids))\n"
        "print(more.shape == maps.shape and bool(more.isfinite().all()))\n"
    )
    short = example.replace("per_bucket=5", "per_bucket=1").replace("verify(network)", "verify(network, pairs=20)")
    done = subprocess.run(  # in a process of its own, because a method that is registered stays so
        [sys.executable, "-c", short + uses], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    truth, holds, scores, fits = done.stdout.splitlines()
    assert "label=1" in truth
    assert (holds, fits) == ("True", "True")
    lrp, perfect = map(float, scores.split())
    assert 0.2 < lrp < perfect == 1.0
