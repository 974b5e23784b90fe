"""A field: methods that explain reasoners on exams with a known truth, in a folder that holds one run per setting."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from snellen.errors import SnellenError, nearest
from snellen.runs import plan as planning
from snellen.runs.evaluate import Options, UnfinishedError, evaluate
from snellen.runs.executors import process_pool
from snellen.runs.progress import Observer, default_observer, duration
from snellen.runs.run import Run
from snellen.runs.settings import workers_for_short_passes
from snellen.runs.store import key_of
from snellen.textbox import scoring
from snellen.textbox.exams import PER_BUCKET, Exam, exam
from snellen.textbox.line_up import ALL, Line, line, line_up
from snellen.textbox.reasoners import Reasoner, find, shipped, shipped_folder
from snellen.textbox.scoring import SCORES, Reading
from snellen.textbox.verification import PAIRS, verify
from snellen.types import Passes

RECORD = "field.json"
VERIFICATION = "verification.csv"
SCHEMA = 1
ORACLE = "oracle"
"""The map that knows the truth: a line of every table, computed from the exam alone."""

SHARD = 60
"""Scenes per unit of work: few enough that two processes end at about the same time, enough to fill a pass."""


@dataclass(frozen=True, eq=False)
class Field:
    """What a run on TextBox found. The maps lie in one run folder per setting; scores are computed from them when asked."""

    folder: Path
    record: Mapping[str, Any]

    @staticmethod
    def read(folder: str | Path) -> Field:
        """The field in a folder that `run_field` wrote."""
        record = read_record(Path(folder))
        if record is None:
            raise SnellenError(f"'{folder}' holds no field: it has no {RECORD}; `snellen textbox run --out` makes one")
        return Field(Path(folder), record)

    @property
    def settings(self) -> tuple[str, ...]:
        """The names of the settings, in the order of the record."""
        return tuple(self.record["settings"])

    @property
    def per_bucket(self) -> int:
        """How many scenes of each bucket were explained."""
        return int(self.record["images"])

    @cached_property
    def runs(self) -> dict[str, Run]:
        """The run of each setting."""
        return {name: Run(self.folder / name) for name in self.settings}

    @cached_property
    def reasoners(self) -> dict[str, Reasoner]:
        """The classifier of each setting, with the rule that it follows; other weights than the maps' are refused."""
        found = {}
        for name, facts in self.record["settings"].items():
            found[name] = find(facts["model"])
            check_same(self.folder, name, facts, found[name])
        return found

    @cached_property
    def exams(self) -> dict[str, Exam]:
        """The scenes of each setting, with what a map of each should focus on and avoid."""
        return {name: exam(one, per_bucket=self.per_bucket) for name, one in self.reasoners.items()}

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Labels of all lines: the oracle, the methods, and the controls; each stands in at least one setting."""
        explained = {label for name in self.settings for label in self.explained(name)}
        return (ORACLE, *(label for label in self._labels if label in explained))

    @cached_property
    def controls(self) -> tuple[str, ...]:
        """Labels of the lines that know nothing of the classifier."""
        return tuple(one["label"] for one in self.record["methods"] if one["control"] and one["label"] in self.methods)

    @property
    def changed(self) -> tuple[str, ...]:
        """Labels of the methods with other settings than their defaults."""
        return tuple(one["label"] for one in self.record["methods"] if one["changed"] and one["label"] in self.methods)

    @property
    def left_out(self) -> dict[str, dict[str, str]]:
        """By setting and method why there is no such line: the classifier lacks what it needs, or it broke."""
        broken = {
            name: {one["method"]: one["problem"] for one in run.record.get("errors") or []}
            for name, run in self.runs.items()
        }
        return {name: {**facts["left_out"], **broken[name]} for name, facts in self.record["settings"].items()}

    @property
    def refused(self) -> dict[str, str]:
        """Models that were asked for but do not follow their rule, and are no ground truth: a sentence for each."""
        return dict(self.record["refused"])

    def explained(self, setting: str) -> tuple[str, ...]:
        """The methods with a map of every scene of the setting; of those that joined in an interrupted run, none."""
        return tuple(one for one in self._run(setting).explained if one in self._labels)

    def maps(self, setting: str, method: str, samples: Sequence[str] | None = None) -> np.ndarray:
        """The maps of a method, as (samples, height, width); of all scenes of the exam unless some are named."""
        run = self._run(setting)
        ids = self.exams[setting].ids
        if method != ORACLE:
            return run.maps(method, list(ids if samples is None else samples))
        found = scoring.oracle(self.exams[setting]).numpy()
        return found if samples is None else found[[ids.index(one) for one in samples]]

    def frame(self, reading: Reading = "paper") -> pd.DataFrame:
        """One row per setting, scene and method with all scores; NaN where there is nothing to focus on, or to avoid."""
        if reading not in self._frames:
            parts = [self._scored(name, label, reading) for name in self.settings for label in self._lines(name)]
            self._frames[reading] = pd.concat(parts, ignore_index=True)
        return self._frames[reading].copy()

    @cached_property
    def _frames(self) -> dict[str, pd.DataFrame]:
        return {}

    @cached_property
    def verification(self) -> pd.DataFrame:
        """The proof that each classifier follows its rule: one row per setting and change of a scene."""
        parts = [pd.read_csv(self.folder / name / VERIFICATION, keep_default_na=False) for name in self.settings]
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def costs(self) -> pd.DataFrame:
        """One row per setting and method: images, passes and seconds, those that were shared included."""
        parts = [run.costs().assign(setting=name) for name, run in self.runs.items()]
        table = pd.concat(parts, ignore_index=True)
        return table[["setting", "method", "images", "forward", "backward", "seconds", "model_seconds"]]

    def _run(self, setting: str) -> Run:
        if setting not in self.runs:
            hint = nearest(setting, self.settings) or ";"
            raise SnellenError(f"'{self.folder}' has no setting '{setting}'{hint} it has {', '.join(self.settings)}")
        return self.runs[setting]

    @property
    def _labels(self) -> list[str]:
        return [one["label"] for one in self.record["methods"]]

    def _lines(self, setting: str) -> tuple[str, ...]:
        return (ORACLE, *self.explained(setting))

    def _scored(self, setting: str, method: str, reading: Reading) -> pd.DataFrame:
        """The scores of a method's maps: as they were kept, or computed now and kept for the next time."""
        run, sat = self._run(setting), self.exams[setting]
        known = [scoring.VERSION, sat.reasoning.rule.text, run.record["samples"]["digest"], method, run.map_files(method)]
        kept = self.folder / setting / "truth" / f"{key_of([reading, *known])}.parquet"
        try:
            return pd.read_parquet(kept)
        except (OSError, ValueError):  # not there, or cut off: pyarrow's errors are of these kinds
            scores = scoring.score(sat, self.maps(setting, method), method, reading=reading)
        facts = {
            "setting": setting,
            "simple": sat.reasoning.simple,
            "bucket": sat.buckets.numpy(),
            "visible": sat.visible.numpy(),
            "sample": sat.ids,
            "method": method,
        }
        found = pd.DataFrame(facts | {name: scores[name] for name in SCORES})
        with suppress(OSError):  # a folder that can only be read is scored all the same
            kept.parent.mkdir(exist_ok=True)
            whole = kept.with_suffix(f".{os.getpid()}")
            found.to_parquet(whole, index=False)
            whole.replace(kept)
        return found


def run_field(
    models: Sequence[str | Path] = (),
    *,
    methods: Sequence[Any] | None = None,
    add: Sequence[Any] = (),
    out: str | Path = "runs/textbox",
    per_bucket: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
    observer: Observer | None = None,
) -> Field:
    """Verifies reasoners, explains their exams by methods, and keeps the maps; what the folder holds is not computed again.

    `models` are names of shipped reasoners or folders that training wrote: all shipped ones unless some are named. `methods`
    are all that can explain them unless some are named; the controls are always among them. With `add`, methods join those
    that the folder holds already, on its settings and its number of scenes.
    """
    folder, watching = Path(out), observer or default_observer()
    check_counts(images=per_bucket, threads=threads)
    if workers is not None and workers < 0:
        raise SnellenError(f"workers must be at least 0, not {workers}")
    known = read_record(folder)
    adding = known if methods is None and add else None
    lines = _lines(methods, add, adding, folder, watching)
    reasoners = _reasoners(models or ([] if adding is None else [one["model"] for one in adding["settings"].values()]))
    count = per_bucket or (PER_BUCKET if adding is None else adding["images"])
    if known is not None:
        _refuse_another(folder, known, reasoners, count)
    _refuse_useless(add, reasoners)
    proven, refused = _proven(reasoners, folder, known, watching)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "images": count,
        "methods": [one.record() for one in lines],
        # An interrupted addition must not make the folder forget the settings that it had not come to.
        "settings": {} if adding is None else {name: one for name, one in adding["settings"].items() if name in proven},
        "refused": refused,
    }
    exams = {name: exam(reasoners[name], per_bucket=count) for name in proven}
    with _pool(workers) as pool:
        for name, table in proven.items():
            left_out = _explain(folder / name, reasoners[name], exams[name], lines, pool, threads, watching)
            table.to_csv(folder / name / VERIFICATION, index=False)
            record["settings"][name] = {**identity(reasoners[name]), "left_out": left_out}
            _write(folder / RECORD, record)
    return _without_broken(Field(folder, record), add)


def check_counts(**given: int | None) -> None:
    """Refuses numbers of which at least one is needed."""
    for option, value in given.items():
        if value is not None and value < 1:
            raise SnellenError(f"{option} must be at least 1, not {value}")


def read_record(folder: Path) -> dict[str, Any] | None:
    """What a folder says about the field in it; None where there is none."""
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        newer = record["schema"] > SCHEMA
    except (OSError, ValueError, KeyError, TypeError):
        raise SnellenError(f"'{path}' cannot be read; it is not the record of a field: choose another --out") from None
    if newer:
        raise SnellenError(f"'{folder}' was written by a newer Snellen (schema {record['schema']}, not {SCHEMA}); upgrade")
    return record


def identity(reasoner: Reasoner) -> dict[str, str]:
    """What finds a reasoner again, and tells whether it is still the same."""
    ours = reasoner.folder.parent == shipped_folder()
    return {
        "model": reasoner.folder.name if ours else str(reasoner.folder.resolve()),
        "fingerprint": reasoner.classifier().fingerprint,
        "rule": reasoner.reasoning.rule.text,
    }


def check_same(folder: Path, name: str, facts: Mapping[str, Any], reasoner: Reasoner) -> None:
    """Refuses a reasoner that is not the one whose maps the folder holds."""
    now = identity(reasoner)
    for what, key in (("other weights", "fingerprint"), ("another rule", "rule")):
        if facts[key] != now[key]:
            raise SnellenError(
                f"'{folder / name}' was made with {what} of '{name}' ({facts[key]}, now {now[key]}); choose another --out"
            )


def _lines(
    methods: Sequence[Any] | None, add: Sequence[Any], known: Mapping[str, Any] | None, folder: Path, observer: Observer
) -> list[Line]:
    """The methods that were asked for; where some are only to be added, those of the folder stay."""
    if methods is not None or not add:
        return line_up([*(methods or [ALL]), *add])
    if known is None:
        observer.note(
            f"there is no field in '{folder}' yet, so that only the controls stand beside the new method; "
            "`snellen textbox run --methods all` makes one"
        )
        return line_up(add)
    new, kept = line_up(add), []
    for one in known["methods"]:
        try:
            kept.append(line(one["text"]))
        except SnellenError as problem:
            if one["label"] not in [other.label for other in new]:
                observer.note(f"{one['label']} of '{folder}' is left out: {problem}")
    return line_up([*(one.text for one in kept), *(one.text for one in new)])


def _reasoners(models: Sequence[str | Path]) -> dict[str, Reasoner]:
    """By the name of its setting; where several have the same, by the name of its folder."""
    found = [find(one) for one in models or shipped()]
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


def _refuse_another(folder: Path, known: Mapping[str, Any], reasoners: Mapping[str, Reasoner], count: int) -> None:
    shared = [name for name in reasoners if name in known["settings"]]
    if shared and known["images"] != count:
        raise SnellenError(
            f"'{folder}' holds a field of {known['images']} images per bucket, not {count}; choose another --out"
        )
    for name in shared:
        check_same(folder, name, known["settings"][name], reasoners[name])


def _refuse_useless(add: Sequence[Any], reasoners: Mapping[str, Reasoner]) -> None:
    """A method that somebody named alone, and that can explain none of the classifiers, is refused with its reason."""
    for one in (line(given) for given in add):
        reasons: list[str] = []
        for reasoner in reasoners.values():
            classifier, side = reasoner.classifier(), reasoner.reasoning.side
            reasons += planning.servable(classifier, [one.method], torch.zeros(1, 3, side, side))[1].values()
        if len(reasons) == len(reasoners):
            raise SnellenError(reasons[0])


def _without_broken(found: Field, add: Sequence[Any]) -> Field:
    """The field, unless a method that somebody named alone broke on all settings: that is said, and it is forgotten."""
    broken = [name for name in (line(given).label for given in add) if name not in found.methods]
    if not broken:
        return found
    methods = [one for one in found.record["methods"] if one["label"] not in broken]
    _write(found.folder / RECORD, {**found.record, "methods": methods})
    raise SnellenError(next(reasons[broken[0]] for reasons in found.left_out.values() if broken[0] in reasons))


def _proven(
    reasoners: Mapping[str, Reasoner], folder: Path, known: Mapping[str, Any] | None, observer: Observer
) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """The proofs of those that follow their rule, and of the others a sentence; all refused is an error."""
    proven: dict[str, pd.DataFrame] = {}
    refused: dict[str, str] = {}
    scenes = {name: Passes(forward=PAIRS * len(one.reasoning.rule.defined)) for name, one in reasoners.items()}
    observer.begin("verifying", sum(scenes.values(), Passes()), len(reasoners))
    try:
        for name, reasoner in reasoners.items():
            observer.running(f"verifying {name}")
            kept = folder / name / VERIFICATION
            if known is not None and name in known["settings"] and kept.exists():
                proven[name] = pd.read_csv(kept, keep_default_na=False)  # of the very same weights, which was checked
                observer.finished(Passes())
                continue
            found = verify(reasoner)
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
    reasoner: Reasoner,
    sat: Exam,
    lines: Sequence[Line],
    pool: Executor | None,
    threads: int | None,
    observer: Observer,
) -> dict[str, str]:
    """Explains one exam, in one line of words; by method why some do not."""
    started = time.perf_counter()
    classifier = reasoner.classifier()
    inputs = classifier.to_inputs(sat.samples()[0].image[None])
    able, left_out = planning.servable(classifier, [one.method for one in lines], inputs)
    watching = Titled(observer, folder.name)
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


class Titled:
    """Passes on what happens with the name of the setting before it, and keeps a run's own sentences to itself."""

    def __init__(self, inner: Observer, title: str) -> None:
        self._inner, self._title = inner, title

    def note(self, text: str) -> None:
        """Ignored: one line per setting is enough."""

    def begin(self, stage: str, passes: Passes, units: int) -> None:
        """A stage of this setting."""
        self._inner.begin(f"{self._title}: {stage}", passes, units)

    def running(self, what: str) -> None:
        """What is worked on in this setting."""
        self._inner.running(f"{self._title}: {what}")

    def passed(self, passes: Passes) -> None:
        """As it is."""
        self._inner.passed(passes)

    def finished(self, passes: Passes) -> None:
        """As it is."""
        self._inner.finished(passes)

    def end(self) -> None:
        """As it is."""
        self._inner.end()


@contextmanager
def _pool(workers: int | None) -> Iterator[Executor | None]:
    """One pool for all settings, because processes take seconds to start; none where one process is to do it all."""
    count = workers_for_short_passes() if workers is None else workers
    if count <= 1:
        yield None
        return
    pool = process_pool(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _write(path: Path, record: Mapping[str, Any]) -> None:
    """Replaces the file in one step, so that it is never half written."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
    os.replace(name, path)
