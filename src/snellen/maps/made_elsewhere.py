"""Maps made elsewhere: a user's maps of the images of a run, scored like those of a method, and never computed again."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError, nearest, short_repr
from snellen.images import Samples
from snellen.maps.folding import fold
from snellen.maps.map_files import Range, StoredMap, find_maps
from snellen.plugins.outside import OWN, UNTESTED
from snellen.plugins.registry import METHODS
from snellen.plugins.traits import MethodTraits
from snellen.types import Images, Maps, Passes, Rng, Targets

TARGET = "@"
"""Separates the id of a picture and a target in the name of a map."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Key = tuple[str, int | None]
"""The id of a picture, and the target of its map where the name of the map states it."""


@dataclass(frozen=True)
class MapsMadeElsewhere:
    """Maps made elsewhere, in place of a method."""

    traits: ClassVar[MethodTraits]
    source: ClassVar[str]
    """Where they are, for reports."""
    digest: ClassVar[str | None] = None
    """Of all maps, each with the picture and the target that it is of; None before they are checked."""
    count: ClassVar[int]
    """Number of maps."""
    stored: ClassVar[Mapping[Key, tuple[StoredMap, str]]]
    """Each map and its checksum."""
    unread: ClassVar[Any]
    """By name, the maps that are not compared with the images yet; or an array with a map per image."""

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to other processes: not the maps, which come with each unit of work."""
        return {"traits": self.traits, "source": self.source}

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """None: nothing is computed."""
        return Passes()

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        raise SnellenError(
            f"the maps '{self.traits.name}' were made elsewhere, so other images, targets or models cannot be explained by "
            "the same method; name the method itself with --methods where Snellen can run it"
        )

    def checked(
        self, samples: Samples, *, size: tuple[int, int], channels: int, classes: Sequence[str], complete: bool
    ) -> MapsMadeElsewhere:
        """The same maps, each read once and assigned to its image; mistakes are refused.

        Args:
            samples: the images.
            size: their height and width as the model receives them.
            channels: of the model.
            classes: names of all outputs, which names of maps may end with.
            complete: whether every image must have a map; otherwise only those with a target need one.
        """
        name = self.traits.name
        keys = self._assign(samples, classes)
        content = hashlib.sha256()
        stored: dict[Key, tuple[StoredMap, str]] = {}
        negative = summed = False
        for key in sorted(keys, key=repr):
            loaded = _read(keys[key], key[0], size, channels)
            values = _one_channel(loaded)
            negative = negative or bool((values < 0).any())
            summed = summed or len(loaded) > 1
            checksum = _checksum(values)
            content.update(repr((key, checksum)).encode())
            stored[key] = keys[key], checksum
        pictures = {picture for picture, _ in stored}
        without = [sample_id for sample_id in samples.ids if sample_id not in pictures] if complete else []
        if without:
            more = f" (nor have {len(without) - 1} others)" if len(without) > 1 else ""
            raise SnellenError(
                f"the maps '{name}' lack '{without[0]}'{more}: {self.source} has no map of that name, such as "
                f"'{os.path.splitext(without[0])[0]}.npy'; add it, or leave the picture out"
            )
        digest = content.hexdigest()
        channels_words = f", {channels} channels summed" if summed else ""
        return _make(
            traits=_traits(
                name,
                f"Maps made elsewhere, read from {self.source}{channels_words}.",
                signed=negative,
                version=int(digest[:8], 16),
            ),
            source=self.source,
            stored=stored,
            digest=digest,
            count=len(stored),
        )

    def _assign(self, samples: Samples, classes: Sequence[str]) -> dict[Key, StoredMap]:
        """Each map by its picture and target."""
        name, unread = self.traits.name, self.unread
        if not isinstance(unread, Mapping):
            if len(unread) != len(samples):
                raise SnellenError(
                    f"maps['{name}'] has {len(unread)} maps, but there are {len(samples)} images; give one map per image in "
                    "their order, or a dictionary by id"
                )
            unread = find_maps(name, dict(zip(samples.ids, unread, strict=True)), None)
        pictures = _Pictures([*samples.ids, *(sample_id for sample_id, _ in samples.skipped)])
        keys: dict[Key, StoredMap] = {}
        for text, stored in unread.items():
            key = _key_of(text, stored, pictures, classes, name)
            if key in keys:
                of = f" for the target '{classes[key[1]]}'" if key[1] is not None else ""
                raise SnellenError(f"{keys[key].where} and {stored.where} are both maps of '{key[0]}'{of}; keep one of them")
            keys[key] = stored
        skipped = {sample_id for sample_id, _ in samples.skipped}
        return {key: stored for key, stored in keys.items() if key[0] not in skipped}

    def choose(self, cases: Sequence[tuple[str, int]], classes: Sequence[str]) -> list[Key]:
        """The map of each case, which is the id of a picture and its target.

        A map whose name states no target is used where the run has one case of its picture.
        """
        targets: dict[str, list[int]] = {}
        for picture, target in cases:
            targets.setdefault(picture, []).append(target)
        chosen: list[Key] = []
        for picture, target in cases:
            exact, plain = (picture, target), (picture, None)
            words = classes[target] if target < len(classes) else "the target"
            if exact in self.stored and plain in self.stored and len(targets[picture]) == 1:
                raise SnellenError(
                    f"{self.stored[exact][0].where} and {self.stored[plain][0].where} are both maps of '{picture}' for "
                    f"'{words}'; keep one of them"
                )
            if exact in self.stored:
                chosen.append(exact)
            elif plain not in self.stored:
                others = [classes[other] for owner, other in self.stored if owner == picture and other is not None]
                present = f" (it has maps for {', '.join(others)})" if others else ""
                raise SnellenError(
                    f"the maps '{self.traits.name}' lack '{picture}' for '{words}'{present}; add a map called "
                    f"'{os.path.splitext(picture)[0]}{TARGET}{words}', or choose another --target"
                )
            elif len(targets[picture]) > 1:
                names = ", ".join(classes[other] for other in targets[picture])
                raise SnellenError(
                    f"the maps '{self.traits.name}' have one map of '{picture}', but this run explains "
                    f"{len(targets[picture])} targets of it ({names}); name its maps by target, such as "
                    f"'{os.path.splitext(picture)[0]}{TARGET}{words}', or state one --target"
                )
            else:
                chosen.append(plain)
        return chosen

    def read(self, keys: Sequence[Key], size: tuple[int, int], channels: int) -> Float[np.ndarray, "maps height width"]:
        """These maps; refuses one that has changed since it was checked."""
        maps = []
        for key in keys:
            stored, checksum = self.stored[key]
            values = _one_channel(_read(stored, key[0], size, channels))
            if _checksum(values) != checksum:
                raise SnellenError(f"{stored.where} was changed while it was read; run again when the maps are complete")
            maps.append(values.numpy())
        return np.stack(maps)


def maps_made_elsewhere(maps: Any, value_range: Any = None) -> list[MapsMadeElsewhere]:
    """The maps that a user names, found but not yet compared with the images.

    Args:
        maps: by name: a folder, an .npz or .safetensors file, a dictionary of arrays by picture id, or an array with a map
            per image.
        value_range: what black and white of PNG files mean.
    """
    if maps is None:
        maps = {}
    if not isinstance(maps, Mapping):
        raise SnellenError(f"maps must be a dictionary from names to folders, files or arrays, not {short_repr(maps)}")
    ends = _checked_range(value_range)
    if ends is not None and not maps:
        raise SnellenError("--map-range is for maps made elsewhere, but there are none; give --maps, or leave it out")
    chosen = []
    for name, source in maps.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SnellenError(
                f"maps cannot be called {short_repr(name)}: a name has letters, digits, dots, hyphens and underscores, such "
                "as theirs=folder/"
            )
        if name in METHODS:
            raise SnellenError(
                f"the maps '{name}' have the name of a method; call them otherwise, such as my-{name}=..., so that nobody "
                "takes the one for the other"
            )
        chosen.append(_find(name, source, ends))
    return chosen


def _find(name: str, source: Any, ends: Range | None) -> MapsMadeElsewhere:
    if isinstance(source, str | os.PathLike):
        unread: Any = find_maps(name, source, ends)
        words = f"'{os.fspath(source)}'"
    elif ends is not None:
        raise SnellenError(f"map_range is for PNG maps, but maps['{name}'] holds numbers; leave it out")
    elif isinstance(source, Mapping):
        unread, words = find_maps(name, source, None), "arrays"
    elif isinstance(source, Tensor | np.ndarray | list | tuple):
        unread, words = source, "arrays"
    else:
        raise SnellenError(
            f"maps['{name}'] must be a folder, a file, an array with a map per image, or a dictionary of arrays by picture "
            f"id, not {short_repr(source)}"
        )
    summary = f"Maps made elsewhere, read from {words}."
    return _make(traits=_traits(name, summary, signed=True, version=1), source=words, unread=unread)


class _Pictures:
    """Finds a picture by its id, by its id without the ending, or by its file name alone."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        forms: tuple[Callable[[str], str], ...] = (str, _stem, os.path.basename, lambda text: _stem(os.path.basename(text)))
        self._by_form: list[dict[str, list[str]]] = []
        for form in forms:
            by_name: dict[str, list[str]] = {}
            for sample_id in ids:
                by_name.setdefault(form(sample_id), []).append(sample_id)
            self._by_form.append(by_name)

    def find(self, text: str) -> list[str]:
        """The pictures that a text may name: none, one, or several."""
        return next((by_name[text] for by_name in self._by_form if text in by_name), [])


def _stem(text: str) -> str:
    return os.path.splitext(text)[0]


def _key_of(text: str, stored: StoredMap, pictures: _Pictures, classes: Sequence[str], name: str) -> Key:
    owners, target = pictures.find(text), None
    if not owners and TARGET in text:
        picture, _, words = text.rpartition(TARGET)
        owners = pictures.find(picture)
        if owners:
            target = _target(words, stored, classes)
    if not owners:
        raise SnellenError(
            f"{stored.where} of the maps '{name}' belongs to no picture; remove "
            f"it, or name it by the picture, such as '{_stem(pictures.ids[0])}'"
        )
    if len(owners) > 1:
        raise SnellenError(
            f"{stored.where} may be the map of '{owners[0]}' or of '{owners[1]}'; name it by the whole id, such as "
            f"'{owners[0]}.npy'"
        )
    return owners[0], target


def _target(words: str, stored: StoredMap, classes: Sequence[str]) -> int:
    if words in classes:
        return classes.index(words)
    if re.fullmatch("[0-9]{1,9}", words) and int(words) < len(classes):
        return int(words)
    raise SnellenError(
        f"{stored.where} names the target '{words}', which is no output of the model{nearest(words, classes)}; "
        f"name one by its name or by a number from 0 to {len(classes) - 1}"
    )


def _read(stored: StoredMap, picture: str, size: tuple[int, int], channels: int) -> Float[Tensor, "channels height width"]:
    """A map as it is stored, with one or all channels; refuses what is no map of the picture."""
    try:
        values = stored.load()
    except ValueError as problem:
        raise SnellenError(f"{stored.where} is no map: {problem}") from None
    if values.is_complex():
        raise SnellenError(f"{stored.where} is no map: it holds {values.dtype}, not real numbers")
    values = values.to(torch.float32)
    while values.ndim > 3 and values.shape[0] == 1:  # a batch of one
        values = values[0]
    height, width = size
    fits = tuple(values.shape[-2:]) == size and values.ndim in (2, 3) and (values.ndim == 2 or len(values) in (1, channels))
    if not fits:
        of_channels = f", or {channels}×{height}×{width} with channels that are summed" if channels > 1 else ""
        raise SnellenError(
            f"{stored.where} is {'×'.join(map(str, values.shape)) or 'a single number'}, but the model receives '{picture}' "
            f"as {height}×{width} pixels; a map has one number per pixel of that image, {height}×{width}{of_channels}"
        )
    if not bool(values.isfinite().all()):
        raise SnellenError(f"{stored.where} holds NaN or infinite values, which have no order; replace them by numbers")
    return values if values.ndim == 3 else values[None]


def _one_channel(values: Float[Tensor, "channels height width"]) -> Float[Tensor, "height width"]:
    """One number per pixel: channels are summed."""
    return fold(values[None], "sum")[0]


def _checked_range(value_range: Any) -> Range | None:
    if value_range is None:
        return None
    pair = tuple(value_range) if isinstance(value_range, list | tuple) else ()
    if len(pair) != 2 or not all(isinstance(end, int | float) and math.isfinite(end) for end in pair) or pair[0] >= pair[1]:
        raise SnellenError(
            f"--map-range must be two numbers, the smaller first, such as --map-range 0,1, not {short_repr(value_range)}"
        )
    return float(pair[0]), float(pair[1])


def _checksum(values: Tensor) -> str:
    return hashlib.sha256(repr(tuple(values.shape)).encode() + values.contiguous().numpy().tobytes()).hexdigest()


def _traits(name: str, summary: str, *, signed: bool, version: int) -> MethodTraits:
    return MethodTraits(
        name=name,
        cite=OWN,
        summary=summary,
        signed=signed,
        version=version,
        tested_on=UNTESTED,
    )


def _make(**facts: Any) -> MapsMadeElsewhere:
    """Maps with these attributes; they are no settings, because no text builds the same maps again."""
    maps = MapsMadeElsewhere()
    for name, value in facts.items():
        object.__setattr__(maps, name, value)
    return maps
