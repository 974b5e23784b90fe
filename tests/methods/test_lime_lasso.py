"""LIME with a Lasso against captum's Lime, scikit-learn's Lasso, and an answer that can be worked out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captum._utils.models.linear_model import SkLearnLasso
from captum.attr import LimeBase
from captum.attr._core.lime import get_exp_kernel_similarity_function
from sklearn.linear_model import Lasso
from tests.networks import NETWORKS, SIDE
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.superpixels import superpixels
from snellen.methods.lime_lasso import LimeLasso, draws, lasso
from snellen.plugins.registry import METHODS, label
from snellen.types import Rng


@pytest.mark.parametrize("penalty", [0.0005, 0.01, 0.08])
def test_the_lasso_is_scikit_learns_for_every_image_of_a_batch(penalty: float) -> None:
    draw = np.random.default_rng(0)
    features = (draw.random((3, 60, 25)) < 0.5).astype(float)
    features[1, :, 20:] = 0  # an image of fewer superpixels is padded with zeros
    outputs = features @ draw.normal(size=(25,)) + draw.normal(size=(3, 60))
    importance = draw.random((3, 60)) + 0.1
    coefficients = lasso(*(torch.from_numpy(array) for array in (features, outputs, importance)), penalty)  # type: ignore[call-arg]
    for i in range(3):
        expected = Lasso(alpha=penalty, tol=1e-12, max_iter=100_000).fit(features[i], outputs[i], importance[i]).coef_
        np.testing.assert_allclose(coefficients[i].numpy(), expected, atol=1e-7)
    assert bool((coefficients[1, 20:] == 0).all())
    assert penalty < 0.08 or bool((coefficients[0] == 0).any())


@pytest.mark.filterwarnings("ignore:.*")  # captum's own
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_map_is_captums_over_the_same_superpixels_and_copies(name: str) -> None:
    net = NETWORKS[name]()
    classifier, rng = Classifier(net), Rng(seed=2, ids=("a", "b"))
    inputs, targets = rng.normal("images", (3, SIDE, SIDE)), torch.tensor([1, 3])
    method = LimeLasso(samples=60, segments="grid", penalty=0.0002)
    maps = method(classifier, inputs, targets, rng=rng)
    assert float(maps.abs().max()) > 0
    labels = superpixels(classifier, inputs, "grid")
    for i in range(2):
        copies = iter(draws(rng[i : i + 1], 60, int(labels[i].max()) + 1).float())

        def removed(copy: Tensor, image: Tensor, i: int = i, **_: object) -> Tensor:
            return image * copy[0][labels[i]]

        theirs = LimeBase(
            net,
            SkLearnLasso(alpha=method.penalty, tol=1e-12, max_iter=100_000),
            get_exp_kernel_similarity_function("euclidean", kernel_width=1000),
            lambda *_, copies=copies, **__: next(copies)[None],
            perturb_interpretable_space=True,
            from_interp_rep_transform=removed,
            to_interp_rep_transform=None,
        )
        weights = theirs.attribute(inputs[i : i + 1], target=int(targets[i]), n_samples=60)
        expected = weights.flatten()[labels[i]].float()
        assert float((maps[i] - expected).abs().max()) <= 1e-4 * float(expected.abs().max())


def test_a_linear_model_gets_its_own_weights_less_the_penalty() -> None:
    class Linear(torch.nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            score = 3 * inputs[:, 0, :4, :4].mean(dim=(1, 2))
            return torch.stack([score, torch.zeros_like(score)], dim=1)

    rng = Rng(seed=0, ids=("a",))
    maps = LimeLasso(samples=500, segments="grid", penalty=0.01)(
        Classifier(Linear()), torch.ones(1, 3, 28, 28), torch.tensor([0]), rng=rng
    )
    # One superpixel carries all: its weight is 3 less penalty / variance of a fair coin (1/4, up to the draw).
    assert abs(float(maps[0, 0, 0]) - (3 - 0.01 * 4)) < 0.01
    assert float(maps[0, 4:].abs().max()) == 0


def test_the_lime_preset_of_zhang2024_is_lime_lasso() -> None:
    assert label(METHODS.parse("lime@zhang2024")) == "lime-lasso@zhang2024"
    assert METHODS.parse("lime@zhang2024").samples == 40


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="penalty must not be negative, not -1"):
        LimeLasso(penalty=-1.0)
    with pytest.raises(ValueError, match="samples must be at least 2, not 1"):
        LimeLasso(samples=1)
