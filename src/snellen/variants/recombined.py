"""Variants of a classifier whose logits are linear combinations, or whose inputs are shifted."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.variants.build import logits_agree, make_if_same, make_variant, noise_images, replace_layer, wrap_model
from snellen.variants.weight_layers import weight_layers


def mix_classes(classifier: Classifier, weight: float, size: tuple[int, int]) -> Classifier:
    """The classifier with logit k replaced by weight · logit k + (1 - weight) · logit k + 1; class 0 follows the last class.

    With weight 0 this renames the classes. If one linear layer computes the logits, only its weights are changed.

    Args:
        classifier: the original.
        weight: share of a class's own logit.
        size: height and width of an image that the classifier takes.
    """
    name = f"classes mixed {weight:g} to {1 - weight:g}"
    layers = weight_layers(classifier, size)

    def mix(logits: Tensor) -> Tensor:
        return weight * logits + (1 - weight) * logits.roll(-1, dims=1)

    def mix_head_weights() -> Classifier | None:
        if not layers or type(classifier.module.get_submodule(layers[-1].modules[0])) is not nn.Linear:
            return None
        module = copy.deepcopy(classifier.module)
        head = module.get_submodule(layers[-1].modules[0])
        with torch.no_grad():
            for parameter in head.parameters(recurse=False):
                parameter.copy_(weight * parameter + (1 - weight) * parameter.roll(-1, dims=0))
        return make_variant(classifier, module, name)

    def is_same(variant: Classifier) -> bool:
        images = noise_images(classifier, size)
        return logits_agree(variant.uncounted_logits(images), mix(classifier.uncounted_logits(images)))

    variant = make_if_same(classifier, ("mixed", weight, size), mix_head_weights, is_same)
    return variant or wrap_model(
        classifier, name, after=lambda outputs: _to_outputs(classifier, mix(_to_logits(classifier, outputs)))
    )


class Sum(nn.Module):
    """weight · first + (1 - weight) · second, for the logits of two classifiers."""

    def __init__(self, first: Classifier, second: Classifier, weight: float) -> None:
        super().__init__()
        self.first, self.second, self.weight = first.module, second.module, weight
        self.head = first.head

    def forward(self, inputs: Tensor) -> Tensor:
        first, second = (_to_logits(self, net(inputs)) for net in (self.first, self.second))
        return _to_outputs(self, self.weight * first + (1 - self.weight) * second)

    def extra_repr(self) -> str:
        return f"weight={self.weight}, outputs={self.head.form}"


def sum_classifiers(first: Classifier, second: Classifier, weight: float) -> Classifier:
    """The classifier with the logits weight · first + (1 - weight) · second."""
    name = f"plus another, {weight:g} to {1 - weight:g}"
    return make_variant(first, Sum(first, second, weight), name, copied=False, larger=True)


def _to_logits(model: Classifier | Sum, outputs: Any) -> Tensor:
    raw = getattr(outputs, "logits", outputs)
    raw = raw if isinstance(raw, Tensor) else torch.as_tensor(raw)
    return model.head.logits(raw)


def _to_outputs(model: Classifier | Sum, logits: Tensor) -> Tensor:
    return model.head.raw(logits)


def shift_inputs(classifier: Classifier, shift: float, size: tuple[int, int]) -> Classifier:
    """A classifier whose outputs for inputs + shift are those of the original for inputs (Kindermans et al. 2019).

    Where only the first layer reads the inputs, its bias and padding absorb the shift; otherwise it is subtracted first.
    The mean of the normalisation moves too, so both classifiers see the same pixels.

    Args:
        classifier: the original.
        shift: what is added to every input value.
        size: height and width of an image that the classifier takes.
    """
    name = f"inputs shifted by {shift:g}"
    layers = [module for layer in weight_layers(classifier, size) for module in layer.modules]

    def shift_first_bias() -> Classifier | None:
        module = copy.deepcopy(classifier.module)
        first = next((layer for layer in layers if type(module.get_submodule(layer)) in (nn.Conv2d, nn.Linear)), None)
        if first is None:
            return None
        with torch.no_grad():
            _absorb_shift(module, first, shift)
        return make_variant(classifier, module, name)

    def is_same(variant: Classifier) -> bool:
        images = noise_images(classifier, size)
        return logits_agree(variant.uncounted_logits(images + shift), classifier.uncounted_logits(images))

    variant = make_if_same(classifier, ("shifted", shift, size), shift_first_bias, is_same)
    variant = variant or wrap_model(classifier, name, before=lambda inputs: inputs - shift)
    variant.mean = classifier.mean - shift * classifier.std
    return variant


def _absorb_shift(module: nn.Module, name: str, shift: float) -> None:
    """Subtracts the shift in the bias of a layer, and pads with the shift where the layer pads with zeros."""
    layer: Any = module.get_submodule(name)
    effect = layer.weight.flatten(1).sum(dim=1, dtype=torch.float64) * shift
    old = torch.zeros_like(layer.weight.flatten(1)[:, 0]) if layer.bias is None else layer.bias
    layer.bias = nn.Parameter((old.double() - effect).to(layer.weight.dtype), requires_grad=False)
    parent = name.rpartition(".")[0]
    for child, pad in list(module.get_submodule(parent).named_children()):
        if isinstance(pad, nn.ZeroPad2d):  # if it pads for another layer, the comparison of logits fails
            replace_layer(module, f"{parent}.{child}".lstrip("."), nn.ConstantPad2d(pad.padding, shift))
    margins = getattr(layer, "_reversed_padding_repeated_twice", [0])
    if any(margins) and layer.padding_mode == "zeros":
        layer.padding = (0, 0)
        replace_layer(module, name, nn.Sequential(nn.ConstantPad2d(tuple(margins), shift), layer))
