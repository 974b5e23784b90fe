"""Samples: a sequence of samples, each loaded when it is used."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from snellen.errors import SnellenError, short_repr
from snellen.images.columns import Digests, Names, index_array
from snellen.types import Findings, Sample

if TYPE_CHECKING:
    from snellen.images.identity import Identified

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


@runtime_checkable
class Fetching(Source, Protocol):
    """A source that can fetch several samples at the same time."""

    def fetched(self, places: Sequence[int]) -> tuple[Source, int]:
        """The same source with the first samples of these places at hand, and how many they are: at least one."""
        ...


@dataclass(frozen=True, eq=False)
class Samples(Sequence[Sample]):
    """A sequence of samples that are loaded one by one. It can be pickled; `take` makes smaller parts of it.

    Ids and checksums are held in arrays, so that a list of a million pictures takes about 100 MB.
    """

    source: Source
    """Where the samples are loaded from."""
    ids: Names
    """Name of each sample."""
    places: np.ndarray
    """Index of each sample in the source."""
    description: str
    """Where the samples come from."""
    digests: Digests
    """Checksum of each sample."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Id of each image that was skipped, and the reason."""
    notes: tuple[str, ...] = field(default=())
    """Sentences for the user."""
    pictures: int | None = None
    """Number of pictures, where a sample is one of several cases of a picture."""
    show_channels: tuple[int, ...] | None = None
    """Channels that pages show, counted from 1 (see `Reading`)."""
    shape: tuple[int, ...] | None = None
    """Shape of every image, where not all were loaded to check that; others are refused when they are loaded."""

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> Samples: ...

    def __getitem__(self, index: int | slice) -> Sample | Samples:
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        return self._checked(self.source.load(int(self.places[index])))

    def __iter__(self) -> Iterator[Sample]:
        for sample in readable(self.source, self.places.tolist()):
            if isinstance(sample, UnreadablePictureError):
                raise sample
            yield self._checked(sample)

    def take(self, indices: Iterable[int]) -> Samples:
        """These samples only. Files and arrays stay as they are; items of a torch Dataset are loaded.

        As many samples as there are, such as all in another order, stay on the same source, which costs little.
        """
        chosen = index_array(indices if isinstance(indices, Sequence | np.ndarray) else list(indices))
        chosen = np.where(chosen < 0, chosen + len(self), chosen)
        whole = len(chosen) == len(self)
        return replace(
            self,
            source=self.source if whole else self.source.take(self.places[chosen].tolist()),
            ids=self.ids.take(chosen),
            places=self.places[chosen] if whole else np.arange(len(chosen)),
            digests=self.digests.take(chosen),
        )

    def digest(self, index: int) -> str:
        """Checksum of the pixels, label and truth of this sample."""
        return self.digests[index]

    def _checked(self, sample: Sample) -> Sample:
        if self.shape is not None and tuple(sample.image.shape) != self.shape:
            raise _of_another_size("the first picture", self.shape, sample.id, tuple(sample.image.shape))
        return sample

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


def readable(source: Source, places: Iterable[int]) -> Iterator[Sample | UnreadablePictureError]:
    """The samples at these places of a source, one after the other, or why a picture cannot be read.

    Where a source can fetch several at once, as from object storage, it does.
    """
    remaining = list(places)
    while remaining:
        part, count = source.fetched(remaining) if isinstance(source, Fetching) else (source, len(remaining))
        for place in remaining[:count]:
            try:
                sample: Sample | UnreadablePictureError = part.load(place)
            except UnreadablePictureError as problem:
                sample = problem
            yield sample
        remaining = remaining[count:]


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


CHECKED = 20_000
"""Most pictures of a list that are all loaded first, where nothing else is asked for."""

FIRST = 64
"""How many pictures are loaded first of longer lists."""


def checks_all(count: int, check: str | None, unreadable: str = "refuse") -> bool:
    """Whether all of so many pictures are loaded first, rather than the first ones."""
    if check not in (None, "all", "first"):
        raise SnellenError(f"check is 'all' or 'first', not {check!r}")
    if check == "first" and unreadable == "skip":
        raise SnellenError("to skip pictures that cannot be read, all must be read first; leave out --check first")
    return check == "all" or (check is None and (count <= CHECKED or unreadable == "skip"))


def check_samples(
    source: Source,
    ids: Sequence[str],
    description: str,
    *,
    unreadable: str = "refuse",
    check: str | None = "all",
    identify: Callable[[], Identified] | None = None,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Samples:
    """Samples of a source; each is loaded once now, so that mistakes are found before anything is computed.

    Of a long list, or where `check` is "first", only the first pictures are loaded. The others are identified by what is
    known about their files, which a note says, and mistakes in them are found by whoever loads them.

    Args:
        source: where samples are loaded from.
        ids: names of the samples; each must be unique.
        description: where they come from, for reports.
        unreadable: "refuse" or "skip" files that cannot be decoded.
        check: "all" or "first"; None loads all of at most `CHECKED`.
        identify: identifies the samples without loading them; all are loaded without it.
        notes: sentences for the user, stored with the samples.
        progress: called with (images checked, images in total).
    """
    if unreadable not in ("refuse", "skip"):
        raise SnellenError(f"unreadable is 'refuse' or 'skip', not {unreadable!r}")
    names = ids if isinstance(ids, Names) else Names(ids)
    if (duplicate := names.duplicate()) is not None:
        raise SnellenError(f"the sample id '{duplicate}' occurs twice; every sample needs its own")
    if identify is not None and not checks_all(len(names), check, unreadable):
        return _first_checked(identify(), names, description, notes, progress)
    places: list[int] = []
    digests: list[str] = []
    problems: list[tuple[str, str]] = []
    first: tuple[str, tuple[int, ...]] | None = None
    for place, (sample_id, sample) in enumerate(zip(names, readable(source, range(len(names))), strict=True)):
        if isinstance(sample, UnreadablePictureError):
            problems.append((sample_id, str(sample)))
        else:
            shape = tuple(sample.image.shape)
            if first is not None and shape != first[1]:
                raise _of_another_size(f"'{first[0]}'", first[1], sample_id, shape)
            first = first or (sample_id, shape)
            places.append(place)
            digests.append(digest(sample))
        if progress is not None:
            progress(place + 1, len(names))
    if problems and (unreadable == "refuse" or not places):
        more = f" (and {len(problems) - 1} more of {len(names)} pictures cannot be used)" if len(problems) > 1 else ""
        remedy = "repair or remove it, or skip unreadable pictures" if places else "nothing is left to explain"
        raise SnellenError(f"{problems[0][1]}{more}; {remedy}")
    return Samples(
        source=source,
        ids=names.take(places),
        places=index_array(places),
        description=description,
        digests=Digests(digests),
        skipped=tuple(problems),
        notes=tuple(notes),
    )


def _first_checked(
    identified: Identified, names: Names, description: str, notes: Sequence[str], progress: Progress | None
) -> Samples:
    """Samples of which only the first are loaded."""
    first = check_samples(identified.source, names[:FIRST], description, progress=progress)
    note = (
        f"the first {len(first)} of {len(names):,} pictures were checked, and all are identified by {identified.words}, "
        "not by their pixels; --check all reads every picture first"
    )
    return Samples(
        source=identified.source,
        ids=names,
        places=np.arange(len(names)),
        description=description,
        digests=identified.digests,
        notes=(*notes, note),
        shape=tuple(first[0].image.shape),
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


def _of_another_size(first: str, size: Sequence[int], name: str, other: Sequence[int]) -> SnellenError:
    return SnellenError(
        f"{first} is {_size(size)} and '{name}' is {_size(other)}; all pictures must have one size: give the side that the "
        "classifier takes, such as --size 224 (in Python geometry=Geometry((224, 224)) of the Classifier)"
    )


def _size(shape: Sequence[int]) -> str:
    return "×".join(map(str, (*shape[1:], shape[0])))
