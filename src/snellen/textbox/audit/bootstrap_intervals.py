"""Bootstrap intervals over everything that was sampled: networks, maps, and the images of each network.

An interval over images alone says how a mean would change with other images of the same networks and the same methods. But
"this metric prefers right maps" is also about other networks and other methods. So networks and maps are resampled too, each
independently of the other (the pigeonhole bootstrap of Owen 2007), and images within their network and bucket. Of n members
of a factor, n - 1 are drawn, which makes the variance of the resamples right however few there are (Rao and Wu 1988).
Resampling all factors at once counts the variance of the lowest level more than once (Owen 2007), so that these intervals
are too wide rather than too narrow where images, not networks or methods, make the spread.

A bootstrap of few networks is too narrow. The ends are therefore those of Student's distribution, with Satterthwaite's
degrees of freedom: close to the number of networks less one where networks make most of the spread. They are computed on the
scale of logits, so that no end leaves the bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special
import scipy.stats
from jaxtyping import Float, Int

from snellen.textbox.audit.agreement import ImageValues, Pairs

RESAMPLES = 2000
"""Enough for a standard error within two per cent; no quantile of the draws is taken."""

EQUAL = 1e-12
"""Differences below this are rounding errors."""

FACTORS = ("networks", "maps", "images")

ImageCounts = Float[np.ndarray, "resamples images"]
Groups = Sequence[Int[np.ndarray, " _"]]


@dataclass(frozen=True, kw_only=True)
class BootstrapInterval:
    """A mean over images with its 95 % interval."""

    mean: float
    low: float
    high: float
    """Ends of the interval."""
    images: int
    """Number of images with a value."""
    networks: int
    """Number of networks that these come from."""
    error: float
    """Standard error."""
    freedom: float
    """Degrees of freedom."""
    errors: Mapping[str, float]
    """Standard error of each factor, when it alone is resampled."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest possible value."""

    def p_value(self, expected: float) -> float:
        """The two-sided p value of the mean against `expected`: below .05 where the interval excludes it."""
        if np.isnan(self.error):
            return np.nan
        if self.error == 0:
            return 1.0 if abs(self.mean - expected) < EQUAL else 0.0
        middle, error = _logit(self.mean, self.error, self.bounds)
        guess, _ = _logit(expected, 0.0, self.bounds)
        return float(2 * scipy.stats.t.sf(abs(middle - guess) / error, self.freedom))


@dataclass(frozen=True, eq=False)
class ResampledMeasure:
    """A measure of every image, and the same in every resample of maps."""

    plain: ImageValues
    """With every map once."""
    resampled: Float[np.ndarray, "resamples images"]
    """With every map as often as the resample says."""
    freedom: int
    """Degrees of freedom of the maps; 0 where they are not resampled."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Resamples:
    """How often every map and every image counts in every resample; all measures share them, to be comparable."""

    networks: Int[np.ndarray, " images"]
    """Number of the network of each image."""
    strata: Int[np.ndarray, " images"]
    """Number of the bucket of each image."""
    kinds: tuple[str, ...]
    """Of the maps."""
    maps: Float[np.ndarray, "resamples maps"]
    """How often every map counts."""
    images: ImageCounts
    """How often every image counts within its network."""
    seed: int

    def measure(self, pairs: Pairs, columns: Sequence[int] | None = None) -> ResampledMeasure:
        """A measure of pairs of maps under resampling.

        Args:
            pairs: The pairs of the maps in `columns`.
            columns: The maps. None where they are not a sample, and are not resampled.
        """
        plain = pairs.values()
        if columns is None:
            return ResampledMeasure(plain, np.broadcast_to(plain, (len(self.maps), len(plain))), 0)
        kinds = [self.kinds[column] for column in columns]
        return ResampledMeasure(plain, pairs.resample(self.maps[:, list(columns)]), len(kinds) - len(set(kinds)))

    def group(self, images: Sequence[int]) -> ImageGroup:
        """The resamples of some of the images; the networks that these come from are resampled."""
        chosen = np.asarray(images)
        own = self.networks[chosen]
        generator = np.random.default_rng((self.seed, 1))
        networks = _counts([np.arange(len(np.unique(own)))], len(self.maps), generator)[
            :, np.unique(own, return_inverse=True)[1]
        ]
        return ImageGroup(
            chosen=chosen,
            network_numbers=own,
            strata=len(np.unique(self.strata[chosen])),
            networks=networks,
            images=self.images[:, chosen],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageGroup:
    """Some of the images, with the resamples of their networks and of themselves."""

    chosen: Int[np.ndarray, " images"]
    """Positions among all images."""
    network_numbers: Int[np.ndarray, " images"]
    """Number of the network of each image."""
    strata: int
    """Number of buckets."""
    networks: ImageCounts
    """How often the network of each image counts."""
    images: ImageCounts
    """How often each image counts within its network."""

    def interval(
        self, measure: ResampledMeasure, *, bounds: tuple[float, float] = (0.0, 1.0), level: float = 0.95
    ) -> BootstrapInterval:
        """The mean of a measure over the images with a value; fewer than two images give no interval."""
        plain, resampled = measure.plain[self.chosen], measure.resampled[:, self.chosen]
        defined = ~np.isnan(plain)
        n, networks = int(defined.sum()), len(np.unique(self.network_numbers[defined]))
        mean = float(plain[defined].mean()) if n else np.nan
        if n < 2:
            return BootstrapInterval(
                mean=mean, low=np.nan, high=np.nan, images=n, networks=networks, error=np.nan, freedom=np.nan,
                errors=dict.fromkeys(FACTORS, np.nan), bounds=bounds,
            )  # fmt: skip
        errors = {
            "networks": _error(self.networks, plain, mean),
            "maps": _error(np.ones_like(self.images), resampled, mean) if measure.freedom else 0.0,
            "images": _error(self.images, plain, mean),
        }
        error = _error(self.networks * self.images, resampled, mean)
        freedom = _freedom(errors, {"networks": networks - 1, "maps": measure.freedom, "images": n - self.strata})
        low, high = _ends(mean, error, freedom, bounds, level)
        return BootstrapInterval(
            mean=mean, low=low, high=high, images=n, networks=networks, error=error, freedom=freedom, errors=errors,
            bounds=bounds,
        )  # fmt: skip


def draw_resamples(
    networks: Sequence[str],
    strata: Int[np.ndarray, " images"],
    kinds: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Resamples:
    """Resamples of images and maps.

    Args:
        networks: Name of the network of each image.
        strata: Number of the bucket of each image; images are resampled within their bucket.
        kinds: Kind of each map; maps are resampled within their kind.
        resamples: How many.
        seed: Of the random numbers.
    """
    generator = np.random.default_rng((seed, 0))
    numbers = {name: number for number, name in enumerate(dict.fromkeys(networks))}
    of_kind = [np.flatnonzero(np.array(kinds) == kind) for kind in dict.fromkeys(kinds)]
    return Resamples(
        networks=np.array([numbers[name] for name in networks]),
        strata=strata,
        kinds=tuple(kinds),
        maps=_counts(of_kind, resamples, generator),
        images=_counts(_strata(strata), resamples, generator),
        seed=seed,
    )


def _counts(groups: Groups, resamples: int, generator: np.random.Generator) -> Float[np.ndarray, "resamples members"]:
    """How often each member counts in each resample; the only member of a group always counts once."""
    counts = np.ones((resamples, sum(len(members) for members in groups)))
    for members in groups:
        size = len(members)
        if size > 1:
            draws = generator.multinomial(size - 1, np.full(size, 1 / size), size=resamples)
            counts[:, members] = draws * (size / (size - 1))
    return counts


def _strata(strata: Int[np.ndarray, " images"]) -> Groups:
    """The images of each stratum; single images form one group together, or join the largest if there is only one."""
    groups = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    alone = [members for members in groups if len(members) == 1]
    several = [members for members in groups if len(members) > 1]
    if len(alone) == 1 and several:
        largest = max(range(len(several)), key=lambda index: len(several[index]))
        several[largest] = np.concatenate([several[largest], alone[0]])
    elif alone:
        several.append(np.concatenate(alone))
    return several


def _error(counts: ImageCounts, values: ImageValues | Float[np.ndarray, "resamples images"], mean: float) -> float:
    """The standard deviation over resamples of the mean over images; NaN where most resamples leave no value."""
    defined = ~np.isnan(values)
    # Differences from the mean are averaged, so that equal values give exactly no width.
    sums = "ri,i->r" if values.ndim == 1 else "ri,ri->r"
    total = np.einsum(sums, counts, defined.astype(np.float64))
    summed = np.einsum(sums, counts, np.where(defined, values - mean, 0.0))
    if (total > 0).mean() < 0.5:
        return np.nan
    error = float(np.std(summed[total > 0] / total[total > 0]))
    return 0.0 if error < EQUAL else error


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
