"""Metrics on trial: maps with a known truth, good and bad ones, scored by metrics that do not look at it."""

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
from snellen.runs.evaluate import Options, UnfinishedError, evaluate
from snellen.runs.progress import Observer, Relay
from snellen.runs.run import Run
from snellen.runs.settings import workers_for_short_passes
from snellen.textbox.audit import agreement
from snellen.textbox.exam.exam_scenes import EXAM_SEED, ExamScenes, exam
from snellen.textbox.exam.method_list import method_list
from snellen.textbox.exam.oracle import DECOY, ORACLE, Decoy, Oracle
from snellen.textbox.exam.scoring import score
from snellen.textbox.networks.trained_network import TrainedNetwork, find
from snellen.textbox.networks.verification import verify_or_refuse
from snellen.types import Method, Metric, Rng

IMAGES = 20
"""Of every setting, at least; spread evenly over the buckets that have something to focus on."""

METHODS = (
    "gradient", "input-x-gradient", "smoothgrad(samples=5)", "integrated-gradients(steps=8)", "guided-backprop",
    "deconvnet", "deep-taylor", "lrp-epsilon", "lrp-alpha2-beta1", "deeplift-rescale", "grad-cam", "layer-cam",
    "eigen-cam", "occlusion(cells=8, overlap=1)",
)  # fmt: skip
"""Of every family, and known to be good and to be bad; no slow one, since some metrics ask for forty maps of each image."""

REFERENCES = ("relevance-mass", "mean-iou", "pointing-game")
"""Metrics that look at the truth: they must agree with it, or the trial itself is at fault."""

SETTINGS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "infidelity": ({"scaled": True, "samples": 32}, "maps have different units, which must not decide; 32 squares for time"),
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
"""Settings other than the defaults, by metric, and why; all other metrics are tried as they come."""

LEFT_OUT = {
    "recipe": "compares with networks that would have to be trained, several for every setting",
    "checkpoints": "compares with earlier states of training, which the networks do not come with",
}
"""Needs of metrics that are not met here."""

Kind = Literal["method", "control", "oracle"]
Role = Literal["on trial", "looks at the truth", "is the truth", "guesses"]


@dataclass(frozen=True)
class AuditedMetric:
    """A metric: what its column is called, which way is better, and whether it is tried or serves as a reference."""

    label: str
    attribute: str
    higher_is_better: bool
    bounded: bool
    role: Role


@dataclass(frozen=True, eq=False)
class AuditScores:
    """Truth and scores of all maps: a row per image, a column per method.

    `scores` are as the metrics gave them, by label; `truth` is the share of each map that lies where it should (PAFL in the
    paper's reading). NaN is undefined in either. `setting` and `bucket` tell where each image comes from.
    """

    setting: tuple[str, ...]
    simple: tuple[bool, ...]
    bucket: Int[np.ndarray, " images"]
    samples: tuple[str, ...]
    methods: tuple[str, ...]
    kinds: tuple[Kind, ...]
    truth: Float[np.ndarray, "images methods"]
    metrics: tuple[AuditedMetric, ...]
    scores: Mapping[str, Float[np.ndarray, "images methods"]]

    def __len__(self) -> int:
        return len(self.samples)

    def quality(self, metric: AuditedMetric) -> Float[np.ndarray, "images methods"]:
        """The scores of a metric such that higher is better, without the digits that rounding makes up."""
        values = agreement.rounded(self.scores[metric.label], bounded=metric.bounded)
        return values if metric.higher_is_better else -values

    @property
    def strata(self) -> Int[np.ndarray, " images"]:
        """A number for every bucket of every setting."""
        order = {name: place for place, name in enumerate(dict.fromkeys(self.setting))}
        return np.asarray(np.array([order[name] for name in self.setting]) * 1000 + self.bucket)

    def places(self, *kinds: Kind) -> list[int]:
        """The columns of these kinds."""
        return [place for place, kind in enumerate(self.kinds) if kind in kinds]


def chosen_metrics(names: Sequence[Any] | None) -> tuple[list[Metric], dict[str, str]]:
    """The metrics to try, references included, and by name why others are left out.

    All that are registered where none is named; one that is named and cannot be tried is refused.
    """
    wanted = (
        [METRICS.build(name, SETTINGS.get(name, ({}, ""))[0]) for name in METRICS]
        if names is None
        else (planning.parse_metrics([_with_settings(name) for name in names]))
    )
    left_out: dict[str, str] = {}
    found: list[Metric] = []
    for one in wanted:
        lacking = [reason for need, reason in LEFT_OUT.items() if need in traits(one).needs]
        if lacking and names is not None:
            raise SnellenError(f"'{label(one)}' cannot be tried: it {lacking[0]}; drop it")
        if lacking:
            left_out[label(one)] = lacking[0]
        elif "truth" not in traits(one).needs or names is not None or label(one) in REFERENCES:
            found.append(one)
    if all("truth" in traits(one).needs for one in found):
        raise SnellenError("an audit is of metrics that do not look at the truth, but all that are named do; name others")
    known = {label(one) for one in found}
    return [*found, *(METRICS.build(name) for name in REFERENCES if name not in known)], left_out


def _with_settings(name: Any) -> Any:
    """A metric that is named without settings is tried with those of the table."""
    return METRICS.build(name, SETTINGS[name][0]) if isinstance(name, str) and name in SETTINGS else name


def hold(
    settings: Sequence[str],
    out: Path,
    *,
    methods: Sequence[Any] | None = None,
    metrics: Sequence[Metric],
    images: int = IMAGES,
    observer: Observer,
) -> tuple[AuditScores, list[Run]]:
    """Runs every method and metric on every setting, a run folder each; what is there already is not computed again."""
    if images < 1:
        raise SnellenError(f"an audit needs at least one image per setting, not {images}")
    if len(set(settings)) != len(settings):
        raise SnellenError("a setting is named twice; name each once")
    networks = [find(name) for name in settings]
    chosen = [one.method for one in method_list(list(METHODS) if methods is None else methods)]
    parts, runs = [], []
    for place, network in enumerate(networks, 1):
        verify_or_refuse(network)
        observer.note(f"{network.name}, {place} of {len(networks)} settings")
        part, run = _setting(network, settings[place - 1], out / network.name, chosen, metrics, images, observer)
        parts.append(part)
        runs.append(run)
    return _joined(parts), runs


def _setting(
    network: TrainedNetwork,
    spec: str,
    folder: Path,
    methods: Sequence[Method],
    metrics: Sequence[Metric],
    images: int,
    observer: Observer,
) -> tuple[AuditScores, Run]:
    rule = network.spec.rule
    focused = sum(truth.label is not None and bool(truth.focus) for truth in rule.truths)
    per_bucket = math.ceil(images / max(1, focused))
    sat = exam(network, per_bucket=per_bucket, seed=EXAM_SEED)
    places = sat.focus.flatten(1).any(dim=1).nonzero().flatten().tolist()
    if not places:
        raise SnellenError(f"the rule of '{network.name}' never looks at anything that is there, so no map can be right")
    samples = sat.samples().take(places)
    classifier = network.classifier()
    able, gone = planning.servable(classifier, methods, classifier.to_inputs(samples[0].image[None]))
    for name, reason in gone.items():
        observer.note(f"{name} is left out: {reason}")
    oracle = Oracle(spec, per_bucket, EXAM_SEED)
    known = oracle, Decoy(oracle)
    no_news = [f"cannot be scored on {label(one)}" for one in known]  # the oracle refuses what it does not know
    no_news.append("accuracy ")  # which networks know their rule was found out before
    try:
        run = evaluate(
            classifier,
            samples,
            methods=[*able, *known],
            metrics=metrics,
            target="label",
            out=folder,
            options=Options(workers=workers_for_short_passes(), compile=False),
            observer=Relay(observer, wanted=lambda text: not any(no_new in text for no_new in no_news)),
        )
    except UnfinishedError as problem:
        observer.note(str(problem))
        run = Run(folder)
    return _gathered(network, sat, places, run), run


def _gathered(network: TrainedNetwork, sat: ExamScenes, places: Sequence[int], run: Run) -> AuditScores:
    """Truth and scores from the folder of one setting, with the truth itself and a coin as further metrics."""
    ids = tuple(sat.ids[place] for place in places)
    labels = run.methods
    names = tuple(one.name if one.name in (ORACLE, DECOY) else one.label for one in run.record.spec.methods)
    kinds: tuple[Kind, ...] = tuple(
        "oracle" if one.name == ORACLE else "control" if one.control else "method" for one in run.record.spec.methods
    )
    truth = np.full((len(ids), len(labels)), np.nan)
    broken = run.record.method_failures
    for column, method in enumerate(labels):
        if method in broken:
            continue
        maps = np.zeros((len(sat), *sat.focus.shape[1:]), dtype=np.float32)
        maps[list(places)] = run.maps(method, ids)
        truth[:, column] = score(sat, maps, names[column], reading="paper")["pafl"][list(places)]
    table = run.scores().pivot(index="sample", columns=["metric", "method"], values="value").reindex(list(ids))
    scores, metrics = {}, []
    for metric in run.record.spec.metrics:
        columns = pd.MultiIndex.from_product([[metric.label], labels])
        scores[metric.label] = table.reindex(columns=columns).to_numpy(dtype=np.float64)
        needs = traits(METRICS[metric.name]).needs
        metrics.append(
            AuditedMetric(
                metric.label,
                metric.attribute,
                metric.higher_is_better,
                None not in metric.bounds,
                "looks at the truth" if "truth" in needs else "on trial",
            )
        )
    scores["pafl"] = truth.copy()
    scores["a coin"] = Rng(0, ids, path=network.name).uniform("coin", (len(labels),)).double().numpy()
    metrics += [AuditedMetric("pafl", "", True, True, "is the truth"), AuditedMetric("a coin", "", True, True, "guesses")]
    return AuditScores(
        setting=(network.name,) * len(ids),
        simple=(network.spec.simple,) * len(ids),
        bucket=sat.buckets[list(places)].numpy(),
        samples=ids,
        methods=names,
        kinds=kinds,
        truth=np.round(truth, 6),
        metrics=tuple(metrics),
        scores=scores,
    )


def _joined(parts: Sequence[AuditScores]) -> AuditScores:
    """Several settings as one trial; a method that could not explain one of the networks has no scores there."""
    facts = {name: kind for part in parts for name, kind in zip(part.methods, part.kinds, strict=True)}
    order: dict[Kind, int] = {"method": 0, "control": 1, "oracle": 2}
    methods = sorted(facts, key=lambda name: order[facts[name]])

    def spread(part: AuditScores, values: np.ndarray) -> np.ndarray:
        return pd.DataFrame(values, columns=list(part.methods)).reindex(columns=methods).to_numpy(dtype=np.float64)

    return AuditScores(
        setting=tuple(name for part in parts for name in part.setting),
        simple=tuple(one for part in parts for one in part.simple),
        bucket=np.concatenate([part.bucket for part in parts]),
        samples=tuple(sample for part in parts for sample in part.samples),
        methods=tuple(methods),
        kinds=tuple(facts[name] for name in methods),
        truth=np.concatenate([spread(part, part.truth) for part in parts]),
        metrics=parts[0].metrics,
        scores={
            metric.label: np.concatenate([spread(part, part.scores[metric.label]) for part in parts])
            for metric in parts[0].metrics
        },
    )
