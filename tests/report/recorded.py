"""A run as the report reads it, made from arrays instead of a model, so that odd cases are cheap to state."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from snellen.errors import SnellenError
from snellen.plugins.traits import Attribute
from snellen.runs.people import StudyResult
from snellen.runs.record import MethodSpec, MetricSpec, RunRecord
from snellen.verdicts import Verdicts, judge_run

METHODS = {
    "gradient": (True, False), "input-x-gradient": (True, False), "integrated-gradients": (True, False),
    "smoothgrad(of=grad-cam, samples=8)": (False, False), "guided-backprop": (True, False), "grad-cam": (False, False),
    "rise": (False, False), "occlusion": (True, False),
    "random": (False, True), "edge": (False, True), "fake-cam": (False, True), "centre": (False, True),
}  # fmt: skip
METRICS = {
    "deletion": ("input-sensitivity", False), "insertion": ("input-sensitivity", True),
    "average-drop": ("input-sensitivity", False),
    "average-increase": ("input-sensitivity", True), "average-gain": ("input-sensitivity", True),
    "max-sensitivity": ("input-sensitivity", False), "avg-sensitivity": ("input-sensitivity", False),
    "complexity": ("minimality", False), "sparseness": ("minimality", True),
    "pointing-game": ("perceptual-correspondence", True), "energy-pointing-game": ("perceptual-correspondence", True),
}  # fmt: skip


def method(label: str, signed: bool = False, control: bool = False) -> MethodSpec:
    return MethodSpec(
        label=label, name=label.split("(", maxsplit=1)[0], params={"steps": 8}, control=control, signed=signed,
        cite="selvaraju2017", summary=f"What {label} shows.", version=1,
    )  # fmt: skip


def metric(label: str, attribute: Attribute = "input-sensitivity", higher: bool = True, **facts: Any) -> MetricSpec:
    spec = MetricSpec(
        label=label, name=label, params={"steps": 28}, attribute=attribute, higher_is_better=higher, bounds=(0, 1),
        undefined="the truth mask is empty", summary=f"What {label} means, in one sentence.", cite="petsiuk2018", version=1,
    )  # fmt: skip
    return spec.changed(**facts)


@dataclass
class Recorded:
    """The interface of a run over invented scores."""

    methods: list[MethodSpec] = field(default_factory=lambda: [method(name, *two) for name, two in METHODS.items()])
    metrics: list[MetricSpec] = field(default_factory=lambda: [metric(name, *two) for name, two in METRICS.items()])
    ids: list[str] = field(default_factory=lambda: [f"photo-{at}.jpg" for at in range(7)])
    photos: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    labels: bool = True
    finished: str | None = "2026-11-16T02:00:00+00:00"
    unrun: frozenset[str] = frozenset()
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    folder: Path = Path("runs/demo")
    seed: int = 0
    zoom: int = 1
    studies: tuple[StudyResult, ...] = ()
    positive: list[MethodSpec] = field(default_factory=list)
    model: dict[str, Any] | None = None

    @property
    def record(self) -> RunRecord:
        record: dict[str, Any] = {
            "schema": 1, "snellen": "0.1.0", "created": "2026-11-16T01:58:00+00:00", "finished": self.finished,
            "spec": {"methods": self.methods, "positive_controls": self.positive, "metrics": self.metrics,
                     "target": "predicted", "seed": 0, "shard": 4, "precision": "float32", "compiled": True},
            "classifier": {"name": "EfficientNet-Lite0", "fingerprint": "7f3a9c0011223344", "classes": 1000, "rows": 16,
                           "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "outputs": "logits", "device": "cpu",
                           "model": self.model},
            "samples": {"count": len(self.ids), "digest": "ab12cd34", "source": "demo photographs",
                        "rows": self.rows(), "pictures": {}},
            "machine": {"processor": "a processor", "cores": 2, "threads": 2, "memory_gib": 7.8, "python": "3.11",
                        "torch": "2.4", "system": "Linux"},
            "versions": {"numpy": "1.26", "torch": "2.4"}, "git": None,
            "planned": {"forward": 1, "backward": 1, "seconds": 1.0}, "request": None, "units": [],
            "totals": {"forward": 48213, "backward": 512, "shared_forward": 70, "shared_backward": 7, "model_seconds": 171.0,
                       "seconds": 180.0, "wall_seconds": 188.2},
            "notes": self.notes,
        }  # fmt: skip
        if not self.finished:
            del record["totals"]  # written when a run ends
        return RunRecord.model_validate(record)

    def rows(self) -> list[dict[str, Any]]:
        label = 282 if self.labels else None
        facts = {"label": label, "prediction": 281, "probability": 0.8125, "target": 281}
        return [{"sample": sample, **facts} for sample in self.ids]

    def _rng(self, *names: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *"/".join(names).encode()])

    def scores(self) -> pd.DataFrame:
        return self._scores(self.methods)

    def positive_scores(self) -> pd.DataFrame:
        return self._scores(self.positive)

    def _scores(self, methods: list[MethodSpec]) -> pd.DataFrame:
        rows = []
        for spec in [spec for spec in methods if spec.label not in self.unrun]:
            for by in self.metrics:
                key = (spec.label, by.label)
                if key in self.refused:
                    continue
                values = self.values.get(key)
                if values is None:
                    middle = self._rng(*key).uniform(0.2, 0.8) - (0.15 if spec.control else 0)
                    values = np.clip(middle + self._rng(*key, "noise").normal(0, 0.1, len(self.ids)), 0, 1)
                rows += [(each, *key, float(value)) for each, value in zip(self.ids, values, strict=True)]
        return pd.DataFrame(rows, columns=["sample", "method", "metric", "value"])

    def samples(self) -> pd.DataFrame:
        n = len(self.ids)
        number = pd.array([281] * n, dtype="Int64")
        label = pd.array([282 if self.labels else None] * n, dtype="Int64")
        return pd.DataFrame({
            "sample": self.ids, "label": label, "prediction": number, "probability": [0.8125] * n, "target": number,
            "label_name": ["tiger cat" if self.labels else None] * n, "prediction_name": ["tabby"] * n,
            "target_name": ["tabby"] * n,
        })  # fmt: skip

    def curves(self, metric: str) -> dict[str, np.ndarray]:
        if metric not in ("deletion", "insertion") or metric not in [spec.label for spec in self.metrics]:
            return {}
        x = np.linspace(0, 1, 29)
        falling = {}
        for spec in [spec for spec in (*self.methods, *self.positive) if spec.label not in self.unrun]:
            speed = self._rng(spec.label, "speed").uniform(2, 9, len(self.ids))[:, None] - (1.5 if spec.control else 0)
            falling[spec.label] = 0.8 * np.exp(-speed * x) if metric == "deletion" else 0.8 * (1 - np.exp(-speed * x))
        return falling

    def problems(self) -> dict[tuple[str, str], str]:
        return self.refused

    def maps(self, method: str, samples: list[str]) -> np.ndarray:
        if method in self.unrun:
            raise SnellenError(f"no map of '{method}'")
        return np.stack([self._map(method, sample) for sample in samples])

    def _map(self, label: str, sample: str) -> np.ndarray:
        y, x = np.mgrid[:64, :64] / 63
        rng = self._rng(label, sample)
        centre = rng.uniform(0.3, 0.7, 2)
        blob = np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / 0.03)
        spec = next(method_spec for method_spec in (*self.methods, *self.positive) if method_spec.label == label)
        if label == "random":
            blob = rng.random((64, 64))
        if spec.signed:
            blob = blob * rng.normal(0, 1, (64, 64))
        if label == "rise":
            blob = 0.3 + 0.05 * blob
        return np.kron(blob, np.ones((self.zoom, self.zoom))).astype(np.float32)

    def picture(self, sample: str) -> np.ndarray | None:
        if self.ids.index(sample) >= 12:
            return None
        if sample in self.photos:
            return self.photos[sample]
        y, x = np.mgrid[:64, :64]
        return np.stack([4 * x, 4 * y, 255 - x], axis=-1).astype(np.uint8)

    def costs(self) -> pd.DataFrame:
        rows = []
        for at, spec in enumerate(self.methods):
            forward, backward = (0, 0) if spec.control else (7 * (1 + 40 * at), 7 * (at < 5))
            rows.append((spec.label, 7, forward, backward, 0.013 * forward + 0.01, 0.012 * forward, 5000, 0, 31.0))
        names = ["method", "images", "forward", "backward", "seconds", "model_seconds", "metric_forward", "metric_backward",
                 "metric_seconds"]  # fmt: skip
        return pd.DataFrame(rows, columns=names)

    def verdicts(self) -> Verdicts:
        return judge_run(self)

    def people(self) -> tuple[StudyResult, ...]:
        return self.studies
