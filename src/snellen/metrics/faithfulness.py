"""Faithfulness and luminosity calibration: whether the parts that the map calls important are those that are missed.

Both remove the same groups of pixels, one group at a time. What the classifier says then hangs on no map, so the passes are
paid once for both metrics and for all methods on the same pictures.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.outputs import TargetOutputs
from snellen.maps.fills import MEAN
from snellen.maps.similarity import correlation
from snellen.metrics.case_cache import output_parts
from snellen.metrics.rounding import unmoved
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Fill, Output, Passes, Rng, SharedPasses


def _check(cells: int) -> None:
    if cells < 2:
        raise ValueError(f"cells must be at least 2, not {cells}")


@metric(
    "faithfulness",
    cite="alvarezmelis2018senn",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    undefined="all groups have the same relevance, or no removal changes the output",
    test="Faithfulness",
    formula="r(Σ_{i∈S} Φᵢ, f(x) − f(x without S)) over groups S",
    reading="Groups are the cells of a square grid, one removed at a time, after Alvarez-Melis & Jaakkola 2018; with "
    "`subsets=100` they are random sets of pixels that may overlap, the faithfulness correlation of Bhatt et al. 2020.",
    caveats={
        "tomsett2020": "scores of single pictures are unreliable, and another fill may turn the order of methods round",
        "gomez2022": "a picture with a hole is none that the classifier was trained on",
    },
    presets={"bhatt2020": {"subsets": 100}},
)
@dataclass(frozen=True)
class Faithfulness(CurveMetric, SharedPasses):
    """How well the relevance of a part predicts what the classifier loses without it: 1 is in proportion, 0 is unrelated.

    Alvarez-Melis & Jaakkola 2018: Pearson's correlation between the sum of the map over a group of pixels and the drop of
    the output when the group is removed, over all groups. The groups are `cells` × `cells` squares, or `subsets` random sets
    that hold this `share` of all pixels each. Relevances 1, 2, 3 and drops 0.1, 0.2, 0.3 correlate perfectly.
    """

    cells: int = 7
    subsets: int | None = None
    share: float = 0.1
    fill: Fill = MEAN
    of: Output = "probability"

    def __post_init__(self) -> None:
        _check(self.cells)
        if self.subsets is not None and self.subsets < 2:
            raise ValueError(f"subsets must be at least 2, not {self.subsets}")
        if not 0 < self.share < 1:
            raise ValueError(f"share must be between 0 and 1, not {self.share}")

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The relevance of each group, then what each of them is missed."""
        groups = self.groups
        drop = _drops(case, groups, self.fill, self.of, rng)
        return torch.cat([_relevance(case, groups, rng), drop], dim=1).to(case.maps.dtype)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The correlation of the two halves."""
        relevance, drop = curve.chunk(2, dim=1)
        broken = relevance.isnan().any(dim=1)
        return correlation(relevance, drop).to(curve.dtype).masked_fill(broken, torch.nan)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The groups, twice."""
        names = self.groups.names(size)
        return tuple(f"{what} {name}" for what in ("relevance", "drop") for name in names)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All of them, for every method on the same pictures."""
        return _parts(self.groups, self.fill, size)

    @property
    def groups(self) -> Cells | Subsets:
        """What is removed, one at a time."""
        return Cells(self.cells) if self.subsets is None else Subsets(self.subsets, self.share)


@metric(
    "luminosity-calibration",
    cite="boggust2023",
    attribute="perceptual-correspondence",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    undefined="no cell has a positive relevance, or none is missed",
    test="Luminosity Calibration",
    formula="1 − ½ Σ_S |[Φ_S]₊ / Σ[Φ]₊ − [Δ_S]₊ / Σ[Δ]₊|, Φ_S = Σ_{i∈S} Φᵢ, Δ_S = f(x) − f(x without S)",
    reading="The saliency card (Boggust et al. 2023) asks that the relative saliency of two features equals their relative "
    "impact on the output, and gives no formula; this one is our own. Features are the cells that faithfulness removes, and "
    "the score is the overlap of two distributions: it is 1 exactly when all such ratios agree.",
    caveats={"gomez2022": "a picture with a hole is none that the classifier was trained on"},
)
@dataclass(frozen=True)
class LuminosityCalibration(CurveMetric, SharedPasses):
    """The overlap between how the map spreads its light and how the classifier spreads its losses: 1 is calibrated.

    Our own reading of the test that Boggust et al. 2023 name: over the cells of a grid, the shares of the positive relevance
    and the shares of the positive drops of the output when a cell is removed; one minus half the sum of their differences.
    Shares 3/4 and 1/4 of the light against 1/4 and 3/4 of the losses overlap by 1/2.
    """

    cells: int = 7
    fill: Fill = MEAN
    of: Output = "probability"

    def __post_init__(self) -> None:
        _check(self.cells)

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """Each cell's share of the light, then its share of the losses."""
        groups = Cells(self.cells)
        light, loss = _relevance(case, groups, rng), _drops(case, groups, self.fill, self.of, rng)
        return torch.cat([_shares(light), _shares(loss)], dim=1).to(case.maps.dtype)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """What the two halves have in common."""
        light, loss = curve.chunk(2, dim=1)
        return (1 - (light - loss).abs().sum(dim=1) / 2).clamp(0, 1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The cells, twice."""
        names = Cells(self.cells).names(size)
        return tuple(f"{what} {name}" for what in ("light", "loss") for name in names)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All of them, for every method on the same pictures."""
        return _parts(Cells(self.cells), self.fill, size)


@dataclass(frozen=True)
class Cells:
    """The squares of a grid; never more than there are pixels."""

    cells: int

    def names(self, size: tuple[int, int]) -> list[str]:
        """A name for each."""
        return [f"{row},{column}" for row in range(min(self.cells, size[0])) for column in range(min(self.cells, size[1]))]

    def masks(self, size: tuple[int, int], rng: Rng) -> Iterator[Bool[Tensor, "rows height width"]]:
        """Where each of them is, in every sample."""
        number = grid(self.cells, size)
        for cell in range(len(self.names(size))):
            yield (number == cell).unsqueeze(0)


@dataclass(frozen=True)
class Subsets:
    """Random sets of pixels, all of one size, drawn per sample."""

    subsets: int
    share: float

    def names(self, size: tuple[int, int]) -> list[str]:
        """A name for each."""
        return [str(one) for one in range(self.subsets)]

    def masks(self, size: tuple[int, int], rng: Rng) -> Iterator[Bool[Tensor, "rows height width"]]:
        """Where each of them is, in every sample."""
        pixels = size[0] * size[1]
        held = max(1, round(self.share * pixels))
        for one in range(self.subsets):
            lots = rng.child(f"faithfulness/subset/{one}").uniform("lots", (pixels,))
            chosen = lots.topk(held, dim=1).indices
            yield torch.zeros(len(rng), pixels, dtype=torch.bool).scatter_(1, chosen, True).view(-1, *size)


def grid(cells: int, size: tuple[int, int]) -> Int[Tensor, "height width"]:
    """The number of the cell that each pixel lies in, row by row; cells differ by a pixel where the sides do not divide.

    >>> grid(2, (2, 3)).tolist()
    [[0, 0, 1], [2, 2, 3]]
    """
    down, across = (torch.arange(side) * min(cells, side) // side for side in size)
    return down[:, None] * min(cells, size[1]) + across[None]


def _relevance(case: Case, groups: Cells | Subsets, rng: Rng) -> Float[Tensor, "batch groups"]:
    maps = case.maps.double()
    return torch.stack([(maps * mask).sum(dim=(1, 2)) for mask in _masks(case, groups, rng)], dim=1)


def _masks(case: Case, groups: Cells | Subsets, rng: Rng) -> Iterable[Bool[Tensor, "rows height width"]]:
    """The masks of all groups; random ones are drawn once for all methods on the same pictures, a byte per pixel."""
    if isinstance(groups, Cells):
        return groups.masks(case.size, rng)
    return case.classifier.cached(
        ("subsets", groups, rng), case.inputs, case.targets, lambda: list(groups.masks(case.size, rng))
    )


def _drops(case: Case, groups: Cells | Subsets, fill: Fill, of: Output, rng: Rng) -> Float[Tensor, "batch groups"]:
    """How far the output falls without each group; NaN where it never moves by more than rounding."""
    classifier, inputs, targets = case.classifier, case.inputs, case.targets

    def compute() -> TargetOutputs:
        whole, bare = (
            one.contiguous(memory_format=torch.channels_last) for one in (inputs, fill(classifier, inputs, rng=rng))
        )
        return classifier.target_outputs(
            (torch.where(mask[:, None], bare, whole), targets) for mask in _masks(case, groups, rng)
        )

    after = classifier.cached(("removals", groups, fill, rng), inputs, targets, compute)
    full = classifier.output(inputs, targets, of).double().unsqueeze(1)
    left = after.of(of).double().view(-1, len(inputs)).T
    drop = full - left
    still = unmoved(drop.abs().amax(dim=1), torch.cat([full, left], dim=1).abs().amax(dim=1))
    return drop.masked_fill(still.unsqueeze(1), torch.nan)


def _parts(groups: Cells | Subsets, fill: Fill, size: tuple[int, int]) -> dict[Hashable, Passes]:
    return output_parts() | {("images", "removals", groups, fill): Passes(forward=len(groups.names(size)))}


def _shares(values: Float[Tensor, "batch groups"]) -> Float[Tensor, "batch groups"]:
    """What each has of all that is positive; NaN where nothing is."""
    positive = values.clamp_min(0)
    return positive / positive.sum(dim=1, keepdim=True)
