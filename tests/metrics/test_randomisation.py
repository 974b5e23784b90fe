"""Metrics over variants of the classifier: expected scores of simple methods, caching, and equal random draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

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
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.checks.planted_methods import InputTimesGradient, planted_case
from snellen.plugins.registry import METHODS
from snellen.types import Passes, Rng
from snellen.variants.randomised import randomise_layers
from snellen.variants.weight_layers import weight_layers

NETS = ("cnn", "resnet", "vit")
AXIOMS = (ImplementationInvariance(), Linearity(), InputInvariance())
SANITY = (CascadingRandomisation(), IndependentRandomisation(), WeightRandomisation())


def planted_problem(method: str, net: str = "cnn", count: int = 3):
    scene = planted_batch(count, kind=net)
    return scene, case_of(METHODS.parse(method), scene.classifier, scene.inputs, scene.targets, rng=scene.rng)


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("metric", [*AXIOMS, *SANITY, EfficientRandomisation(), ModelConsistency()])
@pytest.mark.parametrize("method", ["gradient", "smoothgrad", "grad-cam"])
def test_every_metric_runs_on_every_kind_of_network(metric, method, net):
    scene, case = planted_problem(method, net)
    values = metric(case, rng=scene.rng)
    assert values.shape == (3,)
    assert not values.isinf().any()
    assert not values.isnan().all()


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("method", ["gradient", "smoothgrad(samples=4)", "gradient-shap", "integrated-gradients(steps=4)"])
def test_implementation_invariance__holds_for_gradients_also_where_they_are_sampled(method, net):
    scene, case = planted_problem(method, net)
    assert ImplementationInvariance()(case, rng=scene.rng).max() < 1e-4


def test_implementation_invariance__fails_guided_backprop_by_channels_that_cancel():
    scene, case = planted_problem("guided-backprop", "resnet")
    metric = ImplementationInvariance()
    columns = dict(zip(metric.points((24, 24), scene.classifier), metric.curve(case, rng=scene.rng).T, strict=True))
    assert columns["widened"].min() > 0.1
    assert max(columns[name].max() for name in ("folded", "permuted", "rescaled")) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("weight", [0.2, 0.5])
@pytest.mark.parametrize("partner", ["renamed", "randomised"])
def test_linearity__holds_for_signed_gradients_and_not_for_magnitudes(net, weight, partner):
    metric = Linearity(weight=weight, partner=partner)
    for method in ("input-x-gradient", "integrated-gradients(steps=4)"):
        scene, case = planted_problem(method, net)
        assert metric(case, rng=scene.rng).max() < 1e-4
    scene, case = planted_problem("gradient(fold=absolute-max)", "resnet")
    assert metric(case, rng=scene.rng).min() > 0.01


def test_linearity__depends_on_the_output_that_is_explained():
    for output, holds in (("logit", True), ("probability", False)):
        scene, case = planted_problem(f"occlusion(of={output})")
        assert bool((Linearity()(case, rng=scene.rng) < 1e-4).all()) == holds


@pytest.mark.parametrize("net", NETS)
def test_input_invariance__repeats_the_results_of_kindermans(net):
    """Gradients are invariant; input times gradient is not; a path is, if its reference is a picture, not a zero."""
    scores = {}
    for method in ("gradient", "input-x-gradient", "integrated-gradients(baseline=black)", "integrated-gradients"):
        scene, case = planted_problem(method, net)
        scores[method] = InputInvariance()(case, rng=scene.rng)
    assert scores["gradient"].max() < 1e-4
    assert scores["integrated-gradients(baseline=black)"].max() < 1e-4
    assert scores["input-x-gradient"].min() > 0.05
    assert scores["integrated-gradients"].min() > 0.05


@pytest.mark.parametrize("metric", SANITY)
@pytest.mark.parametrize("control", ["random", "edge", "centre"])
def test_a_control_that_ignores_the_model_scores_worst(metric, control):
    """Noise drawn anew for each model would score best; the same draws for all models show what it is."""
    scene, case = planted_problem(control)
    assert metric(case, rng=scene.rng).tolist() == pytest.approx([1.0] * 3, abs=1e-6)
    assert EfficientRandomisation()(case, rng=scene.rng).tolist() == pytest.approx([0.0] * 3, abs=1e-6)


@pytest.mark.parametrize("metric", [*SANITY, EfficientRandomisation(), ModelConsistency()])
def test_a_constant_map_is_undefined(metric):
    scene = planted_batch(3)
    flat = planted_case(scene, InputTimesGradient(), maps=torch.ones(3, 24, 24))
    assert metric(flat, rng=scene.rng).isnan().all()


@pytest.mark.parametrize("kind", [type(metric) for metric in (*SANITY, ModelConsistency())])
@pytest.mark.parametrize("blank", ["own", "other"])
def test_a_constant_map_is_undefined_by_structural_similarity_too(kind, blank):
    scene = planted_batch(3)

    class Blank(InputTimesGradient):
        def __call__(self, classifier, inputs, targets, *, rng):
            maps = super().__call__(classifier, inputs, targets, rng=rng)
            return torch.zeros_like(maps) if (blank == "own") == (classifier is scene.classifier) else maps

    assert kind(likeness="ssim")(planted_case(scene, Blank()), rng=scene.rng).isnan().all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_efficient_randomisation__a_broken_map_of_one_picture_leaves_the_others_their_scores(bad):
    scene = planted_batch(3)

    class Broken(InputTimesGradient):
        def __call__(self, classifier, inputs, targets, *, rng):
            maps = super().__call__(classifier, inputs, targets, rng=rng).clone()
            if classifier is not scene.classifier:
                maps[1, 0, 0] = bad
            return maps

    broken, whole = (
        EfficientRandomisation()(planted_case(scene, method), rng=scene.rng) for method in (Broken(), InputTimesGradient())
    )
    assert broken.isnan().tolist() == [False, True, False]
    assert torch.equal(broken[[0, 2]], whole[[0, 2]])


def test_input_invariance__backgrounds_are_pictures_and_move_along():
    scene = planted_batch(3)
    assert (scene.classifier.std != 1).any() or (scene.classifier.mean != 0).any()
    method = METHODS.parse("deepshap(backgrounds=4)")
    scene.classifier.fitted_state[method.fit_key()] = method.fit(
        scene.classifier, [planted_batch(8, seed=5).inputs], rng=scene.rng
    )
    case = case_of(method, scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    assert InputInvariance()(case, rng=scene.rng).max() < 1e-4


def test_randomisation_tests_pay_for_each_model_once():
    scene, case = planted_problem("gradient", "resnet", 2)
    costs = []
    for metric in (CascadingRandomisation(), IndependentRandomisation(), WeightRandomisation(), EfficientRandomisation()):
        with scene.classifier.counting() as ledger:
            metric(case, rng=scene.rng)
        costs.append((ledger.passes.forward, ledger.cached.forward))
    assert costs == [(14, 0), (12, 2), (0, 2), (0, 2)]


def test_planned_sharing_is_the_real_one():
    scene = planted_batch(2, kind="vit")
    asked_for = ((24, 24), Passes(1, 1), scene.classifier)
    first, second = (metric.parts(*asked_for) for metric in (CascadingRandomisation(), IndependentRandomisation()))
    assert len(set(first) & set(second)) == 1
    assert set(WeightRandomisation().parts(*asked_for)) < set(first)


@pytest.mark.parametrize("layers", [1, 2, 3, 5, 11, 50])
def test_stages_are_even_and_end_with_all_layers(layers):
    classifier = planted_batch(1, kind="vit").classifier
    stages = cascade(classifier, (24, 24), layers)
    assert len(stages) == min(layers, 11)
    assert len(stages[-1]) == 11
    counts = [len(stage) for stage in stages]
    assert counts == sorted(set(counts))
    if layers > 1:
        assert counts[0] == 1
    assert [stage[-1] for stage in stages] == [stage[0] for stage in single(classifier, (24, 24), layers)]


def test_the_last_stage_is_the_weight_test():
    scene, case = planted_problem("gradient", "resnet")
    curve = CascadingRandomisation(layers=3).curve(case, rng=scene.rng)
    assert torch.equal(curve[:, -1], WeightRandomisation()(case, rng=scene.rng))


def test_another_seed_is_another_random_model():
    scene, case = planted_problem("gradient", "resnet")
    other = Rng(1, scene.rng.ids)
    assert not torch.equal(WeightRandomisation()(case, rng=scene.rng), WeightRandomisation()(case, rng=other))


@pytest.mark.parametrize("likeness", ["spearman", "pearson", "ssim"])
def test_the_scale_of_the_maps_does_not_matter(likeness):
    """The scale of a randomised model's maps means nothing, so it is taken out before comparing."""
    scene = planted_batch(2)
    metric = WeightRandomisation(likeness=likeness)
    maps = InputTimesGradient()(scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    plain = metric(planted_case(scene, InputTimesGradient(), maps=maps), rng=scene.rng)
    loud = metric(planted_case(scene, InputTimesGradient(), maps=1000 * maps), rng=scene.rng)
    torch.testing.assert_close(plain, loud, rtol=1e-4, atol=1e-5)


def test_smoothing_averages_maps_of_noisy_copies():
    scene, case = planted_problem("gradient", "resnet", 2)
    metric = CascadingRandomisation(layers=1, variant="smprt", samples=3)
    with scene.classifier.counting() as ledger:
        values = metric(case, rng=scene.rng)
    assert ledger.passes == metric.passes((24, 24), Passes(1, 1), scene.classifier) * 2 == Passes(12, 12)
    assert not torch.allclose(values, CascadingRandomisation(layers=1)(case, rng=scene.rng))
    assert torch.equal(values, metric(case, rng=scene.rng))


def test_the_random_methods_draw_the_same_for_both_models():
    scene, case = planted_problem("smoothgrad(samples=4)", "resnet")
    assert InputInvariance()(case, rng=scene.rng).max() < 1e-4
    assert (
        Linearity()(planted_problem("smoothgrad(of=input-x-gradient, samples=4)", "resnet")[1], rng=scene.rng).max() < 1e-4
    )


def test_model_consistency__falls_as_more_is_taken_away():
    scene, case = planted_problem("gradient", "resnet")
    light = ModelConsistency(prune=0.05, bits=12)(case, rng=scene.rng)
    heavy = ModelConsistency(prune=0.5, bits=4)(case, rng=scene.rng)
    assert bool((light > heavy).all())


def test_nothing_stays_in_memory_but_the_maps():
    """A shard's inputs live long; what a relative found out about them must not."""
    import gc
    import weakref

    from snellen.classifier import Classifier

    scene, case = planted_problem("input-x-gradient", "resnet")
    made: list[weakref.ref] = []
    original = Classifier.variant

    def noted(self, module, name, **how):
        variant = original(self, module, name, **how)
        made.append(weakref.ref(variant))
        return variant

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Classifier, "variant", noted)
        for metric in (*AXIOMS, *SANITY, ModelConsistency()):
            metric(case, rng=scene.rng)
    gc.collect()
    assert len(made) > 20
    assert not any(reference() is not None for reference in made)


@pytest.mark.parametrize("net", NETS)
def test_efficient_randomisation__is_made_of_the_entropies_of_quantus(quantus, net):
    from quantus.functions.complexity_func import discrete_entropy, entropy

    scene, case = planted_problem("input-x-gradient", net)
    other = randomise_layers(scene.classifier, weight_layers(scene.classifier, (24, 24)), rng=scene.rng)
    again = METHODS.parse("input-x-gradient")(other, scene.inputs, scene.targets, rng=scene.rng)
    for metric, theirs, fold in (
        (EfficientRandomisation(), discrete_entropy, lambda maps: maps),
        (EfficientRandomisation(entropy="mass"), entropy, torch.Tensor.abs),
    ):
        before, after = (
            np.array([theirs(a=fold(a).double().numpy(), x=x.numpy()) for a, x in zip(maps, scene.inputs, strict=True)])
            for maps in (case.maps, again)
        )
        assert metric(case, rng=scene.rng).tolist() == pytest.approx(((after - before) / before).tolist(), rel=1e-4)


@pytest.mark.parametrize("net", NETS)
def test_likeness_at_every_stage_is_that_of_quantus(quantus, net):
    from quantus.functions.similarity_func import correlation_spearman

    scene, case = planted_problem("input-x-gradient", net)
    metric = CascadingRandomisation(magnitude=False)
    curve = metric.curve(case, rng=scene.rng)
    for place, stage in enumerate(cascade(scene.classifier, (24, 24), 8)):
        other = randomise_layers(scene.classifier, stage, rng=scene.rng)
        again = METHODS.parse("input-x-gradient")(other, scene.inputs, scene.targets, rng=scene.rng)
        theirs = [
            correlation_spearman(a.flatten().numpy(), b.flatten().numpy()) for a, b in zip(case.maps, again, strict=True)
        ]
        assert curve[:, place].tolist() == pytest.approx(theirs, abs=1e-4)
