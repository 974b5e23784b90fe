"""Layer-wise relevance propagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from snellen.classifier import Classifier
from snellen.maps.folding import Fold
from snellen.methods.propagation import Propagation, RelevancePropagation
from snellen.methods.relevance_rules import AlphaBeta, Epsilon, Flat
from snellen.plugins.registry import method
from snellen.plugins.traits import Range

_KIM = {"epsilon": 1.0, "relative": False}
_RANGES: dict[str, Range] = {
    "epsilon": (0.01, 0.1, 1.0),
    "relative": (False,),
    "fold": ("absolute-sum", "absolute-max", "norm"),
}


_DEPTHWISE = {
    "snellen2026": "little of the logit reaches the pixels through depthwise convolutions: on EfficientNet-Lite0 the map "
    "sums to less than 1 % of it (7 photographs)",
}


@dataclass(frozen=True)
class _Damped(RelevancePropagation, Protocol):
    """The settings of methods that use the epsilon rule."""

    epsilon: float = 0.25
    """What is added to the denominators of the layers that use the rule."""
    relative: bool = True
    """Whether `epsilon` is a share of the root mean square of the layer's outputs."""
    fold: Fold = "sum"

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise ValueError(f"epsilon must not be negative, not {self.epsilon}")


@method(
    "lrp-z",
    cite="bach2015",
    family="relevance-propagation",
    signed=True,
    needs={"gradients", "relu"},
    caveats={"shrikumar2016": "on a network of rectifiers and max-pooling it is input-x-gradient under another name"},
    presets={"kim2022": {}},
    ranges={"fold": ("absolute-sum", "absolute-max", "norm")},
)
@dataclass(frozen=True)
class LrpZ(RelevancePropagation):
    """Each pixel's share of the target's logit, handed down in proportion to signed contributions; biases keep theirs."""

    fold: Fold = "sum"

    def rules(self, classifier: Classifier) -> Propagation:
        """The same for all layers."""
        return Propagation("lrp-z", dense=Epsilon(), convolution=Epsilon())


@method(
    "lrp-epsilon",
    cite="bach2015",
    family="relevance-propagation",
    signed=True,
    needs={"gradients", "relu"},
    caveats=_DEPTHWISE,
    presets={"kim2022": _KIM},
    ranges=_RANGES,
)
@dataclass(frozen=True)
class LrpEpsilon(_Damped):
    """Each pixel's share of the target's logit, handed down by signed contributions, weak and contradictory sums damped.

    `epsilon` is added to every layer's denominators. It is `relative` to the root mean square of the layer's outputs by
    default, because the size of outputs differs between layers; a quarter is what Montavon et al. 2019 use.
    """

    def rules(self, classifier: Classifier) -> Propagation:
        """The same for all layers."""
        rule = Epsilon(self.epsilon, self.relative)
        return Propagation("lrp-epsilon", dense=rule, convolution=rule)


@method(
    "lrp-alpha1-beta0",
    cite="bach2015",
    family="relevance-propagation",
    signed=True,
    needs={"gradients", "relu"},
    caveats={
        "sixt2020": "over many convolutions its rule forgets what the later layers computed, so that maps of different "
        "classes can look alike",
        **_DEPTHWISE,
    },
    presets={"kim2022": _KIM},
    ranges=_RANGES,
)
@dataclass(frozen=True)
class LrpAlpha1Beta0(_Damped):
    """Each pixel's share of the target's logit, handed down in convolutions among what excites, evenly in the first layer.

    Linear layers use the epsilon rule, as in Kim et al. 2022, so that evidence against a class stays visible.
    """

    def rules(self, classifier: Classifier) -> Propagation:
        """One for linear layers, one for convolutions, one for the first layer."""
        dense = Epsilon(self.epsilon, self.relative)
        return Propagation("lrp-alpha1-beta0", dense=dense, convolution=AlphaBeta(1.0, 0.0), first=Flat())


@method(
    "lrp-alpha2-beta1",
    cite="bach2015",
    family="relevance-propagation",
    signed=True,
    needs={"gradients", "relu"},
    caveats=_DEPTHWISE,
    presets={"kim2022": _KIM},
    ranges=_RANGES,
)
@dataclass(frozen=True)
class LrpAlpha2Beta1(_Damped):
    """Each pixel's share of the target's logit: in convolutions twice what excites less what inhibits, first layer evenly.

    Linear layers use the epsilon rule, as in Kim et al. 2022.
    """

    def rules(self, classifier: Classifier) -> Propagation:
        """One for linear layers, one for convolutions, one for the first layer."""
        dense = Epsilon(self.epsilon, self.relative)
        return Propagation("lrp-alpha2-beta1", dense=dense, convolution=AlphaBeta(2.0, 1.0), first=Flat())
