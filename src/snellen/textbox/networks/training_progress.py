"""What a person sees while a network is taught a rule: how many images, how fast, how well; at the end, bucket by bucket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from snellen.runs.progress import duration
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import TrainedNetwork
from snellen.textbox.networks.training import Step, TrainingPlan
from snellen.textbox.networks.verification import Finding, Verification
from snellen.textbox.scenes.objects import buckets, described


class TrainingProgress:
    """A bar in a terminal; a line per look at the progress where the output is a file or a log."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._bar: Progress | None = None

    def note(self, text: str) -> None:
        """Prints a sentence."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def lesson(self, spec: NetworkSpec, plan: TrainingPlan) -> Iterator[None]:
        """Shows the training within it."""
        self._reasoning, self._course = spec, plan
        self._images, self._before, self._attempt = 0, 0, 1
        self._last: Step | None = None
        self._began = time.monotonic()
        how = "against attacks " if spec.robust else ""
        self.note(
            f"{spec.name}: {spec.architecture} is taught '{spec.rule.text}' {how}on {spec.background}, "
            f"up to {plan.most:,} images in each of {plan.attempts} attempts"
        )
        if self.console.is_terminal:
            columns = ("{task.description}", "{task.completed:>7,.0f} images", "{task.fields[told]}")
            self._bar = Progress(
                TextColumn(columns[0]), BarColumn(bar_width=20), *map(TextColumn, columns[1:]),
                console=self.console, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task(spec.name, total=plan.most, told="")
            self._bar.start()
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def passed(self, images: int) -> None:
        """So many more images were learnt from."""
        self._images += images
        if self._bar is not None:
            self._bar.update(self._task, completed=self._images, told=self._line())

    def told(self, step: Step) -> None:
        """A look at the progress; a new attempt is a line of its own."""
        if step.attempt != self._attempt:
            self._restarted()
            self._attempt, self._before, self._images = step.attempt, self._before + self._images - step.images, step.images
        self._last = step
        if self._bar is None:
            self.note(f"{self._reasoning.name}: {self._images:,} images, {self._line()}")

    def _restarted(self) -> None:
        if self._last is not None:
            self.note(
                f"attempt {self._attempt} of {self._course.attempts} did not get there within {self._last.images:,} images "
                f"(right {self._last.mean:.3f}, worst bucket {self._last.worst:.3f}): another starts from other weights"
            )

    def _line(self) -> str:
        speed = f"{(self._before + self._images) / max(time.monotonic() - self._began, 1e-6):,.0f}/s"
        step = self._last
        if step is None:
            return speed
        attacked = (
            ""
            if step.attacked_mean is None
            else f", attacked {step.attacked_mean:.3f} / {step.attacked_worst:.3f} (strength {step.strength:.2f})"
        )
        again = f", attempt {step.attempt}" if step.attempt > 1 else ""
        return f"{speed}, right {step.mean:.3f} / worst bucket {step.worst:.3f}{attacked}, loss {step.loss:.3f}{again}"


def outcome(network: TrainedNetwork, verification: Verification) -> Table:
    """Bucket by bucket: how often the network is right on unseen scenes, and what the change of each thing does.

    A cell of a change says what the rule expects (≠ another label, = the same), in what share of pairs the decisions are so,
    and how far the probability moves.
    """
    rule, shares, attacked = network.spec.rule, network.accuracy, network.attacked
    cells: dict[tuple[int, str], list[Finding]] = {}
    for finding in verification.findings:
        cells.setdefault((finding.change.bucket, _column(finding)), []).append(finding)
    changed = sorted(
        {column for _, column in cells}, key=lambda text: [one.name for one in rule.objects].index(text.split()[1])
    )
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("bucket", "shows", "label", "right", *(["attacked"] if attacked else []), *changed):
        table.add_column(heading, justify="left" if heading == "shows" else "right", no_wrap=heading == "shows")
    for bucket, shown in enumerate(buckets(rule.objects), 1):
        label = rule.labels[bucket - 1]
        if label is None:
            continue
        under = [f"{attacked[bucket]:.3f}"] if attacked else []
        found = [_cell(cells.get((bucket, column), [])) for column in changed]
        table.add_row(str(bucket), described(rule.objects, shown), str(label), f"{shares[bucket]:.3f}", *under, *found)
    return table


def words(network: TrainedNetwork, verification: Verification) -> list[str]:
    """What the table comes to, in sentences."""
    shares, attacked = network.accuracy.values(), network.attacked.values()
    training = network.record["training"]
    found = [
        f"right on unseen scenes: {sum(shares) / len(shares):.3f} on average over buckets, {min(shares):.3f} in the worst"
        + (f"; under attack {sum(attacked) / len(attacked):.3f}, {min(attacked):.3f}" if attacked else "")
    ]
    left_out = len(verification.left_out)
    gaps = len(verification.unproven)
    found.append(
        f"follows its rule in {verification.mean:.1%} of pairs of scenes that differ in one thing"
        + (f"; of {left_out} changes the rule says nothing" if left_out else "")
        + (f"; {gaps} times it looks at what changes nothing alone, which no pair can prove" if gaps else "")
        if verification.holds
        else f"cannot serve as ground truth: {verification.problem}"
    )
    found.append(f"{training['images']:,} images in {duration(training['seconds'])}, written to {network.folder}")
    return found


def _column(one: Finding) -> str:
    return f"no {one.change.object_}" if one.change.change == "removed" else f"other {one.change.object_}"


def _cell(found: list[Finding]) -> Text:
    if not found:
        return Text("·", style="dim")
    worst = max(found, key=lambda one: one.shortfall)
    sign = "≠" if worst.change.expected == "changes" else "="
    text = f"{sign} {worst.share:.0%} {worst.moved:.2f}".replace(" 0.", " .").replace("1.00", "1.0")
    return Text(text, style="red" if worst.shortfall > 0 else "")
