"""Metrics that remove or count pixels beside Quantus, where it computes the same number."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from snellen.classifier import Classifier
from snellen.maps.explainer import case_of
from snellen.maps.fills import MEAN
from snellen.metrics.monotonicity import MonotonicityCorrelation
from snellen.metrics.sufficiency import EffectiveComplexityCount
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS


class Grey(nn.Module):
    """Three sums over thirds of a grey picture, bent so that the chunks' effects do not just follow the pixels."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs[:, 0].tanh().view(len(inputs), 3, -1).sum(dim=2) / 20


def grey_case():
    scene = planted_batch(5)
    classifier = Classifier(Grey(), channels=1)
    inputs = scene.inputs.mean(dim=1, keepdim=True)
    maps = scene.rng.normal("map", (24, 24)).abs()
    return scene, case_of(METHODS.build("edge"), classifier, inputs, scene.targets, rng=scene.rng, maps=maps)


def theirs(metric, case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metric(
            model=case.classifier.module,
            x_batch=case.inputs.numpy(),
            y_batch=case.targets.numpy(),
            a_batch=case.maps.unsqueeze(1).numpy().copy(),
            batch_size=len(case),
            softmax=True,
        )


def test_monotonicity_correlation_is_that_of_quantus_on_grey_pictures(quantus):
    """Eight equal chunks, each exchanged for zero inputs: no draws, ties or unequal chunks, where the two would differ."""
    scene, case = grey_case()

    def zeros(arr, indices, **settings):
        out = arr.copy()
        np.put_along_axis(out, indices, 0.0, axis=1)
        return out

    metric = quantus.MonotonicityCorrelation(
        nr_samples=2, features_in_step=72, perturb_func=zeros, normalise=False, abs=True, disable_warnings=True
    )
    ours = MonotonicityCorrelation(chunks=8, samples=1, fill=MEAN)(case, rng=scene.rng)
    assert ours.tolist() == pytest.approx(theirs(metric, case), abs=1e-6)
    assert ours.unique().numel() > 1


def test_effective_complexity_count_is_that_of_quantus(quantus):
    scene, case = grey_case()
    case.maps[case.maps < 0.5] = 1e-6
    metric = quantus.EffectiveComplexity(eps=1e-5, normalise=False, abs=True, disable_warnings=True)
    assert EffectiveComplexityCount()(case, rng=scene.rng).tolist() == theirs(metric, case)
