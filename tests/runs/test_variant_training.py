"""Variants of the classifier: trained once, before anything is explained, and stored in the run folder."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.runs import subject
from tests.runs.subject import finished_units, load, logits, recipe, write_checkpoints, write_images, write_labelled
from torch import nn

import snellen
from snellen.errors import SnellenError
from snellen.images import from_folder
from snellen.plugins.registry import METRICS
from snellen.runs import Options, evaluate, requirements, variant_training
from snellen.runs.progress import Silent

HERE = Path(__file__).parent
METHODS = ["gradient", "random"]
NAMES = ["repeatability", "reproducibility", "data-randomisation"]
ALL = [*NAMES, "roar(fractions=[0.5])", "model-contrast(correct_only=false)", "checkpoint-sensitivity(states=2)"]


class Listening(Silent):
    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.notes: list[str] = []

    def note(self, text):
        self.notes.append(text)

    def begin(self, stage, passes, units):
        self.stages.append((stage, units))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    where = tmp_path_factory.mktemp("folders")
    write_labelled(where / "images", 6)
    write_labelled(where / "training", 20)
    write_checkpoints(where / "checkpoints")
    return where


@pytest.fixture(scope="module")
def images(folders):
    geometry = snellen.Geometry(size=(32, 32), crop=1.0)
    return {
        "samples": from_folder(folders / "images", geometry=geometry),
        "training": from_folder(folders / "training", geometry=geometry),
    }


def run(images, out, *, classifier=None, metrics=NAMES, methods=METHODS, how=recipe, options=None, observer=None, **more):
    return evaluate(
        classifier or snellen.Classifier(load()), images["samples"], methods=methods, metrics=metrics, out=out, recipe=how,
        training=images["training"], options=options or Options(shard=4, threads=1), observer=observer, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone(images, tmp_path_factory):
    return run(images, tmp_path_factory.mktemp("alone"))


def test_variants_are_trained_first_and_recorded(images, tmp_path):
    seen = Listening()
    result = run(images, tmp_path, observer=seen)
    assert [stage for stage, _ in seen.stages] == ["looking at the images", "training variants", "explaining"]
    assert dict(seen.stages)["training variants"] == 3
    facts = result.record.variants
    assert set(facts) == {"other-seed", "other-architecture", "permuted-labels"}
    for variant in facts.values():
        assert 0 <= variant.accuracy <= 1
        assert variant.cost.seconds > 0
    table = result.table()
    assert table.loc["random", "data-randomisation"] == pytest.approx(1.0), "a map that ignores the model is unmoved"
    assert -1 <= table.loc["gradient", "data-randomisation"] < 0.999
    totals, planned = result.record.totals, result.record.planned
    assert totals.forward + totals.shared_forward == planned.forward
    assert totals.backward + totals.shared_backward == planned.backward


def test_no_variant_is_trained_twice_and_scores_stay(images, alone, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in alone.folder.rglob("relatives/*")}
    assert len(before) == 6, "three modules, and the records that name them"
    units = set(finished_units(alone.folder))

    def never(*args):
        raise AssertionError("trained twice")

    monkeypatch.setattr(variant_training.TrainVariants, "__call__", never)
    again = run(images, alone.folder, metrics=[*NAMES, "complexity"])
    assert {path: path.stat().st_mtime_ns for path in alone.folder.rglob("relatives/*")} == before
    assert units < set(finished_units(alone.folder)), "the old units stand, new ones hold the new metric"
    assert again.table()[NAMES].equals(alone.table())


def test_another_recipe_trains_other_variants_and_gives_other_units(images, alone, tmp_path):
    for how in (functools.partial(slower, steps=1), functools.partial(slower, steps=3)):
        result = run(images, tmp_path, methods=["gradient"], metrics=["repeatability", "complexity"], how=how)
    assert len(list(tmp_path.glob("relatives/*.json"))) == 2
    keys = [unit.unit for unit in result.record.units]
    units = [snellen.runs.store.Store(tmp_path).unit(key) for key in keys]
    assert sum("complexity" in unit.metrics for unit in units) == 2, "a metric without variants is not computed again"
    assert len(finished_units(tmp_path)) == 4
    assert variant_training.recipe_identity(recipe) != variant_training.recipe_identity(slower)


def slower(dataset, seed, options, steps):
    """At module level, so that it has a name and a source."""
    net = recipe(dataset, seed, options)
    with torch.no_grad():
        net.head.weight.mul_(steps)
    return net


@dataclasses.dataclass
class Patient:
    """A recipe with a setting."""

    steps: int
    net: nn.Module = dataclasses.field(default_factory=nn.ReLU)
    log: object = dataclasses.field(default_factory=object)

    def __call__(self, dataset, seed, options):
        return slower(dataset, seed, options, self.steps)


def made(steps):
    def train(dataset, seed, options):
        return slower(dataset, seed, options, steps)

    return train


@pytest.mark.parametrize("kind", [Patient, made, lambda steps: Patient(steps).__call__], ids=["object", "closure", "bound"])
def test_a_recipe_with_other_settings_is_another_recipe(kind):
    assert variant_training.recipe_identity(kind(1)) == variant_training.recipe_identity(kind(1))
    assert variant_training.recipe_identity(kind(1)) != variant_training.recipe_identity(kind(3))


def test_a_recipe_that_seeds_global_generators_does_not_change_them(images, tmp_path):
    classifier = snellen.Classifier(load())  # whose initial weights are drawn
    states = np.random.get_state()[1].tolist(), torch.get_rng_state()
    run(images, tmp_path, classifier=classifier, methods=["gradient"], metrics=["repeatability"])
    assert np.random.get_state()[1].tolist() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])


@pytest.mark.slow
def test_workers_train_the_same(images, alone, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    result = run(images, tmp_path, options=Options(shard=4, workers=2))
    assert result.table().equals(alone.table())


@pytest.mark.slow
def test_every_metric_that_needs_variants_runs_on_the_digits(tmp_path):
    """From so few training pictures that the recipe takes a second."""
    classifier = snellen.zoo.load_classifier("digits")
    images = {"samples": snellen.zoo.digit_samples()[:16], "training": snellen.zoo.training_digits()[:60]}
    request = {"methods": ["grad-cam", "edge"], "metrics": ALL, "how": "zoo:digits", "checkpoints": "zoo:digits"}
    result = run(images, tmp_path, classifier=classifier, **request)
    table = result.table()
    assert set(result.record.variants) >= {
        "checkpoint/epoch-1",
        "roar/0.5/1000/mean/grad-cam",
        "model-contrast/objects/6",
    }
    assert result.record.variants["model-contrast/objects/6"].accuracy is None
    assert result.record.variants["checkpoint/epoch-6"].accuracy > 0.8
    assert table.loc["edge", "model-contrast(correct_only=false)"] == pytest.approx(0, abs=1e-6)
    assert table.loc["edge", "checkpoint-sensitivity(states=2)"] == pytest.approx(0, abs=1e-6)
    assert table.loc["grad-cam", "checkpoint-sensitivity(states=2)"] > 0.05
    totals, planned = result.record.totals, result.record.planned
    assert totals.forward + totals.shared_forward == planned.forward


def test_a_method_that_needs_a_fit_is_fitted_to_the_variants_too(images, tmp_path):
    result = run(images, tmp_path, methods=["iba(steps=2, samples=2)"], metrics=["data-randomisation"])
    assert result.table().notna().all().all()


# Refusals ---------------------------------------------------------------------------------------------------------------


def test_a_missing_requirement_is_refused_before_anything_is_computed(images, tmp_path):
    classifier = snellen.Classifier(load())
    with pytest.raises(SnellenError) as caught:
        evaluate(classifier, images["samples"], methods=["gradient"], metrics=["repeatability", "complexity"], out=tmp_path)
    assert (
        str(caught.value)
        == "repeatability needs a recipe: give --recipe and --training. Metrics that cannot be computed have to be left out."
    )
    assert not finished_units(tmp_path)
    with pytest.raises(SnellenError, match="belong together"):
        evaluate(classifier, images["samples"], methods=["gradient"], metrics=["complexity"], recipe=recipe)


def test_missing_requirement_names_what_is_missing():
    classifier = snellen.Classifier(load())
    nothing = {"truths": False, "labels": False, "recipe": False, "checkpoints": False}
    everything = dict.fromkeys(nothing, True)
    missing = {name: requirements.missing_requirement(METRICS.build(name), classifier, **nothing) for name in METRICS}
    assert missing["repeatability"] == "needs a recipe: give --recipe and --training"
    assert missing["pointing-game"] == "needs the truth of every picture: give --masks or --boxes"
    assert missing["complexity"] is None
    assert missing["model-consistency"] is None
    distilled = METRICS.build("model-consistency", {"distilled": True})
    assert requirements.missing_requirement(distilled, classifier, **nothing) == missing["repeatability"]
    assert requirements.missing_requirement(distilled, classifier, **everything) is None
    assert all(requirements.missing_requirement(METRICS.build(name), classifier, **everything) is None for name in METRICS)

    needs = frozenset({"gradients", "checkpoints", "labels"})
    traits = dataclasses.replace(METRICS["complexity"].traits, needs=needs)
    steep = dataclasses.make_dataclass(
        "Steep", [], bases=(METRICS["complexity"],), namespace={"traits": traits}, frozen=True
    )
    black = snellen.Classifier(logits)
    assert requirements.missing_requirement(steep(), black, **everything) == (
        "needs gradients, but 'logits' is a black-box function and has no such thing"
    )
    assert "--checkpoints" in requirements.missing_requirement(steep(), classifier, **nothing)
    assert "--labels" in requirements.missing_requirement(steep(), classifier, **nothing | {"checkpoints": True})


def few_outputs(dataset, seed, options):
    return subject.Wide(3)


def no_module(dataset, seed, options):
    return "weights"


def breaks(dataset, seed, options):
    raise ZeroDivisionError("no luck\nat all")


def not_picklable(dataset, seed, options):
    net = subject.Wide(options["classes"])  # not the classifier's own architecture, so its weights alone would not do
    net.secret = lambda: None
    return net


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (few_outputs, "3 outputs for 'other-seed', instead of 5; let it make as many as options"),
        (no_module, "returned a str for 'other-seed'; it must return an nn.Module"),
        (breaks, r"failed while training 'other-seed' \(ZeroDivisionError: no luck\)"),
        (not_picklable, "cannot be pickled .*define its class in an importable module"),
    ],
)
def test_a_recipe_that_does_not_work_is_one_sentence(images, tmp_path, how, sentence):
    with pytest.raises(SnellenError, match=sentence) as caught:
        run(images, tmp_path, methods=["gradient"], metrics=["repeatability"], how=how)
    assert "\n" not in str(caught.value)


def test_training_pictures_need_labels_that_the_classifier_knows(images, folders, tmp_path):
    geometry = snellen.Geometry(size=(32, 32), crop=1.0)
    bare = from_folder(write_images(tmp_path / "bare", 3), geometry=geometry)
    with pytest.raises(SnellenError, match=r"training picture '000\.png' has none"):
        run(images | {"training": bare}, None, metrics=["repeatability"])
    (tmp_path / "far" / "7").mkdir(parents=True)
    (tmp_path / "bare" / "000.png").rename(tmp_path / "far" / "7" / "000.png")
    far = from_folder(tmp_path / "far", geometry=geometry)
    with pytest.raises(SnellenError, match="label 7, but 'Small' has classes 0 to 4"):
        run(images | {"training": far}, None, metrics=["repeatability"])


def test_find_recipe_takes_names():
    assert variant_training.find_recipe("zoo:digits") is snellen.zoo.digits_recipe
    assert variant_training.find_recipe("tests.runs.subject:recipe") is subject.recipe
    for wrong, sentence in (
        ("subject", "not written as"),
        ("tests.runs.subject:recipes", "has no 'recipes'"),
        (3, "is a function"),
    ):
        with pytest.raises(SnellenError, match=sentence):
            variant_training.find_recipe(wrong)


# Checkpoints ------------------------------------------------------------------------------------------------------------


def test_checkpoints_are_in_order_without_the_classifier_itself(folders):
    classifier = snellen.Classifier(load())
    modules = variant_training.find_checkpoints(folders / "checkpoints", classifier)
    assert list(modules) == ["checkpoint/step-2", "checkpoint/step-10"]
    assert torch.equal(modules["checkpoint/step-2"].head.weight, -load().head.weight)
    assert list(variant_training.find_checkpoints("zoo:digits", snellen.zoo.load_classifier("digits"))) == [
        f"checkpoint/epoch-{epoch}" for epoch in (1, 2, 4, 6)
    ]
    by_name = variant_training.find_checkpoints(
        {"young": {key: 0 * values for key, values in load().state_dict().items()}}, classifier
    )
    assert list(by_name) == ["checkpoint/young"]


def test_wrong_checkpoints_are_one_sentence(folders, tmp_path):
    classifier = snellen.Classifier(load())
    with pytest.raises(SnellenError, match="is not a folder of checkpoints"):
        variant_training.find_checkpoints(tmp_path / "nowhere", classifier)
    with pytest.raises(SnellenError, match="holds no checkpoints"):
        variant_training.find_checkpoints(tmp_path, classifier)
    torch.save(load().state_dict(), tmp_path / "final.pth")
    with pytest.raises(SnellenError, match="all checkpoints are the classifier itself"):
        variant_training.find_checkpoints(tmp_path, classifier)
    torch.save(nn.Linear(2, 3).state_dict(), tmp_path / "other.pt")
    with pytest.raises(SnellenError, match=r"other\.pt' do not fit 'Small'") as caught:
        variant_training.find_checkpoints(tmp_path, classifier)
    assert "\n" not in str(caught.value)
    with pytest.raises(SnellenError, match="no layers and no gradients"):
        variant_training.find_checkpoints(folders / "checkpoints", snellen.Classifier(logits))


# From the command line, killed --------------------------------------------------------------------------------------------


def command(folders: Path, out: Path) -> list[str]:
    return [
        sys.executable, "-c", "from snellen.cli.main import main; main()", "run",
        "--model", "subject:load", "--size", "32", "--shard", "4", "--threads", "1", "--out", str(out),
        "--images", str(folders / "images"), "--training", str(folders / "training"), "--recipe", "subject:recipe",
        "--checkpoints", str(folders / "checkpoints"),
        "--methods", "gradient,random", "--metrics", ",".join(ALL),
    ]  # fmt: skip


VARIANTS = 3 + (1 + 2) + 2
"""Of retraining, of ROAR (whole pictures, and one for each method), and of model contrast."""


def trained(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in out.glob("relatives/*.json")}


@pytest.mark.slow
def test_a_killed_run_trains_only_what_is_missing(folders, tmp_path):
    reference, out = tmp_path / "undisturbed", tmp_path / "killed"
    done = subprocess.run(command(folders, reference), cwd=HERE, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    slow = os.environ | {"RECIPE_SECONDS": "0.5"}
    process = subprocess.Popen(
        command(folders, out), cwd=HERE, env=slow, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not trained(out) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = trained(out)
    assert 1 <= len(before) < VARIANTS
    done = subprocess.run(command(folders, out), cwd=HERE, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(before)} of {VARIANTS} variants are already trained" in done.stdout + done.stderr
    after = trained(out)
    assert len(after) == VARIANTS
    assert {name: after[name] for name in before} == before
    assert (out / "scores.parquet").read_bytes() == (reference / "scores.parquet").read_bytes()
    again = [*command(folders, out)[:3], "resume", str(out)]
    assert subprocess.run(again, cwd=HERE, capture_output=True, timeout=240).returncode == 0
    assert trained(out) == after
