"""Teaches a reasoning and keeps the reasoner: all that can be wrong is refused first, and nothing is half-written."""

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
    read,
    refuse_other_content,
    shipped,
    shipped_folder,
    write,
)
from snellen.textbox.networks.training import TrainingPlan, plan_for, train
from snellen.textbox.networks.training_progress import TrainingProgress
from snellen.textbox.networks.verification import Verification, unprovable, verify
from snellen.textbox.scenes.backgrounds import BACKGROUNDS
from snellen.textbox.scenes.scene_files import MOST_SIDE, spec_from_rule
from snellen.textbox.scenes.settings import RULES

FOLDER = Path("runs/textbox/models")
"""Where reasoners are kept unless another folder is named."""


def specs_from_options(
    setting: str | None,
    *,
    rule: str | None = None,
    every: bool = False,
    called: str | None = None,
    architecture: str | None = None,
    background: str | None = None,
    robust: bool = False,
    side: int | None = None,
) -> list[NetworkSpec]:
    """The reasonings to be taught: one of a setting, one of a rule of one's own, or all seven settings."""
    if (setting is not None) + (rule is not None) + every != 1:
        raise SnellenError("name a setting to be taught, or give a --rule of your own, or --all: one of the three")
    if called is not None and every:
        raise SnellenError("--name is for one reasoner, and --all trains seven; leave it out")
    if background is not None and background not in BACKGROUNDS and Path(background).is_dir():
        background = str(Path(background).resolve())  # the record is read from anywhere
    if rule is not None:
        found = [spec_from_rule(rule, name=called, architecture=architecture, background=background, robust=robust)]
    else:
        settings = list(RULES) if every else [str(setting)]
        found = [
            NetworkSpec.of_setting(one, architecture=architecture, background=background or "black", robust=robust)
            for one in settings
        ]
        found = [replace(one, name=called or one.name) for one in found]
    if side is not None:
        if not 1 <= side <= MOST_SIDE:
            raise SnellenError(f"the side of a scene is a whole number of pixels up to {MOST_SIDE}, not {side}")
        found = [one if side == one.side else replace(one, side=side, name=called or f"{one.name}-{side}") for one in found]
    for one in found:
        if Path(one.name).name != one.name or one.name == "..":
            raise SnellenError(f"a reasoner cannot be called '{one.name}': its name is the name of a folder")
    return found


def train_and_save(spec: NetworkSpec, folder: Path, plan: TrainingPlan, board: TrainingProgress) -> TrainedNetwork:
    """Trains a network and keeps it; a robust one starts from the plain network of the same reasoning."""
    check(spec, plan)
    refuse_other_content(folder, spec)
    try:
        start = _plain(spec, folder, plan, board) if spec.robust else None
        with board.lesson(spec, plan):
            taught = train(spec, plan, start=start.module if start else None, told=board.told, passed=board.passed)
        return write(folder, spec, taught, plan)
    except KeyboardInterrupt:
        raise InterruptionError(f"the training of '{spec.name}' was interrupted, and nothing of it was written") from None


def check(spec: NetworkSpec, plan: TrainingPlan) -> None:
    """Refuses what could not be trained, or could not be proven afterwards."""
    gap = unprovable(spec.rule)
    if gap:
        raise SnellenError(gap)
    try:
        torch.zeros(1, device=plan.device).item()  # meta has no value to give
    except (RuntimeError, AssertionError) as problem:
        reason = (str(problem).strip().splitlines() or [""])[0]
        raise SnellenError(f"the device '{plan.device}' cannot be used here ({reason})") from None
    build_network(spec.architecture, classes=spec.rule.classes, side=spec.side, seed=0)  # too small for it
    spec.layout.scenes([1] * 64, range(64), seed=0)  # photographs that cannot be read, things that do not fit


def _plain(spec: NetworkSpec, folder: Path, plan: TrainingPlan, board: TrainingProgress) -> TrainedNetwork:
    """The plain network of the same reasoning: shipped, or trained before, or trained now beside the robust one."""
    usual = spec.name.removesuffix("-robust")
    plain = replace(spec, robust=False, name=usual if usual != spec.name else f"{usual}-plain")
    beside = folder.with_name(f"{folder.name}-plain")
    for known in (*(shipped_folder() / name for name in shipped()), FOLDER / plain.name, beside):
        if (known / RECORD).is_file():
            found = read(known)
            if replace(found.spec, name=plain.name) == plain:
                board.note(f"starts from the plain network in {known}")
                return found
    board.note(f"'{spec.name}' starts from the same network trained plainly, which comes first")
    return train_and_save(plain, beside, plan_for(plain, seed=plan.seed, device=plan.device), board)


def train_all(
    reasonings: Sequence[NetworkSpec],
    out: Path | None,
    board: TrainingProgress,
    *,
    images: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    threads: int | None = None,
) -> Iterator[tuple[TrainedNetwork, Verification]]:
    """Each reasoner as soon as it is there, with its proof; nothing is trained before all of it could be."""
    if threads is not None and threads < 1:
        raise SnellenError(f"threads must be at least 1, not {threads}")
    given = {"most": images, "seed": seed, "device": device}
    chosen = {key: value for key, value in given.items() if value is not None}
    lessons = [
        (reasoning, folder, plan_for(reasoning, **chosen))
        for reasoning, folder in zip(reasonings, folders(reasonings, out), strict=True)
    ]
    for spec, folder, plan in lessons:
        check(spec, plan)
        refuse_other_content(folder, spec)
    if threads is not None:
        torch.set_num_threads(threads)
    for spec, folder, plan in lessons:
        network = train_and_save(spec, folder, plan, board)
        yield network, verify(network)


def folders(reasonings: Sequence[NetworkSpec], out: Path | None) -> list[Path]:
    """Where each is kept: one in the folder that was named, several within it."""
    if out is not None and len(reasonings) == 1:
        return [out]
    return [(out or FOLDER) / reasoning.name for reasoning in reasonings]
