"""Conformance: Snellen computes every expected value, and a wrong value would be noticed."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from snellen.conformance import CaseResult, NotOffered, Toolkit, conform, reference_cases
from snellen.conformance.adapters import NEIGHBOURS, toolkit
from snellen.conformance.notes import NOTES
from snellen.conformance.reference_cases import CaseKind
from snellen.conformance.table import run_silently
from snellen.errors import SnellenError
from snellen.plugins.registry import METRICS

CASES = {case.id: case for case in reference_cases()}


@pytest.mark.parametrize("name", CASES)
def test_snellen_computes_the_expected_value(name):
    assert CASES[name].run(toolkit("snellen")) == CaseResult("right")


def test_there_are_cases_of_every_kind():
    assert len(CASES) >= 60
    assert {case.kind for case in CASES.values()} == set(get_args(CaseKind))


def test_every_metric_has_a_reference_case():
    ours = {name for name in METRICS if METRICS[name].__module__.startswith("snellen.metrics.")}
    assert ours == {case.metric for case in CASES.values()}


def test_a_case_names_its_metric_and_gives_a_reason():
    for name, case in CASES.items():
        assert case.metric in METRICS
        assert name.startswith(f"{case.metric}/")
        assert case.sentence.endswith((".", "?"))
        assert not case.because.endswith(".")


def test_notes_name_cases_that_exist():
    for note in NOTES:
        assert note.toolkit in NEIGHBOURS
        assert set(note.cases) <= set(CASES), note


def result_of(name: str, compute) -> CaseResult:
    case = CASES[name]
    return case.run(Toolkit("other", "1", {case.metric: compute}))


def test_results_of_a_case():
    def breaks(fixture):
        raise ValueError("\nfirst line\nsecond line")

    def declines(fixture):
        raise NotOffered("no")

    assert result_of("average-drop/value", lambda fixture: [0.25]) == CaseResult("right")
    assert str(result_of("average-drop/value", lambda fixture: [0.2])) == "✗ got 0.2"
    assert str(result_of("average-drop/value", lambda fixture: [math.nan])) == "✗ got nan"
    assert str(result_of("average-drop/value", lambda fixture: [])) == "✗ got "
    assert str(result_of("average-drop/value", breaks)) == "error: ValueError: first line"
    assert str(result_of("average-drop/value", declines)) == "–"
    assert str(result_of("deletion/value", lambda fixture: [0.125])) == "–"  # it cannot be on_progress the number of steps
    assert CASES["average-drop/value"].run(Toolkit("other", "1", {})) == CaseResult("not offered")


def test_faults_that_each_kind_of_case_would_notice():
    """A case that any number passes proves nothing."""
    first = {"seen": 0}

    def counting(fixture, **settings):
        first["seen"] += 1
        return [float(first["seen"])] * len(fixture)

    def by_place(fixture, **settings):
        return [float(place) for place in range(len(fixture))]

    def flat(fixture, **settings):
        return [0.3] * len(fixture)

    def careless(fixture, **settings):
        fixture.maps.add_(1)
        return [0.0] * len(fixture)

    for name in ("deletion/batch", "complexity/scaling", "pointing-game/channels", "complexity/sign"):
        assert result_of(name, counting).outcome == "wrong"
    assert result_of("deletion/order", by_place).outcome == "wrong"
    assert result_of("complexity/unmodified", careless).outcome == "wrong"
    for name in ("deletion/oracle", "deletion/value", "pointing-game/empty", "deletion/ties", "max-sensitivity/constant"):
        assert result_of(name, flat).outcome == "wrong"


def test_captum_computes_what_it_offers():
    only = [case for case in reference_cases() if case.metric in ("max-sensitivity", "complexity")]
    report = conform(["captum"], only=only)
    outcomes = {case.id: results[1].outcome for case, results in zip(report.cases, report.results, strict=True)}
    assert outcomes["complexity/value"] == "not offered"
    assert all(outcome == "right" for name, outcome in outcomes.items() if name.startswith("max-sensitivity"))


def test_the_table_names_versions_and_reasons_for_crosses():
    report = conform(only=[CASES["complexity/unmodified"]])
    crossed = replace(
        report,
        toolkits=(*report.toolkits, Toolkit("quantus", "9.9", {})),
        results=((CaseResult("right"), CaseResult("wrong", "1|2")),),
    )
    text = crossed.markdown()
    assert "| complexity/unmodified | complexity | unmodified | 0 | ✓ | ✗ got 1\\|2 |" in text
    assert "the caller's own array is changed" in text
    assert "quantus 9.9: 0 of 1 right, 1 wrong, 0 errors, 0 not offered" in text
    assert crossed.failures == ()
    assert "the caller's own array" not in report.markdown()


def test_an_unknown_or_missing_toolkit_is_refused_by_name(monkeypatch):
    with pytest.raises(SnellenError, match=r"unknown toolkit 'quantum'.*quantus"):
        toolkit("quantum")
    monkeypatch.setitem(NEIGHBOURS, "no-such-distribution", "nowhere")
    with pytest.raises(SnellenError, match="'no-such-distribution' is not installed"):
        toolkit("no-such-distribution")


def test_exit_code_1_when_snellen_fails_a_case(monkeypatch):
    from typer.testing import CliRunner

    import snellen.conformance.table as module
    from snellen.cli.main import app

    right, wrong = CASES["complexity/value"], replace(CASES["complexity/value"], expected=0.5)
    for rows, code in (((right,), 0), ((right, wrong), 1)):
        monkeypatch.setattr(module, "reference_cases", lambda rows=rows: rows)
        done = CliRunner().invoke(app, ["conform"])
        assert done.exit_code == code, done.output
        assert "snellen" in done.output


@pytest.mark.slow
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
    assert f"{len(CASES)} of {len(CASES)} right" in done.stdout
    assert all(f"| {name} |" in (tmp_path / "table.md").read_text() for name in CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["captum", "quantus", "grad-cam", "torchcam"])
def test_every_cross_of_a_neighbour_is_explained(name):
    """A claim about somebody else's code must be one that was looked into."""
    kit = toolkit(name)
    crossed = {case.id for case in reference_cases() if run_silently(case, kit).outcome in ("wrong", "error")}
    assert crossed == {case for note in NOTES if note.toolkit == name for case in note.cases}


@pytest.mark.parametrize("name", ["value", "last", "perfect", "sign", "channels", "batch", "order"])
def test_the_curve_of_pixel_flipping_is_read_as_it_is(name):
    """Its points are right; only its own area begins after the first flip, and counts every step as 1."""
    assert run_silently(CASES[f"deletion/{name}"], toolkit("quantus")) == CaseResult("right")


@pytest.mark.parametrize("name", ["completeness/channels", "effective-complexity-count/neighbour"])
def test_quantus_is_given_settings_that_make_the_quantity_the_same(name):
    assert run_silently(CASES[name], toolkit("quantus")) == CaseResult("right")


def test_published_crosses_are_those_that_are_explained():
    """Otherwise: make conformance."""
    published = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in published.splitlines() if line.startswith("| ")]
    names = rows[0][4:]
    crossed = {(kit, row[0]) for row in rows[1:] for kit, result in zip(names, row[4:], strict=True) if result[0] in "✗e"}
    assert crossed == {(note.toolkit, case) for note in NOTES for case in note.cases}
    for kit in names:
        right = sum(row[4 + names.index(kit)] == "✓" for row in rows[1:])
        offered = right + sum(name == kit for name, _ in crossed)
        assert re.search(rf"^- {kit} \S+: {right} of {offered} right", published, flags=re.MULTILINE)


def test_the_published_table_has_a_row_for_every_case():
    """Otherwise: make conformance."""
    published = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    rows = re.findall(r"^\| ([\w+-]+/[\w-]+) \|", published, flags=re.MULTILINE)
    assert rows == list(CASES)


def test_a_softmax_over_independent_labels_would_be_noticed():
    own = toolkit("snellen")

    def exclusive(metric):
        return lambda fixture, **settings: own.compute(metric, replace(fixture, independent=False), settings)

    softmax = Toolkit("softmax", "1", {name: exclusive(name) for name in METRICS})
    reads_probability = {
        "adcc/label", "average-drop/label", "average-gain/label", "deletion/label", "deletion/label-last", "insertion/label",
        "local-accuracy/label", "region-perturbation/label", "road/label-stays", "road/label-probability",
    }  # fmt: skip
    wrong = {case.id for case in CASES.values() if case.kind == "labels" and case.run(softmax).outcome == "wrong"}
    assert reads_probability <= wrong
