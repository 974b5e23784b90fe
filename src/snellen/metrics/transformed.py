"""Comparison of a map with maps of transformed images and of other models; used by the metrics of COSE.

A change is a transform of the image (see `images.transforms`) or another model in place of the classifier. For each
change the likeness of the two maps is computed, and whether the prediction stays the same. Results are cached per case
for all metrics. Changes are computed one at a time, so that only one changed batch is in memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.images.transforms import STEPS, Kind, augmentations
from snellen.maps.similarity import is_constant, likeness
from snellen.metrics.case_cache import cached_per_case, output_parts
from snellen.types import CHECKPOINT, Case, CurveMetric, Passes, Rng, SharedPasses, by_number
from snellen.variants.randomised import randomise_layers
from snellen.variants.weight_layers import weight_layers

Alike = Literal["ssim", "ssim-mirrored", "pearson"]
"""How alike two maps are; see `maps.similarity`."""

CHECKPOINTS = 10
"""Number of checkpoints with a point in a curve; of more, as many at even distances are compared."""
RANDOM = "model/random"
MODELS = (RANDOM, *(f"model/checkpoint/{place}" for place in range(CHECKPOINTS)))
"""Names of the points of other models."""
TRANSFORM_KINDS: tuple[Kind, ...] = ("geometric", "photometric")
"""All kinds of transforms."""


@dataclass(frozen=True, eq=False)
class ChangeResults:
    """The result of each change for each sample."""

    likeness: Float[Tensor, "batch changes"]
    """Likeness of the maps before and after the change; NaN where undefined."""
    same: Bool[Tensor, "batch changes"]
    """Whether the prediction stayed the same."""
    right: Bool[Tensor, " batch"]
    """Whether the prediction for the unchanged image is right; False for samples without label."""
    models: Float[Tensor, "batch 1"]
    """Number of other models."""

    def consistent(self, correct_only: bool) -> Float[Tensor, "batch changes"]:
        """The likeness where the prediction stayed the same, NaN elsewhere."""
        return self.likeness.masked_fill(~(self.same & self._included(correct_only)), torch.nan)

    def sensitive(self, correct_only: bool) -> Float[Tensor, "batch changes"]:
        """1 - likeness where the prediction changed, NaN elsewhere."""
        return (1 - self.likeness).masked_fill(self.same | ~self._included(correct_only), torch.nan)

    def _included(self, correct_only: bool) -> Bool[Tensor, "batch 1"]:
        return (self.right | torch.tensor(not correct_only)).unsqueeze(1)


@dataclass(frozen=True)
class ChangeComparison:
    """Which changes a map is compared over, and how. Maps are compared raw and signed."""

    kinds: tuple[Kind, ...]
    """Kinds of transforms."""
    magnitudes: int
    """Number of magnitudes drawn for each signed transform."""
    alike: Alike
    """How maps are compared."""
    fixed_class: bool = False
    """Explain the target also where a change changes the prediction, instead of the new prediction."""
    models: bool = False
    """Compare with other models too."""

    @property
    def changes(self) -> tuple[str, ...]:
        """Names of the transforms, such as `geometric/rotate/3`."""
        return tuple(change.name for kind in self.kinds for change in augmentations(kind, self.magnitudes))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all changes; models such as `model/checkpoint/0` come last."""
        return self.changes + (MODELS if self.models else ())

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> dict[Hashable, Passes]:
        """The cost: a prediction, the same for all methods, and a map per change; of models only the randomised one."""
        parts = output_parts()
        for kind in self.kinds:
            count = len(augmentations(kind, self.magnitudes))
            parts["images", "transformed", kind, self.magnitudes] = Passes(forward=count)
            if explain != Passes():
                parts["transformed", kind, self.magnitudes, self.fixed_class] = explain * count
        if self.models and weight_layers(classifier, size):
            parts["images", "randomised"] = Passes(forward=1)
            if explain != Passes():
                parts["modelled", self.fixed_class] = explain
        return parts

    def results(self, case: Case, *, rng: Rng) -> ChangeResults:
        """The results of all changes, cached per case."""
        predicted = case.classifier.cached_outputs(case.inputs, case.targets).predicted
        columns = [
            cached_per_case(
                case,
                ("transformed", kind, self.magnitudes, self.alike, self.fixed_class, rng),
                lambda kind=kind: _compare_transforms(case, kind, self, predicted, rng),  # type: ignore[misc]
            )
            for kind in self.kinds
        ]
        if self.models:
            key = ("models", self.alike, self.fixed_class, rng)
            columns.append(cached_per_case(case, key, lambda: _compare_models(case, self, predicted, rng)))
        likeness, same = (torch.cat(parts, dim=1) for parts in zip(*columns, strict=True))
        models = len(_models(case)) if self.models else 0
        right = (
            torch.zeros(len(case), dtype=torch.bool)
            if case.labels is None
            else (case.labels >= 0) & (case.labels == predicted)
        )
        return ChangeResults(likeness=likeness, same=same, right=right, models=torch.full((len(case), 1), float(models)))


class ChangeMetric(CurveMetric, SharedPasses, Protocol):
    """The frame of metrics over changes: a class that inherits from it defines `comparison` and a curve of its results."""

    magnitudes: int

    def __post_init__(self) -> None:
        if not 1 <= self.magnitudes <= 2 * STEPS:
            raise ValueError(f"magnitudes must be from 1 to {2 * STEPS}, not {self.magnitudes}")

    @property
    @abstractmethod
    def comparison(self) -> ChangeComparison:
        """Which changes are made."""
        ...

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All passes; the predictions are the same for every method."""
        return self.comparison.parts(size, explain, classifier)


def _compare_transforms(
    case: Case, kind: Kind, how: ChangeComparison, predicted: Int[Tensor, " batch"], rng: Rng
) -> tuple[Tensor, Tensor]:
    classifier, inputs, magnitudes = case.classifier, case.inputs, how.magnitudes
    changes = [(change, change.steps(magnitudes, rng=rng)) for change in augmentations(kind, magnitudes)]

    def predict() -> Int[Tensor, "batch changes"]:
        blocks = ((change.transform(classifier, inputs, steps), case.targets) for change, steps in changes)
        return classifier.target_outputs(blocks).predicted.view(len(changes), len(case)).T

    after = classifier.cached(("transformed", kind, magnitudes, rng), inputs, case.targets, predict)
    columns = []
    for place, (change, steps) in enumerate(changes):
        maps = case.explain(
            change.transform(classifier, inputs, steps),
            targets=_targets(case.targets, predicted, after[:, place], how),
            rng=rng.child(f"transformed/{change.name}"),
        )
        back, within = change.transform.undo(maps, steps)
        columns.append(_masked_likeness(case.maps, maps, back, how.alike, within))
    return torch.stack(columns, dim=1), after == predicted.unsqueeze(1)


def _compare_models(case: Case, how: ChangeComparison, predicted: Int[Tensor, " batch"], rng: Rng) -> tuple[Tensor, Tensor]:
    """The likeness and whether the prediction is the same, for every name in `MODELS`; NaN where there is no such model.

    The method uses the same random draws as for the map: otherwise a map of noise would seem sensitive to the model.
    """
    likenesses = torch.full((len(case), len(MODELS)), torch.nan)
    same = torch.zeros(len(case), len(MODELS), dtype=torch.bool)
    for name, build in _models(case).items():
        model, column = build(rng), MODELS.index(name)
        after = case.classifier.cached(
            ("predicted", model.fingerprint),
            case.inputs,
            case.targets,
            lambda model=model: model.decisions(case.inputs, case.targets),  # type: ignore[misc]
        )
        targets = _targets(case.targets, predicted, after, how)
        maps = case.explain(case.inputs, targets=targets, classifier=model, rng=rng)
        likenesses[:, column] = _masked_likeness(case.maps, maps, maps, how.alike, None)
        same[:, column] = after == predicted
    return likenesses, same


def _models(case: Case) -> dict[str, Callable[[Rng], Classifier]]:
    """Functions that build the other models, by the name of their point."""
    models: dict[str, Callable[[Rng], Classifier]] = {}
    layers = weight_layers(case.classifier, case.size)
    if layers:
        models[RANDOM] = lambda rng: randomise_layers(case.classifier, layers, rng=rng)
    for place, model in enumerate(_checkpoints(case)):
        models[f"model/checkpoint/{place}"] = lambda _, model=model: model  # type: ignore[misc]
    return models


def _checkpoints(case: Case) -> list[Classifier]:
    """The checkpoints that are compared: all that differ from the classifier, or `CHECKPOINTS` of them at even distances."""
    names = sorted((name for name in case.variants if name.startswith(CHECKPOINT)), key=by_number)
    states = [case.variants[name] for name in names]
    earlier = [state for state in states if state.fingerprint != case.classifier.fingerprint]
    if len(earlier) <= CHECKPOINTS:
        return earlier
    return [earlier[place * (len(earlier) - 1) // (CHECKPOINTS - 1)] for place in range(CHECKPOINTS)]


def _targets(targets: Tensor, before: Tensor, after: Tensor, how: ChangeComparison) -> Int[Tensor, " batch"]:
    """What is explained after a change: the new decision where it changed to another class, else the target."""
    return targets if how.fixed_class else torch.where((after == before) | (after < 0), targets, after)


def _masked_likeness(
    first: Float[Tensor, "batch height width"],
    second: Float[Tensor, "batch height width"],
    back: Float[Tensor, "batch height width"],
    alike: Alike,
    within: Bool[Tensor, "batch height width"] | None,
) -> Float[Tensor, " batch"]:
    """The likeness of `first` and `back` (`second` moved back); NaN where both are constant, for a correlation also one."""
    flat, flat_after = is_constant(first), is_constant(second)  # before moving back adds zeros at the edges
    undefined = flat | flat_after if alike == "pearson" else flat & flat_after
    return likeness(first, back, alike, within=within).masked_fill(undefined, torch.nan)
