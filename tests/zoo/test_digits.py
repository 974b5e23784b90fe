from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset

from snellen import Classifier
from snellen.methods.grad_cam import GradCam
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.types import Rng
from snellen.variants.recipes import Training
from snellen.zoo import DIGITS, digit_samples, digits, digits_recipe, load_classifier, training_digits
from snellen.zoo.digit_networks import DigitNet, DigitResNet, weight_folder
from snellen.zoo.digits import DIGIT, SIDE, scenes


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load_classifier(DIGITS)


def right(classifier: Classifier, count: int = 600, seed: int = 1) -> float:
    unseen = scenes("evaluation", count, seed=seed)
    return float((classifier.predictions(classifier.to_inputs(unseen.pixels)) == unseen.labels).float().mean())


def test_the_shipped_network_is_right_on_scenes_of_digits_it_never_saw(classifier: Classifier) -> None:
    assert right(classifier, 1800) >= 0.96


def test_the_checkpoints_of_the_network_start_worse_and_end_as_good(classifier: Classifier) -> None:
    from safetensors.torch import load_file

    files = sorted(weight_folder().glob("epoch-*.safetensors"))
    assert [file.stem for file in files] == ["epoch-1", "epoch-2", "epoch-4", "epoch-6"]
    accuracies = []
    for file in files:
        network = DigitNet()
        network.load_state_dict(load_file(file))
        accuracies.append(right(classifier.variant(network, file.stem)))
    assert accuracies[0] < accuracies[-1] - 0.1
    assert accuracies[-1] < right(classifier) + 0.01
    assert sum(file.stat().st_size for file in weight_folder().iterdir()) < 300_000


def test_the_digits_are_those_of_scikit_learn() -> None:
    pictures, labels = digits._digits()
    published = load_digits()
    assert np.array_equal(pictures.numpy(), published.images.astype(np.float32) / 16)
    assert np.array_equal(labels.numpy(), published.target)


def test_a_scene_depends_on_its_seed_and_place_alone() -> None:
    few, many = scenes("training", 5), scenes("training", 9)
    assert torch.equal(few.pixels, many.pixels[:5])
    assert torch.equal(few.truth, many.truth[:5])
    other = scenes("training", 5, seed=1)
    assert not torch.equal(few.pixels, other.pixels)


def test_a_scene_is_pixels_with_a_digit_where_the_truth_says() -> None:
    made = scenes("evaluation", 200)
    assert made.pixels.shape == (200, 3, SIDE, SIDE)
    assert made.pixels.min() >= 0
    assert made.pixels.max() <= 1
    ink = made.truth.float().sum(dim=(1, 2))
    assert ink.min() >= 30
    assert ink.max() <= DIGIT**2 / 2
    inside = (made.pixels.mean(dim=1) * made.truth).sum(dim=(1, 2)) / ink
    outside = (made.pixels.mean(dim=1) * ~made.truth).sum(dim=(1, 2)) / (~made.truth).sum(dim=(1, 2))
    assert bool((inside > outside + 0.1).all())
    rows = made.truth.any(dim=2).float()
    assert bool((rows.sum(dim=1) <= DIGIT).all())
    assert rows.argmax(dim=1).unique().numel() > 10  # the place differs from scene to scene


def test_training_and_evaluation_never_show_the_same_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every digit is replaced by a picture whose ink is its number, which a scene cannot hide."""
    count = len(digits._digits()[1])
    numbers = torch.arange(count)
    plain = (numbers + 1).float().div(count).view(-1, 1, 1).expand(-1, 8, 8)
    monkeypatch.setattr(digits, "_digits", lambda: (plain, numbers))
    shown = {split: set(scenes(split, 3000).labels.tolist()) for split in ("evaluation", "training")}
    assert not shown["evaluation"] & shown["training"]
    assert len(shown["evaluation"] | shown["training"]) == count


def test_samples_have_labels_truths_and_ids_of_their_own() -> None:
    shown = digit_samples()
    assert len(shown) == 64
    assert set(shown.ids).isdisjoint(training_digits().ids)
    assert {sample.label for sample in shown} == set(range(10))
    assert all(sample.truth is not None and bool(sample.truth.any()) for sample in shown)
    assert pickle.loads(pickle.dumps(shown.take([3]))).ids == (shown.ids[3],)
    assert "scikit-learn" in shown.describe()


def test_grad_cam_finds_a_map_of_8_by_8(classifier: Classifier) -> None:
    inputs = classifier.to_inputs(torch.stack([sample.image for sample in digit_samples()[:4]]))
    layer = classifier.feature_layer(inputs)
    assert classifier.layer_shape(inputs, layer) == (48, 8, 8)
    maps = GradCam()(classifier, inputs, classifier.predictions(inputs), rng=Rng(0, tuple("abcd")))
    assert bool((maps.amax(dim=(1, 2)) > 0).all())


# The recipe -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(classifier: Classifier) -> DigitNet:
    network = digits_recipe(Training.from_samples(training_digits(), classifier), 5, {})
    assert isinstance(network, DigitNet)
    return network


@pytest.mark.slow
def test_the_recipe_reaches_95_per_cent(classifier: Classifier, trained: DigitNet) -> None:
    assert not trained.training
    assert right(classifier.variant(trained, "seed 5"), 1800) >= 0.95


@pytest.mark.slow
def test_the_recipe_is_decided_by_its_seed_and_leaves_the_global_state(classifier: Classifier) -> None:
    few = Training.from_samples(training_digits()[:96], classifier)
    before = torch.random.get_rng_state()
    first, again, other = (digits_recipe(few, seed, {}).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["classifier.weight"], other["classifier.weight"])


def test_the_recipe_honours_its_options_and_takes_any_dataset() -> None:
    made = scenes("training", 64)
    dataset = TensorDataset(made.pixels, made.labels)
    network = digits_recipe(dataset, 0, {"classes": 12, "architecture": "other"})
    assert isinstance(network, DigitResNet)
    assert network(made.pixels[:2]).shape == (2, 12)
    assert copy.deepcopy(network)(made.pixels[:2]).shape == (2, 12)
    assert digits_recipe(dataset, 0, {})(made.pixels[:2]).shape == (2, 10)


def test_settings_name_the_scenes() -> None:
    from snellen import SnellenError

    settings = Settings.of({"model": "digits", "images": "zoo:digits"})
    classifier = settings.classifier()
    assert settings.samples(classifier, Silent()).ids == digit_samples().ids
    large = load_classifier("digits", size=64)
    with pytest.raises(SnellenError, match="32×32"):
        settings.samples(large, Silent())
