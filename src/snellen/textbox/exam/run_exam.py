"""Makes a field, or adds to one: reasoners are proven, their exams explained by methods, and the maps kept."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from snellen.errors import SnellenError
from snellen.files.atomic import write_whole
from snellen.files.integrity import digest, dump_record
from snellen.files.seals import untrusted_folder
from snellen.runs import plan as planning
from snellen.runs.evaluate import Options, UnfinishedError, evaluate
from snellen.runs.executors import process_pool
from snellen.runs.progress import Observer, Relay, default_observer, duration
from snellen.runs.settings import workers_for_short_passes
from snellen.textbox.exam.exam_results import RECORD, SCHEMA, VERIFICATION, ExamResults, check_same, identity, read_record
from snellen.textbox.exam.exam_scenes import PER_BUCKET, ExamScenes, exam
from snellen.textbox.exam.method_list import ALL, ListedMethod, line, method_list, strange
from snellen.textbox.networks.trained_network import TrainedNetwork, find, shipped
from snellen.textbox.networks.verification import PAIRS, verify
from snellen.types import Passes

SHARD = 60
"""Scenes per unit of work: few enough that two processes end at about the same time, enough to fill a pass."""


def run_exam(
    models: Sequence[str | Path] = (),
    *,
    methods: Sequence[Any] | None = None,
    add: Sequence[Any] = (),
    out: str | Path = "runs/textbox",
    per_bucket: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
    observer: Observer | None = None,
    trust: bool = False,
) -> ExamResults:
    """Verifies reasoners, explains their exams by methods, and keeps the maps; what the folder holds is not computed again.

    `models` are names of shipped reasoners or folders that training wrote: all shipped ones unless some are named. `methods`
    are all that can explain them unless some are named; the controls are always among them. With `add`, methods join those
    that the folder holds already, on its settings and its number of scenes; modules that a stranger's folder names are
    imported only with `trust`.
    """
    folder, watching = Path(out), observer or default_observer()
    check_counts(images=per_bucket, threads=threads)
    if workers is not None and workers < 0:
        raise SnellenError(f"workers must be at least 0, not {workers}")
    known = read_record(folder)
    adding = known if methods is None and add else None
    lines = _lines(methods, add, adding, folder, watching, trust=trust)
    networks = _reasoners(
        models or ([] if adding is None else [setting["model"] for setting in adding["settings"].values()])
    )
    count = per_bucket or (PER_BUCKET if adding is None else adding["images"])
    if known is not None:
        _refuse_another(folder, known, networks, count)
    _refuse_useless(add, networks)
    proven, refused = _proven(networks, folder, known, watching)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "images": count,
        "methods": [one.record() for one in lines],
        # An interrupted addition must not make the folder forget the settings that it had not come to.
        "settings": {}
        if adding is None
        else {name: setting for name, setting in adding["settings"].items() if name in proven},
        "refused": refused,
    }
    exams = {name: exam(networks[name], per_bucket=count) for name in proven}
    with _pool(workers) as pool:
        for name, table in proven.items():
            left_out = _explain(folder / name, networks[name], exams[name], lines, pool, threads, watching)
            proof = table.to_csv(index=False).encode()
            write_whole(folder / name / VERIFICATION, proof)
            facts = {"left_out": left_out, "verification": digest(proof)}
            record["settings"][name] = {**identity(networks[name]), **facts}
            _write(folder / RECORD, record)
    return _without_broken(ExamResults(folder, record), add)


def check_counts(**given: int | None) -> None:
    """Refuses numbers of which at least one is needed."""
    for option, value in given.items():
        if value is not None and value < 1:
            raise SnellenError(f"{option} must be at least 1, not {value}")


def _lines(
    methods: Sequence[Any] | None,
    add: Sequence[Any],
    known: Mapping[str, Any] | None,
    folder: Path,
    observer: Observer,
    *,
    trust: bool,
) -> list[ListedMethod]:
    """The methods that were asked for; where some are only to be added, those of the folder stay."""
    if methods is not None or not add:
        return method_list([*(methods or [ALL]), *add])
    if known is None:
        observer.note(
            f"there is no field in '{folder}' yet, so that only the controls stand beside the new method; "
            "`snellen textbox run --methods all` makes one"
        )
        return method_list(add)
    foreign = [one for one in strange(known["methods"]) if one not in add]
    if foreign and not trust:
        raise untrusted_folder(folder, [f"import the method '{one}'" for one in foreign])
    new, kept = method_list(add), []
    for method in known["methods"]:
        try:
            kept.append(line(method["text"]))
        except SnellenError as problem:
            if method["label"] not in [other.label for other in new]:
                observer.note(f"{method['label']} of '{folder}' is left out: {problem}")
    return method_list([*(one.text for one in kept), *(one.text for one in new)])


def _reasoners(models: Sequence[str | Path]) -> dict[str, TrainedNetwork]:
    """By the name of its setting; where several have the same, by the name of its folder."""
    found = [find(model) for model in models or shipped()]
    if not found:
        raise SnellenError("no trained reasoner comes with this installation; train one: `snellen textbox train`")
    names = [re.sub(r"[^\w.-]+", "-", one.name) for one in found]
    named = {
        one.folder.resolve().name if names.count(name) > 1 else name: one for name, one in zip(names, found, strict=True)
    }
    if len(named) < len(found):
        twice = next(name for name in names if names.count(name) > 1)
        raise SnellenError(f"two reasoners are called '{twice}'; name each once, or move one to a folder of another name")
    return named


def _refuse_another(folder: Path, known: Mapping[str, Any], networks: Mapping[str, TrainedNetwork], count: int) -> None:
    shared = [name for name in networks if name in known["settings"]]
    if shared and known["images"] != count:
        raise SnellenError(
            f"'{folder}' holds a field of {known['images']} images per bucket, not {count}; choose another --out"
        )
    for name in shared:
        check_same(folder, name, known["settings"][name], networks[name])


def _refuse_useless(add: Sequence[Any], networks: Mapping[str, TrainedNetwork]) -> None:
    """A method that somebody named alone, and that can explain none of the classifiers, is refused with its reason."""
    for one in (line(given) for given in add):
        reasons: list[str] = []
        for network in networks.values():
            classifier, side = network.classifier(), network.spec.side
            reasons += planning.servable(classifier, [one.method], torch.zeros(1, 3, side, side))[1].values()
        if len(reasons) == len(networks):
            raise SnellenError(reasons[0])


def _without_broken(found: ExamResults, add: Sequence[Any]) -> ExamResults:
    """The field, unless a method that somebody named alone broke on all settings: that is said, and it is forgotten."""
    broken = [name for name in (line(given).label for given in add) if name not in found.methods]
    if not broken:
        return found
    methods = [method for method in found.record["methods"] if method["label"] not in broken]
    _write(found.folder / RECORD, {**found.record, "methods": methods})
    raise SnellenError(next(reasons[broken[0]] for reasons in found.left_out.values() if broken[0] in reasons))


def _proven(
    networks: Mapping[str, TrainedNetwork], folder: Path, known: Mapping[str, Any] | None, observer: Observer
) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """The proofs of those that follow their rule, and of the others a sentence; all refused is an error."""
    proven: dict[str, pd.DataFrame] = {}
    refused: dict[str, str] = {}
    scenes = {name: Passes(forward=PAIRS * len(one.spec.rule.defined)) for name, one in networks.items()}
    observer.begin("verifying", sum(scenes.values(), Passes()), len(networks))
    try:
        for name, network in networks.items():
            observer.running(f"verifying {name}")
            kept = folder / name / VERIFICATION
            if known is not None and name in known["settings"] and kept.exists() and _intact(kept, known["settings"][name]):
                proven[name] = pd.read_csv(kept, keep_default_na=False)  # of the very same weights, which was checked
                observer.finished(Passes())
                continue
            found = verify(network)
            if found.problem is None:
                proven[name] = found.table().assign(setting=name)
            else:
                refused[name] = found.problem
            observer.finished(scenes[name])
    finally:
        observer.end()
    if not proven:
        raise SnellenError(next(iter(refused.values())))
    for name, problem in refused.items():
        observer.note(f"{name} is left out, for it is no ground truth: {problem}")
    return proven, refused


def _explain(
    folder: Path,
    network: TrainedNetwork,
    sat: ExamScenes,
    lines: Sequence[ListedMethod],
    pool: Executor | None,
    threads: int | None,
    observer: Observer,
) -> dict[str, str]:
    """Explains one exam, in one line of words; by method why some do not."""
    started = time.perf_counter()
    classifier = network.classifier()
    inputs = classifier.to_inputs(sat.samples()[0].image[None])
    able, left_out = planning.servable(classifier, [one.method for one in lines], inputs)
    watching = Relay(observer, folder.name, wanted=lambda text: False)  # one sentence per setting is enough
    broken = ""
    try:
        evaluate(
            classifier,
            sat.samples(),
            methods=able,
            metrics=None,
            out=folder,
            options=Options(shard=SHARD, threads=threads, compile=False),
            executor=pool,
            observer=watching,
        )
    except UnfinishedError as problem:
        broken = f"; {problem}"
    observer.note(
        f"{folder.name}: {len(able)} methods on {len(sat)} scenes in {duration(time.perf_counter() - started)}{broken}"
    )
    # On another setting the same reason would name another classifier.
    return {name: reason.replace(f"'{classifier.name}'", "the classifier") for name, reason in left_out.items()}


@contextmanager
def _pool(workers: int | None) -> Iterator[Executor | None]:
    """One pool for all settings, because processes take seconds to start; none where one process is to do it all."""
    count = workers_for_short_passes() if workers is None else workers
    if count <= 1:
        yield None
        return
    with process_pool(count) as pool:
        yield pool


def _write(path: Path, record: Mapping[str, Any]) -> None:
    write_whole(path, dump_record(dict(record)))


def _intact(proof: Path, facts: Mapping[str, Any]) -> bool:
    """Whether a kept proof is as it was written; older records do not say."""
    return facts.get("verification") in (None, digest(proof.read_bytes()))
