"""Gradients through batch normalisations by a short backward pass are those of torch, and the module stays as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snellen import zoo
from snellen.classifier import Classifier, evaluated_norms
from snellen.classifier.evaluated_norms import evaluated_norms as applied


class Own(nn.BatchNorm2d):
    """A layer with code of its own."""

    def forward(self, inputs):
        return 2 * super().forward(inputs)


def network(width: int = 8, norm=nn.BatchNorm2d) -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(3, width, 3), norm(width), nn.ReLU(), nn.Flatten(), nn.Linear(width * 100, 12), nn.BatchNorm1d(12)
    )
    generator = torch.Generator().manual_seed(0)
    for module in model:
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                with torch.no_grad():
                    tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
    return model


def gradients(classifier: Classifier, inputs: torch.Tensor):
    targets = torch.arange(len(inputs)) % 10
    layer = classifier.feature_layer(inputs)
    whole, outputs = classifier.gradient(inputs, targets)
    return whole, outputs, *classifier.layer_gradient(inputs, targets, layer)


def torchs_own(monkeypatch, classifier: Classifier, inputs: torch.Tensor):
    with monkeypatch.context() as patch:
        patch.setattr(evaluated_norms, "NORMS", ())
        return gradients(classifier, inputs)


@pytest.mark.parametrize("last", [True, False])
def test_bits_are_those_of_torchs_own_backward_pass(monkeypatch, last):
    monkeypatch.setattr(evaluated_norms, "LEAST", 1)
    inputs = torch.rand(4, 3, 12, 12).to(memory_format=torch.channels_last if last else torch.contiguous_format)
    classifier = Classifier(network())
    used = []
    monkeypatch.setattr(evaluated_norms._EvaluatedNorm, "apply", _counted(used))
    for ours, theirs in zip(gradients(classifier, inputs), torchs_own(monkeypatch, classifier, inputs), strict=True):
        assert torch.equal(ours, theirs)
    assert len(used) == 3  # at the layer behind the first normalisation only the second has a gradient


def _counted(used):
    apply = evaluated_norms._EvaluatedNorm.apply

    def counted(*arguments):
        used.append(arguments)
        return apply(*arguments)

    return counted


@pytest.mark.slow
def test_bits_are_the_same_on_a_pretrained_network(monkeypatch):
    classifier = zoo.load_classifier(zoo.EMBEDDED)
    samples = zoo.photographs(classifier.geometry)
    inputs = classifier.to_inputs(torch.stack([samples[place].image for place in range(3)]))
    for ours, theirs in zip(gradients(classifier, inputs), torchs_own(monkeypatch, classifier, inputs), strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_of_gradients_flow(monkeypatch):
    monkeypatch.setattr(evaluated_norms, "LEAST", 1)
    classifier = Classifier(nn.Sequential(network(), nn.Softplus()))
    inputs = torch.rand(2, 3, 12, 12)

    def second() -> torch.Tensor:
        leaf = inputs.clone().requires_grad_()
        (first,) = torch.autograd.grad(classifier.network(leaf).square().sum(), leaf, create_graph=True)
        return torch.autograd.grad(first.square().sum(), leaf)[0]

    with applied(classifier.network):
        ours = second()
    assert torch.allclose(ours, second(), rtol=1e-5)


def test_modules_are_as_they_were_also_when_the_model_raises(monkeypatch):
    monkeypatch.setattr(evaluated_norms, "LEAST", 1)
    classifier = Classifier(network())
    norms = [module for module in classifier.module.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)]
    before = [dict(module.__dict__) for module in norms]

    def raise_within() -> None:
        with applied(classifier.network):
            assert all("forward" in module.__dict__ for module in norms)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        raise_within()
    assert [dict(module.__dict__) for module in norms] == before


def test_layers_with_code_of_their_own_stay(monkeypatch):
    monkeypatch.setattr(evaluated_norms, "LEAST", 1)
    classifier = Classifier(network(norm=Own))
    own = classifier.module[1]
    with applied(classifier.network):
        assert "forward" not in own.__dict__
        assert "forward" in classifier.module[5].__dict__
