"""Teaching: what is asked for, what is refused before anything is trained, and folders that are whole or not there."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.textbox.tiny import AGAINST, QUICK, TINY

from snellen.errors import InterruptionError, SnellenError
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import find_network
from snellen.textbox.networks.training import TrainingPlan, TrainingStep
from snellen.textbox.networks.training_jobs import (
    FOLDER,
    check_trainable,
    output_folders,
    specs_from_options,
    train_all,
    train_and_save,
)
from snellen.textbox.networks.training_progress import TrainingProgress, bucket_table, summary_lines
from snellen.textbox.networks.verification import verify
from snellen.textbox.scenes.settings import RULES


@pytest.fixture
def board() -> TrainingProgress:
    return TrainingProgress(Console(file=io.StringIO(), width=200))


def printed(board: TrainingProgress) -> str:
    file = board.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_what_is_asked_for_by_name_rule_or_all() -> None:
    assert specs_from_options("simple-fr") == [NetworkSpec.of_setting("simple-fr")]
    (mine,) = specs_from_options(None, rule="if box2: box1 else: text == 'B'", name="mine", architecture="resnet")
    assert (mine.name, mine.architecture, mine.rule.labels) == (
        "mine",
        "resnet",
        NetworkSpec.of_setting("complex-cr1").rule.labels,
    )
    assert [spec.name for spec in specs_from_options(None, every=True)] == list(RULES)
    assert [spec.name for spec in specs_from_options("simple-nr", robust=True, background="noise")] == [
        "simple-nr-noise-robust"
    ]
    assert [(spec.name, spec.side) for spec in specs_from_options("simple-fr", side=96)] == [("simple-fr-96", 96)]


def test_a_rule_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "stars.yaml").write_text("rule: star\nside: 20\nthings: {star: 5, dot: 2}\n")
    (spec,) = specs_from_options(None, rule=str(tmp_path / "stars.yaml"))
    assert (spec.name, spec.side, spec.rule.text) == ("stars", 20, "star")


def test_folders_for_one_and_for_several() -> None:
    single, several = specs_from_options("simple-fr"), specs_from_options(None, every=True)
    assert output_folders(single, None) == [FOLDER / "simple-fr"]
    assert output_folders(single, Path("x")) == [Path("x")]
    assert output_folders(several, Path("x")) == [Path("x") / name for name in RULES]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"setting": None}, "name a setting to train on, or give a --rule"),
        ({"setting": "simple-fr", "rule": "box1"}, "one of the three"),
        ({"setting": "simple-fr", "every": True}, "one of the three"),
        ({"setting": None, "every": True, "name": "mine"}, "--name is for one"),
        ({"setting": "simple"}, "there is no setting 'simple'"),
        ({"setting": "simple-fr", "architecture": "vit"}, "there is no architecture 'vit'; did you mean 'vit-tiny'"),
        ({"setting": "simple-fr", "background": "nose"}, "did you mean 'noise'"),
        ({"setting": None, "rule": "box3"}, "names 'box3', but the scenes hold text, box2 and box1"),
        ({"setting": None, "rule": "box1 and not box1"}, "contradicts itself|gives every picture the label"),
        ({"setting": None, "rule": "box1", "name": "../up"}, "cannot be called"),
        ({"setting": None, "rule": "box1", "name": ".."}, "cannot be called"),
        ({"setting": "simple-fr", "side": 5000}, "a whole number of pixels up to 512, not 5000"),
    ],
)
def test_mistakes_are_refused_before_training(options: dict[str, str | int], sentence: str) -> None:
    with pytest.raises(SnellenError, match=sentence) as on_step:
        specs_from_options(**options)  # type: ignore[arg-type]
    assert "\n" not in str(on_step.value)


@pytest.mark.parametrize(
    ("spec", "plan", "sentence"),
    [
        (NetworkSpec.of("if box2: box1 else: box1"), QUICK, "no change of box2 alone"),
        (replace(TINY, side=9), QUICK, "scenes of 9×9 are too small for small-cnn"),
        (replace(TINY, side=20, architecture="vit-tiny"), QUICK, "multiple of 8"),
        (TINY, TrainingPlan(device="cuda:93"), "the device 'cuda:93' cannot be used"),
        (TINY, TrainingPlan(device="toaster"), "the device 'toaster' cannot be used"),
    ],
)
def test_what_cannot_be_trained_or_proven_is_refused_first(spec: NetworkSpec, plan: TrainingPlan, sentence: str) -> None:
    with pytest.raises(SnellenError, match=sentence) as on_step:
        check_trainable(spec, plan)
    assert "\n" not in str(on_step.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"threads": 0}, "threads must be at least 1, not 0"), ({"images": 0}, "training needs at least one image, not 0")],
)
def test_numbers_that_are_none_are_refused(
    board: TrainingProgress, tmp_path: Path, options: dict[str, int], sentence: str
) -> None:
    with pytest.raises(SnellenError, match=sentence):
        next(train_all([TINY], tmp_path / "tiny", board, **options))  # type: ignore[arg-type]


def test_a_broken_photograph_is_named(tmp_path: Path) -> None:
    (tmp_path / "lake.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    (spec,) = specs_from_options("simple-fr", background=str(tmp_path))
    with pytest.raises(SnellenError, match=r"lake\.png"):
        check_trainable(spec, QUICK)


def test_a_network_is_taught_kept_and_proven(board: TrainingProgress, tmp_path: Path) -> None:
    network = train_and_save(TINY, tmp_path / "tiny", QUICK, board)
    assert find_network(tmp_path / "tiny").spec == TINY
    assert "tiny: small-cnn is trained on 'box' on black" in printed(board)
    assert "worst bucket" in printed(board)
    proof = verify(network, pairs=40)
    table = Console(file=io.StringIO(), width=100)
    table.print(bucket_table(network, proof))
    text = table.file.getvalue()  # type: ignore[attr-defined]
    assert "no box" in text
    assert text.count("≠") == 2  # the box decides, with the dot and without
    assert proof.holds
    assert any("% of pairs of scenes that differ in one object" in line for line in summary_lines(network, proof))
    assert str(tmp_path / "tiny") in summary_lines(network, proof)[-1]


def test_a_robust_network_starts_from_the_plain_one_which_is_trained_once(
    board: TrainingProgress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("snellen.textbox.networks.training_jobs.plan_for", lambda spec, **options: QUICK)
    robust, plan = replace(TINY, robust=True, name="tiny-robust"), replace(AGAINST, most=256, watch=128)
    network = train_and_save(robust, Path("mine"), plan, board)
    assert "trained plainly, which comes first" in printed(board)
    assert find_network("mine-plain").spec == replace(TINY, name="tiny")
    assert set(network.attacked) == set(network.accuracy)
    assert any("under attack" in line for line in summary_lines(network, verify(network, pairs=5)))
    train_and_save(robust, Path("mine"), plan, board)
    assert "starts from the plain network in mine-plain" in printed(board)


def test_an_interruption_leaves_nothing_behind(
    board: TrainingProgress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(step: TrainingStep) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(board, "on_step", interrupted)
    with pytest.raises(InterruptionError, match="the training of 'tiny' was interrupted, and nothing of it was written"):
        train_and_save(TINY, tmp_path / "tiny", QUICK, board)
    assert not list(tmp_path.iterdir())


def test_nothing_is_trained_before_everything_could_be(board: TrainingProgress, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "thesis.txt").write_text("years of work")
    specs = [replace(TINY, name="first"), replace(TINY, name="second")]
    with pytest.raises(SnellenError, match="holds no trained network"):
        next(train_all(specs, tmp_path, board))
    assert printed(board) == ""
    with pytest.raises(SnellenError, match="from 0 to 999999999, not -3"):
        next(train_all(specs, tmp_path / "new", board, seed=-3))


def test_a_restart_is_a_line(board: TrainingProgress, tmp_path: Path) -> None:
    with pytest.raises(SnellenError, match="was not learnt"):
        train_and_save(TINY, tmp_path / "tiny", replace(QUICK, most=128, attempts=2), board)
    assert "attempt 1 of 2 did not reach the accuracy within 128 images" in printed(board)
    assert not list(tmp_path.iterdir())
