"""Segments: few, large files that hold the results of many units, one after the other.

A segment is written by one process and never changed, only lengthened. It has two files: `segments/NAME.maps` holds maps,
and `segments/NAME.units` holds a frame per unit: a header with everything about the unit, and its scores. The maps of a unit
are on disk before its frame. So a unit is finished exactly when its frame is complete, and a killed process leaves at most
one incomplete frame, at the end of its file, which nobody reads.

A frame carries a checksum of itself, and the header names maps and scores by the hash of their content. A damaged unit is
declared void by a frame in a later segment, because no segment is ever changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from snellen.files.folder import Folder
from snellen.files.integrity import DamagedError, damage, digest
from snellen.runs.record import Cost, Refusal

SEGMENTS = "segments"
"""The folder of segments in a run folder."""

UNITS, MAPS = ".units", ".maps"
"""The endings of the two files of a segment."""

LARGEST_MAPS, LARGEST_UNITS = 256 << 20, 32 << 20
"""A file of a segment that is larger, in bytes, is not lengthened: a new segment begins."""

_KEY = re.compile(r"[0-9a-f]{20}")
_NAME = re.compile(r"\w[\w.-]{0,150}\.(units|maps)")
_MOST = 1 << 53
_HEAD = struct.Struct("<4sII16s")
_MAGIC = b"SNU1"
_COSTS = tuple(Cost.model_fields)


class Part(NamedTuple):
    """The maps or scores of a unit: where they are, and the hash that they must have."""

    name: str
    """Hash and ending, as in `0123456789abcdef0123456789abcdef.safetensors`: other content has another name."""
    segment: str = ""
    """The file in `segments/`; empty for a file of its own, which older versions wrote."""
    offset: int = 0
    length: int = 0
    """In bytes."""


@dataclass(frozen=True, kw_only=True)
class FinishedUnit:
    """A finished unit: one method on one shard of the samples, with the place of its maps and scores."""

    key: str
    """A hash of all that its numbers depend on."""
    map_key: str
    """A hash of all that the maps depend on."""
    method: str
    """Its label."""
    start: int
    """The index of the first sample in the run; -1 for a unit of an older version, which has `names`."""
    count: int
    """How many samples."""
    names: tuple[str, ...] | None = None
    """Ids of the samples, in units of older versions."""
    maps: Part | None
    """None where no maps were kept."""
    kept: tuple[int, ...] | None = None
    """The samples whose maps were kept, counted from the first of the unit; None where all were."""
    scores: Part | None
    """None for a unit without scores."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """The key of each metric that was computed, by label."""
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    """By label of the metric."""
    metric_costs: Mapping[str, Cost] = field(default_factory=dict)
    """By label of the metric."""
    cost: Cost | None = None
    """Of the maps; None where an earlier unit computed them."""
    frame: tuple[str, int, int] = ("", 0, 0)
    """The file, beginning and end of its frame."""

    @property
    def has_all_maps(self) -> bool:
        """Whether the maps of all its samples were kept."""
        return self.maps is not None and self.kept is None


class Void(NamedTuple):
    """Bytes of a file of units that no longer count, because they were damaged or their maps are."""

    segment: str
    start: int
    end: int


class Broken(NamedTuple):
    """Bytes of a file of units that are damaged."""

    start: int
    end: int


def new_frame(header: dict[str, Any], scores: bytes = b"") -> bytes:
    """A frame with its checksum."""
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    return _HEAD.pack(_MAGIC, len(text), len(scores), _checksum(text, scores)) + text + scores


def unit_frame(unit: FinishedUnit, scores: bytes, *, maps_inside: bool) -> bytes:
    """The frame of a unit. Where its maps are in the same segment, only their place in it is written."""
    header: dict[str, Any] = {
        "key": unit.key,
        "map_key": unit.map_key,
        "method": unit.method,
        "start": unit.start,
        "count": unit.count,
        "maps": unit.maps and [unit.maps.name, "" if maps_inside else unit.maps.segment, *unit.maps[2:]],
        "scores": unit.scores and unit.scores.name,
        "metrics": dict(unit.metrics),
        "metric_costs": {name: pack_cost(cost) for name, cost in unit.metric_costs.items()},
        "cost": unit.cost and pack_cost(unit.cost),
    }
    if unit.kept is not None:
        header["kept"] = list(unit.kept)
    if unit.refused:
        header["refused"] = {name: [refusal.key, refusal.problem] for name, refusal in unit.refused.items()}
    if maps_inside:
        header["inside"] = True
    return new_frame(header, scores)


def pack_cost(cost: Cost) -> list[float]:
    """The numbers of a cost."""
    return [float(getattr(cost, name)) for name in _COSTS]


def unpack_cost(numbers: Any) -> Cost:
    """The cost with these numbers."""
    values: dict[str, Any] = {
        name: int(number) if name.endswith("ward") else float(number)
        for name, number in zip(_COSTS, numbers, strict=False)  # another version may have more of them, at the end
    }
    return Cost(**values)


def frames(content: bytes, segment: str, start: int = 0) -> Iterator[tuple[int, FinishedUnit | Void | Broken]]:
    """What a file of units holds, each with the place where it ends; an incomplete end is left out.

    Args:
        content: The bytes of the file from `start` on.
        segment: The name of the file.
        start: A place between two frames.
    """
    place = 0
    while place < len(content):
        end = _frame_end(content, place)
        if end is not None:
            try:
                entry: FinishedUnit | Void | Broken = _entry(content, place, segment, start)
            except (
                ValueError,
                LookupError,
                TypeError,
                AttributeError,
                OverflowError,
            ):  # a frame of a newer version, or one that somebody made up
                entry = Broken(start + place, start + end)
            yield start + end, entry
            place = end
            continue
        following = _next_frame(content, place + 1)
        if following is not None:
            yield start + following, Broken(start + place, start + following)
            place = following
            continue
        if _is_whole(content, place):
            yield start + len(content), Broken(start + place, start + len(content))
        return


def _checksum(text: bytes | memoryview, scores: bytes | memoryview) -> bytes:
    content = hashlib.sha256(struct.pack("<II", len(text), len(scores)))
    content.update(text)
    content.update(scores)
    return content.digest()[:16]


def _is_whole(content: bytes, place: int) -> bool:
    """Whether as many bytes follow as a frame says, which are then the wrong ones."""
    if len(content) - place < _HEAD.size:
        return False
    magic, text, scores, _ = _HEAD.unpack_from(content, place)
    return bool(magic == _MAGIC and place + _HEAD.size + text + scores <= len(content))


def _frame_end(content: bytes, place: int) -> int | None:
    """Where the frame that begins here ends; None where there is no intact frame."""
    if not _is_whole(content, place):
        return None
    _, text, scores, checksum = _HEAD.unpack_from(content, place)
    middle = place + _HEAD.size + text
    view = memoryview(content)
    if _checksum(view[place + _HEAD.size : middle], view[middle : middle + scores]) != checksum:
        return None
    return int(middle + scores)


def _next_frame(content: bytes, place: int) -> int | None:
    place = content.find(_MAGIC, place)
    while place >= 0:
        if _frame_end(content, place) is not None:
            return place
        place = content.find(_MAGIC, place + 1)
    return None


def _entry(content: bytes, place: int, segment: str, start: int) -> FinishedUnit | Void:
    _, text, scores_length, _ = _HEAD.unpack_from(content, place)
    middle = place + _HEAD.size + text
    header = json.loads(content[place + _HEAD.size : middle])
    if "void" in header:
        name, first, last = header["void"]
        return Void(str(name), int(first), int(last))
    maps, kept, cost = header["maps"], header.get("kept"), header["cost"]
    if not (_KEY.fullmatch(header["key"]) and _KEY.fullmatch(header["map_key"])):
        raise ValueError("no key")
    if not (0 <= int(header["start"]) < _MOST and 0 <= int(header["count"]) < _MOST):
        raise ValueError("no samples")
    inside = segment.removesuffix(UNITS) + MAPS
    return FinishedUnit(
        key=header["key"],
        map_key=header["map_key"],
        method=str(header["method"]),
        start=int(header["start"]),
        count=int(header["count"]),
        maps=maps
        and Part(
            name=str(maps[0]),
            segment=inside if header.get("inside") else str(maps[1]),
            offset=int(maps[2]),
            length=int(maps[3]),
        ),
        kept=None if kept is None else tuple(map(int, kept)),
        scores=header["scores"]
        and Part(name=str(header["scores"]), segment=segment, offset=start + middle, length=scores_length),
        metrics={str(name): str(key) for name, key in header["metrics"].items()},
        refused={name: Refusal(key=key, problem=problem) for name, (key, problem) in header.get("refused", {}).items()},
        metric_costs={name: unpack_cost(numbers) for name, numbers in header["metric_costs"].items()},
        cost=cost and unpack_cost(cost),
        frame=(segment, start + place, start + middle + scores_length),
    )


# Contents ----------------------------------------------------------------------------------------------------------------


def pack_maps(maps: np.ndarray) -> bytes:
    """Maps as safetensors."""
    content: bytes = save({"maps": np.ascontiguousarray(maps, dtype=np.float32)})
    return content


def unpack_maps(content: bytes, count: int) -> np.ndarray:
    """The maps in the bytes of `pack_maps`; a ValueError where these are not so many maps."""
    try:
        array: np.ndarray = load(content)["maps"]
    except (SafetensorError, KeyError) as problem:
        raise ValueError(str(problem)) from None
    if array.ndim != 3 or len(array) != count:
        raise ValueError(f"it holds an array of {array.shape}")
    return array


def pack_scores(scores: Mapping[str, tuple[np.ndarray, np.ndarray | None]]) -> bytes:
    """Scores by metric as safetensors: a value per sample and, for some metrics, a curve per sample."""
    tensors = {f"values/{metric}": np.ascontiguousarray(values, np.float64) for metric, (values, _) in scores.items()}
    tensors |= {
        f"curves/{metric}": np.ascontiguousarray(curve, np.float32)
        for metric, (_, curve) in scores.items()
        if curve is not None
    }
    content: bytes = save(tensors)
    return content


def unpack_scores(content: bytes, count: int) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """The scores in the bytes of `pack_scores`; a ValueError where these are not scores of so many samples."""
    try:
        tensors = load(content)
    except (SafetensorError, KeyError) as problem:
        raise ValueError(str(problem)) from None
    scores: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for name, values in tensors.items():
        if name.startswith("values/"):
            metric = name.removeprefix("values/")
            curve = tensors.get(f"curves/{metric}")
            if values.shape != (count,) or (curve is not None and (curve.ndim != 2 or len(curve) != count)):
                raise ValueError(f"it holds scores of {values.shape}")
            scores[metric] = values, curve
    return scores


def is_segment(name: str) -> bool:
    """Whether a file of a segment may have this name, which may come from a damaged or foreign file."""
    return _NAME.fullmatch(name) is not None


def part_name(content: bytes) -> str:
    """The name of maps or scores with this content."""
    return f"{digest(content)}.safetensors"


def read_part(folder: Folder, part: Part, what: str, remedy: str) -> bytes:
    """The bytes of a part of a segment, compared with its name.

    Args:
        folder: The run folder.
        part: Of a segment.
        what: Whose it is, for the error message.
        remedy: What the user can do if it is damaged, for the error message.
    """
    name = f"{SEGMENTS}/{part.segment}"
    if not is_segment(part.segment) or min(part.offset, part.length) < 0:
        raise DamagedError(f"{folder}/{SEGMENTS}", "this cannot be the place of maps or scores", remedy)
    try:
        content = folder.read_range(name, part.offset, part.length)
    except OSError as problem:
        raise DamagedError(f"{folder}/{name}", damage(problem), remedy) from None
    if part_name(content) != part.name:
        raise DamagedError(f"{folder}/{name}", f"{what} do not match their checksum", remedy)
    return content
