from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from tests.cards.planted_loaded_run import ACROSS, COUNT, RAMP, measured, planted_run, registered, samples
from tests.runs.subject import finished_units

from snellen import fit
from snellen.cards.methodology import measure, read
from snellen.errors import SnellenError
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS
from snellen.runs import Run, evaluate
from snellen.runs.job import UnfinishedError
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.types import Passes, Rng

METHODS_TRIED = ["planted-noise", "planted-dial", "gradient", "grad-cam", "deepshap(backgrounds=3)", "centre"]
METRICS_TRIED = ["sparseness", "complexity", "energy-pointing-game", "deletion"]


@pytest.fixture(scope="module", autouse=True)
def _planted() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run, measured."""
    made = planted_run(tmp_path_factory.mktemp("runs") / "planted", METHODS_TRIED, METRICS_TRIED)
    before = contents(made.folder)
    measured(made)
    after = {name: digest for name, digest in contents(made.folder).items() if not name.startswith("methodology")}
    assert after == before, "the run's own files were touched"
    return made


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def correlation(first: np.ndarray | torch.Tensor, other: np.ndarray | torch.Tensor) -> float:
    return float(spearmanr(np.asarray(first).ravel(), np.asarray(other).ravel())[0])


def ids(run: Run, count: int) -> list[str]:
    return [row.sample for row in run.record.samples.rows[:count]]


# Determinism ---------------------------------------------------------------------------------------------------------


def test_planted_luck_is_found_and_its_numbers_are_those_of_a_naive_twin(run: Run) -> None:
    names = tuple(ids(run, 2))
    noise = [Rng(seed, names).normal("noise", (24, 24)) for seed in (0, 1, 2)]
    maps = [RAMP + 0.3 * draw for draw in noise]
    twin = [correlation(maps[0][i], other[i]) for other in maps[1:] for i in range(2)]
    finding = read(run)["planted-noise"]["determinism"]
    assert finding.word == "varies"
    assert finding.share == pytest.approx(sum(twin) / 4, abs=1e-5)
    assert finding.numbers["lowest"] == pytest.approx(min(twin), abs=1e-5)
    assert (finding.numbers["changed"], finding.numbers["n"], finding.numbers["seeds"]) == (1.0, 2, 2)


@pytest.mark.parametrize("name", ["planted-dial", "gradient", "grad-cam", "centre"])
def test_what_has_no_luck_is_exact(run: Run, name: str) -> None:
    finding = read(run)[name]["determinism"]
    assert (finding.word, finding.share) == ("exact", 1.0)


def test_another_seed_also_draws_other_lessons(run: Run) -> None:
    assert read(run)["deepshap(backgrounds=3)"]["determinism"].word != "exact"  # 3 of 6 images, chosen by the seed


# Hyperparameters -----------------------------------------------------------------------------------------------------


def test_a_planted_dial_moves_the_map_as_a_naive_twin_says(run: Run) -> None:
    finding = read(run)["planted-dial"]["hyperparameter-dependence"]
    turn, idle, still = (finding.numbers["settings"][name] for name in ("turn", "idle", "still"))
    twin = {"0.5": correlation(RAMP, 0.5 * RAMP + 0.5 * ACROSS.square()), "1.0": correlation(RAMP, ACROSS.square())}
    assert {value: trial["correlation"] for value, trial in turn["values"].items()} == pytest.approx(twin, abs=1e-5)
    assert (turn["mean"], turn["lowest_value"]) == (pytest.approx(sum(twin.values()) / 2, abs=1e-5), "1.0")
    assert (idle["mean"], idle["moved"]) == (1.0, 0)
    assert finding.share == pytest.approx(max(0.0, turn["mean"]), abs=1e-5)
    assert still["mean"] is None  # a constant map has no ranks; that is counted
    assert still["values"]["true"]["undefined"] == 2
    assert "the map depends most on turn" in finding.sentence
    assert "2 correlations undefined: constant maps" in finding.sentence


def test_values_that_cannot_work_are_left_out_with_the_reason(run: Run) -> None:
    settings = read(run)["planted-dial"]["hyperparameter-dependence"].numbers["settings"]
    assert "turn must lie between 0 and 1, not 7" in settings["turn"]["not_tried"]["7.0"]
    assert settings["idle"]["not_tried"] == {"13": "planted-dial does not take 13"}


def test_places_among_the_methods_are_those_of_a_naive_twin(run: Run) -> None:
    finding = read(run)["planted-dial"]["hyperparameter-dependence"]
    metrics = finding.numbers["metrics"]
    assert len(metrics) == 2
    assert "deletion" not in metrics  # the others cost nothing
    assert "energy-pointing-game" in metrics  # another attribute than sparseness and complexity
    case, names = planted_batch(COUNT), ids(run, 2)
    alone = evaluate(
        case.classifier, samples(case)[:2], methods=["planted-dial(turn=1.0)"], metrics=metrics, observer=Silent()
    )
    scores = run.scores()
    scores = scores[scores["sample"].isin(names)]
    directions = {spec.label: spec.higher_is_better for spec in run.record.spec.metrics}
    for metric in metrics:
        table = scores[scores["metric"] == metric].groupby("method")["value"].mean().drop("centre").to_dict()
        places = []
        for value in (table["planted-dial"], float(alone.table().loc["planted-dial(turn=1.0)", metric])):
            ranked = sorted({**table, "planted-dial": value}.items(), key=lambda entry: entry[1], reverse=directions[metric])
            places.append(1 + [name for name, _ in ranked].index("planted-dial"))
        assert finding.numbers["settings"]["turn"]["values"]["1.0"]["places"][metric] == places


def test_the_default_is_tried_where_the_run_has_another_value(run: Run) -> None:
    settings = read(run)["deepshap(backgrounds=3)"]["hyperparameter-dependence"].numbers["settings"]
    assert set(settings["backgrounds"]["values"]) == {"4", "8", "16", "64"}
    assert settings["backgrounds"]["own"] == "3"


def test_maps_with_other_settings_learn_from_all_images(run: Run) -> None:
    case, name = planted_batch(COUNT), "deepshap(backgrounds=4)"
    fit(case.classifier, samples(case), methods=[name], seed=1, observer=Silent())
    rng = Rng(1, tuple(ids(run, 2)))
    twin = METHODS.parse(name)(case.classifier, case.inputs[:2], case.targets[:2], rng=rng)
    side = Run(run.folder / "methodology" / "settings-seed-1-2")
    np.testing.assert_allclose(side.maps(name, ids(run, 2)), twin.numpy(), rtol=1e-3, atol=1e-5)


def test_a_layer_is_moved_to_earlier_ones(run: Run) -> None:
    layers = read(run)["grad-cam"]["hyperparameter-dependence"].numbers["settings"]["layer"]
    assert layers["own"] == "pool"
    assert set(layers["values"]) == {"second", "first"}


def test_a_method_without_settings_depends_on_none(tmp_path: Path) -> None:
    findings = measured(planted_run(tmp_path, ["edge", "random"], ["deletion"]))
    for name in ("edge", "random"):
        assert findings[name]["hyperparameter-dependence"].share == 1.0
        assert findings[name]["hyperparameter-dependence"].sentence == "It has no settings."


def test_luck_is_divided_out_of_what_settings_do(run: Run) -> None:
    """As a naive twin says: maps with another setting have another seed too, as those have that show luck alone."""
    findings = read(run)["planted-noise"]
    finding, chance = findings["hyperparameter-dependence"], findings["determinism"].share
    own, other = (Rng(seed, tuple(ids(run, 2))).normal("noise", (24, 24)) for seed in (0, 1))
    twin = {
        text: sum(correlation((RAMP + 0.3 * own)[i], (RAMP + spread * other)[i]) for i in range(2)) / 2
        for text, spread in (("0.1", 0.1), ("2.0", 2.0), ("2", 0.3))
    }
    settings = finding.numbers["settings"]
    tried = {**settings["spread"]["values"], **settings["idle"]["values"]}
    assert {value: trial["correlation"] for value, trial in tried.items()} == pytest.approx(twin, abs=1e-5)
    assert settings["idle"]["mean"] == pytest.approx(chance, abs=0.05)  # it does nothing
    assert 0.25 < chance < 0.75
    left = (twin["0.1"] + twin["2.0"]) / 2 / chance
    assert finding.share == pytest.approx(left, abs=1e-5)
    assert f"another seed alone gives {chance:.2f}, of which {left:.0%} is left" in finding.sentence
    assert "another seed" not in read(run)["gradient"]["hyperparameter-dependence"].sentence


def test_of_a_method_that_is_nearly_all_luck_nothing_is_said_about_settings(tmp_path: Path) -> None:
    findings = measured(planted_run(tmp_path, ["planted-noise(spread=5.0)"], None))["planted-noise(spread=5.0)"]
    assert findings["determinism"].share < 0.25
    dependence = findings["hyperparameter-dependence"]
    assert (dependence.word, math.isnan(dependence.share)) == ("not known", True)
    assert "cannot be told from chance" in dependence.sentence
    assert set(dependence.numbers["settings"]["spread"]["values"]) == {"0.1", "2.0", "0.3"}  # the numbers are shown


# Needs, costs, and what fails ----------------------------------------------------------------------------------------


def test_needs_and_costs_are_there_for_every_method(run: Run) -> None:
    findings = read(run)
    assert list(findings) == METHODS_TRIED
    words = {name: by_attribute["model-agnosticism"].word for name, by_attribute in findings.items()}
    assert words["gradient"] == "gradients"
    assert words["grad-cam"] == "white box"
    assert words["planted-dial"] == "black box"
    for by_attribute in findings.values():
        cost = by_attribute["computational-efficiency"].numbers
        assert cost["order"] == math.floor(math.log10(cost["seconds"]))
        assert by_attribute["determinism"].source is not None
        assert by_attribute["determinism"].source.kind == "run"
    numbers = findings["gradient"]["computational-efficiency"].numbers
    assert (numbers["forward"], numbers["backward"]) == (1, 1)


def test_a_method_that_failed_in_the_run_is_refused_on_this_model_and_the_others_are_measured(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError):
        planted_run(tmp_path, ["planted-failure(when=always)", "gradient"], None)
    findings = measured(Run(tmp_path))
    broken = findings["planted-failure(when=always)"]
    assert list(broken) == ["model-agnosticism"]
    assert broken["model-agnosticism"].share == 0.0
    assert "the planted failure" in broken["model-agnosticism"].sentence
    assert findings["gradient"]["determinism"].share == 1.0


def test_what_fails_with_another_seed_or_setting_is_not_known_and_says_why(tmp_path: Path) -> None:
    findings = measured(planted_run(tmp_path, ["planted-failure", "centre"], None))["planted-failure"]
    assert math.isnan(findings["determinism"].share)
    assert "the planted failure" in findings["determinism"].sentence
    when = findings["hyperparameter-dependence"].numbers["settings"]["when"]
    assert "the planted failure" in when["not_tried"]["always"]
    assert when["values"]["never"]["correlation"] == 1.0


# Keeping and going on ------------------------------------------------------------------------------------------------


def test_measured_once_nothing_is_loaded_again(run: Run) -> None:
    state = contents(run.folder)
    again = measure(run, observer=Silent(), images=2, seeds=2)  # without what the run was made from
    assert contents(run.folder) == state
    assert list(again) == METHODS_TRIED


class Stopping(Silent):
    """Somebody stops the measurement when the second timing or the second side run begins."""

    def __init__(self, at: str) -> None:
        self.at = at

    def running(self, what: str) -> None:
        if what.startswith(self.at):
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("at", ["timing planted-dial", "seed 2 of 2", "settings"])
def test_a_stopped_measurement_goes_on_where_it_was(tmp_path: Path, at: str) -> None:
    made = planted_run(tmp_path, ["planted-noise", "planted-dial"], ["sparseness"])
    with pytest.raises(KeyboardInterrupt):
        measured(made, observer=Stopping(at))
    assert read(made) == {}
    kept = json.loads((tmp_path / "methodology" / "measured.json").read_bytes())
    folders = sorted(path.parent for path in (tmp_path / "methodology").rglob("segments"))
    units = [finished_units(folder) for folder in folders]
    findings = measured(made)
    assert set(findings) == {"planted-noise", "planted-dial"}
    later = json.loads((tmp_path / "methodology" / "measured.json").read_bytes())
    assert kept["costs"].items() <= later["costs"].items(), "a timing was made twice"
    assert kept["plan"].items() <= later["plan"].items(), "what was planned changed"
    assert all(before.items() <= finished_units(folder).items() for folder, before in zip(folders, units, strict=True))


def test_methods_that_join_the_run_are_measured_and_the_others_not_again(tmp_path: Path) -> None:
    first = measured(planted_run(tmp_path, ["planted-noise"], None))
    second = measured(planted_run(tmp_path, ["planted-noise", "planted-dial"], None))
    assert set(second) == {"planted-noise", "planted-dial"}
    assert second["planted-noise"] == first["planted-noise"]


def test_other_numbers_of_images_are_measured_anew(tmp_path: Path) -> None:
    made = planted_run(tmp_path, ["planted-noise"], None)
    assert measured(made)["planted-noise"]["determinism"].numbers["n"] == 2
    assert measured(made, images=3)["planted-noise"]["determinism"].numbers["n"] == 3
    assert measured(made, images=99)["planted-noise"]["determinism"].numbers["n"] == COUNT


def test_nothing_measured_is_nothing_known(tmp_path: Path) -> None:
    assert read(planted_run(tmp_path, ["centre"], None)) == {}


class Listening(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.passes = Passes()

    def note(self, text: str) -> None:
        self.notes.append(text)

    def passed(self, passes: Passes) -> None:
        self.passes += passes


def test_a_run_of_the_command_line_is_loaded_from_its_settings_and_the_plan_is_told(tmp_path: Path) -> None:
    settings = Settings.of(
        {"model": "digits", "images": "zoo:digits", "methods": ["gradient", "random"], "metrics": ["sparsity"],
         "out": str(tmp_path), "seed": 3, "condition": "rotation(degrees=20)"}
    )  # fmt: skip
    made, listener = settings.run(Silent()), Listening()
    findings = measure(made, observer=listener, images=2, seeds=2)
    assert findings["gradient"]["determinism"].share == 1.0
    assert findings["random"]["determinism"].share < 0.2
    assert "2 methods of" in listener.notes[1]
    assert "8 maps with up to 2 other seeds and 8 maps with other settings, about" in listener.notes[1]
    assert listener.passes.backward > 0


# Mistakes ------------------------------------------------------------------------------------------------------------


def test_a_run_of_python_objects_says_how_to_give_them(tmp_path: Path) -> None:
    made = planted_run(tmp_path, ["centre"], None)
    with pytest.raises(
        SnellenError,
        match=r"made from Python objects; .*snellen.cards.methodology.measure\(run, classifier=.*--no-measure",
    ):
        measure(made, observer=Silent())
    with pytest.raises(SnellenError, match="belong together"):
        measure(made, observer=Silent(), classifier=planted_batch(1).classifier)


def test_another_classifier_or_other_images_are_refused(tmp_path: Path) -> None:
    made = planted_run(tmp_path, ["centre"], None)
    with pytest.raises(SnellenError, match="made with another classifier"):
        measured(made, classifier=planted_batch(1, kind="resnet").classifier)
    with pytest.raises(SnellenError, match="made with other images"):
        measured(made, samples=samples(planted_batch(COUNT, seed=4)))
    assert not (tmp_path / "methodology").exists()


@pytest.mark.parametrize(("name", "value"), [("images", 0), ("seeds", 1), ("passes", -1)])
def test_too_little_is_refused(run: Run, name: str, value: Any) -> None:
    with pytest.raises(SnellenError, match=f"{name} must be at least"):
        measured(run, **{name: value})


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    made = planted_run(tmp_path, ["centre"], None)
    measured(made)
    for text in ("{", '{"schema": 1}', "[]"):
        (tmp_path / "methodology" / "measured.json").write_text(text)
        with pytest.raises(SnellenError, match=r"measured\.json' cannot be read; delete it"):
            read(made)


def test_maps_of_an_older_version_are_refused(tmp_path: Path) -> None:
    made = planted_run(tmp_path, ["centre"], None)
    spec = made.record.spec
    made.record = made.record.changed(spec=spec.changed(methods=(spec.methods[0].changed(version=0),)))
    with pytest.raises(SnellenError, match="holds maps of version 0 of centre, but version 1 is installed"):
        measured(made)
