"""Variations of the exam: the paper's other networks and other backgrounds, each against the plain networks on black."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch.nn import functional

from snellen.errors import InterruptionError, SnellenError, nearest
from snellen.plugins.registry import traits
from snellen.runs.progress import Observer, default_observer, duration
from snellen.textbox.exam.exam_results import RECORD as EXAM_RECORD
from snellen.textbox.exam.exam_results import ExamResults, identity
from snellen.textbox.exam.exam_scenes import PER_BUCKET
from snellen.textbox.exam.method_list import PUBLISHED, ListedMethod, method_list
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.run_exam import check_counts, run_exam
from snellen.textbox.exam.scoring import ScoreReading
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import RECORD, TrainedNetwork, find_network, read_network, shipped_names
from snellen.textbox.networks.training import plan_for, to_inputs
from snellen.textbox.networks.training_jobs import FOLDER, train_and_save
from snellen.textbox.networks.training_progress import TrainingProgress
from snellen.textbox.scenes.settings import RULES, find_setting

CACHED = Path("runs/textbox")
"""Where `snellen textbox run` keeps the results of the plain networks by default."""

OUT = CACHED / "studies"
PLAIN = "plain"
FIELDS = "fields"
"""Name of the folder with the results of each kind of network."""


@dataclass(frozen=True, kw_only=True)
class NetworkKind:
    """How networks differ from the published ones on black."""

    name: str
    architecture: str | None = None
    """None for the published one."""
    background: str = "black"
    """Behind the objects."""
    robust: bool = False
    """Whether they are trained against attacks."""

    def spec(self, setting: str) -> NetworkSpec:
        """The network of this kind for one of the seven settings."""
        return NetworkSpec.of_setting(
            setting, architecture=self.architecture, background=self.background, robust=self.robust
        )


@dataclass(frozen=True, kw_only=True)
class Variation:
    """A question of the paper about other kinds of networks."""

    name: str
    title: str
    """With the section of the paper."""
    kinds: tuple[NetworkKind, ...]
    """The kinds of networks that it trains."""
    scores: tuple[str, ...] = ("pafl",)
    """The scores of the tables."""
    beside: tuple[NetworkKind, ...] = ()
    """Further kinds, for comparison, where their networks are trained already."""


_NOISE = NetworkKind(name="noise", background="noise")
_ARCHITECTURES = ("alexnet", "vgg16", "resnet", "vit-tiny")

VARIATIONS = {
    variation.name: variation
    for variation in (
        Variation(
            name="architecture",
            title="Other architectures (section 4.3, appendix B.6)",
            kinds=tuple(NetworkKind(name=name, architecture=name) for name in _ARCHITECTURES),
            scores=("pafl", "piou"),
        ),
        Variation(
            name="robust",
            title="Networks trained against attacks (section 4.3, appendix B.7)",
            kinds=(NetworkKind(name="robust", robust=True),),
            scores=("pafl", "piou"),
        ),
        Variation(name="noise", title="Noise behind the objects (appendix B.8)", kinds=(_NOISE,)),
        Variation(
            name="photos",
            title="Photographs behind the objects (section 4.4, appendix B.9)",
            kinds=(NetworkKind(name="photos", background="photos"),),
            beside=(_NOISE,),
        ),
    )
}


@dataclass(frozen=True, eq=False, kw_only=True)
class VariationResult:
    """The scores of a variation."""

    variation: Variation
    per_bucket: int
    """Scenes of each bucket."""
    plain: pd.DataFrame
    """Scores of the plain networks."""
    frames: Mapping[str, pd.DataFrame]
    """Scores by kind of network, with the plain settings' names."""
    networks: Mapping[str, tuple[TrainedNetwork, ...]]
    """By kind of network."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """By network why it takes no part."""
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By kind of network and method why the method could not explain some."""
    published: VariationResult | None = None
    """The same, scored as the published code does."""

    def plain_of(self, kind: str) -> pd.DataFrame:
        """The plain networks' scores in the settings of this kind of network."""
        return self.plain[self.plain["setting"].isin(self.settings_of(kind))]

    def settings_of(self, kind: str) -> list[str]:
        """The settings in which this kind of network has scores."""
        return list(self.frames[kind]["setting"].unique())


def find_variation(name: str) -> Variation:
    """A variation by its name."""
    if name not in VARIATIONS:
        hint = nearest(name, VARIATIONS) or ";"
        raise SnellenError(f"there is no variation '{name}'{hint} there are {', '.join(VARIATIONS)}")
    return VARIATIONS[name]


def variation_from_options(name: str | None, *, model: Any = None, method: Any = None, reading: str = "paper") -> Variation:
    """The variation that the options of the command name; options without meaning for a variation are refused."""
    if name is None:
        raise SnellenError(f"--only and --models belong to a --variation; there are {', '.join(VARIATIONS)}")
    for option, is_given in (("--model", model), ("--method", method), ("--reading", reading != "paper")):
        if is_given:
            raise SnellenError(f"--variation takes no {option}, for it defines itself what is run; leave it out")
    return find_variation(name)


def run_variation(
    variation: Variation,
    *,
    settings: Sequence[str] = (),
    only: Sequence[str] = (),
    methods: Sequence[Any] | None = None,
    models: str | Path | None = None,
    out: str | Path = OUT,
    cached: str | Path = CACHED,
    per_bucket: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
    plan: Mapping[str, Any] | None = None,
    observer: Observer | None = None,
    progress: TrainingProgress | None = None,
) -> VariationResult:
    """Trains the networks that are missing, verifies all, explains their scenes, and compares with the plain networks.

    Args:
        variation: What to run.
        settings: Some of the seven; all by default.
        only: Some of the variation's kinds of networks; all by default.
        methods: The paper's by default.
        models: The folder of the networks, which lie in folders of their names.
        out: The folder for results.
        cached: A folder with results of the plain networks, which are used if they have the same methods and scenes.
        per_bucket: Scenes of each bucket.
        workers: Processes.
        threads: Threads of each process.
        plan: Settings of training other than the usual ones.
        observer: Shows the progress of explaining.
        progress: Shows the progress of training.
    """
    chosen = tuple(settings) or tuple(RULES)
    for name in chosen:
        find_setting(name)  # an unknown one is refused before anything is trained
    check_counts(images=per_bucket, threads=threads)
    kinds = _chosen_kinds(variation, only)
    listed = method_list(PUBLISHED if methods is None else methods)
    labels = [method.label for method in listed]
    folder = Path(models or FOLDER)
    scenes = PER_BUCKET if per_bucket is None else per_bucket
    missing = _train_missing(kinds, chosen, folder, plan or {}, progress or TrainingProgress())

    def run(target: Path, networks: Sequence[str | Path]) -> ExamResults:
        return run_exam(
            networks,
            methods=list(PUBLISHED if methods is None else methods),
            out=target,
            per_bucket=scenes,
            workers=workers,
            threads=threads,
            observer=observer or default_observer(),
        )

    results: dict[str, ExamResults] = {}
    for kind in (*kinds, *variation.beside):
        names = [kind.spec(setting).name for setting in chosen]
        trained = [folder / name for name in names if (folder / name / RECORD).is_file()]
        if not trained:
            continue
        try:
            results[kind.name] = run(Path(out) / FIELDS / kind.name, trained)
        except SnellenError as problem:
            missing[kind.name] = str(problem)
    if not any(kind.name in results for kind in kinds):
        raise SnellenError(f"the variation '{variation.name}' has no network to look at: {'; '.join(missing.values())}")
    plain_settings = [name for name in chosen if name in shipped_names()]
    if not plain_settings:
        raise SnellenError(f"no plain network of {', '.join(chosen)} comes with this installation to compare with")
    plain = _cached_results(Path(cached), plain_settings, listed, scenes) or run(Path(out) / FIELDS / PLAIN, plain_settings)
    for exam in results.values():
        missing |= exam.refused
    compared = _comparable_kinds(results, kinds, variation.beside)

    def read(reading: ScoreReading, published: VariationResult | None) -> VariationResult:
        return VariationResult(
            variation=variation,
            per_bucket=scenes,
            plain=_restrict(plain.frame(reading), plain_settings, labels),
            frames={
                name: _restrict(
                    _plain_setting_names(results[name].frame(reading), chosen, (*kinds, *variation.beside)),
                    plain_settings,
                    labels,
                )
                for name in compared
            },
            networks={name: tuple(results[name].networks.values()) for name in compared},
            missing=missing,
            left_out={
                name: {label: why for reasons in results[name].left_out.values() for label, why in reasons.items()}
                for name in compared
            },
            published=published,
        )

    return read("paper", read("published-code", None))


def _comparable_kinds(
    results: Mapping[str, ExamResults], kinds: Sequence[NetworkKind], beside: Sequence[NetworkKind]
) -> list[str]:
    """The kinds of networks with scores; those `beside` must have them in the same settings, to be compared with."""

    def rules(name: str) -> set[str]:
        return {network.spec.rule.text for network in results[name].networks.values()}

    main = [kind.name for kind in kinds if kind.name in results]
    main_rules = set().union(*map(rules, main))
    return main + [kind.name for kind in beside if kind.name in results and rules(kind.name) == main_rules]


def _chosen_kinds(variation: Variation, names: Sequence[str]) -> tuple[NetworkKind, ...]:
    kinds = {kind.name: kind for kind in variation.kinds}
    for name in names:
        if name not in kinds:
            hint = nearest(name, kinds) or ";"
            raise SnellenError(f"the variation '{variation.name}' has no '{name}'{hint} it has {', '.join(kinds)}")
    return tuple(kind for name, kind in kinds.items() if not names or name in names)


def _train_missing(
    kinds: Sequence[NetworkKind],
    settings: Sequence[str],
    folder: Path,
    plan: Mapping[str, Any],
    progress: TrainingProgress,
) -> dict[str, str]:
    """Trains the networks that are not there yet; returns by network why it could not be trained."""
    specs = [kind.spec(setting) for kind in kinds for setting in settings]
    for spec in specs:
        if (folder / spec.name / RECORD).is_file() and read_network(folder / spec.name).spec.record() != spec.record():
            raise SnellenError(f"'{folder / spec.name}' holds another network than {spec.name}; name another --models")
    absent = [spec for spec in specs if not (folder / spec.name / RECORD).is_file()]
    if not absent:
        return {}
    expected = duration(sum(expected_seconds(spec, plan) for spec in absent))
    names = ", ".join(spec.name for spec in absent)
    progress.note(
        f"{len(absent)} of {len(specs)} networks must be trained first, which may take {expected} if each needs about as "
        f"many images as the plain one did: {names}"
    )
    failed = {}
    for spec in absent:
        try:
            train_and_save(spec, folder / spec.name, plan_for(spec, **plan), progress)
        except InterruptionError:
            raise
        except SnellenError as problem:
            progress.note(f"{spec.name} takes no part: {problem}")
            failed[spec.name] = str(problem)
    return failed


def expected_seconds(spec: NetworkSpec, settings: Mapping[str, Any] | None = None) -> float:
    """How long training may take: the time of one batch here, times the images that the plain network of the rule needed."""
    plan = plan_for(spec, **(settings or {}))
    rows = min(64, plan.batch)
    module = build_network(spec.architecture, classes=spec.rule.classes, side=spec.side, seed=0)
    buckets = [spec.rule.defined[row % len(spec.rule.defined)] for row in range(rows)]
    per_image = 0.0
    for _ in range(2):  # the first pass includes set-up
        started = time.perf_counter()
        inputs = to_inputs(spec.layout.scenes(buckets, range(rows), seed=0))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=plan.uses_half(spec)):
            logits = module(inputs)
        functional.cross_entropy(logits.float(), torch.zeros(rows, dtype=torch.long)).backward()
        per_image = (time.perf_counter() - started) / rows
    plain = [find_network(name) for name in shipped_names() if RULES[name] == spec.rule.text]
    images = [int(network.record["training"]["images"]) for network in plain]
    needed = min([plan.most, *(count for count in images if count)])
    return float(per_image * needed * (1 + plan.attack.iterations if spec.robust else 1))


def _cached_results(
    folder: Path, settings: Sequence[str], methods: Sequence[ListedMethod], per_bucket: int
) -> ExamResults | None:
    """The results in a folder, if they hold all of this: the shipped networks, and these versions of the methods."""
    if not (folder / EXAM_RECORD).exists():
        return None
    results = ExamResults.read(folder)
    if results.per_bucket != per_bucket or any(results.record["settings"].get(name) is None for name in settings):
        return None
    versions = {(method.label, traits(method.method).version) for method in methods}
    for name in settings:
        facts, explained = results.record["settings"][name], results.explained(name)
        cached = {
            (method.label, method.version) for method in results.runs[name].record.spec.methods if method.label in explained
        }
        if not (identity(find_network(name)).items() <= facts.items() and versions <= cached):
            return None
    return results


def _plain_setting_names(frame: pd.DataFrame, settings: Sequence[str], kinds: Sequence[NetworkKind]) -> pd.DataFrame:
    """Scores of a kind of network under the names of the plain settings."""
    names = {kind.spec(setting).name: setting for kind in kinds for setting in settings}
    return frame.assign(setting=frame["setting"].map(names))


def _restrict(frame: pd.DataFrame, settings: Sequence[str], labels: Sequence[str]) -> pd.DataFrame:
    return frame[frame["setting"].isin(list(settings)) & frame["method"].isin([*labels, ORACLE])]
