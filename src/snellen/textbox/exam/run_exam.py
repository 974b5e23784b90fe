"""Runs an exam, or adds to one: networks are verified, their scenes explained by methods, and the maps stored."""

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
from snellen.runs import requirements
from snellen.runs.evaluate import evaluate
from snellen.runs.executors import process_pool
from snellen.runs.job import UnfinishedError
from snellen.runs.options import Options
from snellen.runs.progress import Observer, Relay, default_observer, duration
from snellen.runs.settings import workers_for_short_passes
from snellen.textbox.exam.exam_results import (
    RECORD,
    SCHEMA,
    VERIFICATION,
    ExamRecord,
    ExamResults,
    StoredSetting,
    check_same,
    identity,
    read_record,
)
from snellen.textbox.exam.exam_scenes import PER_BUCKET, ExamScenes, draw_exam_scenes
from snellen.textbox.exam.method_list import ALL, ListedMethod, listed_method, method_list, untrusted_methods
from snellen.textbox.networks.trained_network import TrainedNetwork, find_network, shipped_names
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
    """Verifies networks, explains their scenes by methods, and stores the maps; what the folder holds is not computed again.

    Args:
        models: Names of shipped networks, or folders that training wrote; all shipped ones by default.
        methods: All that can explain the networks by default; controls are always among them.
        add: Methods that join those in the folder, on its settings and its number of scenes.
        out: The folder.
        per_bucket: Scenes of each bucket.
        workers: Processes.
        threads: Threads of each process.
        observer: Shows the progress.
        trust: Import modules that the folder names although this user did not write its record.
    """
    folder, observer = Path(out), observer or default_observer()
    check_counts(images=per_bucket, threads=threads)
    if workers is not None and workers < 0:
        raise SnellenError(f"workers must be at least 0, not {workers}")
    stored = read_record(folder)
    extended = stored if methods is None and add else None
    listed = _listed_methods(methods, add, extended, folder, observer, trust=trust)
    networks = _networks(models or ([] if extended is None else [facts["model"] for facts in extended["settings"].values()]))
    count = per_bucket or (PER_BUCKET if extended is None else extended["images"])
    if stored is not None:
        _refuse_other_exam(folder, stored, networks, count)
    _refuse_unsupported(add, networks)
    verified, refused = _verify(networks, folder, stored, observer)
    # An interrupted addition must not remove settings from the record that it did not reach.
    settings = {} if extended is None else extended["settings"]
    record = ExamRecord(
        schema=SCHEMA,
        images=count,
        methods=[method.record() for method in listed],
        settings={name: facts for name, facts in settings.items() if name in verified},
        refused=refused,
    )
    scenes = {name: draw_exam_scenes(networks[name], per_bucket=count) for name in verified}
    with _pool(workers) as pool:
        for name, table in verified.items():
            left_out = _explain(folder / name, networks[name], scenes[name], listed, pool, threads, observer)
            verification = table.to_csv(index=False).encode()
            write_whole(folder / name / VERIFICATION, verification)
            record["settings"][name] = StoredSetting(
                **identity(networks[name]), left_out=left_out, verification=digest(verification)
            )
            _write(folder / RECORD, record)
    return _refuse_broken(ExamResults(folder, record), add)


def check_counts(**counts: int | None) -> None:
    """Refuses numbers below 1."""
    for option, value in counts.items():
        if value is not None and value < 1:
            raise SnellenError(f"{option} must be at least 1, not {value}")


def _listed_methods(
    methods: Sequence[Any] | None,
    add: Sequence[Any],
    stored: ExamRecord | None,
    folder: Path,
    observer: Observer,
    *,
    trust: bool,
) -> list[ListedMethod]:
    """The methods to run; where some are only to be added, those of the folder stay."""
    if methods is not None or not add:
        return method_list([*(methods or [ALL]), *add])
    if stored is None:
        observer.note(
            f"there is no exam in '{folder}' yet, so that the new method is compared with the controls only; "
            "`snellen textbox run --methods all` makes one"
        )
        return method_list(add)
    untrusted = [text for text in untrusted_methods(stored["methods"]) if text not in add]
    if untrusted and not trust:
        raise untrusted_folder(folder, [f"import the method '{text}'" for text in untrusted])
    added, remaining = method_list(add), []
    for method in stored["methods"]:
        try:
            remaining.append(listed_method(method["text"]))
        except SnellenError as problem:
            if method["label"] not in [new.label for new in added]:
                observer.note(f"{method['label']} of '{folder}' is left out: {problem}")
    return method_list([method.text for method in (*remaining, *added)])


def _networks(models: Sequence[str | Path]) -> dict[str, TrainedNetwork]:
    """Networks by the name of their setting, or, where several have the same, by the name of their folder."""
    networks = [find_network(model) for model in models or shipped_names()]
    if not networks:
        raise SnellenError("no trained network comes with this installation; train one: `snellen textbox train`")
    names = [re.sub(r"[^\w.-]+", "-", network.name) for network in networks]
    by_name = {
        network.folder.resolve().name if names.count(name) > 1 else name: network
        for name, network in zip(names, networks, strict=True)
    }
    if len(by_name) < len(networks):
        twice = next(name for name in names if names.count(name) > 1)
        raise SnellenError(f"two networks are called '{twice}'; name each once, or move one to a folder of another name")
    return by_name


def _refuse_other_exam(folder: Path, stored: ExamRecord, networks: Mapping[str, TrainedNetwork], count: int) -> None:
    """Refuses a folder that holds an exam of other networks under these names, or with another number of scenes."""
    shared = [name for name in networks if name in stored["settings"]]
    if shared and stored["images"] != count:
        raise SnellenError(
            f"'{folder}' holds an exam of {stored['images']} images per bucket, not {count}; choose another --out"
        )
    for name in shared:
        check_same(folder, name, stored["settings"][name], networks[name])


def _refuse_unsupported(add: Sequence[Any], networks: Mapping[str, TrainedNetwork]) -> None:
    """Refuses an added method that can explain none of the networks, with the reason."""
    for added in map(listed_method, add):
        reasons: list[str] = []
        for network in networks.values():
            classifier, side = network.classifier(), network.spec.side
            reasons += requirements.split_by_support(classifier, [added.method], torch.zeros(1, 3, side, side))[1].values()
        if len(reasons) == len(networks):
            raise SnellenError(reasons[0])


def _refuse_broken(results: ExamResults, add: Sequence[Any]) -> ExamResults:
    """The results; an added method that raised an error on all settings is removed from the record and refused."""
    broken = [label for label in (listed_method(method).label for method in add) if label not in results.methods]
    if not broken:
        return results
    methods = [method for method in results.record["methods"] if method["label"] not in broken]
    _write(results.folder / RECORD, {**results.record, "methods": methods})
    raise SnellenError(next(reasons[broken[0]] for reasons in results.left_out.values() if broken[0] in reasons))


def _verify(
    networks: Mapping[str, TrainedNetwork], folder: Path, stored: ExamRecord | None, observer: Observer
) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """The tables of networks that follow their rule, and a sentence for each other network; all refused is an error."""
    verified: dict[str, pd.DataFrame] = {}
    refused: dict[str, str] = {}
    passes = {name: Passes(forward=PAIRS * len(network.spec.rule.defined)) for name, network in networks.items()}
    observer.begin("verifying", sum(passes.values(), Passes()), len(networks))
    try:
        for name, network in networks.items():
            observer.running(f"verifying {name}")
            path = folder / name / VERIFICATION
            facts = None if stored is None else stored["settings"].get(name)
            if facts is not None and path.exists() and _is_intact(path, facts):
                verified[name] = pd.read_csv(path, keep_default_na=False)  # of the same weights, which was checked
                observer.finished(Passes())
                continue
            verification = verify(network)
            if verification.problem is None:
                verified[name] = verification.table().assign(setting=name)
            else:
                refused[name] = verification.problem
            observer.finished(passes[name])
    finally:
        observer.end()
    if not verified:
        raise SnellenError(next(iter(refused.values())))
    for name, problem in refused.items():
        observer.note(f"{name} is left out, for it is no ground truth: {problem}")
    return verified, refused


def _explain(
    folder: Path,
    network: TrainedNetwork,
    scenes: ExamScenes,
    methods: Sequence[ListedMethod],
    pool: Executor | None,
    threads: int | None,
    observer: Observer,
) -> dict[str, str]:
    """Explains the scenes of one setting; returns by method why it does not explain them."""
    started = time.perf_counter()
    classifier = network.classifier()
    inputs = classifier.to_inputs(scenes.samples()[0].image[None])
    able, left_out = requirements.split_by_support(classifier, [method.method for method in methods], inputs)
    broken = ""
    try:
        evaluate(
            classifier,
            scenes.samples(),
            methods=able,
            metrics=None,
            out=folder,
            options=Options(shard=SHARD, threads=threads, engine="eager"),
            executor=pool,
            observer=Relay(observer, folder.name, shows=lambda text: False),  # one sentence per setting is enough
        )
    except UnfinishedError as problem:
        broken = f"; {problem}"
    observer.note(
        f"{folder.name}: {len(able)} methods on {len(scenes)} scenes in {duration(time.perf_counter() - started)}{broken}"
    )
    # On another setting the same reason would name another classifier.
    return {name: reason.replace(f"'{classifier.name}'", "the classifier") for name, reason in left_out.items()}


@contextmanager
def _pool(workers: int | None) -> Iterator[Executor | None]:
    """One pool for all settings, because processes take seconds to start; none where one process does all."""
    count = workers_for_short_passes() if workers is None else workers
    if count <= 1:
        yield None
        return
    with process_pool(count) as pool:
        yield pool


def _write(path: Path, record: ExamRecord) -> None:
    write_whole(path, dump_record(dict(record)))


def _is_intact(path: Path, facts: StoredSetting) -> bool:
    """Whether a stored verification is as it was written; older records do not say."""
    return facts.get("verification") in (None, digest(path.read_bytes()))
