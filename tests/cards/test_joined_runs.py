"""Several runs read as one, runs that cannot be, and the commands that choose and compare, as a person calls them."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from tests.cards.planted_card_set import planted_deck

from snellen.cards.card_set import cards_of_runs
from snellen.cards.compare import CardComparison
from snellen.cards.compare_page import page
from snellen.cards.joined_runs import JoinedRuns
from snellen.cards.schema import Finding
from snellen.cli import main as cli
from snellen.errors import SnellenError
from snellen.files.integrity import dump_record
from snellen.images import from_arrays
from snellen.plugins.checks.planted import planted_batch
from snellen.report.readable import Readable
from snellen.runs import Options, Run, evaluate


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Small runs: one whole, one that adds to it, and others that do not belong to it."""
    scene, resnet = planted_batch(), planted_batch(kind="resnet")
    pixels = scene.classifier.to_pixels(scene.inputs).clamp(0, 1)
    samples, others = from_arrays(pixels), from_arrays(pixels.flip(2))
    folder = tmp_path_factory.mktemp("joined")
    made = {
        "whole": (scene, samples, ["gradient", "grad-cam", "random"], ["complexity", "sparsity"], {}),
        "more": (scene, samples, ["input-x-gradient", "gradient", "random"], ["complexity", "average-drop"], {}),
        "model": (resnet, samples, ["gradient", "random"], ["complexity"], {}),
        "images": (scene, others, ["gradient", "random"], ["complexity"], {}),
        "seed": (scene, samples, ["gradient", "random"], ["complexity"], {"seed": 1}),
        "target": (scene, samples, ["gradient", "random"], ["complexity"], {"target": "least-likely"}),
        "alone": (scene, samples, ["gradient"], ["complexity"], {}),
    }
    for name, (planted, shown, methods, metrics, changes) in made.items():
        options = Options(shard=4, threads=1)
        evaluate(planted.classifier, shown, methods=methods, metrics=metrics, out=folder / name, options=options, **changes)
    shutil.copytree(folder / "whole", folder / "unfinished")
    rewritten(folder / "unfinished", lambda record: record.update(finished=None))
    shutil.copytree(folder / "whole", folder / "older")
    rewritten(folder / "older", lambda record: record["spec"]["metrics"][0].update(version=99))
    return folder


def rewritten(folder, change):
    file = folder / "run.json"
    record = json.loads(file.read_text())
    change(record)
    file.write_bytes(dump_record(record))


# Joining -----------------------------------------------------------------------------------------------------------------


def test_a_later_run_adds_methods_and_metrics(runs):
    whole, more = Run(runs / "whole"), Run(runs / "more")
    both = JoinedRuns([whole, more])
    assert isinstance(both, Readable)
    assert [spec.label for spec in both.record.spec.methods] == ["gradient", "grad-cam", "random", "input-x-gradient"]
    assert [spec.label for spec in both.record.spec.metrics] == ["complexity", "sparsity", "average-drop"]
    scores = both.scores()
    pairs = set(zip(scores["method"], scores["metric"], strict=True))
    assert ("grad-cam", "sparsity") in pairs
    assert ("input-x-gradient", "average-drop") in pairs
    assert not scores.duplicated(["sample", "method", "metric"]).any()
    ours = scores[(scores["method"] == "gradient") & (scores["metric"] == "sparsity")]["value"].to_numpy()
    theirs = whole.scores().query("method == 'gradient' and metric == 'sparsity'")["value"].to_numpy()
    np.testing.assert_array_equal(ours, theirs)
    ids = list(both.samples()["sample"])
    assert both.maps("input-x-gradient", ids).shape == both.maps("grad-cam", ids).shape
    assert set(both.costs()["method"]) == {"gradient", "grad-cam", "random", "input-x-gradient"}
    assert both.picture(ids[0]) is not None
    assert both.folder == runs / "whole"


def test_where_two_runs_hold_the_same_score_the_earlier_stands(runs):
    class Changed:
        def __init__(self, run):
            self._run, self.folder, self.record = run, run.folder, run.record

        def __getattr__(self, name):
            return getattr(self._run, name)

        def scores(self):
            return self._run.scores().assign(value=-1.0)

    first = Run(runs / "whole")
    scores = JoinedRuns([first, Changed(Run(runs / "more"))]).scores()
    pd.testing.assert_frame_equal(scores.iloc[: len(first.scores())], first.scores())
    assert (scores.iloc[len(first.scores()) :]["value"] == -1).all()


def test_a_deck_of_two_runs_has_the_cards_of_both_and_the_same_folder_counts_once(runs):
    card_set = cards_of_runs([runs / "whole", runs / "more", runs / "whole" / ".." / "whole"])
    assert [card.method for card in card_set.methods] == ["gradient", "grad-cam", "input-x-gradient"]
    assert card_set.notes == ()
    assert card_set.cards[0].measured("input-sensitivity")


def test_a_run_without_controls_is_judged_by_those_of_another(runs):
    card_set = cards_of_runs([runs / "alone", runs / "whole"])
    assert {card.method for card in card_set.cards if card.control} == {"random"}


def test_what_was_measured_of_each_run_enters_the_cards_and_the_earlier_run_stands(runs):
    def measured(run):
        share = 0.9 if run.folder.name == "whole" else 0.2
        return {
            method: {"determinism": Finding(attribute="determinism", word="by hand", sentence="By hand.", share=share)}
            for method in run.methods
        }

    grades = {
        card.method: card.grades["determinism"].share
        for card in cards_of_runs([runs / "whole", runs / "more"], measured).methods
    }
    assert grades == {"gradient": 0.9, "grad-cam": 0.9, "input-x-gradient": 0.2}
    assert math.isnan(cards_of_runs([runs / "whole"]).cards[0].grades["determinism"].share)  # nothing was measured before


def test_an_unfinished_run_is_read_and_said_to_be(runs):
    (note,) = cards_of_runs([runs / "unfinished"]).notes
    assert "is unfinished" in note
    assert "the same evaluate() finishes it" in note  # it was made in Python, so no command could go on


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["whole", "model"], r"are runs of different models, .*; give runs of one model"),
        (["whole", "images"], r"have different images, .*; give runs of the same images"),
        (["whole", "seed"], r"differ in --seed, 0 and 1; run one of them again with the other's"),
        (["whole", "target"], r"differ in --target, predicted and least-likely"),
        (["whole", "older"], r"have complexity in versions 1 and 99"),
        (["alone"], r"has no controls, so nothing can be judged; add random,edge,fake-cam,centre"),
        (["nowhere"], r"'.*nowhere' is not a run folder"),
        ([], r"need --run RUN"),
    ],
)
def test_runs_that_do_not_belong_together_get_one_sentence(runs, names, sentence):
    with pytest.raises(SnellenError, match=sentence) as problem:
        cards_of_runs([runs / name for name in names])
    assert "\n" not in str(problem.value)


# Comparing ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def card_set():
    return planted_deck()


def test_a_comparison_has_all_ten_attributes_and_the_widest_gap_first(card_set):
    both = CardComparison.of(card_set, ["grad-cam", "gradient", "grad-cam"])
    assert [card.method for card in both.cards] == ["grad-cam", "gradient"]
    assert len(both.rows) == 10
    assert [len(row.tests) for row in both.rows] == [0] * 5 + [2] * 5
    sizes = [difference.size for difference in both.differences]
    assert sizes == sorted(sizes, reverse=True)
    first = both.differences[0]
    assert first.size == pytest.approx(first.best.grades[first.attribute].share - first.worst.grades[first.attribute].share)
    test = both.rows[5].tests[0]
    assert [test.of(card).verdict for card in both.cards] == ["pass", "fail"]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["grad-cam"], "compare needs two different methods or more"),
        (["grad-cam", "grad-cam"], "not only grad-cam; name another"),
        (["grad-cam", "gradcam"], r"has no method 'gradcam'; did you mean 'grad-cam'\?"),
    ],
)
def test_what_cannot_be_compared(card_set, names, sentence):
    with pytest.raises(SnellenError, match=sentence):
        CardComparison.of(card_set, names)


def test_the_page_shows_every_method_in_every_test_with_shapes_and_words(card_set):
    cards = CardComparison.of(card_set, ["grad-cam", "gradient", "rise"])
    text = page(cards)
    tests = sum(len(row.tests) for row in cards.rows)
    assert text.count('class="strip"') == 3 * tests
    assert text.count('class="axis"') == tests
    assert text.count("<i>●</i>pass") > 0
    assert text.count("<i>■</i>fail") > 0
    assert "gradient: fail, mean 0." in text  # what a strip shows is said to those who do not see it
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "Where they differ most" in text


def test_a_test_that_was_not_run_on_a_method_says_so(runs):
    text = page(CardComparison.of(cards_of_runs([runs / "whole", runs / "more"]), ["grad-cam", "input-x-gradient"]))
    assert "<i>○</i>not run" in text
    assert "3 images are too few for a verdict" in text


# Commands ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def snellen(monkeypatch, capsys):
    """Calls a command as the shell would: its exit code, what it printed, and what it complained."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["snellen", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return call


def read_strictly(text: str, schema: str) -> dict:
    """One JSON document without NaN, which its schema describes down to the last name."""

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    values = json.loads(text, parse_constant=refuse)
    described = json.loads((Path(__file__).parents[2] / "docs" / "schema" / schema).read_text())
    for part in (described, *described["$defs"].values()):
        part["additionalProperties"] = part.get("additionalProperties", False)
    jsonschema.Draft202012Validator(described).validate(values)
    return values


def test_recommend_prints_the_choice_as_text_and_as_json(snellen, runs):
    words = (
        "recommend", "--run", runs / "whole", "--run", runs / "more", "--need", "semantic-directness",
        "--nice", "minimality,label-sensitivity", "--unwanted", "input-sensitivity",
    )  # fmt: skip
    code, output, wrong = snellen(*words)
    assert (code or 0, wrong) == (0, "")
    assert "grad-cam, gradient and input-x-gradient meet your needs on this data" in output
    code, output, wrong = snellen(*words, "--json")
    assert (code or 0, wrong) == (0, "")
    read = read_strictly(output, "recommendation.json")
    assert [place["method"] for place in read["places"]] == ["grad-cam", "gradient", "input-x-gradient"]
    assert isinstance(read["places"][0]["score"], float)
    assert read["places"][0]["grades"]["label-sensitivity"] is None


def test_compare_prints_json_and_nothing_else(snellen, runs, tmp_path):
    names = ["grad-cam", "input-x-gradient"]
    words = ("compare", *names, "--run", runs / "whole", "--run", runs / "more", "--json", "--out", tmp_path / "both.html")
    code, output, wrong = snellen(*words)
    assert code in (0, None)
    assert wrong == f"written: {tmp_path / 'both.html'}\n"
    read = read_strictly(output, "comparison.json")
    assert read["methods"] == names
    card_set = cards_of_runs([runs / "whole", runs / "more"])
    comparison = CardComparison.of(card_set, names)
    assert [row["attribute"] for row in read["attributes"]] == [row.attribute for row in comparison.rows]
    measured = {test["metric"]: test["results"] for row in read["attributes"] for test in row["tests"]}
    for method_card in comparison.cards:
        for evidence in method_card.evidence:
            if evidence.own and evidence.n:
                assert measured[evidence.metric][method_card.method]["mean"] == evidence.mean  # not rounded
    assert any(results["input-x-gradient"] is None for results in measured.values())


def test_profiles_are_listed_without_a_run(snellen):
    code, output, _ = snellen("recommend", "--profile", "list")
    assert (code or 0) == 0
    assert "radiologist" in output
    assert "unwanted: minimality" in output


def test_compare_prints_methods_side_by_side(snellen, runs, tmp_path):
    code, output, wrong = snellen(
        "compare", "grad-cam", "gradient", "--run", runs / "whole", "--out", tmp_path / "both.html"
    )
    assert (code or 0, wrong) == (0, "")
    assert "semantic directness" in output
    assert "3 images are too few for a verdict" in output
    assert (tmp_path / "both.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["recommend", "--need", "speed", "--run", "whole"], "unknown attribute 'speed'"),
        (["recommend", "--need", "minimality", "--unwanted", "minimality", "--run", "whole"], "cannot be both"),
        (["recommend", "--profile", "list", "--json"], "--profile list prints all roles and has no JSON"),
        (
            ["compare", "grad-cam", "gradient", "--run", "whole", "--json", "x.json"],
            "--json prints to the terminal and takes no",
        ),
        (["recommend", "--avoid-cost", "soon", "--run", "whole"], "--avoid-cost must be a time"),
        (["recommend", "--profile", "doctor", "--run", "whole"], "there is no profile 'doctor'"),
        (["recommend", "--run", "whole"], "nothing was asked for"),
        (["recommend", "--need", "minimality"], "need --run RUN"),
        (["recommend", "--need", "minimality", "--run", "alone"], "has no controls"),
        (["recommend", "--need", "minimality", "--run", "whole", "--run", "model"], "different models"),
        (["recommend", "--need", "minimality", "--run", "nowhere"], "is not a run folder"),
        (["compare", "grad-cam", "--run", "whole"], "two different methods"),
        (["compare", "grad-cam", "rise", "--run", "whole"], "has no method 'rise'"),
        (["compare", "grad-cam", "gradient"], "need --run RUN"),
    ],
)
def test_a_mistake_exits_with_2_and_one_sentence(snellen, runs, words, sentence):
    at = [runs / word if before == "--run" else word for before, word in zip([None, *words], words, strict=False)]
    code, output, wrong = snellen(*at)
    assert code == 2
    assert sentence in wrong
    assert wrong.startswith("snellen: ")
    assert wrong.count("\n") == 1
    assert "Traceback" not in wrong + output
