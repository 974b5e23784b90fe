"""Training data for recipes, which train variants of the classifier."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.data import Dataset

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.types import Rng, Sample

Change = Callable[[int, Float[Tensor, "channels height width"]], Float[Tensor, "channels height width"]]
"""Function from the index of an image and its inputs to changed inputs."""


@dataclass(frozen=True, eq=False)
class Training(Dataset[tuple[Tensor, int]]):
    """Labelled images as (input, label) pairs, loaded one by one: a torch Dataset, ready for a DataLoader.

    An input is normalised by the classifier, so a module trained on it takes the classifier's inputs.
    """

    samples: Sequence[Sample]
    """The images with their labels."""
    classifier: Classifier
    """The model whose normalisation the inputs have."""
    labels: tuple[int, ...]
    """Class index of each image."""
    change: Change | None = None
    """Applied to every input."""

    @staticmethod
    def from_samples(samples: Sequence[Sample], classifier: Classifier) -> Training:
        """All samples with their own labels; a sample without a label is refused."""
        labels = []
        for sample in samples:
            if not isinstance(sample.label, int):
                number = "none" if sample.label is None else "several"
                raise SnellenError(
                    f"a recipe needs one label each, but the training picture '{sample.id}' has {number}; give --labels"
                )
            labels.append(sample.label)
        return Training(samples, classifier, tuple(labels))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "channels height width"], int]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        inputs = self.classifier.to_inputs(self.samples[index].image[None])[0]
        return (inputs if self.change is None else self.change(index, inputs)), self.labels[index]

    @property
    def classes(self) -> int:
        """Number of classes in the labels, counted from 0."""
        return max(self.labels) + 1

    def output_count(self) -> int:
        """Number of outputs of the classifier; a variant that replaces it must have as many."""
        return self.classifier.check(self[0][0][None])

    def subset(self, count: int, *, seed: int) -> Training:
        """At most this many of the images, unchanged, drawn by the seed."""
        if count >= len(self):
            return self
        order = Rng(seed, ()).shared("training pictures").permutation(len(self))
        indices = sorted(int(index) for index in order[:count])
        take = getattr(self.samples, "take", None)  # leaves images on disk
        samples = [self.samples[index] for index in indices] if take is None else take(indices)
        return Training(samples, self.classifier, tuple(self.labels[index] for index in indices))

    def with_labels(self, labels: Sequence[int]) -> Training:
        """The same images with other labels."""
        return replace(self, labels=tuple(labels))

    def with_change(self, change: Change) -> Training:
        """The same labels with changed images."""
        return replace(self, change=change)

    def batches(self, rows: int) -> Iterator[tuple[slice, Float[Tensor, "rows channels height width"]]]:
        """Batches of at most `rows` inputs, each with the slice of indices that it holds."""
        for start in range(0, len(self), rows):
            end = min(start + rows, len(self))
            yield slice(start, end), torch.stack([self[index][0] for index in range(start, end)])

    def tensors(self) -> tuple[Float[Tensor, "images channels height width"], Int[Tensor, " images"]]:
        """All inputs and labels in memory, for recipes on small images."""
        inputs, labels = zip(*(self[index] for index in range(len(self))), strict=True)
        return torch.stack(inputs), torch.tensor(labels)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds torch's global generator, for the initial weights of a network; restores its state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def seed_for(purpose: str, seed: int) -> int:
    """A seed for training that depends on the run's seed and on what is trained.

    >>> seed_for("other-seed", 0) == seed_for("other-seed", 0) != seed_for("other-seed", 1)
    True
    """
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{purpose}".encode(), digest_size=4).digest(), "little") >> 1
