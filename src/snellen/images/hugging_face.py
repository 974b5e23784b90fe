"""Samples from a `datasets.Dataset` of Hugging Face, or from a folder that its `save_to_disk` wrote."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from snellen.errors import SnellenError, first_line
from snellen.images.dataset import from_dataset
from snellen.images.decoding import decode
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.reading import AS_STORED, Reading
from snellen.images.samples import Progress, Samples
from snellen.images.tables import ClassIndices, plain_name


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return (folder / "dataset_dict.json").is_file() or all(
        (folder / name).is_file() for name in ("dataset_info.json", "state.json")
    )


def is_dataset(source: Any) -> bool:
    """Whether an object comes from the package `datasets`, by its module, without importing it."""
    return type(source).__module__.partition(".")[0] == "datasets"


@dataclass(frozen=True, eq=False)
class HuggingFaceItems:
    """Rows of a data set as (image, label)."""

    rows: Any
    """With undecoded images, so that the limits of decoding hold."""
    image: str
    """Name of the image column."""
    label: str | None
    """Name of the label column."""
    index_of: Mapping[int, int] | None
    """The classifier's index of each label, where names say so."""
    reading: Reading
    """How stored values become pixels."""
    numbers: bool
    """Whether labels are numbers."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Image.Image, Any]:
        row = self.rows[index]
        return self._decoded(row[self.image], index), None if self.label is None else self._label(row[self.label])

    def _decoded(self, stored: Any, index: int) -> Image.Image:
        name = f"item {index}"
        if stored is None:
            raise SnellenError(f"{name} of the dataset has no image; filter it out")
        if stored.get("bytes") is not None:
            return decode(name, content=io.BytesIO(stored["bytes"]), reading=self.reading).image
        return decode(stored["path"], reading=self.reading).image

    def _label(self, value: Any) -> Any:
        if self.numbers:
            return value
        if isinstance(value, list):
            return [self._label(part) for part in value]
        if value is None or value == -1:  # how data sets write that a label is not known
            return None
        return value if self.index_of is None else self.index_of[value]


def from_hugging_face(
    source: Any,
    *,
    geometry: Geometry = AS_IS,
    channels: int = 3,
    classes: Sequence[str] | None = None,
    numbers: bool = False,
    reading: Reading = AS_STORED,
    progress: Progress | None = None,
) -> Samples:
    """Samples from a Dataset with an image column and perhaps a label column, or from its folder.

    Args:
        source: a `datasets.Dataset`, or a folder that `save_to_disk` wrote.
        geometry: how images are cropped and resized.
        channels: 3, or 1 for greyscale.
        classes: names of the classifier's classes; labels with the same names are matched by name.
        numbers: whether labels are numbers, for a classifier that estimates one.
        reading: how stored values become pixels.
        progress: called with (images checked, images in total).
    """
    owner = f"'{source}'" if isinstance(source, str | Path) else "the dataset"
    if channels not in (1, 3):
        raise SnellenError(f"{owner} holds pictures of 1 or 3 channels, but the classifier takes {channels}; give arrays")
    if reading.window is not None:
        raise SnellenError(f"--window is for DICOM files, but {owner} is a Hugging Face data set; leave it out")
    try:
        import datasets
    except ImportError:
        raise SnellenError(f"{owner} is a Hugging Face data set; install snellen[datasets] to read it") from None
    rows = _loaded(datasets, source, owner)
    if isinstance(rows, dict):
        splits = sorted(rows)
        remedy = f"'{Path(source) / splits[0]}'" if isinstance(source, str | Path) else f"dataset['{splits[0]}']"
        raise SnellenError(f"{owner} holds the splits {', '.join(splits)}; give one of them, such as {remedy}")
    if not isinstance(rows, datasets.Dataset):
        raise SnellenError(f"{owner} is a {type(rows).__name__}, which is read as a stream; give a datasets.Dataset")
    image = _image_column(datasets, rows, owner)
    label = _number_column(datasets, rows, classes, owner) if numbers else _label_column(datasets, rows, owner)
    notes: list[str] = []
    index_of = None if label is None or numbers else _indices(rows.features[label], classes, notes, owner)
    undecoded = rows.with_format(None).cast_column(image, datasets.Image(decode=False))
    columns = [image] if label is None else [image, label]
    return from_dataset(
        HuggingFaceItems(
            rows=undecoded.select_columns(columns),
            image=image,
            label=label,
            index_of=index_of,
            reading=reading,
            numbers=numbers,
        ),
        geometry=geometry,
        channels=channels,
        numbers=numbers,
        show_channels=reading.show_channels,
        description=(owner if isinstance(source, str | Path) else "a Hugging Face data set") + reading.words(channels),
        notes=notes,
        progress=progress,
    )


def _loaded(datasets: Any, source: Any, owner: str) -> Any:
    if not isinstance(source, str | Path):
        return source
    try:
        return datasets.load_from_disk(str(source))
    except Exception as problem:
        raise SnellenError(f"{owner} cannot be read as a Hugging Face data set ({first_line(problem)})") from None


def _image_column(datasets: Any, rows: Any, owner: str) -> str:
    images = [str(name) for name, feature in rows.features.items() if isinstance(feature, datasets.Image)]
    if len(images) == 1:
        return images[0]
    if "image" in images:
        return "image"
    columns = ", ".join(images or rows.column_names)
    problem = "several image columns" if images else "no image column"
    raise SnellenError(f"{owner} has {problem} ({columns}); keep one, of the feature type Image, called image")


def _label_column(datasets: Any, rows: Any, owner: str) -> str | None:
    """The column of class labels, or one that is called label or labels and holds whole numbers; None without any."""
    labels = [str(name) for name, feature in rows.features.items() if isinstance(_inner(feature), datasets.ClassLabel)]
    named = [name for name in ("label", "labels") if name in rows.features]
    if named and (named[0] in labels or "int" in str(getattr(_inner(rows.features[named[0]]), "dtype", ""))):
        return named[0]
    if len(labels) > 1:
        raise SnellenError(f"{owner} has several label columns ({', '.join(labels)}); call the one to use label")
    return labels[0] if labels else None


def _number_column(datasets: Any, rows: Any, names: Sequence[str] | None, owner: str) -> str | None:
    """The column of numbers: one that is called label, labels or number, or as the classifier's output; None without any."""
    outputs = ClassIndices(names or ())
    columns = [str(name) for name in rows.features if name in ("label", "labels", "number") or name in outputs]
    if len(columns) > 1:
        raise SnellenError(f"{owner} has several columns of labels ({', '.join(columns)}); keep one")
    if columns and isinstance(_inner(rows.features[columns[0]]), datasets.ClassLabel):
        raise SnellenError(f"the column {columns[0]} of {owner} holds classes, but the model estimates a number")
    return columns[0] if columns else None


def _inner(feature: Any) -> Any:
    """The feature of each entry where a column holds lists."""
    if isinstance(feature, list):
        return feature[0]
    return getattr(feature, "feature", feature)


def _indices(feature: Any, classes: Sequence[str] | None, notes: list[str], owner: str) -> dict[int, int] | None:
    """The classifier's index of each label by name; None where labels are taken as indices."""
    names = getattr(_inner(feature), "names", None)
    if not names or classes is None or all(name.isdecimal() for name in names):
        return None
    if [*map(plain_name, names)] == [*map(plain_name, classes)]:  # two of them may have one name
        return None
    index_of = ClassIndices(classes)
    if all(name in index_of for name in names):
        return {place: index_of[name] for place, name in enumerate(names)}
    unknown = next(name for name in names if name not in index_of)
    if len(names) != len(classes):
        raise SnellenError(
            f"the label '{unknown}' of {owner} is no class of this classifier; name the labels as its classes are named"
        )
    notes.append(f"labels of {owner} are taken as classes in their order: {names[0]} = 0 and so on")
    return None
