from __future__ import annotations

import pickle

import pytest
import torch

from snellen import Classifier, SnellenError
from snellen.plugins.registry import METRICS
from snellen.runs import Run
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.suite import run_suite, subject
from snellen.types import Findings
from snellen.zoo import DIGITS_MANY, digits, load_classifier, many_digit_samples
from snellen.zoo.digit_weights import balanced_accuracy
from snellen.zoo.digits import DIGIT
from snellen.zoo.digits_many import MOST, SIDE, many_scenes


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load_classifier(DIGITS_MANY)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    values = {
        "model": "digits-many",
        "images": "zoo:digits-many",
        "target": "every-label",
        "methods": ["grad-cam", "input-x-gradient", "random"],
        "metrics": ["deletion", "energy-pointing-game"],
        "out": str(tmp_path_factory.mktemp("digits-many")),
        "threads": 1,
    }
    return Settings.of(values).run(Silent())


def test_the_shipped_network_finds_digits_that_it_never_saw(classifier: Classifier) -> None:
    unseen = many_scenes("evaluation", 600, seed=1)
    predicted = classifier.logits(classifier.to_inputs(unseen.pixels)) > 0
    balanced = balanced_accuracy(predicted, unseen.labels)
    assert balanced.mean() >= 0.96
    assert balanced.min() >= 0.9


def test_balanced_accuracy_by_hand() -> None:
    labels = torch.tensor([[1, 1], [1, 0], [0, 0], [0, 0], [0, 0]]).bool()
    predicted = torch.tensor([[1, 1], [0, 1], [0, 1], [0, 0], [1, 0]]).bool()
    # first label: half of two present, two of three absent; second: the one present, two of four absent
    assert balanced_accuracy(predicted, labels).tolist() == pytest.approx([(1 / 2 + 2 / 3) / 2, (1 + 2 / 4) / 2])


def test_it_states_its_heads_and_is_small(classifier: Classifier) -> None:
    assert classifier.head.text == "independent-labels"
    assert load_classifier(DIGITS_MANY, heads="independent-labels(thresholds=[0.3])").head.text != classifier.head.text
    assert classifier.classes == digits.CLASSES
    assert 25_000 <= sum(weights.numel() for weights in classifier.module.parameters()) <= 60_000


def test_a_scene_depends_on_its_seed_and_number_alone() -> None:
    few, many = many_scenes("training", 5), many_scenes("training", 9)
    assert torch.equal(few.pixels, many.pixels[:5])
    assert torch.equal(few.truths, many.truths[:5])
    assert not torch.equal(few.pixels, many_scenes("training", 5, seed=1).pixels)


def test_scenes_show_zero_to_three_digits_that_do_not_overlap() -> None:
    made = many_scenes("evaluation", 400)
    assert made.pixels.shape == (400, 3, SIDE, SIDE)
    assert made.pixels.min() >= 0
    assert made.pixels.max() <= 1
    assert made.labels.sum(dim=1).unique().tolist() == list(range(MOST + 1))
    assert made.truths.sum(dim=1).max() == 1
    assert bool(made.labels.any(dim=0).all())


def test_the_truth_of_a_label_is_where_its_digits_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every picture of digit k is replaced by full ink, so that its square is visible in the scene and equals its truth."""
    pictures, labels = digits._digits()
    monkeypatch.setattr(digits, "_digits", lambda: (torch.ones_like(pictures), labels))
    made = many_scenes("evaluation", 100)
    area = made.truths.flatten(2).sum(dim=2)
    assert set(area.unique().tolist()) <= {number * DIGIT**2 for number in range(MOST + 1)}
    monkeypatch.setattr(digits, "_digits", lambda: (torch.zeros_like(pictures), labels))
    empty = many_scenes("evaluation", 100)
    assert not empty.labels.any()
    changed = (made.pixels != empty.pixels).any(dim=1)
    assert torch.equal(changed, made.truths.any(dim=1))


def test_each_truth_belongs_to_its_own_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only pictures of digit 7 have ink: what then differs from an empty scene is the truth of label 7, and of no other."""
    pictures, labels = digits._digits()
    whole = many_scenes("evaluation", 100)
    monkeypatch.setattr(digits, "_digits", lambda: (pictures * (labels == 7).view(-1, 1, 1), labels))
    sevens = many_scenes("evaluation", 100)
    assert torch.equal(sevens.truths[:, 7], whole.truths[:, 7])
    assert not sevens.truths[:, [label for label in range(10) if label != 7]].any()


def test_training_and_evaluation_never_show_the_same_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only digits for evaluation, every fifth, have ink: training scenes are then empty, and evaluation scenes unchanged."""
    pictures, labels = digits._digits()
    fifth = (torch.arange(len(labels)) % 5 == 0).view(-1, 1, 1)
    whole = many_scenes("evaluation", 200)
    monkeypatch.setattr(digits, "_digits", lambda: (pictures * fifth, labels))
    assert not many_scenes("training", 1500).labels.any()
    assert torch.equal(many_scenes("evaluation", 200).truths, whole.truths)


def test_samples_have_findings_and_a_truth_per_label() -> None:
    samples = many_digit_samples()
    assert len(samples) == 64
    for sample in samples:
        assert isinstance(sample.label, Findings)
        assert sorted((*sample.label.present, *sample.label.absent)) == list(range(10))
        assert {label for label, region in sample.truths.items() if region.any()} == set(sample.label.present)
    assert pickle.loads(pickle.dumps(samples.take([3]))).ids == (samples.ids[3],)
    assert "scikit-learn" in samples.describe()


def test_every_label_is_explained_in_its_own_place(run: Run) -> None:
    shown = sum(len(sample.label.present) for sample in many_digit_samples() if isinstance(sample.label, Findings))
    assert len(run.record.samples.rows) == shown
    pointing = run.table()["energy-pointing-game"]
    # Strokes of one digit cover about 4 % of a scene, which is what a random map has there.
    assert pointing["random"] < 0.06
    assert pointing["grad-cam"] > 5 * pointing["random"]


def test_maps_of_two_labels_of_one_scene_point_to_different_digits(run: Run) -> None:
    rows = [row for row in run.record.samples.rows if row.group is not None]
    truths = {sample.id: sample.truths for sample in many_digit_samples()}
    maps = torch.as_tensor(run.maps("grad-cam", [row.sample for row in rows])).clamp_min(0)
    own, others = [], []
    for row, values in zip(rows, maps, strict=True):
        for label, region in truths[row.group].items():
            if region.any():
                (own if label == row.target else others).append(float(values[region].mean()))
    assert sum(own) / len(own) > 5 * sum(others) / len(others)


def test_deletion_tells_methods_apart(run: Run) -> None:
    deletion = run.table()["deletion"]
    assert deletion["grad-cam"] < 0.1
    assert deletion["input-x-gradient"] < 0.1
    assert deletion["random"] > 0.25
    assert deletion["grad-cam"] != deletion["input-x-gradient"]


def test_the_scenes_are_refused_for_a_classifier_of_another_size() -> None:
    settings = Settings.of({"model": "digits", "images": "zoo:digits-many"})
    with pytest.raises(SnellenError, match="zoo:digits-many are colour pictures of 48×48, which 'digits' does not take"):
        settings.samples(settings.classifier(), Silent())
    with pytest.raises(SnellenError, match="bring their own labels and truth; leave out --labels"):
        Settings.of({"model": DIGITS_MANY, "images": "zoo:digits-many", "labels": "mine.csv"}).load(Silent())


def test_the_suite_knows_its_images_and_target() -> None:
    settings = subject({"model": DIGITS_MANY}, full=True)
    assert (settings.images, settings.target, settings.recipe) == ("zoo:digits-many", "every-label", None)
    assert subject({"model": DIGITS_MANY, "target": "predicted"}, full=False).target == "predicted"
    assert subject({"model": DIGITS_MANY, "images": "mine"}, full=False).target == "predicted"


@pytest.mark.slow
def test_the_suite_runs_and_says_what_independent_labels_leave_out(tmp_path) -> None:
    values = {"model": DIGITS_MANY, "methods": ["grad-cam", "gradient", "random"], "out": str(tmp_path), "workers": 0}
    grid = run_suite(subject(values, full=False), full=False, observer=Silent())
    assert not grid.run.record.errors
    for row in grid.tests:
        if row.metric in METRICS and "recipe" in METRICS[row.metric].traits.needs:
            assert row.reason == "not run: trains models of exclusive classes, but 'digits-many' has independent labels"
        elif row.metric in METRICS:
            assert not row.reason, row
            assert all(cell.n for cell in row.cells if cell.method == "grad-cam")
    by_test = {row.test: {cell.method: cell.verdict for cell in row.cells} for row in grid.tests}
    assert by_test["Deletion"]["grad-cam"] == by_test["Mean IoU"]["grad-cam"] == "pass"
