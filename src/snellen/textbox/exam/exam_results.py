"""The results of an exam: maps of methods for networks whose rule is known, in a folder with one run per setting."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, cast

import numpy as np
import pandas as pd

from snellen.errors import SnellenError, nearest
from snellen.files import integrity
from snellen.files.atomic import write_whole
from snellen.files.folder import LocalFolder
from snellen.files.integrity import DamagedError, digest, read_named
from snellen.runs.run import Run
from snellen.runs.store import key_of
from snellen.textbox.exam import scoring
from snellen.textbox.exam.exam_scenes import ExamScenes, draw_exam_scenes
from snellen.textbox.exam.method_list import StoredMethod
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.scoring import SCORES, ScoreReading
from snellen.textbox.networks.trained_network import TrainedNetwork, find_network, shipped_folder

RECORD = "field.json"
VERIFICATION = "verification.csv"
SCHEMA = 1


class StoredNetwork(TypedDict):
    """Where a network is, and what shows that it is still the same."""

    model: str
    """The name of a shipped network, or a folder."""
    fingerprint: str
    rule: str


class StoredSetting(StoredNetwork):
    """A setting of the exam."""

    left_out: dict[str, str]
    """By label of a method, why it cannot explain the network."""
    verification: NotRequired[str]
    """The digest of its verification; records of older versions have none."""


class ExamRecord(TypedDict):
    """What `field.json` holds."""

    schema: int
    images: int
    """Scenes of each bucket."""
    methods: list[StoredMethod]
    settings: dict[str, StoredSetting]
    refused: dict[str, str]
    """By network that does not follow its rule, a sentence."""


@dataclass(frozen=True, eq=False)
class ExamResults:
    """The maps and scores of an exam. Maps are in one run folder per setting; scores are computed when they are needed."""

    folder: Path
    record: ExamRecord

    @staticmethod
    def read(folder: str | Path) -> ExamResults:
        """The results in a folder that `run_exam` wrote."""
        record = read_record(Path(folder))
        if record is None:
            raise SnellenError(f"'{folder}' holds no exam: it has no {RECORD}; `snellen textbox run --out` makes one")
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
        return {setting: Run(self.folder / setting) for setting in self.settings}

    @cached_property
    def networks(self) -> dict[str, TrainedNetwork]:
        """The network of each setting; one with other weights than those that were explained is refused."""
        networks = {}
        for setting, facts in self.record["settings"].items():
            networks[setting] = find_network(facts["model"])
            check_same(self.folder, setting, facts, networks[setting])
        return networks

    @cached_property
    def scenes(self) -> dict[str, ExamScenes]:
        """The scenes of each setting, with what a map of each should focus on and avoid."""
        return {setting: draw_exam_scenes(network, per_bucket=self.per_bucket) for setting, network in self.networks.items()}

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Labels of the oracle, the methods, and the controls that have maps in at least one setting."""
        explained = {label for setting in self.settings for label in self.explained(setting)}
        return (ORACLE, *(label for label in self._labels if label in explained))

    @cached_property
    def controls(self) -> tuple[str, ...]:
        """Labels of the controls."""
        return self._labels_where("control")

    @property
    def changed(self) -> tuple[str, ...]:
        """Labels of the methods with other settings than their defaults."""
        return self._labels_where("changed")

    def _labels_where(self, key: Literal["control", "changed"]) -> tuple[str, ...]:
        methods = self.record["methods"]
        return tuple(method["label"] for method in methods if method[key] and method["label"] in self.methods)

    @property
    def left_out(self) -> dict[str, dict[str, str]]:
        """By setting and method why it has no maps: the classifier lacks what it needs, or it raised an error."""
        return {
            setting: {
                **facts["left_out"],
                **{error.method: error.problem for error in self.runs[setting].record.errors},
            }
            for setting, facts in self.record["settings"].items()
        }

    @property
    def reasons(self) -> dict[tuple[str, str], list[str]]:
        """The content of `left_out` with each sentence once: the settings by method and reason."""
        settings: dict[tuple[str, str], list[str]] = {}
        for setting, reasons in self.left_out.items():
            for method, reason in reasons.items():
                settings.setdefault((method, reason), []).append(setting)
        return settings

    @property
    def refused(self) -> dict[str, str]:
        """Networks that do not follow their rule, and are no ground truth: a sentence for each."""
        return dict(self.record["refused"])

    def explained(self, setting: str) -> tuple[str, ...]:
        """The methods with a map of every scene of the setting."""
        return tuple(label for label in self._run(setting).explained if label in self._labels)

    def maps(self, setting: str, method: str, samples: Sequence[str] | None = None) -> np.ndarray:
        """The maps of a method, as (samples, height, width); of all scenes unless some are named."""
        run = self._run(setting)
        ids = self.scenes[setting].ids
        if method != ORACLE:
            return run.maps(method, list(ids if samples is None else samples))
        maps = scoring.oracle_maps(self.scenes[setting]).numpy()
        return maps if samples is None else maps[[ids.index(sample) for sample in samples]]

    def frame(self, reading: ScoreReading = "paper") -> pd.DataFrame:
        """One row per setting, scene and method with all scores; NaN where there is nothing to focus on, or to avoid."""
        if reading not in self._frames:
            parts = [
                self._scores(setting, label, reading)
                for setting in self.settings
                for label in (ORACLE, *self.explained(setting))
            ]
            self._frames[reading] = pd.concat(parts, ignore_index=True)
        return self._frames[reading].copy()

    @cached_property
    def _frames(self) -> dict[str, pd.DataFrame]:
        return {}

    @cached_property
    def verification(self) -> pd.DataFrame:
        """How each network responds to changes of scenes: one row per setting and change."""
        return pd.concat([self._read_verification(setting) for setting in self.settings], ignore_index=True)

    @cached_property
    def costs(self) -> pd.DataFrame:
        """One row per setting and method: images, passes and seconds, those that methods share included."""
        parts = [run.costs().assign(setting=setting) for setting, run in self.runs.items()]
        table = pd.concat(parts, ignore_index=True)
        return table[["setting", "method", "images", "forward", "backward", "seconds", "model_seconds"]]

    def _read_verification(self, setting: str) -> pd.DataFrame:
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

    def _scores(self, setting: str, method: str, reading: ScoreReading) -> pd.DataFrame:
        """The scores of a method's maps: from the cache, or computed now and cached."""
        run, scenes = self._run(setting), self.scenes[setting]
        facts = [scoring.VERSION, scenes.spec.rule.text, run.record.samples.digest, method, run.map_files(method)]
        cache = self.folder / setting / "truth" / key_of([reading, *facts])
        for path in cache.glob("*.parquet"):
            with suppress(DamagedError):  # computed again below
                return pd.read_parquet(io.BytesIO(read_named(LocalFolder(cache), path.name, "")))
        scores = scoring.score(scenes, self.maps(setting, method), method, reading=reading)
        columns = {
            "setting": setting,
            "simple": scenes.spec.simple,
            "bucket": scenes.buckets.numpy(),
            "visible": scenes.visible.numpy(),
            "sample": scenes.ids,
            "method": method,
        }
        frame = pd.DataFrame(columns | {name: scores[name] for name in SCORES})
        with suppress(OSError):  # a folder that can only be read is scored all the same
            cache.mkdir(parents=True, exist_ok=True)
            table = frame.to_parquet(index=False)
            write_whole(cache / f"{digest(table)}.parquet", table)
        return frame


def read_record(folder: Path) -> ExamRecord | None:
    """The record of the exam in a folder; None where there is none."""
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        record = integrity.read_record(path, "choose another --out")
        newer = record["schema"] > SCHEMA
    except (DamagedError, KeyError, TypeError) as problem:
        reason = problem.reason if isinstance(problem, DamagedError) else "it has no schema number"
        raise SnellenError(
            f"'{path}' cannot be read; it is not the record of an exam ({reason}): choose another --out"
        ) from None
    if newer:
        raise SnellenError(f"'{folder}' was written by a newer Snellen (schema {record['schema']}, not {SCHEMA}); upgrade")
    return cast("ExamRecord", record)


def identity(network: TrainedNetwork) -> StoredNetwork:
    """What the record stores about a network: where it is, and what shows that it is still the same."""
    is_shipped = network.folder.parent == shipped_folder()
    return {
        "model": network.folder.name if is_shipped else str(network.folder.resolve()),
        "fingerprint": network.classifier().fingerprint,
        "rule": network.spec.rule.text,
    }


def check_same(folder: Path, setting: str, facts: StoredNetwork, network: TrainedNetwork) -> None:
    """Refuses a network that is not the one whose maps the folder holds."""
    current = identity(network)
    pairs = {
        "other weights": (facts["fingerprint"], current["fingerprint"]),
        "another rule": (facts["rule"], current["rule"]),
    }
    for what, (before, now) in pairs.items():
        if before != now:
            raise SnellenError(
                f"'{folder / setting}' was made with {what} of '{setting}' ({before}, now {now}); choose another --out"
            )
