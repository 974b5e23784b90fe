"""A folder of pictures as samples: class sub-folders or a table of labels, and masks or boxes as truth."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from snellen.errors import SnellenError, nearest, short_repr
from snellen.files.documents import is_unicode
from snellen.images.decoding import SUFFIXES
from snellen.images.files import Entry, from_entries
from snellen.images.geometry import Geometry
from snellen.images.samples import Progress, Samples
from snellen.images.tables import indices, plain, read_boxes, read_labels


def from_folder(
    path: str | Path,
    *,
    geometry: Geometry,
    channels: int = 3,
    labels: str | Path | None = None,
    masks: str | Path | None = None,
    boxes: str | Path | None = None,
    classes: Sequence[str] | None = None,
    unreadable: str = "refuse",
    progress: Progress | None = None,
) -> Samples:
    """All pictures in a folder and its sub-folders, by name; each is checked now, and loaded when needed.

    `labels` is a CSV with the columns file and label, and perhaps group (a patient, say). Without it, pictures in
    sub-folders are labelled by the first sub-folder: its name is a class index or a class name, or stands for its place in
    sorted order (the notes say so).
    `masks` is a folder with a picture of the same stem for each picture that has a truth; what is not zero is marked.
    `boxes` is a CSV with the columns file, x0, y0, x1, y1 in pixels of the upright original.
    """
    folder = Path(path)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise SnellenError(f"'{folder}' {what}; give a folder of pictures")
    if masks is not None and boxes is not None:
        raise SnellenError("give masks or boxes as truth, not both")
    ids, ignored = _pictures(folder)
    notes = [f"{ignored} file{'' if ignored == 1 else 's'} in '{folder}' ignored: not pictures by name"] if ignored else []
    if not ids:
        beside = f" ({ignored} other files are there)" if ignored else ""
        raise SnellenError(f"'{folder}' holds no pictures{beside}; pictures end in .jpg, .png and the like")
    known: dict[str, int | None]
    groups: dict[str, str] = {}
    if labels is not None:
        known, groups = read_labels(labels, ids, classes)
    else:
        known = _by_sub_folder(folder, ids, classes, notes)
    marks = _masks(Path(masks), ids, notes) if masks is not None else {}
    boxed = read_boxes(boxes, ids) if boxes is not None else {}
    entries = [
        Entry(
            sample_id,
            os.path.abspath(folder / sample_id),
            known.get(sample_id),
            marks.get(sample_id),
            boxed.get(sample_id, ()),
            groups.get(sample_id),
        )
        for sample_id in ids
    ]
    return from_entries(
        entries,
        f"'{folder}'",
        geometry=geometry,
        channels=channels,
        unreadable=unreadable,
        notes=notes,
        progress=progress,
    )


def _pictures(folder: Path) -> tuple[list[str], int]:
    """Paths of pictures below the folder, sorted, and how many other files lie there; hidden ones do not count."""
    found: list[str] = []
    ignored = 0
    been: set[str] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in been:  # a link that leads back up
            folders.clear()
            continue
        been.add(real)
        folders[:] = [name for name in folders if not _hidden(name)]
        for name in files:
            if _hidden(name):
                continue
            if os.path.splitext(name)[1].lower() in SUFFIXES:
                found.append((Path(here) / name).relative_to(folder).as_posix())
            else:
                ignored += 1
    for one in found:
        if not is_unicode(one):
            raise SnellenError(f"{short_repr(one)} in '{folder}' has a name that is not UTF-8; rename it")
    return sorted(found), ignored


def _hidden(name: str) -> bool:
    return name.startswith(".") or name in ("__MACOSX", "Thumbs.db", "desktop.ini")


def _by_sub_folder(
    folder: Path, ids: Sequence[str], classes: Sequence[str] | None, notes: list[str]
) -> dict[str, int | None]:
    """Labels from the first sub-folder of each picture; pictures that lie in no sub-folder have none."""
    inside = [sample_id for sample_id in ids if "/" in sample_id]
    if not inside:
        return {}
    if len(inside) < len(ids):
        loose = next(sample_id for sample_id in ids if "/" not in sample_id)
        raise SnellenError(
            f"'{folder}' holds pictures beside class sub-folders ('{loose}' and '{inside[0]}'); "
            "move them into one, or give a CSV of labels"
        )
    names = sorted({one.split("/")[0] for one in inside})
    numbers = _numbers(folder, names, classes, notes)
    return {one: numbers[one.split("/")[0]] for one in inside}


def _numbers(folder: Path, names: Sequence[str], classes: Sequence[str] | None, notes: list[str]) -> dict[str, int]:
    if all(name.isdecimal() for name in names):
        for name in names:
            if classes is not None and int(name) >= len(classes):
                raise SnellenError(
                    f"the sub-folder '{folder / name}' means class {name}, but classes go from 0 to {len(classes) - 1}"
                )
        return {name: int(name) for name in names}
    index_of = indices(classes or ())
    strangers = [name for name in names if plain(name) not in index_of]
    if not strangers:
        return {name: index_of[plain(name)] for name in names}
    if classes is not None and len(names) != len(classes):
        raise SnellenError(
            f"the sub-folder '{folder / strangers[0]}' is no class of this classifier{nearest(strangers[0], classes)}; "
            "name sub-folders by class name or index, or give a CSV of labels"
        )
    shown = ", ".join(f"{name} = {place}" for place, name in enumerate(names[:3]))
    dots = ", ..." if len(names) > 3 else ""
    notes.append(f"sub-folders of '{folder}' are taken as classes in sorted order ({shown}{dots})")
    return {name: place for place, name in enumerate(names)}


def _masks(folder: Path, ids: Sequence[str], notes: list[str]) -> dict[str, str]:
    """The mask file of each picture that has one: same path, or same name, without regard to the suffix."""
    if not folder.is_dir():
        raise SnellenError(f"'{folder}' is not a folder of masks")
    by_stem: dict[str, str] = {}
    for picture in _pictures(folder)[0]:
        stem = os.path.splitext(picture)[0]
        if stem in by_stem:
            raise SnellenError(f"'{by_stem[stem]}' and '{picture}' in '{folder}' are masks of the same picture; keep one")
        by_stem[stem] = picture
    owner: dict[str, str] = {}
    found: dict[str, str] = {}
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
        found[sample_id] = os.path.abspath(folder / by_stem[match])
    if not found:
        raise SnellenError(
            f"no mask in '{folder}' has the same stem as a picture, such as '{os.path.splitext(ids[0])[0]}.png'"
        )
    if len(found) < len(ids):
        bare = next(sample_id for sample_id in ids if sample_id not in found)
        notes.append(f"{len(ids) - len(found)} of {len(ids)} pictures have no mask in '{folder}', first '{bare}'")
    if len(found) < len(by_stem):
        notes.append(f"{len(by_stem) - len(found)} masks in '{folder}' belong to no picture")
    return found
