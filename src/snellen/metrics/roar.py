"""ROAR: remove what a map calls important from all pictures, train again, and see what the new model still knows."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.fills import MEAN
from snellen.metrics.case_cache import output_parts
from snellen.metrics.requirements import labels_of
from snellen.metrics.sweep import ranks, unordered
from snellen.plugins.registry import label, metric, text_of
from snellen.types import Case, CurveMetric, Fill, Method, Passes, Recipe, Rng, TrainedVariant
from snellen.variants.recipes import Training, seed_for

BATCH = 32


@dataclass(frozen=True)
class Whole:
    """A model that was trained on the pictures as they are, as many as the others are trained on."""

    pictures: int

    @property
    def name(self) -> str:
        """The same for every method."""
        return f"roar/whole/{self.pictures}"

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """From the same initial weights as the models that see less."""
        return recipe(
            training.subset(self.pictures, seed=seed), seed_for("roar", seed), {"classes": training.output_count()}
        )


@dataclass(frozen=True)
class Degraded:
    """A model that was trained on pictures without their most salient pixels."""

    method: Method
    fraction: float
    pictures: int
    fill: Fill

    @property
    def name(self) -> str:
        """Ends in the method, so that the rest can be recognised in a case, which holds one method's relatives only."""
        known = label(self.method) if hasattr(self.method, "traits") else repr(self.method)
        return prefix_of(self.fraction, self.pictures, self.fill) + known

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """The maps are those of each picture's own label; all fractions of one method share them."""
        chosen, order, rng = _ranked(self.method, training, self.pictures, seed)

        def degrade(place: int, inputs: Tensor) -> Tensor:
            rank = torch.from_numpy(order[place].astype(np.int64))
            bare = self.fill(classifier, inputs[None], rng=rng[place : place + 1])[0]
            return torch.where(removed(rank, self.fraction), bare, inputs)

        return recipe(chosen.with_change(degrade), seed_for("roar", seed), {"classes": training.output_count()})


def prefix_of(fraction: float, pictures: int, fill: Fill) -> str:
    """All of a relative's name but the method."""
    return f"roar/{fraction:g}/{pictures}/{text_of(fill)}/"


def removed(rank: Tensor, fraction: float) -> Bool[Tensor, "..."]:
    """Which pixels are gone, given each pixel's place in the order of a map."""
    return rank < round(fraction * rank.shape[-1] * rank.shape[-2])


_RANKS: weakref.WeakKeyDictionary[Training, tuple[Hashable, np.ndarray]] = weakref.WeakKeyDictionary()


def _ranked(method: Method, training: Training, pictures: int, seed: int) -> tuple[Training, np.ndarray, Rng]:
    """Some of the pictures, and every pixel's place in the order of each one's map, kept until another method asks."""
    question = (method, pictures, seed)
    chosen = training.subset(pictures, seed=seed)
    rng = Rng(seed, tuple(one.id for one in chosen.samples), "/roar")
    known = _RANKS.get(training)
    if known is not None and known[0] == question:
        return chosen, known[1], rng
    classifier = chosen.classifier
    first = chosen[0][0]
    small = np.uint16 if first[0].numel() < 2**16 else np.uint32
    order = np.empty((len(chosen), *first.shape[1:]), dtype=small)
    for places, inputs in chosen.batches(BATCH):
        with torch.no_grad():
            maps = method(classifier, inputs, torch.tensor(chosen.labels[places]), rng=rng[places])
        order[places] = ranks(maps, rng=rng[places]).numpy()
    _RANKS[training] = question, order
    return chosen, order, rng


@metric(
    "roar",
    cite="hooker2019",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, 1.0),
    rank_only=True,
    needs={"recipe", "labels"},
    undefined="the right class is not known, or the map holds NaN",
    test="ROAR",
    formula="mean over t of 1[argmax fₜ(x without its top t) = y], fₜ trained on pictures without their top t",
    reading="One retrained model for each method and fraction, where the paper averages five; signed ranks, mean fill. "
    "Training pictures lose what the map of their label calls important, evaluation pictures what the case's map does, "
    "which is the same class with target=label.",
    caveats={
        "rong2022": "the shape of the removed region itself can tell a retrained model the class",
        "song2023": "blurred maps score better although they say less; compare with blurred(of=...)",
    },
    presets={"hooker2019": {"fractions": (0.1, 0.3, 0.5, 0.7, 0.9)}},
)
@dataclass(frozen=True)
class Roar(CurveMetric):
    """How often a model is still right that never saw the pixels which the map calls most important; lower is better.

    Hooker et al. 2019. For each fraction, that share of pixels, the most salient first, is replaced in training and
    evaluation pictures alike, and the recipe trains a new model from scratch. A model that was right for one fraction of
    three gives the picture 1/3. The trace begins with a model that was trained on whole pictures.
    """

    fractions: tuple[float, ...] = (0.3, 0.6, 0.9)
    fill: Fill = MEAN
    pictures: int = 1000

    def __post_init__(self) -> None:
        if not self.fractions or not all(0 < one <= 1 for one in self.fractions):
            raise ValueError(f"fractions are shares of all pixels above 0 and up to 1, not {self.fractions}")
        if self.pictures < 1:
            raise ValueError(f"pictures must be at least 1, not {self.pictures}")

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """One for each fraction, and one for whole pictures that all methods share."""
        return (Whole(self.pictures), *(Degraded(method, one, self.pictures, self.fill) for one in self.fractions))

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """For no pixel and for every fraction: 1 where the model that was trained so is right, else 0."""
        labels = labels_of(case, "roar")
        rank = ranks(case.maps, rng=rng).unsqueeze(1)
        bare = self.fill(case.classifier, case.inputs, rng=rng)
        whole = _named(case, Whole(self.pictures).name, exactly=True)
        found = [whole.cached_outputs(case.inputs, case.targets).predicted]
        for fraction in self.fractions:
            other = _named(case, prefix_of(fraction, self.pictures, self.fill))
            found.append(other.predictions(torch.where(removed(rank, fraction), bare, case.inputs)))
        right = torch.stack([one == labels for one in found], dim=1).float()
        unknown = (labels < 0) | unordered(case.maps)
        return right.masked_fill(unknown[:, None], torch.nan)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean over the fractions."""
        return curve[:, 1:].mean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The share of pixels that is gone."""
        return tuple(f"{one:.4g}" for one in (0.0, *self.fractions))

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """One for each model; the maps of training pictures are paid for when the models are trained."""
        return Passes(forward=1 + len(self.fractions))

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """What the model of whole pictures says is the same for every method."""
        return output_parts(Whole(self.pictures).name)


def _named(case: Case, beginning: str, *, exactly: bool = False) -> Classifier:
    for name, sibling in case.variants.items():
        if name == beginning if exactly else name.startswith(beginning):
            return sibling
    raise SnellenError(f"roar needs the relative '{beginning}' of the classifier: give --recipe and --training")
