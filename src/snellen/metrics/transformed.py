"""Maps of transformed pictures and of changed models beside the map itself: what the metrics of COSE have in common.

Every row is one natural change: a transform of the picture (see `images.transforms`), or another model in place of the
classifier. It says how like the map is to the map after the change, and whether the prediction is still the same. Rows are
computed once per case for all metrics that need them, one change at a time, so that memory stays that of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.images.transforms import STEPS, Kind, augmentations
from snellen.maps.similarity import is_constant, likeness
from snellen.metrics.case_cache import cached_per_case, output_parts
from snellen.types import CHECKPOINT, Case, Passes, Rng, by_number
from snellen.variants.randomised import randomise_layers
from snellen.variants.weight_layers import weight_layers

Alike = Literal["ssim", "ssim-mirrored", "pearson"]

CHECKPOINTS = 10
"""How many earlier states of the model have a column in a trace; of more, as many evenly spread ones are compared."""
RANDOM = "model/random"
MODELS = (RANDOM, *(f"model/checkpoint/{place}" for place in range(CHECKPOINTS)))
"""The columns of other models."""
KINDS: tuple[Kind, ...] = ("geometric", "photometric")
"""All kinds of transform."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Per sample and change: how like the two maps are (NaN where that is undefined), and whether the prediction stayed.

    `right` says whether the classifier gets the untouched picture right; nobody knows that of a sample without label.
    `models` is how many other models there were.
    """

    likeness: Float[Tensor, "batch rows"]
    same: Bool[Tensor, "batch rows"]
    right: Bool[Tensor, " batch"]
    models: Float[Tensor, "batch 1"]

    def consistent(self, correct_only: bool) -> Float[Tensor, "batch rows"]:
        """The likeness where the prediction stayed, NaN elsewhere."""
        return self.likeness.masked_fill(~(self.same & self._taking_part(correct_only)), torch.nan)

    def sensitive(self, correct_only: bool) -> Float[Tensor, "batch rows"]:
        """What the likeness lacks of 1 where the prediction changed, NaN elsewhere."""
        return (1 - self.likeness).masked_fill(self.same | ~self._taking_part(correct_only), torch.nan)

    def _taking_part(self, correct_only: bool) -> Bool[Tensor, "batch 1"]:
        return (self.right | torch.tensor(not correct_only)).unsqueeze(1)


def check_magnitudes(magnitudes: int) -> None:
    """Refuses numbers of magnitudes that cannot be drawn."""
    if not 1 <= magnitudes <= 2 * STEPS:
        raise ValueError(f"magnitudes must be from 1 to {2 * STEPS}, not {magnitudes}")


@dataclass(frozen=True)
class Comparison:
    """With what a map is compared, and how: a row per transform of these kinds and drawn magnitude, and per other model.

    Where the prediction stays, the map after the change explains the target. Where it changes, the new prediction, or with
    `fixed_class` still the target. Maps are compared raw and signed.
    """

    kinds: tuple[Kind, ...]
    magnitudes: int
    alike: Alike
    fixed_class: bool = False
    models: bool = False

    @property
    def changes(self) -> tuple[str, ...]:
        """The names of the changed pictures, such as `geometric/rotate/3`."""
        return tuple(one.name for kind in self.kinds for one in augmentations(kind, self.magnitudes))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all rows; models such as `model/checkpoint/0` come last."""
        return self.changes + (MODELS if self.models else ())

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> dict[Hashable, Passes]:
        """What the rows cost: a prediction per change, the same for all methods, and a map; a model means random weights."""
        found = output_parts()
        for kind in self.kinds:
            count = len(augmentations(kind, self.magnitudes))
            found["images", "transformed", kind, self.magnitudes] = Passes(forward=count)
            if explain != Passes():
                found["transformed", kind, self.magnitudes, self.fixed_class] = explain * count
        if self.models and weight_layers(classifier, size):
            found["images", "randomised"] = Passes(forward=1)
            if explain != Passes():
                found["modelled", self.fixed_class] = explain
        return found

    def rows(self, case: Case, *, rng: Rng) -> Rows:
        """Every row, computed once per case."""
        predicted = case.classifier.cached_outputs(case.inputs, case.targets).predicted
        found = [
            cached_per_case(
                case,
                ("transformed", kind, self.magnitudes, self.alike, self.fixed_class, rng),
                lambda kind=kind: _transformed(case, kind, self, predicted, rng),  # type: ignore[misc]
            )
            for kind in self.kinds
        ]
        if self.models:
            key = ("models", self.alike, self.fixed_class, rng)
            found.append(cached_per_case(case, key, lambda: _modelled(case, self, predicted, rng)))
        likeness, same = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        given = len(_models(case)) if self.models else 0
        right = torch.zeros(len(case), dtype=torch.bool) if case.labels is None else case.labels == predicted
        return Rows(likeness, same, right, torch.full((len(case), 1), float(given)))


def _transformed(
    case: Case, kind: Kind, how: Comparison, predicted: Int[Tensor, " batch"], rng: Rng
) -> tuple[Tensor, Tensor]:
    classifier, inputs, magnitudes = case.classifier, case.inputs, how.magnitudes
    changes = [(one, one.steps(magnitudes, rng=rng)) for one in augmentations(kind, magnitudes)]

    def predict() -> Int[Tensor, "batch rows"]:
        blocks = ((change.transform(classifier, inputs, steps), case.targets) for change, steps in changes)
        return classifier.target_outputs(blocks).predicted.view(len(changes), len(case)).T

    after = classifier.cached(("transformed", kind, magnitudes, rng), inputs, case.targets, predict)
    found = []
    for place, (change, steps) in enumerate(changes):
        maps = case.explain(
            change.transform(classifier, inputs, steps),
            targets=_explained(case.targets, predicted, after[:, place], how),
            rng=rng.child(f"transformed/{change.name}"),
        )
        back, within = change.transform.undo(maps, steps)
        found.append(_alike(case.maps, maps, back, how.alike, within))
    return torch.stack(found, dim=1), after == predicted.unsqueeze(1)


def _modelled(case: Case, how: Comparison, predicted: Int[Tensor, " batch"], rng: Rng) -> tuple[Tensor, Tensor]:
    """A column per model that there may be; where there is none, no likeness.

    The method draws as it did for the map itself: otherwise a map of noise would look sensitive to the model.
    """
    found = torch.full((len(case), len(MODELS)), torch.nan)
    same = torch.zeros(len(case), len(MODELS), dtype=torch.bool)
    for name, build in _models(case).items():
        model, column = build(rng), MODELS.index(name)
        after = case.classifier.cached(
            ("predicted", model.fingerprint),
            case.inputs,
            case.targets,
            lambda model=model: model.predictions(case.inputs),  # type: ignore[misc]
        )
        targets = _explained(case.targets, predicted, after, how)
        maps = case.explain(case.inputs, targets=targets, classifier=model, rng=rng)
        found[:, column] = _alike(case.maps, maps, maps, how.alike, None)
        same[:, column] = after == predicted
    return found, same


def _models(case: Case) -> dict[str, Callable[[Rng], Classifier]]:
    """What the classifier is compared with, by the name of its column; built when it is its turn."""
    found: dict[str, Callable[[Rng], Classifier]] = {}
    layers = weight_layers(case.classifier, case.size)
    if layers:
        found[RANDOM] = lambda rng: randomise_layers(case.classifier, layers, rng=rng)
    for place, model in enumerate(_checkpoints(case)):
        found[f"model/checkpoint/{place}"] = lambda _, model=model: model  # type: ignore[misc]
    return found


def _checkpoints(case: Case) -> list[Classifier]:
    """The earlier states of the model that are compared: all but the final one, evenly thinned out where there are many."""
    names = sorted((name for name in case.variants if name.startswith(CHECKPOINT)), key=by_number)
    known = [case.variants[name] for name in names]
    earlier = [one for one in known if one.fingerprint != case.classifier.fingerprint]
    if len(earlier) <= CHECKPOINTS:
        return earlier
    return [earlier[place * (len(earlier) - 1) // (CHECKPOINTS - 1)] for place in range(CHECKPOINTS)]


def _explained(targets: Tensor, before: Tensor, after: Tensor, how: Comparison) -> Int[Tensor, " batch"]:
    return targets if how.fixed_class else torch.where(after == before, targets, after)


def _alike(
    first: Float[Tensor, "batch height width"],
    second: Float[Tensor, "batch height width"],
    back: Float[Tensor, "batch height width"],
    alike: Alike,
    within: Bool[Tensor, "batch height width"] | None,
) -> Float[Tensor, " batch"]:
    """NaN where both maps are constant; a correlation also where one is. Asked before the way back puts zeros around it."""
    one, two = is_constant(first), is_constant(second)
    undefined = one | two if alike == "pearson" else one & two
    return likeness(first, back, alike, within=within).masked_fill(undefined, torch.nan)
