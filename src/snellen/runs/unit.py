"""The unit of work: one method on one shard of samples, as a pure, picklable call that any executor can run."""

from __future__ import annotations

import hashlib
import io
import pickle
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from PIL import Image
from torch import Tensor

from snellen.classifier import Classifier, arithmetic
from snellen.classifier.engines.engine import EngineName
from snellen.classifier.heads import ExclusiveClasses
from snellen.classifier.ledger import Ledger
from snellen.classifier.probes import OutputRange
from snellen.errors import SnellenError, no_exit
from snellen.images import Samples, colours
from snellen.maps.explainer import case_of
from snellen.maps.explaining_again import why_not_scored
from snellen.maps.fitted_state import digest
from snellen.plugins.named_code import line_of_user
from snellen.plugins.registry import label
from snellen.runs.guard import Guard
from snellen.runs.parcel import SentOnce
from snellen.runs.record import Cost
from snellen.types import Case, CurveMetric, Findings, MadeOfTruth, Maps, Method, Metric, Passes, Rng, Sample, Scores

OnPass = Callable[[Passes], None]


class PackedClassifier(SentOnce):
    """A classifier that is sent to workers as bytes, once, and unpacked once per process."""

    def __init__(self, classifier: Classifier) -> None:
        self.fingerprint = f"{classifier.fingerprint}-{classifier.rows}-{classifier.gradient_rows}-{classifier.precision}"
        if classifier.folds_norms:
            self.fingerprint += "-folded"
        for state in sorted(classifier.fitted_state):  # a worker must not reuse a classifier that lacks a state
            self.fingerprint += f"-{state}-{digest(classifier.fitted_state[state])}"
        self._classifier: Classifier | None = classifier
        self._payload: bytes | None = None

    def payload(self) -> bytes:
        """The whole object, pickled."""
        return pickle.dumps(self)

    def payload_name(self) -> str:
        """A hash of its fingerprint."""
        return hashlib.sha256(self.fingerprint.encode()).hexdigest()[:32]

    def open(self) -> Classifier:
        """The classifier in this process."""
        if self._classifier is None:
            classifier = _CLASSIFIERS.get(self.fingerprint)
            if classifier is None:
                while len(_CLASSIFIERS) >= _MOST_CLASSIFIERS:  # variants change from unit to unit
                    del _CLASSIFIERS[next(iter(_CLASSIFIERS))]
                classifier = _CLASSIFIERS[self.fingerprint] = cloudpickle.loads(self._payload or b"")
            self._classifier, self._payload = classifier, None
        return self._classifier

    def __getstate__(self) -> dict[str, Any]:
        if self._payload is None:
            try:
                self._payload = cloudpickle.dumps(self._classifier)
            except Exception as problem:
                raise SnellenError(
                    f"'{self.open().name}' cannot be sent to workers ({problem}); run without --workers"
                ) from None
        return {"fingerprint": self.fingerprint, "_classifier": None, "_payload": self._payload}


_CLASSIFIERS: dict[str, Classifier] = {}
_MOST_CLASSIFIERS = 32
"""The most classifiers that stay unpacked in a process."""


@dataclass(frozen=True, eq=False)
class LoadedShard:
    """The samples of a shard as tensors."""

    samples: tuple[Sample, ...]
    inputs: Float[Tensor, "batch channels height width"]
    """What the network sees."""
    labels: Int[Tensor, " batch"]
    """-1 where a sample has none, or several."""
    truth: Bool[Tensor, "batch height width"] | None
    """None unless every sample has one."""


@dataclass(frozen=True, kw_only=True)
class ShardFacts:
    """Facts about the samples of a shard, found before any method runs; tuples have an entry per sample."""

    predictions: tuple[int, ...]
    """The most likely target; of a sample with a target of its own, that one."""
    predicted: tuple[tuple[int, ...], ...]
    """All targets that the classifier predicts: one of exclusive classes, any number of independent labels."""
    least: tuple[int, ...]
    """The least likely target."""
    probabilities: tuple[float, ...]
    """Of that target; the number itself where the head has no probability."""
    labels: tuple[int | Findings | None, ...]
    """The class, or the findings of several labels; None where unknown."""
    targets: tuple[int | None, ...]
    """The target of each sample that has one of its own."""
    truths: tuple[str, ...]
    """Whether a mask says where the evidence is: some, empty or none."""
    size: tuple[int, int]
    """Height and width of all images, in pixels."""
    pictures: tuple[bytes, ...]
    """PNG files of the first samples."""
    outputs: OutputRange
    """What values the model returns."""
    groups: tuple[str | None, ...]
    """None where a sample has none."""
    numbers: tuple[float | None, ...]
    """The true number of each sample, where the model estimates one."""
    estimates: tuple[float | None, ...]
    """The number that the model estimates."""


@dataclass(frozen=True, kw_only=True)
class InspectShard:
    """A picklable call that loads a shard and classifies it once."""

    classifier: PackedClassifier
    samples: Samples
    digests: tuple[str, ...]
    """Of the samples, which name the cached shard."""
    pictures: int
    """How many samples to make PNG files of."""
    threads: int | None
    """Torch threads; as many as before where None."""

    def __call__(self, on_pass: OnPass | None = None) -> ShardFacts:
        _set_up_process(self.threads)
        classifier = self.classifier.open()
        classifier.use_eager()
        shard = _load(classifier, self.samples, self.digests)
        samples = shard.samples
        with classifier.counting(on_pass):
            logits = classifier.logits(shard.inputs)
        head = classifier.head
        values = head.probabilities(logits) if head.reads_probability else logits
        if not bool(values.isfinite().all()):
            first = int((~values.isfinite().all(dim=1)).nonzero()[0])
            raise SnellenError(
                f"'{classifier.name}' returns NaN for '{samples[first].id}'; check its weights and normalisation"
            )
        # Exclusive classes are ranked by probability, where a saturated softmax has ties, as in all runs before other heads.
        ranks = values if isinstance(head, ExclusiveClasses) else logits
        best = head.best(ranks)
        if any(sample.target is not None for sample in samples):  # a case is about its own target
            best = torch.tensor([sample.target for sample in samples])
        return ShardFacts(
            predictions=tuple(best.tolist()),
            predicted=head.predicted(logits),
            least=tuple(head.least(ranks).tolist()),
            probabilities=tuple(values.gather(1, best.view(-1, 1)).squeeze(1).tolist()),
            labels=tuple(sample.label for sample in samples),
            targets=tuple(sample.target for sample in samples),
            truths=tuple(
                "none" if sample.truth is None else "some" if sample.truth.any() else "empty" for sample in samples
            ),
            size=(int(shard.inputs.shape[2]), int(shard.inputs.shape[3])),
            pictures=tuple(_png(colours(sample.image, self.samples.show_channels)) for sample in samples[: self.pictures]),
            outputs=OutputRange.of(head.raw(logits)),
            groups=tuple(sample.group for sample in samples),
            numbers=tuple(sample.number for sample in samples),
            estimates=(None,) * len(samples) if head.decides else tuple(head.own(logits)[:, 0].tolist()),
        )


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One method and some metrics on one shard. The result depends on these fields alone."""

    classifier: PackedClassifier
    method: Method
    metrics: tuple[Metric, ...]
    samples: Samples
    digests: tuple[str, ...]
    targets: tuple[int, ...]
    """The class that each map explains."""
    seed: int
    engine: EngineName
    """How forward-only passes are computed."""
    variant_rows: int | None = None
    """How many rows each variant computes eagerly before the engine is prepared for it; None for all."""
    threads: int | None
    """Torch threads; as many as before where None."""
    maps: np.ndarray | None = None
    """The maps, where an earlier unit computed them."""
    variants: Mapping[str, PackedClassifier] = field(default_factory=dict)
    """By name, the variants that the metrics compare with."""

    def __call__(self, on_pass: OnPass | None = None) -> UnitResult:
        _set_up_process(self.threads)
        classifier = self.classifier.open()
        shard = _load(classifier, self.samples, self.digests)
        self._use_engine(classifier, shard)
        targets = _targets(self.targets)
        rng = Rng(self.seed, tuple(self.samples.ids))
        variants = {name: classifier.count_passes_of(variant.open()) for name, variant in self.variants.items()}
        guard = Guard(
            {"the model": classifier, **{f"its variant '{name}'": variant for name, variant in variants.items()}},
            {"the inputs": shard.inputs, "the targets": targets, "the labels": shard.labels, "the truth": shard.truth},
        )
        started = time.perf_counter()
        with (
            guard.watching(label(self.method)),
            classifier.counting(on_pass) as paid,
            torch.no_grad(),
            no_exit(label(self.method)),
        ):
            maps = None if self.maps is None else torch.from_numpy(self.maps)
            if maps is None and isinstance(self.method, MadeOfTruth):
                maps = _maps_of(self.method, _truth_of(shard, self.method))
            case = case_of(
                self.method,
                classifier,
                shard.inputs,
                targets,
                rng=rng,
                truth=shard.truth,
                labels=shard.labels,
                maps=maps,
                variants=variants,
            )
        cost = cost_since(started, paid)
        if not bool(case.maps.isfinite().all()):
            raise ArithmeticError(f"{label(self.method)} gave a map with NaN or infinite values")
        result = UnitResult(case.maps.numpy(), cost, label(self.method))
        guard.add("the maps", case.maps)
        made_of_truth = isinstance(self.method, MadeOfTruth)
        for metric in self.metrics:
            if (reason := why_not_scored(self.method, metric)) is not None:
                result.refused[label(metric)] = reason
                continue
            started = time.perf_counter()
            try:
                with (
                    guard.watching(label(metric)),
                    classifier.counting(on_pass) as paid,
                    torch.no_grad(),
                    no_exit(label(metric)),
                ):
                    curve, values = _score(metric, case, rng)
                    if made_of_truth:
                        curve, values = _undefined_where_empty(curve, values, _truth_of(shard, self.method))
            except SnellenError as refusal:
                result.refused[label(metric)] = str(refusal)
                continue
            except Exception as problem:
                result.failed[label(metric)] = f"{type(problem).__name__}: {problem}".strip() + line_of_user(problem)
                continue
            result.scores.append(
                Scores(
                    method=label(self.method), metric=label(metric), ids=tuple(self.samples.ids), values=values, curve=curve
                )
            )
            result.metric_costs[label(metric)] = cost_since(started, paid)
        return result

    def _use_engine(self, classifier: Classifier, shard: LoadedShard) -> None:
        reason = classifier.use_engine(self.engine, shard.inputs, variant_rows=self.variant_rows).reason
        if reason is not None:
            raise SnellenError(
                f"the engine '{self.engine}' cannot be used in a process that computes ({reason}); make that possible, or "
                "start another run with --engine eager"
            )


@dataclass
class UnitResult:
    """Maps and scores of a unit, and their cost."""

    maps: np.ndarray
    """Of all samples, as (samples, height, width)."""
    cost: Cost
    """Of the maps."""
    method: str = ""
    """Its label."""
    scores: list[Scores] = field(default_factory=list)
    metric_costs: dict[str, Cost] = field(default_factory=dict)
    """By label of the metric."""
    refused: dict[str, str] = field(default_factory=dict)
    """By metric, why it cannot score the maps of this method; trying again would not help."""
    failed: dict[str, str] = field(default_factory=dict)
    """By metric, the error that it raised."""

    def seconds_by_kind(self) -> dict[Hashable, float]:
        """Seconds of the maps and of each metric, by the same keys as the expected ones (see `tasks.MissingUnit`)."""
        parts = {name: cost.seconds for name, cost in self.metric_costs.items()}
        return {(self.method, name): seconds for name, seconds in {"maps": self.cost.seconds, **parts}.items()}


def cost_since(started: float, paid: Ledger) -> Cost:
    """The cost of a block that began when `time.perf_counter` was `started` and whose passes `paid` counted."""
    return Cost(
        seconds=time.perf_counter() - started,
        forward=paid.passes.forward,
        backward=paid.passes.backward,
        model_seconds=paid.seconds,
        shared_forward=paid.cached.forward,
        shared_backward=paid.cached.backward,
        shared_seconds=paid.cached_seconds,
    )


def _score(metric: Metric, case: Case, rng: Rng) -> tuple[Float[Tensor, "batch points"] | None, Float[Tensor, " batch"]]:
    """The metric's curve, where it has one, and its scores."""
    curve = None
    if isinstance(metric, CurveMetric):
        curve = metric.curve(case, rng=rng)
        values = metric.score(curve)
    else:
        values = metric(case, rng=rng)
    check_scores(metric, values, len(case))
    return curve, values


def check_scores(metric: Metric, values: Tensor, images: int) -> None:
    """Refuses anything but one score per image."""
    if tuple(values.shape) != (images,):
        actual = "×".join(map(str, values.shape)) or "a single number"
        raise ValueError(f"{label(metric)} gave scores of {actual}, but it must give one per image, {images}")


def _truth_of(shard: LoadedShard, control: Method) -> Bool[Tensor, "batch height width"]:
    if shard.truth is None:
        raise SnellenError(f"{label(control)} needs a truth mask, but these samples have none; drop it or give masks")
    return shard.truth


def _maps_of(control: MadeOfTruth, truth: Bool[Tensor, "batch height width"]) -> Maps:
    """The maps of a positive control, which may be a user's."""
    maps = control.maps_of(truth)
    if maps.shape != truth.shape:
        actual, needed = ("×".join(map(str, shape)) for shape in (maps.shape, truth.shape))
        raise ValueError(f"{label(control)} gave maps of {actual}, not one number per pixel of each mask, {needed}")
    return maps


def _undefined_where_empty(
    curve: Float[Tensor, "batch points"] | None,
    values: Float[Tensor, " batch"],
    truth: Bool[Tensor, "batch height width"],
) -> tuple[Float[Tensor, "batch points"] | None, Float[Tensor, " batch"]]:
    """The same with NaN where the truth is empty: a map of nothing is no perfect map, whatever it would score."""
    empty = ~truth.flatten(1).any(dim=1)
    if curve is not None:
        curve = curve.masked_fill(empty[:, None], torch.nan)
    return curve, values.masked_fill(empty, torch.nan)


_SHARDS: dict[tuple[str, ...], LoadedShard] = {}


def _load(classifier: Classifier, samples: Samples, digests: tuple[str, ...]) -> LoadedShard:
    """The shard's tensors. The last shard is cached, so that all methods get the same tensors and share cached passes."""
    key = (classifier.fingerprint, *digests)
    if key in _SHARDS:
        return _SHARDS[key]
    loaded = tuple(samples)
    truths = [sample.truth for sample in loaded if sample.truth is not None]
    truth = torch.stack(truths) if len(truths) == len(loaded) else None
    labels = torch.tensor([sample.label if isinstance(sample.label, int) else -1 for sample in loaded])
    shard = LoadedShard(
        samples=loaded,
        inputs=_pinned(classifier.to_inputs(torch.stack([sample.image for sample in loaded])), classifier.device),
        labels=labels,
        truth=truth,
    )
    _SHARDS.clear()
    _TARGETS.clear()
    _SHARDS[key] = shard
    return shard


def _pinned(inputs: Float[Tensor, "..."], device: torch.device) -> Float[Tensor, "..."]:
    """The inputs in memory that a graphics card reads by itself, once for all passes on them (not measured)."""
    return inputs.pin_memory() if device.type == "cuda" and inputs.device.type == "cpu" else inputs


_TARGETS: dict[tuple[int, ...], Int[Tensor, " batch"]] = {}


def _targets(targets: tuple[int, ...]) -> Int[Tensor, " batch"]:
    """The targets as a tensor that stays the same object for a shard: the cache of passes goes by identity."""
    if targets not in _TARGETS:
        _TARGETS[targets] = torch.tensor(targets)
    return _TARGETS[targets]


def _set_up_process(threads: int | None) -> None:
    arithmetic.reuse_memory()
    if threads is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def _png(image: Float[Tensor, "3 height width"]) -> bytes:
    pixels = (image.clamp(0, 1) * 255).round().to(torch.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
