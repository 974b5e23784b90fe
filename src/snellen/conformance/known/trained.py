"""Known answers about relatives that would be trained: models that are written down stand in for them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from snellen.conformance.answers import KnownAnswer, any_batch, better, value
from snellen.conformance.scene import Explain, Scene, Weighted, fixed, gradient, noise, picture, scene, scene_of

_SIDE = 8
_WEIGHTS = noise(_SIDE, _SIDE, seed=46) - 0.5
_PHOTO = 0.25 + noise(_SIDE, _SIDE, seed=47) / 2
_SURE, _TURNED = Weighted(_WEIGHTS, bias=99.0), Weighted(-_WEIGHTS, bias=99.0)
_DOUBLE = Weighted(2 * _WEIGHTS, bias=99.0)
_PEARSON = {"likeness": "pearson"}

# Trained again --------------------------------------------------------------------------------------------------------


def _beside(sibling: nn.Module, *, blind: bool = False) -> Scene:
    return scene(_SURE, _PHOTO, picture if blind else gradient, variants={"trained": sibling})


def _again(metric: str) -> tuple[KnownAnswer, ...]:
    good, bad = (_DOUBLE, _TURNED) if metric != "data-randomisation" else (_TURNED, _DOUBLE)
    four = scene_of(_SURE, noise(4, 1, _SIDE, _SIDE, seed=48), gradient, variants={"trained": _TURNED})
    return (
        value(f"{metric}/blind", metric, "A method that never looks at the model.", _beside(_TURNED, blind=True), 1.0,
              "the same map for both models", kind="re-explaining"),
        value(f"{metric}/double", metric, "The other model has twice the weights; gradients.", _beside(_DOUBLE), 1.0,
              "a correlation has no unit", kind="scaling", settings=_PEARSON),
        value(f"{metric}/turned", metric, "The other model has the opposite weights; gradients.", _beside(_TURNED),
              -1.0, "the correlation of a map with its negative", kind="sign", settings=_PEARSON),
        better(f"{metric}/direction", metric, "Weights that agree with this model's, and the opposite.", _beside(good),
               _beside(bad), "maps that agree are wanted of a model trained alike, not of one with random labels",
               settings=_PEARSON),
        any_batch(f"{metric}/batch", metric, four, settings=_PEARSON),
    )  # fmt: skip


_RETRAINED = tuple(
    one for metric in ("data-randomisation", "repeatability", "reproducibility") for one in _again(metric)
)  # fmt: skip

# Saved on the way, and natural variants -------------------------------------------------------------------------------

_BIG = torch.nn.functional.interpolate(noise(1, 1, 5, 5, seed=49), size=(24, 24), mode="bicubic").clamp(0, 1)[0, 0]
_NOW, _ONCE = Weighted(0.0, bias=1.0), Weighted(0.0, bias=-1.0)


def noticing(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The picture where the model says class 0, and its negative film where it says class 1."""
    with torch.no_grad():
        first = model(inputs).argmax(dim=1) == 0
    film = inputs.mean(dim=1)
    return torch.where(first.view(-1, 1, 1), film, 1 - film)


def saved(method: Explain) -> Scene:
    """A picture, explained by this method, of a model that once decided otherwise."""
    return scene(_NOW, _BIG, method, channels=3, variants={"checkpoint/0": _ONCE})


_FEW = {"likeness": "pearson", "magnitudes": 2}

_EARLIER = (
    value("sensitivity/fixed", "sensitivity", "One map, also for an earlier state that decided otherwise.", saved(fixed),
          0.0, "1 - 1", kind="re-explaining", settings=_FEW),
    value("sensitivity/turned", "sensitivity", "The negative film for an earlier state that decided otherwise.",
          saved(noticing), 2.0, "1 - (-1)", settings=_FEW),
    better("sensitivity/direction", "sensitivity", "A map that follows the decision, against one map for all.",
           saved(noticing), saved(fixed), "only the first changes with the decision", settings=_FEW),
    value("cose/fixed", "cose", "One map, also for an earlier state that decided otherwise.", saved(fixed), 0.0,
          "the harmonic mean of anything and 0", kind="re-explaining", settings=_FEW),
    better("cose/direction", "cose", "A map that follows picture and decision, against one map for all.", saved(noticing),
           saved(fixed), "the second never changes", settings=_FEW),
)  # fmt: skip

ANSWERS = (*_RETRAINED, *_EARLIER)
