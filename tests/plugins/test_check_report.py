"""`snellen check`: the contract suite as a list of what passed, failed and does not apply."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from snellen.cli.main import app
from snellen.errors import SnellenError
from snellen.plugins.checks import CheckReport, check, checks
from snellen.plugins.registry import METRICS, metric
from snellen.report.check_list import check_list, counts
from snellen.types import Passes

FILE = '''
import torch


def slopes(classifier, inputs, targets):
    """Input times gradient."""
    return (inputs * classifier.gradient(inputs, targets)[0]).sum(dim=1)


def flat(classifier, inputs, targets):
    return torch.ones_like(inputs[:, 0])


def channels(classifier, inputs, targets):
    return inputs


def divides(classifier, inputs, targets):
    return inputs.mean(dim=1) / (1 // 0)


def ends(classifier, inputs, targets):
    raise SystemExit(3)


def grows(classifier, inputs, targets):
    next(classifier.module.parameters()).data.add_(0.01)
    return torch.rand(inputs.shape[0], *inputs.shape[2:])


class Scaled:
    """Input times gradient times a number."""

    needs = {"gradients"}

    def __init__(self, factor: float = 2.0):
        self.factor = factor

    def __call__(self, classifier, inputs, targets):
        return self.factor * slopes(classifier, inputs, targets)


def spread(case):
    """Standard deviation of a map."""
    return case.maps.flatten(1).std(dim=1)


spread.higher_is_better = False


def inside(case):
    """Share of the map inside the mask."""
    maps = case.maps.abs()
    share = (maps * case.truth).sum(dim=(1, 2)) / maps.sum(dim=(1, 2))
    return torch.where(case.truth.flatten(1).any(dim=1), share, torch.nan)


inside.needs = {"truth"}


def sorted_spread(case):
    return spread(case).sort().values


def hides_needs(case):
    return (case.maps.abs() * case.truth).sum(dim=(1, 2)) / case.maps.abs().sum(dim=(1, 2))


def one_number(case):
    return [[value] for value in spread(case).tolist()]


def pair(first, second):
    return first
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def results(report: CheckReport) -> dict[str, str]:
    return {outcome.check: outcome.result for outcome in report.outcomes}


def reasons(report: CheckReport) -> dict[str, str]:
    return {outcome.check: outcome.reason for outcome in report.outcomes}


def test_a_plain_function_passes_what_can_be_asked_of_it(file):
    report = CheckReport.of(f"{file}:slopes")
    assert (report.plugin, report.kind, report.is_plain, report.failures) == ("mine.py:slopes", "method", True, ())
    result = results(report)
    assert {
        result[f"{rule}/{net}"] for rule in ("finite-maps", "finds-planted-patch") for net in ("cnn", "resnet", "vit")
    } == {"pass"}
    assert {result[rule] for rule in ("signed", "complete", "deterministic", "black-box")} == {"not applicable"}
    assert "a plain function does not state this" in reasons(report)["signed"]


def test_a_function_that_ignores_the_model_fails_with_reasons(file):
    failed = {outcome.rule: outcome.reason for outcome in CheckReport.of(f"{file}:flat").failures}
    assert set(failed) == {"finds-planted-patch", "model-unchanged-after-error"}
    assert "the patch covers 11 % of an image and gets" in failed["finds-planted-patch"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("divides", "it raises an error (ZeroDivisionError: integer division or modulo by zero) in mine.py, line 19"),
        ("channels", "gave maps of 3×3×24×24, but it must give one number per pixel of each image, 3×24×24"),
        ("ends", "called sys.exit(3), which would end everything"),
    ],
)
def test_an_error_in_the_file_is_one_reason_with_its_line(file, name, sentence):
    report = CheckReport.of(f"{file}:{name}")
    assert {outcome.rule for outcome in report.failures} == {"finite-maps"}
    assert sentence in report.failures[0].reason
    assert reasons(report)["wide-image/cnn"] == "not tried, because finite-maps raised an error"


def test_what_a_function_does_to_the_model_and_to_chance_is_named(file):
    failed = {outcome.rule: outcome.reason for outcome in CheckReport.of(f"{file}:grows").failures}
    assert failed["model-unchanged"] == "it changes the tensors of the model"
    assert failed["same-rng-same-map"] == "the same rng gives another map"
    assert not CheckReport.of(f"{file}:slopes").failures  # the networks are whole again


def test_a_class_with_stated_needs_is_held_to_them(file):
    report = CheckReport.of(f"{file}:Scaled(factor=3)")
    assert report.plugin == "mine.py:Scaled(factor=3.0)"
    assert results(report)["black-box"] == "pass"
    assert not report.failures


def test_metrics_and_their_direction(file):
    assert not CheckReport.of(f"{file}:inside").failures
    assert results(CheckReport.of(f"{file}:inside"))["empty-truth"] == "pass"
    turned = CheckReport.of(f"{file}:inside", good="random", bad=f"{file}:slopes")
    assert [outcome.rule for outcome in turned.failures] == ["direction"]
    assert "the good method Random gets" in turned.failures[0].reason
    assert not CheckReport.of(f"{file}:spread").failures


def test_metrics_that_mix_samples_or_hide_what_they_need_fail(file):
    mixed = {outcome.rule: outcome.reason for outcome in CheckReport.of(f"{file}:sorted_spread").failures}
    assert "scores depend on the order of samples" in mixed["permutation"]
    hidden = {outcome.rule: outcome.reason for outcome in CheckReport.of(f"{file}:hides_needs").failures}
    assert set(hidden) == {"without-truth"}
    assert 'state its attribute needs = {"truth"}' in hidden["without-truth"]


def test_a_metric_that_gives_scores_of_another_shape_has_one_readable_reason(file):
    @metric("own-column", cite="own", attribute="input-sensitivity", higher_is_better=False, bounds=(0.0, 9.0))
    @dataclass(frozen=True)
    class Column:
        """The average of a map, in a column."""

        def passes(self, size, explain, classifier):
            return Passes()

        def __call__(self, case, *, rng):
            return case.maps.mean(dim=(1, 2))[:, None]

    try:
        for name, sentence in (
            (f"{file}:one_number", "gave scores of 6×1, but it must give one per image, 6"),
            ("own-column", "6 samples get scores of the shape (6, 1), not one score each"),
        ):
            (failure,) = CheckReport.of(name).failures
            assert failure.rule == "direction"
            assert sentence in failure.reason
    finally:
        del METRICS._classes["own-column"]


def test_functions_classes_and_instances_in_python(file):
    def flat(classifier, inputs, targets):
        return 0 * inputs[:, 0]

    class Mean:
        def __call__(self, case):
            return case.maps.mean(dim=(1, 2))

    assert CheckReport.of(flat).kind == "method"
    assert CheckReport.of(Mean).kind == "metric"
    assert CheckReport.of(Mean()).kind == "metric"
    assert {rule.rule for rule in checks(flat)} >= {"finite-maps", "finds-planted-patch"}
    with pytest.raises(SnellenError, match="it returns a map although the model raises"):
        check(flat)


@pytest.mark.parametrize("name", ["gradient", "random", "deletion", "pointing-game", "target-sensitivity", "cam"])
def test_built_in_names_break_no_rule(name):
    report = CheckReport.of(name)
    assert not report.failures
    assert not report.is_plain


def test_a_network_that_a_method_refuses_does_not_apply(file):
    report = CheckReport.of("cam")
    assert results(report)["accepts/vit"] == "not applicable"
    assert "linear at blocks.1.attn.qkv" in reasons(report)["accepts/vit"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("gradiant", "unknown method or metric 'gradiant'; did you mean 'gradient'?"),
        (
            "{file}:pair",
            "is neither a method, which is called as f(classifier, inputs, targets), nor a metric, called as m(case)",
        ),
        ("{file}:torch", "is neither a method"),
        ("{file}:nothing", "'{file}' has no 'nothing'"),
        ("{file}.py:f", "cannot be read"),
    ],
)
def test_mistakes_are_sentences(file, name, sentence):
    with pytest.raises(SnellenError) as caught:
        CheckReport.of(name.format(file=file))
    assert sentence.format(file=file) in str(caught.value)


def test_an_error_while_importing_names_file_and_line(file):
    file.write_text("import torch\n\n\nnothing.at_all\n")
    with pytest.raises(SnellenError) as caught:
        CheckReport.of(f"{file}:f")
    assert str(caught.value).endswith("failed (NameError: name 'nothing' is not defined) in mine.py, line 4")
    file.write_text("def f(:\n")
    with pytest.raises(SnellenError, match=r"SyntaxError: .*\(mine.py, line 1\)"):
        CheckReport.of(f"{file}:f")


def test_the_list_has_a_row_per_rule_and_failures_last(file):
    report = CheckReport.of(f"{file}:flat")
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(check_list(report))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert lines[0] == "mine.py:flat, a method that states nothing about itself"
    assert "✓ pass  finite-maps (cnn, resnet, vit): A map has one finite number per pixel." in lines
    assert lines[-1] == counts(report) == "mine.py:flat: 6 fail, 23 pass, 7 not applicable"
    assert lines[-2].strip().startswith("the patch covers 11 %")


def test_the_command_gives_an_exit_code_and_json(file):
    good = CliRunner().invoke(app, ["check", f"{file}:slopes"])
    assert good.exit_code == 0
    assert "mine.py:slopes: 29 pass, 7 not applicable" in good.output
    listed = CliRunner().invoke(app, ["check", f"{file}:slopes", "gradient", "--json"])
    assert [report["plugin"] for report in json.loads(listed.stdout)] == ["mine.py:slopes", "gradient"]
    bad = CliRunner().invoke(app, ["check", f"{file}:flat"])
    assert bad.exit_code == 1
    assert "✗ fail" in bad.output
