"""The oracle, a method that draws the true map of the scenes of an exam, and its decoy, the same map in another place.

Neither explains classifiers, so they are not registered: no list, card or contract has them. They are passed to `evaluate`
as objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.registry import MethodTraits
from snellen.textbox.exam.exam_scenes import EXAM_SEED, PER_BUCKET, draw_exam_scenes
from snellen.textbox.networks.trained_network import find_network
from snellen.types import Images, Maps, Passes, Rng, Targets

ORACLE = "oracle"
"""Name of the perfect map, which is computed from the scenes alone."""

DECOY = "decoy"

RECOGNISED = 0.5
"""The least correlation of a picture with its scene. Noise of ±0.2 leaves even a scene with the smallest box at about .7,
and a scene keeps .7 when half of its ink is masked; scenes with their objects elsewhere are below."""


@dataclass(frozen=True)
class Oracle:
    """The perfect map: even over what the rule looks at in the scene, and nothing elsewhere.

    It compares the picture with the scenes of the exam and draws the truth of the most similar one. So it can explain noisy,
    brightened or masked pictures, too. Where the truth is unknown the map is NaN: for a picture that is like no scene, and
    for another class than the scene's label. Another classifier is refused.
    """

    reasoner: str = "simple-fr"
    """Name or folder of the network whose truth it draws."""
    per_bucket: int = PER_BUCKET
    """Scenes of each bucket of the exam."""
    seed: int = EXAM_SEED
    """Of the scenes of the exam."""

    traits: ClassVar[MethodTraits] = MethodTraits(
        name=ORACLE,
        cite="kim2022",
        summary="The perfect map: even over what the rule looks at in the scene, and nothing elsewhere.",
        signed=False,
        class_specific=True,
        deterministic=True,
    )

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """None."""
        return Passes()

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        truth = _truth_of(self.reasoner, self.per_bucket, self.seed)
        if classifier.fingerprint != truth.fingerprint:
            raise SnellenError(
                f"the oracle draws the truth of '{self.reasoner}', not of '{classifier.name}', so a metric that explains "
                "another classifier cannot score it"
            )
        correlation, scene = (_standardise(classifier.to_pixels(inputs)) @ truth.pictures.T).max(dim=1)
        maps = truth.focus[scene].to(inputs)
        unknown = (correlation < RECOGNISED) | (targets != truth.labels[scene])
        return maps.masked_fill(unknown[:, None, None], torch.nan)


@dataclass(frozen=True)
class Decoy:
    """The oracle's map moved by half the picture, down and across: the same values where they should not be.

    A metric that does not prefer the oracle to its decoy goes by how the values of a map are spread, not by where they are.
    """

    of: Oracle = Oracle()

    traits: ClassVar[MethodTraits] = replace(
        Oracle.traits,
        name=DECOY,
        control=True,
        summary="The oracle's map moved by half the picture, down and across: the same values where they should not be.",
    )

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """Those of the oracle."""
        return self.of.passes(size, classifier)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        maps = self.of(classifier, inputs, targets, rng=rng)
        return maps.roll((maps.shape[1] // 2, maps.shape[2] // 2), dims=(1, 2))


@dataclass(frozen=True, eq=False, kw_only=True)
class _ExamTruth:
    """What the oracle needs of an exam."""

    fingerprint: str
    pictures: Float[Tensor, "scenes pixels"]
    focus: Float[Tensor, "scenes height width"]
    labels: Int[Tensor, " scenes"]


@lru_cache(maxsize=8)
def _truth_of(name: str, per_bucket: int, seed: int) -> _ExamTruth:
    """The truth of an exam; cached per process, since metrics need thousands of maps."""
    network = find_network(name)
    scenes = draw_exam_scenes(network, per_bucket=per_bucket, seed=seed)
    return _ExamTruth(
        fingerprint=network.classifier().fingerprint,
        pictures=_standardise(scenes.scenes.pixels.float() / 255),
        focus=scenes.focus.float(),
        labels=scenes.labels,
    )


def _standardise(pixels: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch pixels"]:
    """Grey pictures with mean 0 and length 1, so that products are correlations; a constant picture is 0 and like no other.

    Correlations do not depend on brightness. By distances between pixels, a dark scene would be nearest to an empty one.
    """
    grey = pixels.mean(dim=1).flatten(1)
    centred = grey - grey.mean(dim=1, keepdim=True)
    length = centred.norm(dim=1, keepdim=True)
    return torch.where(length > 1e-4, centred / length, 0.0)
