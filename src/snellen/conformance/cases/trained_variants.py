"""Cases with trained variants and checkpoints of the model; models with fixed weights stand in for trained ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from snellen.conformance.cases.perturbation import block
from snellen.conformance.fixtures import (
    Fixture,
    LinearModel,
    PlainMethod,
    ProbabilityModel,
    fixed,
    fixture,
    fixture_batch,
    gradient,
    grid,
    noise,
    picture,
)
from snellen.conformance.reference_cases import ReferenceCase, batch_independent, better, value

_SIDE = 8
_WEIGHTS = noise(_SIDE, _SIDE, seed=46) - 0.5
_PHOTO = 0.25 + noise(_SIDE, _SIDE, seed=47) / 2
_SURE, _TURNED = LinearModel(_WEIGHTS, bias=99.0), LinearModel(-_WEIGHTS, bias=99.0)
_DOUBLE = LinearModel(2 * _WEIGHTS, bias=99.0)
_PEARSON = {"likeness": "pearson"}

# Retrained ------------------------------------------------------------------------------------------------------------


def _with_variant(variant: nn.Module, *, blind: bool = False) -> Fixture:
    return fixture(_SURE, _PHOTO, picture if blind else gradient, variants={"trained": variant})


def _retrained_cases(metric: str) -> tuple[ReferenceCase, ...]:
    good, bad = (_DOUBLE, _TURNED) if metric != "data-randomisation" else (_TURNED, _DOUBLE)
    four = fixture_batch(_SURE, noise(4, 1, _SIDE, _SIDE, seed=48), gradient, variants={"trained": _TURNED})
    return (
        value(f"{metric}/blind", metric, "A method that ignores the model.", _with_variant(_TURNED, blind=True), 1.0,
              "the same map for both models", kind="re-explaining"),
        value(f"{metric}/double", metric, "The other model has twice the weights; gradients.", _with_variant(_DOUBLE), 1.0,
              "a correlation has no unit", kind="scaling", settings=_PEARSON),
        value(f"{metric}/turned", metric, "The other model has the opposite weights; gradients.", _with_variant(_TURNED),
              -1.0, "the correlation of a map with its negative", kind="sign", settings=_PEARSON),
        better(f"{metric}/direction", metric, "Weights that agree with this model's, and the opposite.", _with_variant(good),
               _with_variant(bad),
               "maps should agree for a model trained the same way, and not for one trained on random labels",
               settings=_PEARSON),
        batch_independent(f"{metric}/batch", metric, four, settings=_PEARSON),
    )  # fmt: skip


_RETRAINED = tuple(
    case for metric in ("data-randomisation", "repeatability", "reproducibility") for case in _retrained_cases(metric)
)  # fmt: skip

# Checkpoints, with transformed images ---------------------------------------------------------------------------------

_BIG = torch.nn.functional.interpolate(noise(1, 1, 5, 5, seed=49), size=(24, 24), mode="bicubic").clamp(0, 1)[0, 0]
_NOW, _ONCE = LinearModel(0.0, bias=1.0), LinearModel(0.0, bias=-1.0)


def decision_map(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The image where the model predicts class 0, and its negative where it predicts class 1."""
    with torch.no_grad():
        first = model(inputs).argmax(dim=1) == 0
    image = inputs.mean(dim=1)
    return torch.where(first.view(-1, 1, 1), image, 1 - image)


def checkpoint_fixture(method: PlainMethod) -> Fixture:
    """An image explained by this method; the model has a checkpoint with another decision."""
    return fixture(_NOW, _BIG, method, channels=3, variants={"checkpoint/0": _ONCE})


_FEW = {"likeness": "pearson", "magnitudes": 2}

_EARLIER = (
    value("sensitivity/fixed", "sensitivity", "The same map also for a checkpoint with another decision.",
          checkpoint_fixture(fixed),
          0.0, "1 - 1", kind="re-explaining", settings=_FEW),
    value("sensitivity/turned", "sensitivity", "The negative of the map for a checkpoint with another decision.",
          checkpoint_fixture(decision_map), 2.0, "1 - (-1)", settings=_FEW),
    better("sensitivity/direction", "sensitivity", "A map that follows the decision, against a fixed map.",
           checkpoint_fixture(decision_map), checkpoint_fixture(fixed), "only the first changes with the decision",
           settings=_FEW),
    value("cose/fixed", "cose", "The same map also for a checkpoint with another decision.", checkpoint_fixture(fixed), 0.0,
          "the harmonic mean of anything and 0", kind="re-explaining", settings=_FEW),
    better("cose/direction", "cose", "A map that follows image and decision, against a fixed map.",
           checkpoint_fixture(decision_map),
           checkpoint_fixture(fixed), "the second never changes", settings=_FEW),
)  # fmt: skip

# Checkpoints alone ----------------------------------------------------------------------------------------------------

_STATES = (
    value("checkpoint-sensitivity/fixed", "checkpoint-sensitivity", "The same map for every model.",
          checkpoint_fixture(fixed), 0.0, "1 - 1",
          kind="re-explaining", settings=_PEARSON),
    value("checkpoint-sensitivity/turned", "checkpoint-sensitivity",
          "The negative of the map for a checkpoint with another decision.",
          checkpoint_fixture(decision_map), 2.0, "1 - (-1)", settings=_PEARSON),
    better("checkpoint-sensitivity/direction", "checkpoint-sensitivity",
           "A map that follows the decision, against a fixed map.",
           checkpoint_fixture(decision_map), checkpoint_fixture(fixed), "only the first changes with the decision",
           settings=_PEARSON),
)  # fmt: skip

# An object that one model was trained on ------------------------------------------------------------------------------


class _Six(nn.Module):
    """Six equal logits: how far all pixels are from grey, or simply their sum."""

    def __init__(self, objects: bool) -> None:
        super().__init__()
        self.objects = objects
        self.anchor = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        """The same number six times."""
        values = (inputs - 0.5).square() if self.objects else inputs
        return (values.flatten(1).sum(dim=1, keepdim=True) + self.anchor).repeat(1, 6)


_GREY = torch.full((24, 24), 0.5)
_PAIR: dict[str, nn.Module] = {"model-contrast/objects/6": _Six(True), "model-contrast/scenes/6": _Six(False)}
_ALIKE: dict[str, nn.Module] = dict.fromkeys(_PAIR, _Six(True))
_ANY = {"correct_only": False}

_CONTRAST = (
    value("model-contrast/value", "model-contrast",
          "One model depends only on pixels that are not grey, the other on all pixels equally.",
          fixture(_Six(False), _GREY, gradient, variants=_PAIR), 1 - 1 / 16,
          "all of the gradient is on the pasted object, against its sixteenth of the area", settings=_ANY),
    value("model-contrast/alike", "model-contrast", "Both models are the same.",
          fixture(_Six(False), _GREY, gradient, variants=_ALIKE), 0.0, "a level minus itself", settings=_ANY),
    value("model-contrast/blind", "model-contrast", "A method that ignores the model.",
          fixture(_Six(False), _GREY, picture, variants=_PAIR), 0.0, "the same map for both models", kind="re-explaining",
          settings=_ANY),
    better("model-contrast/direction", "model-contrast", "The gradient, against a method that ignores the model.",
           fixture(_Six(False), _GREY, gradient, variants=_PAIR), fixture(_Six(False), _GREY, picture, variants=_PAIR),
           "only the first depends on the model", settings=_ANY),
)  # fmt: skip

# Retrained without the salient pixels --------------------------------------------------------------------------------

_LIT = grid({(0, 0): 1.0, (0, 1): 1.0, (1, 0): 1.0, (1, 1): 1.0})
_BLOCK = ProbabilityModel(block)
_QUARTER = {"fractions": [0.25]}


def _retrained(maps: Tensor) -> Fixture:
    return fixture(_BLOCK, _LIT, maps, variants={"trained": _BLOCK})


_ROAR = (
    value("roar/value", "roar", "A quarter is removed, all of the bright block, on which alone the model depends.",
          _retrained(_LIT), 0.0, "the block is dark, and the class is lost", settings=_QUARTER),
    value("roar/miss", "roar", "A quarter is removed, none of the bright block.", _retrained(1 - _LIT), 1.0,
          "the block is untouched, and the class stays", settings=_QUARTER),
    value("roar/fractions", "roar", "A quarter and all are removed, the bright block last.", _retrained(1 - _LIT), 0.5,
          "right for one of two fractions", settings={"fractions": [0.25, 1.0]}),
    better("roar/direction", "roar", "The bright block first, against last.", _retrained(_LIT), _retrained(1 - _LIT),
           "the class is lost with the block only", settings=_QUARTER),
)  # fmt: skip

CASES = (*_RETRAINED, *_EARLIER, *_STATES, *_CONTRAST, *_ROAR)
