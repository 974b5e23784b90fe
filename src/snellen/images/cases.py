"""Cases: one sample per picture and target, where several targets of a picture are explained."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from snellen.images.samples import Samples, Source
from snellen.types import Findings, Sample


@dataclass(frozen=True, eq=False)
class CaseSource:
    """Samples of another source, each with one of its targets; label and truth are those of the target."""

    source: Source
    """Where the pictures are loaded from."""
    cases: tuple[tuple[int, str, int], ...]
    """Index in the source, id and target of each case."""
    grouped: bool
    """Whether cases of one picture form a group: they are not independent."""

    def load(self, index: int) -> Sample:
        """The case at this index."""
        place, name, target = self.cases[index]
        sample = self.source.load(place)
        present = sample.label.present if isinstance(sample.label, Findings) else (sample.label,)
        return replace(
            sample,
            id=name,
            label=target if target in present else None,
            truth=sample.truths.get(target, sample.truth),
            truths={},
            group=sample.group or (sample.id if self.grouped else None),
            target=target,
        )

    def take(self, indices: Sequence[int]) -> CaseSource:
        """A source of these cases."""
        chosen = [self.cases[index] for index in indices]
        places = sorted({place for place, _, _ in chosen})
        part = self.source.take(places)
        return replace(self, source=part, cases=tuple((places.index(place), name, target) for place, name, target in chosen))


def make_cases(samples: Samples, targets: Sequence[Sequence[int]], names: Sequence[str]) -> Samples:
    """The samples with one target each; a picture with several targets becomes several samples, called `id [target]`.

    Args:
        samples: the pictures.
        targets: the targets of each picture; a picture without any is left out.
        names: names of all targets.
    """
    several = any(len(row) > 1 for row in targets)
    cases = [
        (place, f"{name} [{names[target]}]" if several else name, target, digest)
        for place, name, digest, row in zip(samples.places, samples.ids, samples.digests, targets, strict=True)
        for target in row
    ]
    return replace(
        samples,
        source=CaseSource(
            source=samples.source, cases=tuple((place, name, target) for place, name, target, _ in cases), grouped=several
        ),
        ids=tuple(name for _, name, _, _ in cases),
        places=tuple(range(len(cases))),
        pictures=sum(bool(row) for row in targets),
        digests=tuple(hashlib.sha256(f"{digest} {target}".encode()).hexdigest() for _, _, target, digest in cases),
    )
