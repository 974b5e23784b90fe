"""Twins of metrics of fidelity: completeness, faithfulness, infidelity, robustness, other targets."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from scipy import stats
from skimage.metrics import structural_similarity
from tests.metric_twins.basic import changes, confidence, drop
from tests.metric_twins.probability import probability

from snellen.plugins.checks.planted import PlantedBatch
from snellen.plugins.checks.planted_methods import InputTimesGradient
from snellen.types import Rng


def logits(scene: PlantedBatch, inputs: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return scene.classifier.module(torch.from_numpy(inputs[None].astype(np.float32)))[0].double().numpy()


def slope(scene: PlantedBatch, i: int, inputs: np.ndarray, target: int | None = None) -> np.ndarray:
    rng = Rng(0, ("unused",))
    target = int(scene.targets[i]) if target is None else target
    batch = torch.from_numpy(inputs[None].astype(np.float32))
    return InputTimesGradient()(scene.classifier, batch, torch.tensor([target]), rng=rng)[0].double().numpy()


def completeness(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    picture, target = scene.inputs[i].numpy(), int(scene.targets[i])
    change = float(logits(scene, picture)[target] - logits(scene, np.zeros_like(picture))[target])
    return abs(sum(saliency.flat) - change) / abs(change)


def local_accuracy(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    before, after = confidence(scene, i, saliency)
    return abs(before - after)


def lipschitz(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    lengths = []
    for sample in range(10):
        rng = Rng(scene.rng.seed, (f"{scene.rng.ids[i]}#{sample}",), "/sensitivity")
        noise = (rng.uniform("perturbation", (3, 24, 24)) * 0.4 - 0.2).numpy()
        lengths.append(math.sqrt((noise.astype(np.float64) ** 2).sum()))
    return max(change / length for change, length in zip(changes(scene, i, saliency), lengths, strict=True))


def greyed(scene: PlantedBatch, i: int, saliency: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unit mask, and the normalised picture times it."""
    size = np.abs(saliency)
    mask = (size - size.min()) / (size.max() - size.min())
    return mask, scene.inputs[i].numpy() * mask[None]


def coherency(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    again = slope(scene, i, greyed(scene, i, saliency)[1])
    return (float(np.corrcoef(saliency.flatten(), again.flatten())[0, 1]) + 1) / 2


def adcc(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    mask, seen = greyed(scene, i, saliency)
    lost = drop(probability(scene, i, scene.inputs[i].numpy()), probability(scene, i, seen))
    return float(stats.hmean([coherency(scene, i, saliency), 1 - mask.mean(), 1 - lost]))


def alike(first: np.ndarray, second: np.ndarray) -> float:
    span = max(np.ptp(first), np.ptp(second))
    return float(structural_similarity(first, second, win_size=5, data_range=span))


def unlike_least(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    picture = scene.inputs[i].numpy()
    return 1 - alike(saliency, slope(scene, i, picture, int(logits(scene, picture).argmin())))


def alike_other(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    target = int(scene.targets[i])
    others = [label for label in range(3) if label != target]
    lot = float(Rng(scene.rng.seed, (scene.rng.ids[i],), "/random-logit").uniform("class", (1,)))
    return alike(saliency, slope(scene, i, scene.inputs[i].numpy(), others[int(lot * 2)]))


def cells(saliency: np.ndarray) -> list[tuple[slice, slice]]:
    """Seven by seven parts of 24×24 pixels, the larger ones where the sides do not divide."""
    edges = [next(pixel for pixel in range(25) if pixel * 7 // 24 == edge or pixel == 24) for edge in range(8)]
    parts = [slice(*pair) for pair in itertools.pairwise(edges)]
    return [(down, across) for down in parts for across in parts]


def removals(scene: PlantedBatch, i: int, saliency: np.ndarray) -> tuple[list[float], list[float]]:
    picture, relevance, drops = scene.inputs[i].numpy(), [], []
    for down, across in cells(saliency):
        holed = picture.copy()
        holed[:, down, across] = 0
        relevance.append(float(saliency[down, across].sum()))
        drops.append(probability(scene, i, picture) - probability(scene, i, holed))
    return relevance, drops


def faithfulness(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    return float(stats.pearsonr(*removals(scene, i, saliency)).statistic)


def calibration(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    light, loss = ([max(0.0, value) for value in many] for many in removals(scene, i, saliency))
    return sum(min(share / sum(light), fall / sum(loss)) for share, fall in zip(light, loss, strict=True))


def infidelity(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    picture, target, errors = scene.inputs[i].numpy(), int(scene.targets[i]), []
    rng = Rng(scene.rng.seed, (scene.rng.ids[i],), "/infidelity")
    for corner in rng.uniform("corners", (64, 2))[0].tolist():
        top, left = (int(lot * (24 - 6 + 1)) for lot in corner)
        holed = picture.copy()
        holed[:, top : top + 6, left : left + 6] = 0
        attributed = float(saliency[top : top + 6, left : left + 6].sum())
        lost = float(logits(scene, picture)[target] - logits(scene, holed)[target])
        errors.append((attributed - lost) ** 2)
    return sum(errors) / 64


def stability(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    """The search as it is described, one picture and one pixel at a time."""
    picture = scene.inputs[i].numpy()
    worst, best, reach = math.inf, np.zeros((3, 24, 24)), 0.1
    for turn in range(5):
        tried = []
        for candidate in range(4):
            side = 2**candidate
            rng = Rng(scene.rng.seed, (scene.rng.ids[i],), f"/stability/{turn}/{candidate}")
            tiles = rng.uniform("signs", (2, 3, 24 // side, 24 // side))[0].numpy()
            signs = best.copy()
            for channel, row, column in np.ndindex(3, 24, 24):
                anew, sign = tiles[:, channel, row // side, column // side]
                if anew < 0.5**turn or best[channel, row, column] == 0:
                    signs[channel, row, column] = -1 if sign < 0.5 else 1
            moved = picture + np.float32(reach) * signs.astype(np.float32)
            if logits(scene, moved).argmax() == logits(scene, picture).argmax():
                again = slope(scene, i, moved)
                tried.append((float(stats.spearmanr(saliency.flatten(), again.flatten()).statistic), signs))
        if not tried and worst == math.inf:
            reach /= 4
            continue
        lowest, signs = min(tried, key=lambda attempt: attempt[0], default=(math.inf, best))
        worst, best = (lowest, signs) if lowest < worst else (worst, best)
    return worst


TWINS = {
    "faithfulness": faithfulness,
    "luminosity-calibration": calibration,
    "infidelity": infidelity,
    "stability": stability,
    "completeness": completeness,
    "local-accuracy": local_accuracy,
    "robustness": lipschitz,
    "coherency": coherency,
    "adcc": adcc,
    "target-sensitivity": unlike_least,
    "random-logit": alike_other,
}
