"""Scores for an audit: maps with a known truth, good and bad ones, scored by metrics that do not use the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from snellen.errors import SnellenError
from snellen.plugins.registry import METRICS, label, traits
from snellen.runs import plan as planning
from snellen.runs import requirements
from snellen.runs.evaluate import evaluate
from snellen.runs.job import UnfinishedError
from snellen.runs.options import Options
from snellen.runs.progress import Observer, Relay
from snellen.runs.run import Run
from snellen.runs.settings import workers_for_short_passes
from snellen.textbox.audit import agreement
from snellen.textbox.exam.exam_scenes import EXAM_SEED, ExamScenes, draw_exam_scenes
from snellen.textbox.exam.method_list import method_list
from snellen.textbox.exam.oracle import DECOY, ORACLE, Decoy, Oracle
from snellen.textbox.exam.scoring import score
from snellen.textbox.networks.trained_network import TrainedNetwork, find_network
from snellen.textbox.networks.verification import verify_or_refuse
from snellen.types import Method, Metric, Rng

IMAGES = 20
"""Images of every setting, at least; spread evenly over the buckets that have something to focus on."""

METHODS = (
    "gradient", "input-x-gradient", "smoothgrad(samples=5)", "integrated-gradients(steps=8)", "guided-backprop",
    "deconvnet", "deep-taylor", "lrp-epsilon", "lrp-alpha2-beta1", "deeplift-rescale", "grad-cam", "layer-cam",
    "eigen-cam", "occlusion(cells=8, overlap=1)",
)  # fmt: skip
"""Methods of every family, good ones and bad ones; no slow ones, since some metrics need forty maps of each image."""

REFERENCES = ("relevance-mass", "mean-iou", "pointing-game")
"""Metrics that use the truth: they must agree with it, or the audit itself is wrong."""

SETTINGS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "infidelity": (
        {"scaled": True, "samples": 32},
        "maps have different units, which must not decide; 32 squares, to save time",
    ),
    "monotonicity-correlation": ({"samples": 3}, "3 noisy fills of each chunk instead of 10, for time"),
    "avg-sensitivity": ({"samples": 3}, "3 noisy pictures instead of 10, for time"),
    "max-sensitivity": ({"samples": 3}, "3 noisy pictures instead of 10, for time"),
    "robustness": ({"samples": 3}, "3 noisy pictures instead of 10, for time"),
    "stability": ({"rounds": 2, "candidates": 2}, "4 neighbours instead of 20, for time"),
    "consistency": ({"magnitudes": 1}, "one strength of every change instead of six, for time"),
    "input-consistency": ({"magnitudes": 1}, "one strength of every change instead of six, for time"),
    "cose": ({"magnitudes": 1}, "one strength of every change instead of six, for time"),
    "sensitivity": ({"magnitudes": 1}, "one strength of every change instead of six, for time"),
    "cascading-randomisation": ({"layers": 3}, "3 layers from the top instead of all, for time"),
    "independent-randomisation": ({"layers": 3}, "3 layers instead of all, for time"),
}
"""Settings other than the defaults, by metric, and why; all other metrics have their defaults."""

LEFT_OUT = {
    "recipe": "compares with networks that would have to be trained, several for every setting",
    "checkpoints": "compares with earlier states of training, which the networks do not come with",
}
"""Needs of metrics that are not met here, each with the reason."""

MapKind = Literal["method", "control", "oracle"]
MetricRole = Literal["on trial", "looks at the truth", "is the truth", "guesses"]


@dataclass(frozen=True, kw_only=True)
class AuditedMetric:
    """A metric of an audit."""

    label: str
    attribute: str
    """Of the saliency card."""
    higher_is_better: bool
    bounded: bool
    """Whether its values have finite bounds."""
    role: MetricRole
    """Whether it is audited or serves as a reference."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditScores:
    """Truth and scores of all maps: a row per image, a column per method; NaN where undefined."""

    setting: tuple[str, ...]
    """Of each image."""
    simple: tuple[bool, ...]
    """Whether the setting of each image is simple."""
    bucket: Int[np.ndarray, " images"]
    """Number of the bucket of each image."""
    samples: tuple[str, ...]
    """Names of the images."""
    methods: tuple[str, ...]
    """Their labels; the columns of `truth` and `scores`."""
    kinds: tuple[MapKind, ...]
    """Of the methods."""
    truth: Float[np.ndarray, "images methods"]
    """The share of each map that lies where it should (PAFL in the paper's reading)."""
    metrics: tuple[AuditedMetric, ...]
    scores: Mapping[str, Float[np.ndarray, "images methods"]]
    """By label of the metric."""

    def __len__(self) -> int:
        return len(self.samples)

    def quality(self, metric: AuditedMetric) -> Float[np.ndarray, "images methods"]:
        """The scores of a metric such that higher is better, without rounding errors."""
        values = agreement.round_scores(self.scores[metric.label], bounded=metric.bounded)
        return values if metric.higher_is_better else -values

    @property
    def strata(self) -> Int[np.ndarray, " images"]:
        """A number for every bucket of every setting."""
        order = {name: index for index, name in enumerate(dict.fromkeys(self.setting))}
        return np.asarray(np.array([order[name] for name in self.setting]) * 1000 + self.bucket)

    def columns(self, *kinds: MapKind) -> list[int]:
        """The columns of the methods of these kinds."""
        return [column for column, kind in enumerate(self.kinds) if kind in kinds]


def choose_metrics(names: Sequence[Any] | None) -> tuple[list[Metric], dict[str, str]]:
    """The metrics to audit, references included, and by name why others are left out.

    By default all that are registered. A metric that is named and cannot be audited is refused.
    """
    candidates = (
        [METRICS.build(name, SETTINGS.get(name, ({}, ""))[0]) for name in METRICS]
        if names is None
        else (planning.parse_metrics([_with_settings(name) for name in names]))
    )
    left_out: dict[str, str] = {}
    chosen: list[Metric] = []
    for metric in candidates:
        lacking = [reason for need, reason in LEFT_OUT.items() if need in traits(metric).needs]
        if lacking and names is not None:
            raise SnellenError(f"'{label(metric)}' cannot be audited: it {lacking[0]}; drop it")
        if lacking:
            left_out[label(metric)] = lacking[0]
        elif "truth" not in traits(metric).needs or names is not None or label(metric) in REFERENCES:
            chosen.append(metric)
    if all("truth" in traits(metric).needs for metric in chosen):
        raise SnellenError("an audit is of metrics that do not use the truth, but all that are named do; name others")
    labels = {label(metric) for metric in chosen}
    return [*chosen, *(METRICS.build(name) for name in REFERENCES if name not in labels)], left_out


def _with_settings(name: Any) -> Any:
    """A metric that is named without settings gets those of `SETTINGS`."""
    return METRICS.build(name, SETTINGS[name][0]) if isinstance(name, str) and name in SETTINGS else name


def gather_scores(
    settings: Sequence[str],
    out: Path,
    *,
    methods: Sequence[Any] | None = None,
    metrics: Sequence[Metric],
    images: int = IMAGES,
    observer: Observer,
) -> tuple[AuditScores, list[Run]]:
    """Runs every method and metric on every setting, each in a run folder; what the folders hold is not computed again."""
    if images < 1:
        raise SnellenError(f"an audit needs at least one image per setting, not {images}")
    if len(set(settings)) != len(settings):
        raise SnellenError("a setting is named twice; name each once")
    networks = [find_network(name) for name in settings]
    chosen = [listed.method for listed in method_list(list(METHODS) if methods is None else methods)]
    parts, runs = [], []
    for number, (name, network) in enumerate(zip(settings, networks, strict=True), 1):
        verify_or_refuse(network)
        observer.note(f"{network.name}, {number} of {len(networks)} settings")
        part, run = _run_setting(network, name, out / network.name, chosen, metrics, images, observer)
        parts.append(part)
        runs.append(run)
    return _concatenate(parts), runs


def _run_setting(
    network: TrainedNetwork,
    name: str,
    folder: Path,
    methods: Sequence[Method],
    metrics: Sequence[Metric],
    images: int,
    observer: Observer,
) -> tuple[AuditScores, Run]:
    rule = network.spec.rule
    focused = sum(truth.label is not None and bool(truth.focus) for truth in rule.truths)
    per_bucket = math.ceil(images / max(1, focused))
    scenes = draw_exam_scenes(network, per_bucket=per_bucket, seed=EXAM_SEED)
    rows = scenes.focus.flatten(1).any(dim=1).nonzero().flatten().tolist()
    if not rows:
        raise SnellenError(f"the rule of '{network.name}' never looks at anything that is shown, so no map can be right")
    samples = scenes.samples().take(rows)
    classifier = network.classifier()
    able, refused = requirements.split_by_support(classifier, methods, classifier.to_inputs(samples[0].image[None]))
    for method, reason in refused.items():
        observer.note(f"{method} is left out: {reason}")
    oracle = Oracle(name, per_bucket, EXAM_SEED)
    oracles = oracle, Decoy(oracle)
    expected = [f"cannot be scored on {label(method)}" for method in oracles]  # the oracle refuses other classifiers
    expected.append("accuracy ")  # the networks were verified before
    try:
        run = evaluate(
            classifier,
            samples,
            methods=[*able, *oracles],
            metrics=metrics,
            target="label",
            out=folder,
            options=Options(workers=workers_for_short_passes(), engine="eager"),
            observer=Relay(observer, shows=lambda text: not any(words in text for words in expected)),
        )
    except UnfinishedError as problem:
        observer.note(str(problem))
        run = Run(folder)
    return _scores_of_run(network, scenes, rows, run), run


def _scores_of_run(network: TrainedNetwork, scenes: ExamScenes, rows: Sequence[int], run: Run) -> AuditScores:
    """Truth and scores of one setting, with two metrics for reference: the truth itself, and random numbers."""
    ids = tuple(scenes.ids[row] for row in rows)
    labels = run.methods
    methods = run.record.spec.methods
    names = tuple(method.name if method.name in (ORACLE, DECOY) else method.label for method in methods)
    kinds: tuple[MapKind, ...] = tuple(
        "oracle" if method.name == ORACLE else "control" if method.control else "method" for method in methods
    )
    truth = np.full((len(ids), len(labels)), np.nan)
    broken = run.record.method_failures
    for column, method in enumerate(labels):
        if method in broken:
            continue
        maps = np.zeros((len(scenes), *scenes.focus.shape[1:]), dtype=np.float32)
        maps[list(rows)] = run.maps(method, ids)
        truth[:, column] = score(scenes, maps, names[column], reading="paper")["pafl"][list(rows)]
    table = run.scores().pivot(index="sample", columns=["metric", "method"], values="value").reindex(list(ids))
    scores, metrics = {}, []
    for metric in run.record.spec.metrics:
        columns = pd.MultiIndex.from_product([[metric.label], labels])
        scores[metric.label] = table.reindex(columns=columns).to_numpy(dtype=np.float64)
        uses_truth = "truth" in traits(METRICS[metric.name]).needs
        metrics.append(
            AuditedMetric(
                label=metric.label,
                attribute=metric.attribute,
                higher_is_better=metric.higher_is_better,
                bounded=None not in metric.bounds,
                role="looks at the truth" if uses_truth else "on trial",
            )
        )
    scores["pafl"] = truth.copy()
    scores["a coin"] = Rng(0, ids, path=network.name).uniform("coin", (len(labels),)).double().numpy()
    references: tuple[tuple[str, MetricRole], ...] = (("pafl", "is the truth"), ("a coin", "guesses"))
    metrics += [
        AuditedMetric(label=name, attribute="", higher_is_better=True, bounded=True, role=role) for name, role in references
    ]
    return AuditScores(
        setting=(network.name,) * len(ids),
        simple=(network.spec.simple,) * len(ids),
        bucket=scenes.buckets[list(rows)].numpy(),
        samples=ids,
        methods=names,
        kinds=kinds,
        truth=np.round(truth, 6),
        metrics=tuple(metrics),
        scores=scores,
    )


def _concatenate(parts: Sequence[AuditScores]) -> AuditScores:
    """The scores of several settings; a method that could not explain one of the networks has none there."""
    facts = {name: kind for part in parts for name, kind in zip(part.methods, part.kinds, strict=True)}
    order: dict[MapKind, int] = {"method": 0, "control": 1, "oracle": 2}
    methods = sorted(facts, key=lambda name: order[facts[name]])

    def align(part: AuditScores, values: np.ndarray) -> np.ndarray:
        return pd.DataFrame(values, columns=list(part.methods)).reindex(columns=methods).to_numpy(dtype=np.float64)

    return AuditScores(
        setting=tuple(name for part in parts for name in part.setting),
        simple=tuple(simple for part in parts for simple in part.simple),
        bucket=np.concatenate([part.bucket for part in parts]),
        samples=tuple(sample for part in parts for sample in part.samples),
        methods=tuple(methods),
        kinds=tuple(facts[name] for name in methods),
        truth=np.concatenate([align(part, part.truth) for part in parts]),
        metrics=parts[0].metrics,
        scores={
            metric.label: np.concatenate([align(part, part.scores[metric.label]) for part in parts])
            for metric in parts[0].metrics
        },
    )
