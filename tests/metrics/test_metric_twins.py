"""Metrics beside an independent implementation, on the same maps and the same noise."""

from __future__ import annotations

import pytest
import torch
from captum.metrics import infidelity, sensitivity_max

from planted import planted
from snellen.explainer import case_of
from snellen.metrics.infidelity import Infidelity
from snellen.metrics.sensitivity import MaxSensitivity, perturbed
from snellen.registry import METHODS


@pytest.mark.parametrize("method", ["gradient", "input-x-gradient", "integrated-gradients(steps=4)", "grad-cam", "edge"])
@pytest.mark.parametrize("radius", [0.02, 0.2])
def test_max_sensitivity_is_that_of_captum_under_the_same_noise(method, radius):
    scene = planted(3)
    ours = METHODS.parse(method)
    metric = MaxSensitivity(samples=6, radius=radius)
    values = metric(case_of(ours, scene.classifier, scene.inputs, scene.targets, rng=scene.rng), rng=scene.rng)

    def explain(inputs: tuple[torch.Tensor] | torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor]:
        given = inputs[0] if isinstance(inputs, tuple) else inputs
        return (ours(scene.classifier, given, target, rng=scene.rng.repeat(range(len(given) // 3))),)

    def perturb(inputs: torch.Tensor) -> torch.Tensor:
        assert len(inputs) == 3 * 6  # captum repeats each sample 6 times in a row, as we do
        return perturbed(scene.inputs, 6, radius, rng=scene.rng.child("sensitivity"))

    theirs = sensitivity_max(
        explain, scene.inputs, perturb_func=perturb, n_perturb_samples=6, max_examples_per_batch=18, target=scene.targets
    )
    torch.testing.assert_close(values, theirs, rtol=1e-5, atol=1e-6)
    assert bool((values > 0).any())


@pytest.mark.parametrize("perturb", ["square", "noise"])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("method", ["gradient", "input-x-gradient", "integrated-gradients(steps=4)", "grad-cam"])
def test_infidelity_is_that_of_captum_under_the_same_perturbations(method, perturb, scaled):
    scene = planted(3)
    metric = Infidelity(perturb=perturb, samples=8, scaled=scaled)
    one = case_of(METHODS.parse(method), scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    drawn = torch.stack(list(metric.perturbations(scene.inputs, rng=scene.rng.child("infidelity"))), dim=1)
    steps = drawn.flatten(0, 1).unsqueeze(1).expand(-1, 3, -1, -1)  # captum repeats each sample 8 times in a row

    def change(inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        assert len(inputs) == 3 * 8
        return steps, inputs * (1 - steps) if perturb == "square" else inputs - steps

    theirs = infidelity(
        scene.classifier.module,
        change,
        scene.inputs,
        one.maps.unsqueeze(1).expand(-1, 3, -1, -1) / 3,  # a third to each channel, so that they add up to the map
        target=scene.targets,
        n_perturb_samples=8,
        max_examples_per_batch=24,
        normalize=scaled,
    )
    values = metric(one, rng=scene.rng)
    torch.testing.assert_close(values, theirs, rtol=1e-4, atol=1e-6)
    assert bool((values > 1e-6).any())
