"""Maps in files: a folder with a file per map, or one file with a map per key."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from torch import Tensor

from snellen.errors import SnellenError, first_line, short_repr
from snellen.images.limits import MOST_PIXELS, MOST_VALUES

SUFFIXES = (".npy", ".npz", ".safetensors", ".png")
"""Endings of map files."""

SEVERAL = (".npz", ".safetensors")
"""Endings of files that may hold several maps, each under a key."""

Range = tuple[float, float]

T = TypeVar("T")


@dataclass(frozen=True)
class StoredMap:
    """A map that is read when it is needed."""

    where: str
    """For messages: the file, or the file and the key in it."""
    load: Callable[[], Tensor]
    """Reads the map."""


def find_maps(name: str, source: Any, value_range: Range | None) -> dict[str, StoredMap]:
    """The maps in a folder, in a file, or in a dictionary of arrays, by their id.

    Args:
        name: how the user calls the maps.
        source: a folder, an .npz or .safetensors file, or a mapping from ids to arrays.
        value_range: the values that black and white of PNG files mean.
    """
    if isinstance(source, Mapping):
        return {
            str(key): StoredMap(f"'{name}' of '{key}'", functools.partial(_tensor, value)) for key, value in source.items()
        }
    path = Path(source)
    if not str(source).strip() or not path.exists():
        raise SnellenError(f"the maps '{name}' are to be in '{source}', but there is no such folder or file; check the path")
    maps = _in_folder(name, path, value_range) if path.is_dir() else _in_file(name, path)
    if value_range is not None and not any(stored.where.lower().endswith(".png'") for stored in maps.values()):
        raise SnellenError(f"--map-range is for PNG maps, but '{name}' has none in '{path}'; leave it out")
    return maps


def _in_folder(name: str, folder: Path, value_range: Range | None) -> dict[str, StoredMap]:
    maps: dict[str, StoredMap] = {}
    visited: set[str] = set()
    for current, folders, files in os.walk(folder, followlinks=True):
        if os.path.realpath(current) in visited:  # a link to a parent folder
            folders.clear()
            continue
        visited.add(os.path.realpath(current))
        folders[:] = sorted(inner for inner in folders if not inner.startswith("."))
        for file in sorted(files):
            path = Path(current) / file
            if file.startswith(".") or file in ("Thumbs.db", "desktop.ini"):
                continue
            if path.suffix.lower() not in SUFFIXES:
                raise SnellenError(
                    f"'{path}' is no map: maps are {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} files; remove it from the "
                    f"folder of '{name}'"
                )
            if path.suffix.lower() == ".png" and value_range is None:
                raise SnellenError(
                    f"'{path}' is a PNG, which does not say which numbers black and white mean; state them with "
                    "--map-range, such as --map-range 0,1 or --map-range=-1,1"
                )
            key = path.relative_to(folder).as_posix()[: -len(path.suffix)]
            if key in maps:
                raise SnellenError(f"{maps[key].where} and '{path}' are both maps of '{key}'; keep one of them")
            maps[key] = StoredMap(f"'{path}'", functools.partial(_read, path, value_range))
    if not maps:
        raise SnellenError(f"'{folder}' holds no maps for '{name}': there is no file that ends in {', '.join(SUFFIXES)}")
    return maps


def _in_file(name: str, path: Path) -> dict[str, StoredMap]:
    """The maps in a file with picture ids as keys."""
    if path.suffix.lower() not in SEVERAL:
        raise SnellenError(
            f"'{path}' is to hold all maps of '{name}', but only {' and '.join(SEVERAL)} files have keys that name the "
            "pictures; give such a file, or a folder with a file per picture"
        )
    keys = _reading(path, lambda: _keys(path))
    if not keys:
        raise SnellenError(f"'{path}' holds no maps for '{name}'; write one array per picture, under the id of the picture")
    return {
        key: StoredMap(f"'{key}' in '{path}'", functools.partial(_reading, path, functools.partial(_value, path, key)))
        for key in keys
    }


def _read(path: Path, value_range: Range | None) -> Tensor:
    """The map in a file of its own."""
    suffix = path.suffix.lower()
    if suffix == ".png" and value_range is not None:
        return _reading(path, lambda: _png(path, value_range))
    if suffix == ".npy":
        # Mapped, because the header says how large the array is before it is read; pickled objects are refused.
        return _reading(path, lambda: _tensor(np.load(path, mmap_mode="r", allow_pickle=False)))
    keys = _reading(path, lambda: _keys(path))
    if len(keys) != 1:
        raise SnellenError(
            f"'{path}' holds {len(keys)} arrays, but a file in a folder of maps holds one; give the file itself if its keys "
            "are picture ids"
        )
    return _reading(path, lambda: _value(path, keys[0]))


def _keys(path: Path) -> list[str]:
    if path.suffix.lower() == ".safetensors":
        with safe_open(path, framework="pt") as opened:
            return list(opened.keys())
    with np.load(path, allow_pickle=False) as opened:
        return list(opened.files)


def _value(path: Path, key: str) -> Tensor:
    if path.suffix.lower() == ".safetensors":
        with safe_open(path, framework="pt") as opened:
            _check_count(int(np.prod(opened.get_slice(key).get_shape())))
            value: Tensor = opened.get_tensor(key)
            return value
    with np.load(path, allow_pickle=False) as opened:
        _check_count(opened.zip.getinfo(key if key in opened.zip.namelist() else f"{key}.npy").file_size // 8)
        return _tensor(opened[key])


def _png(path: Path, value_range: Range) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(path, formats=("PNG",)) as opened:
            brightest = (
                255 if opened.mode == "L" else 65535 if opened.mode == "I" or opened.mode.startswith("I;16") else None
            )
            if brightest is None:
                raise SnellenError(
                    f"'{path}' is not grey (its mode is {opened.mode}), and colours are not numbers; save one grey channel, "
                    "or the numbers as .npy"
                )
            if opened.width * opened.height > MOST_PIXELS:
                raise ValueError(f"more than {MOST_PIXELS // 10**6} million pixels")
            values = np.asarray(opened).astype(np.float64)
    low, high = value_range
    return torch.from_numpy((low + (high - low) * values / brightest).astype(np.float32))


def _tensor(value: Any) -> Tensor:
    """An array, a tensor or nested lists as a tensor."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    array = np.asarray(value)
    _check_count(array.size)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"it holds {array.dtype}, not real numbers")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, which is refused
        return torch.from_numpy(np.array(array, dtype=np.float32))


def _check_count(values: int) -> None:
    if values > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES // 10**6} million values")


def _reading(path: Path, read: Callable[[], T]) -> T:
    """What a reader returns; whatever it raises, as a sentence."""
    try:
        return read()
    except SnellenError:
        raise
    except Exception as problem:  # decoders raise almost anything on damaged files
        raise SnellenError(
            f"'{path}' cannot be read as a map ({first_line(problem) or short_repr(problem)}); write it again"
        ) from None
