from __future__ import annotations

import io
import json
import shutil
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from tests.runs.subject import finished_units

from snellen.cli import main as cli
from snellen.errors import SnellenError
from snellen.files.integrity import dump_record
from snellen.plugins.registry import METHODS
from snellen.runs.progress import Silent
from snellen.runs.verify import verify
from snellen.textbox.exam.exam_results import ExamResults
from snellen.textbox.exam.run_exam import run_exam
from snellen.textbox.exam.scoring import SCORES, oracle_maps, score
from snellen.textbox.networks.trained_network import shipped_folder
from snellen.textbox.report.exam_table import ExamTable, method_table

QUICK = ["gradient", "lrp-z", "attention-rollout"]
CONTROLS = ("random", "edge", "fake-cam", "centre")


class NoteCollector(Silent):
    """Keeps the sentences that a person would read."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> ExamResults:
    return run_exam(["simple-fr"], methods=QUICK, out=tmp_path_factory.mktemp("field"), per_bucket=1, workers=0, threads=1)


@pytest.fixture
def cached(made, tmp_path) -> Path:
    """A copy of the field, to be added to."""
    return Path(shutil.copytree(made.folder, tmp_path / "cached"))


@pytest.fixture
def network_folder(tmp_path) -> Path:
    """The folder of a network of one's own."""
    return Path(shutil.copytree(shipped_folder() / "simple-fr", tmp_path / "taught"))


def units(folder: Path) -> dict[str, tuple[str, int, int]]:
    return {key: place for path in folder.rglob("run.json") for key, place in finished_units(path.parent).items()}


def test_a_field_has_a_line_for_the_oracle_the_methods_and_the_controls(made):
    assert made.settings == ("simple-fr",)
    assert made.methods == ("oracle", "gradient", "lrp-z", *CONTROLS)
    assert made.controls == CONTROLS
    assert made.changed == ()
    assert made.per_bucket == 1
    assert made.refused == {}


def test_a_method_that_cannot_run_is_listed_with_its_reason(made):
    assert made.left_out == {
        "simple-fr": {
            "attention-rollout": "attention-rollout follows attention between all tokens, but the classifier has no "
            "attention; use grad-cam"
        }
    }


@pytest.mark.parametrize("reading", ["paper", "published-code"])
def test_the_frame_is_the_scores_of_the_stored_maps(made, reading):
    frame, exam = made.frame(reading), made.scenes["simple-fr"]
    assert len(frame) == 12 * 7
    assert frame["simple"].all()
    assert list(dict.fromkeys(frame["method"])) == list(made.methods)
    for method in ("gradient", "edge"):
        rows = frame[frame["method"] == method]
        assert tuple(rows["sample"]) == exam.ids
        assert rows["bucket"].tolist() == exam.buckets.tolist()
        expected = score(exam, made.maps("simple-fr", method, exam.ids), method, reading=reading)
        for name in SCORES:
            np.testing.assert_array_equal(rows[name], expected[name])


def test_the_oracle_is_perfect_and_beats_what_knows_nothing(made):
    means = made.frame().groupby("method")["pafl"].mean()
    assert means["oracle"] == pytest.approx(1.0)
    assert means["lrp-z"] > 0.5 > means[list(CONTROLS)].max()
    some = made.scenes["simple-fr"].ids[7:9]
    np.testing.assert_array_equal(made.maps("simple-fr", "oracle", some), oracle_maps(made.scenes["simple-fr"])[7:9].numpy())


def test_a_field_is_read_back_with_its_proof_and_its_costs(made):
    again = ExamResults.read(made.folder)
    assert again.methods == made.methods
    assert set(again.verification["setting"]) == {"simple-fr"}
    assert (again.verification["share"] >= 0.9).all()
    costs = again.costs.set_index("method")
    assert costs.loc["gradient", ["images", "forward", "backward"]].tolist() == [12, 12, 12]
    assert costs.loc["edge", "forward"] == 0
    assert again.frame().equals(made.frame())


def test_maps_of_a_setting_that_is_not_there_are_refused(made):
    with pytest.raises(SnellenError, match="has no setting 'simple-nr'; did you mean 'simple-fr'"):
        made.maps("simple-nr", "gradient")
    with pytest.raises(SnellenError, match="holds no exam"):
        ExamResults.read(made.folder / "simple-fr")


def test_a_new_method_joins_a_cached_field_and_nothing_is_computed_again(made, cached):
    before = units(cached)
    results = run_exam(add=["input-x-gradient"], out=cached, workers=0, threads=1)
    assert results.methods == ("oracle", "gradient", "lrp-z", "input-x-gradient", *CONTROLS)
    after = units(cached)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 1
    old = made.frame().query("method == 'lrp-z'").reset_index(drop=True)
    assert results.frame().query("method == 'lrp-z'").reset_index(drop=True).equals(old)


def test_without_a_field_a_new_method_stands_beside_the_controls(tmp_path):
    observer = NoteCollector()
    results = run_exam(["simple-fr"], add=["gradient"], out=tmp_path, per_bucket=1, workers=0, threads=1, observer=observer)
    assert results.methods == ("oracle", "gradient", *CONTROLS)
    assert "there is no exam in" in observer.notes[0]
    assert observer.notes[1].startswith("simple-fr: 5 methods on 12 scenes in ")
    assert len(observer.notes) == 2


OWN = """
    from dataclasses import dataclass
    from snellen.plugins.registry import method
    from snellen.types import Passes

    @method("own-{power}", cite="simonyan2014", needs={{"gradients"}})
    @dataclass(frozen=True)
    class Own:
        '''The gradient to some power.'''
        def passes(self, size, classifier):
            return Passes(1, 1)
        def __call__(self, classifier, inputs, targets, *, rng):
            return classifier.gradient(inputs, targets)[0].abs().sum(dim=1{more}) ** {power}
"""


@pytest.mark.slow
def test_one_s_own_method_is_scored_and_stays_and_a_broken_one_is_said_and_forgotten(cached, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_good.py").write_text(textwrap.dedent(OWN.format(power=2, more="")))
    (tmp_path / "own_broken.py").write_text(textwrap.dedent(OWN.format(power=3, more=", keepdim=True")))
    try:
        results = run_exam(add=["own_good:Own"], out=cached, workers=0, threads=1)
        gradient = results.maps("simple-fr", "gradient") ** 2
        assert results.maps("simple-fr", "own-2").shape == gradient.shape
        assert results.frame().query("method == 'own-2'")["pafl"].mean() > 0.3
        with pytest.raises(SnellenError, match="own-3 gave maps of 12×1×64×64, not one number per pixel of each image"):
            run_exam(add=["own_broken:Own"], out=cached, workers=0, threads=1)
        results = run_exam(add=["input-x-gradient"], out=cached, workers=0, threads=1)
        assert results.methods == ("oracle", "gradient", "lrp-z", "own-2", "input-x-gradient", *CONTROLS)
    finally:
        for name in ("own-2", "own-3"):
            METHODS._classes.pop(name, None)
        for name in ("own_good", "own_broken"):
            sys.modules.pop(name, None)
    (tmp_path / "own_good.py").unlink()
    observer = NoteCollector()
    results = run_exam(add=["gradient"], out=cached, workers=0, threads=1, observer=observer)
    assert "own-2" not in results.methods
    assert observer.notes[0].startswith(f"own-2 of '{cached}' is left out: 'own_good:Own': there is no module")


def test_methods_that_a_stranger_s_folder_names_are_not_imported(cached, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strange_method.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'executed')!r}).touch()")
    record = json.loads((cached / "field.json").read_bytes())
    line = {"label": "strange", "text": "strange_method:Own", "control": False, "changed": False, "seal": "0" * 64}
    (cached / "field.json").write_bytes(dump_record(record | {"methods": [*record["methods"], line]}))
    with pytest.raises(SnellenError, match="would import the method 'strange_method:Own'; look at it, and add --trust"):
        run_exam(add=["gradient"], out=cached, workers=0, threads=1)
    assert not (tmp_path / "executed").exists()


def test_damaged_files_of_a_field_are_refused_or_computed_again(cached):
    whole = ExamResults.read(cached).frame()
    kept = sorted(cached.glob("*/truth/*/*.parquet"))
    for path in kept:
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 1
        path.write_bytes(content)
    assert verify(cached).problems
    assert ExamResults.read(cached).frame().equals(whole)
    proof = next(cached.glob("*/verification.csv"))
    proof.write_text(proof.read_text().replace("1", "2", 1))
    with pytest.raises(SnellenError, match=r"verification\.csv' is damaged"):
        _ = ExamResults.read(cached).verification
    record = (cached / "field.json").read_text()
    (cached / "field.json").write_text(record.replace('"images": 1', '"images": 3'))
    with pytest.raises(SnellenError, match="does not match its checksum"):
        ExamResults.read(cached)


class Interrupting(Silent):
    """Stands for a person who presses Ctrl-C when so many units are done."""

    def __init__(self, after: int) -> None:
        self.left = after

    def begin(self, stage, passes, units) -> None:
        self.stage = stage

    def finished(self, passes) -> None:
        self.left -= "explaining" in self.stage
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_interrupted_work_is_kept_and_the_same_call_continues(made, tmp_path):
    arguments = {"methods": QUICK, "out": tmp_path, "per_bucket": 1, "workers": 0, "threads": 1}
    with pytest.raises(KeyboardInterrupt):
        run_exam(["simple-fr"], **arguments, observer=Interrupting(2))
    kept = units(tmp_path)
    assert 2 <= len(kept) < 6
    results = run_exam(["simple-fr"], **arguments)
    assert {name: units(tmp_path)[name] for name in kept} == kept
    assert results.frame().equals(made.frame())


@pytest.mark.slow
def test_an_interrupted_addition_leaves_the_field_as_it_was(made, cached):
    arguments = {
        "methods": ["deconvnet", "guided-backprop", *QUICK],
        "out": cached,
        "per_bucket": 1,
        "workers": 0,
        "threads": 1,
    }
    with pytest.raises(KeyboardInterrupt):
        run_exam(["simple-fr"], **arguments, observer=Interrupting(1))
    left = ExamResults.read(cached)
    assert left.methods == made.methods
    assert left.frame().equals(made.frame())
    assert run_exam(["simple-fr"], **arguments).methods[1:3] == ("deconvnet", "guided-backprop")


def test_a_folder_of_another_exam_or_of_other_weights_says_so(cached, network_folder):
    with pytest.raises(SnellenError, match="holds an exam of 1 images per bucket, not 2; choose another --out"):
        run_exam(["simple-fr"], methods=["gradient"], out=cached, per_bucket=2)
    weights = load_file(network_folder / "weights.safetensors")
    save_file({name: value * 1.01 for name, value in weights.items()}, network_folder / "weights.safetensors")
    with pytest.raises(SnellenError, match="was made with other weights of 'simple-fr'"):
        run_exam([network_folder], methods=["gradient"], out=cached, per_bucket=1)


@pytest.mark.slow
def test_a_model_that_does_not_follow_its_rule_is_no_ground_truth(network_folder, tmp_path):
    weights = load_file(network_folder / "weights.safetensors")
    last = max(name for name in weights if name.endswith("bias"))
    weights[last] = weights[last] + torch.tensor([100.0, 0.0]).to(weights[last])
    save_file(weights, network_folder / "weights.safetensors")
    arguments = {"methods": ["gradient"], "per_bucket": 1, "workers": 0, "threads": 1}
    with pytest.raises(SnellenError, match="'simple-fr' does not follow its rule 'box1'"):
        run_exam([network_folder], out=tmp_path / "alone", **arguments)
    assert not (tmp_path / "alone").exists()
    observer = NoteCollector()
    results = run_exam([network_folder, "simple-fr"], out=tmp_path / "both", observer=observer, **arguments)
    assert results.settings == ("simple-fr",)
    assert list(results.refused) == ["taught"]
    assert observer.notes[0].startswith("taught is left out, for it is no ground truth: ")


def test_the_terminal_shows_the_oracle_first_the_best_next_and_the_controls_last(made):
    assert method_table(made)["method"].tolist()[:3] == ["oracle", "lrp-z", "gradient"]
    table = method_table(made).set_index("method")
    assert table.loc["oracle", ["simple", "simple_worst", "success", "failing"]].tolist() == [1.0, 1.0, 1.0, 0.0]
    assert table["complex"].isna().all()
    assert set(table.index[-4:]) == set(CONTROLS)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(ExamTable(made))
    text = console.export_text()
    assert "attention-rollout: not run: " in text
    assert text.index("oracle") < text.index("lrp-z") < text.index("controls") < text.index("fake-cam")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--settings", "simple-rf"], "there is no setting 'simple-rf'"),
        (["--model", "nowhere"], "there is no setting 'nowhere', nor a folder of that name with a trained network"),
        (["--methods", "gradient,grdient"], "unknown method 'grdient'; did you mean 'gradient'?"),
        (["--method", "nowhere:Own"], "there is no module 'nowhere'"),
        (["--method", "snellen.metrics.deletion:Deletion"], "is not a saliency method"),
        (["--method", "attention-rollout", "--settings", "simple-fr"], "attention-rollout follows attention"),
        (["--images", "0"], "images must be at least 1, not 0"),
        (["--variation", "noise", "--images", "0"], "images must be at least 1, not 0"),
        (["--variation", "noise", "--threads", "0"], "threads must be at least 1, not 0"),
        (["--workers", "-1"], "workers must be at least 0, not -1"),
        (["--reading", "papr"], "there is no reading 'papr'; did you mean 'paper'?"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_computed(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["snellen", "textbox", "run", *words, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_corrupt_weights_are_one_sentence_too(network_folder, tmp_path, monkeypatch, capsys):
    (network_folder / "weights.safetensors").write_bytes(b"nothing")
    monkeypatch.setattr(
        sys, "argv", ["snellen", "textbox", "run", "--model", str(network_folder), "--out", str(tmp_path / "out")]
    )
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "cannot be used" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_command_prints_the_table_and_writes_the_report(cached, monkeypatch, capsys):
    words = ["--method", "input-x-gradient", "--out", str(cached), "--workers", "0", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["snellen", "textbox", "run", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert "input-x-gradient" in shown
    assert f"report: {cached / 'report.html'}" in shown.replace("\n", "")
    assert (cached / "report.html").stat().st_size > 10_000
