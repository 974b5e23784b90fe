"""Faithfulness and luminosity calibration: whether the map predicts how the output falls when parts are removed.

Both remove the same groups of pixels, one group at a time. The outputs do not depend on the map, so they are computed
once for both metrics and for all methods on the same images.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.outputs import TargetOutputs
from snellen.maps.fills import MEAN
from snellen.maps.row_ranges import has_nan
from snellen.maps.similarity import correlation
from snellen.maps.superpixels import squares
from snellen.metrics.case_cache import output_parts
from snellen.metrics.rounding import within_rounding
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
        "tomsett2020": "scores of single images are unreliable, and another fill may turn the order of methods round",
        "gomez2022": "an image with a hole is none that the classifier was trained on",
    },
    presets={"bhatt2020": {"subsets": 100}},
)
@dataclass(frozen=True)
class Faithfulness(CurveMetric, SharedPasses):
    """How well the relevance of a part predicts the fall of the output without it: 1 is in proportion, 0 is unrelated.

    Alvarez-Melis & Jaakkola 2018: Pearson's correlation between the sum of the map over a group of pixels and the drop
    of the output when the group is removed, over all groups. The groups are `cells` × `cells` squares, or `subsets`
    random sets that hold this `share` of all pixels each. Relevances 1, 2, 3 and drops 0.1, 0.2, 0.3 correlate
    perfectly.
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
        """The relevance of each group, then the fall of the output without each group."""
        groups = self.groups
        drop = _drops(case, groups, self.fill, self.of, rng)
        return torch.cat([_relevance(case, groups, rng), drop], dim=1).to(case.maps.dtype)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The correlation of the two halves."""
        relevance, drop = curve.chunk(2, dim=1)
        undefined = has_nan(relevance)
        return correlation(relevance, drop).to(curve.dtype).masked_fill(undefined, torch.nan)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The names of the groups, for relevance and for the fall of the output."""
        names = self.groups.names(size)
        return tuple(f"{what} {name}" for what in ("relevance", "drop") for name in names)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All passes; they are the same for every method."""
        return _parts(self.groups, self.fill, size)

    @property
    def groups(self) -> GridCells | RandomSubsets:
        """The groups that are removed, one at a time."""
        return GridCells(self.cells) if self.subsets is None else RandomSubsets(self.subsets, self.share)


@metric(
    "luminosity-calibration",
    cite="boggust2023",
    attribute="perceptual-correspondence",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    undefined="no cell has a positive relevance, or no removal lowers the output",
    test="Luminosity Calibration",
    formula="1 − ½ Σ_S |[Φ_S]₊ / Σ[Φ]₊ − [Δ_S]₊ / Σ[Δ]₊|, Φ_S = Σ_{i∈S} Φᵢ, Δ_S = f(x) − f(x without S)",
    reading="The saliency card (Boggust et al. 2023) asks that the relative saliency of two features equals their relative "
    "impact on the output, and gives no formula; this one is our own. Features are the cells that faithfulness removes, and "
    "the score is the overlap of two distributions: it is 1 exactly when all such ratios agree.",
    caveats={"gomez2022": "an image with a hole is none that the classifier was trained on"},
)
@dataclass(frozen=True)
class LuminosityCalibration(CurveMetric, SharedPasses):
    """The overlap of two distributions over cells: of the map's relevance, and of the output's losses; 1 is calibrated.

    Our own reading of the test that Boggust et al. 2023 name: over the cells of a grid, the shares of the positive
    relevance and the shares of the positive falls of the output when a cell is removed; one minus half the sum of their
    differences. Shares 3/4 and 1/4 of the relevance against 1/4 and 3/4 of the losses overlap by 1/2.
    """

    cells: int = 7
    """Side of the grid of cells."""
    fill: Fill = MEAN
    of: Output = "probability"

    def __post_init__(self) -> None:
        _check(self.cells)

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """Each cell's share of the relevance, then its share of the losses."""
        groups = GridCells(self.cells)
        relevance, loss = _relevance(case, groups, rng), _drops(case, groups, self.fill, self.of, rng)
        return torch.cat([_shares(relevance), _shares(loss)], dim=1).to(case.maps.dtype)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The overlap of the two halves of the curve."""
        relevance, loss = curve.chunk(2, dim=1)
        return (1 - (relevance - loss).abs().sum(dim=1) / 2).clamp(0, 1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The names of the cells, for relevance and for losses."""
        names = GridCells(self.cells).names(size)
        return tuple(f"{what} {name}" for what in ("light", "loss") for name in names)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All passes; they are the same for every method."""
        return _parts(GridCells(self.cells), self.fill, size)


@dataclass(frozen=True)
class GridCells:
    """The cells of a square grid, at most one per pixel."""

    cells: int
    """Side of the grid."""

    def names(self, size: tuple[int, int]) -> list[str]:
        """A name per group."""
        return [f"{row},{column}" for row in range(min(self.cells, size[0])) for column in range(min(self.cells, size[1]))]

    def masks(self, size: tuple[int, int], rng: Rng) -> Iterator[Bool[Tensor, "rows height width"]]:
        """The mask of each group, for every sample or with one row for all samples."""
        number = squares(*size, self.cells)
        for cell in range(len(self.names(size))):
            yield (number == cell).unsqueeze(0)


@dataclass(frozen=True)
class RandomSubsets:
    """Random sets of pixels of equal size, drawn per sample."""

    subsets: int
    """Number of sets."""
    share: float
    """Size of each set as a share of all pixels."""

    def names(self, size: tuple[int, int]) -> list[str]:
        """A name per group."""
        return [str(subset) for subset in range(self.subsets)]

    def masks(self, size: tuple[int, int], rng: Rng) -> Iterator[Bool[Tensor, "rows height width"]]:
        """The mask of each group, for every sample or with one row for all samples."""
        pixels = size[0] * size[1]
        pixels_per_set = max(1, round(self.share * pixels))
        for subset in range(self.subsets):
            numbers = rng.child(f"faithfulness/subset/{subset}").uniform("lots", (pixels,))
            chosen = numbers.topk(pixels_per_set, dim=1).indices
            yield torch.zeros(len(rng), pixels, dtype=torch.bool).scatter_(1, chosen, True).view(-1, *size)


def _relevance(case: Case, groups: GridCells | RandomSubsets, rng: Rng) -> Float[Tensor, "batch groups"]:
    maps = case.maps.double()
    return torch.stack([(maps * mask).sum(dim=(1, 2)) for mask in _masks(case, groups, rng)], dim=1)


def _masks(case: Case, groups: GridCells | RandomSubsets, rng: Rng) -> Iterable[Bool[Tensor, "rows height width"]]:
    """The masks of all groups; random ones are cached for all methods on the same images, at a byte per pixel."""
    if isinstance(groups, GridCells):
        return groups.masks(case.size, rng)
    return case.classifier.cached(
        ("subsets", groups, rng), case.inputs, case.targets, lambda: list(groups.masks(case.size, rng))
    )


def _drops(case: Case, groups: GridCells | RandomSubsets, fill: Fill, of: Output, rng: Rng) -> Float[Tensor, "batch groups"]:
    """The fall of the output without each group; NaN where no fall exceeds rounding."""
    classifier, inputs, targets = case.classifier, case.inputs, case.targets

    def compute() -> TargetOutputs:
        filled = fill(classifier, inputs, rng=rng)
        return classifier.target_outputs(
            (torch.lerp(inputs, filled, mask[:, None].to(inputs)), targets) for mask in _masks(case, groups, rng)
        )

    after = classifier.cached(("removals", groups, fill, rng), inputs, targets, compute)
    full = classifier.output(inputs, targets, of).double().unsqueeze(1)
    remaining = after.of(of).double().view(-1, len(inputs)).T
    drop = full - remaining
    constant = within_rounding(drop.abs().amax(dim=1), torch.cat([full, remaining], dim=1).abs().amax(dim=1))
    return drop.masked_fill(constant.unsqueeze(1), torch.nan)


def _parts(groups: GridCells | RandomSubsets, fill: Fill, size: tuple[int, int]) -> dict[Hashable, Passes]:
    return output_parts() | {("images", "removals", groups, fill): Passes(forward=len(groups.names(size)))}


def _shares(values: Float[Tensor, "batch groups"]) -> Float[Tensor, "batch groups"]:
    """Each group's share of the positive values; NaN where no value is positive."""
    positive = values.clamp_min(0)
    return positive / positive.sum(dim=1, keepdim=True)
