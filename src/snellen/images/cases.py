"""Cases: one sample per picture and target, where several targets of a picture are explained."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from snellen.images.columns import Digests, Names, index_array
from snellen.images.samples import Samples, Source
from snellen.types import Findings, Sample


@dataclass(frozen=True, eq=False)
class CaseSource:
    """Samples of another source, each with one of its targets; label and truth are those of the target."""

    source: Source
    """Where the pictures are loaded from."""
    ids: Names
    """Id of each case."""
    pairs: np.ndarray
    """Index in the source and target of each case."""
    grouped: bool
    """Whether cases of one picture form a group: they are not independent."""

    def load(self, index: int) -> Sample:
        """The case at this index."""
        place, target = self.pairs[index].tolist()
        sample = self.source.load(place)
        present = sample.label.present if isinstance(sample.label, Findings) else (sample.label,)
        return replace(
            sample,
            id=self.ids[index],
            label=target if target in present else None,
            truth=sample.truths.get(target, sample.truth),
            truths={},
            group=sample.group or (sample.id if self.grouped else None),
            target=target,
        )

    def take(self, indices: Sequence[int]) -> CaseSource:
        """A source of these cases."""
        chosen = self.pairs[index_array(indices)]
        places, rows = np.unique(chosen[:, 0], return_inverse=True)
        return replace(
            self,
            source=self.source.take(places.tolist()),
            ids=self.ids.take(indices),
            pairs=np.stack([rows.reshape(-1), chosen[:, 1]], axis=1),
        )


def make_cases(samples: Samples, targets: Sequence[Sequence[int]], names: Sequence[str]) -> Samples:
    """The samples with one target each; a picture with several targets becomes several samples, called `id [target]`.

    Args:
        samples: the pictures.
        targets: the targets of each picture; a picture without any is left out.
        names: names of all targets.
    """
    several = any(len(row) > 1 for row in targets)
    rows = [(row, target) for row, targets_of_row in enumerate(targets) for target in targets_of_row]
    chosen = index_array([row for row, _ in rows])
    ids = samples.ids.take(chosen)
    if several:
        ids = Names([f"{name} [{names[target]}]" for name, (_, target) in zip(ids, rows, strict=True)])
    pairs = np.stack([samples.places[chosen], index_array([target for _, target in rows])], axis=1)
    digests = (f"{samples.digests[row]} {target}" for row, target in rows)
    return replace(
        samples,
        source=CaseSource(source=samples.source, ids=ids, pairs=pairs, grouped=several),
        ids=ids,
        places=np.arange(len(rows)),
        pictures=sum(bool(row) for row in targets),
        digests=Digests(hashlib.sha256(text.encode()).hexdigest() for text in digests),
    )
