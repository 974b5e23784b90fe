"""Proof that a network follows its rule, on pairs of unseen scenes that differ in one thing only.

Every thing that a bucket shows is removed, or made into another of its kinds, and all else is left as it is. Where the
rule gives both scenes a label, it says whether the decision must change; where it leaves the other scene open it says
nothing, and the pair is left out. A network that does not follow its rule is no ground truth for a map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import pandas as pd

from snellen.errors import SnellenError
from snellen.textbox.networks.trained_network import TrainedNetwork
from snellen.textbox.networks.training import inputs_of
from snellen.textbox.scenes.objects import SceneObject, bucket_of, buckets, described
from snellen.textbox.scenes.rules import SceneRule

PROOF_SEED = 5
"""Scenes of the proof: none of them was learnt from, watched, tested on or explained."""

PAIRS = 200
"""Of each change: the share of a change that goes as it should nine times in ten is then known to about ±.04."""

LEAST = 0.90
"""In so many pairs of every change both decisions must be the rule's: no less than is asked of every bucket alone."""

MEAN = 0.95
"""The same over all changes: one weak place is bearable, weakness everywhere is not."""

MOVED = 0.50
"""Where the rule says that the label changes, the probability of the first label must fall by this on average: a network
that is right by a hair's breadth hardly looks at the thing. A confident one moves by nearly 1."""

STILL = 0.10
"""Where the rule says that it does not change, the probability must move by no more than this on average: as much as a
network that is certain, and wrong in the one pair of ten that `LEAST` allows."""

Role = Literal["focus", "neutral", "avoid"]


@dataclass(frozen=True)
class Change:
    """One thing of a bucket removed or made another kind: the buckets before and after, and what the rule says of it.

    `role` says whether the rule looks at the thing before the change, `expected` what becomes of the label.
    """

    bucket: int
    shown: str
    object_: str
    change: str
    into: int
    role: Role
    expected: Literal["changes", "stays", "open"]


@dataclass(frozen=True)
class Finding:
    """A change as measured: in what share of the pairs both decisions are the rule's, and how far the output moved.

    `moved` is the mean absolute change in the probability of the label before.
    """

    change: Change
    share: float
    moved: float
    pairs: int

    @property
    def shortfall(self) -> float:
        """By how much it misses what is asked; 0 or less where it does not, infinite where the output is no number."""
        if math.isnan(self.moved):
            return math.inf
        output = MOVED - self.moved if self.change.expected == "changes" else self.moved - STILL
        return max(LEAST - self.share, output)

    def __str__(self) -> str:
        one = self.change
        what = "the label changes" if one.expected == "changes" else "the label stays"
        return (
            f"bucket {one.bucket} ({one.shown}) with {one.object_} {one.change}: {what} by the rule, "
            f"the decisions are so in {self.share:.0%} of {self.pairs} pairs, and the probability moves by {self.moved:.2f}"
        )


@dataclass(frozen=True)
class Verification:
    """What the pairs show of one reasoner; `left_out` are the changes of which its rule says nothing."""

    name: str
    rule: SceneRule
    findings: tuple[Finding, ...]
    left_out: tuple[Change, ...] = ()

    @property
    def problem(self) -> str | None:
        """Why the network is no ground truth, in one sentence; None when it is."""
        gap = unprovable(self.rule)
        if gap:
            return gap
        worst = max(self.findings, key=lambda one: one.shortfall)
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
        """The share of pairs that go as the rule says, each change counted the same."""
        return sum(finding.share for finding in self.findings) / len(self.findings)

    @property
    def unproven(self) -> tuple[tuple[int, str], ...]:
        """Places (bucket, thing) which the rule looks at though no change of the thing alone changes the label there.

        What the rule looks at on its way is the truth all the same, but that the network does so here is not proven.
        """
        known = [*(finding.change for finding in self.findings), *self.left_out]
        moved = {(one.bucket, one.object_) for one in known if one.expected == "changes"}
        return tuple(sorted({(one.bucket, one.object_) for one in known if one.role == "focus"} - moved))

    def table(self) -> pd.DataFrame:
        """One row per change."""
        rows = [
            _columns(finding.change) | {"share": finding.share, "moved": finding.moved, "pairs": finding.pairs}
            for finding in self.findings
        ]
        return pd.DataFrame(rows).assign(setting=self.name)[["setting", *rows[0]]]


def verify(network: TrainedNetwork, *, pairs: int = PAIRS, seed: int = PROOF_SEED) -> Verification:
    """Shows the network unseen scenes in all buckets that have a label, and compares its decisions with the rule's."""
    if pairs < 1:
        raise SnellenError(f"a verification needs at least one pair of scenes per change, not {pairs}")
    rule, layout = network.spec.rule, network.spec.layout
    labels = {bucket: label for bucket, label in enumerate(rule.labels, 1) if label is not None}
    outputs = {
        bucket: network.logits(inputs_of(layout.scenes([bucket] * pairs, range(pairs), seed=seed))).double().softmax(dim=1)
        for bucket in labels
    }
    right = {bucket: outputs[bucket].argmax(dim=1) == label for bucket, label in labels.items()}
    found, left_out = [], []
    for change in changes(rule):
        if change.expected == "open":
            left_out.append(change)
            continue
        before, after = (outputs[bucket][:, labels[change.bucket]] for bucket in (change.bucket, change.into))
        share = (right[change.bucket] & right[change.into]).double().mean()
        found.append(Finding(change, float(share), float((before - after).abs().mean()), pairs))
    return Verification(network.name, rule, tuple(found), tuple(left_out))


def verify_or_refuse(network: TrainedNetwork) -> Verification:
    """The verification of a reasoner that follows its rule; one that does not is refused in a sentence."""
    found = verify(network)
    if found.problem:
        raise SnellenError(f"{found.problem}; it cannot serve as ground truth")
    return found


def changes(rule: SceneRule) -> Iterator[Change]:
    """Every change of one thing of every bucket that has a label."""
    for bucket, shown in enumerate(buckets(rule.objects), 1):
        truth = rule.truths[bucket - 1]
        if truth.label is None:
            continue
        for object_ in rule.objects:
            for kind in _others(object_, shown[object_.name]):
                into = bucket_of(rule.objects, {**shown, object_.name: kind})
                label = rule.labels[into - 1]
                yield Change(
                    bucket,
                    described(rule.objects, shown),
                    object_.name,
                    "removed" if kind is None else f"{shown[object_.name]} → {kind}",
                    into,
                    "focus" if object_.name in truth.focus else "avoid" if object_.name in truth.avoid else "neutral",
                    "open" if label is None else "stays" if label == truth.label else "changes",
                )


def unprovable(rule: SceneRule) -> str | None:
    """Why no pair can show that a network follows this rule, in one sentence; None where pairs can."""
    moving = {change.object_ for change in changes(rule) if change.expected == "changes"}
    if not moving:
        return f"no change of one thing alone changes the label of the rule '{rule.text}', so that no network can be proven"
    for name in (one.name for one in rule.objects):
        if name not in moving and any(name in truth.focus for truth in rule.truths):
            return (
                f"the rule '{rule.text}' looks at {name}, but no change of {name} alone changes its label, "
                f"so that nothing can prove that a network looks at it"
            )
    return None


def _others(object_: SceneObject, kind: str | None) -> tuple[str | None, ...]:
    """What a thing that is there may become: not there, or another kind."""
    return () if kind is None else (None, *(one for one in object_.kinds if one != kind))


def _columns(change: Change) -> dict[str, object]:
    """A change as stored: the column of the object is called `thing`, as in older folders."""
    return {"thing" if name == "object_" else name: value for name, value in asdict(change).items()}
