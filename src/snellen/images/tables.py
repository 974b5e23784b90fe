"""CSV files, on disk or on object storage, with labels and boxes of images."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from snellen.errors import SnellenError, nearest
from snellen.files.remote import is_url, read_url
from snellen.images.geometry import Box
from snellen.images.samples import as_finding, as_number
from snellen.types import Findings


def read_labels(
    path: str | Path, ids: Sequence[str], classes: Sequence[str] | None, notes: list[str] | None = None
) -> tuple[dict[str, int | Findings | None], dict[str, str]]:
    """The label of every image, and the group of each image that has one.

    Args:
        path: a CSV with the columns file and label, and optionally group. A label is a class index or a class name; an empty
            label means unlabelled, an empty group no group. Where several labels are right, a file has several rows, or
            labels are separated by `;`. Instead of label there may be a column per finding, named as the class: 1 is
            present, 0 is absent, empty or -1 is unknown.
        ids: the images, by their paths in the folder.
        classes: names of the classes.
        notes: sentences for the user are added here.
    """
    path = str(path)
    find = _finder(ids, path)
    index_of = ClassIndices(classes or ())
    headings = _headings(path)
    columns = tuple(name for name in headings if re.fullmatch(r"label([ _-]?\d+)?", name)) or ("label",)
    findings = {name: index_of[name] for name in headings if name in index_of}
    classes_of_columns = [findings[name] for name in headings if name in findings]
    if twice := next((name for name in findings if classes_of_columns.count(findings[name]) > 1), None):
        raise SnellenError(f"'{path}' has two columns of the class '{twice}'; keep one")
    if columns[0] in headings:
        findings = {}
    if findings and notes is not None:
        notes += _unused_columns(path, headings, findings, classes or ())
    labels: dict[str, list[int | Findings | None]] = {}
    groups: dict[str, str] = {}
    remedy = (
        f"; or name a column after each class, such as '{classes[0]}', with 1 for present and 0 for absent"
        if classes
        else "; if it has a column per finding, state the findings with --classes"
    )
    for line, row in _rows(path, ("file", *(findings or columns)), ("group",), remedy="" if findings else remedy):
        where = f"'{path}', line {line}"
        sample_id = find(row["file"], line)
        group = row["group"].strip()
        if sample_id in labels and groups.get(sample_id, "") != group:
            raise SnellenError(f"{where}: '{sample_id}' has a second, different group")
        if group:
            groups[sample_id] = group
        if findings:
            states = {index: as_finding(row[name], f"{where}: {name}") for name, index in findings.items()}
            present, absent = (sorted(index for index in states if states[index] is state) for state in (True, False))
            labels.setdefault(sample_id, []).append(Findings(tuple(present), tuple(absent)))
        else:
            cells = [row[name] for name in columns if row[name].strip()] or [""]
            for cell in cells:
                labels.setdefault(sample_id, []).extend(_labels(cell, classes, index_of, where))
    _refuse_missing(path, ids, labels)
    return {sample_id: _joined(stated, f"'{path}': '{sample_id}'") for sample_id, stated in labels.items()}, groups


def _unused_columns(path: str, headings: Sequence[str], findings: Mapping[str, int], classes: Sequence[str]) -> list[str]:
    """What a table with a column per finding leaves unknown, and which of its columns are no classes."""
    absent = [name for index, name in enumerate(classes) if index not in findings.values()]
    others = [name for name in headings if name not in (*findings, "file", "group")]
    notes = []
    if absent:
        notes.append(f"'{path}' has no column for {_some(absent)}: unknown for every image")
    if others:
        notes.append(f"'{path}' has columns that are no classes and are not read: {_some(others)}")
    return notes


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(f"'{name}'" for name in names[: 3 if more else 4]) + more


def read_numbers(
    path: str | Path, ids: Sequence[str], names: Sequence[str] | None = None
) -> tuple[dict[str, float | None], dict[str, str]]:
    """The true number and the group of images, from a CSV with a row for each, for a model that estimates a number.

    Args:
        path: the CSV, with the columns file and optionally group. The number stands in the column label or number, or in
            that which is named as the model's output, or else in the only other column; an empty number is unknown.
        ids: the images, by their paths in the folder.
        names: the name of the model's output.
    """
    path = str(path)
    find = _finder(ids, path)
    outputs = ClassIndices(names or ())
    others = [name for name in _headings(path) if name not in ("file", "group")]
    columns = [name for name in others if plain_name(name) in ("label", "number") or name in outputs] or others
    if len(columns) > 1:
        raise SnellenError(
            f"'{path}' has the columns {', '.join(columns)}, but the model estimates one number; call its column label"
        )
    numbers: dict[str, float | None] = {}
    groups: dict[str, str] = {}
    for line, row in _rows(path, ("file", *(columns or ["label"])), ("group",)):
        where = f"'{path}', line {line}"
        sample_id = find(row["file"], line)
        number = as_number(row[columns[0]], where)
        if sample_id in numbers and (numbers[sample_id], groups.get(sample_id, "")) != (number, row["group"].strip()):
            raise SnellenError(f"{where}: '{sample_id}' has a second, different row; keep one")
        numbers[sample_id] = number
        if row["group"].strip():
            groups[sample_id] = row["group"].strip()
    _refuse_missing(path, ids, numbers)
    return numbers, groups


def _refuse_missing(path: str, ids: Sequence[str], rows: Collection[str]) -> None:
    missing = [sample_id for sample_id in ids if sample_id not in rows]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise SnellenError(f"'{path}' has no row for '{missing[0]}'{more}; add it (an empty label means unknown)")


def _joined(stated: Sequence[int | Findings | None], owner: str) -> int | Findings | None:
    """One label from all that a table states about an image."""
    distinct = list(dict.fromkeys(stated))
    if len(distinct) == 1:
        return distinct[0]
    if any(isinstance(label, Findings) for label in distinct):
        raise SnellenError(f"{owner} has two rows with different findings; keep one")
    present = [label for label in distinct if isinstance(label, int)]
    return present[0] if len(present) == 1 else Findings(tuple(sorted(present)))


def read_boxes(path: str | Path, ids: Sequence[str]) -> dict[str, tuple[Box, ...]]:
    """The boxes of images from a CSV with the columns file, x0, y0, x1, y1; a file may have several rows."""
    find = _finder(ids, str(path))
    boxes: dict[str, tuple[Box, ...]] = {}
    for line, row in _rows(str(path), ("file", "x0", "y0", "x1", "y1")):
        sample_id = find(row["file"], line)
        try:
            x0, y0, x1, y1 = (float(row[key]) for key in ("x0", "y0", "x1", "y1"))
        except ValueError:
            x0 = y0 = x1 = y1 = math.nan
        if not all(map(math.isfinite, (x0, y0, x1, y1))):
            raise SnellenError(f"'{path}', line {line}: x0, y0, x1, y1 must be numbers of pixels")
        boxes[sample_id] = (*boxes.get(sample_id, ()), (x0, y0, x1, y1))
    return boxes


def plain_name(name: str) -> str:
    """A class name in a normal form: equal for `tiger cat`, `Tiger_cat` and `tiger-cat`."""
    return " ".join(name.replace("_", " ").replace("-", " ").casefold().split())


class ClassIndices:
    """The indices of classes by name, in any of the spellings that `plain` takes as equal.

    A name that two classes share is refused where it is used: some lists of the ImageNet classes call both the bird and the
    machine crane.
    """

    def __init__(self, classes: Sequence[str]) -> None:
        self.places: dict[str, list[int]] = {}
        for place, name in enumerate(classes):
            self.places.setdefault(plain_name(name), []).append(place)

    def __contains__(self, name: str) -> bool:
        return plain_name(name) in self.places

    def __getitem__(self, name: str) -> int:
        first, *others = self.places[plain_name(name)]
        if others:
            raise SnellenError(f"'{name}' is the name of the classes {first} and {others[0]}; write the number of the class")
        return first


def _labels(text: str, classes: Sequence[str] | None, index_of: ClassIndices, where: str) -> list[int | Findings | None]:
    """The labels in a cell: one, or several with `;`, `|` or `,` between them."""
    parts = [part.strip() for part in re.split("[;|,]", text) if part.strip()]
    if text not in index_of and len(parts) > 1 and all(part.isdigit() or part in index_of for part in parts):
        return [_label(part, classes, index_of, where) for part in parts]
    return [_label(text, classes, index_of, where)]


def _label(text: str, classes: Sequence[str] | None, index_of: ClassIndices, where: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        label = int(text)
        if label < 0 or (classes is not None and label >= len(classes)):
            last = f" (0 to {len(classes) - 1})" if classes is not None else ""
            raise SnellenError(f"{where}: label {label} is out of range{last}")
        return label
    if classes is None:
        raise SnellenError(f"{where}: the label '{text}' is a name, but no class names are known; write the class index")
    if text not in index_of:
        raise SnellenError(f"{where}: the label '{text}' is no class of this classifier{nearest(text, classes)}")
    return index_of[text]


def label_in_cell(text: str, classes: Sequence[str] | None, where: str) -> int | Findings | None:
    """The label that a cell states: a class index or name, or several with `;`, `|` or `,` between them.

    Args:
        text: the cell.
        classes: names of the classes.
        where: names the cell in error messages.
    """
    return _joined(_labels(text, classes, ClassIndices(classes or ()), where), where)


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    """The text of a file or of an object."""
    if is_url(path):
        yield io.StringIO(read_url(path).decode("utf-8-sig"), newline="")
        return
    with open(path, newline="", encoding="utf-8-sig") as opened:
        yield opened


def _headings(path: str) -> list[str]:
    """The column names of a CSV file."""
    try:
        with _opened(path) as opened:
            return next(csv.reader(opened, skipinitialspace=True), [])
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise _unreadable(path, problem) from None


def _rows(
    path: str, columns: Sequence[str], optional: Sequence[str] = (), *, remedy: str = ""
) -> list[tuple[int, dict[str, str]]]:
    headings = _headings(path)
    missing = [name for name in columns if name not in headings]
    if missing:
        raise SnellenError(
            f"'{path}' needs the columns {', '.join(columns)} in its first line, but '{missing[0]}' is missing"
            f"{'' if missing[0] == 'file' else remedy}"
        )
    try:
        with _opened(path) as opened:
            reader = csv.DictReader(opened, skipinitialspace=True)
            rows = []
            for row in reader:
                if any(extra := row.get(None) or ()):  # cells beyond the last heading
                    raise SnellenError(
                        f"'{path}', line {reader.line_num}: '{row['file']}' has more cells ({', '.join(extra)}) than there "
                        "are columns; write several labels in several rows, or with ; between them"
                    )
                rows.append((reader.line_num, {name: row.get(name) or "" for name in (*columns, *optional)}))
            return rows
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise _unreadable(path, problem) from None


def _unreadable(path: str, problem: Exception) -> SnellenError:
    reason = problem.strerror if isinstance(problem, OSError) else problem
    return SnellenError(f"'{path}' cannot be read as a CSV file ({reason})")


def _finder(ids: Sequence[str], path: str) -> Callable[[str, int], str]:
    """A function that finds an image by its path in the folder, or by its name if that is unique."""
    paths = set(ids)
    by_name: dict[str, list[str]] = {}
    for sample_id in ids:
        by_name.setdefault(sample_id.rsplit("/", 1)[-1], []).append(sample_id)

    def find(text: str, line: int) -> str:
        name = text.strip().replace("\\", "/").removeprefix("./")
        if name in paths:
            return name
        matches = by_name.get(name, [])
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise SnellenError(f"'{path}', line {line}: '{name}' could be '{matches[0]}' or '{matches[1]}'; write the path")
        raise SnellenError(f"'{path}', line {line}: there is no picture '{name}'{nearest(name, ids)}")

    return find
