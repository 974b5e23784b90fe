"""Known answers about saved states, about an object that one model was taught, and about training without salient pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from snellen.conformance.answers import better, value
from snellen.conformance.known.perturbation import block
from snellen.conformance.known.trained import noticing, saved
from snellen.conformance.scene import Chance, Scene, fixed, gradient, grid, picture, scene

_PEARSON = {"likeness": "pearson"}

# Saved states alone ---------------------------------------------------------------------------------------------------

_STATES = (
    value("checkpoint-sensitivity/fixed", "checkpoint-sensitivity", "One map, whoever looks.", saved(fixed), 0.0, "1 - 1",
          kind="re-explaining", settings=_PEARSON),
    value("checkpoint-sensitivity/turned", "checkpoint-sensitivity", "The negative film for a state that decided otherwise.",
          saved(noticing), 2.0, "1 - (-1)", settings=_PEARSON),
    better("checkpoint-sensitivity/direction", "checkpoint-sensitivity", "A map that follows the decision, against one map.",
           saved(noticing), saved(fixed), "only the first changes with the decision", settings=_PEARSON),
)  # fmt: skip

# An object that one model was taught ----------------------------------------------------------------------------------


class _Six(nn.Module):
    """Six equal logits: how far all pixels are from grey, or simply their sum."""

    def __init__(self, objects: bool) -> None:
        super().__init__()
        self.objects = objects
        self.anchor = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        """The same number six times."""
        seen = (inputs - 0.5).square() if self.objects else inputs
        return (seen.flatten(1).sum(dim=1, keepdim=True) + self.anchor).repeat(1, 6)


_GREY = torch.full((24, 24), 0.5)
_PAIR: dict[str, nn.Module] = {"model-contrast/objects/6": _Six(True), "model-contrast/scenes/6": _Six(False)}
_ALIKE: dict[str, nn.Module] = dict.fromkeys(_PAIR, _Six(True))
_ANY = {"correct_only": False}

_CONTRAST = (
    value("model-contrast/value", "model-contrast", "One model sees only what is not grey, the other all pixels alike.",
          scene(_Six(False), _GREY, gradient, variants=_PAIR), 1 - 1 / 16,
          "all of the gradient is on the pasted object, against its sixteenth of the area", settings=_ANY),
    value("model-contrast/alike", "model-contrast", "Both models are one.",
          scene(_Six(False), _GREY, gradient, variants=_ALIKE), 0.0, "a level minus itself", settings=_ANY),
    value("model-contrast/blind", "model-contrast", "A method that never looks at the model.",
          scene(_Six(False), _GREY, picture, variants=_PAIR), 0.0, "the same map for both models", kind="re-explaining",
          settings=_ANY),
    better("model-contrast/direction", "model-contrast", "The gradient, against a method that never looks at the model.",
           scene(_Six(False), _GREY, gradient, variants=_PAIR), scene(_Six(False), _GREY, picture, variants=_PAIR),
           "only the first knows which model it explains", settings=_ANY),
)  # fmt: skip

# What a model still knows without the salient pixels ------------------------------------------------------------------

_LIT = grid({(0, 0): 1.0, (0, 1): 1.0, (1, 0): 1.0, (1, 1): 1.0})
_BLOCK = Chance(block)
_QUARTER = {"fractions": [0.25]}


def _retrained(maps: Tensor) -> Scene:
    return scene(_BLOCK, _LIT, maps, variants={"trained": _BLOCK})


_ROAR = (
    value("roar/value", "roar", "A quarter is removed, all of the bright block; the model knows nothing else.",
          _retrained(_LIT), 0.0, "the block is dark, and the class is lost", settings=_QUARTER),
    value("roar/miss", "roar", "A quarter is removed, none of the bright block.", _retrained(1 - _LIT), 1.0,
          "the block is untouched, and the class stays", settings=_QUARTER),
    value("roar/fractions", "roar", "A quarter and all are removed, the bright block last.", _retrained(1 - _LIT), 0.5,
          "right once of twice", settings={"fractions": [0.25, 1.0]}),
    better("roar/direction", "roar", "The bright block first, against last.", _retrained(_LIT), _retrained(1 - _LIT),
           "the class is lost with the block only", settings=_QUARTER),
)  # fmt: skip

ANSWERS = (*_STATES, *_CONTRAST, *_ROAR)
