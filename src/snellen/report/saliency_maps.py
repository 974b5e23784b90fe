"""explain(): maps of some images by some methods, as one object that shows itself in a notebook."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
import torch
from jaxtyping import Float, UInt8

from snellen.charts import numbers, pictures
from snellen.errors import SnellenError, nearest, short_repr
from snellen.files.documents import check_shape
from snellen.images import colours
from snellen.plugins.registry import METHODS, label
from snellen.runs import chosen_targets, requirements
from snellen.runs import plan as planning
from snellen.runs.guard import Guard
from snellen.runs.options import Seed
from snellen.runs.score import BATCH, as_classifier, fit_missing, make_maps, with_targets
from snellen.runs.subject import samples_for
from snellen.runs.torch_modes import usual_modes
from snellen.types import Maps, Rng

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 8
"""Images that a notebook shows; all of them are in the object."""

SIDE = 112
"""Pixels of the longer side of a picture in a notebook."""

DEFAULT_METHODS = ("gradient", "integrated-gradients", "grad-cam")
"""The methods of `explain` where none are named; those that do not support the model are left out."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SaliencyMaps(Mapping[str, Maps]):
    """The maps of each method, by its label: `maps["grad-cam"]`, or `maps["grad-cam", 0]` for one image.

    Iterating gives the labels of the methods, and `len` their number, as of any mapping.
    """

    maps: Mapping[str, Maps]
    """By label of the method, images×height×width."""
    images: UInt8[np.ndarray, "images height width 3"]
    """The images as the model received them, for display."""
    ids: tuple[str, ...]
    targets: tuple[int, ...]
    """The explained class of each image."""
    target_names: tuple[str, ...]
    outputs: tuple[float, ...]
    """Of the explained classes: probabilities, or logits where there is no probability; or the model's number."""
    letter: str = "p"
    """How captions call the outputs."""
    unit: str = ""
    """Of the outputs, where they are a number with a unit."""

    @overload
    def __getitem__(self, key: str) -> Maps: ...
    @overload
    def __getitem__(self, key: tuple[str, SupportsIndex | str]) -> Float[torch.Tensor, "height width"]: ...
    def __getitem__(self, key: Any) -> torch.Tensor:
        """The maps of a method; with the place or id of an image too, one map."""
        method, image = key if isinstance(key, tuple) else (key, None)
        if method not in self.maps:
            raise UnknownMapError(
                f"there are no maps of '{method}'{nearest(str(method), self.maps)} (there are: {', '.join(self)})"
            )
        if image is None:
            return self.maps[method]
        if isinstance(image, str):
            if image not in self.ids:
                raise UnknownMapError(f"there is no image '{image}'{nearest(image, self.ids)}")
            image = self.ids.index(image)
        if not hasattr(image, "__index__"):
            raise UnknownMapError(f"an image is named by its id or its place, not {short_repr(image)}")
        image = operator.index(image)
        if not -len(self.ids) <= image < len(self.ids):
            raise UnknownMapError(f"there is no image {image}: there are {len(self.ids)}, counted from 0")
        return self.maps[method][image]

    def __iter__(self) -> Iterator[str]:
        return iter(self.maps)

    def __len__(self) -> int:
        return len(self.maps)

    def numpy(self) -> Float[np.ndarray, "methods images height width"]:
        """All maps as one array, methods in the order of iteration."""
        return np.stack([maps.numpy() for maps in self.maps.values()])

    def __repr__(self) -> str:
        count, height, width = next(iter(self.maps.values())).shape
        return f"<SaliencyMaps of {numbers.count(count, 'image')}, {height}×{width}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        """A table of small pictures that needs no network: images down, methods across."""
        heads = "".join(f"<th>{escape(name)}</th>" for name in ("image", *self))
        rows = []
        for place in range(min(SHOWN, len(self.ids))):
            output = f"{self.letter} = {numbers.short(self.outputs[place])} {self.unit}".strip()
            caption = escape(f"{self.ids[place]}: {self.target_names[place]}, {output}")
            cells = [f"{_picture(self.images[place], 'image')}<br>{caption}"]
            cells += [_picture(self.overlay(method, place), f"{method} of {self.ids[place]}") for method in self]
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        hidden = len(self.ids) - SHOWN
        more = f"<p>and {numbers.count(hidden, 'more image')}</p>" if hidden > 0 else ""
        return f"<table><tr>{heads}</tr>{''.join(rows)}</table>{more}<p><small>{escape(pictures.LEGEND)}</small></p>"

    def overlay(self, method: str, image: int | str) -> UInt8[np.ndarray, "height width 3"]:
        """One map over a grey copy of its image, in the colours of the report."""
        values = self[method, image].numpy()
        place = self.ids.index(image) if isinstance(image, str) else image
        signed = bool((self.maps[method] < 0).any())
        return pictures.overlay(self.images[place], values, signed, pictures.limits(values, signed))

    def plot(self) -> Figure:
        """The same table as a matplotlib figure."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise SnellenError('plot() needs matplotlib: pip install "snellen[charts]", or use .numpy()') from None
        rows, columns = min(SHOWN, len(self.ids)), 1 + len(self)
        figure = Figure(figsize=(2.2 * columns, 2.4 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        for place, axes in enumerate(figure.subplots(rows, columns, squeeze=False)):
            shown = [self.images[place], *(self.overlay(method, place) for method in self)]
            for name, axis, picture in zip(("", *self), axes, shown, strict=True):
                axis.imshow(picture)
                axis.set_axis_off()
                axis.set_title(name or f"{self.ids[place]}: {self.target_names[place]}", fontsize=9)
        return figure


class UnknownMapError(SnellenError, KeyError):
    """A method or image that was not explained; a KeyError too, as a Mapping must raise."""


@usual_modes()
def explain(model: Any, images: Any, *, methods: Any = None, targets: Any = None, seed: int = 0) -> SaliencyMaps:
    """The maps of all images by all methods, computed once.

    Args:
        model: A `Classifier`, or a module or function that becomes one without normalisation.
        images: In any form that `evaluate` takes; arrays hold pixels in [0, 1].
        methods: A list of names, texts with settings or methods; by default `DEFAULT_METHODS`.
        targets: The class to explain, for each image or for all, by number or name; the predicted class if None.
        seed: Changes every random draw.
    """
    check_shape(Seed, seed, "seed")
    classifier = as_classifier(model)
    samples = samples_for(classifier, images)
    first = classifier.to_inputs(samples[0].image[None])
    classifier, classes_of_images, names = with_targets(targets, classifier, samples, classifier.check(first))
    if methods is None:
        chosen, refused = requirements.split_by_support(classifier, [METHODS.build(name) for name in DEFAULT_METHODS], first)
        if not chosen:
            raise SnellenError(f"{next(iter(refused.values()))}; name others with methods=")
    else:
        chosen = planning.parse_methods(methods)
        requirements.refuse_positive_controls(chosen, "it explains no image by itself")
        requirements.check_needs(classifier, chosen, first)
    before = dict(classifier.fitted_state)
    maps: dict[str, list[torch.Tensor]] = {label(method): [] for method in chosen}
    shown, outputs = [], []
    try:
        fit_missing(classifier, chosen, samples, seed)
        for start in range(0, len(samples), BATCH):
            rows = slice(start, start + BATCH)
            part = tuple(samples[rows])
            pixels = torch.stack([sample.image for sample in part])
            inputs, aims = classifier.to_inputs(pixels), classes_of_images[rows]
            guard = Guard({"the model": classifier}, {"the inputs": inputs, "the targets": aims})
            for method in chosen:
                with guard.watching(label(method), SnellenError):
                    rng = Rng(seed, tuple(sample.id for sample in part))
                    maps[label(method)].append(make_maps(method, classifier, inputs, aims, rng))
            values_shown, letter, unit = chosen_targets.caption_outputs(classifier, inputs, aims)
            outputs += values_shown.tolist()
            shown.append(_bytes(torch.stack([colours(image, samples.show_channels) for image in pixels])))
    finally:
        classifier.fitted_state = before
    return SaliencyMaps(
        maps={name: torch.cat(parts) for name, parts in maps.items()},
        images=np.concatenate(shown),
        ids=tuple(samples.ids),
        targets=tuple(classes_of_images.tolist()),
        target_names=names,
        outputs=tuple(outputs),
        letter=letter,
        unit=unit,
    )


def _bytes(pixels: Float[torch.Tensor, "batch 3 height width"]) -> UInt8[np.ndarray, "batch height width 3"]:
    """Pixels as bytes in colour."""
    return (pixels.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def _picture(picture: UInt8[np.ndarray, "height width 3"], words: str) -> str:
    uri = pictures.data_uri(picture, longest=2 * SIDE, quality=74)
    return f'<img src="{uri}" alt="{escape(words)}" style="width:{SIDE}px">'
