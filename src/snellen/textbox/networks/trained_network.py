"""Reasoners: trained networks with the rule that they follow, as folders. Seven of them come with Snellen."""

from __future__ import annotations

import csv
import json
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError, nearest
from snellen.images.geometry import Geometry
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.training import Step, TrainingPlan, TrainingResult
from snellen.textbox.scenes.settings import RULES

WEIGHTS, RECORD, LOG, ACCURACY = "weights.safetensors", "reasoner.json", "log.csv", "accuracy.csv"
ACCURACY_KEY, ATTACKED_KEY = "accuracy", "accuracy_under_attack"
VERSION = 1


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A trained network, the reasoning that it was taught, and the record of how."""

    spec: NetworkSpec
    module: nn.Module
    record: Mapping[str, Any]
    folder: Path

    @property
    def name(self) -> str:
        """Of the reasoning."""
        return self.spec.name

    @property
    def accuracy(self) -> dict[int, float]:
        """How often it was right in each bucket on unseen scenes, when it was trained."""
        return self._shares(ACCURACY_KEY)

    @property
    def attacked(self) -> dict[int, float]:
        """The same under attack; empty for a network that was trained plainly."""
        return self._shares(ATTACKED_KEY)

    def _shares(self, key: str) -> dict[int, float]:
        return {int(bucket): float(value) for bucket, value in self.record.get(key, {}).items()}

    def classifier(self) -> Classifier:
        """The network as a classifier; it sees pixels as they are, so that black is zero."""
        side = self.spec.side
        names = tuple(str(label) for label in range(self.spec.rule.classes))
        return Classifier(
            self.module,
            mean=0.0,
            std=1.0,
            classes=names,
            name=self.name,
            geometry=Geometry((side, side), crop=1.0),
            channels=3,
        )

    @torch.no_grad()
    def logits(self, inputs: Float[Tensor, "scenes 3 height width"]) -> Float[Tensor, "scenes classes"]:
        """What the network says of scenes."""
        return torch.cat([self.module(part) for part in inputs.split(400)])

    def predictions(self, inputs: Float[Tensor, "scenes 3 height width"]) -> Int[Tensor, " scenes"]:
        """The label that the network gives to each scene."""
        return self.logits(inputs).argmax(dim=1)


def shipped() -> tuple[str, ...]:
    """The names of the reasoners that come with Snellen, in the order of the published table."""
    return tuple(name for name in RULES if (shipped_folder() / name / RECORD).is_file())


def shipped_folder() -> Path:
    """Where they are."""
    return Path(str(resources.files("snellen.textbox.networks"))) / "models"


def find(spec: str | Path) -> TrainedNetwork:
    """A reasoner by the name of a shipped one, or from the folder that training wrote."""
    if str(spec) in shipped():
        return read(shipped_folder() / str(spec))
    if (Path(spec) / RECORD).is_file():
        return read(Path(spec))
    known = shipped()
    hint = nearest(str(spec), known) or ";"
    raise SnellenError(
        f"there is no setting '{spec}', nor a folder of that name with a trained reasoner{hint} "
        f"the settings are {', '.join(known)}"
    )


def read(folder: Path) -> TrainedNetwork:
    """The reasoner of a folder; weights that cannot be read or do not fit are refused in a sentence."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        spec = NetworkSpec.from_record(record["reasoning"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise SnellenError(f"'{folder / RECORD}' cannot be read ({problem}); train the reasoner again") from None
    module = build_network(spec.architecture, classes=spec.rule.classes, side=spec.side, seed=0)
    path = folder / WEIGHTS
    try:
        stored = load_file(path)
        module.load_state_dict(
            {name: value.float() if value.is_floating_point() else value for name, value in stored.items()}
        )
    except FileNotFoundError:
        raise SnellenError(f"'{path}' is missing; train the reasoner again") from None
    except Exception as problem:
        reason = (str(problem).strip().splitlines() or [""])[0]
        raise SnellenError(f"the weights in '{path}' cannot be used ({reason}); train the reasoner again") from None
    if not all(bool(value.isfinite().all()) for value in module.state_dict().values() if value.is_floating_point()):
        raise SnellenError(f"the weights in '{path}' hold numbers that are not finite; train the reasoner again")
    return TrainedNetwork(spec, module.eval(), record, folder)


def write(folder: Path, spec: NetworkSpec, taught: TrainingResult, plan: TrainingPlan) -> TrainedNetwork:
    """Keeps a trained network in half precision, with its record, its log and its accuracy, and reads it back.

    A folder is there whole or not at all; one that holds an older reasoner is replaced.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=folder.parent) as name:
            new, old = Path(name) / "new", Path(name) / "old"
            new.mkdir()
            _fill(new, spec, taught, plan)
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
    except OSError as problem:
        raise SnellenError(f"cannot write to '{folder}' ({problem.strerror}); choose another --out") from None
    return read(folder)


def refuse_other_content(folder: Path, spec: NetworkSpec) -> None:
    """Refuses a folder that holds anything but an older reasoner of the same reasoning."""
    if not folder.exists():
        return
    if folder.is_dir() and not any(folder.iterdir()):
        return
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        same = record["reasoning"] == spec.record()
    except (OSError, ValueError, KeyError, TypeError):
        raise SnellenError(f"'{folder}' exists and holds something else than a reasoner; choose another --out") from None
    if not same:
        raise SnellenError(f"'{folder}' holds a reasoner with another rule or other scenes; choose another --out or --name")


def _fill(folder: Path, spec: NetworkSpec, taught: TrainingResult, plan: TrainingPlan) -> None:
    weights = {
        name: (value.half() if value.is_floating_point() else value).contiguous()
        for name, value in taught.module.state_dict().items()
    }
    save_file(weights, folder / WEIGHTS)
    (folder / WEIGHTS).chmod(0o644)
    columns = {ACCURACY_KEY: taught.accuracy} | ({} if taught.attacked is None else {ATTACKED_KEY: taught.attacked})
    record = {
        "version": VERSION,
        "reasoning": spec.record(),
        **{key: {str(bucket): value for bucket, value in found.items()} for key, found in columns.items()},
        "training": plan.for_network(spec)
        | {
            "seed_used": taught.seed,
            "images": taught.log[-1].images if taught.log else 0,
            "seconds": round(taught.seconds, 1),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__.partition("+")[0],
            "machine": platform.machine(),
        },
    }
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    with (folder / LOG).open("w", newline="", encoding="utf-8") as file:
        kept = [key for key in Step.__dataclass_fields__ if any(getattr(one, key) is not None for one in taught.log)]
        rows = csv.DictWriter(file, kept, lineterminator="\n")
        rows.writeheader()
        for one in taught.log:
            values = {key: getattr(one, key) for key in kept}
            rows.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in values.items()})
    with (folder / ACCURACY).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("bucket", *columns))
        table.writerows((bucket, *(found[bucket] for found in columns.values())) for bucket in sorted(taught.accuracy))
