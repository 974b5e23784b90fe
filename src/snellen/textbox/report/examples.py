"""Scenes and maps as pictures for a page, with frames around what should be looked at and what should not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, UInt8
from markupsafe import Markup
from torch import Tensor

from snellen.charts import pictures
from snellen.charts.html_page import TemplateValues
from snellen.plugins.registry import METHODS, traits
from snellen.textbox.exam.exam_results import ExamResults
from snellen.textbox.exam.exam_scenes import ExamScenes
from snellen.textbox.exam.families import plain_name
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.report.dot_plots import score
from snellen.textbox.scenes.objects import bucket_states

CLEAR = 0.8
"""A map is clearly right if this share of it lies on the right objects."""


@dataclass(frozen=True, eq=False)
class SceneExample:
    """One scene of an exam, to be drawn plainly or as a map."""

    scenes: ExamScenes
    index: int

    @staticmethod
    def of(scenes: ExamScenes, sample: str) -> SceneExample:
        """The scene of this name."""
        return SceneExample(scenes, scenes.ids.index(sample))

    @property
    def bucket(self) -> int:
        """The number of its bucket."""
        return int(self.scenes.buckets[self.index])

    @cached_property
    def names(self) -> list[str]:
        """The name of each object of the layout, with its kind where it has several."""
        objects = self.scenes.spec.rule.objects
        states = bucket_states(objects, self.bucket)
        return [
            f"{item.name} {item.kinds[state - 1]}" if state and len(item.kinds) > 1 else item.name
            for item, state in zip(objects, states, strict=True)
        ]

    @property
    def focus(self) -> str:
        """What should be looked at, in words."""
        return self._words(self.scenes.focused)

    @property
    def avoid(self) -> str:
        """What should not be looked at, in words."""
        return self._words(self.scenes.avoided)

    @property
    def contents(self) -> str:
        """Everything in the scene, in words."""
        return self._words(self.scenes.scenes.ink.flatten(2).any(dim=2))

    @property
    def pixels(self) -> UInt8[np.ndarray, "height width 3"]:
        """The scene itself."""
        return np.ascontiguousarray(self.scenes.scenes.pixels[self.index].permute(1, 2, 0).numpy())

    def picture(self) -> Markup:
        """The scene with its frames."""
        return self._framed(pictures.png_uri(self.pixels), f"scene with {self.contents}; {self._roles()}")

    def map_picture(self, values: Float[np.ndarray, "height width"], label: str, name: str) -> Markup:
        """A map of the scene with the same frames.

        Args:
            values: The map.
            label: Of the method.
            name: Of the method, for screen readers.
        """
        signed = is_signed(label, values)
        tile = pictures.tile(values, signed, pictures.limits(values, signed))
        return self._framed(pictures.png_uri(tile), f"map of {name}; {self._roles()}")

    def _roles(self) -> str:
        return f"should look at {self.focus}, should not at {self.avoid}"

    def _words(self, chosen: Bool[Tensor, "scenes objects"]) -> str:
        names = [name for name, is_chosen in zip(self.names, chosen[self.index].tolist(), strict=True) if is_chosen]
        return " and ".join(names) or "nothing"

    def _framed(self, uri: str, words: str) -> Markup:
        side = self.scenes.spec.side
        boxes = self.scenes.scenes.boxes[self.index].tolist()
        frames = [
            Markup('<rect class="under" {0}/><rect class="{1}" {0}/>').format(_frame_place(box), kind)
            for kind, chosen in (("avoid", self.scenes.avoided), ("focus", self.scenes.focused))
            for box, is_chosen in zip(boxes, chosen[self.index].tolist(), strict=True)
            if is_chosen
        ]
        return Markup(
            '<svg class="example" viewBox="-2 -2 {4} {4}" role="img" aria-label="{1}">'
            '<image href="{2}" width="{0}" height="{0}"/><rect class="edge" width="{0}" height="{0}"/>{3}</svg>'
        ).format(side, words, uri, Markup("").join(frames), side + 4)


def _frame_place(box: Sequence[int]) -> Markup:
    top, left, bottom, right = box
    return Markup('x="{}" y="{}" width="{}" height="{}"').format(left - 1, top - 1, right - left + 2, bottom - top + 2)


def is_signed(label: str, values: Float[np.ndarray, "..."]) -> bool:
    """Whether maps of a method are drawn with two colours; a setting may make one signed that is not by default."""
    name = plain_name(label)
    return (name in METHODS and bool(traits(METHODS[name]).signed)) or bool((values < 0).any())


def right_and_wrong(results: ExamResults, frame: pd.DataFrame, names: dict[str, str]) -> TemplateValues | None:
    """One scene with a map that is right and one that is wrong: where methods, without controls, differ most."""
    both = frame[frame["pafl"].notna() & frame["safl"].notna() & ~frame["method"].isin([ORACLE, *results.controls])]
    scenes: dict[tuple[str, str], list[dict[Any, Any]]] = {}
    for row in both.to_dict("records"):
        scenes.setdefault((row["setting"], row["sample"]), []).append(row)
    if not scenes:
        return None
    # The most wrong map, of a scene for which some map is clearly right, if there is one.
    pairs = [(max(rows, key=lambda row: row["pafl"]), max(rows, key=_wrongness)) for rows in scenes.values()]
    best, worst = max(pairs, key=lambda pair: (pair[0]["pafl"] >= CLEAR, _wrongness(pair[1])))
    setting, sample = str(best["setting"]), str(best["sample"])
    example = SceneExample.of(results.scenes[setting], sample)
    right, wrong = (
        {
            "svg": example.map_picture(results.maps(setting, label, [sample])[0], label, names[label]),
            "name": names[label],
            "pafl": score(row["pafl"]),
            "safl": score(row["safl"]),
        }
        for row, label in ((row, str(row["method"])) for row in (best, worst))
    )
    return {
        "scene": example.picture(),
        "setting": setting,
        "rule": example.scenes.spec.rule.text,
        "example": example,
        "right": right,
        "wrong": wrong,
    }


def _wrongness(row: dict[Any, Any]) -> float:
    return float(row["safl"] - row["pafl"])


def worst_samples(results: ExamResults, frame: pd.DataFrame, names: dict[str, str]) -> list[TemplateValues]:
    """For every method but the oracle the scene with the lowest PAFL: the scene, the map, and their scores."""
    defined = frame[frame["pafl"].notna() & (frame["method"] != ORACLE)]
    lowest = defined.loc[defined.groupby("method", sort=False)["pafl"].idxmin()].to_dict("records")
    worst = []
    for row in sorted(lowest, key=lambda row: results.methods.index(row["method"])):
        label = row["method"]
        example = SceneExample.of(results.scenes[row["setting"]], row["sample"])
        values = results.maps(row["setting"], label, [row["sample"]])[0]
        worst.append({
            "method": label,
            "name": names[label],
            "control": label in results.controls,
            "scene": example.picture(),
            "map": example.map_picture(values, label, names[label]),
            "example": example,
            "setting": row["setting"],
            "sample": row["sample"],
            "pafl": score(row["pafl"]),
            "safl": None if pd.isna(row["safl"]) else score(row["safl"]),
        })  # fmt: skip
    return worst


def same_inputs(results: ExamResults, most: int = 4) -> list[str]:
    """Scenes that every setting explains and that look the same in all of them: of the fullest buckets, one each."""
    exams = list(results.scenes.values())
    shared = [sample for sample in exams[0].ids if all(sample in other.ids for other in exams)]
    by_bucket: dict[int, str] = {}
    for sample in shared:
        examples = [SceneExample.of(scenes, sample) for scenes in exams]
        if all(np.array_equal(example.pixels, examples[0].pixels) for example in examples):
            by_bucket.setdefault(examples[0].bucket, sample)
    visible = {bucket: _visible_objects(exams[0], bucket) for bucket in by_bucket}
    fullest = sorted(by_bucket, key=lambda bucket: (-sum(visible[bucket]), -bucket))
    # The fullest bucket, and those that lack an object or two: what is missing distinguishes rules.
    distinct: dict[tuple[bool, ...], int] = {}
    for bucket in fullest:
        if any(visible[bucket]):
            distinct.setdefault(visible[bucket], bucket)
    return [by_bucket[bucket] for bucket in sorted(list(distinct.values())[:most])]


def _visible_objects(scenes: ExamScenes, bucket: int) -> tuple[bool, ...]:
    """Whether a bucket shows each object."""
    return tuple(state > 0 for state in bucket_states(scenes.spec.rule.objects, bucket))


def map_grid(results: ExamResults, label: str, samples: Sequence[str], name: str) -> list[TemplateValues]:
    """One row per input: the map of the method in every setting, with what it should show there."""
    maps = {
        setting: dict(zip(samples, results.maps(setting, label, list(samples)), strict=True))
        for setting in results.settings
        if label == ORACLE or label in results.explained(setting)
    }
    rows: list[TemplateValues] = []
    for sample in samples:
        cells = []
        for setting, scenes in results.scenes.items():
            example = SceneExample.of(scenes, sample)
            svg = None
            if setting in maps:
                svg = example.map_picture(maps[setting][sample], label, f"{name} in {setting}")
            cells.append({"svg": svg, "focus": example.focus})
        first = SceneExample.of(results.scenes[results.settings[0]], sample)
        rows.append({"scene": pictures.png_uri(first.pixels), "contents": first.contents, "cells": cells})
    return rows
