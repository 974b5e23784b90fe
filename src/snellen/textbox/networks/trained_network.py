"""Trained networks with the rule that they follow, stored as folders. Seven of them come with Snellen."""

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
from snellen.textbox.networks.training import TrainingPlan, TrainingResult, TrainingStep
from snellen.textbox.scenes.settings import RULES

WEIGHTS, RECORD, LOG, ACCURACY = "weights.safetensors", "reasoner.json", "log.csv", "accuracy.csv"
ACCURACY_KEY, ATTACKED_KEY = "accuracy", "accuracy_under_attack"
VERSION = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedNetwork:
    """A trained network, what it was trained to do, and the record of its training."""

    spec: NetworkSpec
    module: nn.Module
    record: Mapping[str, Any]
    """The content of `reasoner.json`."""
    folder: Path

    @property
    def name(self) -> str:
        """Name of the spec."""
        return self.spec.name

    @property
    def accuracy(self) -> dict[int, float]:
        """Accuracy in each bucket on unseen scenes, measured after training."""
        return self._shares(ACCURACY_KEY)

    @property
    def attacked(self) -> dict[int, float]:
        """The same under attack; empty for a network that was not trained against attacks."""
        return self._shares(ATTACKED_KEY)

    def _shares(self, key: str) -> dict[int, float]:
        return {int(bucket): float(value) for bucket, value in self.record.get(key, {}).items()}

    def classifier(self) -> Classifier:
        """The network as a classifier; its inputs are the pixels themselves, so that black is zero."""
        side = self.spec.side
        return Classifier(
            self.module,
            mean=0.0,
            std=1.0,
            classes=tuple(str(label) for label in range(self.spec.rule.classes)),
            name=self.name,
            geometry=Geometry((side, side), crop=1.0),
            channels=3,
        )

    @torch.no_grad()
    def logits(self, inputs: Float[Tensor, "scenes 3 height width"]) -> Float[Tensor, "scenes classes"]:
        """The logits of scenes."""
        return torch.cat([self.module(batch) for batch in inputs.split(400)])

    def predictions(self, inputs: Float[Tensor, "scenes 3 height width"]) -> Int[Tensor, " scenes"]:
        """The predicted label of each scene."""
        return self.logits(inputs).argmax(dim=1)


def shipped_names() -> tuple[str, ...]:
    """The names of the networks that come with Snellen, in the order of the published table."""
    return tuple(name for name in RULES if (shipped_folder() / name / RECORD).is_file())


def shipped_folder() -> Path:
    """The folder of the networks that come with Snellen."""
    return Path(str(resources.files("snellen.textbox.networks"))) / "models"


def find_network(name: str | Path) -> TrainedNetwork:
    """A network by the name of a shipped one, or from the folder that training wrote."""
    shipped = shipped_names()
    if str(name) in shipped:
        return read_network(shipped_folder() / str(name))
    if (Path(name) / RECORD).is_file():
        return read_network(Path(name))
    hint = nearest(str(name), shipped) or ";"
    raise SnellenError(
        f"there is no setting '{name}', nor a folder of that name with a trained network{hint} "
        f"the settings are {', '.join(shipped)}"
    )


def read_network(folder: Path) -> TrainedNetwork:
    """Reads the network of a folder; weights that cannot be read or do not fit are refused."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        spec = NetworkSpec.from_record(record["reasoning"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise SnellenError(f"'{folder / RECORD}' cannot be read ({problem}); train the network again") from None
    module = build_network(spec.architecture, classes=spec.rule.classes, side=spec.side, seed=0)
    path = folder / WEIGHTS
    try:
        module.load_state_dict(
            {name: value.float() if value.is_floating_point() else value for name, value in load_file(path).items()}
        )
    except FileNotFoundError:
        raise SnellenError(f"'{path}' is missing; train the network again") from None
    except Exception as problem:
        reason = (str(problem).strip().splitlines() or [""])[0]
        raise SnellenError(f"the weights in '{path}' cannot be used ({reason}); train the network again") from None
    if not all(bool(value.isfinite().all()) for value in module.state_dict().values() if value.is_floating_point()):
        raise SnellenError(f"the weights in '{path}' hold numbers that are not finite; train the network again")
    return TrainedNetwork(spec=spec, module=module.eval(), record=record, folder=folder)


def write_network(folder: Path, spec: NetworkSpec, result: TrainingResult, plan: TrainingPlan) -> TrainedNetwork:
    """Stores a trained network in half precision, with its record, its log and its accuracy, and reads it back.

    The folder is written whole or not at all; an older network in it is replaced.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=folder.parent) as name:
            new, old = Path(name) / "new", Path(name) / "old"
            new.mkdir()
            _write_files(new, spec, result, plan)
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
    except OSError as problem:
        raise SnellenError(f"cannot write to '{folder}' ({problem.strerror}); choose another --out") from None
    return read_network(folder)


def refuse_other_content(folder: Path, spec: NetworkSpec) -> None:
    """Refuses a folder that holds anything but an older network of the same spec."""
    if not folder.exists():
        return
    if folder.is_dir() and not any(folder.iterdir()):
        return
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        same = record["reasoning"] == spec.record()
    except (OSError, ValueError, KeyError, TypeError):
        raise SnellenError(f"'{folder}' exists and holds no trained network; choose another --out") from None
    if not same:
        raise SnellenError(f"'{folder}' holds a network with another rule or other scenes; choose another --out or --name")


def _write_files(folder: Path, spec: NetworkSpec, result: TrainingResult, plan: TrainingPlan) -> None:
    weights = {
        name: (value.half() if value.is_floating_point() else value).contiguous()
        for name, value in result.module.state_dict().items()
    }
    save_file(weights, folder / WEIGHTS)
    (folder / WEIGHTS).chmod(0o644)
    shares = {ACCURACY_KEY: result.accuracy} | ({} if result.attacked is None else {ATTACKED_KEY: result.attacked})
    record = {
        "version": VERSION,
        "reasoning": spec.record(),
        **{key: {str(bucket): value for bucket, value in by_bucket.items()} for key, by_bucket in shares.items()},
        "training": plan.record(spec)
        | {
            "seed_used": result.seed,
            "images": result.log[-1].images if result.log else 0,
            "seconds": round(result.seconds, 1),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__.partition("+")[0],
            "machine": platform.machine(),
        },
    }
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    with (folder / LOG).open("w", newline="", encoding="utf-8") as file:
        columns = [
            name for name in TrainingStep.__dataclass_fields__ if any(getattr(step, name) is not None for step in result.log)
        ]
        log = csv.DictWriter(file, columns, lineterminator="\n")
        log.writeheader()
        for step in result.log:
            values = {name: getattr(step, name) for name in columns}
            log.writerow({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in values.items()})
    with (folder / ACCURACY).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("bucket", *shares))
        table.writerows(
            (bucket, *(by_bucket[bucket] for by_bucket in shares.values())) for bucket in sorted(result.accuracy)
        )
