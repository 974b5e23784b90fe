"""Snellen: every registered metric, with the settings of the case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import snellen.maps.fills
import snellen.metrics  # noqa: F401 - registers them
from snellen.classifier import Classifier
from snellen.conformance.fixtures import Fixture, PlainMethod, constant
from snellen.conformance.toolkit import Compute
from snellen.maps.explainer import case_of
from snellen.plugins.registry import METRICS
from snellen.types import NeedsVariants, Passes, Rng


@dataclass(frozen=True)
class _Plain:
    """Turns a plain function into a method."""

    explain: PlainMethod

    def __call__(self, classifier: Classifier, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
        return self.explain(classifier.module, inputs, targets)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """Nothing; the cost is not used here."""
        return Passes()


def _compute(metric: str, fixture: Fixture, settings: Mapping[str, Any]) -> list[float]:
    """The scores of a metric, computed in batches of `fixture.batch` samples."""
    params = dict(settings)
    if params.pop("normalised", False):  # a setting of other toolkits; Snellen never normalises maps
        fixture = fixture.with_maps(fixture.maps / fixture.maps.abs().amax(dim=(1, 2), keepdim=True))
    built = METRICS.build(metric, params)
    channels = fixture.inputs.shape[1]
    heads = "independent-labels" if fixture.independent else "exclusive-classes"
    classifier = Classifier(fixture.model, channels=channels, rows=fixture.batch, heads=heads)
    method = _Plain(fixture.explain or constant)
    variants = {name: Classifier(module, channels=channels, heads=heads) for name, module in fixture.variants.items()}
    if isinstance(built, NeedsVariants) and "trained" in variants:  # one module stands in for all trained variants
        variants |= {variant.name: variants["trained"] for variant in built.trained_variants(method)}
    rng = Rng(fixture.seed, tuple(_name(image) for image in fixture.inputs))
    scores: list[Tensor] = []
    for rows in fixture.batches():
        case = case_of(
            method, classifier, fixture.inputs[rows], fixture.targets[rows], rng=rng[rows], maps=fixture.maps[rows],
            truth=None if fixture.truth is None else fixture.truth[rows], labels=fixture.targets[rows].clone(),
            variants=variants,
        )  # fmt: skip
        with torch.no_grad():
            scores.append(built(case, rng=rng[rows]))
    return [float(score) for score in torch.cat(scores)]


def _name(image: Tensor) -> str:
    """An id that depends on the content, so that random draws do not depend on the order of the samples."""
    return str(hash(tuple(image.flatten().tolist())))


class _Offers(Mapping[str, Compute]):
    """Every registered metric, by its own name."""

    def __getitem__(self, metric: str) -> Compute:
        METRICS[metric]

        def compute(fixture: Fixture, **settings: Any) -> list[float]:
            return _compute(metric, fixture, settings)

        return compute

    def __iter__(self) -> Iterator[str]:
        return iter(METRICS)

    def __len__(self) -> int:
        return len(METRICS)


OFFERS: Mapping[str, Compute] = _Offers()
