"""Trains networks and stores them: all that can be wrong is refused first, and nothing is half-written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from snellen.errors import InterruptionError, SnellenError
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import (
    RECORD,
    TrainedNetwork,
    read_network,
    refuse_other_content,
    shipped_folder,
    shipped_names,
    write_network,
)
from snellen.textbox.networks.training import TrainingPlan, plan_for, train
from snellen.textbox.networks.training_progress import TrainingProgress
from snellen.textbox.networks.verification import Verification, unprovable, verify
from snellen.textbox.scenes.backgrounds import BACKGROUNDS
from snellen.textbox.scenes.scene_files import MOST_SIDE
from snellen.textbox.scenes.settings import RULES

FOLDER = Path("runs/textbox/models")
"""Where trained networks are stored by default."""


def specs_from_options(
    setting: str | None,
    *,
    rule: str | None = None,
    every: bool = False,
    name: str | None = None,
    architecture: str | None = None,
    background: str | None = None,
    robust: bool = False,
    side: int | None = None,
) -> list[NetworkSpec]:
    """The networks to train: for one setting, for a rule or scene file, or for all seven settings.

    Args:
        setting: One of the seven.
        rule: A rule in one line, or a scene file.
        every: All seven settings.
        name: What the network is called; by default its setting or its scene file.
        architecture: The published one by default.
        background: A name, or a folder of photographs.
        robust: Train against attacks.
        side: Height and width of the scenes.
    """
    if (setting is not None) + (rule is not None) + every != 1:
        raise SnellenError("name a setting to train on, or give a --rule of your own, or --all: one of the three")
    if name is not None and every:
        raise SnellenError("--name is for one network, and --all trains seven; leave it out")
    if background is not None and background not in BACKGROUNDS and Path(background).is_dir():
        background = str(Path(background).resolve())  # the record is read from anywhere
    if rule is not None:
        specs = [NetworkSpec.of_rule(rule, name=name, architecture=architecture, background=background, robust=robust)]
    else:
        specs = [
            NetworkSpec.of_setting(setting_name, architecture=architecture, background=background or "black", robust=robust)
            for setting_name in (list(RULES) if every else [str(setting)])
        ]
        specs = [replace(spec, name=name or spec.name) for spec in specs]
    if side is not None:
        if not 1 <= side <= MOST_SIDE:
            raise SnellenError(f"the side of a scene is a whole number of pixels up to {MOST_SIDE}, not {side}")
        specs = [
            spec if side == spec.side else replace(spec, side=side, name=name or f"{spec.name}-{side}") for spec in specs
        ]
    for spec in specs:
        if Path(spec.name).name != spec.name or spec.name == "..":
            raise SnellenError(f"a network cannot be called '{spec.name}': its name is the name of a folder")
    return specs


def train_and_save(spec: NetworkSpec, folder: Path, plan: TrainingPlan, progress: TrainingProgress) -> TrainedNetwork:
    """Trains a network and stores it; a robust one starts from the plain network of the same spec."""
    check_trainable(spec, plan)
    refuse_other_content(folder, spec)
    try:
        start = _plain_network(spec, folder, plan, progress).module if spec.robust else None
        with progress.training(spec, plan):
            result = train(spec, plan, start=start, on_step=progress.on_step, on_images=progress.on_images)
        return write_network(folder, spec, result, plan)
    except KeyboardInterrupt:
        raise InterruptionError(f"the training of '{spec.name}' was interrupted, and nothing of it was written") from None


def check_trainable(spec: NetworkSpec, plan: TrainingPlan) -> None:
    """Refuses a network that could not be trained, or not be verified afterwards."""
    gap = unprovable(spec.rule)
    if gap:
        raise SnellenError(gap)
    try:
        torch.zeros(1, device=plan.device).item()  # fails on the device "meta", whose tensors have no values
    except (RuntimeError, AssertionError) as problem:
        reason = (str(problem).strip().splitlines() or [""])[0]
        raise SnellenError(f"the device '{plan.device}' cannot be used here ({reason})") from None
    build_network(spec.architecture, classes=spec.rule.classes, side=spec.side, seed=0)  # fails on scenes that are too small
    spec.layout.scenes([1] * 64, range(64), seed=0)  # fails on unreadable photographs and objects that do not fit


def _plain_network(spec: NetworkSpec, folder: Path, plan: TrainingPlan, progress: TrainingProgress) -> TrainedNetwork:
    """The plain network of the same spec: shipped, or trained before, or trained now beside the robust one."""
    usual = spec.name.removesuffix("-robust")
    plain = replace(spec, robust=False, name=usual if usual != spec.name else f"{usual}-plain")
    beside = folder.with_name(f"{folder.name}-plain")
    for candidate in (*(shipped_folder() / name for name in shipped_names()), FOLDER / plain.name, beside):
        if (candidate / RECORD).is_file():
            network = read_network(candidate)
            if replace(network.spec, name=plain.name) == plain:
                progress.note(f"starts from the plain network in {candidate}")
                return network
    progress.note(f"'{spec.name}' starts from the same network trained plainly, which comes first")
    return train_and_save(plain, beside, plan_for(plain, seed=plan.seed, device=plan.device), progress)


def train_all(
    specs: Sequence[NetworkSpec],
    out: Path | None,
    progress: TrainingProgress,
    *,
    images: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    threads: int | None = None,
) -> Iterator[tuple[TrainedNetwork, Verification]]:
    """Yields each network as soon as it is trained, with its verification; all are checked before the first is trained."""
    if threads is not None and threads < 1:
        raise SnellenError(f"threads must be at least 1, not {threads}")
    options = {"most": images, "seed": seed, "device": device}
    settings = {key: value for key, value in options.items() if value is not None}
    jobs = [
        (spec, folder, plan_for(spec, **settings)) for spec, folder in zip(specs, output_folders(specs, out), strict=True)
    ]
    for spec, folder, plan in jobs:
        check_trainable(spec, plan)
        refuse_other_content(folder, spec)
    if threads is not None:
        torch.set_num_threads(threads)
    for spec, folder, plan in jobs:
        network = train_and_save(spec, folder, plan, progress)
        yield network, verify(network)


def output_folders(specs: Sequence[NetworkSpec], out: Path | None) -> list[Path]:
    """The folder of each network: `out` itself for one network, folders within it for several."""
    if out is not None and len(specs) == 1:
        return [out]
    return [(out or FOLDER) / spec.name for spec in specs]
