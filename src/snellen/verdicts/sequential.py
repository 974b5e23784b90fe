"""Verdicts while a run goes on: looks after 30, 38, 48, ... images, and at last after all of them.

The last look is the rule of a whole run (see `rule`). All looks before it share as much error again: each has its intervals
at so much higher a level. A comparison that is settled at a look stays so, and needs no more images. All others go on to
count in the correction for the whole test, also where they stopped undecided; those that a method has won count at the last
look alone (Romano and Wolf 2005). So a method that is no better than some control passes in fewer than one test of twenty,
however many looks are taken and whenever the run is stopped.

What the images left would hardly settle stops undecided. That can make a verdict inconclusive, and nothing else.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float, Int

from snellen.runs.record import MetricSpec
from snellen.runs.schedule import Until
from snellen.verdicts.intervals import RESAMPLES
from snellen.verdicts.paired_difference import PairedDifference, further_images, images_for_axiom
from snellen.verdicts.rare_failures import HIDDEN, rare_failure_note, worst_value
from snellen.verdicts.rule import MARGIN, OUTRIGHT, Looked, against_controls, axiom_gaps, control_win_share
from snellen.verdicts.sampling import MINIMUM_GROUPS, Clusters, SamplingUnit
from snellen.verdicts.statistics import LEVEL, MINIMUM_IMAGES

LOOKS_VERSION = 2
"""Changes whenever the same scores would get other verdicts by looks; stored verdicts are then computed again."""

GROWTH = 1.25
"""Each look has so many times the images of the one before."""

EARLY_ERROR = 0.04
"""How often all looks before the last may err together, on both sides; the last may err as often as `LEVEL` allows.

Errors are added up as if no look erred in the same tests as another; with normal scores it is about two thirds of that."""

MOST_AT_ONCE = 0.005
"""What a single look before the last may err at most: with few images, intervals of skewed scores err more than they say."""

HOPELESS = 0.05
"""A pass, or a fail, is out of reach where the images left would show it with less than this chance."""

TURNS = 0.01
"""A pass waits where the images left would show with at least this chance that the difference is within the margin."""

WORTH = 0.5
"""A test stops where the images left are expected to settle fewer verdicts than this, and than `WORTH_EACH` per method."""

WORTH_EACH = 0.1
"""So a test of few methods goes on for a single one."""

DRAWS_BEYOND = 10
"""How many bootstrap draws lie beyond either end of an interval, on average."""

MOST_RESAMPLES = 60_000
"""The most bootstrap draws of a look, to bound time."""

CLEAR = 2.6
"""Whether a control wins the metric outright must be clear by so many standard errors of what the images left can move."""


@dataclass(frozen=True)
class Looks:
    """After how many images a run looks at its verdicts, the last time after all of them."""

    sizes: tuple[int, ...]

    @staticmethod
    def plan(images: int, shard: int = 1) -> Looks:
        """The looks at a run of so many images: after whole shards, from the least number that allows a verdict.

        >>> Looks.plan(100).sizes
        (30, 38, 48, 60, 75, 94, 100)
        >>> Looks.plan(200, shard=16).sizes
        (32, 48, 64, 80, 112, 144, 192, 200)
        """
        sizes, shards = [], math.ceil(MINIMUM_IMAGES / shard)
        while shards * shard < images:
            sizes.append(shards * shard)
            shards = max(shards + 1, math.ceil(GROWTH * shards))
        return Looks((*sizes, images))

    @property
    def last(self) -> int:
        """The number of the last look; looks are numbered from 0."""
        return len(self.sizes) - 1

    def level(self, number: int) -> float:
        """The probability that all intervals of a look hold together.

        >>> Looks((30, 38, 48, 60, 75, 94)).level(0), Looks((30, 38, 48, 60, 75, 94)).level(5)
        (0.995, 0.98)
        >>> Looks.plan(250).level(0)
        0.996
        """
        return LEVEL if number == self.last else 1 - min(MOST_AT_ONCE, EARLY_ERROR / self.last)

    def resamples(self, number: int) -> int:
        """How many bootstrap draws the intervals of a look need."""
        if number == self.last:
            return RESAMPLES
        return max(RESAMPLES, min(MOST_RESAMPLES, round(2 * DRAWS_BEYOND / (1 - self.level(number)))))


@dataclass(frozen=True, kw_only=True)
class MetricScores:
    """The scores of a test so far; rows are images in the order of their names, larger scores are better."""

    methods: Float[np.ndarray, "images methods"]
    controls: Float[np.ndarray, "images controls"]
    method_done: Bool[np.ndarray, "images methods"]
    """Whether a score was computed, be it undefined, or never can be."""
    control_done: Bool[np.ndarray, "images controls"]
    place: Int[np.ndarray, " images"]
    """The number of each image in the order in which the run computes them."""
    absent: frozenset[str] = frozenset()
    """Methods and controls whose maps the metric cannot score."""
    clusters: Clusters | None = None
    """The number of each image's cluster; None where each image is drawn by itself."""

    def first(self, size: int) -> MetricScores:
        """Those of the first images."""
        at = self.place < size
        return MetricScores(
            methods=self.methods[at],
            controls=self.controls[at],
            method_done=self.method_done[at],
            control_done=self.control_done[at],
            place=self.place[at],
            absent=self.absent,
            clusters=None if self.clusters is None else np.unique(self.clusters[at], return_inverse=True)[1],
        )


OutrightState = Literal["no", "unclear", "yes"]
State = Literal["settled", "hopeless", "open"]


class MetricLooks:
    """The looks at one test: what is settled, and which methods and controls the next look needs."""

    def __init__(
        self,
        metric: MetricSpec,
        *,
        methods: Sequence[str],
        controls: Sequence[str],
        looks: Looks,
        until: Until,
        seed: int = 0,
        unit: SamplingUnit = "image",
    ) -> None:
        self.metric, self.methods, self.controls = metric, tuple(methods), tuple(controls)
        self._looks, self._until, self._seed, self._unit = looks, until, seed, unit
        self._axiom = metric.tolerance is not None
        shape = len(self.methods), 1 if self._axiom else len(self.controls)
        self._settled = np.zeros(shape, dtype=bool)
        self._size = np.zeros(shape, dtype=np.int64)
        self._pairs: list[list[PairedDifference | None]] = [[None] * shape[1] for _ in self.methods]
        self._hopeless = np.zeros(shape[0], dtype=bool)
        self._spared = np.zeros(shape, dtype=bool)
        self._margin = np.zeros(shape)
        self._outright: OutrightState = "no"
        self._taken: list[int] = []
        self._partial: MetricScores | None = None

    @property
    def size(self) -> int:
        """After how many images the last look was; 0 before the first."""
        return self._taken[-1] if self._taken else 0

    @property
    def next_size(self) -> int | None:
        """After how many images the next look is; None where none is needed."""
        return next((size for size in self._looks.sizes if size > self.size), None) if self.needs() else None

    def needs(self) -> tuple[str, ...]:
        """The methods and controls whose scores the next look needs."""
        if not self._taken or self._outright == "unclear":
            return (*self.methods, *self.controls)
        if self.size == self._looks.sizes[-1]:
            return ()
        running = [at for at in range(len(self.methods)) if self._is_running(at)]
        decided = (self._settled | self._spared)[running]
        rivals = [] if self._axiom else [at for at in range(len(self.controls)) if not decided[:, at].all()]
        return (*(self.methods[at] for at in running), *(self.controls[at] for at in rivals))

    def state(self, method: str) -> State:
        """Whether the verdict on a method is settled, open, or hardly to be settled by the images of the run."""
        at = self.methods.index(method)
        if self._taken and (self._outright == "yes" or self._has_failed(at) or bool(self._settled[at].all())):
            return "settled"
        return "hopeless" if self._hopeless[at] or self.size == self._looks.sizes[-1] else "open"

    def further(self) -> int:
        """About how many images more, of those of the run, would settle what is open."""
        left = self._looks.sizes[-1] - self.size
        most = 0
        for at, method in enumerate(self.methods):
            if self.state(method) == "open":
                pairs = [pair for pair in self._pairs[at] if pair is not None and pair.n]
                if self._axiom:
                    more = images_for_axiom(pairs[0], self.size) if pairs else None
                else:
                    more = further_images(pairs, self.size) if pairs else None
                most = max(most, left if more is None else min(left, more))
        return most

    def look(self, scores: MetricScores) -> bool:
        """Takes the next look, and returns whether the scores that it needs were there."""
        number = len(self._taken)
        size = self._looks.sizes[number]
        here = scores.first(size)
        ready = np.ones(1, dtype=bool) if self._axiom else here.control_done.all(axis=0)
        done = np.asarray(here.method_done.all(axis=0))[:, None] & ready
        pending = ~self._settled & done
        everything = bool(here.method_done.all() and here.control_done.all())
        if len(here.place) < size or not (pending.any() or (everything and self._outright == "unclear")):
            self._partial = here
            return False
        self._taken.append(size)
        self._size[pending] = size
        self._margin = MARGIN * _deviations(here, self._axiom)
        for row, of_method in enumerate(self._compare(here, number)):
            for column, pair in enumerate(of_method):
                if pending[row, column]:
                    self._pairs[row][column] = pair
                    self._settled[row, column] = self._settles(here, row, column, pair)
        if not self._axiom and everything:
            self._outright = _outright_state(here, self._looks.sizes[-1])
        if self._until.half_width is None:
            self._give_up(done)
        return True

    def expected(self) -> float:
        """How many verdicts the next look is expected to settle."""
        if not self._taken:
            return len(self.methods) / 2
        if (size := self.next_size) is None:
            return 0.0
        return sum(sum(self._chances(at, size)) for at in range(len(self.methods)) if self._is_running(at))

    def result(self) -> Looked:
        """What judges the methods now."""
        total = f"{self._looks.sizes[-1]:,}"
        if not self._taken:
            return self._before_the_first(f"No look at {total} images was possible yet.")
        words = f"Looked at after {listed([f'{size:,}' for size in self._taken])} of {total} images"
        if len(self._looks.sizes) > 1:
            words += f"; all looks before the last together err in {EARLY_ERROR:.0%} more of the tests"
        return Looked(
            differences=[tuple(_NOT_LOOKED_AT if pair is None else pair for pair in row) for row in self._pairs],
            images=tuple(int(row.max()) for row in self._size),
            outright=self._outright == "yes",
            words=f"{words}.",
        )

    # One look ------------------------------------------------------------------------------------------------------------

    def _compare(
        self, here: MetricScores, number: int, counted: Bool[np.ndarray, "images methods controls"] | None = None
    ) -> list[tuple[PairedDifference, ...]]:
        """The differences of all pairs by the images that count for each: those of settled pairs up to their own look.

        In the correction, pairs that stopped earlier count as if their other images were like those that they have: the
        far ends of few images would widen the intervals of all others.
        """
        stand_ins = None
        if counted is None:
            counted = here.place[:, None, None] < self._size
            if here.clusters is None:
                stand_ins = _stand_ins(here.place, self._size)
            if number < len(self._looks.sizes) - 1:  # the last look is that of a full run
                counted = counted & ~self._has_passed()
        level, resamples = self._looks.level(number), self._looks.resamples(number)
        if self._axiom:
            return axiom_gaps(
                here.methods,
                self.metric,
                seed=self._seed,
                clusters=here.clusters,
                level=level,
                resamples=resamples,
                counted=counted,
                stand_ins=stand_ins,
            )
        return against_controls(
            here.methods,
            here.controls,
            self.controls,
            seed=self._seed,
            clusters=here.clusters,
            level=level,
            resamples=resamples,
            counted=counted,
            stand_ins=stand_ins,
        )

    def _settles(self, here: MetricScores, row: int, column: int, pair: PairedDifference) -> bool:
        """Whether a comparison needs no more images."""
        last = self._looks.sizes[-1]
        if pair.n == 0:  # it counts for nothing, unless it is undefined on these images by chance
            names = self.methods[row], *self.controls[column : column + 1]
            return not here.absent.isdisjoint(names) or HIDDEN / self.size * last < MINIMUM_IMAGES
        if pair.n < MINIMUM_IMAGES or pair.units < MINIMUM_GROUPS:
            return False
        if self._until.half_width is not None:
            deviation = pair.spread if self._axiom else pair.margin / MARGIN
            return (pair.high - pair.low) / 2 <= self._until.half_width * deviation
        if self._axiom:
            return pair.high <= pair.margin or max(0.0, pair.low) > pair.margin
        if pair.worse or pair.alike:
            return True
        if not pair.better or self.size == last:
            return pair.better
        if self._chance(row, column, last).alike >= TURNS:
            return False
        # A pass that failures could undo which so few images need not show is not settled yet.
        rival = here.controls[:, [column]]
        return not rare_failure_note(here.methods[:, row], rival, (pair,), worst_value(self.metric), self._unit)

    def _has_failed(self, row: int) -> bool:
        """Whether a method is settled to be worse than some control, or alike; then its other comparisons do not matter."""
        if self._until.half_width is not None or self._axiom:
            return False
        return any(
            settled and pair is not None and (pair.worse or pair.alike)
            for settled, pair in zip(self._settled[row], self._pairs[row], strict=True)
        )

    def _has_passed(self) -> Bool[np.ndarray, "methods controls"]:
        """The comparisons that are settled in favour of the method; the others alone can still be passed wrongly."""
        if self._until.half_width is not None:
            return np.zeros(self._settled.shape, dtype=bool)
        return np.array(
            [
                [
                    bool(settled) and pair is not None and (pair.high <= pair.margin if self._axiom else pair.better)
                    for settled, pair in zip(*row, strict=True)
                ]
                for row in zip(self._settled, self._pairs, strict=True)
            ],
            dtype=bool,
        ).reshape(self._settled.shape)

    def _is_running(self, row: int) -> bool:
        return not (self._outright == "yes" or self._hopeless[row] or self._settled[row].all() or self._has_failed(row))

    # What is to be expected -----------------------------------------------------------------------------------------------

    def _give_up(self, done: Bool[np.ndarray, "methods controls"]) -> None:
        """Finds the methods, and the single comparisons, that the images left are not worth computing for.

        Args:
            done: Which comparisons have all their scores so far. Others have missed images, and stay given up.
        """
        last = self._looks.sizes[-1]
        if self.size == last:
            return
        self._spared &= ~done
        self._hopeless &= ~done.any(axis=1)
        expected = 0.0
        for row in range(len(self.methods)):
            if not self._is_running(row):
                continue
            passes, fails = self._chances(row, last)
            if passes < HOPELESS and fails < HOPELESS:
                self._hopeless[row] = True
                continue
            expected += passes + fails
            if passes < HOPELESS and not self._axiom:  # only controls matter that the method may still be no better than
                left = _places(~self._settled[row])
                for column in left:
                    chance = self._chance(row, column, last)
                    self._spared[row, column] |= chance.worse + chance.alike < HOPELESS / len(left)
        if expected < min(WORTH, WORTH_EACH * len(self.methods)):
            self._hopeless |= [self._is_running(row) for row in range(len(self.methods))]

    def _chances(self, row: int, size: int) -> tuple[float, float]:
        """The chances that the method passes and that it fails at a look after so many images, at most."""
        spared = self._spared[row]
        chances = [self._chance(row, column, size) for column in _places(~self._settled[row] & ~spared)]
        passes = 0.0 if spared.any() else min((chance.better for chance in chances), default=0.0)
        fails = math.fsum(chance.worse + chance.alike for chance in chances)
        return passes, min(1.0 - passes, fails)

    def _chance(self, row: int, column: int, size: int) -> Chances:
        """How a look after so many images would find a pair, if means and spreads stay as they are."""
        pair, now = self._pairs[row][column], int(self._size[row, column])
        if pair is None:
            return Chances(0.5, 0.0, 0.0)
        if pair.n == 0:
            return Chances(1.0, 0.0, 0.0)
        if (pair.n + HIDDEN) / now * size < MINIMUM_IMAGES:
            return Chances(0.0, 0.0, 0.0)
        then = pair.n * size / now
        error = pair.spread / math.sqrt(then)
        # So far do the mean of the images so far and that of `size` images differ, which include them.
        drift = pair.spread * math.sqrt(max(0.0, 1 / pair.n - 1 / then))
        before = pair.spread / math.sqrt(pair.n)
        down, up = (
            self._reach_then(end, before, now, size) * error for end in (pair.mean - pair.low, pair.high - pair.mean)
        )

        def above(limit: float) -> float:
            """The chance that the mean will be above a limit."""
            if not drift:
                return float(pair.mean > limit)
            return float(scipy.stats.t.sf((limit - pair.mean) / drift, max(1, pair.units - 1)))

        if self._axiom:
            return Chances(1 - above(pair.margin - up), above(pair.margin + down), 0.0)
        margin = max(pair.margin, float(self._margin[row, column]))
        alike = max(0.0, above(down - margin) - above(margin - up)) if down + up <= 2 * margin else 0.0
        return Chances(above(down), 1 - above(-up), alike)

    def _reach_then(self, width: float, error: float, now: int, size: int) -> float:
        """How many standard errors an interval will reach to a side that reaches so far now.

        Far ends of intervals of few images come from a few bootstrap draws, so they are not trusted beyond a fifth more
        than those of normal scores.
        """
        least = self._reach(size)
        return min(width / error * least / self._reach(now), 1.2 * least) if error else 0.0

    def _reach(self, size: int) -> float:
        """About how many standard errors the intervals of a look reach to either side."""
        error = 1 - self._looks.level(self._looks.sizes.index(size))
        return NormalDist().inv_cdf(1 - error / 2 / self._settled.size)

    def _before_the_first(self, words: str) -> Looked:
        """Too few images for a verdict: whatever is there, but never as many as would allow one."""
        shape = (*self._settled.shape,)
        if self._partial is None or not len(self._partial.place):
            rows = [(_NOT_LOOKED_AT,) * shape[1]] * shape[0]
        else:
            counted = (self._partial.place < MINIMUM_IMAGES - 1)[:, None, None] & np.ones(shape, dtype=bool)
            rows = self._compare(self._partial, self._looks.last, counted)
        return Looked(differences=rows, images=(self._looks.sizes[0],) * shape[0], outright=False, words=words)


_NOT_LOOKED_AT = PairedDifference(control="", mean=math.nan, low=math.nan, high=math.nan, margin=0.0, spread=0.0, n=1)
"""A pair whose scores are not complete: too few for a verdict, where none at all would count for nothing."""


class Chances(NamedTuple):
    """The chances of what a later look finds; for an axiom, of a pass and of a fail."""

    better: float
    worse: float
    alike: float


def listed(names: Sequence[str]) -> str:
    """The names with commas, and "and" before the last.

    >>> listed(["32", "48", "80"])
    '32, 48 and 80'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _stand_ins(
    place: Int[np.ndarray, " images"], size: Int[np.ndarray, "methods controls"]
) -> Int[np.ndarray, "images methods controls"]:
    """By pair, the row of the image that stands for each image: itself, or one of those that the pair has, in turn."""
    rows = np.argsort(place)
    return np.asarray(rows[place[:, None, None] % np.maximum(1, np.minimum(size, len(place)))])


def _places(chosen: Bool[np.ndarray, " columns"]) -> list[int]:
    return [int(place) for place in np.flatnonzero(chosen)]


def _deviations(here: MetricScores, axiom: bool) -> Float[np.ndarray, "methods controls"]:
    """The pooled standard deviation of the scores of each pair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without two defined scores
        own = np.nan_to_num(np.nanvar(here.methods, axis=0, ddof=1))
        rivals = np.zeros(1) if axiom else np.nan_to_num(np.nanvar(here.controls, axis=0, ddof=1))
    return np.asarray(np.sqrt((own[:, None] + rivals[None]) / 2))


def _outright_state(here: MetricScores, images: int) -> OutrightState:
    """Whether a control wins the metric outright; unclear where all images of the run may show otherwise."""
    share = control_win_share(here.methods, here.controls)
    if math.isnan(share):
        return "no"
    own = here.methods[:, ~np.isnan(here.methods).all(axis=0)]
    rivals = here.controls[:, ~np.isnan(here.controls).all(axis=0)]
    means, best = np.nanmean(own, axis=0), np.nanmean(rivals, axis=0)
    gaps = own - rivals[:, [best.argmax()]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of images and columns without two defined scores
        by_image = np.nanmean(np.where(np.isnan(gaps), np.nan, gaps <= 0), axis=1)
        spread = np.nan_to_num(np.nanstd(gaps, axis=0, ddof=1))
    by_image = by_image[~np.isnan(by_image)]
    # So far do means move until all images are there. Of those so far none may have shown otherwise.
    left = math.sqrt(max(0.0, 1 - len(here.place) / images))
    error = left * max(float(by_image.std()), 1 / len(by_image)) / math.sqrt(len(by_image))
    errors = left * spread / np.sqrt(np.maximum(1, (~np.isnan(gaps)).sum(axis=0)))
    # The best control is among the top two: at most one method, of several, is better.
    most, ahead = min(2, own.shape[1]) - 1, means - best.max()
    if share <= OUTRIGHT - CLEAR * error or (ahead > CLEAR * errors).sum() > most:
        return "no"
    return "yes" if share > OUTRIGHT + CLEAR * error and (ahead > -CLEAR * errors).sum() <= most else "unclear"
