"""Exams: unseen scenes of every bucket that has a label, with what a map of each should focus on and avoid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from snellen.errors import SnellenError
from snellen.images import Samples, from_arrays
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import TrainedNetwork
from snellen.textbox.networks.training import inputs_of
from snellen.textbox.scenes.scenes import SceneBatch

EXAM_SEED = 4
PER_BUCKET = 20
"""As many as Kim et al. (2022) explain."""


@dataclass(frozen=True, eq=False)
class ExamScenes:
    """Scenes that a reasoner tells right, bucket by bucket: where it is wrong it breaks its rule, and the truth is unknown.

    `focused` and `avoided` say of each thing, in the order of the layout's, whether the rule looks at it in this scene, and
    whether it does not even ask about it. `passed_over` counts the scenes that the reasoner got wrong on the way.
    """

    spec: NetworkSpec
    ids: tuple[str, ...]
    scenes: SceneBatch
    labels: Int[Tensor, " scenes"]
    focused: Bool[Tensor, "scenes things"]
    avoided: Bool[Tensor, "scenes things"]
    passed_over: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def buckets(self) -> Int[Tensor, " scenes"]:
        """The number of each scene's bucket."""
        return self.scenes.buckets

    @property
    def visible(self) -> Int[Tensor, " scenes"]:
        """How many things each scene shows."""
        return self.scenes.ink.flatten(2).any(dim=2).sum(dim=1)

    @cached_property
    def focus(self) -> Bool[Tensor, "scenes height width"]:
        """The rectangles around all that a map should focus on; empty where there is nothing."""
        return (self.scenes.regions() & self.focused[:, :, None, None]).any(dim=1)

    @cached_property
    def avoid(self) -> Bool[Tensor, "scenes height width"]:
        """The rectangles around all that a map should avoid; empty where there is nothing."""
        return (self.scenes.regions() & self.avoided[:, :, None, None]).any(dim=1)

    def samples(self) -> Samples:
        """The scenes for `evaluate`, with label, and with what to focus on as the truth."""
        return from_arrays(self.scenes.pixels, self.labels, self.focus, self.ids)


def exam(network: TrainedNetwork, *, per_bucket: int = PER_BUCKET, seed: int = EXAM_SEED) -> ExamScenes:
    """The first so many scenes of every bucket that the reasoner tells right."""
    if per_bucket < 1:
        raise SnellenError(f"an exam needs at least one scene per bucket, not {per_bucket}")
    spec = network.spec
    buckets: list[int] = []
    indices: list[int] = []
    passed_over = 0
    for bucket in spec.rule.defined:
        first = bucket * 10**6
        tried = range(first, first + 2 * per_bucket + 8)
        made = spec.layout.scenes([bucket] * len(tried), tried, seed=seed)
        said = network.predictions(inputs_of(made)).tolist()
        label = spec.rule.labels[bucket - 1]
        chosen = [index for index, one in zip(tried, said, strict=True) if one == label][:per_bucket]
        if len(chosen) < per_bucket:
            raise SnellenError(
                f"'{spec.name}' is right on only {len(chosen)} of {len(tried)} scenes of bucket {bucket}, "
                f"so that no exam of {per_bucket} can be made; train it again"
            )
        passed_over += chosen[-1] - first + 1 - len(chosen)
        buckets += [bucket] * per_bucket
        indices += chosen
    made = spec.layout.scenes(buckets, indices, seed=seed)
    ids = tuple(f"bucket-{bucket:02d}/{index % 10**6:03d}" for bucket, index in zip(buckets, indices, strict=True))
    labels = torch.tensor([spec.rule.labels[one - 1] for one in buckets])
    return ExamScenes(spec, ids, made, labels, *truth_of(spec, made), passed_over)


def truth_of(spec: NetworkSpec, scenes: SceneBatch) -> tuple[Bool[Tensor, "scenes things"], Bool[Tensor, "scenes things"]]:
    """Which things of each scene are to be focused on, and which to be avoided."""
    names = [one.name for one in spec.rule.objects]
    truths = [spec.rule.truths[bucket - 1] for bucket in scenes.buckets.tolist()]
    focused = torch.tensor([[name in truth.focus for name in names] for truth in truths])
    return focused, torch.tensor([[name in truth.avoid for name in names] for truth in truths])
