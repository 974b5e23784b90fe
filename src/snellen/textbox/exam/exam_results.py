"""A field: methods that explain reasoners on exams with a known truth, in a folder that holds one run per setting."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from snellen.errors import SnellenError, nearest
from snellen.files import integrity
from snellen.files.atomic import write_whole
from snellen.files.integrity import DamagedError, digest, read_named
from snellen.runs.run import Run
from snellen.runs.store import key_of
from snellen.textbox.exam import scoring
from snellen.textbox.exam.exam_scenes import ExamScenes, exam
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.scoring import SCORES, Reading
from snellen.textbox.networks.trained_network import TrainedNetwork, find, shipped_folder

RECORD = "field.json"
VERIFICATION = "verification.csv"
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class ExamResults:
    """What a run on TextBox found. The maps lie in one run folder per setting; scores are computed from them when asked."""

    folder: Path
    record: Mapping[str, Any]

    @staticmethod
    def read(folder: str | Path) -> ExamResults:
        """The field in a folder that `run_field` wrote."""
        record = read_record(Path(folder))
        if record is None:
            raise SnellenError(f"'{folder}' holds no field: it has no {RECORD}; `snellen textbox run --out` makes one")
        return ExamResults(Path(folder), record)

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
    def networks(self) -> dict[str, TrainedNetwork]:
        """The classifier of each setting, with the rule that it follows; other weights than the maps' are refused."""
        found = {}
        for name, facts in self.record["settings"].items():
            found[name] = find(facts["model"])
            check_same(self.folder, name, facts, found[name])
        return found

    @cached_property
    def exams(self) -> dict[str, ExamScenes]:
        """The scenes of each setting, with what a map of each should focus on and avoid."""
        return {name: exam(network, per_bucket=self.per_bucket) for name, network in self.networks.items()}

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Labels of all lines: the oracle, the methods, and the controls; each stands in at least one setting."""
        explained = {label for name in self.settings for label in self.explained(name)}
        return (ORACLE, *(label for label in self._labels if label in explained))

    @cached_property
    def controls(self) -> tuple[str, ...]:
        """Labels of the lines that know nothing of the classifier."""
        return tuple(
            method["label"] for method in self.record["methods"] if method["control"] and method["label"] in self.methods
        )

    @property
    def changed(self) -> tuple[str, ...]:
        """Labels of the methods with other settings than their defaults."""
        return tuple(
            method["label"] for method in self.record["methods"] if method["changed"] and method["label"] in self.methods
        )

    @property
    def left_out(self) -> dict[str, dict[str, str]]:
        """By setting and method why there is no such line: the classifier lacks what it needs, or it broke."""
        broken = {name: {one.method: one.problem for one in run.record.errors} for name, run in self.runs.items()}
        return {name: {**facts["left_out"], **broken[name]} for name, facts in self.record["settings"].items()}

    @property
    def reasons(self) -> dict[tuple[str, str], list[str]]:
        """The settings in which a method is left out, by method and reason: what `left_out` says, each sentence once."""
        found: dict[tuple[str, str], list[str]] = {}
        for setting, some in self.left_out.items():
            for method, reason in some.items():
                found.setdefault((method, reason), []).append(setting)
        return found

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
        return found if samples is None else found[[ids.index(sample) for sample in samples]]

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
        return pd.concat([self._proof(name) for name in self.settings], ignore_index=True)

    @cached_property
    def costs(self) -> pd.DataFrame:
        """One row per setting and method: images, passes and seconds, those that were shared included."""
        parts = [run.costs().assign(setting=name) for name, run in self.runs.items()]
        table = pd.concat(parts, ignore_index=True)
        return table[["setting", "method", "images", "forward", "backward", "seconds", "model_seconds"]]

    def _proof(self, setting: str) -> pd.DataFrame:
        path = self.folder / setting / VERIFICATION
        content = path.read_bytes()
        if self.record["settings"][setting].get("verification") not in (None, digest(content)):
            raise DamagedError(path, f"its content does not match {RECORD}", "`snellen textbox run` makes it again")
        return pd.read_csv(io.BytesIO(content), keep_default_na=False)

    def _run(self, setting: str) -> Run:
        if setting not in self.runs:
            hint = nearest(setting, self.settings) or ";"
            raise SnellenError(f"'{self.folder}' has no setting '{setting}'{hint} it has {', '.join(self.settings)}")
        return self.runs[setting]

    @property
    def _labels(self) -> list[str]:
        return [method["label"] for method in self.record["methods"]]

    def _lines(self, setting: str) -> tuple[str, ...]:
        return (ORACLE, *self.explained(setting))

    def _scored(self, setting: str, method: str, reading: Reading) -> pd.DataFrame:
        """The scores of a method's maps: as they were kept, or computed now and kept for the next time."""
        run, sat = self._run(setting), self.exams[setting]
        known = [scoring.VERSION, sat.spec.rule.text, run.record.samples.digest, method, run.map_files(method)]
        room = self.folder / setting / "truth" / key_of([reading, *known])
        for kept in room.glob("*.parquet"):
            with suppress(DamagedError):  # computed again below
                return pd.read_parquet(io.BytesIO(read_named(room, kept.name, "")))
        scores = scoring.score(sat, self.maps(setting, method), method, reading=reading)
        facts = {
            "setting": setting,
            "simple": sat.spec.simple,
            "bucket": sat.buckets.numpy(),
            "visible": sat.visible.numpy(),
            "sample": sat.ids,
            "method": method,
        }
        found = pd.DataFrame(facts | {name: scores[name] for name in SCORES})
        with suppress(OSError):  # a folder that can only be read is scored all the same
            room.mkdir(parents=True, exist_ok=True)
            table = found.to_parquet(index=False)
            write_whole(room / f"{digest(table)}.parquet", table)
        return found


def read_record(folder: Path) -> dict[str, Any] | None:
    """What a folder says about the field in it; None where there is none."""
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        record = integrity.read_record(path, "choose another --out")
        newer = record["schema"] > SCHEMA
    except (DamagedError, KeyError, TypeError) as problem:
        reason = problem.reason if isinstance(problem, DamagedError) else "no number of a schema"
        raise SnellenError(
            f"'{path}' cannot be read; it is not the record of a field ({reason}): choose another --out"
        ) from None
    if newer:
        raise SnellenError(f"'{folder}' was written by a newer Snellen (schema {record['schema']}, not {SCHEMA}); upgrade")
    return record


def identity(network: TrainedNetwork) -> dict[str, str]:
    """What finds a reasoner again, and tells whether it is still the same."""
    ours = network.folder.parent == shipped_folder()
    return {
        "model": network.folder.name if ours else str(network.folder.resolve()),
        "fingerprint": network.classifier().fingerprint,
        "rule": network.spec.rule.text,
    }


def check_same(folder: Path, name: str, facts: Mapping[str, Any], network: TrainedNetwork) -> None:
    """Refuses a reasoner that is not the one whose maps the folder holds."""
    now = identity(network)
    for what, key in (("other weights", "fingerprint"), ("another rule", "rule")):
        if facts[key] != now[key]:
            raise SnellenError(
                f"'{folder / name}' was made with {what} of '{name}' ({facts[key]}, now {now[key]}); choose another --out"
            )
