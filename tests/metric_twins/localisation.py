"""Localisation: sorting pixels in plain Python, or counting every pair of them."""

from __future__ import annotations

import numpy as np


def best(saliency: np.ndarray, truth: np.ndarray) -> int:
    """How many of the |truth| most salient pixels are marked."""
    order = sorted(np.ndindex(saliency.shape), key=lambda place: -saliency[place])
    return sum(bool(truth[place]) for place in order[: int(truth.sum())])


def precision_area(saliency: np.ndarray, truth: np.ndarray) -> float:
    """The mean, over marked pixels, of the precision of all pixels that are at least as salient."""
    precisions = [truth[saliency >= value].mean() for value in saliency[truth]]
    return float(np.mean(precisions))


def overlap(saliency: np.ndarray, truth: np.ndarray) -> float:
    hits, total = best(saliency, truth), int(truth.sum())
    return hits / (2 * total - hits)


def weight(saliency: np.ndarray, truth: np.ndarray) -> float:
    return sum(abs(value) for value in saliency[truth]) / sum(abs(value) for value in saliency.flat)


def outranked(saliency: np.ndarray, truth: np.ndarray) -> float:
    inside, outside = saliency[truth][:, None], saliency[~truth][None]
    return float(((inside > outside) + 0.5 * (inside == outside)).mean())


TWINS = {
    "localisation-utility": lambda s, i, a: precision_area(a, s.truth[i].numpy()),
    "mean-iou": lambda s, i, a: overlap(a, s.truth[i].numpy()),
    "relevance-mass": lambda s, i, a: weight(a, s.truth[i].numpy()),
    "relevance-rank": lambda s, i, a: best(a, s.truth[i].numpy()) / int(s.truth[i].sum()),
    "plausibility": lambda s, i, a: outranked(a, s.truth[i].numpy()),
}
