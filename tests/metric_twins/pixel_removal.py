"""Twins of metrics that remove pixels: perturbation tests, regions, sufficiency, monotonicity; and two pixel counts."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from scipy import stats

from snellen.plugins.checks.planted import PlantedBatch
from snellen.types import Rng


def logits(scene: PlantedBatch, inputs: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return scene.classifier.module(torch.from_numpy(inputs[None].astype(np.float32)))[0].double().numpy()


def chance(scene: PlantedBatch, i: int, inputs: np.ndarray) -> float:
    powers = np.exp(logits(scene, inputs))
    return float(powers[int(scene.targets[i])] / powers.sum())


def logit(scene: PlantedBatch, i: int, inputs: np.ndarray) -> float:
    return float(logits(scene, inputs)[int(scene.targets[i])])


def falling(saliency: np.ndarray) -> list[tuple[int, ...]]:
    """The places of the pixels, most salient first."""
    return [place for _, place in sorted((-value, place) for place, value in np.ndenumerate(saliency))]


def without(picture: np.ndarray, places: list[tuple[int, ...]]) -> np.ndarray:
    left = picture.copy()
    for row, column in places:
        left[:, row, column] = 0.0
    return left


def counts(places: list[tuple[int, ...]]) -> list[int]:
    return [len(places) * step // 28 for step in range(29)]


def most_first(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    picture, places = scene.inputs[i].numpy(), falling(saliency)
    whole = logit(scene, i, picture)
    return sum(whole - logit(scene, i, without(picture, places[:k])) for k in counts(places)[1:]) / 28


def least_first(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    picture, places = scene.inputs[i].numpy(), falling(saliency)
    whole = logit(scene, i, picture)
    return sum(whole - logit(scene, i, without(picture, places[k:])) for k in counts(places)[:-1]) / 28


def regions(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    corners = itertools.product(range(0, 24, 9), range(0, 24, 9))
    squares = [(slice(top, top + 9), slice(left, left + 9)) for top, left in corners]
    squares.sort(key=lambda square: -saliency[square].mean())
    noise = Rng(scene.rng.seed, (scene.rng.ids[i],)).uniform("fill", (3, 24, 24))
    noise = scene.classifier.to_inputs(noise)[0].numpy()
    picture = scene.inputs[i].numpy().copy()
    whole, total = chance(scene, i, picture), 0.0
    for rows, columns in squares:
        picture[:, rows, columns] = noise[:, rows, columns]
        total += whole - chance(scene, i, picture)
    return total / (len(squares) + 1)


def kept(scene: PlantedBatch, i: int, saliency: np.ndarray) -> list[np.ndarray]:
    picture, places = scene.inputs[i].numpy(), falling(saliency)
    return [without(picture, places[k:]) for k in counts(places)]


def enough(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    pictures = kept(scene, i, saliency)
    return min(1.0, chance(scene, i, pictures[7]) / chance(scene, i, pictures[28]))


def smallest(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    pictures = kept(scene, i, saliency)
    for k, picture in enumerate(pictures):
        top = int(logits(scene, picture).argmax()) == int(scene.targets[i])
        if top and chance(scene, i, picture) >= 0.9 * chance(scene, i, pictures[28]):
            return k / 28
    raise AssertionError("the planted classifier is right about the whole picture")


def effective(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    pictures = kept(scene, i, saliency)
    whole = chance(scene, i, pictures[28])
    return next(
        float(24 * 24 * k // 28) for k, picture in enumerate(pictures) if (whole - chance(scene, i, picture)) ** 2 <= 0.01
    )


def included(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    rising = falling(saliency)[::-1]
    picture, shown, weights, outputs, done = scene.inputs[i].numpy(), np.zeros((3, 24, 24)), [], [], 0
    for k in range(1, 29):
        until = len(rising) - len(rising) * (28 - k) // 28
        for row, column in rising[done:until]:
            shown[:, row, column] = picture[:, row, column]
        weights.append(np.mean([saliency[place] for place in rising[done:until]]))
        outputs.append(chance(scene, i, shown))
        done = until
    return float(stats.pearsonr(weights, outputs).statistic)


def moved(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    size = np.abs(saliency)
    places, picture = falling(size), scene.inputs[i].numpy()
    whole, sums, effects = chance(scene, i, picture), [], []
    for chunk in range(7):
        chosen = places[576 * chunk // 7 : 576 * (chunk + 1) // 7]
        changes = []
        for draw in range(10):
            rng = Rng(scene.rng.seed, (f"{scene.rng.ids[i]}#{draw}",), "/monotonicity")
            noise = scene.classifier.to_inputs(rng.uniform("fill", (3, 24, 24)))[0].numpy()
            changed = picture.copy()
            for row, column in chosen:
                changed[:, row, column] = noise[:, row, column]
            changes.append((chance(scene, i, changed) - whole) ** 2)
        sums.append(np.mean([size[place] for place in chosen]))
        effects.append(np.mean(changes))
    return float(stats.spearmanr(sums, effects).statistic)


def filled(picture: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """Each removed pixel the weighted mean of its neighbours, by a dense system per channel."""
    height, width = removed.shape
    system, values = np.eye(height * width), picture.reshape(len(picture), -1).copy()
    for row, column in np.argwhere(removed):
        here = row * width + column
        near = {}
        for down, across in itertools.product((-1, 0, 1), repeat=2):
            if (down or across) and 0 <= row + down < height and 0 <= column + across < width:
                near[(row + down) * width + column + across] = 1 / 12 if down and across else 1 / 6
        for there, weight in near.items():
            system[here, there] -= weight / sum(near.values())
        values[:, here] = 0.0
    return np.stack([np.linalg.solve(system, channel).reshape(height, width) for channel in values])


def still_on_top(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    picture, places, hits = scene.inputs[i].double().numpy(), falling(saliency), 0
    for fraction in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9):
        removed = np.zeros((24, 24), dtype=bool)
        for place in places[: round(576 * fraction)]:
            removed[place] = True
        noise = Rng(scene.rng.seed, (scene.rng.ids[i],), "/road").normal(f"{fraction:g}", (3, 24, 24))[0].numpy()
        guess = np.where(removed, filled(picture, removed) + 0.01 * noise, picture)
        hits += int(logits(scene, guess).argmax()) == int(scene.targets[i])
    return hits / 7


TWINS = {
    "morf": most_first,
    "lerf": least_first,
    "region-perturbation": regions,
    "road": still_on_top,
    "sufficiency": enough,
    "minimality": smallest,
    "effective-complexity": effective,
    "effective-complexity-count": lambda s, i, a: float(sum(abs(value) > 1e-5 for value in a.flat)),
    "monotonicity": included,
    "monotonicity-correlation": moved,
    "sparsity": lambda s, i, a: max(abs(value) for value in a.flat) / (sum(abs(value) for value in a.flat) / a.size),
}
