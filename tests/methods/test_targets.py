"""Every method explains every kind of target: as the second of two exclusive classes with the logits 0 and its value."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.targets import PARAMETERS, TARGETS, WITHOUT_PROBABILITY, Target
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.targets import Contrast, OutputFunction
from snellen.errors import SnellenError
from snellen.images import from_arrays
from snellen.methods.lrp import LrpAlpha1Beta0, LrpEpsilon, LrpZ
from snellen.plugins.checks.planted import NetworkKind, planted_batch, planted_network
from snellen.plugins.registry import METHODS, traits
from snellen.runs.requirements import check_needs
from snellen.runs.score import fit_missing
from snellen.types import Method

CHEAPER: dict[str, dict[str, Any]] = {
    "rise": {"masks": 16},
    "lime": {"samples": 40, "segments": "grid"},
    "lime-lasso": {"samples": 40, "segments": "grid", "penalty": 0.0001},
    "kernel-shap": {"samples": 40, "segments": "grid"},
    "guided-ig": {"steps": 20},
    "blur-ig": {"steps": 50},
    "xrai": {"steps": 4},
    "sis-removal": {"cells": 4},
    "iba": {"steps": 3, "samples": 2},
    "extremal-perturbation": {"steps": 10},
    "meaningful-perturbation": {"steps": 10},
}
ATTENDING = {"attention-rollout", "transformer-attribution"}

EXPLAINED = [name for name in METHODS if not METHODS[name].traits.control and METHODS[name].traits.listed]  # type: ignore[attr-defined]


def build(name: str, target: str) -> Method:
    settings = CHEAPER.get(name, {})
    if target in WITHOUT_PROBABILITY and getattr(METHODS.build(name), "of", None) == "probability":
        settings = settings | {"of": "logit"}
    return METHODS.build(name, settings)


def maps(method: Method, kind: NetworkKind, target: Target, *, twin: bool) -> Tensor:
    classifier, column = target.classifier(planted_network(kind), twin=twin)
    batch = planted_batch(2)
    check_needs(classifier, [method], batch.pixels)
    fit_missing(classifier, [method], from_arrays(batch.pixels), 0)
    with torch.no_grad():
        return method(classifier, batch.pixels, torch.full((2,), column), rng=batch.rng)


REFUSED = {("deep-taylor", target) for target in ("contrast", "contrast of labels", "yes", "no", "down", "function")} | {
    (name, target) for name in ("iba", "meaningful-perturbation", "sis", "sis-removal") for target in WITHOUT_PROBABILITY
}
WEIGHTS_OF_HEAD = "cam"
"""Refuses what follows the head's weights, as targets of these tests do; tested on plain networks below."""


@pytest.mark.parametrize("target", PARAMETERS)
@pytest.mark.parametrize("name", [name for name in EXPLAINED if name != WEIGHTS_OF_HEAD])
def test_a_target_is_explained_as_one_of_two_classes(name: str, target: str) -> None:
    kind: NetworkKind = "vit" if name in ATTENDING else "cnn"
    method = build(name, target)
    if (name, target) in REFUSED:
        with pytest.raises(SnellenError, match=f"{name}.* (needs the probability|hands down what excites)"):
            maps(method, kind, TARGETS[target], twin=False)
        return
    own, expected = (maps(method, kind, TARGETS[target], twin=twin) for twin in (False, True))
    assert not traits(method).signed or bool(expected.any()), "nothing was compared"
    assert torch.allclose(own, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max())), (own - expected).abs().max()


@pytest.mark.parametrize("method", [LrpZ(), LrpEpsilon(), LrpAlpha1Beta0()], ids=lambda method: traits(method).name)
def test_relevance_of_a_contrast_is_that_of_one_class_less_that_of_the_other(method: Method) -> None:
    contrast = maps(method, "resnet", TARGETS["contrast"], twin=False)
    first, second = (
        maps(method, "resnet", Target(heads="exclusive-classes", column=column, value=torch.clone), twin=False)
        for column in (0, 2)
    )
    assert torch.allclose(contrast, first - second, atol=1e-4 * float(first.abs().max()))


def test_a_contrast_by_the_weights_of_a_head_is_that_of_one_class_less_that_of_the_other() -> None:
    batch = planted_batch(2)
    plain = Classifier(planted_network("resnet"))
    classes = plain.check(batch.pixels)
    contrast = plain.with_target(Contrast(0, 2), "0, not 2")
    method = METHODS.build(WEIGHTS_OF_HEAD)

    def explain(classifier: Classifier, column: int) -> Tensor:
        with torch.no_grad():
            return method(classifier, batch.pixels, torch.full((2,), column), rng=batch.rng)

    difference = explain(plain, 0) - explain(plain, 2)
    assert bool(difference.any())
    assert torch.allclose(explain(contrast, classes), difference, atol=1e-5 * float(difference.abs().max()))


@pytest.mark.parametrize("name", ["deeplift-rescale", "deeplift-reveal-cancel", "deepshap"])
def test_differences_of_a_function_that_is_not_linear_are_refused(name: str) -> None:
    def squares(logits: Tensor) -> Tensor:
        return logits.square().sum(dim=1)

    target = Target(heads="exclusive-classes", column=3, value=torch.clone, further=OutputFunction(squares, "squares"))
    with pytest.raises(SnellenError, match=f"{name} shares out a linear function of the logits, but squares is none"):
        maps(METHODS.build(name), "cnn", target, twin=False)
