"""Verification that a network follows its rule, on pairs of unseen scenes that differ in one object only.

Every object that a bucket shows is removed, or replaced by another of its kinds, and all else is left as it is. Where the
rule gives both scenes a label, it says whether the decision must change; where it leaves the other scene undefined, the pair
is left out. A network that does not follow its rule is no ground truth for a map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd

from snellen.errors import SnellenError
from snellen.textbox.networks.trained_network import TrainedNetwork
from snellen.textbox.networks.training import to_inputs
from snellen.textbox.scenes.objects import SceneObject, bucket_contents, bucket_number, describe
from snellen.textbox.scenes.rules import SceneRule

PROOF_SEED = 5
"""Scenes of the verification are not used for training, testing or explaining."""

PAIRS = 200
"""Pairs of each change: a share of nine in ten is then measured to about ±.04."""

LEAST = 0.90
"""In this share of the pairs of every change both decisions must follow the rule, the same as is required of buckets."""

MEAN = 0.95
"""The same over all changes: one weak change is acceptable, weakness everywhere is not."""

MOVED = 0.50
"""Where the label changes by the rule, the probability of the first label must fall by this on average. A network that is
right by a small margin hardly looks at the object; a confident one moves by nearly 1."""

STILL = 0.10
"""Where the label does not change by the rule, the probability must move by no more than this on average: as much as that of
a network that is certain, and wrong in the one pair of ten that `LEAST` allows."""

ObjectRole = Literal["focus", "neutral", "avoid"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One object of a bucket removed or replaced by another kind."""

    bucket: int
    """Number of the bucket before the change."""
    contents: str
    """What that bucket shows, in words."""
    item: str
    """Name of the object."""
    change: str
    """What is done to the object, in words."""
    into: int
    """Number of the bucket after the change."""
    role: ObjectRole
    """Whether the rule looks at the object before the change."""
    expected: Literal["changes", "stays", "open"]
    """What the label does by the rule; open where it is undefined after the change."""

    def record(self) -> dict[str, Any]:
        """The change as a row of a stored table, in which `contents` is called `shown` and `item` is called `thing`."""
        columns = {"contents": "shown", "item": "thing"}
        return {columns.get(key, key): value for key, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class ChangeResult:
    """How a network responds to a change."""

    change: Change
    share: float
    """Of the pairs in which both decisions follow the rule."""
    moved: float
    """Mean absolute change of the probability of the label before the change."""
    pairs: int
    """How many pairs of scenes."""

    @property
    def shortfall(self) -> float:
        """By how much it misses the requirement; 0 or less where it meets it, infinite where the output is no number."""
        if math.isnan(self.moved):
            return math.inf
        output = MOVED - self.moved if self.change.expected == "changes" else self.moved - STILL
        return max(LEAST - self.share, output)

    def __str__(self) -> str:
        change = self.change
        what = "the label changes" if change.expected == "changes" else "the label stays"
        return (
            f"bucket {change.bucket} ({change.contents}) with {change.item} {change.change}: {what} by the rule, "
            f"the decisions are so in {self.share:.0%} of {self.pairs} pairs, and the probability moves by {self.moved:.2f}"
        )


@dataclass(frozen=True, kw_only=True)
class Verification:
    """How a network responds to all changes."""

    name: str
    rule: SceneRule
    results: tuple[ChangeResult, ...]
    left_out: tuple[Change, ...] = ()
    """Changes about which the rule says nothing."""

    @property
    def problem(self) -> str | None:
        """Why the network is no ground truth, in one sentence; None when it is."""
        gap = unprovable(self.rule)
        if gap:
            return gap
        worst = max(self.results, key=lambda result: result.shortfall)
        if worst.shortfall > 0:
            return f"'{self.name}' does not follow its rule '{self.rule.text}': {worst}"
        if self.mean < MEAN:
            return f"'{self.name}' follows its rule '{self.rule.text}' in only {self.mean:.1%} of pairs, not {MEAN:.0%}"
        return None

    @property
    def holds(self) -> bool:
        """Whether the network may serve as ground truth."""
        return self.problem is None

    @property
    def mean(self) -> float:
        """The share of pairs that follow the rule, each change counted the same."""
        return sum(result.share for result in self.results) / len(self.results)

    @property
    def unproven(self) -> tuple[tuple[int, str], ...]:
        """Buckets and objects that the rule looks at though no change of the object alone changes the label there.

        The rule looks at them on its way to the label, but no pair can show that the network does.
        """
        changes = [*(result.change for result in self.results), *self.left_out]
        decisive = {(change.bucket, change.item) for change in changes if change.expected == "changes"}
        return tuple(sorted({(change.bucket, change.item) for change in changes if change.role == "focus"} - decisive))

    def table(self) -> pd.DataFrame:
        """One row per change, as stored."""
        rows = [
            result.change.record() | {"share": result.share, "moved": result.moved, "pairs": result.pairs}
            for result in self.results
        ]
        return pd.DataFrame(rows).assign(setting=self.name)[["setting", *rows[0]]]


def verify(network: TrainedNetwork, *, pairs: int = PAIRS, seed: int = PROOF_SEED) -> Verification:
    """Compares the decisions of a network with its rule, on unseen scenes in all buckets that have a label."""
    if pairs < 1:
        raise SnellenError(f"a verification needs at least one pair of scenes per change, not {pairs}")
    rule, layout = network.spec.rule, network.spec.layout
    labels = {bucket: label for bucket, label in enumerate(rule.labels, 1) if label is not None}
    outputs = {
        bucket: network.logits(to_inputs(layout.scenes([bucket] * pairs, range(pairs), seed=seed))).double().softmax(dim=1)
        for bucket in labels
    }
    correct = {bucket: outputs[bucket].argmax(dim=1) == label for bucket, label in labels.items()}
    results, left_out = [], []
    for change in changes_of(rule):
        if change.expected == "open":
            left_out.append(change)
            continue
        before, after = (outputs[bucket][:, labels[change.bucket]] for bucket in (change.bucket, change.into))
        share = (correct[change.bucket] & correct[change.into]).double().mean()
        results.append(
            ChangeResult(change=change, share=float(share), moved=float((before - after).abs().mean()), pairs=pairs)
        )
    return Verification(name=network.name, rule=rule, results=tuple(results), left_out=tuple(left_out))


def verify_or_refuse(network: TrainedNetwork) -> Verification:
    """The verification of a network that follows its rule; another network is refused."""
    verification = verify(network)
    if verification.problem:
        raise SnellenError(f"{verification.problem}; it cannot serve as ground truth")
    return verification


def changes_of(rule: SceneRule) -> Iterator[Change]:
    """Every change of one object of every bucket that has a label."""
    for bucket, contents in enumerate(bucket_contents(rule.objects), 1):
        truth = rule.truths[bucket - 1]
        if truth.label is None:
            continue
        for item in rule.objects:
            for kind in _other_kinds(item, contents[item.name]):
                into = bucket_number(rule.objects, {**contents, item.name: kind})
                label = rule.labels[into - 1]
                yield Change(
                    bucket=bucket,
                    contents=describe(rule.objects, contents),
                    item=item.name,
                    change="removed" if kind is None else f"{contents[item.name]} → {kind}",
                    into=into,
                    role="focus" if item.name in truth.focus else "avoid" if item.name in truth.avoid else "neutral",
                    expected="open" if label is None else "stays" if label == truth.label else "changes",
                )


def unprovable(rule: SceneRule) -> str | None:
    """Why no pair can show that a network follows this rule, in one sentence; None where pairs can."""
    decisive = {change.item for change in changes_of(rule) if change.expected == "changes"}
    if not decisive:
        return (
            f"no change of one object alone changes the label of the rule '{rule.text}', so that no network can be verified"
        )
    for name in (item.name for item in rule.objects):
        if name not in decisive and any(name in truth.focus for truth in rule.truths):
            return (
                f"the rule '{rule.text}' looks at {name}, but no change of {name} alone changes its label, "
                f"so that nothing can prove that a network looks at it"
            )
    return None


def _other_kinds(item: SceneObject, kind: str | None) -> tuple[str | None, ...]:
    """What an object that is shown may become: nothing, or another kind."""
    return () if kind is None else (None, *(other for other in item.kinds if other != kind))
