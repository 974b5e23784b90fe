"""Studies: the paper's other networks and other backgrounds, each against the plain networks on black."""

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
from snellen.textbox.exam.exam_results import RECORD as FIELD
from snellen.textbox.exam.exam_results import ExamResults, identity
from snellen.textbox.exam.exam_scenes import PER_BUCKET
from snellen.textbox.exam.method_list import PUBLISHED, ListedMethod, method_list
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.run_exam import check_counts, run_exam
from snellen.textbox.exam.scoring import Reading
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import RECORD, TrainedNetwork, find, read, shipped
from snellen.textbox.networks.training import inputs_of, plan_for
from snellen.textbox.networks.training_jobs import FOLDER, train_and_save
from snellen.textbox.networks.training_progress import TrainingProgress
from snellen.textbox.report.bucket_means import BucketMeans, paper_methods
from snellen.textbox.report.questions import Claim, read_otherwise
from snellen.textbox.report.variation_claims import (
    Claims,
    architecture_claims,
    noise_claims,
    photographs_claims,
    robust_claims,
)
from snellen.textbox.scenes.settings import RULES, setting

CACHED = Path("runs/textbox")
"""Where `snellen textbox run` keeps the field of the plain networks, unless told otherwise."""

OUT = CACHED / "studies"
PLAIN = "plain"
FIELDS = "fields"


@dataclass(frozen=True)
class NetworkKind:
    """How the networks of a study differ from the published ones on black."""

    name: str
    architecture: str | None = None
    background: str = "black"
    robust: bool = False

    def spec(self, setting: str) -> NetworkSpec:
        """Of one of the seven settings."""
        return NetworkSpec.of_setting(
            setting, architecture=self.architecture, background=self.background, robust=self.robust
        )


@dataclass(frozen=True)
class Variation:
    """A question of the paper about other circumstances. Those `beside` take part where their networks are there already."""

    name: str
    title: str
    circumstances: tuple[NetworkKind, ...]
    claims: Claims
    scores: tuple[str, ...] = ("pafl",)
    beside: tuple[NetworkKind, ...] = ()


_NOISE = NetworkKind("noise", background="noise")
_ARCHITECTURES = ("alexnet", "vgg16", "resnet", "vit-tiny")

VARIATIONS = {
    one.name: one
    for one in (
        Variation(
            "architecture",
            "Other architectures (section 4.3, appendix B.6)",
            tuple(NetworkKind(name, architecture=name) for name in _ARCHITECTURES),
            architecture_claims,
            scores=("pafl", "piou"),
        ),
        Variation(
            "robust",
            "Networks trained against attacks (section 4.3, appendix B.7)",
            (NetworkKind("robust", robust=True),),
            robust_claims,
            scores=("pafl", "piou"),
        ),
        Variation("noise", "Noise behind the things (appendix B.8)", (_NOISE,), noise_claims),
        Variation(
            "photos",
            "Photographs behind the things (section 4.4, appendix B.9)",
            (NetworkKind("photos", background="photos"),),
            photographs_claims,
            beside=(_NOISE,),
        ),
    )
}


@dataclass(frozen=True, eq=False)
class VariationResult:
    """What a study found. `frames` hold the scores under each circumstance, with the plain settings' names.

    `missing` says of networks that take no part why, and `left_out` of methods why they could not explain some. `published`
    is the same, scored as the published code does.
    """

    study: Variation
    per_bucket: int
    plain: pd.DataFrame
    frames: Mapping[str, pd.DataFrame]
    networks: Mapping[str, tuple[TrainedNetwork, ...]]
    missing: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    published: VariationResult | None = None

    def claims(self) -> list[Claim]:
        """The paper's, with the numbers that decide them; those that do not hold are read as the published code does too."""
        names = {name: paper_methods(frame["method"].unique()) for name, frame in self.frames.items()}
        others = {name: BucketMeans.of(frame, names[name]) for name, frame in self.frames.items()}
        settings = {name for circumstance in self.frames for name in self.settings_of(circumstance)}
        plain = self.plain[self.plain["setting"].isin(settings)]
        found = self.study.claims(BucketMeans.of(plain, paper_methods(plain["method"].unique())), others)
        if self.published is None:
            return found
        there = self.published.claims()
        return [one if one.holds is not False else read_otherwise(one, two) for one, two in zip(found, there, strict=True)]

    def plain_of(self, circumstance: str) -> pd.DataFrame:
        """The plain networks' scores in the settings in which this circumstance has some."""
        return self.plain[self.plain["setting"].isin(self.settings_of(circumstance))]

    def settings_of(self, circumstance: str) -> list[str]:
        """In which settings there are scores."""
        return list(self.frames[circumstance]["setting"].unique())


def find_variation(name: str) -> Variation:
    """A study by its name."""
    if name not in VARIATIONS:
        raise SnellenError(f"there is no study '{name}'{nearest(name, VARIATIONS) or ';'} there are {', '.join(VARIATIONS)}")
    return VARIATIONS[name]


def variation_from_options(study: str | None, *, model: Any = None, method: Any = None, reading: str = "paper") -> Variation:
    """The study that options of the command name; those that mean nothing for a study are refused."""
    if study is None:
        raise SnellenError(f"--only and --models belong to a --study; there are {', '.join(VARIATIONS)}")
    for option, given in (("--model", model), ("--method", method), ("--reading", reading != "paper")):
        if given:
            raise SnellenError(f"--study takes no {option}, for it says itself what is run and how it is read; leave it out")
    return find_variation(study)


def run_variation(
    study: Variation,
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
    board: TrainingProgress | None = None,
) -> VariationResult:
    """Trains the networks that are missing, proves all, explains their exams, and sets the scores beside the plain ones'.

    Networks lie in folders of their names in `models`. `only` limits the circumstances. The field of the plain networks is
    taken from `cached` where that holds the same methods on as many scenes; all other fields are kept within `out`. `course`
    holds settings of training other than the usual ones.
    """
    chosen = tuple(settings) or tuple(RULES)
    for name in chosen:
        setting(name)  # an unknown one is refused before anything is trained
    check_counts(images=per_bucket, threads=threads)
    circumstances = _only(study, only)
    lines = list(PUBLISHED if methods is None else methods)
    wanted = method_list(lines)
    labels = [one.label for one in wanted]
    watching, chalk, folder = observer or default_observer(), board or TrainingProgress(), Path(models or FOLDER)
    scenes = PER_BUCKET if per_bucket is None else per_bucket
    missing = _taught(circumstances, chosen, folder, plan or {}, chalk)

    def explained(where: Path, names: Sequence[str | Path]) -> ExamResults:
        return run_exam(
            names, methods=lines, out=where, per_bucket=scenes, workers=workers, threads=threads, observer=watching
        )

    fields: dict[str, ExamResults] = {}
    for one in (*circumstances, *study.beside):
        there = [folder / name.name for name in map(one.spec, chosen) if (folder / name.name / RECORD).is_file()]
        if not there:
            continue
        try:
            fields[one.name] = explained(Path(out) / FIELDS / one.name, there)
        except SnellenError as problem:
            missing[one.name] = str(problem)
    if not any(one.name in fields for one in circumstances):
        raise SnellenError(f"the study '{study.name}' has no network to look at: {'; '.join(missing.values())}")
    held = [name for name in chosen if name in shipped()]
    if not held:
        raise SnellenError(f"no plain network of {', '.join(chosen)} comes with this installation to compare with")
    plain = _held(Path(cached), held, wanted, scenes) or explained(Path(out) / FIELDS / PLAIN, held)
    for found in fields.values():
        missing |= found.refused
    kept = _kept(fields, circumstances, study.beside)

    def read_as(reading: Reading, published: VariationResult | None) -> VariationResult:
        frames = {
            name: _limited(_frame(fields[name], reading, chosen, (*circumstances, *study.beside)), held, labels)
            for name in kept
        }
        networks = {name: tuple(fields[name].networks.values()) for name in kept}
        left_out = {
            name: {label: why for left in fields[name].left_out.values() for label, why in left.items()} for name in kept
        }
        return VariationResult(
            study, scenes, _limited(plain.frame(reading), held, labels), frames, networks, missing, left_out, published
        )

    return read_as("paper", read_as("published-code", None))


def _kept(
    fields: Mapping[str, ExamResults], circumstances: Sequence[NetworkKind], beside: Sequence[NetworkKind]
) -> list[str]:
    """The circumstances with scores; what stands beside must have them in the same settings, to be compared with."""

    def rules(name: str) -> set[str]:
        return {one.spec.rule.text for one in fields[name].networks.values()}

    main = [one.name for one in circumstances if one.name in fields]
    known = set().union(*map(rules, main))
    return main + [one.name for one in beside if one.name in fields and rules(one.name) == known]


def _only(study: Variation, names: Sequence[str]) -> tuple[NetworkKind, ...]:
    known = {one.name: one for one in study.circumstances}
    for name in names:
        if name not in known:
            raise SnellenError(
                f"the study '{study.name}' knows no '{name}'{nearest(name, known) or ';'} it has {', '.join(known)}"
            )
    return tuple(one for name, one in known.items() if not names or name in names)


def _taught(
    circumstances: Sequence[NetworkKind],
    settings: Sequence[str],
    folder: Path,
    given: Mapping[str, Any],
    board: TrainingProgress,
) -> dict[str, str]:
    """Trains what is missing; by network why it could not be had."""
    wanted = [one.spec(name) for one in circumstances for name in settings]
    for one in wanted:
        if (folder / one.name / RECORD).is_file() and read(folder / one.name).spec.record() != one.record():
            raise SnellenError(f"'{folder / one.name}' holds another reasoning than {one.name}; name another --models")
    absent = [one for one in wanted if not (folder / one.name / RECORD).is_file()]
    if not absent:
        return {}
    about = duration(sum(expected_seconds(one, given) for one in absent))
    names = ", ".join(one.name for one in absent)
    board.note(
        f"{len(absent)} of {len(wanted)} networks must be trained first, which may take {about} if each needs about as many "
        f"images as the plain one did: {names}"
    )
    failed = {}
    for one in absent:
        try:
            train_and_save(one, folder / one.name, plan_for(one, **given), board)
        except InterruptionError:
            raise
        except SnellenError as problem:
            board.note(f"{one.name} takes no part: {problem}")
            failed[one.name] = str(problem)
    return failed


def expected_seconds(spec: NetworkSpec, given: Mapping[str, Any] | None = None) -> float:
    """How long training may take here: the pace of one batch, times the images that the plain network of the rule needed."""
    plan = plan_for(spec, **(given or {}))
    rows = min(64, plan.batch)
    module = build_network(spec.architecture, classes=spec.rule.classes, side=spec.side, seed=0)
    buckets = [spec.rule.defined[at % len(spec.rule.defined)] for at in range(rows)]
    pace = []
    for _ in range(2):  # the first pass sets things up
        started = time.perf_counter()
        inputs = inputs_of(spec.layout.scenes(buckets, range(rows), seed=0))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=plan.uses_half(spec)):
            logits = module(inputs)
        functional.cross_entropy(logits.float(), torch.zeros(rows, dtype=torch.long)).backward()
        pace.append((time.perf_counter() - started) / rows)
    told = [_images(name) for name in shipped() if RULES[name] == spec.rule.text]
    needed = min([plan.most, *(images for images in told if images)])
    return float(pace[-1] * needed * (1 + plan.attack.iterations if spec.robust else 1))


def _images(name: str) -> int:
    return int(find(name).record["training"]["images"])


def _held(folder: Path, settings: Sequence[str], lines: Sequence[ListedMethod], per_bucket: int) -> ExamResults | None:
    """The field in a folder, if it holds all of this: of the shipped networks, and by these versions of the methods."""
    if not (folder / FIELD).exists():
        return None
    found = ExamResults.read(folder)
    if found.per_bucket != per_bucket or any(found.record["settings"].get(name) is None for name in settings):
        return None
    wanted = {(one.label, traits(one.method).version) for one in lines}
    for name in settings:
        facts, explained = found.record["settings"][name], found.explained(name)
        there = {(one.label, one.version) for one in found.runs[name].record.spec.methods}
        known = {one for one in there if one[0] in explained}
        if not (identity(find(name)).items() <= facts.items() and wanted <= known):
            return None
    return found


def _frame(
    found: ExamResults, reading: Reading, settings: Sequence[str], circumstances: Sequence[NetworkKind]
) -> pd.DataFrame:
    """The scores of a circumstance under the names of the plain settings."""
    names = {one.spec(name).name: name for one in circumstances for name in settings}
    frame = found.frame(reading)
    return frame.assign(setting=frame["setting"].map(names))


def _limited(frame: pd.DataFrame, settings: Sequence[str], labels: Sequence[str]) -> pd.DataFrame:
    return frame[frame["setting"].isin(list(settings)) & frame["method"].isin([*labels, ORACLE])]
