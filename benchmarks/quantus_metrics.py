"""Our metrics as Quantus computes them, for `metrics.py`.

Noise, subsets and networks are Snellen's, drawn or made before the clock starts. Where the settings of Quantus alone do not
ask for the same number, the note says what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from skimage.metrics import structural_similarity
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.maps.fills import NOISE
from snellen.metrics.sensitivity import MaxSensitivity, perturb_inputs
from snellen.plugins.registry import METRICS
from snellen.types import Case, Metric, Rng
from theirs import (
    HandedOut,
    Judge,
    Prepare,
    Rival,
    Work,
    ask_quantus,
    for_quantus,
    now,
    quantus,
    quantus_score,
    quantus_sensitivity,
    rivals,
)


def quantus_judges(work: Work, pixels: int, rng: Rng) -> list[Judge]:
    """Each metric of Quantus that is one of ours."""
    return [
        *_of_maps(),
        *_sensitivities(work, rng),
        *_sweeps(work, pixels, rng),
        *_removals(work, rng),
        *_randomised(work, rng),
        *_others(rng),
    ]


# Maps, and maps against the truth ------------------------------------------------------------------------------------


def _of_maps() -> list[Judge]:
    plain = {"normalise": False, "disable_warnings": True}

    def judge(ours: str, metric: Any, *, positive: bool = False, truth: bool = True, **rest: Any) -> Judge:
        score = quantus_score(metric, truth=truth, positive=positive)
        return Judge(f"Quantus {type(metric).__name__}", now(score), ours=(ours,), **rest)

    return [
        judge("complexity", quantus.Complexity(abs=True, normalise=True, disable_warnings=True), truth=False),
        judge("sparseness", quantus.Sparseness(abs=True, normalise=True, disable_warnings=True), truth=False),
        judge("effective-complexity-count", quantus.EffectiveComplexity(eps=1e-5, abs=True, **plain), truth=False),
        judge("pointing-game", quantus.PointingGame(abs=False, **plain), ordered=True),
        judge("energy-pointing-game", quantus.RelevanceMassAccuracy(abs=False, **plain), positive=True,
              note="given the positive part"),
        judge("relevance-mass", quantus.RelevanceMassAccuracy(abs=True, **plain)),
        judge("relevance-rank", quantus.RelevanceRankAccuracy(abs=False, **plain), ordered=True),
        judge("plausibility", quantus.AUC(abs=False, **plain)),
    ]  # fmt: skip


# Other maps of nearly the same picture -------------------------------------------------------------------------------


def _sensitivities(work: Work, rng: Rng) -> list[Judge]:
    samples = work.perturbations

    def lipschitz(case: Case, rival: Rival) -> Callable[[], Any]:
        noisy = perturb_inputs(case.inputs, samples, MaxSensitivity().radius, rng=rng.child("sensitivity"))
        metric = quantus.LocalLipschitzEstimate(
            nr_samples=samples, perturb_func=HandedOut(noisy, samples), abs=False, normalise=False, disable_warnings=True
        )
        return lambda: ask_quantus(metric, case, explain=for_quantus(rival))

    def judge(ours: str, kind: str, prepare: Prepare) -> Judge:
        return Judge(f"Quantus {kind}", prepare, explains=True, ours=(ours,), note="with our noise")

    return [
        judge(f"{ours}(samples={samples})", kind, quantus_sensitivity(getattr(quantus, kind), samples, rng))
        for ours, kind in (("max-sensitivity", "MaxSensitivity"), ("avg-sensitivity", "AvgSensitivity"))
    ] + [judge(f"robustness(samples={samples}, relative=false)", "LocalLipschitzEstimate", lipschitz)]


# Pixels that give way ------------------------------------------------------------------------------------------------


class Pasted:
    """A perturb_func for Quantus that puts pictures drawn before where it is told; the pictures take turns."""

    def __init__(self, pictures: list[Tensor]) -> None:
        self.pictures = [picture.flatten(1).numpy() for picture in pictures]
        self.turn = 0

    def __call__(self, arr: Any, indices: Any, **settings: Any) -> Any:
        """The inputs with other values at these places."""
        picture = self.pictures[self.turn % len(self.pictures)]
        self.turn += 1
        rows, pasted = np.arange(len(arr))[:, None], arr.copy()
        pasted[rows, indices] = picture[rows, indices]
        return pasted


class WholePixels:
    """Leaves out the check by which Quantus forbids steps of whole pixels in colour pictures."""

    def custom_preprocess(self, **data: Any) -> None:
        """Nothing to prepare."""


class PixelFlipping(WholePixels, quantus.PixelFlipping):  # type: ignore[misc]
    """In steps of whole pixels."""


class MonotonicityCorrelation(WholePixels, quantus.MonotonicityCorrelation):  # type: ignore[misc]
    """In steps of whole pixels."""


def _sweeps(work: Work, pixels: int, rng: Rng) -> list[Judge]:
    raw: dict[str, Any] = {"normalise": False, "disable_warnings": True}
    pixelwise = "made to step by whole pixels"

    def flipped(*, least_first: bool, softmax: bool, score: Callable[[Tensor], Tensor]) -> Prepare:
        def prepare(case: Case, rival: Rival) -> Callable[[], Any]:
            step = case.inputs[0].numel() // work.sweep
            metric = PixelFlipping(features_in_step=step, perturb_baseline=0.0, abs=False, **raw)
            maps = (case.maps.amax() - case.maps if least_first else case.maps).unsqueeze(1)
            first = case.classifier.output(case.inputs, case.targets, "probability" if softmax else "logit")

            def run() -> Any:
                curve = torch.as_tensor(np.asarray(ask_quantus(metric, case, maps=maps, softmax=softmax)))
                return score(torch.cat([first.double().unsqueeze(1), curve.double()], dim=1))

            return run

        return prepare

    def fall(curve: Tensor) -> Tensor:
        return (curve[:, :1] - curve[:, 1:]).mean(dim=1)

    def area(curve: Tensor) -> Tensor:
        return torch.trapezoid(curve, dim=1) / (curve.shape[1] - 1)

    def regions(case: Case, rival: Rival) -> Callable[[], Any]:
        noise = Pasted([NOISE(case.classifier, case.inputs, rng=rng)])
        metric = quantus.RegionPerturbation(
            patch_size=work.region, regions_evaluation=work.regions, perturb_func=noise, abs=False, **raw
        )
        # AOPC counts the untouched picture, which Quantus leaves out.
        return lambda: np.asarray(ask_quantus(metric, case, softmax=True)).sum(axis=1) / (work.regions + 1)

    def monotone(case: Case, rival: Rival) -> Callable[[], Any]:
        draws = [rng.child("monotonicity").repeat([draw]) for draw in range(work.draws)]
        metric = MonotonicityCorrelation(
            nr_samples=work.draws,
            features_in_step=case.inputs[0].numel() // work.chunks,
            perturb_func=Pasted([NOISE(case.classifier, case.inputs, rng=draw) for draw in draws]),
            abs=True,
            **raw,
        )
        return lambda: ask_quantus(metric, case, softmax=True)

    steps = f"steps={work.sweep}"
    one_by_one = f"region={work.region}, steps={work.regions}, share={work.regions * work.region**2 / pixels}"
    return [
        Judge("Quantus PixelFlipping", flipped(least_first=False, softmax=False, score=fall), ours=(f"morf({steps})",),
              ordered=True, note=f"{pixelwise}, f(x) given"),
        Judge("Quantus PixelFlipping", flipped(least_first=True, softmax=False, score=fall), ours=(f"lerf({steps})",),
              ordered=True, note=f"over the map turned round, {pixelwise}, f(x) given"),
        Judge("Quantus PixelFlipping", flipped(least_first=False, softmax=True, score=area), ours=(f"deletion({steps})",),
              ordered=True, note=f"{pixelwise}, f(x) given"),
        Judge("Quantus RegionPerturbation", regions, ours=(f"region-perturbation({one_by_one})",),
              ordered=True, note="with our noise"),
        Judge("Quantus MonotonicityCorrelation", monotone, ordered=True, note=f"with our noise, {pixelwise}",
              ours=(f"monotonicity-correlation(chunks={work.chunks}, samples={work.draws})",)),
    ]  # fmt: skip


# Parts that are removed at random ------------------------------------------------------------------------------------


def _removals(work: Work, rng: Rng) -> list[Judge]:
    ours = f"faithfulness(subsets={work.subsets})"

    def faithful(case: Case, rival: Rival) -> Callable[[], Any]:
        size = (case.inputs.shape[2], case.inputs.shape[3])
        masks = METRICS.parse(ours).groups.masks(size, rng)  # type: ignore[attr-defined]
        # Quantus draws single values, sample by sample; here all channels of our pixels are what it draws.
        drawn = [row.expand(case.inputs.shape[1:]).flatten().nonzero().flatten().numpy() for mask in masks for row in mask]
        metric = quantus.FaithfulnessCorrelation(
            nr_runs=work.subsets,
            subset_size=len(drawn[0]),
            perturb_baseline=0.0,
            abs=False,
            normalise=False,
            return_aggregate=False,
            disable_warnings=True,
        )

        def run() -> Any:
            with mock.patch.object(np.random, "choice", side_effect=drawn):
                return ask_quantus(metric, case, softmax=True)

        return run

    return [Judge("Quantus FaithfulnessCorrelation", faithful, ours=(ours,), note="with our subsets of whole pixels")]


# Other networks ------------------------------------------------------------------------------------------------------


class Stages:
    """A model of Quantus whose randomised copies are networks made before."""

    def __init__(self, model: Any, networks: list[nn.Module]) -> None:
        self.model, self.networks = model, networks

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    @property
    def random_layer_generator_length(self) -> int:
        """How many there are."""
        return len(self.networks)

    def get_random_layer_generator(self, **settings: Any) -> Iterator[tuple[str, nn.Module]]:
        """Each with a name."""
        return ((str(place), network) for place, network in enumerate(self.networks))


class WithStages:
    """Takes the randomised networks as they are given."""

    networks: list[nn.Module]

    def general_preprocess(self, **arguments: Any) -> Any:
        """What Quantus prepares, with those networks."""
        data = super().general_preprocess(**arguments)  # type: ignore[misc]
        return data | {"model": Stages(data["model"], self.networks)}


class StagedMPRT(WithStages, quantus.MPRT):  # type: ignore[misc]
    """With our randomised networks."""


class StagedEfficientMPRT(WithStages, quantus.EfficientMPRT):  # type: ignore[misc]
    """With our randomised network."""


def _randomised(work: Work, rng: Rng) -> list[Judge]:
    def prepared(ours: str, metric: Any, read: Callable[[Any], Any], *, softmax: bool = False) -> Prepare:
        def prepare(case: Case, rival: Rival) -> Callable[[], Any]:
            used = [classifier for _, classifier in explained_calls(METRICS.parse(ours), case, rng)]
            metric.networks = [classifier.module for classifier in used]
            explain = {
                id(classifier.module): rivals(classifier, classifier, case.inputs, work, rng)[rival.name]
                for classifier in used
            }

            def again(model: Any, inputs: Any, targets: Any) -> Any:
                return for_quantus(explain.get(id(model), rival))(model, inputs, targets)

            return lambda: read(ask_quantus(metric, case, explain=again, softmax=softmax))

        return prepare

    def stages(scores: dict[str, list[float]]) -> Any:
        return np.mean([values for name, values in scores.items() if name != "original"], axis=0)

    quiet: dict[str, Any] = {"normalise": False, "disable_warnings": True}
    judges = []
    for ours in (
        f"cascading-randomisation(layers={work.stages})",
        f"independent-randomisation(layers={work.stages})",
        "weight-randomisation",
    ):
        run = prepared(ours, StagedMPRT(abs=True, **quiet), stages)
        judges.append(Judge("Quantus MPRT", run, explains=True, ours=(ours,),
                           note="with our networks; explains the picture itself again"))  # fmt: skip
    efficient = StagedEfficientMPRT(abs=False, complexity_func_kwargs={"n_bins": 100}, **quiet)
    run = prepared("efficient-randomisation", efficient, lambda scores: scores, softmax=True)
    note = "with our network; explains the picture itself again, and asks for both networks' outputs"
    return [*judges, Judge("Quantus EfficientMPRT", run, explains=True, ours=("efficient-randomisation",), note=note)]


def explained_calls(metric: Metric, case: Case, rng: Rng) -> list[tuple[Tensor | None, Classifier]]:
    """The targets and classifiers for which a metric has the case explained again."""
    calls: list[tuple[Tensor | None, Classifier]] = []

    def explain(inputs: Tensor, *, targets: Tensor | None = None, classifier: Classifier | None = None, rng: Rng) -> Tensor:
        used = case.classifier if classifier is None else case.classifier.variant(classifier.module, "kept")
        calls.append((targets, used))  # a copy, because some metrics go on to change the network that they gave
        return case.maps

    metric(replace(case, explain=explain), rng=rng)
    return calls


# An axiom, and another class -----------------------------------------------------------------------------------------


def _others(rng: Rng) -> list[Judge]:
    def complete(case: Case, rival: Rival) -> Callable[[], Any]:
        changes: list[Any] = []

        def noted(change: Any) -> Any:
            changes.append(np.asarray(change, dtype=np.float64))
            return change

        metric = quantus.Completeness(
            perturb_baseline=0.0, output_func=noted, abs=False, normalise=False, disable_warnings=True
        )
        channels = case.inputs.shape[1]
        maps = (case.maps / channels).unsqueeze(1).expand_as(case.inputs)  # else it removes one channel alone

        def run() -> Any:
            ask_quantus(metric, case, maps=maps)
            total, change = case.maps.double().sum(dim=(1, 2)).numpy(), changes[-1]
            return np.abs(total - change) / np.abs(change)

        return run

    def other_class(case: Case, rival: Rival) -> Callable[[], Any]:
        ((drawn, _),) = explained_calls(METRICS.build("random-logit"), case, rng)
        metric = quantus.RandomLogit(
            similarity_func=alike(case.maps.shape[1:]),
            num_classes=int(case.classifier.logits(case.inputs[:1]).shape[1]),
            abs=False,
            normalise=False,
            disable_warnings=True,
        )

        def explain(model: Any, inputs: Any, targets: Any) -> Any:
            return for_quantus(rival)(model, inputs, drawn)

        return lambda: ask_quantus(metric, case, explain=explain)

    return [
        Judge("Quantus Completeness", complete, ours=("completeness",),
              note="it asks whether two floats are ==; the gap is read from what it compares"),
        Judge("Quantus RandomLogit", other_class, explains=True, ours=("random-logit",),
              note="with our class and scikit-image's similarity in two dimensions; its own flattens the maps"),
    ]  # fmt: skip


def alike(size: tuple[int, ...]) -> Callable[..., list[float]]:
    """A similarity_func for Quantus: structural similarity of maps as pictures."""

    def similarity(first: Any, second: Any, batched: bool) -> list[float]:
        pairs = [(before.reshape(size), after.reshape(size)) for before, after in zip(first, second, strict=True)]
        spans = [max(float(np.ptp(before)), float(np.ptp(after))) for before, after in pairs]
        return [
            float(structural_similarity(before, two, win_size=5, data_range=span))
            for (before, two), span in zip(pairs, spans, strict=True)
        ]

    return similarity
