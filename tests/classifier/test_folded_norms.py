"""Folded normalisations give the same maps up to rounding, and are refused where nothing can be folded."""

from __future__ import annotations

import pytest
import torch
from tests.networks import SIDE, plain, residual
from tests.real_networks import real
from torch import Tensor, nn

from snellen import SnellenError, zoo
from snellen.classifier import Classifier
from snellen.classifier.folded_norms import fold_norms
from snellen.plugins.registry import METHODS
from snellen.types import Rng
from snellen.variants.randomised import randomise_layers
from snellen.variants.weight_layers import weight_layers

RNG = Rng(seed=1, ids=tuple("abc"))
TARGETS = torch.tensor([0, 1, 2])


def images() -> Tensor:
    return RNG.normal("images", (3, SIDE, SIDE))


def both(net: nn.Module) -> tuple[Classifier, Classifier]:
    return Classifier(net), Classifier(net).with_folded_norms()


def test_every_normalisation_after_a_convolution_is_folded() -> None:
    classifier = Classifier(residual())
    folded = fold_norms(classifier.network, images()[:1])
    assert folded is not None
    assert len(folded.convolutions) == 6
    assert not [module for module in folded.network.module.modules() if isinstance(module, nn.BatchNorm2d)]
    assert [module for module in classifier.module.modules() if isinstance(module, nn.BatchNorm2d)]


def test_gradients_are_the_same_up_to_rounding_and_logits_bit_for_bit() -> None:
    eager, folded = both(residual())
    (expected, outputs), (gradient, folded_outputs) = (c.gradient(images(), TARGETS) for c in (eager, folded))
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(folded_outputs, outputs)
    assert not torch.equal(gradient, expected)  # another copy computed it
    assert torch.equal(folded.logits(images()), eager.logits(images()))


@pytest.mark.parametrize("layer", ["2", "2.body.0", "2.body.1"])
def test_layer_gradients_are_those_of_the_layer_s_own_output(layer: str) -> None:
    eager, folded = both(residual())
    for ours, theirs in zip(*(c.layer_gradient(images(), TARGETS, layer) for c in (folded, eager)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_rules_for_single_operations_see_the_model_as_it_is() -> None:
    eager, folded = both(residual())
    for name in ("guided-backprop", "lrp-epsilon"):
        method = METHODS.parse(name)
        assert torch.equal(method(folded, images(), TARGETS, rng=RNG), method(eager, images(), TARGETS, rng=RNG))


def test_variants_are_those_of_the_model_as_it_is_and_folded_anew() -> None:
    eager, folded = both(residual())
    layers = weight_layers(eager, (SIDE, SIDE))[-2:]
    ours, theirs = (randomise_layers(c, layers, rng=RNG) for c in (folded, eager))
    assert ours.fingerprint == theirs.fingerprint
    torch.testing.assert_close(
        ours.gradient(images(), TARGETS)[0], theirs.gradient(images(), TARGETS)[0], rtol=1e-3, atol=1e-5
    )


def test_weights_that_change_are_folded_again() -> None:
    eager, folded = both(residual())
    folded.gradient(images(), TARGETS)
    for classifier in (eager, folded):
        with torch.no_grad():
            classifier.module[-1].weight.mul_(2)
    torch.testing.assert_close(
        folded.gradient(images(), TARGETS)[0], eager.gradient(images(), TARGETS)[0], rtol=1e-3, atol=1e-5
    )


def test_an_output_that_something_else_reads_too_is_not_folded() -> None:
    class Read(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)
            nn.init.constant_(self.norm.weight, 3.0)

        def forward(self, inputs: Tensor) -> Tensor:
            features = self.convolution(inputs)
            return self.head((features + self.norm(features)).mean(dim=(2, 3)))

    with pytest.raises(SnellenError, match="has none that can be folded with the same outputs; leave it out"):
        Classifier(Read().eval()).with_folded_norms().check_folded_norms(images())


@pytest.mark.parametrize("model", [plain(), lambda inputs: inputs.mean(dim=(2, 3))], ids=["without", "black box"])
def test_a_model_without_such_normalisation_is_refused(model: object) -> None:
    with pytest.raises(SnellenError, match="--fold-norms folds batch normalisation into the convolution before it, but"):
        Classifier(model).with_folded_norms().check_folded_norms(images())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["gradient", "integrated-gradients(steps=8)", "smoothgrad(samples=4)", "grad-cam", "layer-cam", "blur-ig(steps=4)"],
)
def test_maps_of_a_real_network_agree(name: str) -> None:
    """Rounding opens or closes single rectifiers, which moves some pixels in a thousand."""
    example = real(zoo.EMBEDDED, 3)
    method = METHODS.parse(name)
    expected, maps = (
        method(classifier, example.inputs, example.targets, rng=example.rng)
        for classifier in (example.classifier, example.classifier.with_folded_norms())
    )
    for ours, theirs in zip(maps.flatten(1), expected.flatten(1), strict=True):
        assert float(torch.corrcoef(torch.stack([ours, theirs]))[0, 1]) > 0.9995
        differences = (ours - theirs).abs() / theirs.abs().max()
        assert float((differences > 0.01).float().mean()) < 0.003
        assert float(differences.max()) < 0.15
