"""Scores of a known effect: what methods and controls would score if this were the truth.

In every population all methods are exactly as good on average as the first control, plus an effect; the other controls are
clearly worse. That is the hardest case for a rule that may not praise: one control alone stands between a method and a pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]

BEHIND = 5.0
"""How many standard deviations the other controls are worse than the first."""


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.normal(size=shape)


def tail_up(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Log-normal, σ = 1, in its own standard deviations: a few images score far above the mean."""
    return (rng.lognormal(size=shape) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)


def tail_down(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return -tail_up(rng, shape)


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Student's t with three degrees of freedom: far values on both sides."""
    return rng.standard_t(3, size=shape) / math.sqrt(3)


def still(_: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.zeros(shape)


def hits(share: float) -> Draw:
    """Bernoulli: a hit on this share of the images."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return ((rng.random(shape) < share) - share) / math.sqrt(share * (1 - share))

    return draw


POPULATIONS: Mapping[str, tuple[Draw, Draw]] = {
    "normal": (normal, normal),
    "normal, constant control": (normal, still),
    "log-normal": (tail_up, tail_up),
    "log-normal, long tail down": (tail_down, tail_down),
    "log-normal, constant control": (tail_up, still),
    "log-normal, long tail down, constant control": (tail_down, still),
    "log-normal, long tail down, normal control": (tail_down, normal),
    "hit or miss, 50 % hits": (hits(0.5), hits(0.5)),
    "hit or miss, 93 % hits": (hits(0.93), hits(0.93)),
    "hit or miss, 7 % hits": (hits(0.07), hits(0.07)),
    "heavy tails (t, 3 degrees)": (heavy, heavy),
    "heavy tails, constant control": (heavy, still),
}
"""By name, how methods and how controls score; mean 0, and standard deviation 1 unless constant."""


def scores(
    name: str, rng: np.random.Generator, images: int, methods: int, controls: int, effect: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """The scores of methods and of controls; larger is better."""
    own, rival = POPULATIONS[name]
    mine, others = own(rng, (images, methods)) + effect, rival(rng, (images, controls))
    others[:, 1:] -= BEHIND
    return mine, others
