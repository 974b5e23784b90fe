"""Samples from a torch DataLoader: those of its data set, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, SequentialSampler, default_collate

from snellen.errors import SnellenError, first_line
from snellen.images.dataset import from_dataset
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.reading import Reading
from snellen.images.samples import Progress, Samples


@dataclass(frozen=True, eq=False)
class CollatedItems:
    """Items of a data set as the loader's own `collate_fn` shapes them, in batches of one."""

    dataset: Any
    """The loader's data set."""
    collate: Callable[[list[Any]], Any]
    """The loader's `collate_fn`."""

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        batch = self.collate([self.dataset[index]])
        if not isinstance(batch, tuple | list):
            batch = (batch,)
        return tuple(None if part is None else part[0] for part in batch)


def from_loader(
    loader: DataLoader[Any],
    *,
    geometry: Geometry = AS_IS,
    channels: int = 3,
    numbers: bool = False,
    show_channels: tuple[int, ...] | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Samples of the loader's data set, in its order; an iterable data set with a length is read into memory.

    Args:
        loader: its data set gives (image, label) or (image, label, truth), after its `collate_fn` if it has its own.
        geometry: how PIL images are cropped and resized.
        channels: of the classifier.
        numbers: whether labels are numbers, for a classifier that estimates one.
        show_channels: what pages show of images with many channels, counted from 1.
        progress: called with (images checked, images in total).
    """
    data: Any = loader.dataset
    notes: list[str] = []
    if isinstance(data, IterableDataset):
        data = _listed(data)
    elif not isinstance(loader.sampler, SequentialSampler):
        notes.append("the whole data set of the DataLoader is used, in its own order, without the loader's sampler")
    if loader.collate_fn is not default_collate:
        data = CollatedItems(data, loader.collate_fn)
    return from_dataset(
        data,
        geometry=geometry,
        channels=channels,
        numbers=numbers,
        show_channels=show_channels,
        description=f"a DataLoader of {type(loader.dataset).__name__}{Reading(show_channels=show_channels).words(channels)}",
        notes=notes,
        progress=progress,
    )


def _listed(data: Iterable[Any]) -> list[Any]:
    name = type(data).__name__
    try:
        count = len(data)  # type: ignore[arg-type]
    except TypeError:
        raise SnellenError(
            f"the DataLoader reads from '{name}', which is iterable and has no length; give a map-style Dataset, or arrays"
        ) from None
    try:
        items = list(islice(data, count + 1))
    except Exception as problem:
        raise SnellenError(f"'{name}' cannot be read ({first_line(problem)})") from problem
    if len(items) != count:
        yielded = f"only {len(items)}" if len(items) < count else "more"
        raise SnellenError(f"'{name}' states {count} items, but yields {yielded}; correct its __len__")
    return items
