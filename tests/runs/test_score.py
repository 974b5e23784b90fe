"""Metrics as plain functions: the numbers of a run, and one sentence for each mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.networks import SIDE, plain

import snellen
from snellen.metrics.deletion import Deletion


@pytest.fixture(scope="module")
def net() -> torch.nn.Module:
    return plain()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.rand(5, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def maps(images: torch.Tensor) -> torch.Tensor:
    return torch.rand(len(images), SIDE, SIDE, generator=torch.Generator().manual_seed(1))


def test_the_numbers_are_those_of_a_run(net: torch.nn.Module, images: torch.Tensor) -> None:
    run = snellen.evaluate(net, images, methods=["gradient"], metrics=["deletion", "stability", "sparseness"], target=2)
    frame, made = run.scores(), torch.from_numpy(run.maps("gradient"))
    for metric in run.metrics:
        expected = frame[frame["metric"] == metric]["value"].to_numpy(dtype=np.float32)
        scores = snellen.score(metric, net, images, made, 2, method="gradient")
        assert np.array_equal(scores.numpy(), expected, equal_nan=True)


def test_arrays_objects_settings_and_functions_are_taken(
    net: torch.nn.Module, images: torch.Tensor, maps: torch.Tensor
) -> None:
    targets = [0, 1, 2, 3, 4]
    expected = snellen.score("deletion(steps=8)", net, images, maps, targets)
    assert expected.shape == (5,)
    assert torch.equal(snellen.score(Deletion(steps=8), net, images.numpy(), maps.numpy(), np.array(targets)), expected)
    black_box = snellen.score("deletion(steps=8)", net.eval(), images, maps, torch.tensor(targets))
    assert torch.equal(black_box, expected)
    alone = snellen.score("deletion(steps=8)", lambda inputs: net(inputs), images, maps, targets)
    assert torch.allclose(alone, expected, atol=1e-5)


def test_a_classifier_normalises_the_pixels(net: torch.nn.Module, images: torch.Tensor, maps: torch.Tensor) -> None:
    shifted = torch.nn.Sequential(_Shift(), net)
    classifier = snellen.Classifier(net, mean=0.5, std=0.5, classes=list("abcde"))
    expected = snellen.score("average-drop", shifted, images, maps.abs(), 1)
    black = snellen.score("average-drop", classifier, images, maps.abs(), "b")
    assert black.shape == expected.shape == (5,)
    logits = classifier.logits(classifier.to_inputs(images))
    assert torch.allclose(logits, shifted(images), atol=1e-5)


class _Shift(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return (pixels - 0.5) / 0.5


def test_undefined_is_nan(net: torch.nn.Module, images: torch.Tensor, maps: torch.Tensor) -> None:
    truth = torch.zeros(5, SIDE, SIDE, dtype=torch.bool)
    truth[1:, :8] = True
    scores = snellen.score("pointing-game", net, images, maps, truth=truth)
    assert bool(scores[0].isnan())
    assert bool(scores[1:].isfinite().all())


def test_maps_may_be_left_out_with_a_method(net: torch.nn.Module, images: torch.Tensor) -> None:
    made = snellen.explain(net, images, methods="gradient", targets=1)["gradient"]
    expected = snellen.score("sparseness", net, images, made, 1)
    assert torch.equal(snellen.score("sparseness", net, images, targets=1, method="gradient"), expected)


def test_the_model_stays_as_it_is(images: torch.Tensor, maps: torch.Tensor) -> None:
    net = plain().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    snellen.score("deletion(steps=4)", net, images, maps)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"metric": "stability"}, "stability explains again, but no method was given; give method="),
        ({"maps": None}, "deletion has nothing to score: give maps, or method="),
        ({"metric": "pointing-game"}, "pointing-game compares maps with the truth, but there is none; give truth="),
        ({"metric": "roar", "method": "gradient", "labels": [0] * 5}, "roar needs a recipe; use snellen.evaluate"),
        ({"images": "shifted"}, "pixels lie in \\[0, 1\\]; leave normalisation to the Classifier"),
        ({"maps": torch.zeros(4, SIDE, SIDE)}, "maps have the shape 4×32×32, but these images need 5×32×32"),
        ({"maps": torch.full((5, SIDE, SIDE), torch.nan)}, "maps\\[0\\] holds NaN or infinite values"),
        ({"targets": 5}, "target '5' is not known: .*a number from 0 to 4"),
        ({"targets": [0, 1]}, "targets must be one class, or one per image \\(5\\)"),
        ({"targets": "label"}, "target 'label' needs one label, but '0' has not"),
        ({"metric": "deletio"}, "unknown metric 'deletio'; did you mean 'deletion'"),
        ({"maps": [[1, 2], [3]]}, "maps must be one tensor or array"),
        ({"maps": torch.zeros(5, SIDE, SIDE, dtype=torch.complex64)}, "maps hold torch.complex64, not real numbers"),
        ({"maps": np.full((5, SIDE, SIDE), "a")}, "maps hold <U1, not real numbers"),
        ({"metric": "pointing-game", "truth": torch.full((5, SIDE, SIDE), torch.nan)}, "the truth of '0' holds NaN"),
        ({"seed": -1}, "seed"),
        ({"metric": lambda case: case.maps.mean()}, "gave scores of a single number, but it must give one per image, 5"),
        ({"metric": lambda case: case.maps.mul_(2).sum((1, 2))}, "changed the maps, which all methods and metrics share"),
        ({"metric": lambda case: case.inputs.mul_(2).sum((1, 2, 3))}, "changed the inputs, which all methods and metrics"),
        (
            {"maps": None, "method": lambda classifier, inputs, targets: inputs.mean(dim=1) / 0},
            "gave a map with NaN or infinite values",
        ),
    ],
)
def test_a_mistake_is_one_sentence(
    net: torch.nn.Module, images: torch.Tensor, maps: torch.Tensor, arguments: dict, sentence: str
) -> None:
    values = {"metric": "deletion", "model": net, "images": images, "maps": maps} | arguments
    if isinstance(values["images"], str):
        values["images"] = images * 3 - 1
    with pytest.raises(snellen.SnellenError, match=sentence):
        snellen.score(**values)


def test_a_contrast_and_independent_labels(net: torch.nn.Module, images: torch.Tensor, maps: torch.Tensor) -> None:
    contrast = snellen.score("deletion(steps=8)", net, images, maps, "contrast(0, 1)")
    assert not torch.equal(contrast, snellen.score("deletion(steps=8)", net, images, maps, 0))
    labels = snellen.Classifier(net, heads="independent-labels")
    assert bool(snellen.score("deletion(steps=8)", labels, images, maps, 3).isfinite().all())
    with pytest.raises(snellen.SnellenError, match="may find several labels in one image; name the target"):
        snellen.score("deletion", labels, images, maps)


@pytest.mark.parametrize(
    "mode",
    [torch.inference_mode(), torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16)],
    ids=["inference", "no", "amp"],
)
@pytest.mark.parametrize("metric", ["deletion(steps=8)", "stability(rounds=1, candidates=1)"])
def test_modes_of_the_callers_loop_change_nothing(
    net: torch.nn.Module, images: torch.Tensor, mode: Any, metric: str
) -> None:
    """Neither numbers nor what is possible depend on whether the caller has switched on autocast or inference mode."""

    def made(pixels: torch.Tensor) -> torch.Tensor:
        maps = snellen.explain(net, pixels, methods="gradient", targets=1)["gradient"]
        scores = snellen.score(metric, net, pixels, maps, 1, method="gradient")
        run = snellen.evaluate(net, pixels, methods="gradient", metrics=metric, target=1)
        return torch.stack([scores, torch.tensor(run.scores()["value"].to_numpy(np.float32))])

    expected = made(images)
    with mode:
        scores = made(images * 1)
    assert torch.equal(torch.nan_to_num(scores), torch.nan_to_num(expected))


def test_numbers_of_numpy_and_torch_are_targets(net: torch.nn.Module, images: torch.Tensor, maps: torch.Tensor) -> None:
    expected = snellen.score("deletion(steps=4)", net, images, maps, 2)
    for target in (np.int64(2), torch.tensor(2), [np.int64(2)] * 5, list(torch.full((5,), 2))):
        assert torch.equal(snellen.score("deletion(steps=4)", net, images, maps, target), expected)
    run = snellen.evaluate(net, images, methods="gradient", metrics=None, target=np.int64(2))
    assert run.record.spec.target == 2


def test_the_maps_and_images_of_the_caller_stay_as_they_are(net: torch.nn.Module, images: torch.Tensor) -> None:
    pixels, mine = images.clone(), torch.rand(5, SIDE, SIDE)
    before = mine.clone()
    with pytest.raises(snellen.SnellenError, match="changed"):
        snellen.score(lambda case: case.maps.mul_(0).sum((1, 2)) + case.inputs.mul_(0).sum((1, 2, 3)), net, pixels, mine)
    assert torch.equal(mine, before)
    assert torch.equal(pixels, images)


def test_what_a_function_of_the_outputs_does_not_have_is_refused(net: torch.nn.Module, images: torch.Tensor) -> None:
    def total(logits: torch.Tensor) -> torch.Tensor:
        return logits.sum(dim=1)

    for metric, sentence in {
        "average-drop": "average-drop needs the probability of a class, but '.*' gives total",
        "road": "road needs a decision that can change, but '.*' gives total",
        "deletion": r"deletion reads a probability, but '.*' gives total; say deletion\(of=logit\)",
    }.items():
        with pytest.raises(snellen.SnellenError, match=sentence):
            snellen.score(metric, net, images, targets=total, method="gradient")
    with pytest.raises(snellen.SnellenError, match=r"rise reads a probability, but '.*' gives total"):
        snellen.explain(net, images, methods=["rise"], targets=total)
