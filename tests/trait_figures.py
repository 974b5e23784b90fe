"""What each trait of a method comes to on a pretrained network: one number per picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from tests.real_networks import Real
from torch import Tensor

from snellen import fit
from snellen.classifier import Classifier
from snellen.maps.explainer import Explainer
from snellen.metrics.completeness import Completeness
from snellen.runs.progress import Silent
from snellen.runs.requirements import check_needs
from snellen.types import Case, Method, Passes, Rng
from snellen.variants.rewrites import possible_rewrites, rewrite

Maps = Float[Tensor, "batch height width"]
PerPicture = Float[Tensor, " batch"]

CHEAPER: dict[str, dict[str, Any]] = {
    "rise": {"masks": 300},
    "lime": {"samples": 200},
    "lime-lasso": {"samples": 200, "penalty": 0.001},
    "kernel-shap": {"samples": 150},
    "sis-removal": {"cells": 4},
    "meaningful-perturbation": {"steps": 10, "cells": 12},
    "extremal-perturbation": {"steps": 30, "cells": 12, "areas": [0.1, 0.2]},
    "guided-ig": {"steps": 60},
    "blur-ig": {"steps": 20},
    "xrai": {"steps": 4},
    "iba": {"samples": 3},
}
"""Where the default would only make the tests slower."""


@dataclass(frozen=True, eq=False)
class Tried:
    """A method on a pretrained network, after it has learned what it must; a refusal raises as it does in a run."""

    method: Method
    real: Real

    def __post_init__(self) -> None:
        check_needs(self.real.classifier, [self.method], self.real.inputs[:1])
        fit(self.real.classifier, self.real.samples, methods=[self.method], observer=Silent())

    def maps(
        self, *, classifier: Classifier | None = None, targets: Int[Tensor, " batch"] | None = None, seed: int = 0
    ) -> Maps:
        """Maps of all pictures, by default for the predicted classes."""
        real = self.real
        with torch.no_grad():
            return self.method(
                classifier or real.classifier,
                real.inputs,
                real.targets if targets is None else targets,
                rng=Rng(seed, real.rng.ids),
            )

    @cached_property
    def _first(self) -> tuple[Maps, Passes]:
        with self.real.classifier.counting() as ledger:
            return self.maps(), ledger.passes + ledger.cached

    @property
    def plain(self) -> Maps:
        """The maps that all others are compared with."""
        return self._first[0]

    def moved(self, other: Maps) -> PerPicture:
        """How far maps moved, in shares of the largest value; 0 where no bit changed, NaN where both maps are empty."""
        apart, size = (self.plain - other).abs(), torch.maximum(self.plain.abs(), other.abs())
        return apart.amax(dim=(1, 2)) / size.amax(dim=(1, 2))

    def gap(self) -> PerPicture:
        """The part of the output's rise that the map misses: the metric `completeness`."""
        real = self.real
        explain = Explainer(self.method, real.classifier, real.targets)
        return Completeness()(Case(real.classifier, real.inputs, real.targets, self.plain, explain), rng=real.rng)

    def moved_by_seed(self) -> PerPicture:
        """How far maps move under another seed."""
        return self.moved(self.maps(seed=99))

    def moved_by_target(self) -> PerPicture:
        """How far maps move when the second class of the ranking is explained instead."""
        second = self.real.classifier.logits(self.real.inputs).topk(2, dim=1).indices[:, 1]
        return self.moved(self.maps(targets=second))

    def moved_by_rewriting(self) -> PerPicture:
        """The most that maps move when the same function is written with other weights."""
        size = (int(self.real.inputs.shape[2]), int(self.real.inputs.shape[3]))
        distances = [
            self.moved(self.maps(classifier=rewrite(self.real.classifier, way, size)))
            for way in possible_rewrites(self.real.classifier, size)
        ]
        return torch.stack(distances).amax(dim=0)

    def negative(self) -> PerPicture:
        """The lowest value, in shares of the largest size; 0 where nothing is below zero."""
        lowest, size = self.plain.amin(dim=(1, 2)).clamp_max(0), self.plain.abs().amax(dim=(1, 2))
        return torch.where(lowest == 0, 0.0, -lowest / size)

    def overspent(self) -> PerPicture:
        """Passes beyond those that were planned; below zero where fewer were made."""
        size = (int(self.real.inputs.shape[2]), int(self.real.inputs.shape[3]))
        made = self._first[1]
        planned = self.method.passes(size, self.real.classifier)
        count = len(self.real.targets)
        return torch.tensor([(made.forward + made.backward) / count - (planned.forward + planned.backward)]).expand(count)
