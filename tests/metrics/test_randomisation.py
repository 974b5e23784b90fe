"""Metrics over variants of the classifier: expected scores of simple methods, caching, and equal random draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.metric_scenes import InputTimesGradient, case
from tests.planted import planted

from snellen.maps.explainer import case_of
from snellen.metrics.axioms import ImplementationInvariance, InputInvariance, Linearity
from snellen.metrics.model_consistency import ModelConsistency
from snellen.metrics.randomisation import (
    CascadingRandomisation,
    EfficientRandomisation,
    IndependentRandomisation,
    WeightRandomisation,
    cascade,
    single,
)
from snellen.plugins.registry import METHODS
from snellen.types import Passes, Rng
from snellen.variants.randomised import randomise_layers
from snellen.variants.weight_layers import weight_layers

NETS = ("cnn", "resnet", "vit")
AXIOMS = (ImplementationInvariance(), Linearity(), InputInvariance())
SANITY = (CascadingRandomisation(), IndependentRandomisation(), WeightRandomisation())


def asked(method: str, net: str = "cnn", count: int = 3):
    scene = planted(count, net=net)
    return scene, case_of(METHODS.parse(method), scene.classifier, scene.inputs, scene.targets, rng=scene.rng)


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("metric", [*AXIOMS, *SANITY, EfficientRandomisation(), ModelConsistency()])
@pytest.mark.parametrize("method", ["gradient", "smoothgrad", "grad-cam"])
def test_it_runs_on_every_kind_of_network(metric, method, net):
    scene, one = asked(method, net)
    values = metric(one, rng=scene.rng)
    assert values.shape == (3,)
    assert not values.isinf().any()
    assert not values.isnan().all()


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("method", ["gradient", "smoothgrad(samples=4)", "gradient-shap", "integrated-gradients(steps=4)"])
def test_implementation_invariance__holds_for_gradients_also_where_they_are_sampled(method, net):
    scene, one = asked(method, net)
    assert ImplementationInvariance()(one, rng=scene.rng).max() < 1e-4


def test_implementation_invariance__fails_guided_backprop_by_channels_that_cancel():
    scene, one = asked("guided-backprop", "resnet")
    metric = ImplementationInvariance()
    columns = dict(zip(metric.points((24, 24), scene.classifier), metric.curve(one, rng=scene.rng).T, strict=True))
    assert columns["widened"].min() > 0.1
    assert max(columns[name].max() for name in ("folded", "permuted", "rescaled")) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("weight", [0.2, 0.5])
@pytest.mark.parametrize("partner", ["renamed", "randomised"])
def test_linearity__holds_for_signed_gradients_and_not_for_magnitudes(net, weight, partner):
    metric = Linearity(weight=weight, partner=partner)
    for method in ("input-x-gradient", "integrated-gradients(steps=4)"):
        scene, one = asked(method, net)
        assert metric(one, rng=scene.rng).max() < 1e-4
    scene, one = asked("gradient(fold=absolute-max)", "resnet")
    assert metric(one, rng=scene.rng).min() > 0.01


def test_linearity__hangs_on_the_output_that_is_explained():
    for output, holds in (("logit", True), ("probability", False)):
        scene, one = asked(f"occlusion(of={output})")
        assert bool((Linearity()(one, rng=scene.rng) < 1e-4).all()) == holds


@pytest.mark.parametrize("net", NETS)
def test_input_invariance__finds_what_kindermans_found(net):
    """Gradients are invariant; input times gradient is not; a path is, if its reference is a picture, not a zero."""
    found = {}
    for method in ("gradient", "input-x-gradient", "integrated-gradients(baseline=black)", "integrated-gradients"):
        scene, one = asked(method, net)
        found[method] = InputInvariance()(one, rng=scene.rng)
    assert found["gradient"].max() < 1e-4
    assert found["integrated-gradients(baseline=black)"].max() < 1e-4
    assert found["input-x-gradient"].min() > 0.05
    assert found["integrated-gradients"].min() > 0.05


@pytest.mark.parametrize("metric", SANITY)
@pytest.mark.parametrize("control", ["random", "edge", "centre"])
def test_what_does_not_see_the_model_scores_worst(metric, control):
    """Noise drawn anew for each model would score best; the same draws for all models show what it is."""
    scene, one = asked(control)
    assert metric(one, rng=scene.rng).tolist() == pytest.approx([1.0] * 3, abs=1e-6)
    assert EfficientRandomisation()(one, rng=scene.rng).tolist() == pytest.approx([0.0] * 3, abs=1e-6)


@pytest.mark.parametrize("metric", [*SANITY, EfficientRandomisation(), ModelConsistency()])
def test_a_constant_map_is_undefined(metric):
    scene = planted(3)
    flat = case(scene, InputTimesGradient(), maps=torch.ones(3, 24, 24))
    assert metric(flat, rng=scene.rng).isnan().all()


@pytest.mark.parametrize("kind", [type(one) for one in (*SANITY, ModelConsistency())])
@pytest.mark.parametrize("blank", ["own", "other"])
def test_a_constant_map_is_undefined_by_structural_similarity_too(kind, blank):
    scene = planted(3)

    class Blank(InputTimesGradient):
        def __call__(self, classifier, inputs, targets, *, rng):
            maps = super().__call__(classifier, inputs, targets, rng=rng)
            return torch.zeros_like(maps) if (blank == "own") == (classifier is scene.classifier) else maps

    assert kind(likeness="ssim")(case(scene, Blank()), rng=scene.rng).isnan().all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_efficient_randomisation__a_broken_map_of_one_picture_leaves_the_others_their_scores(bad):
    scene = planted(3)

    class Broken(InputTimesGradient):
        def __call__(self, classifier, inputs, targets, *, rng):
            maps = super().__call__(classifier, inputs, targets, rng=rng).clone()
            if classifier is not scene.classifier:
                maps[1, 0, 0] = bad
            return maps

    found, whole = (EfficientRandomisation()(case(scene, one), rng=scene.rng) for one in (Broken(), InputTimesGradient()))
    assert found.isnan().tolist() == [False, True, False]
    assert torch.equal(found[[0, 2]], whole[[0, 2]])


def test_input_invariance__backgrounds_are_pictures_and_move_along():
    scene = planted(3)
    assert (scene.classifier.std != 1).any() or (scene.classifier.mean != 0).any()
    method = METHODS.parse("deepshap(backgrounds=4)")
    scene.classifier.fitted_state[method.fit_key()] = method.fit(
        scene.classifier, [planted(8, seed=5).inputs], rng=scene.rng
    )
    one = case_of(method, scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    assert InputInvariance()(one, rng=scene.rng).max() < 1e-4


def test_randomisation_tests_pay_for_each_model_once():
    scene, one = asked("gradient", "resnet", 2)
    costs = []
    for metric in (CascadingRandomisation(), IndependentRandomisation(), WeightRandomisation(), EfficientRandomisation()):
        with scene.classifier.counting() as ledger:
            metric(one, rng=scene.rng)
        costs.append((ledger.passes.forward, ledger.cached.forward))
    assert costs == [(14, 0), (12, 2), (0, 2), (0, 2)]


def test_planned_sharing_is_the_real_one():
    scene = planted(2, net="vit")
    asked_for = ((24, 24), Passes(1, 1), scene.classifier)
    first, second = (metric.parts(*asked_for) for metric in (CascadingRandomisation(), IndependentRandomisation()))
    assert len(set(first) & set(second)) == 1
    assert set(WeightRandomisation().parts(*asked_for)) < set(first)


@pytest.mark.parametrize("layers", [1, 2, 3, 5, 11, 50])
def test_stages_are_even_and_end_with_all_layers(layers):
    one = planted(1, net="vit").classifier
    stages = cascade(one, (24, 24), layers)
    assert len(stages) == min(layers, 11)
    assert len(stages[-1]) == 11
    counts = [len(stage) for stage in stages]
    assert counts == sorted(set(counts))
    if layers > 1:
        assert counts[0] == 1
    assert [stage[-1] for stage in stages] == [stage[0] for stage in single(one, (24, 24), layers)]


def test_the_last_stage_is_the_weight_test():
    scene, one = asked("gradient", "resnet")
    curve = CascadingRandomisation(layers=3).curve(one, rng=scene.rng)
    assert torch.equal(curve[:, -1], WeightRandomisation()(one, rng=scene.rng))


def test_another_seed_is_another_random_model():
    scene, one = asked("gradient", "resnet")
    other = Rng(1, scene.rng.ids)
    assert not torch.equal(WeightRandomisation()(one, rng=scene.rng), WeightRandomisation()(one, rng=other))


@pytest.mark.parametrize("likeness", ["spearman", "pearson", "ssim"])
def test_a_model_that_only_speaks_louder_is_no_other_model(likeness):
    """The scale of a randomised model's maps means nothing, so it is taken out before comparing."""
    scene = planted(2)
    metric = WeightRandomisation(likeness=likeness)
    maps = InputTimesGradient()(scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    plain = metric(case(scene, InputTimesGradient(), maps=maps), rng=scene.rng)
    loud = metric(case(scene, InputTimesGradient(), maps=1000 * maps), rng=scene.rng)
    torch.testing.assert_close(plain, loud, rtol=1e-4, atol=1e-5)


def test_smoothing_averages_maps_of_noisy_copies():
    scene, one = asked("gradient", "resnet", 2)
    metric = CascadingRandomisation(layers=1, variant="smprt", samples=3)
    with scene.classifier.counting() as ledger:
        values = metric(one, rng=scene.rng)
    assert ledger.passes == metric.passes((24, 24), Passes(1, 1), scene.classifier) * 2 == Passes(12, 12)
    assert not torch.allclose(values, CascadingRandomisation(layers=1)(one, rng=scene.rng))
    assert torch.equal(values, metric(one, rng=scene.rng))


def test_the_random_methods_draw_the_same_for_both_models():
    scene, one = asked("smoothgrad(samples=4)", "resnet")
    assert InputInvariance()(one, rng=scene.rng).max() < 1e-4
    assert Linearity()(asked("smoothgrad(of=input-x-gradient, samples=4)", "resnet")[1], rng=scene.rng).max() < 1e-4


def test_model_consistency__falls_as_more_is_taken_away():
    scene, one = asked("gradient", "resnet")
    light = ModelConsistency(prune=0.05, bits=12)(one, rng=scene.rng)
    heavy = ModelConsistency(prune=0.5, bits=4)(one, rng=scene.rng)
    assert bool((light > heavy).all())


def test_nothing_stays_in_memory_but_the_maps():
    """A shard's inputs live long; what a relative found out about them must not."""
    import gc
    import weakref

    from snellen.classifier import Classifier

    scene, one = asked("input-x-gradient", "resnet")
    made: list[weakref.ref] = []
    original = Classifier.variant

    def noted(self, module, name, **how):
        found = original(self, module, name, **how)
        made.append(weakref.ref(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Classifier, "variant", noted)
        for metric in (*AXIOMS, *SANITY, ModelConsistency()):
            metric(one, rng=scene.rng)
    gc.collect()
    assert len(made) > 20
    assert not any(one() is not None for one in made)


@pytest.mark.parametrize("net", NETS)
def test_efficient_randomisation__is_made_of_the_entropies_of_quantus(quantus, net):
    from quantus.functions.complexity_func import discrete_entropy, entropy

    scene, one = asked("input-x-gradient", net)
    other = randomise_layers(scene.classifier, weight_layers(scene.classifier, (24, 24)), rng=scene.rng)
    again = METHODS.parse("input-x-gradient")(other, scene.inputs, scene.targets, rng=scene.rng)
    for metric, theirs, fold in (
        (EfficientRandomisation(), discrete_entropy, lambda maps: maps),
        (EfficientRandomisation(entropy="mass"), entropy, torch.Tensor.abs),
    ):
        before, after = (
            np.array([theirs(a=fold(a).double().numpy(), x=x.numpy()) for a, x in zip(maps, scene.inputs, strict=True)])
            for maps in (one.maps, again)
        )
        assert metric(one, rng=scene.rng).tolist() == pytest.approx(((after - before) / before).tolist(), rel=1e-4)


@pytest.mark.parametrize("net", NETS)
def test_likeness_at_every_stage_is_that_of_quantus(quantus, net):
    from quantus.functions.similarity_func import correlation_spearman

    scene, one = asked("input-x-gradient", net)
    metric = CascadingRandomisation(magnitude=False)
    curve = metric.curve(one, rng=scene.rng)
    for place, stage in enumerate(cascade(scene.classifier, (24, 24), 8)):
        other = randomise_layers(scene.classifier, stage, rng=scene.rng)
        again = METHODS.parse("input-x-gradient")(other, scene.inputs, scene.targets, rng=scene.rng)
        theirs = [
            correlation_spearman(a.flatten().numpy(), b.flatten().numpy()) for a, b in zip(one.maps, again, strict=True)
        ]
        assert curve[:, place].tolist() == pytest.approx(theirs, abs=1e-4)
