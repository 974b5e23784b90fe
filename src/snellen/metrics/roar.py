"""ROAR: the accuracy of a model that was retrained on images without their most salient pixels."""

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
from snellen.maps.row_ranges import has_nan
from snellen.metrics.case_cache import output_parts
from snellen.metrics.pixel_removal import case_ranks, pixel_ranks
from snellen.metrics.requirements import require_labels
from snellen.plugins.registry import label, metric, text_of
from snellen.types import Case, CurveMetric, Fill, Method, Passes, Recipe, Rng, TrainedVariant
from snellen.variants.recipes import Training, seed_for

BATCH = 32


@dataclass(frozen=True)
class WholeImageModel:
    """A model trained on whole images; `pictures` is the number of training images, the same for all models."""

    pictures: int

    @property
    def name(self) -> str:
        """The same for every method."""
        return f"roar/whole/{self.pictures}"

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """Trains from the same initial weights as the models on degraded images."""
        return recipe(
            training.subset(self.pictures, seed=seed), seed_for("roar", seed), {"classes": training.output_count()}
        )


@dataclass(frozen=True)
class DegradedImageModel:
    """A model trained on images without their most salient pixels."""

    method: Method
    """The method whose maps say which pixels are removed."""
    fraction: float
    """Share of the pixels that is removed."""
    pictures: int
    """Number of training images."""
    fill: Fill

    @property
    def name(self) -> str:
        """Ends with the method; a case finds its variants by the rest of the name."""
        method = label(self.method) if hasattr(self.method, "traits") else repr(self.method)
        return _name_prefix(self.fraction, self.pictures, self.fill) + method

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """Trains on degraded images; their maps explain the label and are the same for all fractions of a method."""
        chosen, order, rng = _training_ranks(self.method, training, self.pictures, seed)

        def degrade(place: int, inputs: Tensor) -> Tensor:
            rank = torch.from_numpy(order[place].astype(np.int64))
            filled = self.fill(classifier, inputs[None], rng=rng[place : place + 1])[0]
            return torch.where(removed(rank, self.fraction), filled, inputs)

        return recipe(chosen.with_change(degrade), seed_for("roar", seed), {"classes": training.output_count()})


def _name_prefix(fraction: float, pictures: int, fill: Fill) -> str:
    """The name of a variant without the method."""
    return f"roar/{fraction:g}/{pictures}/{text_of(fill)}/"


def removed(rank: Tensor, fraction: float) -> Bool[Tensor, "..."]:
    """Which pixels are removed, given their ranks."""
    return rank < round(fraction * rank.shape[-1] * rank.shape[-2])


_RANKS: weakref.WeakKeyDictionary[Training, tuple[Hashable, np.ndarray]] = weakref.WeakKeyDictionary()


def _training_ranks(method: Method, training: Training, pictures: int, seed: int) -> tuple[Training, np.ndarray, Rng]:
    """Some of the training images and the pixel ranks of their maps, which are cached until another method needs its own."""
    key = (method, pictures, seed)
    chosen = training.subset(pictures, seed=seed)
    rng = Rng(seed, tuple(sample.id for sample in chosen.samples), "/roar")
    cached = _RANKS.get(training)
    if cached is not None and cached[0] == key:
        return chosen, cached[1], rng
    classifier = chosen.classifier
    first = chosen[0][0]
    dtype = np.uint16 if first[0].numel() < 2**16 else np.uint32
    order = np.empty((len(chosen), *first.shape[1:]), dtype=dtype)
    for places, inputs in chosen.batches(BATCH):
        with torch.no_grad():
            maps = method(classifier, inputs, torch.tensor(chosen.labels[places]), rng=rng[places])
        order[places] = pixel_ranks(maps, rng=rng[places]).numpy()
    _RANKS[training] = key, order
    return chosen, order, rng


@metric(
    "roar",
    cite="hooker2019",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, 1.0),
    rank_only=True,
    needs={"recipe", "labels"},
    undefined="the sample has no label, or the map holds NaN",
    test="ROAR",
    formula="mean over t of 1[argmax fₜ(x without its top t) = y], fₜ trained on images without their top t",
    reading="One retrained model for each method and fraction, where the paper averages five; signed ranks, mean fill. "
    "The pixels of training images are ranked by the map of their label, those of evaluation images by the map of the "
    "target, which is the same class with target=label.",
    caveats={
        "rong2022": "the shape of the removed region itself can tell a retrained model the class",
        "song2023": "blurred maps score better although they hold less information; compare with blurred(of=...)",
    },
    presets={"hooker2019": {"fractions": (0.1, 0.3, 0.5, 0.7, 0.9)}},
)
@dataclass(frozen=True)
class Roar(CurveMetric):
    """How often a model is right that was trained and evaluated without the most salient pixels: low is good.

    Hooker et al. 2019. For each fraction, that share of pixels, the most salient first, is replaced in training and
    evaluation images alike, and the recipe trains a new model from scratch. A right prediction for one fraction of three
    gives 1/3. The curve begins with a model that was trained on whole images.
    """

    fractions: tuple[float, ...] = (0.3, 0.6, 0.9)
    """Shares of the pixels that are removed, one model per share."""
    fill: Fill = MEAN
    pictures: int = 1000
    """Number of training images."""

    def __post_init__(self) -> None:
        if not self.fractions or not all(0 < fraction <= 1 for fraction in self.fractions):
            raise ValueError(f"fractions are shares of all pixels above 0 and up to 1, not {self.fractions}")
        if self.pictures < 1:
            raise ValueError(f"pictures must be at least 1, not {self.pictures}")

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """A model per fraction, and one for whole images, which is the same for all methods."""
        return (
            WholeImageModel(self.pictures),
            *(
                DegradedImageModel(method=method, fraction=fraction, pictures=self.pictures, fill=self.fill)
                for fraction in self.fractions
            ),
        )

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """For no removed pixel and for every fraction: 1 where the model trained that way is right, else 0."""
        labels = require_labels(case, "roar")
        rank = case_ranks(case, rng=rng).unsqueeze(1)
        filled = self.fill(case.classifier, case.inputs, rng=rng)
        whole = _find_variant(case, WholeImageModel(self.pictures).name, exactly=True)
        predicted = [whole.cached_outputs(case.inputs, case.targets).predicted]
        for fraction in self.fractions:
            other = _find_variant(case, _name_prefix(fraction, self.pictures, self.fill))
            predicted.append(other.predictions(torch.where(removed(rank, fraction), filled, case.inputs)))
        right = torch.stack([classes == labels for classes in predicted], dim=1).float()
        undefined = (labels < 0) | has_nan(case.maps)
        return right.masked_fill(undefined[:, None], torch.nan)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean over the fractions."""
        return curve[:, 1:].mean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The removed share of the pixels."""
        return tuple(f"{fraction:.4g}" for fraction in (0.0, *self.fractions))

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """A pass per model; the maps of training images are counted when the models are trained."""
        return Passes(forward=1 + len(self.fractions))

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The outputs of the model of whole images, which are the same for every method."""
        return output_parts(WholeImageModel(self.pictures).name)


def _find_variant(case: Case, prefix: str, *, exactly: bool = False) -> Classifier:
    for name, variant in case.variants.items():
        if name == prefix if exactly else name.startswith(prefix):
            return variant
    raise SnellenError(f"roar needs the variant '{prefix}' of the classifier: give --recipe and --training")
