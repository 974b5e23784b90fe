"""Samples: a sequence of samples, each loaded when it is used."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from snellen.errors import SnellenError, short_repr
from snellen.types import Findings, Sample

Progress = Callable[[int, int], None]
"""Called with (images checked, images in total)."""


class UnreadablePictureError(SnellenError):
    """An image file that cannot be decoded; users may choose to skip such files."""


@runtime_checkable
class Source(Protocol):
    """Where samples are loaded from, such as paths or arrays; it does not keep decoded images."""

    def load(self, index: int) -> Sample:
        """The sample at this index."""
        ...

    def take(self, indices: Sequence[int]) -> Source:
        """A source of these samples only, small enough to send to another process."""
        ...


@dataclass(frozen=True, eq=False)
class Samples(Sequence[Sample]):
    """A sequence of samples that are loaded one by one. It can be pickled; `take` makes smaller parts of it."""

    source: Source
    """Where the samples are loaded from."""
    ids: tuple[str, ...]
    """Name of each sample."""
    places: tuple[int, ...]
    """Index of each sample in the source."""
    description: str
    """Where the samples come from."""
    digests: tuple[str, ...]
    """Checksum of each sample."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Id of each image that was skipped, and the reason."""
    notes: tuple[str, ...] = field(default=())
    """Sentences for the user."""
    pictures: int | None = None
    """Number of pictures, where a sample is one of several cases of a picture."""
    show_channels: tuple[int, ...] | None = None
    """Channels that pages show, counted from 1 (see `Reading`)."""

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> Samples: ...

    def __getitem__(self, index: int | slice) -> Sample | Samples:
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        return self.source.load(self.places[index])

    def take(self, indices: Iterable[int]) -> Samples:
        """These samples only. Files and arrays stay as they are; items of a torch Dataset are loaded."""
        chosen = list(indices)
        return replace(
            self,
            source=self.source.take([self.places[index] for index in chosen]),
            ids=tuple(self.ids[index] for index in chosen),
            places=tuple(range(len(chosen))),
            digests=tuple(self.digests[index] for index in chosen),
        )

    def digest(self, index: int) -> str:
        """Checksum of the pixels, label and truth of this sample."""
        return self.digests[index]

    def describe(self) -> str:
        """A line for reports: number of images, where they come from, number of skipped ones."""
        skipped = f", {len(self.skipped)} skipped as unreadable" if self.skipped else ""
        count = len(self) if self.pictures is None else self.pictures
        cases = "" if self.pictures is None else f"{len(self)} case{'' if len(self) == 1 else 's'} of "
        return f"{cases}{count} picture{'' if count == 1 else 's'} from {self.description}{skipped}"


@dataclass(frozen=True, eq=False)
class InMemory:
    """Samples in memory."""

    samples: tuple[Sample, ...]
    """The samples."""

    def load(self, index: int) -> Sample:
        """The sample at this index."""
        return self.samples[index]

    def take(self, indices: Sequence[int]) -> InMemory:
        """Copies of these samples: pickling a slice of a large tensor would pickle the whole tensor."""
        return InMemory(tuple(_copied(self.samples[index]) for index in indices))


def _copied(sample: Sample) -> Sample:
    truth = None if sample.truth is None else sample.truth.clone()
    truths = {index: region.clone() for index, region in sample.truths.items()}
    return replace(sample, image=sample.image.clone(), truth=truth, truths=truths)


def digest(sample: Sample) -> str:
    """Checksum of pixels, label or number, and truth, but not of the id."""
    content = hashlib.sha256()
    _add(content, sample.image)
    content.update(repr(sample.label).encode())
    if sample.truth is not None:
        _add(content, sample.truth)
    for index in sorted(sample.truths):
        content.update(repr(index).encode())
        _add(content, sample.truths[index])
    if sample.number is not None:
        content.update(f"number {sample.number!r}".encode())
    return content.hexdigest()


def _add(content: hashlib._Hash, tensor: Tensor) -> None:
    content.update(repr((str(tensor.dtype), tuple(tensor.shape))).encode())
    content.update(tensor.contiguous().numpy().tobytes())


def check_samples(
    source: Source,
    ids: Sequence[str],
    description: str,
    *,
    unreadable: str = "refuse",
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Samples:
    """Samples of a source; each is loaded once now, so that mistakes are found before anything is computed.

    Args:
        source: where samples are loaded from.
        ids: names of the samples; each must be unique.
        description: where they come from, for reports.
        unreadable: "refuse" or "skip" files that cannot be decoded.
        notes: sentences for the user, stored with the samples.
        progress: called with (images checked, images in total).
    """
    if unreadable not in ("refuse", "skip"):
        raise SnellenError(f"unreadable is 'refuse' or 'skip', not {unreadable!r}")
    if len(set(ids)) != len(ids):
        duplicate = next(sample_id for sample_id in ids if list(ids).count(sample_id) > 1)
        raise SnellenError(f"the sample id '{duplicate}' occurs twice; every sample needs its own")
    places: list[int] = []
    digests: list[str] = []
    problems: list[tuple[str, str]] = []
    first: tuple[str, tuple[int, ...]] | None = None
    for place, sample_id in enumerate(ids):
        try:
            sample = source.load(place)
        except UnreadablePictureError as problem:
            problems.append((sample_id, str(problem)))
        else:
            shape = tuple(sample.image.shape)
            if first is not None and shape != first[1]:
                raise SnellenError(
                    f"'{first[0]}' is {_size(first[1])} and '{sample_id}' is {_size(shape)}; "
                    "all pictures must have one size: give the side that the classifier takes, such as --size 224 "
                    "(in Python geometry=Geometry((224, 224)) of the Classifier)"
                )
            first = first or (sample_id, shape)
            places.append(place)
            digests.append(digest(sample))
        if progress is not None:
            progress(place + 1, len(ids))
    if problems and (unreadable == "refuse" or not places):
        more = f" (and {len(problems) - 1} more of {len(ids)} pictures cannot be used)" if len(problems) > 1 else ""
        remedy = "repair or remove it, or skip unreadable pictures" if places else "nothing is left to explain"
        raise SnellenError(f"{problems[0][1]}{more}; {remedy}")
    return Samples(
        source=source,
        ids=tuple(ids[place] for place in places),
        places=tuple(places),
        description=description,
        digests=tuple(digests),
        skipped=tuple(problems),
        notes=tuple(notes),
    )


def from_list(samples: Sequence[Any], *, numbers: bool = False, progress: Progress | None = None) -> Samples:
    """Samples from a list of `Sample`.

    Args:
        samples: the samples, with pixels in [0, 1].
        numbers: whether labels are numbers, for a classifier that estimates one.
        progress: called with (images checked, images in total).
    """
    if not samples:
        raise SnellenError("there are no samples: the list is empty")
    for place, sample in enumerate(samples):
        if not isinstance(sample, Sample):
            raise SnellenError(f"item {place} of the list is a {type(sample).__name__}, not a Sample")
        if not numbers:
            as_label(sample.label, f"'{sample.id}'")
        as_number(sample.number, f"'{sample.id}'")
        check_pixels(sample.image, sample.id)
    if numbers:
        samples = [
            replace(sample, label=None, number=as_number(sample.label, f"'{sample.id}'"))
            if sample.label is not None and sample.number is None
            else sample
            for sample in samples
        ]
    return check_samples(InMemory(tuple(samples)), [sample.id for sample in samples], "a list", progress=progress)


def check_pixels(image: Tensor, name: str) -> None:
    """Refuses images that are not pixels in [0, 1]."""
    if not bool(torch.isfinite(image).all()):
        raise SnellenError(f"'{name}' holds NaN or infinite pixels")
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:
        raise SnellenError(
            f"'{name}' has values from {low:.3g} to {high:.3g}, but pixels lie in [0, 1]; "
            "leave normalisation to the Classifier (mean=, std=)"
        )


def as_label(value: Any, name: str) -> int | Findings | None:
    """A class index from an int, numpy or torch number; findings from a list; None for an unlabelled sample."""
    if value is None or isinstance(value, Findings):
        return value
    if isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.tolist()
        if isinstance(value, list) and len(value) != 1:
            return as_findings(value, name)  # a mark per label; a list of Python's holds indices
        value = value[0] if isinstance(value, list) else value
    if isinstance(value, list | tuple | set | frozenset):
        indices = [as_label(index, name) for index in value]
        if not all(isinstance(index, int) for index in indices):
            raise SnellenError(f"the labels of {name} are {short_repr(value)}; give a list of class indices from 0")
        return Findings(tuple(sorted({index for index in indices if isinstance(index, int)})))
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SnellenError(f"the label of {name} is {value!r}; a label is a class index from 0, a list of them, or None")
    return value


def as_number(value: Any, name: str) -> float | None:
    """The true number of a sample; None for what is unknown: None, empty or NaN.

    >>> as_number("41.5", "x"), as_number("", "x"), as_number(63, "x")
    (41.5, None, 63.0)
    """
    if isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.tolist()
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = math.inf if isinstance(value, bool | list) else float(value)
    except (TypeError, ValueError):
        number = math.inf
    if math.isinf(number):
        raise SnellenError(
            f"the label of {name} is {value!r}; the model estimates a number, so a label is a number or empty"
        )
    return None if math.isnan(number) else number


def as_finding(value: Any, name: str) -> bool | None:
    """Whether a label is right, from 1 or 0; None for what is unknown: empty, NaN, or -1 for uncertain.

    >>> as_finding("1.0", "x"), as_finding("0", "x"), as_finding("-1", "x"), as_finding("", "x")
    (True, False, None, None)
    """
    text = str(value).strip()
    if text in ("", "nan", "None"):
        return None
    try:
        return {1.0: True, 0.0: False, -1.0: None}[float(text)]
    except (ValueError, KeyError):
        raise SnellenError(f"{name} is {text!r}; a finding is 1 (present), 0 (absent), or empty or -1 (unknown)") from None


def as_findings(row: Iterable[Any], name: str) -> Findings:
    """Findings from a row with a value per label."""
    values = [as_finding(value, f"label {place} of {name}") for place, value in enumerate(row)]
    return Findings(
        present=tuple(place for place, value in enumerate(values) if value is True),
        absent=tuple(place for place, value in enumerate(values) if value is False),
        columns=len(values),
    )


def _size(shape: Sequence[int]) -> str:
    return "×".join(map(str, (*shape[1:], shape[0])))
