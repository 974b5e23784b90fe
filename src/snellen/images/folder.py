"""Samples from a folder of images, on disk or on object storage, with labels, and with masks or boxes as truth."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from snellen.errors import SnellenError, nearest, short_repr
from snellen.files.documents import is_unicode
from snellen.files.remote import check_url, is_url, list_url
from snellen.images import decoding, planes
from snellen.images.columns import text_array
from snellen.images.entries import BOXES, below, findings_array, table_of, whole_labels
from snellen.images.files import Files, from_table
from snellen.images.geometry import Geometry
from snellen.images.picture_file import is_picture
from snellen.images.reading import AS_STORED, Reading
from snellen.images.samples import Progress, Samples
from snellen.images.tables import ClassIndices, read_boxes, read_labels, read_numbers
from snellen.types import Findings


def from_folder(
    path: str | Path,
    *,
    geometry: Geometry,
    channels: int = 3,
    labels: str | Path | None = None,
    masks: str | Path | None = None,
    boxes: str | Path | None = None,
    classes: Sequence[str] | None = None,
    numbers: bool = False,
    reading: Reading = AS_STORED,
    unreadable: str = "refuse",
    check: str | None = None,
    progress: Progress | None = None,
) -> Samples:
    """All images in a folder and its sub-folders, sorted by name; each is checked now and loaded when needed.

    Args:
        path: the folder, or its URL, such as s3://bucket/photos.
        geometry: how images are cropped and resized.
        channels: of the classifier: 3, 1 for greyscale, or any number for TIFF and .npy files.
        labels: a CSV with the columns file and label, or a column per finding, and optionally group (such as a patient; see
            `read_labels`). Without it, images in
            sub-folders are labelled by the first sub-folder: its name is a class index or a class name; other names are
            numbered in sorted order, which a note says.
        masks: a folder, or its URL, with a mask of the same stem for each image that has a truth; pixels that are not zero
            are true.
        boxes: a CSV with the columns file, x0, y0, x1, y1 in pixels of the upright original.
        classes: names of the classifier's classes.
        numbers: whether the classifier estimates a number: labels are then numbers, and sub-folders no labels.
        reading: how stored values become pixels.
        unreadable: "refuse" or "skip" files that cannot be decoded.
        check: "all" or "first"; decided from their number where None (see `check_samples`).
        progress: called with (images checked, images in total).
    """
    folder = check_url(path) if isinstance(path, str) and is_url(path) else Path(path)
    if isinstance(folder, Path) and not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise SnellenError(f"'{folder}' {what}; give a folder of pictures")
    if masks is not None and boxes is not None:
        raise SnellenError("give masks or boxes as truth, not both")
    ids, ignored = _pictures(folder)
    notes = [f"{ignored} file{'' if ignored == 1 else 's'} in '{folder}' ignored: not pictures by name"] if ignored else []
    if not ids:
        others = f" ({ignored} other files are there)" if ignored else ""
        raise SnellenError(f"'{folder}' holds no pictures{others}; pictures end in .jpg, .png, .dcm, .npy and the like")
    label_of: Mapping[str, int | Findings | None] = {}
    number_of: Mapping[str, float | None] = {}
    groups: dict[str, str] = {}
    if numbers:
        number_of, groups = ({}, {}) if labels is None else read_numbers(labels, ids, classes)
    elif labels is not None:
        label_of, groups = read_labels(labels, ids, classes, notes)
    else:
        label_of = _by_sub_folder(folder, ids, classes, notes)
    mask_of = _masks(masks, ids, notes) if masks is not None else {}
    boxes_of = read_boxes(boxes, ids) if boxes is not None else {}
    names = text_array(ids)
    stated = [label_of.get(sample_id) for sample_id in ids]
    table = table_of(
        id=names,
        file=names,
        label=whole_labels(stated),
        findings=findings_array(stated),
        mask=text_array(mask_of.get(sample_id) for sample_id in ids),
        boxes=pa.array((list(map(list, boxes_of[name])) if boxes_of.get(name) else None for name in ids), BOXES),
        group=text_array(groups.get(sample_id) for sample_id in ids),
        number=pa.array((number_of.get(sample_id) for sample_id in ids), pa.float64()),
    )
    return from_table(
        Files(table=table, root=_root(folder), geometry=geometry, channels=channels, reading=reading),
        f"'{folder}'",
        unreadable=unreadable,
        check=check,
        notes=notes,
        progress=progress,
    )


def _root(folder: str | Path) -> str:
    """The URL of a folder, or its absolute path, because a worker may run in another folder."""
    return folder if isinstance(folder, str) else os.path.abspath(folder)


def holds_pictures(folder: Path) -> bool:
    """Whether there are images in a folder or its sub-folders."""
    return bool(_pictures(folder)[0])


def _pictures(folder: str | Path, *, masks: bool = False) -> tuple[list[str], int]:
    """Sorted paths of images below the folder, and the number of other files there; hidden files are ignored.

    Arrays are images only where there are no others: an .npy file beside photographs is something else, such as a map.
    Masks are never arrays or DICOM.
    """
    images: list[str] = []
    arrays: list[str] = []
    ignored = 0
    for name in _files(folder):
        suffix = posixpath.splitext(name)[1].lower()
        if suffix in decoding.SUFFIXES or (not masks and is_picture(Path(folder) / name)):
            images.append(name)
        elif suffix in planes.ARRAYS and not masks:
            arrays.append(name)
        else:
            ignored += 1
    images, ignored = (images, ignored + len(arrays)) if images else (arrays, ignored)
    for image in images:
        if not is_unicode(image):
            raise SnellenError(f"{short_repr(image)} in '{folder}' has a name that is not UTF-8; rename it")
    return sorted(images), ignored


def _files(folder: str | Path) -> Iterator[str]:
    """Paths of all files below a folder that are not hidden."""
    if isinstance(folder, str):
        yield from (entry.name for entry in list_url(folder) if not any(map(_hidden, entry.name.split("/"))))
        return
    visited: set[str] = set()
    for current, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(current)
        if real in visited:  # a link to a parent folder
            folders.clear()
            continue
        visited.add(real)
        folders[:] = [name for name in folders if not _hidden(name)]
        yield from ((Path(current) / name).relative_to(folder).as_posix() for name in files if not _hidden(name))


def _hidden(name: str) -> bool:
    return name.startswith(".") or name in ("__MACOSX", "Thumbs.db", "desktop.ini")


def _by_sub_folder(
    folder: str | Path, ids: Sequence[str], classes: Sequence[str] | None, notes: list[str]
) -> dict[str, int | None]:
    """Labels from the first sub-folder of each image; none if no image is in a sub-folder."""
    inside = [sample_id for sample_id in ids if "/" in sample_id]
    if not inside:
        return {}
    if len(inside) < len(ids):
        loose = next(sample_id for sample_id in ids if "/" not in sample_id)
        raise SnellenError(
            f"'{folder}' holds pictures beside class sub-folders ('{loose}' and '{inside[0]}'); "
            "move them into one, or give a CSV of labels"
        )
    names = sorted({sample_id.split("/")[0] for sample_id in inside})
    numbers = _numbers(folder, names, classes, notes)
    return {sample_id: numbers[sample_id.split("/")[0]] for sample_id in inside}


def _numbers(folder: str | Path, names: Sequence[str], classes: Sequence[str] | None, notes: list[str]) -> dict[str, int]:
    if all(name.isdecimal() for name in names):
        for name in names:
            if classes is not None and int(name) >= len(classes):
                place = below(str(folder), name)
                raise SnellenError(
                    f"the sub-folder '{place}' means class {name}, but classes go from 0 to {len(classes) - 1}"
                )
        return {name: int(name) for name in names}
    index_of = ClassIndices(classes or ())
    unknown = [name for name in names if name not in index_of]
    if not unknown:
        return {name: index_of[name] for name in names}
    if classes is not None and len(names) != len(classes):
        place = below(str(folder), unknown[0])
        raise SnellenError(
            f"the sub-folder '{place}' is no class of this classifier{nearest(unknown[0], classes)}; "
            "name sub-folders by class name or index, or give a CSV of labels"
        )
    examples = ", ".join(f"{name} = {place}" for place, name in enumerate(names[:3]))
    dots = ", ..." if len(names) > 3 else ""
    notes.append(f"sub-folders of '{folder}' are taken as classes in sorted order ({examples}{dots})")
    return {name: place for place, name in enumerate(names)}


def _masks(place: str | Path, ids: Sequence[str], notes: list[str]) -> dict[str, str]:
    """The mask file of each image that has one: same path or same name, apart from the suffix."""
    folder = check_url(place) if isinstance(place, str) and is_url(place) else Path(place)
    if isinstance(folder, Path) and not folder.is_dir():
        raise SnellenError(f"'{folder}' is not a folder of masks")
    by_stem: dict[str, str] = {}
    for picture in _pictures(folder, masks=True)[0]:
        stem = os.path.splitext(picture)[0]
        if stem in by_stem:
            raise SnellenError(f"'{by_stem[stem]}' and '{picture}' in '{folder}' are masks of the same picture; keep one")
        by_stem[stem] = picture
    owner: dict[str, str] = {}
    mask_of: dict[str, str] = {}
    for sample_id in ids:
        stem = os.path.splitext(sample_id)[0]
        match = next((key for key in (stem, stem.rsplit("/", 1)[-1]) if key in by_stem), None)
        if match is None:
            continue
        if match in owner:
            raise SnellenError(
                f"'{owner[match]}' and '{sample_id}' would share the mask '{by_stem[match]}'; give each its own stem"
            )
        owner[match] = sample_id
        mask_of[sample_id] = below(_root(folder), by_stem[match])
    if not mask_of:
        raise SnellenError(
            f"no mask in '{folder}' has the same stem as a picture, such as '{os.path.splitext(ids[0])[0]}.png'"
        )
    if len(mask_of) < len(ids):
        first = next(sample_id for sample_id in ids if sample_id not in mask_of)
        notes.append(f"{len(ids) - len(mask_of)} of {len(ids)} pictures have no mask in '{folder}', first '{first}'")
    if len(mask_of) < len(by_stem):
        notes.append(f"{len(by_stem) - len(mask_of)} masks in '{folder}' belong to no picture")
    return mask_of
