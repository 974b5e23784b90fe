"""Teaches a network a rule from scenes that are made as they are needed; nothing is written to disk on the way.

Every batch shows some scenes in all of their defined buckets, so that what is learnt is what tells the buckets apart. The
rate stays high until unseen scenes of every bucket are told right, then it falls to nothing. A network that does not get
there starts again from other weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from snellen.errors import SnellenError
from snellen.textbox.networks import network
from snellen.textbox.reasoning import Reasoning
from snellen.textbox.scenes import Scenes

TRAINING_SEED, CHECK_SEED, TEST_SEED = 1, 2, 3
"""Scenes to learn from, to watch progress on, and to be tested on come from different seeds."""

ENOUGH = {True: 0.98, False: 0.95}
"""The accuracy that Kim et al. (2022) ask for, as a mean over buckets, of simple reasoning and of complex."""

LEAST = 0.90
"""No bucket may be told right less often than this."""


@dataclass(frozen=True)
class Course:
    """How to train. `most` images per attempt; the rate falls over `settle` of what was needed to learn."""

    batch: int = 256
    rate: float = 1e-3
    warm: int = 10_000
    most: int = 600_000
    watch: int = 10_240
    settle: float = 0.5
    attempts: int = 5
    half: bool = True
    seed: int = 0
    epsilon: float = 0.3
    step: float = 0.1
    iterations: int = 10

    def for_network(self, reasoning: Reasoning) -> dict[str, Any]:
        """As plain values, for the record."""
        return asdict(self) | {"bfloat16": self.uses_half(reasoning)}

    def uses_half(self, reasoning: Reasoning) -> bool:
        """Whether passes run in bfloat16: convolutions gain by it where the processor knows it, attention does not."""
        return self.half and reasoning.architecture != "vit-tiny" and torch.ops.mkldnn._is_mkldnn_bf16_supported()


@dataclass(frozen=True)
class Step:
    """How far training has come: what was seen, what the rate is, and how often scenes of the buckets are told right."""

    attempt: int
    images: int
    seconds: float
    loss: float
    rate: float
    mean: float
    worst: float


@dataclass(eq=False)
class Taught:
    """A trained network, the steps of its training and how often it is right in every defined bucket on unseen scenes."""

    module: nn.Module
    seed: int
    accuracy: dict[int, float]
    log: list[Step] = field(default_factory=list)
    seconds: float = 0.0


def train(
    reasoning: Reasoning,
    course: Course | None = None,
    *,
    start: Callable[[], nn.Module] | None = None,
    told: Callable[[Step], None] = lambda step: None,
) -> Taught:
    """A network that has learnt the rule, or a sentence that says how far it came; `start` gives weights to begin with."""
    course = course or Course()
    began, log = time.perf_counter(), []

    def heard(step: Step) -> None:
        log.append(step)
        told(step)

    best: dict[int, float] = {}
    for attempt in range(1, course.attempts + 1):
        seed = course.seed + attempt - 1
        made = (
            start()
            if start
            else network(reasoning.architecture, classes=reasoning.rule.classes, side=reasoning.side, seed=seed)
        )
        module = _attempt(reasoning, made, course, seed, attempt, began, heard)
        if module is None:
            continue
        best = accuracy(reasoning, module, per_bucket=400)
        if enough(reasoning, best):
            return Taught(module, seed, best, log, time.perf_counter() - began)
    reached = (
        f"{sum(best.values()) / len(best):.3f} on average" if best else f"{max(one.mean for one in log):.3f} while training"
    )
    raise SnellenError(
        f"'{reasoning.rule.text}' was not learnt by {reasoning.architecture} in {course.attempts} attempts "
        f"({reached}, where {ENOUGH[reasoning.simple]:.2f} is needed); give more images or another architecture"
    )


def enough(reasoning: Reasoning, found: dict[int, float]) -> bool:
    """Whether this accuracy per bucket is as good as the published networks'."""
    return sum(found.values()) / len(found) >= ENOUGH[reasoning.simple] and min(found.values()) >= LEAST


@torch.no_grad()
def accuracy(reasoning: Reasoning, module: nn.Module, *, per_bucket: int, seed: int = TEST_SEED) -> dict[int, float]:
    """How often it is right, by the number of the bucket, on scenes that it never saw."""
    labels = _labels(reasoning)
    training = module.training
    module.eval()
    found = {}
    for bucket in reasoning.rule.defined:
        made = reasoning.layout.scenes([bucket] * per_bucket, range(bucket * 10**6, bucket * 10**6 + per_bucket), seed=seed)
        said = torch.cat([module(one).argmax(dim=1) for one in inputs_of(made).split(400)])
        found[bucket] = float((said == labels[bucket]).double().mean())
    module.train(training)
    return found


def inputs_of(scenes: Scenes) -> Float[Tensor, "scenes 3 height width"]:
    """What a network sees: pixels in [0, 1]."""
    return scenes.pixels.to(torch.float32, memory_format=torch.channels_last) / 255


def attacked(
    module: nn.Module,
    inputs: Float[Tensor, "batch 3 height width"],
    labels: Int[Tensor, " batch"],
    *,
    epsilon: float,
    step: float,
    iterations: int,
) -> Float[Tensor, "batch 3 height width"]:
    """The worst inputs that projected gradient ascent finds within `epsilon` of these (Madry et al. 2018)."""
    low, high = (inputs - epsilon).clamp(min=0), (inputs + epsilon).clamp(max=1)
    found = inputs
    for _ in range(iterations):
        found = found.detach().requires_grad_()
        loss = functional.cross_entropy(module(found).float(), labels, reduction="sum")
        (uphill,) = torch.autograd.grad(loss, found)
        found = torch.minimum(torch.maximum(found.detach() + step * uphill.sign(), low), high)
    return found.detach()


def _attempt(
    reasoning: Reasoning,
    module: nn.Module,
    course: Course,
    seed: int,
    attempt: int,
    began: float,
    told: Callable[[Step], None],
) -> nn.Module | None:
    """The trained network, or None when it has not learnt the rule within `most` images."""
    module.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimiser = torch.optim.AdamW(module.parameters(), course.rate, weight_decay=1e-4)
    labels, weights = _labels(reasoning), _weights(reasoning)
    half = course.uses_half(reasoning)
    seen, next_look, learnt_at, last = 0, 0, 0, 0.0
    for made in _batches(reasoning, course.batch, seed):
        rate = course.rate * min(1.0, (seen + 1) / course.warm) * _settling(seen, learnt_at, course)
        for group in optimiser.param_groups:
            group["lr"] = rate
        buckets = made.buckets
        inputs, right = inputs_of(made), labels[buckets]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            if reasoning.robust:
                module.eval()
                inputs = attacked(
                    module, inputs, right, epsilon=course.epsilon, step=course.step, iterations=course.iterations
                )
                module.train()
            logits = module(inputs)
        loss = (functional.cross_entropy(logits.float(), right, reduction="none") * weights[buckets]).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        seen += len(buckets)
        last = loss.item()
        settled = bool(learnt_at) and _settling(seen, learnt_at, course) <= 0
        if seen >= next_look or settled:
            next_look = seen + course.watch
            found = accuracy(reasoning, module, per_bucket=60, seed=CHECK_SEED).values()
            mean, worst = sum(found) / len(found), min(found)
            told(Step(attempt, seen, time.perf_counter() - began, last, rate, mean, worst))
            if not learnt_at and mean >= 0.985 and worst >= 0.93:
                learnt_at = seen
            if settled:
                module.eval().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
                return module
            if not math.isfinite(last) or (seen >= course.most and not learnt_at):
                return None
    return None


def _settling(seen: int, learnt_at: int, course: Course) -> float:
    """What share of the rate is left: all until the rule is learnt, then less and less."""
    if not learnt_at:
        return 1.0
    over = max(course.settle * learnt_at, 2 * course.watch)
    return max(0.0, 0.5 * (1 + math.cos(math.pi * min(1.0, (seen - learnt_at) / over))) - 1e-9)


def _batches(reasoning: Reasoning, rows: int, seed: int) -> Iterator[Scenes]:
    """Scenes without end, each in all of the buckets that have a label."""
    defined = torch.tensor(reasoning.rule.defined)
    scenes = max(1, rows // len(defined))
    start = seed * 10**9
    while True:
        indices = torch.arange(start, start + scenes).repeat_interleave(len(defined))
        yield reasoning.layout.scenes(defined.repeat(scenes), indices, seed=TRAINING_SEED)
        start += scenes


def _labels(reasoning: Reasoning) -> Int[Tensor, " _"]:
    """The label under the number of each bucket, -1 where there is none."""
    return torch.tensor([-1, *(-1 if one is None else one for one in reasoning.rule.labels)])


def _weights(reasoning: Reasoning) -> Float[Tensor, " _"]:
    """What a scene of each bucket counts, so that all labels count the same."""
    labels = [one for one in reasoning.rule.labels if one is not None]
    share = len(labels) / reasoning.rule.classes
    return torch.tensor([0.0, *(0.0 if one is None else share / labels.count(one) for one in reasoning.rule.labels)])
