"""Teaches a network a rule from scenes that are made as they are needed; nothing is written to disk on the way.

Every batch shows some scenes in all of their defined buckets, so that what is learnt is what tells the buckets apart. The
rate stays high until unseen scenes of every bucket are told right, then it falls to nothing. A network that does not get
there starts again from other weights.

Robust training shows every scene as changed by an attack on the network as it is then (Madry et al. 2018). It starts from
a network that was taught plainly; the attack is weak at first, and what must be told right are attacked scenes.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from snellen.errors import SnellenError
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.scenes.scenes import SceneBatch

TRAINING_SEED, CHECK_SEED, TEST_SEED = 1, 2, 3
"""Scenes to learn from, to watch progress on, and to be tested on come from different seeds."""

ENOUGH = {True: 0.98, False: 0.95}
"""The accuracy that Kim et al. (2022) ask for, as a mean over buckets, of simple reasoning and of complex."""

LEAST = 0.90
"""No bucket may be told right less often than this."""

WITHSTANDS = 0.90
"""The share of a batch, every label counted the same, from which on the attack of robust training grows, so that it does
not outrun a network that learns slowly."""

LEARNT = (0.985, 0.93)
"""Mean and worst bucket among watched scenes from which on the rate falls; falling, it adds the last per cent."""


@dataclass(frozen=True)
class Attack:
    """Projected gradient ascent on the pixels, as Kim et al. (2022) train against (Madry et al. 2018)."""

    epsilon: float = 0.3
    step: float = 0.1
    iterations: int = 10

    def __call__(
        self, module: nn.Module, inputs: Float[Tensor, "batch 3 height width"], labels: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 3 height width"]:
        """The worst inputs found within `epsilon` of these."""
        low, high = (inputs - self.epsilon).clamp(min=0), (inputs + self.epsilon).clamp(max=1)
        own = functional.one_hot(labels, int(module(inputs[:1]).shape[1])).bool()
        found = inputs
        for _ in range(self.iterations):
            found = found.detach().requires_grad_()
            logits = module(found).float()
            # Cross-entropy is log(1 + exp(margin)): the same direction, but it vanishes in floating point where the
            # network is certain, and a certain network would then look robust.
            margin = logits.masked_fill(own, -torch.inf).logsumexp(dim=1) - logits[own]
            (uphill,) = torch.autograd.grad(margin.sum(), found)
            found = torch.minimum(torch.maximum(found.detach() + self.step * uphill.sign(), low), high)
        return found.detach()

    def weakened(self, share: float) -> Attack:
        """The same attack within a share of the distance, which takes a share of the iterations."""
        return (
            self
            if share >= 1
            else replace(self, epsilon=share * self.epsilon, iterations=max(1, math.ceil(share * self.iterations)))
        )


@dataclass(frozen=True)
class TrainingPlan:
    """How to train: `most` images per attempt; the rate falls over `settle` of what was needed to learn.

    The attack of robust training grows to its strength over `ramp` images, but only while the network withstands it.
    """

    batch: int = 256
    rate: float = 1e-3
    warm: int = 10_000
    most: int = 600_000
    watch: int = 10_240
    settle: float = 0.5
    attempts: int = 5
    half: bool = True
    seed: int = 0
    device: str = "cpu"
    ramp: int = 12_000
    attack: Attack = Attack()

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 10**9:
            raise SnellenError(f"the seed of training is a number from 0 to 999999999, not {self.seed}")
        for name, words in (("batch", "image per batch"), ("most", "image"), ("attempts", "attempt")):
            if getattr(self, name) < 1:
                raise SnellenError(f"training needs at least one {words}, not {getattr(self, name)}")

    def for_network(self, spec: NetworkSpec) -> dict[str, Any]:
        """As plain values, for the record."""
        values = asdict(self) | {"bfloat16": self.uses_half(spec)}
        return values if spec.robust else {key: value for key, value in values.items() if key not in ("attack", "ramp")}

    def uses_half(self, spec: NetworkSpec) -> bool:
        """Whether passes run in bfloat16: convolutions gain by it where the processor knows it, attention does not."""
        if not self.half or spec.architecture == "vit-tiny":
            return False
        if torch.device(self.device).type == "cuda":
            return bool(torch.cuda.is_bf16_supported())
        mkldnn = self.device == "cpu" and torch.backends.mkldnn.is_available()
        return bool(mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported())


PLANS: Mapping[str, TrainingPlan] = {"vit-tiny": TrainingPlan(batch=128)}
"""What an architecture needs other than the usual course: a transformer learns by steps more than by images."""

ROBUST: Mapping[str, Any] = {"batch": 128, "rate": 5e-4, "warm": 2_000, "most": 120_000, "watch": 2_560, "attempts": 2}
"""What robust training needs otherwise: an image costs eleven times as much, and the weights are good to begin with."""


def plan_for(spec: NetworkSpec, **given: Any) -> TrainingPlan:
    """The course with which this reasoning is learnt; what is given wins."""
    usual = PLANS.get(spec.architecture, TrainingPlan())
    return replace(usual, **({**ROBUST, **given} if spec.robust else given))


@dataclass(frozen=True)
class Step:
    """How far training has come: what was seen, what the rate is, and how often scenes of the buckets are told right.

    In robust training also how often under the full attack, and to what share of that the one in training has grown.
    """

    attempt: int
    images: int
    seconds: float
    loss: float
    rate: float
    mean: float
    worst: float
    attacked_mean: float | None = None
    attacked_worst: float | None = None
    strength: float | None = None


@dataclass(eq=False)
class TrainingResult:
    """A trained network, the steps of its training and how often it is right in every defined bucket on unseen scenes.

    `attacked` says the same under attack, where it was trained against one.
    """

    module: nn.Module
    seed: int
    accuracy: dict[int, float]
    log: list[Step] = field(default_factory=list)
    seconds: float = 0.0
    attacked: dict[int, float] | None = None


def train(
    spec: NetworkSpec,
    plan: TrainingPlan | None = None,
    *,
    start: nn.Module | None = None,
    told: Callable[[Step], None] = lambda step: None,
    passed: Callable[[int], None] = lambda images: None,
) -> TrainingResult:
    """A network that has learnt the rule, or a sentence that says how far it came; `start` holds weights to begin with.

    Robust training that is given none teaches the rule plainly first. Every look at the progress is `told`, and every batch
    of images that has `passed`.
    """
    plan = plan or plan_for(spec)
    if spec.robust and start is None:
        plain = replace(spec, robust=False)
        start = train(plain, plan_for(plain, seed=plan.seed, device=plan.device), told=told, passed=passed).module
    began, log = time.perf_counter(), list[Step]()

    def heard(step: Step) -> None:
        log.append(step)
        told(step)

    best: dict[int, float] = {}
    for attempt in range(1, plan.attempts + 1):
        seed = plan.seed + attempt - 1
        made = (
            build_network(spec.architecture, classes=spec.rule.classes, side=spec.side, seed=seed)
            if start is None
            else copy.deepcopy(start)
        )
        module = _attempt(spec, made, plan, seed, attempt, began, heard, passed)
        if module is None:
            continue
        found = accuracy(spec, module, per_bucket=400)
        if enough(spec, found):
            attacked = accuracy(spec, module, per_bucket=100, attack=plan.attack) if spec.robust else None
            module.to("cpu")
            return TrainingResult(module, seed, found, log, time.perf_counter() - began, attacked)
        best = max(best, found, key=lambda one: sum(one.values()))
    reached = (
        f"{sum(best.values()) / len(best):.3f} on average, {min(best.values()):.3f} in the worst bucket"
        if best
        else f"{max(one.mean for one in log):.3f} on average while training"
    )
    raise SnellenError(
        f"'{spec.rule.text}' was not learnt by {spec.architecture} in {plan.attempts} attempts of up to "
        f"{plan.most} images ({reached}, where {ENOUGH[spec.simple]:.2f} and {LEAST:.2f} are needed); "
        "give more images or another architecture"
    )


def enough(spec: NetworkSpec, found: dict[int, float]) -> bool:
    """Whether this accuracy per bucket is as good as the published networks'."""
    return sum(found.values()) / len(found) >= ENOUGH[spec.simple] and min(found.values()) >= LEAST


def accuracy(
    spec: NetworkSpec, module: nn.Module, *, per_bucket: int, seed: int = TEST_SEED, attack: Attack | None = None
) -> dict[int, float]:
    """How often it is right, by the number of the bucket, on scenes that it never saw, plain or attacked."""
    labels = _labels(spec)
    device = next(module.parameters()).device
    training = module.training
    module.eval()
    found = {}
    for bucket in spec.rule.defined:
        made = spec.layout.scenes([bucket] * per_bucket, range(bucket * 10**6, bucket * 10**6 + per_bucket), seed=seed)
        said = []
        for part in inputs_of(made).split(400):
            inputs, right = part.to(device), labels[bucket].expand(len(part)).to(device)
            if attack is not None:
                inputs = attack(module, inputs, right)
            with torch.no_grad():
                said.append(module(inputs).argmax(dim=1) == right)
        found[bucket] = float(torch.cat(said).double().mean())
    module.train(training)
    return found


def inputs_of(scenes: SceneBatch) -> Float[Tensor, "scenes 3 height width"]:
    """What a network sees: pixels in [0, 1]."""
    return scenes.pixels.to(torch.float32, memory_format=torch.channels_last) / 255


def _attempt(
    spec: NetworkSpec,
    module: nn.Module,
    plan: TrainingPlan,
    seed: int,
    attempt: int,
    began: float,
    told: Callable[[Step], None],
    passed: Callable[[int], None],
) -> nn.Module | None:
    """The trained network, or None when it has not learnt the rule within `most` images.

    A network that does not learn to withstand the attack within them settles nevertheless: how far it came is recorded.
    """
    device = torch.device(plan.device)
    module.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimiser = torch.optim.AdamW(module.parameters(), plan.rate, weight_decay=1e-4)
    labels, weights = _labels(spec).to(device), _weights(spec).to(device)
    half = plan.uses_half(spec)
    seen, next_look, learnt_at, strength = 0, 0, 0, 0.0
    for made in _batches(spec, plan.batch, seed):
        rate = plan.rate * min(1.0, (seen + 1) / plan.warm) * _settling(seen, learnt_at, plan)
        for group in optimiser.param_groups:
            group["lr"] = rate
        buckets = made.buckets.to(device)
        inputs, right = inputs_of(made).to(device), labels[buckets]
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
            if spec.robust:
                module.eval()
                inputs = plan.attack.weakened(strength)(module, inputs, right)
                module.train()
            logits = module(inputs)
        loss = (functional.cross_entropy(logits.float(), right, reduction="none") * weights[buckets]).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        if spec.robust and float(((logits.argmax(dim=1) == right) * weights[buckets]).mean()) >= WITHSTANDS:
            strength = min(1.0, strength + len(buckets) / plan.ramp)
        seen += len(buckets)
        passed(len(buckets))
        settled = bool(learnt_at) and _settling(seen, learnt_at, plan) <= 0
        if seen < next_look and not settled:
            continue
        next_look = seen + plan.watch if learnt_at else min(seen + plan.watch, max(plan.most, seen + 1))
        found = _look(spec, module, plan)
        grown = strength if spec.robust else None
        step = Step(attempt, seen, time.perf_counter() - began, loss.item(), rate, *found, grown)
        told(step)
        if settled:
            module.eval().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
            return module
        if not math.isfinite(step.loss):
            return None
        if not learnt_at and _learnt(step):
            learnt_at = seen
        if not learnt_at and seen >= plan.most:
            if not spec.robust:
                return None
            learnt_at = seen
    return None


def _look(spec: NetworkSpec, module: nn.Module, plan: TrainingPlan) -> tuple[float, float, float | None, float | None]:
    """How often watched scenes are told right: mean and worst bucket, plain and, in robust training, attacked."""
    plain = accuracy(spec, module, per_bucket=60, seed=CHECK_SEED).values()
    mean, worst = sum(plain) / len(plain), min(plain)
    if not spec.robust:
        return mean, worst, None, None
    attacked = accuracy(spec, module, per_bucket=20, seed=CHECK_SEED, attack=plan.attack).values()
    return mean, worst, sum(attacked) / len(attacked), min(attacked)


def _learnt(step: Step) -> bool:
    """Whether the rule is followed, under attack where there is one: a network that starts well is right from the start."""
    mean, worst = LEARNT
    if step.attacked_mean is not None and step.attacked_worst is not None:
        return step.attacked_mean >= mean and step.attacked_worst >= worst
    return step.mean >= mean and step.worst >= worst


def _settling(seen: int, learnt_at: int, plan: TrainingPlan) -> float:
    """What share of the rate is left: all until the rule is learnt, then less and less."""
    if not learnt_at:
        return 1.0
    over = max(plan.settle * learnt_at, 2 * plan.watch)
    return max(0.0, 0.5 * (1 + math.cos(math.pi * min(1.0, (seen - learnt_at) / over))) - 1e-9)


def _batches(spec: NetworkSpec, rows: int, seed: int) -> Iterator[SceneBatch]:
    """Scenes without end, each in all of the buckets that have a label."""
    defined = torch.tensor(spec.rule.defined)
    scenes = max(1, rows // len(defined))
    start = seed * 10**9
    while True:
        indices = torch.arange(start, start + scenes).repeat_interleave(len(defined))
        yield spec.layout.scenes(defined.repeat(scenes), indices, seed=TRAINING_SEED)
        start += scenes


def _labels(spec: NetworkSpec) -> Int[Tensor, " _"]:
    """The label under the number of each bucket, -1 where there is none."""
    return torch.tensor([-1, *(-1 if label is None else label for label in spec.rule.labels)])


def _weights(spec: NetworkSpec) -> Float[Tensor, " _"]:
    """What a scene of each bucket counts, so that all labels count the same."""
    labels = [label for label in spec.rule.labels if label is not None]
    share = len(labels) / spec.rule.classes
    return torch.tensor([0.0, *(0.0 if label is None else share / labels.count(label) for label in spec.rule.labels)])
