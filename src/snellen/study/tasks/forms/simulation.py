"""Formulas of simulated answers that several forms use.

*Ease* is a participant's skill minus the difficulty of the item, in standard deviations of skill.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit, ndtr


def chance_right(ease: Float[np.ndarray, "ways items"]) -> Float[np.ndarray, "ways items"]:
    """Probability of a right answer to a question with two answers: ½ + ½·logistic(ease), so 0.5 is guessing."""
    right: Float[np.ndarray, "ways items"] = 0.5 + 0.5 * expit(ease)
    return right


def rounded(numbers: Float[np.ndarray, "people items"], low: int, high: int) -> Int[np.ndarray, "people items"]:
    """The nearest whole numbers from `low` to `high`."""
    return np.asarray(np.clip(np.rint(numbers), low, high), dtype=np.int64)


def rounded_chances(
    middle: Float[np.ndarray, "ways items"], deviation: Float[np.ndarray, "ways items"], low: int, high: int
) -> Float[np.ndarray, "ways items answers"]:
    """Probability of each whole number from `low` to `high` when a normal number is `rounded`; `middle` is its mean."""
    edges = np.concatenate([[-np.inf], np.arange(low, high) + 0.5, [np.inf]])
    chances: Float[np.ndarray, "ways items answers"] = np.diff(
        ndtr((edges - middle[..., None]) / deviation[..., None]), axis=-1
    )
    return chances


def guessed(luck: Float[np.ndarray, "people items"], low: int, high: int) -> Int[np.ndarray, "people items"]:
    """Whole numbers from `low` to `high`, equally likely, from numbers `luck` that are uniform from 0 to 1."""
    return np.asarray(low + np.floor(luck * (high - low + 1)), dtype=np.int64)
