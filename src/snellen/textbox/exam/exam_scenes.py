"""The scenes of an exam: unseen scenes of every bucket with a label, with what a map of each should focus on and avoid."""

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
from snellen.textbox.networks.training import to_inputs
from snellen.textbox.scenes.scenes import SceneBatch

EXAM_SEED = 4
PER_BUCKET = 20
"""As many scenes per bucket as Kim et al. (2022) explain."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ExamScenes:
    """Scenes that a network classifies correctly; where it is wrong it breaks its rule, and the truth is unknown."""

    spec: NetworkSpec
    """Of the network."""
    ids: tuple[str, ...]
    """Names of the scenes, such as `bucket-01/003`."""
    scenes: SceneBatch
    labels: Int[Tensor, " scenes"]
    """By the network's rule."""
    focused: Bool[Tensor, "scenes objects"]
    """Whether the rule looks at each object, in the order of the layout's objects."""
    avoided: Bool[Tensor, "scenes objects"]
    """Whether the rule does not ask about each object."""
    passed_over: int = 0
    """How many scenes were left out because the network classifies them wrongly."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def buckets(self) -> Int[Tensor, " scenes"]:
        """The number of each scene's bucket."""
        return self.scenes.buckets

    @property
    def visible(self) -> Int[Tensor, " scenes"]:
        """How many objects each scene shows."""
        return self.scenes.ink.flatten(2).any(dim=2).sum(dim=1)

    @cached_property
    def focus(self) -> Bool[Tensor, "scenes height width"]:
        """The rectangles around all objects that a map should focus on; empty where there is none."""
        return (self.scenes.regions() & self.focused[:, :, None, None]).any(dim=1)

    @cached_property
    def avoid(self) -> Bool[Tensor, "scenes height width"]:
        """The rectangles around all objects that a map should avoid; empty where there is none."""
        return (self.scenes.regions() & self.avoided[:, :, None, None]).any(dim=1)

    def samples(self) -> Samples:
        """The scenes for `evaluate`, with their labels, and with what to focus on as the truth."""
        return from_arrays(self.scenes.pixels, self.labels, self.focus, self.ids)


def draw_exam_scenes(network: TrainedNetwork, *, per_bucket: int = PER_BUCKET, seed: int = EXAM_SEED) -> ExamScenes:
    """The first scenes of every bucket that the network classifies correctly."""
    if per_bucket < 1:
        raise SnellenError(f"an exam needs at least one scene per bucket, not {per_bucket}")
    spec = network.spec
    buckets: list[int] = []
    indices: list[int] = []
    passed_over = 0
    for bucket in spec.rule.defined:
        first = bucket * 10**6
        candidates = range(first, first + 2 * per_bucket + 8)
        scenes = spec.layout.scenes([bucket] * len(candidates), candidates, seed=seed)
        predictions = network.predictions(to_inputs(scenes)).tolist()
        label = spec.rule.labels[bucket - 1]
        pairs = zip(candidates, predictions, strict=True)
        chosen = [index for index, prediction in pairs if prediction == label][:per_bucket]
        if len(chosen) < per_bucket:
            raise SnellenError(
                f"'{spec.name}' is right on only {len(chosen)} of {len(candidates)} scenes of bucket {bucket}, "
                f"so that no exam of {per_bucket} can be made; train it again"
            )
        passed_over += chosen[-1] - first + 1 - len(chosen)
        buckets += [bucket] * per_bucket
        indices += chosen
    scenes = spec.layout.scenes(buckets, indices, seed=seed)
    focused, avoided = focused_and_avoided(spec, scenes)
    return ExamScenes(
        spec=spec,
        ids=tuple(f"bucket-{bucket:02d}/{index % 10**6:03d}" for bucket, index in zip(buckets, indices, strict=True)),
        scenes=scenes,
        labels=torch.tensor([spec.rule.labels[bucket - 1] for bucket in buckets]),
        focused=focused,
        avoided=avoided,
        passed_over=passed_over,
    )


def focused_and_avoided(
    spec: NetworkSpec, scenes: SceneBatch
) -> tuple[Bool[Tensor, "scenes objects"], Bool[Tensor, "scenes objects"]]:
    """Which objects of each scene a map should focus on, and which it should avoid."""
    names = [item.name for item in spec.rule.objects]
    truths = [spec.rule.truths[bucket - 1] for bucket in scenes.buckets.tolist()]
    focused = torch.tensor([[name in truth.focus for name in names] for truth in truths])
    return focused, torch.tensor([[name in truth.avoid for name in names] for truth in truths])
