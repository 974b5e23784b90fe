"""Cases with variants of the model: randomised, rewritten, shifted, summed and compressed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from snellen.conformance.fixtures import fake_cam, fixture, fixture_batch, gradient, input_x_gradient, noise, picture
from snellen.conformance.reference_cases import ReferenceCase, axiom_holds, batch_independent, better, value

_SIDE = 6


class Layered(nn.Module):
    """Two layers with weights and a rectifier between them; it always predicts class 0."""

    def __init__(self) -> None:
        super().__init__()
        self.lower = nn.Conv2d(1, 8, _SIDE)  # as wide as the image
        self.upper = nn.Linear(8, 2)
        with torch.no_grad():
            self.lower.weight.copy_(noise(8, 1, _SIDE, _SIDE, seed=34) - 0.5)
            for part, start in ((self.lower.bias, noise(8, seed=35)), (self.upper.bias, torch.tensor([50.0, 0.0]))):
                assert part is not None
                part.copy_(start)
            self.upper.weight.copy_(noise(2, 8, seed=36) - 0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        """Two logits."""
        logits: Tensor = self.upper(self.lower(inputs).relu().flatten(1))
        return logits


_MODEL = Layered()
_PHOTO = 0.25 + noise(_SIDE, _SIDE, seed=37) / 2
_EVEN = torch.full((_SIDE, _SIDE), 0.5)


def _weight_check(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The image for the original model, and its negative for any other weights."""
    unchanged = all(torch.equal(*pair) for pair in zip(model.parameters(), _MODEL.parameters(), strict=True))
    image = inputs.mean(dim=1)
    return image if unchanged else 1 - image


def _weight_size(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The image times the size of the first weights, which an equivalent network may have scaled."""
    first = next(iter(model.parameters()))
    return inputs.mean(dim=1) * first.detach().abs().sum()


def _squared(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return gradient(model, inputs, targets).square()


def _nervous(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return (1e5 * gradient(model, inputs, targets)).sin()


_BLIND, _SEEING, _MARKED, _FAKE = (
    fixture(_MODEL, _PHOTO, method) for method in (picture, gradient, _weight_check, fake_cam)
)
_FOUR = fixture_batch(_MODEL, noise(4, 1, _SIDE, _SIDE, seed=38), gradient)


def _randomised(metric: str) -> tuple[ReferenceCase, ...]:
    settings = {"likeness": "spearman"}
    return (
        value(f"{metric}/blind", metric, "A method that ignores the model.", _BLIND, 1.0,
              "the same map for every model", kind="re-explaining", settings=settings),
        value(f"{metric}/fake-cam", metric, "Fake-CAM.", _FAKE, 1.0, "the same map for every model", kind="fake-cam",
              settings=settings),
        value(f"{metric}/turned", metric, "A method that gives the negative map for any other model.", _MARKED, -1.0,
              "a reversed order at every stage; the model itself is no stage", settings=settings),
        better(f"{metric}/direction", metric, "The gradient, against a method that ignores the model.", _SEEING, _BLIND,
               "only the first depends on the weights", settings=settings),
        batch_independent(f"{metric}/batch", metric, _FOUR, settings=settings),
    )  # fmt: skip


_RANDOM = (
    *(case for metric in ("cascading-randomisation", "independent-randomisation", "weight-randomisation")
      for case in _randomised(metric)),
    value("efficient-randomisation/blind", "efficient-randomisation", "A method that ignores the model.", _BLIND, 0.0,
          "the same map has the same entropy", kind="re-explaining"),
    value("efficient-randomisation/fake-cam", "efficient-randomisation", "Fake-CAM.", _FAKE, 0.0,
          "the same map has the same entropy", kind="fake-cam"),
)  # fmt: skip

# Axioms ---------------------------------------------------------------------------------------------------------------


_AXIOMS = (
    value("implementation-invariance/gradient", "implementation-invariance", "The gradient of a network written otherwise.",
          _SEEING, 0.0, "equal functions have equal gradients", tolerance=1e-3),
    better("implementation-invariance/direction", "implementation-invariance",
           "The gradient, against a method that reads the first weights.", _SEEING, fixture(_MODEL, _PHOTO, _weight_size),
           "scaled neurons have other weights and the same function"),
    value("input-invariance/gradient", "input-invariance", "The gradient under a shift that the model takes out again.",
          _SEEING, 0.0, "the same function of the image", tolerance=1e-3),
    value("input-invariance/product", "input-invariance", "Input times gradient on an even image of 1/2, shifted by -1.",
          fixture(_MODEL, _EVEN, input_x_gradient), 2.0, "(1/2 - 1) g against 1/2 g: a change of g, relative to g / 2",
          tolerance=1e-3),
    axiom_holds("input-invariance/kept", "input-invariance", "Is the gradient found invariant?", _SEEING, 1.0,
         "the same function of the image"),
    axiom_holds("input-invariance/broken", "input-invariance", "Is input times gradient found invariant?",
         fixture(_MODEL, _PHOTO, input_x_gradient), 0.0, "the input itself has moved"),
    value("linearity/gradient", "linearity", "The gradient of a weighted sum of two models.", _SEEING, 0.0,
          "a gradient is linear", tolerance=1e-4),
    better("linearity/direction", "linearity", "The gradient, against its square.", _SEEING, fixture(_MODEL, _PHOTO,
           _squared),
           "a square is not linear"),
)  # fmt: skip

# Compressed -----------------------------------------------------------------------------------------------------------

_COMPRESSED = (
    value("model-consistency/blind", "model-consistency", "A method that ignores the model.", _BLIND, 1.0,
          "the same map for every model", kind="re-explaining"),
    value("model-consistency/turned", "model-consistency", "A method that gives the negative map for any other model.",
          _MARKED, -1.0, "a reversed order for every variant"),
    better("model-consistency/direction", "model-consistency", "The gradient, against a map that changes completely.",
           _SEEING, fixture(_MODEL, _PHOTO, _nervous), "compressed weights are near the old ones"),
)  # fmt: skip

CASES = (*_RANDOM, *_AXIOMS, *_COMPRESSED)
