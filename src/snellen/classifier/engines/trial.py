"""Trials: engines prepared for a network, compared with its eager outputs, and measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier.engines.compiled import Compiled, compile_elsewhere, compiler_missing
from snellen.classifier.engines.engine import Engine, EngineName
from snellen.classifier.engines.onnx_runtime import OnnxRuntime, missing_packages
from snellen.classifier.network import Network
from snellen.classifier.value_reads import value_reader
from snellen.errors import first_line

TOLERANCE = 1e-4
"""Largest difference from an eager output, as a share of the largest output of the batch; rounding is far below."""

MOMENT = 0.2
"""Seconds for which an engine is measured."""

SHORT_PLAN = 2.0
"""Seconds of forward-only passes below which nothing is tried: such a plan is over before a choice could help."""

FIRST_STAKE, FURTHER_STAKE = 0.25, 0.02
"""The share of the seconds left to compute that may be spent on preparing an engine: while no engine is faster than the
eager module, and as soon as one is."""

TRIAL_PASSES = 6
"""Full passes that a trial makes besides the preparation."""

LEAST_SECONDS = 10.0
"""Nothing is compiled in less, because starting the compiler alone takes about as long."""

Batch = Float[Tensor, "rows channels height width"]
Pictures = Float[Tensor, "pictures channels height width"]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of trying an engine."""

    name: EngineName
    """Of the engine."""
    engine: Engine | None = None
    """None for the eager module, and where the engine cannot be used."""
    reason: str | None = None
    """Why it cannot be used, or was not tried."""
    seconds: float | None = None
    """What preparing took, the comparison with eager outputs included."""
    difference: float | None = None
    """The largest difference from an eager output, as a share of the largest output."""
    row_seconds: float | None = None
    """Seconds per image of a full pass."""


def full_pass(pictures: Pictures, rows: int) -> Batch:
    """So many rows from these pictures; where they must be repeated, each repetition is fainter, so that all rows differ."""
    places = torch.arange(rows)
    faintness = (places // len(pictures) + 1).view(-1, 1, 1, 1)
    return pictures[places % len(pictures)] / faintness


def why_not(name: EngineName, network: Network) -> str | None:
    """Why an engine cannot be used for a network, as far as this shows before it is prepared; None where nothing shows."""
    if name == "eager":
        return None
    if not isinstance(network.run, nn.Module):
        return "the model is a black box, which runs by itself"
    if network.precision != "float32":
        return f"precision {network.precision} is computed by torch alone"
    if not network.convention.any_rows:
        return "the model does not take batches of any size"
    if name == "compiled":
        return compiler_missing() if network.device.type == "cpu" else None
    if network.device.type != "cpu":
        return f"it computes on the processor, and the model is on {network.device}"
    if missing := missing_packages():
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: pip install 'snellen[fast]'"
    return None


def try_engine(
    name: EngineName, network: Network, batch: Batch, *, timed: bool = False, within: float | None = None
) -> Trial:
    """Prepares an engine for passes like this batch, and compares its outputs with eager ones.

    Args:
        name: of the engine.
        network: the network.
        batch: a full pass of pictures that differ.
        timed: measure it too.
        within: seconds after which compiling is given up; None for no limit.
    """
    if (reason := why_not(name, network)) is not None:
        return Trial(name=name, reason=reason)
    started = time.perf_counter()
    engine, difference = None, None
    with torch.random.fork_rng(devices=[]):  # a model may draw random numbers
        with torch.inference_mode():
            expected = network.raw(batch)
        if name != "eager":
            prepare = {"compiled": _compiled, "onnxruntime": _onnx_runtime}[name]
            engine, difference, reason = prepare(network, batch, expected, within)
    seconds = time.perf_counter() - started
    if reason is not None:
        return Trial(name=name, reason=reason, seconds=seconds, difference=difference)
    run: Callable[[Tensor], Tensor] = network.raw if engine is None else engine.raw
    return Trial(
        name=name,
        engine=engine,
        seconds=seconds,
        difference=difference,
        row_seconds=_row_seconds(run, batch, network.device) if timed else None,
    )


def choose(network: Network, batch: Batch, passes: int) -> list[Trial]:
    """The eager module, and the other engines as tried where so many forward-only passes repay it; the fastest one first."""
    best = eager = try_engine("eager", network, batch, timed=True)
    others = []
    for name in ("onnxruntime", "compiled"):
        left = passes * _seconds(best)
        reason = why_not(name, network) or _not_repaid(
            name, left, TRIAL_PASSES * len(batch) * _seconds(eager), best is eager
        )
        within = left * (FIRST_STAKE if best is eager else FURTHER_STAKE)
        trial = Trial(name=name, reason=reason) if reason else try_engine(name, network, batch, timed=True, within=within)
        others.append(trial)
        best = min(best, trial, key=_seconds)
    return [best, *(trial for trial in (eager, *others) if trial is not best)]


def _seconds(trial: Trial) -> float:
    return float("inf") if trial.row_seconds is None else trial.row_seconds


def _not_repaid(name: EngineName, left: float, trial_seconds: float, nothing_faster: bool) -> str | None:
    """Why an engine is not worth a trial where so many seconds of passes are left; None where it is."""
    if name == "compiled" and not nothing_faster and left * FURTHER_STAKE < LEAST_SECONDS:
        return f"not tried: with {left:.0f} s of passes left, compiling would hardly be repaid"
    if name == "compiled" and left * FIRST_STAKE < LEAST_SECONDS:
        return f"not tried: {left:.0f} s of passes do not repay compiling"
    if left < SHORT_PLAN or left * FIRST_STAKE < trial_seconds:
        return f"not tried: {left:.1f} s of passes do not repay a trial"
    return None


def _compiled(
    network: Network, batch: Tensor, expected: Tensor, within: float | None
) -> tuple[Engine | None, float | None, str | None]:
    """The compiled pass, its largest difference, and why it cannot be used."""
    if within is not None and (reason := compile_elsewhere(network, batch, within)) is not None:
        return None, None, reason
    try:
        engine = Compiled(network, batch)
        difference = _difference(engine.raw(batch), expected)
    except Exception as problem:  # every failure of the compiler means the same here: go on without it
        return None, None, first_line(problem)
    return (engine, difference, None) if difference <= TOLERANCE else (None, difference, _differs(difference))


def _onnx_runtime(
    network: Network, batch: Tensor, expected: Tensor, within: float | None
) -> tuple[Engine | None, float | None, str | None]:
    """The exported graph, its largest difference, and why it cannot be used."""
    difference = None
    reader = value_reader(network, batch[:2])
    if reader is not None:
        return (
            None,
            None,
            f"the model's code reads values of the image ({reader}), so that other images may take other paths",
        )
    reason = ""
    # Code that reads the number of rows as a plain number gives a graph for that number alone.
    for any_rows in (True, False):
        try:
            engine = OnnxRuntime(network, batch[:2] if any_rows else batch, any_rows=any_rows)
            difference = _difference(engine.raw(batch), expected)
            if any_rows and difference <= TOLERANCE:
                with torch.inference_mode():
                    for rows in (1, min(3, len(batch))):
                        short = batch[-rows:]
                        difference = max(difference, _difference(engine.raw(short), network.raw(short)))
        except Exception as problem:  # the exporter and onnxruntime raise many kinds, which mean the same here
            reason = first_line(problem)
            continue
        if difference <= TOLERANCE:
            return engine, difference, None
        reason = _differs(difference)
    return None, difference, reason


def _difference(outputs: Tensor, expected: Tensor) -> float:
    """The largest difference as a share of the largest output; infinite where shapes differ or something is not finite."""
    if outputs.shape != expected.shape:
        return float("inf")
    largest = float(expected.abs().max())
    difference = float((outputs.to(expected) - expected).abs().max()) / (largest or 1.0)
    return float("inf") if math.isnan(difference) else difference


def _differs(difference: float) -> str:
    return f"its outputs differ from eager ones by {difference:.1g} of the largest; up to {TOLERANCE:.0e} is allowed"


def _row_seconds(run: Callable[[Tensor], Tensor], batch: Tensor, device: torch.device) -> float:
    """Seconds per row of the fastest of the passes that fit into a moment."""
    fastest, ended = float("inf"), time.perf_counter() + MOMENT
    with torch.inference_mode():
        while fastest == float("inf") or time.perf_counter() < ended:
            started = time.perf_counter()
            run(batch)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            fastest = min(fastest, time.perf_counter() - started)
    return fastest / len(batch)
