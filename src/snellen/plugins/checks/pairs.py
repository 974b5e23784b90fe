"""By metric, a good and a bad method that show its direction, where the usual pair does not."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from snellen.classifier import Classifier
from snellen.plugins.checks.planted import patches
from snellen.plugins.checks.planted_methods import FixedMap, InputTimesGradient, MarksPatch, MarksRest
from snellen.plugins.registry import METHODS
from snellen.types import Images, Maps, Method, OneGradient, Passes, Rng, Targets, WithoutClassifier


@dataclass(frozen=True)
class Plain(OneGradient):
    """The gradient alone, signed."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        return classifier.gradient(inputs, targets)[0].sum(dim=1)


@dataclass(frozen=True)
class Squared(OneGradient):
    """The square of input times gradient: not linear in the model."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        return InputTimesGradient()(classifier, inputs, targets, rng=rng).square()


@dataclass(frozen=True)
class FirstChannel:
    """The output of the first hidden channel: it depends on how the function of the network is written."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        first = classifier.layer_features(inputs, "colours")[:, 0]
        return first.repeat_interleave(2, dim=1).repeat_interleave(2, dim=2)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        return Passes(1, 0)


@dataclass(frozen=True)
class WeightNoise(WithoutClassifier):
    """Noise that depends on every last bit of the weights, and on nothing else."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        seed = int(hashlib.sha256(classifier.fingerprint.encode()).hexdigest()[:8], 16)
        return Rng(seed, rng.ids).uniform("map", tuple(inputs.shape[2:]))


@dataclass(frozen=True)
class Spot(WithoutClassifier):
    """Ones on the target's patch, exact zeros elsewhere."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        return patches(targets).float()


def pair_of(metric: str) -> tuple[Method, Method]:
    """A method that the metric of this name must score better, and one that it must score worse."""
    patch, rest, gradient, fixed = MarksPatch(), MarksRest(), InputTimesGradient(), FixedMap()
    if metric in ("sensitivity", "cose"):
        # A round map in the middle looks the same however it is turned and whatever the model says.
        return gradient, METHODS.build("centre")
    if metric == "completeness":
        return METHODS.build("integrated-gradients"), rest
    pairs: dict[str, tuple[Method, Method]] = {
        "infidelity": (gradient, rest),
        "target-sensitivity": (patch, fixed),
        "random-logit": (patch, fixed),
        "cascading-randomisation": (gradient, fixed),
        "independent-randomisation": (gradient, fixed),
        "weight-randomisation": (gradient, fixed),
        "efficient-randomisation": (gradient, fixed),
        "implementation-invariance": (gradient, FirstChannel()),
        "linearity": (gradient, Squared()),
        "input-invariance": (Plain(), gradient),
        "model-consistency": (gradient, WeightNoise()),
        "effective-complexity-count": (Spot(), patch),
        "data-randomisation": (gradient, fixed),
        "repeatability": (patch, gradient),
        "reproducibility": (patch, gradient),
        "checkpoint-sensitivity": (gradient, fixed),
    }
    return pairs.get(metric, (patch, rest))
