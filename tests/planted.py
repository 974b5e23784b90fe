"""Classifiers whose reasons are known: class k looks at patch k, at colour k, and at nothing else.

Images are 3×24×24 with three patches of 8×8, one per class. In patch k the pixels of channel k are bright; a sample's own
patch is strong, the other two are weak, and the rest is faint noise around grey. The network's weights are set by hand:

    2×2 convolution, stride 2  ->  colours red, green, blue against the others, and brightness
    ReLU -> 1×1 convolution    ->  colour k minus a little brightness (so that guided and plain gradients differ)
    ReLU -> 2×2 mean           ->  a 6×6 feature map with three features (where Grad-CAM looks)
    flatten -> linear          ->  logit k = sum of feature k over the four cells of patch k

Nothing overlaps a patch's border, so the gradient of logit k is exactly zero outside patch k. A residual network and a
transformer that learnt the same (see `planted_networks`) look there too, almost as strictly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from tests.planted_networks import resnet, vit
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.types import Rng

SIDE = 24
CORNERS = ((0, 4), (12, 0), (8, 16))
"""Top and left of each class's patch."""
PATCH = 8
AREA_SHARE = PATCH**2 / SIDE**2
MEAN, STD = 0.5, 0.25

Relu = Literal["module", "functional", "reused", "in-place"]
Kind = Literal["cnn", "resnet", "vit"]


class Net(nn.Module):
    """The network above; `relu` says how its two rectifiers are written, which must not matter to any method."""

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
            self.colours.bias.fill_(-0.1)
            self.features.weight.copy_(torch.cat([torch.eye(3) * 1.5, torch.full((3, 1), -0.25)], dim=1).view(3, 4, 1, 1))
            self.features.bias.zero_()
            weight = torch.zeros(3, 3, 6, 6)
            for k, (top, left) in enumerate(CORNERS):
                weight[k, k, top // 4 : top // 4 + 2, left // 4 : left // 4 + 2] = 1.0
            self.head.weight.copy_(weight.flatten(1))
            self.head.bias.copy_(torch.tensor([0.1, 0.0, -0.1]))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.relu == "functional":
            seen = functional.relu(self.features(functional.relu(self.colours(inputs))))
        else:
            seen = self.second(self.features(self.first(self.colours(inputs))))
        return self.head(self.pool(seen).flatten(1))


@dataclass(frozen=True, eq=False)
class Planted:
    """One batch of the planted problem: sample i has target i mod 3, and `truth` marks its target's patch."""

    classifier: Classifier
    pixels: Float[Tensor, "batch 3 24 24"]
    inputs: Float[Tensor, "batch 3 24 24"]
    targets: Int[Tensor, " batch"]
    truth: Bool[Tensor, "batch 24 24"]
    rng: Rng


def network(net: Kind = "cnn") -> nn.Module:
    """A new copy of one of the three networks."""
    return {"cnn": Net, "resnet": resnet, "vit": vit}[net]()


def classifier(relu: Relu = "module", net: Kind = "cnn") -> Classifier:
    """A planted network, ready to use; it is right about every planted image."""
    model = Net(relu) if net == "cnn" else network(net)
    return Classifier(model, mean=MEAN, std=STD, classes=("red", "green", "blue"), name="planted")


def truth_of(targets: Int[Tensor, " batch"]) -> Bool[Tensor, "batch 24 24"]:
    """Where the evidence for each target sits."""
    masks = torch.zeros(len(targets), SIDE, SIDE, dtype=torch.bool)
    for mask, target in zip(masks, targets.tolist(), strict=True):
        top, left = CORNERS[target]
        mask[top : top + PATCH, left : left + PATCH] = True
    return masks


def planted(count: int = 3, *, seed: int = 0, relu: Relu = "module", net: Kind = "cnn") -> Planted:
    """`count` images; sample i is the same whatever the count."""
    rng = Rng(seed=seed, ids=tuple(f"planted-{i}" for i in range(count)))
    targets = torch.arange(count) % 3
    pixels = MEAN + 0.1 * (rng.uniform("background", (3, SIDE, SIDE)) - 0.5)
    lit = rng.uniform("patch", (3, PATCH, PATCH))
    for i, target in enumerate(targets.tolist()):
        for k, (top, left) in enumerate(CORNERS):
            height = 0.65 if k == target else 0.35
            # Some pixels of a patch stay darker than grey, so that signed maps have something to sign.
            pixels[i, k, top : top + PATCH, left : left + PATCH] = 0.35 + height * lit[i, k]
    model = classifier(relu, net)
    return Planted(model, pixels, model.to_inputs(pixels), targets, truth_of(targets), rng)
