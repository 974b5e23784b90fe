"""Training data for relatives of the classifier: what a recipe is given, relabelled or changed as a test demands."""

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
"""From the place of a picture and its inputs to other inputs."""


@dataclass(frozen=True, eq=False)
class Training(Dataset[tuple[Tensor, int]]):
    """Labelled pictures as (input, label) pairs, loaded one by one: a torch Dataset, ready for a DataLoader.

    `inputs` are what the network sees, so a module trained on them takes the classifier's normalisation.
    """

    samples: Sequence[Sample]
    classifier: Classifier
    labels: tuple[int, ...]
    change: Change | None = None

    @staticmethod
    def of(samples: Sequence[Sample], classifier: Classifier) -> Training:
        """All samples with their own labels; one without a label is refused."""
        labels = []
        for sample in samples:
            if sample.label is None:
                raise SnellenError(f"a recipe needs labels, but the training picture '{sample.id}' has none; give --labels")
            labels.append(sample.label)
        return Training(samples, classifier, tuple(labels))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[Float[Tensor, "channels height width"], int]:
        if not 0 <= place < len(self):
            raise IndexError(place)
        inputs = self.classifier.to_inputs(self.samples[place].image[None])[0]
        return (inputs if self.change is None else self.change(place, inputs)), self.labels[place]

    @property
    def classes(self) -> int:
        """How many classes the labels name, counted from 0."""
        return max(self.labels) + 1

    def outputs(self) -> int:
        """How many classes the classifier tells apart; a relative that takes its place must have as many."""
        return self.classifier.check(self[0][0][None])

    def drawn(self, count: int, *, seed: int) -> Training:
        """At most this many of the pictures as they are, drawn by the seed."""
        if count >= len(self):
            return self
        places = sorted(int(one) for one in Rng(seed, ()).shared("training pictures").permutation(len(self))[:count])
        take = getattr(self.samples, "take", None)  # leaves pictures on disk
        samples = [self.samples[place] for place in places] if take is None else take(places)
        return Training(samples, self.classifier, tuple(self.labels[place] for place in places))

    def relabelled(self, labels: Sequence[int]) -> Training:
        """The same pictures under other labels."""
        return replace(self, labels=tuple(labels))

    def changed(self, change: Change) -> Training:
        """The same labels on other pictures."""
        return replace(self, change=change)

    def batches(self, rows: int) -> Iterator[tuple[slice, Float[Tensor, "rows channels height width"]]]:
        """The inputs, so many at a time, and the places where they stand."""
        for start in range(0, len(self), rows):
            end = min(start + rows, len(self))
            yield slice(start, end), torch.stack([self[place][0] for place in range(start, end)])

    def tensors(self) -> tuple[Float[Tensor, "images channels height width"], Int[Tensor, " images"]]:
        """All of it in memory, for recipes on small pictures."""
        inputs, labels = zip(*(self[place] for place in range(len(self))), strict=True)
        return torch.stack(inputs), torch.tensor(labels)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within it, the first weights of a network depend on this seed; afterwards the global random state is as before."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def seed_for(what: str, seed: int) -> int:
    """A seed for training that depends on the run's seed and on what is trained; hardly ever the one somebody used before.

    >>> seed_for("other-seed", 0) == seed_for("other-seed", 0) != seed_for("other-seed", 1)
    True
    """
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{what}".encode(), digest_size=4).digest(), "little") >> 1
