"""Cards of a method from somebody's own package, of methods that wrap another, and of runs made in Python."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from tests.cards.planted_loaded_run import COUNT, Free, planted_run, samples
from typer.testing import CliRunner

from snellen.cards import files, methodology
from snellen.cards.card_set import card, cards_of_runs
from snellen.cards.markdown_reader import read_markdown
from snellen.cards.markdown_writer import write_markdown
from snellen.cards.page import card_page
from snellen.cli.main import app
from snellen.errors import SnellenError
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS, method

WRAPPED = "smoothgrad(of=grad-cam, samples=3)"


@dataclass(frozen=True)
class Louder(Free):
    """The picture itself, as loud as asked."""

    loud: float = 2.0

    def __call__(self, classifier, inputs, targets, *, rng):
        return self.loud * inputs.sum(dim=1)


@pytest.fixture
def run(tmp_path):
    method("louder", cite="somebody2026", needs=set())(Louder)
    try:
        yield planted_run(tmp_path / "run", ["louder", WRAPPED, "grad-cam", "random", "edge"], ["sparsity"])
    finally:
        METHODS._classes.pop("louder", None)


def again(run):
    case = planted_batch(COUNT)
    return methodology.measure(run, classifier=case.classifier, samples=samples(case), images=2, passes=0)


def test_nobody_judged_how_directly_ones_own_method_reads_and_its_claims_are_its_own(run):
    card_set = cards_of_runs([run.folder])
    own = card_set.find("louder")
    assert own.grades["semantic-directness"].word == "not known"
    assert "semantic-directness" not in own.findings
    assert own.prose.summary == "The picture itself, as loud as asked."
    assert "claims of its own: deterministic" in card_page(own, card_set)
    assert "shown by tests on planted and pretrained networks" in card_page(card_set.find("grad-cam"), card_set)
    assert read_markdown(write_markdown(own)).title == "louder"
    assert card_set.find("grad-cam").grades["semantic-directness"].word == "mixed"


def test_a_method_that_wraps_another_needs_what_that_one_needs(run):
    card_set = cards_of_runs([run.folder])
    for written in (WRAPPED, WRAPPED.replace(" ", ""), "smoothgrad"):
        assert card_set.find(written).needs == ("gradients", "layer")
    assert card("smoothgrad", "smoothgrad").needs == ("gradients",)
    assert files.card_without_run("smoothgrad(of=rise)").needs == ()
    assert card("smoothgrad", "smoothgrad(gone=1)").needs == ("gradients",)


def test_a_run_with_a_method_that_is_not_installed_here_says_what_to_do(run):
    METHODS._classes.pop("louder")
    with pytest.raises(
        SnellenError, match="has the method 'louder', which no installed package registers; install"
    ) as refusal:
        cards_of_runs([run.folder])
    assert "snellen.plugins" in str(refusal.value)


def test_a_run_made_in_python_says_where_its_methodology_is_measured_and_is(run):
    with pytest.raises(
        SnellenError, match=r"snellen\.cards\.methodology\.measure\(run, classifier=\.\.\., samples=\.\.\.\)"
    ):
        methodology.measure(run)
    findings = again(run)
    assert findings["louder"]["determinism"].word == "exact"
    assert cards_of_runs([run.folder]).find("louder").grades["determinism"].share == 1


@pytest.mark.parametrize(
    "broken", [[], {"determinism": 1}, {"determinism": {"share": 1}}, {"determinism": {"colour": "red", "share": 1}}]
)
def test_what_was_measured_but_cannot_be_read_gets_one_sentence(run, broken):
    file = run.folder / "methodology" / methodology.FILE
    file.parent.mkdir()
    file.write_text(json.dumps(methodology._new_state(run) | {"findings": {"grad-cam": broken}}))
    result = CliRunner().invoke(app, ["card", "grad-cam", "--run", str(run.folder)])
    assert isinstance(result.exception, SnellenError)
    assert "cannot be read; delete it, and the methodology is measured again" in str(result.exception)


def test_a_test_that_was_not_run_is_not_said_to_be_evaluated(run):
    own = cards_of_runs([run.folder]).find("louder")
    gone = replace(own, evidence=tuple(replace(row, n=0, undefined=0, reason="not run") for row in own.evidence))
    assert "Not counted: not run." in write_markdown(gone)
    assert "Evaluated with" not in write_markdown(gone)


def test_the_nearest_name_is_looked_for_among_names_without_settings_too(run):
    with pytest.raises(SnellenError, match="did you mean 'smoothgrad'"):
        cards_of_runs([run.folder]).find("smothgrad")
