"""Model contrast: how much more a map marks an object when the model was trained to recognise it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.metrics.requirements import require_labels, require_variant
from snellen.plugins.registry import metric
from snellen.types import Case, Images, Method, Passes, Recipe, Rng, TrainedVariant
from snellen.variants.recipes import Training, seed_for

OBJECT_KINDS = 6
"""Number of kinds of objects (see `object_shapes`)."""
SHARE = 0.25
"""Side of an object as a share of the image's shorter side."""


def object_shapes(side: int) -> Bool[Tensor, "kinds side side"]:
    """Six objects: disc, cross, saltire, frame, bars across, bars down."""
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


def paste_objects(
    classifier: Classifier, inputs: Images, kinds: int, *, rng: Rng
) -> tuple[Images, Int[Tensor, " batch"], Bool[Tensor, "batch height width"]]:
    """Images with a white object on a black tile at a random place, the kind of each object, and the mask of each tile.

    Args:
        classifier: converts pixels to inputs.
        inputs: the images.
        kinds: number of kinds of objects that are drawn from.
        rng: decides the kind and the place in each image.
    """
    height, width = inputs.shape[2:]
    side = max(4, round(SHARE * min(height, width)))
    kind, place = _draw_objects(rng, kinds)
    top, left = ((place[:, axis] * (room - side + 1)).long() for axis, room in enumerate((height, width)))
    rows, columns = torch.arange(height) - top[:, None], torch.arange(width) - left[:, None]
    tile = ((rows >= 0) & (rows < side))[:, :, None] & ((columns >= 0) & (columns < side))[:, None, :]
    figure = object_shapes(side)[
        kind[:, None, None], rows.clamp(0, side - 1)[:, :, None], columns.clamp(0, side - 1)[:, None, :]
    ]
    colour = classifier.to_inputs(figure[:, None].to(inputs).expand_as(inputs))
    return torch.where(tile[:, None], colour, inputs), kind, tile


def _draw_objects(rng: Rng, kinds: int) -> tuple[Int[Tensor, " batch"], Float[Tensor, "batch 2"]]:
    """The kind of each image's object, and its place as shares of the free room."""
    numbers = rng.uniform("object", (3,))
    return (numbers[:, 0] * kinds).long(), numbers[:, 1:]


@dataclass(frozen=True)
class PastedObjectModel:
    """A model trained on images with a pasted object: to classify the objects, or the original scenes."""

    task: Literal["objects", "scenes"]
    """Which classes it learns."""
    objects: int
    """Number of kinds of objects."""

    @property
    def name(self) -> str:
        """The task and the number of objects."""
        return f"model-contrast/{self.task}/{self.objects}"

    @property
    def same_classes(self) -> bool:
        """Whether its classes are those of the classifier."""
        return self.task == "scenes"

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """Trains the model; both tasks use the same images and the same seed."""
        rng = Rng(seed, tuple(sample.id for sample in training.samples), "/model-contrast")

        def paste(place: int, inputs: Tensor) -> Tensor:
            return paste_objects(classifier, inputs[None], self.objects, rng=rng[place : place + 1])[0][0]

        changed = training.with_change(paste)
        if self.task == "objects":
            changed = changed.with_labels(_draw_objects(rng, self.objects)[0].tolist())
        classes = self.objects if self.task == "objects" else training.output_count()
        return recipe(changed, seed_for("model-contrast", seed), {"classes": classes})


@metric(
    "model-contrast",
    cite="yang2019",
    attribute="label-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain", "recipe", "labels"},
    undefined="the sample has no label, one of the two models predicts a wrong class, or a map is zero everywhere "
    "(constant with inside=mean)",
    test="Model Contrast Score",
    formula="Σ_object |M(f_object, x)| ∕ Σ |M(f_object, x)| − Σ_object |M(f_scene, x)| ∕ Σ |M(f_scene, x)|",
    reading="The share of all attribution that lies inside the object; `inside=mean` is the paper's mean attribution there, "
    "of maps clipped at their 99th percentile and stretched to [0, 1]. Objects are six simple shapes on a tile, where the "
    "paper pastes photographs of things.",
    caveats={
        "yang2019": "the object model may depend on less than the whole object, so even a correct map need not reach 1"
    },
    presets={"yang2019": {"inside": "mean"}},
)
@dataclass(frozen=True)
class ModelContrast:
    """How much more of the map lies on an object for a model trained on objects than for one trained on scenes.

    Yang and Kim 2019 (BAM). Each image gets an object at a random place. Two models are trained on the same images: for
    one the classes are the objects, for the other the scenes. A map with 0.4 of its sum on the object for the first
    model and 0.1 for the second scores 0.3; a method that ignores the model scores 0.
    """

    inside: Literal["share", "mean"] = "share"
    """What of the map counts: its share inside the object, or its mean there."""
    correct_only: bool = True
    """Leave out images for which one of the models is wrong."""
    objects: int = OBJECT_KINDS
    """Number of kinds of objects."""

    def __post_init__(self) -> None:
        if not 2 <= self.objects <= OBJECT_KINDS:
            raise ValueError(f"objects must be from 2 to {OBJECT_KINDS}, not {self.objects}")

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """The object model and the scene model."""
        return PastedObjectModel("objects", self.objects), PastedObjectModel("scenes", self.objects)

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        labels = require_labels(case, "model-contrast")
        inputs, kinds, tile = paste_objects(case.classifier, case.inputs, self.objects, rng=rng.child("model-contrast"))
        undefined = labels < 0
        levels = []
        for variant, classes in (
            (PastedObjectModel("objects", self.objects), kinds),
            (PastedObjectModel("scenes", self.objects), labels.clamp_min(0)),
        ):
            model = require_variant(case, self, variant.name)
            if self.correct_only:
                undefined = undefined | (model.predictions(inputs) != classes)
            maps = case.explain(inputs, targets=classes, classifier=model, rng=rng)
            levels.append(self._level(maps.abs().double(), tile))
        return (levels[0] - levels[1]).float().masked_fill(undefined, torch.nan)

    def _level(self, maps: Tensor, tile: Tensor) -> Tensor:
        """The share of a map that lies on the object, or its mean value there."""
        if self.inside == "share":
            return (maps * tile).sum(dim=(1, 2)) / maps.sum(dim=(1, 2))
        rows = maps.flatten(1)
        low, high = rows.amin(dim=1, keepdim=True), rows.quantile(0.99, dim=1, keepdim=True)
        scaled = ((rows.minimum(high) - low) / (high - low)).view_as(maps)
        return (scaled * tile).sum(dim=(1, 2)) / tile.sum(dim=(1, 2))

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """A map and, for `correct_only`, a prediction of each model."""
        return 2 * explain + Passes(forward=2 if self.correct_only else 0)
