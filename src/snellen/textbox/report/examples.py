"""Scenes and maps as pictures for a page, framed by what should be looked at and by what should not."""

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
from snellen.plugins.registry import METHODS
from snellen.textbox.exam.exam_results import ExamResults
from snellen.textbox.exam.exam_scenes import ExamScenes
from snellen.textbox.exam.families import plain_name
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.report.dot_plots import score
from snellen.textbox.scenes.objects import states

CLEAR = 0.8
"""A share of a map on the right things that everybody can see."""


@dataclass(frozen=True, eq=False)
class SceneExample:
    """One scene of an exam, to be drawn plainly or under a map."""

    exam: ExamScenes
    place: int

    @staticmethod
    def of(exam: ExamScenes, sample: str) -> SceneExample:
        """The scene of this name."""
        return SceneExample(exam, exam.ids.index(sample))

    @property
    def bucket(self) -> int:
        """Its number."""
        return int(self.exam.buckets[self.place])

    @cached_property
    def names(self) -> list[str]:
        """What each thing of the layout is called here: with its kind where it has several."""
        objects = self.exam.spec.rule.objects
        kinds = zip(objects, states(objects, self.bucket), strict=True)
        return [f"{one.name} {one.kinds[state - 1]}" if state and len(one.kinds) > 1 else one.name for one, state in kinds]

    @property
    def focus(self) -> str:
        """What should be looked at, in words."""
        return self._words(self.exam.focused)

    @property
    def avoid(self) -> str:
        """What should not be looked at, in words."""
        return self._words(self.exam.avoided)

    @property
    def shown(self) -> str:
        """Everything in the scene, in words."""
        return self._words(self.exam.scenes.ink.flatten(2).any(dim=2))

    @property
    def pixels(self) -> UInt8[np.ndarray, "height width 3"]:
        """The scene as it is."""
        return np.ascontiguousarray(self.exam.scenes.pixels[self.place].permute(1, 2, 0).numpy())

    def picture(self) -> Markup:
        """The scene with its frames."""
        words = f"scene with {self.shown}; {self._roles()}"
        return self._framed(pictures.png_uri(self.pixels), words)

    def under(self, values: Float[np.ndarray, "height width"], signed: bool, name: str) -> Markup:
        """A map of the scene with the same frames."""
        drawn = pictures.tile(values, signed, pictures.limits(values, signed))
        return self._framed(pictures.png_uri(drawn), f"map of {name}; {self._roles()}")

    def _roles(self) -> str:
        return f"should look at {self.focus}, should not at {self.avoid}"

    def _words(self, chosen: Bool[Tensor, "scenes things"]) -> str:
        found = [name for name, one in zip(self.names, chosen[self.place].tolist(), strict=True) if one]
        return " and ".join(found) or "nothing"

    def _framed(self, uri: str, words: str) -> Markup:
        side = self.exam.spec.side
        parts = [
            Markup('<rect class="under" {0}/><rect class="{1}" {0}/>').format(_around(box), kind)
            for kind, chosen in (("avoid", self.exam.avoided), ("focus", self.exam.focused))
            for box, one in zip(self.exam.scenes.boxes[self.place].tolist(), chosen[self.place].tolist(), strict=True)
            if one
        ]
        return Markup(
            '<svg class="specimen" viewBox="-2 -2 {4} {4}" role="img" aria-label="{1}">'
            '<image href="{2}" width="{0}" height="{0}"/><rect class="edge" width="{0}" height="{0}"/>{3}</svg>'
        ).format(side, words, uri, Markup("").join(parts), side + 4)


def _around(box: Sequence[int]) -> Markup:
    top, left, bottom, right = box
    return Markup('x="{}" y="{}" width="{}" height="{}"').format(left - 1, top - 1, right - left + 2, bottom - top + 2)


def is_signed(label: str, values: Float[np.ndarray, "..."]) -> bool:
    """Whether maps of a method are drawn with two colours; a setting may make one signed that is not by default."""
    name = plain_name(label)
    return (name in METHODS and bool(METHODS[name].traits.signed)) or bool((values < 0).any())  # type: ignore[attr-defined]


def right_and_wrong(field: ExamResults, frame: pd.DataFrame, names: dict[str, str]) -> dict[str, Any] | None:
    """One scene with a map that is right and one that is wrong: where methods, controls apart, differ most."""
    both = frame[frame["pafl"].notna() & frame["safl"].notna() & ~frame["method"].isin([ORACLE, *field.controls])]
    scenes: dict[tuple[str, str], list[dict[Any, Any]]] = {}
    for row in both.to_dict("records"):
        scenes.setdefault((row["setting"], row["sample"]), []).append(row)
    if not scenes:
        return None
    # The most wrong map, of a scene for which some map is clearly right, if there is one.
    pairs = [(max(rows, key=lambda row: row["pafl"]), max(rows, key=_wrongness)) for rows in scenes.values()]
    best, worst = max(pairs, key=lambda pair: (pair[0]["pafl"] >= CLEAR, _wrongness(pair[1])))
    setting, sample = str(best["setting"]), str(best["sample"])
    one = SceneExample.of(field.exams[setting], sample)
    shown = []
    for row in (best, worst):
        label = str(row["method"])
        values = field.maps(setting, label, [sample])[0]
        svg = one.under(values, is_signed(label, values), names[label])
        shown.append({"svg": svg, "name": names[label], "pafl": score(row["pafl"]), "safl": score(row["safl"])})
    rule = one.exam.spec.rule.text
    return {"scene": one.picture(), "setting": setting, "rule": rule, "one": one, "right": shown[0], "wrong": shown[1]}


def _wrongness(row: dict[Any, Any]) -> float:
    return float(row["safl"] - row["pafl"])


def worst_samples(field: ExamResults, frame: pd.DataFrame, names: dict[str, str]) -> list[dict[str, Any]]:
    """For every method but the oracle the scene with the lowest PAFL: the scene, the map, and what both say."""
    defined = frame[frame["pafl"].notna() & (frame["method"] != ORACLE)]
    lowest = defined.loc[defined.groupby("method", sort=False)["pafl"].idxmin()].to_dict("records")
    found = []
    for row in sorted(lowest, key=lambda row: field.methods.index(row["method"])):
        label = row["method"]
        one = SceneExample.of(field.exams[row["setting"]], row["sample"])
        values = field.maps(row["setting"], label, [row["sample"]])[0]
        found.append({
            "method": label,
            "name": names[label],
            "control": label in field.controls,
            "scene": one.picture(),
            "map": one.under(values, is_signed(label, values), names[label]),
            "one": one,
            "setting": row["setting"],
            "sample": row["sample"],
            "pafl": score(row["pafl"]),
            "safl": None if pd.isna(row["safl"]) else score(row["safl"]),
        })  # fmt: skip
    return found


def same_inputs(field: ExamResults, most: int = 4) -> list[str]:
    """Scenes that every setting explains and that look the same in all of them: of the fullest buckets, one each."""
    exams = list(field.exams.values())
    shared = [sample_id for sample_id in exams[0].ids if all(sample_id in other.ids for other in exams)]
    found: dict[int, str] = {}
    for sample in shared:
        drawn = [SceneExample.of(exam, sample) for exam in exams]
        if all(np.array_equal(one.pixels, drawn[0].pixels) for one in drawn):
            found.setdefault(drawn[0].bucket, sample)
    rich = sorted(found, key=lambda bucket: (-bucket_size(exams[0], bucket), -bucket))
    # The fullest bucket, and those that lack one thing or two: what is missing tells rules apart.
    return [found[bucket] for bucket in sorted(_different(exams[0], rich)[:most])]


def bucket_size(exam: ExamScenes, bucket: int) -> int:
    """How many things a bucket shows."""
    return sum(state > 0 for state in states(exam.spec.rule.objects, bucket))


def _different(exam: ExamScenes, buckets: Sequence[int]) -> list[int]:
    """Without buckets that show the same things in another kind."""
    seen: set[tuple[bool, ...]] = set()
    found = []
    for bucket in buckets:
        objects = tuple(state > 0 for state in states(exam.spec.rule.objects, bucket))
        if any(objects) and objects not in seen:
            seen.add(objects)
            found.append(bucket)
    return found


def identifiability(field: ExamResults, label: str, samples: Sequence[str], name: str) -> list[dict[str, Any]]:
    """One row per input: the map of the method in every setting, with what it should show there."""
    maps = {
        setting: dict(zip(samples, field.maps(setting, label, list(samples)), strict=True))
        for setting in field.settings
        if label == ORACLE or label in field.explained(setting)
    }
    rows = []
    for sample in samples:
        cells = []
        for setting, exam in field.exams.items():
            one = SceneExample.of(exam, sample)
            if setting not in maps:
                cells.append({"svg": None, "focus": one.focus})
                continue
            values = maps[setting][sample]
            cells.append({"svg": one.under(values, is_signed(label, values), f"{name} in {setting}"), "focus": one.focus})
        first = SceneExample.of(field.exams[field.settings[0]], sample)
        rows.append({"scene": pictures.png_uri(first.pixels), "shown": first.shown, "cells": cells})
    return rows
