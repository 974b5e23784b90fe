"""Intervals over everything that was sampled: networks, maps, and the images of each network, drawn again together.

An interval over images alone says how a mean would move with further images of the same networks and maps of the same
methods. Whoever reads "this metric prefers right maps" thinks of other networks and other methods. So networks and maps are
drawn again too, each independently of the other (the pigeonhole bootstrap of Owen 2007), and images within their network and
bucket. Every factor is drawn one time fewer than it has members, which makes the spread of the draws right however few there
are (Rao and Wu 1988). Drawing all at once counts the variance of the lowest level more than once (Owen 2007), so that these
intervals are rather too wide than too narrow where images, not networks or methods, make the spread.

Few networks need more than that: a bootstrap of seven clusters never sees a cluster that was not drawn. The ends are
therefore Student's, with Satterthwaite's degrees of freedom: close to the number of networks less one where networks make
most of the spread. They are set on the scale of logits, so that no end leaves the bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special
import scipy.stats
from jaxtyping import Float, Int

from snellen.textbox.audit.agreement import Images, Pairs

RESAMPLES = 2000
"""Enough for a standard error within two per cent; no quantile of the draws is taken."""

EQUAL = 1e-12
"""Differences below this are those of rounding."""

FACTORS = ("networks", "maps", "images")

ImageCounts = Float[np.ndarray, "resamples images"]
Groups = Sequence[Int[np.ndarray, " _"]]


@dataclass(frozen=True)
class Interval:
    """A mean over images with the ends of its 95 % interval, and what these rest on.

    `errors` are the standard errors that each factor brings when it alone is drawn again.
    """

    mean: float
    low: float
    high: float
    images: int
    networks: int
    error: float
    freedom: float
    errors: Mapping[str, float]
    bounds: tuple[float, float] = (0.0, 1.0)

    def chance(self, expected: float) -> float:
        """The two-sided p value of the mean against that of guessing: below .05 where the interval excludes it."""
        if np.isnan(self.error):
            return np.nan
        if self.error == 0:
            return 1.0 if abs(self.mean - expected) < EQUAL else 0.0
        middle, error = _logit(self.mean, self.error, self.bounds)
        guess, _ = _logit(expected, 0.0, self.bounds)
        return float(2 * scipy.stats.t.sf(abs(middle - guess) / error, self.freedom))


@dataclass(frozen=True, eq=False)
class Spread:
    """A measure of every image, with every map once and in every resample of maps."""

    plain: Images
    drawn: Float[np.ndarray, "resamples images"]
    freedom: int


@dataclass(frozen=True, eq=False)
class Draws:
    """What every map and every image counts in every resample; measures that are to be compared share their draws."""

    networks: Int[np.ndarray, " images"]
    strata: Int[np.ndarray, " images"]
    kinds: tuple[str, ...]
    maps: Float[np.ndarray, "resamples maps"]
    images: ImageCounts
    seed: int

    def spread(self, pairs: Pairs, columns: Sequence[int] | None = None) -> Spread:
        """A measure under the draws of maps; no columns: its maps are not a sample of anything and stay as they are."""
        plain = pairs.values()
        if columns is None:
            return Spread(plain, np.broadcast_to(plain, (len(self.maps), len(plain))), 0)
        kinds = [self.kinds[column] for column in columns]
        return Spread(plain, pairs.drawn(self.maps[:, list(columns)]), len(kinds) - len(set(kinds)))

    def inside(self, images: Sequence[int]) -> Group:
        """The draws of some of the images, in which the networks that these come from are drawn again."""
        chosen = np.asarray(images)
        own = self.networks[chosen]
        generator = np.random.default_rng((self.seed, 1))
        networks = _counts([np.arange(len(np.unique(own)))], len(self.maps), generator)[
            :, np.unique(own, return_inverse=True)[1]
        ]
        return Group(chosen, own, len(np.unique(self.strata[chosen])), networks, self.images[:, chosen])


@dataclass(frozen=True, eq=False)
class Group:
    """Images of which one statement is made, with the draws of their networks and of themselves."""

    chosen: Int[np.ndarray, " images"]
    own: Int[np.ndarray, " images"]
    strata: int
    networks: ImageCounts
    images: ImageCounts

    def interval(self, spread: Spread, *, bounds: tuple[float, float] = (0.0, 1.0), level: float = 0.95) -> Interval:
        """The mean of a measure over these images; undefined values go with their image, fewer than two give no interval."""
        plain, drawn = spread.plain[self.chosen], spread.drawn[:, self.chosen]
        defined = ~np.isnan(plain)
        n, networks = int(defined.sum()), len(np.unique(self.own[defined]))
        mean = float(plain[defined].mean()) if n else np.nan
        if n < 2:
            return Interval(mean, np.nan, np.nan, n, networks, np.nan, np.nan, dict.fromkeys(FACTORS, np.nan), bounds)
        errors = {
            "networks": _error(self.networks, plain, mean),
            "maps": _error(np.ones_like(self.images), drawn, mean) if spread.freedom else 0.0,
            "images": _error(self.images, plain, mean),
        }
        error = _error(self.networks * self.images, drawn, mean)
        freedom = _freedom(errors, {"networks": networks - 1, "maps": spread.freedom, "images": n - self.strata})
        low, high = _ends(mean, error, freedom, bounds, level)
        return Interval(mean, low, high, n, networks, error, freedom, errors, bounds)


def draws(
    networks: Sequence[str],
    strata: Int[np.ndarray, " images"],
    kinds: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Draws:
    """Draws for images of these networks and strata, and for maps of these kinds, which are drawn within their kind."""
    generator = np.random.default_rng((seed, 0))
    places = {name: place for place, name in enumerate(dict.fromkeys(networks))}
    of_kind = [np.flatnonzero(np.array(kinds) == kind) for kind in dict.fromkeys(kinds)]
    return Draws(
        np.array([places[name] for name in networks]),
        strata,
        tuple(kinds),
        _counts(of_kind, resamples, generator),
        _counts(_strata(strata), resamples, generator),
        seed,
    )


def _counts(groups: Groups, resamples: int, generator: np.random.Generator) -> Float[np.ndarray, "resamples members"]:
    """What each member counts in each resample; who is alone in a group always counts once."""
    found = np.ones((resamples, sum(len(members) for members in groups)))
    for members in groups:
        size = len(members)
        if size > 1:
            found[:, members] = generator.multinomial(size - 1, np.full(size, 1 / size), size=resamples) * (
                size / (size - 1)
            )
    return found


def _strata(strata: Int[np.ndarray, " images"]) -> Groups:
    """The images of each stratum; those that are alone in theirs are one group, and go to the largest if still alone."""
    groups = [np.flatnonzero(strata == value) for value in np.unique(strata)]
    alone = [members for members in groups if len(members) == 1]
    several = [members for members in groups if len(members) > 1]
    if len(alone) == 1 and several:
        largest = max(range(len(several)), key=lambda at: len(several[at]))
        several[largest] = np.concatenate([several[largest], alone[0]])
    elif alone:
        several.append(np.concatenate(alone))
    return several


def _error(counts: ImageCounts, values: Images | Float[np.ndarray, "resamples images"], mean: float) -> float:
    """The standard deviation over resamples of the mean over images; NaN where most resamples leave nothing defined."""
    defined = ~np.isnan(values)
    # Differences from the mean are averaged, so that equal values give exactly no width.
    sums = "ri,i->r" if values.ndim == 1 else "ri,ri->r"
    total = np.einsum(sums, counts, defined.astype(np.float64))
    summed = np.einsum(sums, counts, np.where(defined, values - mean, 0.0))
    if (total > 0).mean() < 0.5:
        return np.nan
    found = float(np.std(summed[total > 0] / total[total > 0]))
    return 0.0 if found < EQUAL else found


def _freedom(errors: Mapping[str, float], freedoms: Mapping[str, int]) -> float:
    """Satterthwaite's degrees of freedom of a sum of variances."""
    variances = {factor: error**2 for factor, error in errors.items()}
    rest = sum(variances[factor] ** 2 / max(1, freedoms[factor]) for factor in FACTORS)
    return sum(variances.values()) ** 2 / rest if rest else 1.0


def _logit(mean: float, error: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """A mean between bounds and its standard error on the scale of logits."""
    low, high = bounds
    share = (mean - low) / (high - low)
    return float(scipy.special.logit(share)), error / (high - low) / (share * (1 - share))


def _ends(mean: float, error: float, freedom: float, bounds: tuple[float, float], level: float) -> tuple[float, float]:
    if np.isnan(error):
        return np.nan, np.nan
    if error == 0:
        return mean, mean
    middle, half = _logit(mean, error * float(scipy.stats.t.ppf(0.5 + level / 2, freedom)), bounds)
    low, high = bounds
    ends = low + (high - low) * scipy.special.expit([middle - half, middle + half])
    return float(ends[0]), float(ends[1])
