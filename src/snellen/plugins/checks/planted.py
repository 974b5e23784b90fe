"""The planted problem: images and classifiers for which it is known where the evidence is.

Images are 3×24×24 with three patches of 8×8, one per class. In patch k the pixels of channel k are bright; a sample's own
patch is strong, the other two are weak, and the rest is faint noise around grey. Class k depends on colour k in patch k and
on nothing else. The weights of the convolutional network are set by hand:

    2×2 convolution, stride 2  ->  colours red, green, blue against the others, and brightness
    ReLU -> 1×1 convolution    ->  colour k minus a little brightness (so that guided and plain gradients differ)
    ReLU -> 2×2 mean           ->  a 6×6 feature map with three features (the layer of Grad-CAM)
    flatten -> linear          ->  logit k = sum of feature k over the four cells of patch k

No receptive field overlaps a patch's border, so the gradient of logit k is exactly zero outside patch k. A residual network
and a transformer were trained on the same problem (see `planted_networks`); their gradients are almost zero outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.plugins.checks.planted_networks import trained_resnet, trained_vit
from snellen.types import Rng

SIDE = 24
CORNERS = ((0, 4), (12, 0), (8, 16))
"""Top and left of each class's patch."""
PATCH = 8
"""Side of a patch in pixels."""
AREA_SHARE = PATCH**2 / SIDE**2
"""The share of the image that a patch covers."""
MEAN, STD = 0.5, 0.25
"""Normalisation of the classifiers."""

Relu = Literal["module", "functional", "reused", "in-place"]
NetworkKind = Literal["cnn", "resnet", "vit"]


class PlantedCNN(nn.Module):
    """The hand-set network; `relu` says how its two rectifiers are written, which must not matter to any method."""

    def __init__(self, relu: Relu = "module") -> None:
        super().__init__()
        self.relu = relu
        self.colours = nn.Conv2d(3, 4, kernel_size=2, stride=2)
        self.features = nn.Conv2d(4, 3, kernel_size=1)
        self.pool = nn.AvgPool2d(2)
        self.head = nn.Linear(3 * 6 * 6, 3)
        if relu != "functional":
            self.first = nn.ReLU(inplace=relu == "in-place")
            self.second = self.first if relu == "reused" else nn.ReLU(inplace=relu == "in-place")
        with torch.no_grad():
            colours = torch.eye(3) * 1.5 - 0.5
            brightness = torch.full((1, 3), 1 / 3)
            self.colours.weight.copy_(torch.cat([colours, brightness]).view(4, 3, 1, 1).expand(4, 3, 2, 2) / 4)
            self.colours.bias.fill_(-0.1)  # type: ignore[union-attr]
            self.features.weight.copy_(torch.cat([torch.eye(3) * 1.5, torch.full((3, 1), -0.25)], dim=1).view(3, 4, 1, 1))
            self.features.bias.zero_()  # type: ignore[union-attr]
            weight = torch.zeros(3, 3, 6, 6)
            for k, (top, left) in enumerate(CORNERS):
                weight[k, k, top // 4 : top // 4 + 2, left // 4 : left // 4 + 2] = 1.0
            self.head.weight.copy_(weight.flatten(1))
            self.head.bias.copy_(torch.tensor([0.1, 0.0, -0.1]))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.relu == "functional":
            features = functional.relu(self.features(functional.relu(self.colours(inputs))))
        else:
            features = self.second(self.features(self.first(self.colours(inputs))))
        logits: Tensor = self.head(self.pool(features).flatten(1))
        return logits


@dataclass(frozen=True, eq=False, kw_only=True)
class PlantedBatch:
    """A batch of the planted problem: sample i has target i mod 3."""

    classifier: Classifier
    """The planted network."""
    pixels: Float[Tensor, "batch channels 24 24"]
    """The images in [0, 1]."""
    inputs: Float[Tensor, "batch channels 24 24"]
    """The images as the network receives them."""
    targets: Int[Tensor, " batch"]
    """The class of each image."""
    truth: Bool[Tensor, "batch 24 24"]
    """The patch of each target."""
    rng: Rng
    """Random numbers of the images."""


def planted_network(kind: NetworkKind = "cnn") -> nn.Module:
    """A new copy of one of the three networks."""
    if kind == "cnn":
        return PlantedCNN()
    return trained_resnet() if kind == "resnet" else trained_vit()


def planted_classifier(relu: Relu = "module", kind: NetworkKind = "cnn") -> Classifier:
    """A new classifier of one of the networks; it classifies every planted image correctly."""
    model = PlantedCNN(relu) if kind == "cnn" else planted_network(kind)
    return Classifier(model, mean=MEAN, std=STD, classes=("red", "green", "blue"), name="planted")


def patches(targets: Int[Tensor, " batch"]) -> Bool[Tensor, "batch 24 24"]:
    """The patch of each target."""
    masks = torch.zeros(len(targets), SIDE, SIDE, dtype=torch.bool)
    for mask, target in zip(masks, targets.tolist(), strict=True):
        top, left = CORNERS[target]
        mask[top : top + PATCH, left : left + PATCH] = True
    return masks


def planted_batch(
    count: int = 3,
    *,
    seed: int = 0,
    relu: Relu = "module",
    kind: NetworkKind = "cnn",
    classifier: Classifier | None = None,
) -> PlantedBatch:
    """`count` new images with a classifier; sample i is the same whatever the count.

    Args:
        count: number of images.
        seed: decides the noise of the images.
        relu: how the rectifiers of the convolutional network are written.
        kind: the network of a new classifier.
        classifier: a classifier to use instead of a new one.
    """
    model = classifier or planted_classifier(relu, kind)
    pixels = _draw_pixels(count, seed).clone()
    targets = torch.arange(count) % 3
    rng = Rng(seed=seed, ids=_ids(count))
    return PlantedBatch(
        classifier=model, pixels=pixels, inputs=model.to_inputs(pixels), targets=targets, truth=patches(targets), rng=rng
    )


def _ids(count: int) -> tuple[str, ...]:
    return tuple(f"planted-{i}" for i in range(count))


@cache
def _draw_pixels(count: int, seed: int) -> Float[Tensor, "batch 3 24 24"]:
    rng = Rng(seed=seed, ids=_ids(count))
    pixels = MEAN + 0.1 * (rng.uniform("background", (3, SIDE, SIDE)) - 0.5)
    brightness = rng.uniform("patch", (3, PATCH, PATCH))
    for i in range(count):
        for k, (top, left) in enumerate(CORNERS):
            height = 0.65 if k == i % 3 else 0.35
            # Some pixels of a patch stay darker than grey, so that signed maps have negative values.
            pixels[i, k, top : top + PATCH, left : left + PATCH] = 0.35 + height * brightness[i, k]
    return pixels
