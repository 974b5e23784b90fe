"""Localisation: how well the order or the sum of a map's pixels matches the region that a person marked.

Four of the five metrics use only the order of the pixels. Equal pixels have no order, so these scores are means over all
orders of equal pixels; nothing is random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.maps.row_ranges import has_nan
from snellen.maps.sorted_rows import argsort_rows
from snellen.metrics.case_cache import cached_per_case
from snellen.metrics.requirements import require_truth
from snellen.metrics.ties import mean_over_orders
from snellen.plugins.registry import metric
from snellen.types import Case, NoPasses, Rng

_EMPTY = "the truth is empty, or the map holds NaN"


@metric(
    "localisation-utility",
    cite="arun2021",
    attribute="perceptual-correspondence",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    rank_only=True,
    needs={"truth"},
    undefined=_EMPTY,
    test="Localization Utility",
    formula="Σ (Rₙ − Rₙ₋₁) Pₙ over the map's distinct values as thresholds, P precision and R recall of the truth's pixels",
    reading="Average precision, as scikit-learn has it; straight lines between the points would give higher values.",
    caveats={"arun2021": "a constant map scores the truth's share of the image, so large objects score high"},
)
@dataclass(frozen=True)
class LocalisationUtility(NoPasses):
    """The area under the precision-recall curve of the map's values as a detector of the marked pixels.

    Arun et al. 2021. Four pixels with values 4, 3, 2, 1 of which the first and the third are marked: precision is 1 at a
    recall of 1/2 and 2/3 at a recall of 1, so the area is (1 + 2/3) / 2 = 5/6. A constant map gives the share of the
    image that is marked.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        order = _pixel_order(case, "localisation-utility")
        hits = order.marked.cumsum(dim=1).gather(1, order.last)
        precision = hits / (order.last + 1)
        return order.mask_undefined((precision * order.marked).sum(dim=1) / order.total)


@metric(
    "mean-iou",
    cite="kim2022",
    attribute="perceptual-correspondence",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    rank_only=True,
    needs={"truth"},
    undefined=_EMPTY + ", or `threshold` is given and the map has no positive value",
    test="Mean IoU",
    formula="|S ∩ T| / |S ∪ T| with T the truth and S the |T| most salient pixels",
    reading="Kim et al. 2022 take as many pixels as the truth has. Their code takes at least so many (ten bins of values)"
    " and averages over objects, by which a perfect map of two objects scores 0.5; here S is exactly as large as the union"
    " of all objects. `threshold=0.5` takes the pixels of at least half the maximum instead.",
    caveats={"kim2022": "a fixed threshold in place of the truth's size lets the spread of a map's values decide the score"},
)
@dataclass(frozen=True)
class MeanIou(NoPasses):
    """How far the most salient pixels and the marked region overlap: their intersection over their union.

    Kim et al. 2022. With 4 marked pixels, 3 of which are among the 4 most salient, it is 3 / 5. `threshold` calls a
    pixel salient when it has at least that share of the map's maximum, which then depends on more than the order of the
    pixels.
    """

    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must be above 0 and at most 1, not {self.threshold}")

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        if self.threshold is None:
            return _pixel_order(case, "mean-iou").expected(lambda hits, total: hits / (2 * total - hits))
        truth = require_truth(case, "mean-iou")
        highest = case.maps.double().amax(dim=(1, 2), keepdim=True)
        salient = case.maps >= self.threshold * highest
        overlap = (salient & truth).sum(dim=(1, 2)) / (salient | truth).sum(dim=(1, 2))
        defined = (highest.flatten() > 0) & truth.flatten(1).any(dim=1)  # a NaN is not above 0 either
        return overlap.masked_fill(~defined, torch.nan).to(case.maps.dtype)


@metric(
    "relevance-mass",
    cite="arras2022",
    attribute="perceptual-correspondence",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs={"truth"},
    undefined="the truth is empty, or the map is zero everywhere",
    formula="Σ_T |a| / Σ |a|",
    reading="Magnitudes count, so strong evidence against the target that lies on the object counts for the map;"
    " energy-pointing-game counts positive values only.",
    caveats={"arras2022": "a map with a single strong pixel on the object scores 1"},
)
@dataclass(frozen=True)
class RelevanceMass(NoPasses):
    """The share of the map's magnitude that lies on the marked object.

    Arras et al. 2022 (relevance mass accuracy). Values 3 inside, 1 and -4 outside give 3 / 8; energy-pointing-game,
    which drops what is negative, gives 3 / 4. For maps without negative values the two are the same.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        truth = require_truth(case, "relevance-mass")
        size = case.maps.double().abs()
        share = (size * truth).sum(dim=(1, 2)) / size.sum(dim=(1, 2))
        return share.masked_fill(~truth.flatten(1).any(dim=1), torch.nan).to(case.maps.dtype)


@metric(
    "relevance-rank",
    cite="arras2022",
    attribute="perceptual-correspondence",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    rank_only=True,
    needs={"truth"},
    undefined=_EMPTY,
    formula="|S ∩ T| / |T| with T the truth and S the |T| most salient pixels",
    reading="Arras et al. 2022 rank maps without negative values; a signed map is ranked by its signed values, as everywhere"
    " here. `magnitude=true` ranks by size.",
    caveats={"arras2022": "it ignores how much more salient the marked pixels are"},
)
@dataclass(frozen=True)
class RelevanceRank(NoPasses):
    """The share of the most salient pixels, as many as are marked, that lie on the marked object.

    Arras et al. 2022 (relevance rank accuracy). With 4 marked pixels, 3 of which are among the 4 most salient, it is 3 /
    4; mean-iou makes 3 / 5 of the same count. It is rank-only for the default, not for `magnitude=True`.
    """

    magnitude: bool = False
    """Whether pixels are ranked by their magnitude."""

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return _pixel_order(case, "relevance-rank", magnitude=self.magnitude).expected(lambda hits, total: hits / total)


@metric(
    "plausibility",
    cite="ding2021",
    attribute="perceptual-correspondence",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    rank_only=True,
    needs={"truth"},
    undefined=_EMPTY + ", or it covers the whole image",
    test="Plausibility",
    formula="P(a_i > a_j) + ½ P(a_i = a_j) for pixels i inside and j outside of what people marked",
    reading="Ding and Koehn 2021 compare words that matter to people with a distractor; here every pixel"
    " that people marked is compared with every other one. Give masks that people drew; a box is only an estimate.",
    caveats={"ding2021": "a map that agrees with people need not agree with the classifier: plausible is not faithful"},
)
@dataclass(frozen=True)
class Plausibility(NoPasses):
    """The probability that a pixel which people marked is more salient than one which they did not mark.

    Ding and Koehn 2021, for pixels: the area under the ROC curve, equal pixels counting half. Values 3 and 1 inside and
    2 outside give 1/2. 1 is perfect, a constant map scores 0.5, the reverse of a perfect map 0.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        order = _pixel_order(case, "plausibility")
        inside, outside = order.total, order.marked.shape[1] - order.total
        # Ranks count from the top; equal pixels have their mean rank.
        ranks = ((order.first + order.last) / 2 + 1) * order.marked
        misordered = ranks.sum(dim=1) - inside * (inside + 1) / 2
        return order.mask_undefined(1 - misordered / (inside * outside))


@dataclass(frozen=True, eq=False)
class _PixelOrder:
    """Pixels from the most to the least salient: which are marked, and the first and last place of each group of equals."""

    marked: Float[Tensor, "batch pixels"]
    first: Int[Tensor, "batch pixels"]
    last: Int[Tensor, "batch pixels"]
    total: Float[Tensor, " batch"]
    undefined: Bool[Tensor, " batch"]

    def mask_undefined(self, values: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        return values.masked_fill(self.undefined | (self.total == 0), torch.nan).float()

    def expected(self, score: Callable[..., Tensor]) -> Float[Tensor, " batch"]:
        """The mean of `score(hits, total)` over all orders of equal pixels; hits are the marked among the `total` first."""
        before = torch.nn.functional.pad(self.marked.cumsum(dim=1), (1, 0))
        final = (self.total.long() - 1).clamp_min(0).unsqueeze(1)  # the place of the last pixel that is selected
        ends = self.last.gather(1, final) + 1
        scores: Tensor = score(before.gather(1, ends).squeeze(1), self.total)
        for row in (ends != final + 1).squeeze(1).nonzero().flatten().tolist():
            # The selection ends inside a group of equal pixels, of which some are taken and some are marked.
            total, end = int(self.total[row]), int(ends[row])
            begin = int(self.first[row, total - 1])
            above, through = int(before[row, begin]), int(before[row, end])
            scores[row] = mean_over_orders(
                partial(score, total=total), above=above, equals=end - begin, among=through - above, taken=total - begin
            )
        return self.mask_undefined(scores)


def _pixel_order(case: Case, name: str, *, magnitude: bool = False) -> _PixelOrder:
    truth = require_truth(case, name).flatten(1)
    return cached_per_case(case, ("pixel order", magnitude), lambda: _order_of(case, truth, magnitude))


def _order_of(case: Case, truth: Bool[Tensor, "batch pixels"], magnitude: bool) -> _PixelOrder:
    maps = (case.maps.abs() if magnitude else case.maps).flatten(1)
    order = argsort_rows(-maps)
    values = maps.gather(1, order)
    change = values[:, 1:] != values[:, :-1]
    edge = change.new_ones(len(values), 1)
    places = torch.arange(values.shape[1], device=values.device).expand_as(values)
    first = places.masked_fill(~torch.cat([edge, change], dim=1), 0).cummax(dim=1).values
    ends = places.masked_fill(~torch.cat([change, edge], dim=1), values.shape[1])
    last = ends.flip(1).cummin(dim=1).values.flip(1)
    marked = truth.gather(1, order).double()
    return _PixelOrder(marked=marked, first=first, last=last, total=marked.sum(dim=1), undefined=has_nan(maps))
