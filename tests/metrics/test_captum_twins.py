"""Metrics beside an independent implementation, on the same maps and the same noise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from captum.metrics import infidelity, sensitivity_max
from torch import nn

from snellen.classifier import Classifier
from snellen.maps.explainer import case_of
from snellen.metrics.faithfulness import Faithfulness
from snellen.metrics.infidelity import Infidelity
from snellen.metrics.sensitivity import MaxSensitivity, perturb_inputs
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS
from snellen.types import Rng


@pytest.mark.parametrize("method", ["gradient", "input-x-gradient", "integrated-gradients(steps=4)", "grad-cam", "edge"])
@pytest.mark.parametrize("radius", [0.02, 0.2])
def test_max_sensitivity_is_that_of_captum_under_the_same_noise(method, radius):
    scene = planted_batch(3)
    ours = METHODS.parse(method)
    metric = MaxSensitivity(samples=6, radius=radius)
    values = metric(case_of(ours, scene.classifier, scene.inputs, scene.targets, rng=scene.rng), rng=scene.rng)

    def explain(inputs: tuple[torch.Tensor] | torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor]:
        images = inputs[0] if isinstance(inputs, tuple) else inputs
        return (ours(scene.classifier, images, target, rng=scene.rng.repeat(range(len(images) // 3))),)

    def perturb(inputs: torch.Tensor) -> torch.Tensor:
        assert len(inputs) == 3 * 6  # captum repeats each sample 6 times in a row, as we do
        return perturb_inputs(scene.inputs, 6, radius, rng=scene.rng.child("sensitivity"))

    theirs = sensitivity_max(
        explain, scene.inputs, perturb_func=perturb, n_perturb_samples=6, max_examples_per_batch=18, target=scene.targets
    )
    torch.testing.assert_close(values, theirs, rtol=1e-5, atol=1e-6)
    assert bool((values > 0).any())


@pytest.mark.parametrize("perturb", ["square", "noise"])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("method", ["gradient", "input-x-gradient", "integrated-gradients(steps=4)", "grad-cam"])
def test_infidelity_is_that_of_captum_under_the_same_perturbations(method, perturb, scaled):
    scene = planted_batch(3)
    metric = Infidelity(perturb=perturb, samples=8, scaled=scaled)
    case = case_of(METHODS.parse(method), scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    drawn = torch.stack(list(metric.perturbations(scene.inputs, rng=scene.rng.child("infidelity"))), dim=1)
    steps = drawn.flatten(0, 1).unsqueeze(1).expand(-1, 3, -1, -1)  # captum repeats each sample 8 times in a row

    def change(inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        assert len(inputs) == 3 * 8
        return steps, inputs * (1 - steps) if perturb == "square" else inputs - steps

    theirs = infidelity(
        scene.classifier.module,
        change,
        scene.inputs,
        case.maps.unsqueeze(1).expand(-1, 3, -1, -1) / 3,  # a third to each channel, so that they add up to the map
        target=scene.targets,
        n_perturb_samples=8,
        max_examples_per_batch=24,
        normalize=scaled,
    )
    values = metric(case, rng=scene.rng)
    torch.testing.assert_close(values, theirs, rtol=1e-4, atol=1e-6)
    assert bool((values > 1e-6).any())


def test_faithfulness_over_random_subsets_is_that_of_quantus(quantus, monkeypatch):
    """On one channel, where a pixel is a feature there too; Quantus is given the very same subsets."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 5), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 3)).eval()
    rng = Rng(0, ("a", "b", "c"))
    inputs, targets = rng.normal("inputs", (1, 12, 12)), torch.tensor([0, 1, 2])
    case = case_of(METHODS.build("input-x-gradient"), Classifier(net, channels=1), inputs, targets, rng=rng)
    metric = Faithfulness(subsets=30, share=0.1)
    subsets = [mask.flatten(1) for mask in metric.groups.masks((12, 12), rng)]
    indices = iter(row.nonzero().flatten().numpy() for mask in subsets for row in mask)

    def choose(features: int, size: int, replace: bool) -> np.ndarray:
        assert (features, size, replace) == (144, 14, False)
        return next(indices)

    monkeypatch.setattr(np.random, "choice", choose)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judge = quantus.FaithfulnessCorrelation(
            nr_runs=30, subset_size=14, normalise=False, perturb_baseline=0.0, return_aggregate=False, disable_warnings=True
        )
        theirs = judge(
            model=net,
            x_batch=inputs.numpy(),
            y_batch=targets.numpy(),
            a_batch=case.maps.unsqueeze(1).numpy(),
            softmax=True,
            channel_first=True,
        )
    assert next(indices, None) is None
    assert metric(case, rng=rng).tolist() == pytest.approx(theirs, abs=1e-5)
