"""What a verdict takes as drawn at random: single images, or whole classes or groups of them.

Images of one class, or of one patient, are alike. If each counted as drawn by itself, intervals would be too narrow for
other classes and patients. Where the images show all classes of the model, there are no others, and images are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Int

Clusters = Int[np.ndarray, " images"]
"""The number of each image's cluster, from 0; images of one cluster (a class, a patient) are drawn together."""

SamplingUnit = Literal["image", "class", "group"]

PLURAL: Mapping[SamplingUnit, str] = {"image": "images", "class": "classes", "group": "groups"}

MINIMUM_GROUPS = 10
"""Fewer named groups (such as patients) get no verdict: they do not show how groups differ."""

MINIMUM_CLASSES = 20
"""From so many classes on, out of more, verdicts are about the model's other classes too. With fewer, whole classes could be
drawn as well, but hardly any method would pass (docs/verdicts.md has the numbers), so verdicts are about these classes."""


@dataclass(frozen=True)
class Sampling:
    """What verdicts take as drawn at random."""

    unit: SamplingUnit = "image"
    """Single images, or whole classes or groups of them."""
    cluster_of: Mapping[str, str] = field(default_factory=dict)
    """The class or group of each sample; empty where single images are drawn."""
    words: str = ""
    """What that means for verdicts, as a sentence; empty where single images are drawn from all classes."""
    too_few: bool = False
    """Whether there are too few groups for any verdict; `words` then say so."""
    shown_classes_only: bool = False
    """Whether verdicts are about the classes that the images show, out of more; `words` then say so."""

    def clusters(self, samples: Sequence[str]) -> Clusters | None:
        """The number of each sample's cluster; None where each image is drawn by itself."""
        if self.unit == "image":
            return None
        return np.asarray(
            pd.factorize(np.array([self.cluster_of[sample] for sample in samples], dtype=object))[0], dtype=np.int64
        )


IMAGES = Sampling()
"""Each image is drawn by itself."""


def sampling_of(samples: pd.DataFrame, classes: int | None, *, number: bool = False) -> Sampling:
    """What is drawn, by the labels and groups of a run's samples and the number of classes of its model.

    - Named groups are always a sample of more: whole groups are drawn.
    - Classes are drawn where they are at least `MINIMUM_CLASSES` of more; where fewer, verdicts are about these alone.
    - Where the images show every class of the model, or one image per class, images are drawn.

    A sample without a label or group is a cluster of its own. A model of a `number` has no classes.
    """
    if not len(samples):
        return IMAGES
    groups = _clusters(samples, "group")
    labels = _clusters(samples, "label")
    present = int(samples["label"].nunique()) if labels else 0
    count = f"{present} of the model's {classes}" if classes else f"{present}"
    shown = f"images show {count} classes"
    if groups:
        return _by_group(
            groups, f"; {shown}, and verdicts are about these" if 0 < present < (classes or present + 1) else ""
        )
    if not labels:
        unknown = "no groups" if number else "neither classes nor groups"
        return Sampling(words=f"{unknown} of the images are known, so each counts as drawn by itself")
    if present == classes or present == len(samples):
        return IMAGES
    if len(set(labels.values())) < MINIMUM_CLASSES:
        words = f"{shown}, fewer than {MINIMUM_CLASSES}: verdicts are about these classes only, not about others"
        return Sampling(words=words, shown_classes_only=True)
    return Sampling("class", labels, f"{shown}, which are drawn as a whole: verdicts are about its other classes too")


def _by_group(groups: Mapping[str, str], class_words: str) -> Sampling:
    count = len(set(groups.values()))
    if count < MINIMUM_GROUPS:
        number = "1 group is" if count == 1 else f"{count} groups are"
        return Sampling(
            "group", groups, f"{number} too few for a verdict, which needs at least {MINIMUM_GROUPS}", too_few=True
        )
    words = f"images come in {count} groups, which are drawn as a whole: verdicts are about other such groups too"
    return Sampling("group", groups, words + class_words)


def _clusters(samples: pd.DataFrame, column: str) -> dict[str, str]:
    """By sample, its value in this column; its own name where it has none. Empty where no sample has any."""
    if column not in samples or samples[column].isna().all():
        return {}
    pairs: list[tuple[str, Any]] = list(zip(samples["sample"], samples[column], strict=True))
    return {sample: f"sample {sample}" if pd.isna(value) else f"{column} {value}" for sample, value in pairs}
