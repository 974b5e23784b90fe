"""Pretrained networks that come with Snellen, each with pictures of its kind."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen import zoo
from snellen.classifier import Classifier
from snellen.images import Samples
from snellen.textbox.exam import exam_scenes
from snellen.textbox.networks import trained_network
from snellen.types import Rng


@dataclass(frozen=True, eq=False)
class Real:
    """A trained classifier with pictures, and the class that it predicts for each."""

    name: str
    classifier: Classifier
    samples: Samples
    inputs: Float[Tensor, "batch channels height width"]
    targets: Int[Tensor, " batch"]
    rng: Rng


def names() -> tuple[str, ...]:
    """The digits, the embedded ImageNet classifier (depthwise convolutions, ReLU6), and the seven TextBox networks."""
    return (zoo.DIGITS, zoo.EMBEDDED, *trained_network.shipped_names())


def real(name: str, count: int) -> Real:
    """The network of this name, with `count` of its pictures; TextBox scenes are of all buckets that show something."""
    if name in trained_network.shipped_names():
        network = trained_network.find_network(name)
        scenes = exam_scenes.draw_exam_scenes(network, per_bucket=-(-count // (len(network.spec.rule.defined) - 1)))
        (shown,) = torch.nonzero(scenes.visible > 0, as_tuple=True)
        chosen = shown[torch.linspace(0, len(shown) - 1, count).round().long()]
        return on(name, network.classifier(), scenes.samples().take(chosen.tolist()))
    classifier = zoo.load_classifier(name)
    samples = zoo.digit_samples() if name == zoo.DIGITS else zoo.photographs(classifier.geometry)
    return on(name, classifier, samples[:count])


def on(name: str, classifier: Classifier, samples: Samples) -> Real:
    """A classifier with these pictures."""
    chosen = list(samples)
    inputs = classifier.to_inputs(torch.stack([sample.image for sample in chosen]))
    return Real(
        name, classifier, samples, inputs, classifier.predictions(inputs), Rng(0, tuple(sample.id for sample in chosen))
    )
