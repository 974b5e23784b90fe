"""Mixed classes, sums of classifiers and shifted inputs, compared with what they should compute."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.variants.small_networks import NETS, SIZE, net_of, pictures
from torch import nn

from snellen.classifier import Classifier
from snellen.maps.explainer import case_of
from snellen.metrics.axioms import InputInvariance, Linearity
from snellen.plugins.checks.planted import planted_batch, planted_network
from snellen.plugins.registry import METHODS
from snellen.types import Rng
from snellen.variants.recombined import mix_classes, shift_inputs, sum_classifiers
from snellen.variants.rewrites import possible_rewrites
from snellen.variants.weight_layers import weight_layers


@pytest.mark.parametrize("net", NETS)
def test_a_shift_is_absorbed_by_the_first_bias(net):
    scene = planted_batch(3, kind=net)
    variant = shift_inputs(scene.classifier, -1.0, SIZE)
    torch.testing.assert_close(variant.logits(scene.inputs - 1), scene.classifier.logits(scene.inputs), rtol=1e-5, atol=1e-5)
    first = {"cnn": "colours", "resnet": "conv1", "vit": "patch_embed"}[net]
    assert type(variant.module) is type(scene.classifier.module)
    parts = [layer for layer in variant.module.get_submodule(first).modules() if isinstance(layer, nn.Conv2d)]
    assert parts[0].bias is not None
    torch.testing.assert_close(variant.to_pixels(scene.inputs - 1), scene.classifier.to_pixels(scene.inputs))
    black = -variant.mean / variant.std
    torch.testing.assert_close(black + 1, -scene.classifier.mean / scene.classifier.std)


@pytest.mark.parametrize(
    "layers",
    [
        (nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)),
        (nn.Conv2d(3, 2, 3, padding="same", bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)),
        (nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect"), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)),
        (nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 2, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)),
        (nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 3)),
    ],
    ids=["padded", "same", "reflected", "pad-layer", "linear"],
)
def test_padding_moves_with_the_shift(layers):
    original = net_of(*copy.deepcopy(layers))
    variant = shift_inputs(original, 2.0, (8, 8))
    torch.testing.assert_close(variant.logits(pictures() + 2), original.logits(pictures()), rtol=1e-4, atol=1e-4)
    assert type(variant.module) is nn.Sequential


def test_where_no_bias_can_take_it_the_shift_is_taken_away_first():
    original = net_of(nn.AvgPool2d(2, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(75, 3))
    variant = shift_inputs(original, 2.0, (8, 8))
    torch.testing.assert_close(variant.logits(pictures() + 2), original.logits(pictures()))
    assert type(variant.module) is not nn.Sequential
    assert [name for name, _ in variant.module.named_modules()] == [name for name, _ in original.module.named_modules()]


def rolled(logits: torch.Tensor, weight: float) -> torch.Tensor:
    return weight * logits + (1 - weight) * logits[:, [*range(1, logits.shape[1]), 0]]


@pytest.mark.parametrize("weight", [0.0, 0.3])
@pytest.mark.parametrize("net", NETS)
def test_mixed_classes_are_one_network(net, weight):
    scene = planted_batch(3, kind=net)
    variant = mix_classes(scene.classifier, weight, SIZE)
    expected = rolled(scene.classifier.logits(scene.inputs), weight)
    torch.testing.assert_close(variant.logits(scene.inputs), expected, rtol=1e-5, atol=1e-5)
    assert type(variant.module) is type(scene.classifier.module)


def test_mixed_classes_where_something_follows_the_last_layer():
    original = net_of(nn.Flatten(), nn.Linear(192, 3), nn.Tanh())
    torch.testing.assert_close(
        mix_classes(original, 0.3, (8, 8)).logits(pictures()), rolled(original.logits(pictures()), 0.3)
    )


def test_a_classifier_of_probabilities_mixes_their_logarithms():
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, 3), nn.Softmax(dim=1))
    original = Classifier(module, outputs="probabilities")
    torch.testing.assert_close(
        mix_classes(original, 0.3, (8, 8)).logits(pictures()), rolled(original.logits(pictures()), 0.3), rtol=1e-5, atol=1e-5
    )


def test_a_black_box_can_be_mixed_and_shifted():
    def box(inputs):
        return torch.stack([inputs.sum(dim=(1, 2, 3)), inputs[:, 0, 0, 0], inputs.amax(dim=(1, 2, 3))], dim=1).numpy()

    original = Classifier(box)
    torch.testing.assert_close(
        mix_classes(original, 0.3, (8, 8)).logits(pictures()), rolled(original.logits(pictures()), 0.3)
    )
    torch.testing.assert_close(
        shift_inputs(original, 2.0, (8, 8)).logits(pictures() + 2), original.logits(pictures()), rtol=1e-4, atol=1e-4
    )
    assert weight_layers(original, (8, 8)) == ()
    assert possible_rewrites(original, (8, 8)) == ()
    rng = Rng(0, ("a", "b"))
    case = case_of(METHODS.parse("occlusion(cells=4, of=logit)"), original, pictures(), torch.tensor([0, 2]), rng=rng)
    assert Linearity()(case, rng=rng).max() < 1e-5
    assert InputInvariance()(case, rng=rng).isfinite().all()


def test_a_sum_of_two_networks():
    scene = planted_batch(2)
    other = scene.classifier.variant(planted_network("resnet"), "another")
    variant = sum_classifiers(scene.classifier, other, 0.25)
    expected = 0.25 * scene.classifier.logits(scene.inputs) + 0.75 * other.logits(scene.inputs)
    torch.testing.assert_close(variant.logits(scene.inputs), expected)
    assert sum_classifiers(scene.classifier, other, 0.5).fingerprint != variant.fingerprint
