"""The neighbours' side of `neighbours.py`: the same maps by captum, the same scores by Quantus, or by a plain script.

Every advantage that costs them nothing is given: evaluation mode, parameters without gradients, the memory layout and rows
per pass that Snellen uses, no gradients where none are needed, and noise and masks drawn before the clock starts.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import captum.attr
import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from skimage.transform import resize
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.metrics.sensitivity import MaxSensitivity, perturb_inputs
from snellen.types import Case, Rng

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from torchvision_kernels import import_torchvision

import_torchvision()  # Quantus imports zennit where it finds it, and zennit imports torchvision
import quantus

Explain = Callable[[Tensor, Tensor], Tensor]
"""Inputs and targets to one map each, (batch, height, width)."""


@dataclass(frozen=True)
class Counts:
    """How much work a comparison holds."""

    steps: int = 8
    samples: int = 4
    masks: int = 32
    cells: int = 3
    sweep: int = 14
    perturbations: int = 4


@dataclass(frozen=True)
class Work(Counts):
    """How much work a comparison holds; `sweep` and `chunks` should divide the number of pixels."""

    sweep: int = 28
    chunks: int = 7
    draws: int = 4
    regions: int = 28
    region: int = 8
    subsets: int = 32
    squares: int = 32
    stages: int = 4


@dataclass(frozen=True, eq=False)
class Rival:
    """One method as somebody else computes it."""

    whose: str
    explain: Explain
    same: bool = True
    """Whether the maps should be equal; False where the other side draws its own noise."""
    note: str = ""
    name: str = ""


# Maps ---------------------------------------------------------------------------------------------------------------


def with_relu(model: nn.Module) -> nn.Module:
    """A copy whose ReLU6 modules are nn.ReLU, the only rectifier that captum's guided backpropagation replaces."""
    twin = copy.deepcopy(model)
    for parent in list(twin.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.ReLU6):
                setattr(parent, name, nn.ReLU())
    return twin


def rivals(classifier: Classifier, relu: Classifier, inputs: Tensor, counts: Counts, rng: Rng) -> dict[str, Rival]:
    """A rival for each method, by the method's name."""
    net = copy.deepcopy(classifier.module)
    relu_net = copy.deepcopy(relu.module)
    rows, gradient_rows = classifier.rows_for(inputs), classifier.rows_for(inputs, gradients=True)

    def probabilities(images: Tensor) -> Tensor:
        return net(images).softmax(dim=1)

    saliency, product = captum.attr.Saliency(net), captum.attr.InputXGradient(net)
    integrated, guided = captum.attr.IntegratedGradients(net), captum.attr.GuidedBackprop(relu_net)
    layer = dict(net.named_modules())[classifier.feature_layer(inputs)]
    cam, tunnel = captum.attr.LayerGradCam(net, layer), captum.attr.NoiseTunnel(saliency)
    occluded = captum.attr.Occlusion(probabilities)
    channels, side = inputs.shape[1], inputs.shape[2]
    window = math.ceil(side / counts.cells)
    stride = math.ceil(window / 2)

    def occlude(images: Tensor, targets: Tensor) -> Tensor:
        maps = occluded.attribute(
            images,
            target=targets,
            sliding_window_shapes=(channels, window, window),
            strides=(channels, stride, stride),
            perturbations_per_eval=max(1, rows // len(images)),
        )
        return maps[:, 0]  # the window covers all channels, so that they are all the same

    def smooth(images: Tensor, targets: Tensor) -> Tensor:
        spread = 0.15 * float((images.amax(dim=(1, 2, 3)) - images.amin(dim=(1, 2, 3))).mean())
        maps = tunnel.attribute(
            images,
            target=targets,
            nt_samples=counts.samples,
            nt_samples_batch_size=max(1, gradient_rows // len(images)),
            stdevs=spread,
        )
        return maps.amax(dim=1)

    def grad_cam(images: Tensor, targets: Tensor) -> Tensor:
        coarse = cam.attribute(images, target=targets, relu_attributions=True)
        return captum.attr.LayerAttribution.interpolate(coarse, tuple(images.shape[2:]), "bilinear")[:, 0]

    by_name = {
        "gradient": Rival("captum", lambda x, y: saliency.attribute(x, target=y).amax(dim=1)),
        "input-x-gradient": Rival("captum", lambda x, y: product.attribute(x, target=y).sum(dim=1)),
        "integrated-gradients": Rival(
            "captum",
            lambda x, y: (
                integrated.attribute(
                    x, target=y, n_steps=counts.steps, method="gausslegendre", internal_batch_size=max(len(x), gradient_rows)
                )
                .sum(dim=1)
                .float()
            ),
        ),
        "smoothgrad": Rival("captum", smooth, same=False, note="own noise: time only"),
        "guided-backprop": Rival(
            "captum",
            lambda x, y: guided.attribute(x, target=y).abs().amax(dim=1),
            note="both on a copy with nn.ReLU: captum leaves ReLU6 alone and returns the plain gradient",
        ),
        "grad-cam": Rival("captum", grad_cam),
        "occlusion": Rival("captum", occlude),
        "rise": Rival("plain script", PlainRise(probabilities, counts.masks, rows, side, rng)),
    }
    return {name: replace(rival, name=name) for name, rival in by_name.items()}


class PlainRise:
    """RISE as its authors describe it: masks made once, then one image at a time through all of them in batches.

    The random grids and shifts are those that Snellen draws, so that the maps can be compared.
    """

    def __init__(self, probabilities: Explain | Any, count: int, rows: int, side: int, rng: Rng) -> None:
        self.probabilities, self.rows, self.keep, cells = probabilities, rows, 0.1, 8
        cell = math.ceil(side / cells)
        draw = rng.shared(f"rise {count} {cells} {self.keep} {side} {side}")
        grids = (draw.random((count, cells, cells)) < self.keep).astype(np.float32)
        down, right = draw.integers(0, cell, count), draw.integers(0, cell, count)
        large = (cells + 1) * cell
        masks = [
            resize(grid, (large, large), order=1, mode="reflect", anti_aliasing=False)[y : y + side, x : x + side]
            for grid, y, x in zip(grids, down, right, strict=True)
        ]
        self.masks = torch.from_numpy(np.stack(masks).astype(np.float32))

    @torch.no_grad()
    def __call__(self, images: Tensor, targets: Tensor) -> Tensor:
        """One map per image."""
        maps = []
        for image, target in zip(images, targets.tolist(), strict=True):
            scores = torch.cat(
                [self.probabilities(part[:, None] * image)[:, target] for part in self.masks.split(self.rows)]
            )
            maps.append((scores @ self.masks.flatten(1)).view(image.shape[1:]) / (len(self.masks) * self.keep))
        return torch.stack(maps)


# Scores -------------------------------------------------------------------------------------------------------------


Score = Callable[[Case, Rival], Any]
"""One number per sample of the case's maps; the rival explains again where a metric asks for it."""


def ask_quantus(
    metric: Any,
    case: Case,
    *,
    maps: Tensor | None = None,
    truth: bool = False,
    softmax: bool = False,
    explain: Any = None,
) -> Any:
    """A Quantus metric over maps that were computed before; `explain` is what it calls where it wants other maps."""
    return metric(
        model=case.classifier.module,
        x_batch=case.inputs.numpy(),
        y_batch=case.targets.numpy(),
        # A copy, because some Quantus metrics write into what they are given.
        a_batch=(case.maps.unsqueeze(1) if maps is None else maps).numpy().copy(),
        s_batch=case.truth.unsqueeze(1).numpy() if truth and case.truth is not None else None,
        explain_func=explain,
        explain_func_kwargs={},
        softmax=softmax,
        channel_first=True,
        batch_size=len(case),
    )


Prepare = Callable[[Case, Rival], Callable[[], Any]]
"""Makes ready for free; what it returns is timed."""


def now(score: Score) -> Prepare:
    """Nothing to make ready."""
    return lambda case, rival: lambda: score(case, rival)


def quantus_score(metric: Any, *, truth: bool = False, positive: bool = False) -> Score:
    """A Quantus metric that looks at nothing but maps, or also at the truth."""

    def score(case: Case, rival: Rival) -> Any:
        maps = case.maps.clamp_min(0) if positive else case.maps
        return ask_quantus(metric, case, maps=maps.unsqueeze(1), truth=truth)

    return score


def for_quantus(rival: Rival) -> Any:
    """The rival as an explain_func of Quantus."""

    def explain(model: Any, inputs: Any, targets: Any) -> Any:
        return rival.explain(torch.as_tensor(inputs), torch.as_tensor(targets)).detach().unsqueeze(1).numpy()

    return explain


class HandedOut:
    """A perturb_func for Quantus that hands out noise drawn before, one step at a time."""

    def __init__(self, noisy: Tensor, samples: int) -> None:
        self.steps = noisy.unflatten(0, (-1, samples)).flatten(2).transpose(0, 1).contiguous().numpy()
        self.step = 0

    def __call__(self, arr: Any, **settings: Any) -> Any:
        """The next step's inputs."""
        chosen = self.steps[self.step % len(self.steps)]
        self.step += 1
        return chosen


def quantus_sensitivity(kind: Any, samples: int, rng: Rng) -> Prepare:
    """Prepares a Quantus sensitivity with Snellen's own noise; what it returns is to be timed."""

    def prepare(case: Case, rival: Rival) -> Callable[[], Any]:
        noisy = perturb_inputs(case.inputs, samples, MaxSensitivity().radius, rng=rng.child("sensitivity"))
        metric = kind(
            nr_samples=samples,
            perturb_func=HandedOut(noisy, samples),
            abs=False,
            normalise=False,
            disable_warnings=True,
        )
        return lambda: ask_quantus(metric, case, explain=for_quantus(rival))

    return prepare


def plain_sweep(inserting: bool, steps: int) -> Score:
    """Deletion or insertion by the definition of RISE's authors: one image at a time, its steps in batches."""
    spike = np.zeros((11, 11))
    spike[5, 5] = 1
    kernel = torch.from_numpy(gaussian_filter(spike, 5)).float().expand(3, 1, 11, 11)

    @torch.no_grad()
    def score(case: Case, rival: Rival) -> Any:
        net, rows, areas = case.classifier.module, case.classifier.rows or 16, []
        for image, target, saliency in zip(case.inputs, case.targets.tolist(), case.maps, strict=True):
            order = saliency.flatten().argsort(descending=True)
            bare = functional.conv2d(image[None], kernel, padding=5, groups=3)[0] if inserting else torch.zeros_like(image)
            current, final = (bare.flatten(1).clone(), image.flatten(1)) if inserting else (
                image.flatten(1).clone(), bare.flatten(1)
            )  # fmt: skip
            stages = [current.clone()]
            for start, end in pairwise(len(order) * step // steps for step in range(steps + 1)):
                current[:, order[start:end]] = final[:, order[start:end]]
                stages.append(current.clone())
            batch = torch.stack(stages).view(-1, *image.shape)
            curve = torch.cat([net(part).softmax(dim=1)[:, target] for part in batch.split(rows)])
            areas.append(float((curve.sum() - curve[0] / 2 - curve[-1] / 2) / steps))
        return areas

    return score


@torch.no_grad()
def plain_drop(case: Case, rival: Rival) -> Any:
    """Average drop as Chattopadhay et al. define it, for the whole batch at once."""
    net, inputs, rows = case.classifier.module, case.inputs, torch.arange(len(case))
    size = case.maps.abs()
    low, high = size.amin(dim=(1, 2), keepdim=True), size.amax(dim=(1, 2), keepdim=True)
    mask = ((size - low) / (high - low)).unsqueeze(1)
    pixels = case.classifier.to_pixels(inputs) * mask
    before = net(inputs).softmax(dim=1)[rows, case.targets]
    after = net(case.classifier.to_inputs(pixels)).softmax(dim=1)[rows, case.targets]
    return (before - after).clamp_min(0) / before


@dataclass(frozen=True, eq=False)
class Judge:
    """One metric as somebody else computes it: `prepare` is free, what it returns is timed."""

    whose: str
    prepare: Prepare
    explains: bool = False
    note: str = ""
    ours: tuple[str, ...] = ()
    """Which of our metrics one call of it answers; their scores come in this order, as rows."""
    ordered: bool = False
    """Over maps whose values are all different, because equal ones have no order of their own."""
    same: bool = True
    """Whether the scores should be equal, or only the work."""
    unsigned: bool = False
    """Whether they should be equal for maps without negative values alone."""


def judges(counts: Counts, rng: Rng) -> dict[str, Judge]:
    """A judge for each metric, by the metric's name."""
    quiet = {"disable_warnings": True}

    def sensitivity(kind: Any) -> Judge:
        prepare = quantus_sensitivity(kind, counts.perturbations, rng)
        return Judge("Quantus", prepare, explains=True, note="with our noise, so that scores can be compared")

    complexity = quantus.Complexity(abs=True, normalise=True, **quiet)
    sparseness = quantus.Sparseness(abs=True, normalise=True, **quiet)
    pointing = quantus.PointingGame(abs=False, normalise=False, **quiet)
    energy = quantus.RelevanceMassAccuracy(abs=False, normalise=False, **quiet)
    return {
        "complexity": Judge("Quantus", now(quantus_score(complexity))),
        "sparseness": Judge("Quantus", now(quantus_score(sparseness))),
        "pointing-game": Judge("Quantus", now(quantus_score(pointing, truth=True))),
        "energy-pointing-game": Judge(
            "Quantus",
            now(quantus_score(energy, truth=True, positive=True)),
            note="RelevanceMassAccuracy over the positive part",
        ),
        "max-sensitivity": sensitivity(quantus.MaxSensitivity),
        "avg-sensitivity": sensitivity(quantus.AvgSensitivity),
        "deletion": Judge("plain script", now(plain_sweep(False, counts.sweep)), note="after RISE's authors"),
        "insertion": Judge("plain script", now(plain_sweep(True, counts.sweep)), note="after RISE's authors"),
        "average-drop": Judge("plain script", now(plain_drop), note="after Chattopadhay et al."),
    }
