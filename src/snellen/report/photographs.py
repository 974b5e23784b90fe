"""The photographs of a page, with the maps of every method alone and over the photo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8

from snellen.charts import numbers, pictures
from snellen.charts.html_page import TemplateValues
from snellen.errors import SnellenError
from snellen.report.readable import Readable
from snellen.runs.record import MethodSpec

SHOWN = 12
"""Photographs on the page; a run stores the pictures of its first dozen samples."""


_UNLABELLED = {False: "none given", True: "not marked as present"}


@dataclass(frozen=True, kw_only=True)
class MapTile:
    """The map of one method for one photograph."""

    name: str
    """The label of the method."""
    kind: str
    """"control" or "positive control"; empty for a method that is neither."""
    signed: bool
    map: str | None
    """The map alone as a data URI; None if it was not computed."""
    over: str | None
    """The map over the photograph; None if the photograph was not stored."""


@dataclass(frozen=True, kw_only=True)
class MappedPhotograph:
    """A photograph of a run with its maps."""

    id: str
    photo: str | None
    """As a data URI; None if it was not stored."""
    tiles: tuple[MapTile, ...]
    """One per method."""
    target: str | None
    """The explained class; None if unknown."""
    prediction: str | None
    """The predicted class, or the estimate of a model that estimates a number."""
    probability: str | None
    """Of the predicted class; None for a model that estimates a number."""
    label: str | None
    """The class or number of the label; None if it has none."""
    unlabelled: str
    """What pages say where it has none."""


def photographs_of(run: Readable, samples: pd.DataFrame, methods: Sequence[MethodSpec]) -> list[MappedPhotograph]:
    """The first photographs, each with the classifier's prediction and the maps of every method."""
    first = samples.head(SHOWN)
    ids = [str(sample_id) for sample_id in first["sample"]]
    photos = {sample_id: run.picture(sample_id) for sample_id in ids}
    tiles: dict[str, list[MapTile]] = {sample_id: [] for sample_id in ids}
    positive = {control.label for control in run.record.spec.positive_controls}
    for method in methods:
        maps = _maps(run, method.label, ids)
        # A setting may make a map signed that is not so by default, such as gradient(fold=sum).
        two_sided = bool(method.signed) or any(bool((values < 0).any()) for values in maps.values())
        for sample_id in ids:
            kind = "control" if method.control else "positive control" if method.label in positive else ""
            alone, over = (
                _pair_of_tiles(maps[sample_id], photos[sample_id], two_sided) if sample_id in maps else (None, None)
            )
            tiles[sample_id].append(MapTile(name=method.label, kind=kind, signed=two_sided, map=alone, over=over))
    return [
        MappedPhotograph(
            id=sample_id,
            photo=None if (photo := photos[sample_id]) is None else pictures.data_uri(photo, longest=320),
            tiles=tuple(tiles[sample_id]),
            target=_class(row, "target"),
            unlabelled=_UNLABELLED[run.record.classifier.labels_may_be_several],
            **(_numbers_of(row, run.record.classifier.unit) if "estimate" in row else _classes_of(row)),
        )
        for sample_id, row in zip(ids, first.to_dict("records"), strict=True)
    ]


def _maps(run: Readable, method: str, ids: list[str]) -> dict[str, Float[np.ndarray, "height width"]]:
    """The maps that exist; an unfinished run lacks some."""
    try:
        return dict(zip(ids, np.asarray(run.maps(method, ids), dtype=np.float64), strict=True))
    except SnellenError:
        return (
            {}
            if len(ids) == 1
            else {name: values for sample_id in ids for name, values in _maps(run, method, [sample_id]).items()}
        )


def _pair_of_tiles(
    values: Float[np.ndarray, "height width"], photo: UInt8[np.ndarray, "rows columns 3"] | None, signed: bool
) -> tuple[str, str | None]:
    """The map alone, and over the photograph if there is one."""
    ends = pictures.limits(values, signed)
    alone = pictures.data_uri(pictures.tile(values, signed, ends), longest=224, quality=74)
    if photo is None:
        return alone, None
    over = pictures.overlay(pictures.fit_photo(photo, values), values, signed, ends)
    return alone, pictures.data_uri(over, longest=224, quality=74)


def _classes_of(row: Mapping[Any, Any]) -> dict[str, str | None]:
    probability = row["probability"]
    return {
        "probability": None if pd.isna(probability) else numbers.short(float(probability)),
        "prediction": _class(row, "prediction"),
        "label": _class(row, "label"),
    }


def _numbers_of(row: Mapping[Any, Any], unit: str) -> dict[str, str | None]:
    """The same of a model that estimates a number, which has no probability."""
    written = {
        name: None if pd.isna(row[name]) else f"{numbers.short(float(row[name]))} {unit}".strip()
        for name in ("estimate", "number")
    }
    return {"probability": None, "prediction": written["estimate"], "label": written["number"]}


def _class(row: Mapping[Any, Any], which: str) -> str | None:
    name, index = row.get(f"{which}_name"), row.get(which)
    if isinstance(name, str) and name:
        return name
    return None if index is None or pd.isna(index) else f"class {int(index)}"


def cover(photographs: Sequence[MappedPhotograph]) -> TemplateValues | None:
    """The first photograph, with the map of the first unsigned method over it."""
    for photo in photographs:
        for candidate in sorted(photo.tiles, key=lambda tile: (tile.kind != "", tile.signed)):
            if photo.photo and candidate.over:
                return {"photograph": photo, "tile": candidate}
    return None
