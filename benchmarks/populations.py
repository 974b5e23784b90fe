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


# Where images are not drawn one by one, failures are rare, or differences hardly vary --------------------------------------


def in_classes(
    rng: np.random.Generator,
    classes: int,
    each: int,
    methods: int,
    controls: int,
    *,
    alike: float = 0.3,
    these: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal scores of images in classes, with this intraclass correlation; and the class of each image.

    On average over all classes that could have been drawn, methods are as good as the first control; with `these`, they are
    so on average over the classes that were drawn.
    """
    of = np.repeat(np.arange(classes), each)
    effects = rng.normal(size=(classes, methods + controls))
    if these:
        effects -= effects.mean(axis=0)
    values = math.sqrt(alike) * effects[of] + math.sqrt(1 - alike) * rng.normal(size=(len(of), methods + controls))
    values[:, methods + 1 :] -= BEHIND
    return values[:, :methods], values[:, methods:], of


def rare_failures(
    rng: np.random.Generator, images: int, methods: int, controls: int, *, share: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """One better than the first control on most images, and so much worse on a share of them that the mean is the same."""
    mine = np.where(rng.random((images, methods)) < share, 1 - 1 / share, 1.0)
    others = np.zeros((images, controls))
    others[:, 1:] -= BEHIND
    return mine, others


def at_the_margin(
    draw: Draw, rng: np.random.Generator, images: int, methods: int, controls: int, margin: float
) -> tuple[np.ndarray, np.ndarray]:
    """Methods that follow the first control closely, better by just the margin; `draw` has standard deviation 1."""
    first = draw(rng, (images, 1))
    mine = first + margin + 0.02 * rng.normal(size=(images, methods))
    others = np.repeat(first, controls, axis=1)
    others[:, 1:] -= BEHIND
    return mine, others
