"""The progress of training in a terminal or a log, and the result, bucket by bucket."""

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
from snellen.textbox.networks.training import TrainingPlan, TrainingStep
from snellen.textbox.networks.verification import ChangeResult, Verification
from snellen.textbox.scenes.objects import bucket_descriptions


class TrainingProgress:
    """A progress bar in a terminal; a line per measurement where the output is a file or a log."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._bar: Progress | None = None

    def note(self, text: str) -> None:
        """Prints a sentence."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def training(self, spec: NetworkSpec, plan: TrainingPlan) -> Iterator[None]:
        """Shows the training within the block."""
        self._spec, self._plan = spec, plan
        self._images, self._earlier_images, self._attempt = 0, 0, 1
        self._last: TrainingStep | None = None
        self._started = time.monotonic()
        how = "against attacks " if spec.robust else ""
        self.note(
            f"{spec.name}: {spec.architecture} is trained on '{spec.rule.text}' {how}on {spec.background}, "
            f"up to {plan.most:,} images in each of {plan.attempts} attempts"
        )
        if self.console.is_terminal:
            columns = ("{task.description}", "{task.completed:>7,.0f} images", "{task.fields[state]}")
            self._bar = Progress(
                TextColumn(columns[0]), BarColumn(bar_width=20), *map(TextColumn, columns[1:]),
                console=self.console, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task(spec.name, total=plan.most, state="")
            self._bar.start()
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def on_images(self, images: int) -> None:
        """Counts the images of a batch."""
        self._images += images
        if self._bar is not None:
            self._bar.update(self._task, completed=self._images, state=self._line())

    def on_step(self, step: TrainingStep) -> None:
        """Shows a measurement of the progress; a new attempt is announced."""
        if step.attempt != self._attempt:
            self._note_new_attempt()
            self._earlier_images += self._images - step.images
            self._attempt, self._images = step.attempt, step.images
        self._last = step
        if self._bar is None:
            self.note(f"{self._spec.name}: {self._images:,} images, {self._line()}")

    def _note_new_attempt(self) -> None:
        if self._last is not None:
            self.note(
                f"attempt {self._attempt} of {self._plan.attempts} did not reach the accuracy within "
                f"{self._last.images:,} images (right {self._last.mean:.3f}, worst bucket {self._last.worst:.3f}): "
                "another starts from other weights"
            )

    def _line(self) -> str:
        images = self._earlier_images + self._images
        speed = f"{images / max(time.monotonic() - self._started, 1e-6):,.0f}/s"
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


def bucket_table(network: TrainedNetwork, verification: Verification) -> Table:
    """Bucket by bucket: the accuracy on unseen scenes, and the effect of changing each object.

    A cell of a change says what the rule expects (≠ another label, = the same), in what share of pairs the decisions follow
    it, and by how much the probability moves.
    """
    rule, accuracy, attacked = network.spec.rule, network.accuracy, network.attacked
    cells: dict[tuple[int, str], list[ChangeResult]] = {}
    for result in verification.results:
        cells.setdefault((result.change.bucket, _column(result)), []).append(result)
    names = [item.name for item in rule.objects]
    columns = sorted({column for _, column in cells}, key=lambda column: names.index(column.split()[1]))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("bucket", "shows", "label", "right", *(["attacked"] if attacked else []), *columns):
        table.add_column(heading, justify="left" if heading == "shows" else "right", no_wrap=heading == "shows")
    for bucket, description in bucket_descriptions(rule.objects).items():
        label = rule.labels[bucket - 1]
        if label is None:
            continue
        under_attack = [f"{attacked[bucket]:.3f}"] if attacked else []
        changes = [_cell(cells.get((bucket, column), [])) for column in columns]
        table.add_row(str(bucket), description, str(label), f"{accuracy[bucket]:.3f}", *under_attack, *changes)
    return table


def summary_lines(network: TrainedNetwork, verification: Verification) -> list[str]:
    """The result of training and verification in sentences."""
    accuracy, attacked = network.accuracy.values(), network.attacked.values()
    training = network.record["training"]
    right = f"right on unseen scenes: {sum(accuracy) / len(accuracy):.3f} on average over buckets, "
    right += f"{min(accuracy):.3f} in the worst"
    right += f"; under attack {sum(attacked) / len(attacked):.3f}, {min(attacked):.3f}" if attacked else ""
    left_out, gaps = len(verification.left_out), len(verification.unproven)
    if verification.holds:
        follows = f"follows its rule in {verification.mean:.1%} of pairs of scenes that differ in one object"
        follows += f"; the rule says nothing about {left_out} changes" if left_out else ""
        follows += (
            f"; {gaps} times the rule looks at an object that alone changes no label, which pairs cannot verify"
            if gaps
            else ""
        )
    else:
        follows = f"cannot serve as ground truth: {verification.problem}"
    cost = f"{training['images']:,} images in {duration(training['seconds'])}, written to {network.folder}"
    return [right, follows, cost]


def _column(result: ChangeResult) -> str:
    return f"no {result.change.item}" if result.change.change == "removed" else f"other {result.change.item}"


def _cell(results: list[ChangeResult]) -> Text:
    if not results:
        return Text("·", style="dim")
    worst = max(results, key=lambda result: result.shortfall)
    sign = "≠" if worst.change.expected == "changes" else "="
    text = f"{sign} {worst.share:.0%} {worst.moved:.2f}".replace(" 0.", " .").replace("1.00", "1.0")
    return Text(text, style="red" if worst.shortfall > 0 else "")
