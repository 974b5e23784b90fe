"""Metrics over trained variants: what the variants are trained on, and expected scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from snellen.errors import SnellenError
from snellen.metrics import model_contrast, roar
from snellen.plugins.checks.planted import PATCH, SIDE, PlantedBatch, patches, planted_batch, planted_classifier
from snellen.plugins.checks.planted_methods import FixedMap, InputTimesGradient, MarksPatch, MarksRest, planted_case
from snellen.plugins.registry import METRICS
from snellen.types import Passes, Rng, Sample
from snellen.variants.recipes import Training, seed_for


class Noting:
    """A recipe that returns its network unchanged and remembers what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[torch.Tensor, list[int], int, dict]] = []

    def __call__(self, dataset, seed, options):
        inputs, labels = dataset.tensors()
        self.calls.append((inputs, labels.tolist(), seed, dict(options)))
        return nn.Linear(1, 1)


@pytest.fixture
def scene() -> PlantedBatch:
    return planted_batch(40)


@pytest.fixture
def training(scene: PlantedBatch) -> Training:
    samples = [
        Sample(f"training-{place}", image, int(label))
        for place, (image, label) in enumerate(zip(scene.pixels, scene.targets, strict=True))
    ]
    return Training.from_samples(samples, scene.classifier)


def training_calls(metric, method, training: Training, seed: int = 0) -> list[tuple[torch.Tensor, list[int], int, dict]]:
    noting = Noting()
    for variant in metric.trained_variants(method):
        variant.train(noting, training, training.classifier, seed=seed)
    return noting.calls


def test_permuted_labels_are_the_same_labels_on_other_pictures(training, scene):
    ((inputs, labels, seed, options),) = training_calls(METRICS.build("data-randomisation"), InputTimesGradient(), training)
    torch.testing.assert_close(inputs, scene.inputs)
    assert sorted(labels) == sorted(training.labels)
    assert sum(label == other for label, other in zip(labels, training.labels, strict=True)) < 30
    assert options == {"classes": 3}
    assert seed == seed_for("permuted-labels", 0)
    assert training_calls(METRICS.build("data-randomisation"), InputTimesGradient(), training, seed=1)[0][1] != labels


def test_another_seed_and_another_architecture_see_the_same(training, scene):
    calls = [
        training_calls(METRICS.build(name), InputTimesGradient(), training)[0]
        for name in ("repeatability", "reproducibility")
    ]
    for inputs, labels, _, _ in calls:
        torch.testing.assert_close(inputs, scene.inputs)
        assert labels == list(training.labels)
    assert [options for *_, options in calls] == [{"classes": 3}, {"classes": 3, "architecture": "other"}]
    assert calls[0][2] != calls[1][2]
    assert 0 not in (calls[0][2], calls[1][2]), "hardly the seed that the classifier itself was trained with"


def test_a_distilled_model_learns_what_the_classifier_says(training, scene):
    assert METRICS.build("model-consistency").trained_variants(InputTimesGradient()) == ()
    wrong = training.with_labels([(label + 1) % 3 for label in training.labels])
    ((inputs, labels, _, options),) = training_calls(
        METRICS.build("model-consistency", {"distilled": True}), InputTimesGradient(), wrong
    )
    torch.testing.assert_close(inputs, scene.inputs)
    assert labels == scene.targets.tolist(), "the planted classifier is right about every picture, whatever the labels say"
    assert options == {"classes": 3}


def test_model_consistency_counts_a_distilled_variant():
    few = planted_batch(4)
    metric = METRICS.build("model-consistency", {"distilled": True})
    case = planted_case(few, InputTimesGradient(), metric=metric)
    assert metric.points((24, 24), few.classifier)[-1] == "distilled"
    curve = metric.curve(case, rng=few.rng)
    plain = METRICS.build("model-consistency").curve(case, rng=few.rng)
    torch.testing.assert_close(curve[:, :-1], plain, equal_nan=True)
    other = next(iter(case.variants.values()))
    maps = InputTimesGradient()(other, few.inputs, few.targets, rng=few.rng)
    expected = [spearmanr(a.flatten(), b.flatten())[0] for a, b in zip(case.maps.numpy(), maps.numpy(), strict=True)]
    assert curve[:, -1].tolist() == pytest.approx(expected, abs=1e-5)


def test_roar_trains_on_pictures_without_what_the_maps_of_their_labels_call_important(training, scene):
    metric = METRICS.build("roar", {"fractions": [PATCH**2 / SIDE**2, 0.5]})
    whole, patch, half = training_calls(metric, MarksPatch(), training)
    torch.testing.assert_close(whole[0], scene.inputs)
    inside = patches(scene.targets).unsqueeze(1).expand_as(scene.inputs)
    assert bool((patch[0][inside] == 0).all()), "exactly the patch is gone"
    torch.testing.assert_close(patch[0][~inside], scene.inputs[~inside])
    assert bool(((half[0] == 0).all(dim=1).sum(dim=(1, 2)) == SIDE**2 // 2).all())
    assert len({seed for _, _, seed, _ in (whole, patch, half)}) == 1, "nothing but the pictures differs"


def test_roar_explains_the_training_pictures_once_for_all_fractions(training):
    calls = []

    @dataclass(frozen=True)
    class Counted:
        def __call__(self, classifier, inputs, targets, *, rng):
            calls.append(len(inputs))
            return rng.uniform("map", tuple(inputs.shape[2:]))

        def passes(self, size, classifier):
            return Passes()

    metric = METRICS.build("roar", {"pictures": 35})
    retrained = training_calls(metric, Counted(), training)
    assert calls == [32, 3]
    assert {len(labels) for _, labels, _, _ in retrained} == {35}
    del retrained
    assert training in roar._RANKS
    training_calls(METRICS.build("roar", {"pictures": 35}), Counted(), training, seed=1)
    assert calls == [32, 3, 32, 3], "another seed draws other pictures"


def test_roar_names_its_variants_by_method_fraction_fill_and_number():
    build = METRICS.build
    names = {
        variant.name
        for metric in (build("roar"), build("roar", {"pictures": 50}), build("roar", {"fill": "black"}))
        for method in (InputTimesGradient(), FixedMap())
        for variant in metric.trained_variants(method)
    }
    assert len(names) == 2 + 3 * 3 * 2, "the model of whole pictures does not depend on the method or the fill"
    with pytest.raises(SnellenError, match="shares of all pixels"):
        build("roar", {"fractions": [0.0]})


def test_roar_rows_of_an_oracle_an_anti_oracle_and_of_chance(scene):
    """The stand-in for each retrained model is a network that looks at the patches."""
    metric = METRICS.build("roar", {"fractions": [0.12, 0.3]})
    few = planted_batch(12)
    score = {
        name: float(metric(planted_case(few, method, maps=maps, metric=metric), rng=few.rng).mean())
        for name, method, maps in (
            ("oracle", MarksPatch(), None),
            ("anti-oracle", MarksPatch(), -MarksPatch()(few.classifier, few.inputs, few.targets, rng=few.rng)),
            ("random", MarksRest(), few.rng.uniform("chance", (SIDE, SIDE))),
        )
    }
    assert score["oracle"] < 0.5 < score["random"] <= score["anti-oracle"] == 1.0


def test_missing_variants_labels_and_states_are_refused_in_one_sentence(scene):
    few = planted_batch(2)
    bare = planted_case(few, InputTimesGradient())
    for name in ("roar", "model-contrast", "data-randomisation", "repeatability", "reproducibility"):
        with pytest.raises(SnellenError, match=r"give --recipe and --training"):
            METRICS.build(name)(bare, rng=few.rng)
    for name in ("roar", "model-contrast"):
        with pytest.raises(SnellenError, match=f"{name} needs labels"):
            METRICS.build(name)(replace(bare, labels=None), rng=few.rng)
    with pytest.raises(SnellenError, match="give --checkpoints"):
        METRICS.build("checkpoint-sensitivity")(bare, rng=few.rng)


def test_two_models_that_disagree_about_a_picture_are_not_compared():
    few = planted_batch(3)

    class Turned(nn.Module):
        """Takes the first picture for another class, and only that."""

        def __init__(self) -> None:
            super().__init__()
            self.net = planted_classifier().module

        def forward(self, inputs):
            logits = self.net(inputs)
            odd = (inputs - few.inputs[0]).abs().amax(dim=(1, 2, 3)) < 1e-6
            return torch.where(odd[:, None], logits.roll(1, dims=1), logits)

    turned = few.classifier.variant(Turned(), "turned")
    for name in ("repeatability", "reproducibility"):
        metric = METRICS.build(name)
        (relative,) = metric.trained_variants(InputTimesGradient())
        case = replace(planted_case(few, MarksPatch()), variants={relative.name: turned})
        assert metric(case, rng=few.rng).isnan().tolist() == [True, False, False]
    case = replace(planted_case(few, MarksPatch()), variants={"permuted-labels": turned})
    assert METRICS.build("data-randomisation")(case, rng=few.rng).isfinite().all()


# Model contrast -----------------------------------------------------------------------------------------------------------


def test_objects_differ_and_lie_within_the_picture():
    shapes = model_contrast.object_shapes(8)
    pairs = [(i, j) for i in range(6) for j in range(i)]
    assert all(int((shapes[i] != shapes[j]).sum()) >= 12 for i, j in pairs)
    inputs = torch.full((200, 1, 20, 28), 0.5)
    rng = Rng(0, tuple(map(str, range(200))))
    changed, kinds, tile = model_contrast.paste_objects(planted_classifier(), inputs, 6, rng=rng)
    assert set(kinds.tolist()) == set(range(6))
    assert tile.sum(dim=(1, 2)).unique().tolist() == [25]
    assert torch.equal((changed != 0.5).any(dim=1), tile)
    anywhere = tile.any(dim=0)
    assert bool(anywhere.any(dim=0).all()), "every column is possible"
    assert bool(anywhere.any(dim=1).all()), "every row is possible"


def test_both_models_see_the_same_pictures(training, scene):
    metric = METRICS.build("model-contrast")
    objects, scenes = training_calls(metric, InputTimesGradient(), training)
    assert torch.equal(objects[0], scenes[0])
    assert scenes[1] == list(training.labels)
    assert objects[3] == {"classes": 6}
    assert scenes[3] == {"classes": 3}
    rng = Rng(0, tuple(sample.id for sample in training.samples), "/model-contrast")
    changed, kinds, _ = model_contrast.paste_objects(training.classifier, scene.inputs, 6, rng=rng)
    torch.testing.assert_close(changed, objects[0])
    assert objects[1] == kinds.tolist()


class Tiles(nn.Module):
    """Tells the six figures apart: by how far the picture agrees with each of them at any place, in its first channel."""

    def __init__(self, side: int) -> None:
        super().__init__()
        figures = model_contrast.object_shapes(side).float() * 2 - 1
        self.match = nn.Conv2d(3, 6, side, bias=False)
        self.match.weight.data = (figures / side**2).unsqueeze(1).repeat(1, 3, 1, 1) / 3
        self.best = nn.AdaptiveMaxPool2d(1)

    def forward(self, inputs):
        return self.best(self.match(inputs)).flatten(1)


def contrast(scene: PlantedBatch, method, **settings) -> torch.Tensor:
    metric = METRICS.build("model-contrast", settings)
    objects = scene.classifier.variant(Tiles(6), "objects")
    scenes = scene.classifier.variant(planted_classifier().module, "scenes")
    variants = {"model-contrast/objects/6": objects, "model-contrast/scenes/6": scenes}
    return metric(replace(planted_case(scene, method), variants=variants), rng=scene.rng)


def test_a_method_that_follows_the_model_beats_one_that_does_not():
    few = planted_batch(24)
    good, bad = contrast(few, InputTimesGradient()), contrast(few, FixedMap())
    defined = ~good.isnan()
    assert int(defined.sum()) >= 12, "most pictures are read rightly by both"
    assert torch.equal(defined, ~bad.isnan())
    assert bool((bad[defined].abs() < 1e-6).all()), "the same map twice"
    assert float(good[defined].mean()) > 0.5
    assert bool((contrast(few, InputTimesGradient(), inside="mean")[defined] > 0).all())


def test_model_contrast_agrees_with_a_slow_twin():
    few = planted_batch(8)
    scores = contrast(few, InputTimesGradient(), correct_only=False)
    changed, kinds, tile = model_contrast.paste_objects(few.classifier, few.inputs, 6, rng=few.rng.child("model-contrast"))
    for i in range(8):
        shares = []
        for net, target in ((Tiles(6), int(kinds[i])), (planted_classifier().module, int(few.targets[i]))):
            leaf = changed[i : i + 1].clone().requires_grad_()
            net(leaf)[0, target].backward()
            size = np.abs((leaf.grad[0] * leaf.detach()[0]).sum(dim=0).numpy())
            shares.append(size[tile[i].numpy()].sum() / size.sum())
        assert float(scores[i]) == pytest.approx(shares[0] - shares[1], abs=1e-5)


# Checkpoints ----------------------------------------------------------------------------------------------------------


def test_fewer_states_than_positions_stand_twice_and_more_are_thinned_out():
    few = planted_batch(2)
    metric = METRICS.build("checkpoint-sensitivity", {"states": 3, "target": "same"})
    base = planted_case(few, InputTimesGradient())

    def state(shift: int) -> nn.Module:
        net = planted_classifier().module
        net.head.weight.data = net.head.weight.data.roll(shift, dims=0)
        return net

    states = [few.classifier.variant(state(shift), str(shift)) for shift in (1, 0, 2, 0, 1)]
    five = replace(base, variants={f"checkpoint/{place}": state for place, state in enumerate(states)})
    curve = metric.curve(five, rng=few.rng)
    one_only = replace(base, variants={"checkpoint/0": states[0]})
    alone = metric.curve(one_only, rng=few.rng)
    assert torch.equal(alone, alone[:, :1].expand(-1, 3))
    torch.testing.assert_close(curve[:, [0, 2]], alone[:, :2])
    assert not torch.equal(curve[:, 1], curve[:, 0])


def test_the_class_can_be_held_fixed():
    few = planted_batch(3)
    net = planted_classifier().module
    net.head.weight.data = net.head.weight.data.roll(1, dims=0)
    variants = {"checkpoint/0": few.classifier.variant(net, "turned")}
    case = replace(planted_case(few, InputTimesGradient()), variants=variants)
    own, same = (METRICS.build("checkpoint-sensitivity", {"target": how})(case, rng=few.rng) for how in ("own", "same"))
    # What the turned network calls the next class is the very patch that the classifier looks at.
    torch.testing.assert_close(own, torch.zeros(3), atol=1e-5, rtol=0)
    assert bool((same > 0.05).all())
