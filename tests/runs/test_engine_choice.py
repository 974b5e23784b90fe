"""The engine of a run: stated, kept, or chosen by measuring."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tests.networks import residual
from tests.runs.subject import Small, write_images
from torch import Tensor, nn
from typer.testing import CliRunner

from snellen import Options, Run, SnellenError, evaluate
from snellen.classifier import Classifier
from snellen.classifier.engines import onnx_runtime
from snellen.cli.main import app
from snellen.runs import engine_choice
from snellen.runs.engine_choice import choose_engine
from snellen.runs.progress import Silent
from snellen.runs.record import EngineRecord, EngineTrial
from snellen.runs.settings import Settings
from snellen.runs.subject import samples_for

WHAT = {"methods": ["occlusion(cells=3)", "random"], "metrics": ["deletion(steps=4)"]}


class Noted(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Small()

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images) * (2 if images.mean() > 100 else 1)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), 6)


def run(images: Path, net: nn.Module | None = None, observer: Noted | None = None, **settings: object) -> Run:
    out = settings.pop("out", None)
    options = Options(shard=4, **settings)
    return evaluate(net or Small(), images, **WHAT, out=out, options=options, observer=observer or Silent())


def values(result: Run) -> list[float]:
    return result.scores().sort_values(["method", "metric", "sample"])["value"].tolist()


def test_a_stated_engine_gives_the_same_scores_and_is_kept(images: Path, tmp_path: Path) -> None:
    eager, noted = run(images, engine="eager"), Noted()
    fast = run(images, observer=noted, engine="onnxruntime", out=tmp_path / "run")
    assert values(fast) == pytest.approx(values(eager), abs=1e-5)
    assert fast.record.spec.engine_name == "onnxruntime"
    (note,) = [note for note in noted.notes if note.startswith("engine of forward-only passes: onnxruntime, ")]
    assert "outputs within" in note
    assert "ms per picture, prepared in" in fast.report().read_text(encoding="utf-8")
    # The run goes on with its engine, also where another one is stated, and repeats nothing.
    noted = Noted()
    again = run(images, observer=noted, engine="eager", out=tmp_path / "run")
    assert again.record.spec.engine_name == "onnxruntime"
    assert again.record.engine == fast.record.engine
    assert "4 of 4 units are already finished and will not be repeated" in noted.notes
    assert "the run goes on with the engine 'onnxruntime', with which it was started" in noted.notes


@pytest.mark.slow
def test_workers_prepare_the_engine_themselves(images: Path) -> None:
    here, there = run(images, engine="onnxruntime", threads=1), run(images, engine="onnxruntime", workers=2)
    assert values(there) == values(here)


def test_a_model_that_the_stated_engine_cannot_run_is_computed_eagerly(images: Path) -> None:
    noted = Noted()
    result = run(images, Branching(), noted, engine="onnxruntime")
    assert result.record.spec.engine_name == "eager"
    assert values(result) == values(run(images, Branching(), engine="eager"))
    assert any("onnxruntime: the model's code reads values of the image" in note for note in noted.notes)


def test_a_short_plan_tries_nothing(images: Path) -> None:
    assert run(images).record.engine == EngineRecord(stated=False, trials=(EngineTrial(name="eager"),))


def test_a_long_plan_is_measured(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # without a compiler
    classifier = Classifier(Small())
    threads = torch.get_num_threads()
    choice = choose_engine(
        classifier,
        samples_for(classifier, images),
        passes=10_000_000,
        processes=2,
        threads=1,
        pass_seconds=1e-3,
    )
    assert torch.get_num_threads() == threads
    assert choice.record is not None
    trials = {trial.name: trial for trial in choice.record.trials}
    assert trials.keys() == {"eager", "onnxruntime", "compiled"}
    assert choice.record.trials[0].name == choice.name
    assert trials["compiled"].reason == "no C++ compiler was found"
    assert "ms per picture" in str(choice.note)


def test_unknown_engines_and_missing_packages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SnellenError, match="there is no engine 'onnx'; did you mean 'onnxruntime'"):
        Options(engine="onnx").check()
    monkeypatch.setattr(onnx_runtime, "PACKAGES", ("no_such_package",))
    with pytest.raises(SnellenError, match=r"--engine onnxruntime needs no_such_package: pip install 'snellen\[fast\]'"):
        Options(engine="onnxruntime").check()


def test_a_run_whose_engine_is_missing_here_is_refused(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    run(images, engine="onnxruntime", out=out)
    shutil.rmtree(out / "segments")
    monkeypatch.setattr(onnx_runtime, "PACKAGES", ("no_such_package",))
    with pytest.raises(SnellenError, match="was computed with the engine 'onnxruntime', which cannot be used here"):
        run(images, out=out)


def test_runs_of_older_versions_keep_their_keys_and_their_engine() -> None:
    record = Run(Path(__file__).parents[1] / "runs_v1" / "judged").record
    assert record.spec.engine is None
    assert engine_choice.keep_engine(record, "old").name == "eager"
    compiled = record.changed(spec=record.spec.changed(compiled=True))
    assert engine_choice.keep_engine(compiled, "old").name == "compiled"
    newer = record.changed(spec=record.spec.changed(engine="quantum"))
    with pytest.raises(SnellenError, match="was computed with the engine 'quantum', but this version has eager"):
        engine_choice.keep_engine(newer, "old")


def test_a_request_of_an_older_version_is_read() -> None:
    settings = Settings.of_request({"model": "digits", "compile": True}, out="x")
    assert (settings.model, settings.out, settings.engine) == ("digits", "x", None)
    with pytest.raises(SnellenError, match="compile"):
        Settings.of({"compile": True})


def test_the_command_line_refuses_an_unknown_engine(tmp_path: Path) -> None:
    arguments = ["run", "--model", "digits", "--images", "zoo:digits", "--methods", "random", "--metrics", "sparseness"]
    result = CliRunner().invoke(app, [*arguments, "--engine", "warp", "--out", str(tmp_path / "run")])
    assert result.exit_code != 0
    assert not (tmp_path / "run").exists()
    assert json.dumps("warp")[1:-1] in str(result.exception) + result.output


# Folded normalisations -------------------------------------------------------------------------------------------------


def test_folding_is_recorded_kept_and_part_of_the_keys(images: Path, tmp_path: Path) -> None:
    def go(out: str, *, fold: bool) -> Run:
        options = Options(engine="eager", fold_norms=fold)
        return evaluate(
            residual(), images, methods=["gradient"], metrics=["sparseness"], out=tmp_path / out, options=options
        )

    plain, folded = go("plain", fold=False), go("folded", fold=True)
    assert folded.record.spec.fold_norms
    assert "fold_norms" not in plain.record.spec.as_json()
    assert {unit.unit for unit in plain.record.units}.isdisjoint(unit.unit for unit in folded.record.units)
    assert plain.maps("gradient") == pytest.approx(folded.maps("gradient"), rel=1e-2, abs=1e-4)
    assert "normalisations folded into convolutions" in folded.report().read_text(encoding="utf-8")
    with pytest.raises(SnellenError, match="another setting of --fold-norms"):
        go("plain", fold=True)


def test_folding_is_refused_where_nothing_can_be_folded(images: Path) -> None:
    with pytest.raises(SnellenError, match="has none that can be folded"):
        run(images, fold_norms=True)
