"""How long a pass takes by each engine, and a gradient with each setting that might help; all in one process, taking turns.

    python benchmarks/engines.py [--model efficientnet-lite0 digits] [--seconds 20] [--no-compile] [--markdown FILE]

A figure is the median of the turns that fit into the seconds, in milliseconds per image of a full pass. Every way has its
own share of the turns, so that a busy moment disturbs all alike.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

import snellen
from neighbours import table
from snellen import zoo
from snellen.classifier import Classifier, arithmetic, evaluated_norms
from snellen.classifier.calling_convention import Convention
from snellen.classifier.engines.trial import Trial, full_pass
from snellen.classifier.network import Network
from snellen.runs.machine import machine, revision

PICTURES = 16


@dataclass(frozen=True)
class Way:
    """A way to compute something of a batch."""

    name: str
    run: Callable[[], object]
    rows: int
    note: str = ""


def inputs_of(name: str, classifier: Classifier) -> Tensor:
    """The pictures that come with a model."""
    samples = zoo.digit_samples() if name == zoo.DIGITS else zoo.photographs(classifier.geometry)
    return classifier.to_inputs(torch.stack([samples[place].image for place in range(min(PICTURES, len(samples)))]))


def turns(ways: list[Way], seconds: float) -> dict[str, float]:
    """Milliseconds per image of each way: the median over as many rounds of all ways as fit, at least three."""
    for way in ways:
        way.run()
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    ended = time.perf_counter() + seconds
    while time.perf_counter() < ended or len(times[ways[0].name]) < 3:
        for way in ways:
            started = time.perf_counter()
            way.run()
            times[way.name].append(1e3 * (time.perf_counter() - started) / way.rows)
    return {name: statistics.median(each) for name, each in times.items()}


def rows_of(ways: list[Way], milliseconds: dict[str, float]) -> list[list[str]]:
    """A row per way, with its speed relative to the first."""
    first = milliseconds[ways[0].name]
    return [[way.name, f"{milliseconds[way.name]:.3g}", f"{first / milliseconds[way.name]:.2f}", way.note] for way in ways]


def with_layout(network: Network, *, channels_last: bool) -> Network:
    """A copy of the network in a memory layout."""
    other = Classifier(network.module).network
    convention = Convention(channels_last=channels_last)
    convention.store(other.module)
    return replace(other, convention=convention, shapes=network.shapes)


def forward(classifier: Classifier, inputs: Tensor, seconds: float, *, compiled: bool) -> list[list[str]]:
    """Forward-only passes: each engine, the other memory layout, and what preparing takes."""
    batch = full_pass(inputs, classifier.rows_for(inputs))
    ways = [Way("eager", lambda: classifier.logits(batch), len(batch), "as it is called")]
    last = classifier.network.convention.channels_last
    other = with_layout(classifier.network, channels_last=not last)

    def other_layout() -> None:
        with torch.inference_mode():
            other(batch)

    ways.append(Way(f"eager, {'contiguous' if last else 'channels last'}", other_layout, len(batch)))
    for name in ("onnxruntime", "compiled") if compiled else ("onnxruntime",):
        fast = classifier.variant(classifier.module, name)
        fast.rows, fast.gradient_rows = classifier.rows, classifier.gradient_rows
        trial: Trial = fast.use_engine(name, inputs)  # type: ignore[arg-type]
        if trial.reason is not None:
            print(f"{name}: {trial.reason}", file=sys.stderr)
            continue
        note = f"prepared in {trial.seconds:.1f} s, logits within {trial.difference:.0e}"
        ways.append(Way(name, lambda fast=fast: fast.logits(batch), len(batch), note))  # type: ignore[misc]
        if name == "onnxruntime":
            ways.append(Way(f"{name}, 3 rows", lambda fast=fast: fast.logits(batch[:3]), 3, "a short pass"))  # type: ignore[misc]
    ways.append(Way("eager, 3 rows", lambda: classifier.logits(batch[:3]), 3, "a short pass"))
    return rows_of(ways, turns(ways, seconds))


def gradients(classifier: Classifier, inputs: Tensor, seconds: float) -> list[list[str]]:
    """Gradients at the input: folded normalisations, memory layout, rows per pass, oneDNN, denormal numbers, threads."""
    rows = classifier.rows_for(inputs, gradients=True)
    threads = torch.get_num_threads()
    norms = evaluated_norms.NORMS

    def way(name: str, subject: Classifier, count: int = rows, note: str = "", **flags: bool | int) -> Way:
        batch, targets = full_pass(inputs, count), torch.zeros(count, dtype=torch.long)
        subject.rows, subject.gradient_rows = classifier.rows, count

        def run() -> None:
            subject.gradient_rows = count
            evaluated_norms.NORMS = () if flags.get("torchs_norms", False) else norms
            torch.set_num_threads(int(flags.get("threads", threads)))
            torch.set_flush_denormal(bool(flags.get("flush", False)))
            with torch.backends.mkldnn.flags(enabled=bool(flags.get("onednn", True))):
                subject.gradient(batch, targets)
            torch.set_flush_denormal(False)
            torch.set_num_threads(threads)
            evaluated_norms.NORMS = norms

        return Way(name, run, count, note)

    def copy(**changes: bool) -> Classifier:
        other = classifier.variant(classifier.module, "copy")
        if changes:
            other.network = with_layout(other.network, **changes)
            other.network.shapes = frozenset({tuple(inputs.shape[1:])})
        return other

    last = classifier.network.convention.channels_last
    ways = [way(f"eager, {rows} rows", copy(), note="as it is called")]
    ways.append(way("torch's own normalisations", copy(), torchs_norms=True, note="the same bits (decision 49)"))
    folded = copy().with_folded_norms()
    folded.rows, folded.gradient_rows = classifier.rows, rows
    if folded._fold(inputs) is not None:
        ways.append(way("folded", folded, note="--fold-norms"))
    ways.append(way("contiguous" if last else "channels last", copy(channels_last=not last)))
    ways += [way(f"{count} rows", copy(), count) for count in (rows // 4, rows // 2, 2 * rows, 4 * rows) if count > 0]
    ways.append(way("denormal numbers as zero", copy(), flush=True))
    ways.append(way("without oneDNN", copy(), onednn=False))
    if threads > 1:
        ways.append(way("1 thread", copy(), threads=1))
        ways.append(way("1 thread, 16 rows", copy(), 16, threads=1))
    return rows_of(ways, turns(ways, seconds))


def behind_layer(classifier: Classifier, inputs: Tensor, seconds: float) -> list[list[str]]:
    """The rest of the model behind the default layer, beside a whole pass."""
    layer = classifier.feature_layer(inputs)
    shape = classifier.layer_shape(inputs, layer)
    activations = torch.rand(classifier.resume_rows(inputs, layer), *shape)
    owners = torch.zeros(len(activations), dtype=torch.long)
    batch = full_pass(inputs, classifier.rows_for(inputs))
    ways = [
        Way("a whole pass", lambda: classifier.logits(batch), len(batch), "eager"),
        Way(f"behind '{layer}'", lambda: classifier.resume(inputs, layer, activations, owners), len(activations), "eager"),
    ]
    return rows_of(ways, turns(ways, seconds))


def main() -> None:
    """Prints the tables of each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", nargs="+", default=[zoo.EMBEDDED, zoo.DIGITS])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each table")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    arithmetic.reuse_memory()
    where = machine()
    lines = [
        "## Engines, and what might make gradients faster",
        "",
        f"- command: `{' '.join(['python benchmarks/engines.py', *sys.argv[1:]])}`",
        f"- date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, Snellen {snellen.__version__} at {revision()}",
        f"- machine: {where['processor']}, {where['cores']} cores, {where['threads']} threads, {where['memory_gib']} GiB; "
        f"Python {where['python']}, torch {where['torch']}",
        "- milliseconds per image of a full pass; the median of turns",
        "",
    ]
    printed = 0
    head = ["", "ms per image", "times as fast", "note"]
    for name in options.model:
        classifier = zoo.load_classifier(name)
        assert isinstance(classifier.network.run, nn.Module)
        inputs = inputs_of(name, classifier)
        classifier.check(inputs)
        rows, size = classifier.rows_for(inputs), "×".join(map(str, inputs.shape[2:]))
        title = f"{classifier.name}, {size}, {rows} rows per pass"
        tables = {
            "forward": lambda: forward(classifier, inputs, options.seconds, compiled=not options.no_compile),  # noqa: B023
            "the rest behind a layer": lambda: behind_layer(classifier, inputs, options.seconds / 4),  # noqa: B023
            "gradients": lambda: gradients(classifier, inputs, options.seconds),  # noqa: B023
        }
        for what, measured in tables.items():
            lines += table(f"{title}: {what}", head, measured())
            print("\n".join(lines[printed:]), flush=True)
            printed = len(lines)
    text = "\n".join(lines)
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
