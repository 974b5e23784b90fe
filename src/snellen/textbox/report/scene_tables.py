"""What a rule says of every bucket, with scenes to look at, as tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from jaxtyping import Bool
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from snellen.errors import SnellenError
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import (
    TrainedNetwork,
    find_network,
    read_network,
    shipped_folder,
    shipped_names,
)
from snellen.textbox.networks.training import to_inputs
from snellen.textbox.scenes.objects import bucket_descriptions
from snellen.textbox.scenes.rules import SceneRule, Truth
from snellen.textbox.scenes.scenes import SceneBatch
from snellen.textbox.scenes.settings import RULES

SHOW_SEED = 22
"""Scenes to look at are not used for training or exams; with this seed, no object is in a corner."""

MOST_IMAGES = 12


@dataclass(frozen=True, eq=False, kw_only=True)
class BucketScenes:
    """Scenes of one bucket, and what the rule says of it."""

    number: int
    """From 1."""
    contents: str
    """What it shows, in words."""
    truth: Truth
    scenes: SceneBatch
    correct: Bool[Tensor, " scenes"] | None = None
    """Whether a network classifies each scene correctly; None without a network, and where the rule gives no label."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RuleScenes:
    """All buckets of a rule, each with the same scenes: only the objects shown differ from bucket to bucket."""

    spec: NetworkSpec
    buckets: tuple[BucketScenes, ...]
    architecture: str | None = None
    """Of the network; None without one."""

    @property
    def accuracy(self) -> tuple[int, int] | None:
        """How many scenes the network classifies correctly, and of how many; None without a network."""
        correct = [bucket.correct for bucket in self.buckets if bucket.correct is not None]
        return (sum(int(each.sum()) for each in correct), sum(map(len, correct))) if correct else None


def draw_rule_scenes(spec: NetworkSpec, network: TrainedNetwork | None = None, *, images: int = 4) -> RuleScenes:
    """The first `images` scenes in every bucket, and whether the network classifies them correctly."""
    if not 1 <= images <= MOST_IMAGES:
        raise SnellenError(f"--images is the number of scenes to draw per bucket, from 1 to {MOST_IMAGES}, not {images}")
    buckets = []
    for number, contents in bucket_descriptions(spec.rule.objects).items():
        truth = spec.rule.truths[number - 1]
        scenes = spec.layout.scenes([number] * images, range(images), seed=SHOW_SEED)
        correct = None
        if network is not None and truth.label is not None:
            correct = network.predictions(to_inputs(scenes)) == truth.label
        buckets.append(BucketScenes(number=number, contents=contents, truth=truth, scenes=scenes, correct=correct))
    architecture = None if network is None else network.spec.architecture
    return RuleScenes(spec=spec, buckets=tuple(buckets), architecture=architecture)


def find_spec_and_network(
    setting: str | None = None, rule: str | None = None, model: str | None = None, background: str | None = None
) -> tuple[NetworkSpec, TrainedNetwork | None]:
    """What to show: a setting, a rule or scene file, or the folder of a trained network.

    A setting brings the network that comes with Snellen, but only on the background on which it was trained.
    """
    if setting is not None and rule is not None:
        raise SnellenError("give --setting or --rule, not both: a setting is a rule that has a name")
    if setting is not None:
        spec = NetworkSpec.of_setting(setting, background=background or "black")
    elif rule is not None:
        spec = NetworkSpec.of_rule(rule, background=background)
    elif model is None:
        raise SnellenError("there is nothing to show: give --setting, --rule or --model")
    if model is None:
        is_shipped = setting in shipped_names() and spec.background == "black"
        return spec, read_network(shipped_folder() / str(setting)) if is_shipped else None
    network = find_network(model)
    own = network.spec
    if setting is None and rule is None:
        spec = own
    elif (spec.rule.truths, spec.rule.objects) != (own.rule.truths, own.rule.objects):
        raise SnellenError(
            f"the model '{model}' was trained on '{own.rule.text}', not '{spec.rule.text}'; leave one of them out"
        )
    return replace(own, background=background or own.background), network


def draw_all_settings(*, background: str | None = None) -> tuple[RuleScenes, ...]:
    """The same scenes under all seven settings, one per bucket."""
    return tuple(draw_rule_scenes(*find_spec_and_network(setting, background=background), images=1) for setting in RULES)


def bucket_table(rule_scenes: RuleScenes) -> Table:
    """One row per bucket: what it shows, its label, and what to focus on and to avoid there."""
    with_network = rule_scenes.accuracy is not None
    table = _table("bucket", "shows", "label", "focus", "avoid", *(["model"] if with_network else []))
    for bucket in rule_scenes.buckets:
        number, contents, truth = str(bucket.number), escape(bucket.contents), bucket.truth
        if truth.label is None:
            table.add_row(number, contents, "undefined", style="dim")
            continue
        correct = [] if bucket.correct is None else [f"{int(bucket.correct.sum())} of {len(bucket.correct)} right"]
        focus, avoid = join_names(truth.focus), join_names(truth.avoid)
        table.add_row(number, contents, str(truth.label), focus, avoid, *correct)
    return table


def settings_table(rules: Mapping[str, SceneRule]) -> Table:
    """A row per setting: which buckets have which label, what to focus on and what to avoid (Kim et al. 2022, Table 1)."""
    labels = range(max(rule.classes for rule in rules.values()))
    table = _table("setting", "rule", *(f"label {label}" for label in labels), "undefined", "focus", "avoid", between=1)
    table.columns[0].no_wrap = True
    for name, rule in rules.items():
        cells = [
            *(_buckets_with(rule, label) for label in (*labels, None)),
            _by_objects(rule, lambda truth: truth.focus),
            _by_objects(rule, lambda truth: truth.avoid),
        ]
        table.add_row(name, escape(rule.text), *map(escape, cells))
    return table


def join_names(names: Iterable[str]) -> str:
    """Names of objects in one line."""
    return ", ".join(sorted(names)) or "nothing"


def number_ranges(values: Iterable[int]) -> str:
    """Whole numbers, with consecutive ones as ranges.

    >>> number_ranges([1, 2, 3, 5, 7, 8])
    '1–3, 5, 7, 8'
    """
    parts: list[str] = []
    for _, run in groupby(enumerate(sorted(values)), lambda pair: pair[1] - pair[0]):
        row = [number for _, number in run]
        parts += [f"{row[0]}–{row[-1]}"] if len(row) > 2 else [str(number) for number in row]
    return ", ".join(parts)


def _buckets_with(rule: SceneRule, label: int | None) -> str:
    return number_ranges(number for number, other in enumerate(rule.labels, 1) if other == label) or "none"


def _by_objects(rule: SceneRule, select: Callable[[Truth], frozenset[str]]) -> str:
    """The buckets for each set of objects, one line per set."""
    groups: dict[frozenset[str], list[int]] = {}
    for number in rule.defined:
        groups.setdefault(select(rule.truths[number - 1]), []).append(number)
    return "\n".join(f"{number_ranges(buckets)}: {join_names(names)}" for names, buckets in groups.items())


def _table(*headings: str, between: int = 0) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, between, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def default_path(rule_scenes: RuleScenes | None) -> Path:
    """Where the picture is written by default."""
    return Path("textbox.png" if rule_scenes is None else f"textbox-{rule_scenes.spec.name}.png")
