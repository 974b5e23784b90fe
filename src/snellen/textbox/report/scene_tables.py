"""What a rule says of every bucket, with scenes to look at: as a table for the terminal, and drawn by `sheets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import torch
from jaxtyping import Bool
from rich.markup import escape
from rich.table import Table

from snellen.errors import SnellenError
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import TrainedNetwork, find, read, shipped, shipped_folder
from snellen.textbox.networks.training import inputs_of
from snellen.textbox.scenes.objects import buckets, described
from snellen.textbox.scenes.rules import SceneRule, Truth
from snellen.textbox.scenes.scene_files import spec_from_rule
from snellen.textbox.scenes.scenes import SceneBatch
from snellen.textbox.scenes.settings import RULES

SHOW_SEED = 22
"""Scenes to look at are none that a network learnt from or is examined on; with this seed, no thing stands in a corner."""

MOST_IMAGES = 12


@dataclass(frozen=True, eq=False)
class Bucket:
    """One bucket: its number, what it shows, what the rule says of it, scenes of it, and where a model tells them right.

    `right` is None without a model, and where the rule gives no label.
    """

    number: int
    shown: str
    truth: Truth
    scenes: SceneBatch
    right: Bool[torch.Tensor, " scenes"] | None = None


@dataclass(frozen=True, eq=False)
class Showing:
    """All buckets of a reasoning, each with the same scenes: from one bucket to the next, only what is shown changes."""

    spec: NetworkSpec
    buckets: tuple[Bucket, ...]
    model: str | None = None

    @property
    def right(self) -> tuple[int, int] | None:
        """How many scenes the model tells right, and of how many; None without a model."""
        found = [bucket.right for bucket in self.buckets if bucket.right is not None]
        return (sum(int(one.sum()) for one in found), sum(len(one) for one in found)) if found else None


def show(spec: NetworkSpec, model: TrainedNetwork | None = None, *, images: int = 4) -> Showing:
    """The first so many scenes in every bucket, and what the model says of them."""
    if not 1 <= images <= MOST_IMAGES:
        raise SnellenError(f"--images is the number of scenes to draw per bucket, from 1 to {MOST_IMAGES}, not {images}")
    rule = spec.rule
    found = []
    for number, (shown, truth) in enumerate(zip(buckets(rule.objects), rule.truths, strict=True), 1):
        made = spec.layout.scenes([number] * images, range(images), seed=SHOW_SEED)
        right = None
        if model is not None and truth.label is not None:
            right = model.predictions(inputs_of(made)) == truth.label
        found.append(Bucket(number, described(rule.objects, shown), truth, made, right))
    return Showing(spec, tuple(found), None if model is None else model.spec.architecture)


def subject(
    setting: str | None = None, rule: str | None = None, model: str | None = None, background: str | None = None
) -> tuple[NetworkSpec, TrainedNetwork | None]:
    """What to show, as a person asks for it: a setting, a rule or scene file, or the folder of a trained model.

    A setting brings the model that comes with Snellen, but only on the background on which that was trained.
    """
    if setting is not None and rule is not None:
        raise SnellenError("give --setting or --rule, not both: a setting is a rule that has a name")
    if setting is not None:
        asked = NetworkSpec.of_setting(setting, background=background or "black")
    elif rule is not None:
        asked = spec_from_rule(rule, background=background)
    elif model is None:
        raise SnellenError("there is nothing to show: give --setting, --rule or --model")
    if model is None:
        taught = setting in shipped() and asked.background == "black"
        return asked, read(shipped_folder() / str(setting)) if taught else None
    found = find(model)
    own = found.spec
    if setting is None and rule is None:
        asked = own
    elif (asked.rule.truths, asked.rule.objects) != (own.rule.truths, own.rule.objects):
        raise SnellenError(
            f"the model '{model}' was taught '{own.rule.text}', not '{asked.rule.text}'; leave one of them out"
        )
    return replace(own, background=background or own.background), found


def show_settings(*, background: str | None = None) -> tuple[Showing, ...]:
    """The same scenes under all seven settings, one per bucket."""
    return tuple(show(*subject(name, background=background), images=1) for name in RULES)


def table(showing: Showing) -> Table:
    """One line per bucket: what it shows, its label, and what to focus on and to avoid there."""
    asked = showing.right is not None
    made = _table("bucket", "shows", "label", "focus", "avoid", *(["model"] if asked else []))
    for bucket in showing.buckets:
        if bucket.truth.label is None:
            made.add_row(str(bucket.number), escape(bucket.shown), "undefined", style="dim")
            continue
        told = [] if bucket.right is None else [f"{int(bucket.right.sum())} of {len(bucket.right)} right"]
        truth = bucket.truth
        made.add_row(
            str(bucket.number), escape(bucket.shown), str(truth.label), listed(truth.focus), listed(truth.avoid), *told
        )
    return made


def settings_table(rules: Mapping[str, SceneRule]) -> Table:
    """A line per setting: which buckets have which label, what to focus on and what to avoid (Kim et al. 2022, Table 1)."""
    labels = range(max(rule.classes for rule in rules.values()))
    made = _table("setting", "rule", *(f"label {label}" for label in labels), "undefined", "focus", "avoid", between=1)
    made.columns[0].no_wrap = True
    for name, rule in rules.items():
        said = [
            *(_numbers_with(rule, label) for label in (*labels, None)),
            _by_things(rule, lambda truth: truth.focus),
            _by_things(rule, lambda truth: truth.avoid),
        ]
        made.add_row(name, escape(rule.text), *map(escape, said))
    return made


def listed(names: Iterable[str]) -> str:
    """Things in one line."""
    return ", ".join(sorted(names)) or "nothing"


def numbers(found: Iterable[int]) -> str:
    """Whole numbers, with what is consecutive run together.

    >>> numbers([1, 2, 3, 5, 7, 8])
    '1–3, 5, 7, 8'
    """
    parts: list[str] = []
    for _, run in groupby(enumerate(sorted(found)), lambda pair: pair[1] - pair[0]):
        row = [number for _, number in run]
        parts += [f"{row[0]}–{row[-1]}"] if len(row) > 2 else [str(one) for one in row]
    return ", ".join(parts)


def _numbers_with(rule: SceneRule, label: int | None) -> str:
    return numbers(number for number, found in enumerate(rule.labels, 1) if found == label) or "none"


def _by_things(rule: SceneRule, of: Callable[[Truth], frozenset[str]]) -> str:
    """The numbers of the buckets in which the same things are meant, one line for each such list of things."""
    groups: dict[frozenset[str], list[int]] = {}
    for number in rule.defined:
        groups.setdefault(of(rule.truths[number - 1]), []).append(number)
    return "\n".join(f"{numbers(found)}: {listed(names)}" for names, found in groups.items())


def _table(*headings: str, between: int = 0) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, between, 0), header_style="bold")
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made


def default_path(showing: Showing | None) -> Path:
    """Where a picture goes that nobody gave a place."""
    return Path("textbox.png" if showing is None else f"textbox-{showing.spec.name}.png")
