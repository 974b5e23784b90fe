"""Which maps a run keeps after they were scored: all, some or none."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from snellen.errors import SnellenError, nearest

KeepMaps = Literal["all", "some", "none"]

PICTURES = 12
"""How many images a run stores for its report; `some` keeps their maps."""

SHARE = 0.05
"""The share of the other images whose maps `some` keeps, the same for all methods."""

KEPT_WORDS: Mapping[KeepMaps, str] = {
    "all": "all",
    "some": f"of the first {PICTURES} images, of {SHARE:.0%} of the others, which the seed draws, and per unit of work and "
    "metric of the best and the worst image",
    "none": "none: they were dropped once they were scored",
}
"""What each setting keeps, as pages say it."""


def check_keep_maps(setting: str | None) -> None:
    """Refuses unknown settings."""
    names = get_args(KeepMaps)
    if setting is not None and setting not in names:
        raise SnellenError(
            f"--keep-maps is {', '.join(names[:-1])} or {names[-1]}, not '{setting}'{nearest(setting, names)}"
        )


def sampled_maps(setting: KeepMaps, ids: Sequence[str], start: int, seed: int) -> tuple[int, ...] | None:
    """The samples of a unit whose maps are kept whatever their scores are, counted from the first; None for all.

    Args:
        setting: What the run keeps.
        ids: Of the samples of the unit.
        start: The index of the first of them in the run.
        seed: Of the run. Whether a sample is drawn depends on the seed and its id alone.
    """
    if setting == "all":
        return None
    if setting == "none":
        return ()
    return tuple(place for place, name in enumerate(ids) if start + place < PICTURES or _is_drawn(name, seed))


def _is_drawn(name: str, seed: int) -> bool:
    number = hashlib.sha256(f"kept maps {seed} {name}".encode()).digest()[:8]
    return int.from_bytes(number, "big") < SHARE * 2**64


def extreme_samples(scores: Mapping[str, np.ndarray]) -> set[int]:
    """The samples of a unit with the highest and the lowest score by each metric, the first among equals; NaN is neither.

    The best and the worst sample of a run by a metric are among the best and the worst of its units. So these can be kept
    while units are computed, in any order and in any process, and no second pass over the samples is needed.
    """
    extremes = set[int]()
    for values in scores.values():
        if not np.isnan(values).all():
            extremes |= {int(np.nanargmax(values)), int(np.nanargmin(values))}
    return extremes
