"""Snellen's own side: every registered metric, with the settings that the question names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import snellen.maps.fills
import snellen.metrics  # noqa: F401 - registers them
from snellen.classifier import Classifier
from snellen.conformance.scene import Explain, Scene, constant
from snellen.conformance.toolkit import Ask
from snellen.maps.explainer import case_of
from snellen.plugins.registry import METRICS
from snellen.types import NeedsVariants, Passes, Rng


@dataclass(frozen=True)
class _Plain:
    """A plain function as a method."""

    explain: Explain

    def __call__(self, classifier: Classifier, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
        return self.explain(classifier.module, inputs, targets)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """Nobody plans here."""
        return Passes()


def _asked(metric: str, scene: Scene, settings: Mapping[str, Any]) -> list[float]:
    """The metric's scores, `scene.batch` samples at a time and so many rows at most in each pass of the model."""
    given = dict(settings)
    if given.pop("normalised", False):  # for others a setting; here maps stay as they are unless a user divides
        scene = scene.mapped(scene.maps / scene.maps.abs().amax(dim=(1, 2), keepdim=True))
    built = METRICS.build(metric, given)
    channels = scene.inputs.shape[1]
    classifier = Classifier(scene.model, channels=channels, rows=scene.batch)
    method = _Plain(scene.explain or constant)
    variants = {name: Classifier(variant, channels=channels) for name, variant in scene.variants.items()}
    if (
        isinstance(built, NeedsVariants) and "trained" in variants
    ):  # one module stands in for every relative that would be trained
        variants |= {trained_variant.name: variants["trained"] for trained_variant in built.trained_variants(method)}
    rng = Rng(scene.seed, tuple(_name(one) for one in scene.inputs))
    found: list[Tensor] = []
    for rows in scene.batches():
        case = case_of(
            method, classifier, scene.inputs[rows], scene.targets[rows], rng=rng[rows], maps=scene.maps[rows],
            truth=None if scene.truth is None else scene.truth[rows], labels=scene.targets[rows].clone(),
            variants=variants,
        )  # fmt: skip
        with torch.no_grad():
            found.append(built(case, rng=rng[rows]))
    return [float(one) for one in torch.cat(found)]


def _name(picture: Tensor) -> str:
    """A sample is named by what it shows, so that its draws are the same in any order."""
    return str(hash(tuple(picture.flatten().tolist())))


class _Offers(Mapping[str, Ask]):
    """Every registered metric, by its own name."""

    def __getitem__(self, metric: str) -> Ask:
        METRICS[metric]

        def ask(scene: Scene, **settings: Any) -> list[float]:
            return _asked(metric, scene, settings)

        return ask

    def __iter__(self) -> Iterator[str]:
        return iter(METRICS)

    def __len__(self) -> int:
        return len(METRICS)


OFFERS: Mapping[str, Ask] = _Offers()
