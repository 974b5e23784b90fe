"""Trains a network on a rule, with scenes that are drawn as they are needed; nothing is written to disk.

Every batch shows some scenes in all of their defined buckets, so that the network learns what distinguishes the buckets. The
learning rate stays high until unseen scenes of every bucket are classified well, then it falls to zero. A network that does
not get there starts again from other weights.

Robust training shows every scene as changed by an attack on the current network (Madry et al. 2018). It starts from a
network that was trained plainly; the attack is weak at first, and what must be classified well are attacked scenes.
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
"""Scenes for training, for watching its progress, and for testing come from different seeds."""

ENOUGH = {True: 0.98, False: 0.95}
"""The accuracy that Kim et al. (2022) ask for, as a mean over buckets, of simple rules and of complex ones."""

LEAST = 0.90
"""The accuracy that every bucket must reach."""

LEAST_ROBUST = 0.90
"""The attack of robust training grows only while the network classifies at least this share of a batch correctly, every
label counted the same."""

SETTLES_FROM = (0.985, 0.93)
"""The learning rate falls once the mean and the worst bucket of watched scenes reach these accuracies."""


@dataclass(frozen=True)
class Attack:
    """Projected gradient ascent on the pixels, as Kim et al. (2022) train against (Madry et al. 2018)."""

    epsilon: float = 0.3
    """The largest change of a pixel, which is in [0, 1]."""
    step: float = 0.1
    """The change of a pixel in one iteration."""
    iterations: int = 10

    def __call__(
        self, module: nn.Module, inputs: Float[Tensor, "batch 3 height width"], labels: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 3 height width"]:
        """The worst inputs found within `epsilon` of these."""
        low, high = (inputs - self.epsilon).clamp(min=0), (inputs + self.epsilon).clamp(max=1)
        own = functional.one_hot(labels, int(module(inputs[:1]).shape[1])).bool()
        attacked = inputs
        for _ in range(self.iterations):
            attacked = attacked.detach().requires_grad_()
            logits = module(attacked).float()
            # Cross-entropy is log(1 + exp(margin)): the same direction, but it vanishes in floating point where the
            # network is certain, and a certain network would then look robust.
            margin = logits.masked_fill(own, -torch.inf).logsumexp(dim=1) - logits[own]
            (uphill,) = torch.autograd.grad(margin.sum(), attacked)
            attacked = torch.minimum(torch.maximum(attacked.detach() + self.step * uphill.sign(), low), high)
        return attacked.detach()

    def weakened(self, share: float) -> Attack:
        """The same attack within a share of the distance, which takes a share of the iterations."""
        if share >= 1:
            return self
        return replace(self, epsilon=share * self.epsilon, iterations=max(1, math.ceil(share * self.iterations)))


@dataclass(frozen=True)
class TrainingPlan:
    """How a network is trained."""

    batch: int = 256
    """Images per step."""
    rate: float = 1e-3
    """Learning rate."""
    warm: int = 10_000
    """Images over which the rate rises at first."""
    most: int = 600_000
    """Images per attempt, at most."""
    watch: int = 10_240
    """Images between two measurements of the progress."""
    settle: float = 0.5
    """The rate falls over this multiple of the images that were needed to learn the rule."""
    attempts: int = 5
    """How often training starts anew before it is given up."""
    half: bool = True
    """Use bfloat16 where that is faster."""
    seed: int = 0
    device: str = "cpu"
    ramp: int = 12_000
    """Images over which the attack of robust training grows, not counting batches that the network fails."""
    attack: Attack = Attack()

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 10**9:
            raise SnellenError(f"the seed of training is a number from 0 to 999999999, not {self.seed}")
        for name, words in (("batch", "image per batch"), ("most", "image"), ("attempts", "attempt")):
            if getattr(self, name) < 1:
                raise SnellenError(f"training needs at least one {words}, not {getattr(self, name)}")

    def record(self, spec: NetworkSpec) -> dict[str, Any]:
        """The plan as stored with the network."""
        values = asdict(self) | {"bfloat16": self.uses_half(spec)}
        return values if spec.robust else {key: value for key, value in values.items() if key not in ("attack", "ramp")}

    def uses_half(self, spec: NetworkSpec) -> bool:
        """Whether passes run in bfloat16: convolutions gain by it where the processor supports it, attention does not."""
        if not self.half or spec.architecture == "vit-tiny":
            return False
        if torch.device(self.device).type == "cuda":
            return bool(torch.cuda.is_bf16_supported())
        mkldnn = self.device == "cpu" and torch.backends.mkldnn.is_available()
        return bool(mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported())


PLANS: Mapping[str, TrainingPlan] = {"vit-tiny": TrainingPlan(batch=128)}
"""Plans by architecture, where they differ from the usual one: a transformer needs more steps rather than more images."""

ROBUST: Mapping[str, Any] = {"batch": 128, "rate": 5e-4, "warm": 2_000, "most": 120_000, "watch": 2_560, "attempts": 2}
"""Settings of robust training: an image costs eleven times as much, and the initial weights are good."""


def plan_for(spec: NetworkSpec, **settings: Any) -> TrainingPlan:
    """The usual plan for a network, with these settings instead of its own."""
    usual = PLANS.get(spec.architecture, TrainingPlan())
    return replace(usual, **({**ROBUST, **settings} if spec.robust else settings))


@dataclass(frozen=True, kw_only=True)
class TrainingStep:
    """A measurement of the progress of training."""

    attempt: int
    """Counted from 1."""
    images: int
    """Seen so far in this attempt."""
    seconds: float
    """Since the beginning of the first attempt."""
    loss: float
    """Of the last batch."""
    rate: float
    """Learning rate."""
    mean: float
    """Accuracy, as a mean over buckets."""
    worst: float
    """Accuracy in the worst bucket."""
    attacked_mean: float | None = None
    """Accuracy under the full attack, in robust training."""
    attacked_worst: float | None = None
    """The same in the worst bucket."""
    strength: float | None = None
    """The share of the full attack that training uses now."""


@dataclass(eq=False, kw_only=True)
class TrainingResult:
    """A trained network, and how its training went."""

    module: nn.Module
    seed: int
    """Of the attempt that succeeded."""
    accuracy: dict[int, float]
    """By bucket, on unseen scenes."""
    log: list[TrainingStep] = field(default_factory=list)
    """All measurements, those of failed attempts too."""
    seconds: float = 0.0
    """Of all attempts."""
    attacked: dict[int, float] | None = None
    """Accuracy under attack by bucket, for a network that was trained against attacks."""


def train(
    spec: NetworkSpec,
    plan: TrainingPlan | None = None,
    *,
    start: nn.Module | None = None,
    on_step: Callable[[TrainingStep], None] = lambda step: None,
    on_images: Callable[[int], None] = lambda images: None,
) -> TrainingResult:
    """Trains a network until it follows its rule; raises an error that says how far it came.

    Args:
        spec: The network.
        plan: The usual one for this network by default.
        start: A network whose weights to begin with; robust training without one trains plainly first.
        on_step: Called with every measurement of the progress.
        on_images: Called with the number of images of every batch.
    """
    plan = plan or plan_for(spec)
    if spec.robust and start is None:
        plain = replace(spec, robust=False)
        start = train(
            plain, plan_for(plain, seed=plan.seed, device=plan.device), on_step=on_step, on_images=on_images
        ).module
    started, log = time.perf_counter(), list[TrainingStep]()

    def log_step(step: TrainingStep) -> None:
        log.append(step)
        on_step(step)

    best: dict[int, float] = {}
    for attempt in range(1, plan.attempts + 1):
        seed = plan.seed + attempt - 1
        module = (
            build_network(spec.architecture, classes=spec.rule.classes, side=spec.side, seed=seed)
            if start is None
            else copy.deepcopy(start)
        )
        if not _attempt(spec, module, plan, seed, attempt, started, log_step, on_images):
            continue
        shares = accuracy(spec, module, per_bucket=400)
        if is_accurate(spec, shares):
            attacked = accuracy(spec, module, per_bucket=100, attack=plan.attack) if spec.robust else None
            module.to("cpu")
            return TrainingResult(
                module=module,
                seed=seed,
                accuracy=shares,
                log=log,
                seconds=time.perf_counter() - started,
                attacked=attacked,
            )
        best = max(best, shares, key=lambda by_bucket: sum(by_bucket.values()))
    reached = (
        f"{sum(best.values()) / len(best):.3f} on average, {min(best.values()):.3f} in the worst bucket"
        if best
        else f"{max(step.mean for step in log):.3f} on average while training"
    )
    raise SnellenError(
        f"'{spec.rule.text}' was not learnt by {spec.architecture} in {plan.attempts} attempts of up to "
        f"{plan.most} images ({reached}, where {ENOUGH[spec.simple]:.2f} and {LEAST:.2f} are needed); "
        "give more images or another architecture"
    )


def is_accurate(spec: NetworkSpec, shares: dict[int, float]) -> bool:
    """Whether this accuracy per bucket is as good as the published networks'."""
    return sum(shares.values()) / len(shares) >= ENOUGH[spec.simple] and min(shares.values()) >= LEAST


def accuracy(
    spec: NetworkSpec, module: nn.Module, *, per_bucket: int, seed: int = TEST_SEED, attack: Attack | None = None
) -> dict[int, float]:
    """The accuracy by bucket on scenes that are not used for training, plain or attacked."""
    labels = _labels(spec)
    device = next(module.parameters()).device
    training = module.training
    module.eval()
    shares = {}
    for bucket in spec.rule.defined:
        scenes = spec.layout.scenes([bucket] * per_bucket, range(bucket * 10**6, bucket * 10**6 + per_bucket), seed=seed)
        correct = []
        for batch in to_inputs(scenes).split(400):
            inputs, targets = batch.to(device), labels[bucket].expand(len(batch)).to(device)
            if attack is not None:
                inputs = attack(module, inputs, targets)
            with torch.no_grad():
                correct.append(module(inputs).argmax(dim=1) == targets)
        shares[bucket] = float(torch.cat(correct).double().mean())
    module.train(training)
    return shares


def to_inputs(scenes: SceneBatch) -> Float[Tensor, "scenes 3 height width"]:
    """Scenes as inputs of a network: pixels in [0, 1]."""
    return scenes.pixels.to(torch.float32, memory_format=torch.channels_last) / 255


def _attempt(
    spec: NetworkSpec,
    module: nn.Module,
    plan: TrainingPlan,
    seed: int,
    attempt: int,
    started: float,
    on_step: Callable[[TrainingStep], None],
    on_images: Callable[[int], None],
) -> bool:
    """Trains a network; whether it learnt the rule within `most` images.

    A robust network settles in any case: how well it withstands the attack is recorded.
    """
    device = torch.device(plan.device)
    module.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimiser = torch.optim.AdamW(module.parameters(), plan.rate, weight_decay=1e-4)
    labels, weights = _labels(spec).to(device), _weights(spec).to(device)
    half = plan.uses_half(spec)
    images_seen, next_check, reached_at, strength = 0, 0, 0, 0.0
    for scenes in _batches(spec, plan.batch, seed):
        rate = plan.rate * min(1.0, (images_seen + 1) / plan.warm) * _settling(images_seen, reached_at, plan)
        for group in optimiser.param_groups:
            group["lr"] = rate
        buckets = scenes.buckets.to(device)
        inputs, targets = to_inputs(scenes).to(device), labels[buckets]
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
            if spec.robust:
                module.eval()
                inputs = plan.attack.weakened(strength)(module, inputs, targets)
                module.train()
            logits = module(inputs)
        loss = (functional.cross_entropy(logits.float(), targets, reduction="none") * weights[buckets]).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        if spec.robust and float(((logits.argmax(dim=1) == targets) * weights[buckets]).mean()) >= LEAST_ROBUST:
            strength = min(1.0, strength + len(buckets) / plan.ramp)
        images_seen += len(buckets)
        on_images(len(buckets))
        settled = bool(reached_at) and _settling(images_seen, reached_at, plan) <= 0
        if images_seen < next_check and not settled:
            continue
        next_check = (
            images_seen + plan.watch if reached_at else min(images_seen + plan.watch, max(plan.most, images_seen + 1))
        )
        mean, worst, attacked_mean, attacked_worst = _check(spec, module, plan)
        step = TrainingStep(
            attempt=attempt,
            images=images_seen,
            seconds=time.perf_counter() - started,
            loss=loss.item(),
            rate=rate,
            mean=mean,
            worst=worst,
            attacked_mean=attacked_mean,
            attacked_worst=attacked_worst,
            strength=strength if spec.robust else None,
        )
        on_step(step)
        if settled:
            module.eval().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
            return True
        if not math.isfinite(step.loss):
            return False
        if not reached_at and _follows_rule(step):
            reached_at = images_seen
        if not reached_at and images_seen >= plan.most:
            if not spec.robust:
                return False
            reached_at = images_seen
    return False


def _check(spec: NetworkSpec, module: nn.Module, plan: TrainingPlan) -> tuple[float, float, float | None, float | None]:
    """The accuracy on watched scenes: mean and worst bucket, plain and, in robust training, attacked."""
    plain = accuracy(spec, module, per_bucket=60, seed=CHECK_SEED).values()
    mean, worst = sum(plain) / len(plain), min(plain)
    if not spec.robust:
        return mean, worst, None, None
    attacked = accuracy(spec, module, per_bucket=20, seed=CHECK_SEED, attack=plan.attack).values()
    return mean, worst, sum(attacked) / len(attacked), min(attacked)


def _follows_rule(step: TrainingStep) -> bool:
    """Whether the rule is followed; in robust training under attack, because the initial network follows it without."""
    mean, worst = SETTLES_FROM
    if step.attacked_mean is not None and step.attacked_worst is not None:
        return step.attacked_mean >= mean and step.attacked_worst >= worst
    return step.mean >= mean and step.worst >= worst


def _settling(images_seen: int, reached_at: int, plan: TrainingPlan) -> float:
    """The share of the learning rate: all until the rule is followed, then less and less."""
    if not reached_at:
        return 1.0
    over = max(plan.settle * reached_at, 2 * plan.watch)
    return max(0.0, 0.5 * (1 + math.cos(math.pi * min(1.0, (images_seen - reached_at) / over))) - 1e-9)


def _batches(spec: NetworkSpec, rows: int, seed: int) -> Iterator[SceneBatch]:
    """Endless batches of scenes, each scene in all of the buckets that have a label."""
    defined = torch.tensor(spec.rule.defined)
    scenes = max(1, rows // len(defined))
    start = seed * 10**9
    while True:
        indices = torch.arange(start, start + scenes).repeat_interleave(len(defined))
        yield spec.layout.scenes(defined.repeat(scenes), indices, seed=TRAINING_SEED)
        start += scenes


def _labels(spec: NetworkSpec) -> Int[Tensor, " _"]:
    """The label by the number of the bucket, -1 where there is none."""
    return torch.tensor([-1, *(-1 if label is None else label for label in spec.rule.labels)])


def _weights(spec: NetworkSpec) -> Float[Tensor, " _"]:
    """The weight of a scene by the number of its bucket, so that all labels count the same."""
    labels = [label for label in spec.rule.labels if label is not None]
    share = len(labels) / spec.rule.classes
    return torch.tensor([0.0, *(0.0 if label is None else share / labels.count(label) for label in spec.rule.labels)])
