"""Guided Grad-CAM."""

from __future__ import annotations

from dataclasses import dataclass

from snellen.classifier import Classifier
from snellen.maps.folding import Fold
from snellen.methods.class_activation import prepare_layer
from snellen.methods.guided_backprop import GuidedBackprop
from snellen.methods.refusals import require_rectifiers
from snellen.plugins.registry import METHODS, method
from snellen.plugins.traits import LAYERS
from snellen.types import Images, Maps, Passes, Rng, Targets


@method(
    "guided-grad-cam",
    cite="selvaraju2017",
    family="class-activation",
    needs={"gradients", "layer", "relu"},
    caveats={"adebayo2018": "its maps hardly change when the weights of upper layers are drawn at random"},
    ranges={"layer": LAYERS, "fold": ("absolute-sum", "norm", "sum")},
)
@dataclass(frozen=True)
class GuidedGradCam:
    """The size of the guided gradient at each pixel times the grad-cam there.

    Like guided-backprop it is defined for rectifiers only.
    """

    layer: str | None = None
    """Name of grad-cam's layer; None for the last one whose features have spatial positions."""
    fold: Fold = "absolute-max"

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Finds the layer; refuses a classifier whose activation functions are not rectifiers."""
        require_rectifiers("guided-grad-cam", classifier, inputs)
        prepare_layer(self.layer, classifier, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward for each of the two parts."""
        return Passes(2, 2)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        self.prepare(classifier, inputs)
        grad_cam = METHODS.build("grad-cam", {"layer": self.layer})(classifier, inputs, targets, rng=rng)
        # Grad-CAM is the same for all channels and not negative: fold then multiply, or multiply then fold.
        return grad_cam * GuidedBackprop(fold=self.fold)(classifier, inputs, targets, rng=rng)
