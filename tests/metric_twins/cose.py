"""COSE by the libraries of its authors: PIL changes the picture, scikit-image turns maps back and compares them."""

from __future__ import annotations

import math

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from scipy import ndimage
from skimage.metrics import structural_similarity
from skimage.transform import AffineTransform, rotate, warp

from snellen.plugins.checks.planted import PlantedBatch
from snellen.plugins.checks.planted_methods import InputTimesGradient
from snellen.types import Rng
from snellen.variants.randomised import randomise_layers
from snellen.variants.weight_layers import weight_layers

SIGNED = ("translate-x", "translate-y", "rotate", "brightness", "color", "contrast", "sharpness")
FIXED = ("flip-lr", "flip-ud", "autocontrast", "equalize", "blur", "smooth")
GEOMETRIC = ("translate-x", "translate-y", "rotate", "flip-lr", "flip-ud")


def shift(step: int) -> int:
    return int(24 * 32 * step / (224 * 30)) or int(math.copysign(1, step))


def changed(image: Image.Image, name: str, step: int) -> Image.Image:
    factor = 1 + 0.99 * step / 30
    if name.startswith("translate"):
        matrix = (1, 0, -shift(step), 0, 1, 0) if name == "translate-x" else (1, 0, 0, 0, 1, -shift(step))
        return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=0)
    if name == "rotate":
        return image.rotate(4.5 * step, Image.Resampling.NEAREST, fillcolor=0)
    if name in ("brightness", "color", "contrast", "sharpness"):
        return getattr(ImageEnhance, name.capitalize())(image).enhance(factor)
    if name in ("blur", "smooth"):
        return image.filter(getattr(ImageFilter, name.upper()))
    if name in ("autocontrast", "equalize"):
        return getattr(ImageOps, name)(image)
    return ImageOps.mirror(image) if name == "flip-lr" else ImageOps.flip(image)


def back(values: np.ndarray, name: str, step: int) -> np.ndarray:
    if name == "rotate":
        return rotate(values, -4.5 * step, order=1, mode="constant", cval=0, clip=False)
    if name.startswith("translate"):
        along = (shift(step), 0) if name == "translate-x" else (0, shift(step))
        return warp(values, AffineTransform(translation=along), order=1, mode="constant", cval=0)
    return values[:, ::-1] if name == "flip-lr" else values[::-1]


def alike(first: np.ndarray, second: np.ndarray, valid: np.ndarray | None) -> float:
    span = max(float(np.ptp(first)), float(np.ptp(second)))
    mean, full = structural_similarity(first, second, win_size=5, data_range=span, full=True)
    if valid is None:
        return float(mean)
    return float(full[ndimage.binary_erosion(valid, np.ones((5, 5)))].mean())


def predicted(scene: PlantedBatch, model: torch.nn.Module, inputs: torch.Tensor) -> int:
    with torch.no_grad():
        return int(model(inputs)[0].argmax())


def rows(scene: PlantedBatch, i: int, saliency: np.ndarray) -> list[tuple[str, bool, float]]:
    """(name, whether the prediction stayed, likeness) for each of the 48 changes."""
    model = scene.classifier.module
    before = predicted(scene, model, scene.inputs[i : i + 1])
    image = Image.fromarray((scene.pixels[i] * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())
    outcomes = []
    for name in (*SIGNED, *FIXED):
        lots = Rng(scene.rng.seed, (scene.rng.ids[i],), "/transforms").uniform(name, (60,))[0].tolist()
        order = sorted(range(60), key=lots.__getitem__)[:6]
        steps = [place - 30 if place < 30 else place - 29 for place in order] if name in SIGNED else [0]
        for step in steps:
            levels = changed(image, name, step)
            moved = name in GEOMETRIC
            if moved:  # no level changes, so nothing needs to be rounded to one
                pixels = np.stack(
                    [np.array(changed(Image.fromarray(channel), name, step)) for channel in scene.pixels[i].numpy()]
                )[None]
            else:
                pixels = np.array(levels, dtype=np.float32).transpose(2, 0, 1)[None] / 255
            inputs = scene.classifier.to_inputs(torch.from_numpy(pixels))
            after = predicted(scene, model, inputs)
            target = torch.tensor([int(scene.targets[i]) if after == before else after])
            other = InputTimesGradient()(scene.classifier, inputs, target, rng=scene.rng)[0].double().numpy()
            if moved:
                ones = np.array(changed(Image.fromarray(np.ones((24, 24), np.float32)), name, step), dtype=np.float64)
                value = alike(saliency, back(other, name, step), back(ones, name, step) > 1e-6)
            else:
                value = alike(saliency, other, None)
            outcomes.append((name, after == before, value))
    return outcomes


def modelled(scene: PlantedBatch, i: int, saliency: np.ndarray) -> list[tuple[str, bool, float]]:
    """The row of the model with random weights."""
    model = randomise_layers(scene.classifier, weight_layers(scene.classifier, (24, 24)), rng=scene.rng)
    inputs = scene.inputs[i : i + 1]
    before, after = (predicted(scene, classifier.module, inputs) for classifier in (scene.classifier, model))
    target = torch.tensor([int(scene.targets[i]) if after == before else after])
    other = InputTimesGradient()(model, inputs, target, rng=scene.rng)[0].double().numpy()
    return [("random", after == before, alike(saliency, other, None))]


def sensitivity(outcomes: list[tuple[str, bool, float]]) -> float:
    kept = [1 - value for _, same, value in outcomes if not same]
    return sum(kept) / len(kept)


def cose(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    outcomes = rows(scene, i, saliency)
    steady, moved = consistency(outcomes), sensitivity(outcomes + modelled(scene, i, saliency))
    return 2 / (1 / steady + 1 / moved)


def consistency(outcomes: list[tuple[str, bool, float]]) -> float:
    kept = [value for _, same, value in outcomes if same]
    return sum(kept) / len(kept)


TWINS = {
    "consistency": lambda s, i, a: consistency(rows(s, i, a)),
    "input-consistency": lambda s, i, a: consistency([outcome for outcome in rows(s, i, a) if outcome[0] not in GEOMETRIC]),
    "sensitivity": lambda s, i, a: sensitivity(rows(s, i, a) + modelled(s, i, a)),
    "cose": cose,
}


LIGHT = {name: {"magnitudes": 2} for name in ("consistency", "input-consistency", "sensitivity", "cose")}
