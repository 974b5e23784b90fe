"""The conformance suite: Snellen gets every known answer right, and a wrong one would be noticed."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from snellen.conformance import Cell, NotOffered, Toolkit, conform, known_answers
from snellen.conformance.adapters import NEIGHBOURS, toolkit
from snellen.conformance.answers import Kind
from snellen.conformance.notes import NOTES
from snellen.conformance.table import quietly
from snellen.errors import SnellenError
from snellen.plugins.registry import METRICS

ANSWERS = {one.id: one for one in known_answers()}


@pytest.mark.parametrize("name", ANSWERS)
def test_snellen_gets_it_right(name):
    assert ANSWERS[name].put_to(toolkit("snellen")) == Cell("right")


def test_there_are_answers_of_every_kind():
    assert len(ANSWERS) >= 60
    assert {one.kind for one in ANSWERS.values()} == set(get_args(Kind))


def test_every_metric_has_a_known_answer():
    ours = {name for name in METRICS if METRICS[name].__module__.startswith("snellen.metrics.")}
    assert ours == {one.metric for one in ANSWERS.values()}


def test_an_answer_is_about_its_metric_and_says_why():
    for name, one in ANSWERS.items():
        assert one.metric in METRICS
        assert name.startswith(f"{one.metric}/")
        assert one.sentence.endswith((".", "?"))
        assert not one.because.endswith(".")


def test_notes_speak_of_answers_that_exist():
    for note in NOTES:
        assert note.toolkit in NEIGHBOURS
        assert set(note.cases) <= set(ANSWERS), note


def asked(answer: str, says) -> Cell:
    one = ANSWERS[answer]
    return one.put_to(Toolkit("other", "1", {one.metric: says}))


def test_what_becomes_of_an_answer():
    def breaks(scene):
        raise ValueError("\nfirst line\nsecond line")

    def declines(scene):
        raise NotOffered("no")

    assert asked("average-drop/value", lambda scene: [0.25]) == Cell("right")
    assert str(asked("average-drop/value", lambda scene: [0.2])) == "✗ got 0.2"
    assert str(asked("average-drop/value", lambda scene: [math.nan])) == "✗ got nan"
    assert str(asked("average-drop/value", lambda scene: [])) == "✗ got "
    assert str(asked("average-drop/value", breaks)) == "error: ValueError: first line"
    assert str(asked("average-drop/value", declines)) == "–"
    assert str(asked("deletion/value", lambda scene: [0.125])) == "–"  # it cannot be told the number of steps
    assert ANSWERS["average-drop/value"].put_to(Toolkit("other", "1", {})) == Cell("not offered")


def test_faults_that_each_kind_of_answer_would_notice():
    """An answer that any number passes proves nothing."""
    first = {"seen": 0}

    def counting(scene, **settings):
        first["seen"] += 1
        return [float(first["seen"])] * len(scene)

    def by_place(scene, **settings):
        return [float(place) for place in range(len(scene))]

    def flat(scene, **settings):
        return [0.3] * len(scene)

    def careless(scene, **settings):
        scene.maps.add_(1)
        return [0.0] * len(scene)

    for name in ("deletion/batch", "complexity/scaling", "pointing-game/channels", "complexity/sign"):
        assert asked(name, counting).outcome == "wrong"
    assert asked("deletion/order", by_place).outcome == "wrong"
    assert asked("complexity/unmodified", careless).outcome == "wrong"
    for name in ("deletion/oracle", "deletion/value", "pointing-game/empty", "deletion/ties", "max-sensitivity/constant"):
        assert asked(name, flat).outcome == "wrong"


def test_captum_is_asked_for_what_it_offers():
    only = [one for one in known_answers() if one.metric in ("max-sensitivity", "complexity")]
    found = conform(["captum"], only=only)
    outcomes = {one.id: cells[1].outcome for one, cells in zip(found.answers, found.cells, strict=True)}
    assert outcomes["complexity/value"] == "not offered"
    assert all(said == "right" for name, said in outcomes.items() if name.startswith("max-sensitivity"))


def test_the_table_names_versions_and_what_lies_behind_a_cross():
    one = ANSWERS["complexity/unmodified"]
    report = conform(only=[one])
    crossed = replace(
        report, toolkits=(*report.toolkits, Toolkit("quantus", "9.9", {})), cells=((Cell("right"), Cell("wrong", "1|2")),)
    )
    text = crossed.markdown()
    assert "| complexity/unmodified | complexity | unmodified | 0 | ✓ | ✗ got 1\\|2 |" in text
    assert "the caller's own array is changed" in text
    assert "quantus 9.9: 0 of 1 right, 1 wrong, 0 errors, 0 not offered" in text
    assert crossed.missed == ()
    assert "the caller's own array" not in report.markdown()


def test_an_unknown_or_missing_toolkit_is_refused_by_name(monkeypatch):
    with pytest.raises(SnellenError, match=r"unknown toolkit 'quantum'.*quantus"):
        toolkit("quantum")
    monkeypatch.setitem(NEIGHBOURS, "no-such-distribution", "nowhere")
    with pytest.raises(SnellenError, match="'no-such-distribution' cannot be asked, for it is not installed"):
        toolkit("no-such-distribution")


def test_exit_code_1_when_snellen_misses_one(monkeypatch):
    from typer.testing import CliRunner

    import snellen.conformance.table as module
    from snellen.cli.main import app

    right, wrong = ANSWERS["complexity/value"], replace(ANSWERS["complexity/value"], expected=0.5)
    for rows, code in (((right,), 0), ((right, wrong), 1)):
        monkeypatch.setattr(module, "known_answers", lambda rows=rows: rows)
        done = CliRunner().invoke(app, ["conform"])
        assert done.exit_code == code, done.output
        assert "snellen" in done.output


def test_the_command_writes_the_table(tmp_path):
    command = [
        sys.executable,
        "-c",
        "from snellen.cli.main import main; main()",
        "conform",
        "--out",
        str(tmp_path / "table.md"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ANSWERS)} of {len(ANSWERS)} right" in done.stdout
    assert all(f"| {name} |" in (tmp_path / "table.md").read_text() for name in ANSWERS)


@pytest.mark.parametrize("name", ["captum", "quantus", "grad-cam", "torchcam"])
def test_every_cross_of_a_neighbour_is_explained(name):
    """A claim about somebody else's code must be one that was looked into."""
    kit = toolkit(name)
    crossed = {one.id for one in known_answers() if quietly(one, kit).outcome in ("wrong", "error")}
    assert crossed == {case for note in NOTES if note.toolkit == name for case in note.cases}


@pytest.mark.parametrize("name", ["value", "last", "perfect", "sign", "channels", "batch", "order"])
def test_the_curve_of_pixel_flipping_is_read_as_it_is(name):
    """Its points are right; only its own area begins after the first flip, and counts every step as 1."""
    assert quietly(ANSWERS[f"deletion/{name}"], toolkit("quantus")) == Cell("right")


@pytest.mark.parametrize("name", ["completeness/channels", "effective-complexity-count/neighbour"])
def test_quantus_is_given_settings_that_make_the_quantity_the_same(name):
    assert quietly(ANSWERS[name], toolkit("quantus")) == Cell("right")


def test_published_crosses_are_those_that_are_explained():
    """Otherwise: make conformance."""
    published = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in published.splitlines() if line.startswith("| ")]
    names = rows[0][4:]
    crossed = {(kit, row[0]) for row in rows[1:] for kit, cell in zip(names, row[4:], strict=True) if cell[0] in "✗e"}
    assert crossed == {(note.toolkit, case) for note in NOTES for case in note.cases}
    for kit in names:
        right = sum(row[4 + names.index(kit)] == "✓" for row in rows[1:])
        offered = right + sum(one == kit for one, _ in crossed)
        assert re.search(rf"^- {kit} \S+: {right} of {offered} right", published, flags=re.MULTILINE)


def test_the_published_table_has_a_row_for_every_answer():
    """Otherwise: make conformance."""
    published = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    rows = re.findall(r"^\| ([\w+-]+/[\w-]+) \|", published, flags=re.MULTILINE)
    assert rows == list(ANSWERS)
