"""Model contrast: an object that one model must look at and another must not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.metrics.requirements import labels_of, variant_of
from snellen.plugins.registry import metric
from snellen.types import Case, Method, Passes, Recipe, Rng, TrainedVariant
from snellen.variants.recipes import Training, seed_for

KINDS = 6
SHARE = 0.25
"""Side of an object as a share of the picture's short side."""

Pictures = Float[Tensor, "batch channels height width"]


def shapes(side: int) -> Bool[Tensor, "kinds side side"]:
    """Six figures: disc, cross, saltire, frame, bars across, bars down."""
    place = (torch.arange(side) + 0.5) / side * 2 - 1
    down, across = place[:, None].expand(side, side), place[None, :].expand(side, side)
    stripes = (torch.arange(side) * 5 // side) % 2 == 0
    return torch.stack(
        [
            down**2 + across**2 < 0.7,
            torch.minimum(down.abs(), across.abs()) < 0.3,
            (down.abs() - across.abs()).abs() < 0.3,
            torch.maximum(down.abs(), across.abs()) > 0.6,
            stripes[:, None].expand(side, side),
            stripes[None, :].expand(side, side),
        ]
    )


def pasted(
    classifier: Classifier, inputs: Pictures, kinds: int, *, rng: Rng
) -> tuple[Pictures, Int[Tensor, " batch"], Bool[Tensor, "batch height width"]]:
    """Each picture with a white figure on a black tile somewhere; which figure, and where the tile is."""
    height, width = inputs.shape[2:]
    side = max(4, round(SHARE * min(height, width)))
    kind, place = _drawn(rng, kinds)
    top, left = ((place[:, axis] * (room - side + 1)).long() for axis, room in enumerate((height, width)))
    rows, columns = torch.arange(height) - top[:, None], torch.arange(width) - left[:, None]
    tile = ((rows >= 0) & (rows < side))[:, :, None] & ((columns >= 0) & (columns < side))[:, None, :]
    figure = shapes(side)[kind[:, None, None], rows.clamp(0, side - 1)[:, :, None], columns.clamp(0, side - 1)[:, None, :]]
    colour = classifier.to_inputs(figure[:, None].to(inputs).expand_as(inputs))
    return torch.where(tile[:, None], colour, inputs), kind, tile


def _drawn(rng: Rng, kinds: int) -> tuple[Int[Tensor, " batch"], Float[Tensor, "batch 2"]]:
    """Which figure each picture gets, and where, as shares of the room there is."""
    drawn = rng.uniform("object", (3,))
    return (drawn[:, 0] * kinds).long(), drawn[:, 1:]


@dataclass(frozen=True)
class Taught:
    """A model that was trained on pictures with an object in each: to tell the objects apart, or the scenes as before."""

    what: Literal["objects", "scenes"]
    objects: int

    @property
    def name(self) -> str:
        """What it was taught, and among how many objects."""
        return f"model-contrast/{self.what}/{self.objects}"

    @property
    def same_classes(self) -> bool:
        """Only who was taught the scenes takes the classifier's place."""
        return self.what == "scenes"

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """Both are trained on the very same pictures, from the same seed."""
        rng = Rng(seed, tuple(sample.id for sample in training.samples), "/model-contrast")

        def paste(place: int, inputs: Tensor) -> Tensor:
            return pasted(classifier, inputs[None], self.objects, rng=rng[place : place + 1])[0][0]

        changed = training.with_change(paste)
        if self.what == "objects":
            changed = changed.with_labels(_drawn(rng, self.objects)[0].tolist())
        classes = self.objects if self.what == "objects" else training.output_count()
        return recipe(changed, seed_for("model-contrast", seed), {"classes": classes})


@metric(
    "model-contrast",
    cite="yang2019",
    attribute="label-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain", "recipe", "labels"},
    undefined="the right class is not known, one of the two models is wrong about the picture, or a map is zero everywhere "
    "(constant with inside=mean)",
    test="Model Contrast Score",
    formula="Σ_object |M(f_object, x)| ∕ Σ |M(f_object, x)| − Σ_object |M(f_scene, x)| ∕ Σ |M(f_scene, x)|",
    reading="The share of all attribution that lies inside the object; `inside=mean` is the paper's mean attribution there, "
    "of maps cut at their 99th percentile and stretched to [0, 1]. Objects are six figures of our own on a tile, where the "
    "paper pastes photographs of things.",
    caveats={
        "yang2019": "the object model is free to look at less than the whole object, so even a true map need not reach 1"
    },
    presets={"yang2019": {"inside": "mean"}},
)
@dataclass(frozen=True)
class ModelContrast:
    """How much more of the map lies on an object when the model was taught the objects than when it was taught the scenes.

    Yang and Kim 2019 (BAM). Each picture gets an object at a random place. Two models see the same training
    pictures; to one the objects are the classes, to the other they mean nothing. A map with 0.4 of its sum on the object
    for the first model and 0.1 for the second scores 0.3; a method that ignores the model scores 0.
    """

    inside: Literal["share", "mean"] = "share"
    correct_only: bool = True
    objects: int = KINDS

    def __post_init__(self) -> None:
        if not 2 <= self.objects <= KINDS:
            raise ValueError(f"objects must be from 2 to {KINDS}, not {self.objects}")

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """Two, whatever the method."""
        return Taught("objects", self.objects), Taught("scenes", self.objects)

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        labels = labels_of(case, "model-contrast")
        inputs, kinds, tile = pasted(case.classifier, case.inputs, self.objects, rng=rng.child("model-contrast"))
        unknown = labels < 0
        levels = []
        for taught, wanted in (
            (Taught("objects", self.objects), kinds),
            (Taught("scenes", self.objects), labels.clamp_min(0)),
        ):
            model = variant_of(case, self, taught.name)
            if self.correct_only:
                unknown = unknown | (model.predictions(inputs) != wanted)
            maps = case.explain(inputs, targets=wanted, classifier=model, rng=rng)
            levels.append(self._level(maps.abs().double(), tile))
        return (levels[0] - levels[1]).float().masked_fill(unknown, torch.nan)

    def _level(self, maps: Tensor, tile: Tensor) -> Tensor:
        """How much of a map lies on the object."""
        if self.inside == "share":
            return (maps * tile).sum(dim=(1, 2)) / maps.sum(dim=(1, 2))
        rows = maps.flatten(1)
        low, high = rows.amin(dim=1, keepdim=True), rows.quantile(0.99, dim=1, keepdim=True)
        scaled = ((rows.minimum(high) - low) / (high - low)).view_as(maps)
        return (scaled * tile).sum(dim=(1, 2)) / tile.sum(dim=(1, 2))

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """A map of each model, and whether it is right."""
        return 2 * explain + Passes(forward=2 if self.correct_only else 0)
