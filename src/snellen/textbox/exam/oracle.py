"""The oracle as a method: it knows the truth of an exam, and says so when it is asked about what it does not know.

Its decoy is the same map in another place. Neither explains classifiers, so they are not registered: no list, no card and no
contract has them. They are given to `evaluate` as objects.
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
from snellen.textbox.exam.exam_scenes import EXAM_SEED, PER_BUCKET, exam
from snellen.textbox.networks.trained_network import find
from snellen.types import Passes, Rng

ORACLE = "oracle"
"""The map that knows the truth: in tables, a line that is computed from the exam alone."""

DECOY = "decoy"

RECOGNISED = 0.5
"""A picture counts as the scene that it is most like from this correlation on. Noise of ±0.2 leaves even the smallest box
of a scene at about .7, and a scene keeps .7 when half of its ink is masked; scenes with their things elsewhere are below."""


@dataclass(frozen=True)
class Oracle:
    """The perfect map: even over what the rule looks at in the scene, and nothing elsewhere.

    It looks at the picture alone: the truth is that of the scene of the exam which the picture is most like. So it can be
    asked again about noisy, brightened or masked pictures. What nobody knows it does not make up: the map is NaN for a
    picture that is like no scene, and for another class than the scene's label; another classifier than the reasoner is
    refused, since the truth is about the reasoner.
    """

    reasoner: str = "simple-fr"
    per_bucket: int = PER_BUCKET
    seed: int = EXAM_SEED

    traits: ClassVar[MethodTraits] = MethodTraits(
        name=ORACLE,
        cite="kim2022",
        summary="The perfect map: even over what the rule looks at in the scene, and nothing elsewhere.",
        signed=False,
        complete=False,
        class_specific=True,
        deterministic=True,
        control=False,
        needs=frozenset(),
        implementation_invariant=False,
        at_most=False,
        caveats={},
        presets={},
        ranges={},
        version=1,
    )

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """None."""
        return Passes()

    def __call__(
        self,
        classifier: Classifier,
        inputs: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        known = _known(self.reasoner, self.per_bucket, self.seed)
        if classifier.fingerprint != known.fingerprint:
            raise SnellenError(
                f"the oracle knows how '{self.reasoner}' reasons, not '{classifier.name}', so a metric that explains "
                "another classifier cannot be asked of it"
            )
        likeness = _standardised(classifier.to_pixels(inputs)) @ known.pictures.T
        most, scene = likeness.max(dim=1)
        maps = known.focus[scene].to(inputs)
        unknown = (most < RECOGNISED) | (targets != known.labels[scene])
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

    def __call__(
        self,
        classifier: Classifier,
        inputs: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        maps = self.of(classifier, inputs, targets, rng=rng)
        return maps.roll((maps.shape[1] // 2, maps.shape[2] // 2), dims=(1, 2))


@dataclass(frozen=True, eq=False)
class _Known:
    fingerprint: str
    pictures: Float[Tensor, "scenes pixels"]
    focus: Float[Tensor, "scenes height width"]
    labels: Int[Tensor, " scenes"]


@lru_cache(maxsize=8)
def _known(reasoner: str, per_bucket: int, seed: int) -> _Known:
    """What the oracle of an exam knows; made once per process, since metrics ask thousands of times."""
    found = find(reasoner)
    sat = exam(found, per_bucket=per_bucket, seed=seed)
    pictures = _standardised(sat.scenes.pixels.float() / 255)
    return _Known(found.classifier().fingerprint, pictures, sat.focus.float(), sat.labels)


def _standardised(pixels: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch pixels"]:
    """Grey pictures with mean 0 and length 1, so that products are correlations; an even picture is 0 and like no other.

    The nearest of these by distance is the nearest however bright the picture was made, which is not so of plain pixels:
    a dark scene is nearer to an empty one.
    """
    grey = pixels.mean(dim=1).flatten(1)
    centred = grey - grey.mean(dim=1, keepdim=True)
    length = centred.norm(dim=1, keepdim=True)
    return torch.where(length > 1e-4, centred / length, 0.0)
