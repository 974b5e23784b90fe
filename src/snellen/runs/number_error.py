"""The error of a model that estimates a number: how far it is from the true numbers, and what to make of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

USUAL_REASONS = "a mean, std or size other than in training, or numbers in another unit"
FEWEST = 5
"""With fewer labelled images, no remark compares the model with always saying the same number."""


@dataclass(frozen=True)
class NumberError:
    """The mean absolute error over the labelled images, with its 95 % interval (Student's t) and a remark."""

    mean: float
    """Mean of |estimate - true number|."""
    n: int
    """How many labelled images."""
    low: float | None
    """None with a single image."""
    high: float | None
    """Ends of the interval of the mean."""
    r2: float | None
    """1 - (sum of squared errors) / (that of always saying the mean of the true numbers); None where these are all equal."""
    unit: str
    """Of the numbers; empty where it is not stated."""
    remark: str
    """A sentence about the error; empty where it needs none."""
    doubtful: bool
    """Whether the remark questions how the model was set up."""

    name = "Mean absolute error"

    @property
    def words(self) -> str:
        """The number with its unit, interval, n and R²."""
        unit = f" {self.unit}" if self.unit else ""
        interval = "" if self.low is None or self.high is None else f" [{self.low:.3g}, {self.high:.3g}]"
        images = f"{self.n} labelled image{'' if self.n == 1 else 's'}"
        return f"{self.mean:.3g}{unit}{interval}, {images}" + ("" if self.r2 is None else f"; R² {self.r2:.2f}")

    @property
    def sentence(self) -> str:
        """The same in a sentence, for pages."""
        unit = f" {self.unit}" if self.unit else ""
        images = "1 labelled image" if self.n == 1 else f"{self.n} labelled images, on average"
        return f"The model's number is off by {self.mean:.3g}{unit} on {images}."


def number_error(
    numbers: Sequence[float | None], estimates: Sequence[float | None], unit: str = "", condition: str | None = None
) -> NumberError | None:
    """The error over the labelled images; None where none is labelled.

    >>> number_error([10.0, 20.0, None], [12.0, 16.0, 5.0], "years").words
    '3 years [0, 15.7], 2 labelled images; R² 0.60'

    Always saying the median of the true numbers is the comparison: of all constants, it has the smallest error.
    """
    pairs = [
        (number, estimate)
        for number, estimate in zip(numbers, estimates, strict=True)
        if number is not None and estimate is not None
    ]
    if not pairs:
        return None
    true = [number for number, _ in pairs]
    errors = [abs(estimate - number) for number, estimate in pairs]
    n, mean = len(pairs), statistics.fmean(errors)
    low = high = r2 = None
    if n > 1:
        from scipy.stats import t as student  # half a second, which workers do not need

        half = float(student.ppf(0.975, n - 1)) * statistics.stdev(errors) / n**0.5
        low, high = max(0.0, mean - half), mean + half
    centre = statistics.fmean(true)
    if spread := sum((number - centre) ** 2 for number in true):
        r2 = 1 - sum(error**2 for error in errors) / spread
    median = statistics.median(true)
    constant = statistics.fmean(abs(number - median) for number in true)
    reasons = USUAL_REASONS + (f", or the condition {condition}" if condition else "")
    remark, doubtful = "", False
    if n < FEWEST:
        remark = "Too few labelled images to compare it with always saying the same number."
    elif r2 is not None and len({estimate for _, estimate in pairs}) == 1:
        remark, doubtful = f"Every image gets the number {pairs[0][1]:.3g}. The usual reasons: {reasons}.", True
    elif r2 is not None and mean >= constant:
        remark = f"No closer than always saying {median:.3g} ({constant:.3g}). The usual reasons: {reasons}."
        doubtful = True
    return NumberError(mean=mean, n=n, low=low, high=high, r2=r2, unit=unit, remark=remark, doubtful=doubtful)
