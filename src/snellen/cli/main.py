"""The command line: one verb per room, no logic."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from snellen.cli import options
from snellen.cli.cards import app as cards
from snellen.cli.signals import stopping_on_signals
from snellen.cli.study import app as study
from snellen.cli.textbox import app as textbox
from snellen.errors import ForeignExitError, InterruptionError, SnellenError, log_failure, no_exit, shortened, shown


class Commands(TyperGroup):
    """The commands; typer ends them by an exception of its own, so an exit from within one comes from foreign code."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that was named."""
        try:
            with no_exit("a model or plug-in"):
                return super().invoke(ctx)
        except ForeignExitError as problem:
            raise SnellenError(str(problem)) from problem


app = typer.Typer(
    cls=Commands,
    help="The eye test for saliency maps: which explanation method can you trust on your classifier and your images?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(textbox, name="textbox")
app.add_typer(study, name="study")

UNEXPECTED, MISTAKE, INTERRUPTED = 1, 2, 130
"""Exit codes: an error that nobody foresaw, a user's mistake, an interruption from the keyboard."""


def _print_version(wanted: bool) -> bool:
    if wanted:
        from snellen import __version__

        print(f"snellen {__version__}")
        raise typer.Exit
    return wanted


@app.callback(help=app.info.help)
def snellen(
    version: Annotated[
        bool, typer.Option("--version", help="print the version and exit", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """The eye test for saliency maps."""


@app.command()
def run(
    settings: Annotated[Path | None, typer.Argument(help="a YAML or TOML file; options given here win over it")] = None,
    model: options.Model = None,
    images: options.Images = None,
    methods: options.Methods = None,
    metrics: Annotated[str | None, typer.Option(help="names with commas between")] = None,
    out: options.Out = None,
    target: options.Target = None,
    condition: Annotated[
        str | None, typer.Option(help="changes all pictures first: rotation(degrees=45), resize(side=64), crop, mixup")
    ] = None,
    seed: options.Seed = None,
    labels: options.Labels = None,
    masks: options.Masks = None,
    boxes: options.Boxes = None,
    recipe: options.Recipe = None,
    training: options.Training = None,
    training_labels: options.TrainingLabels = None,
    checkpoints: options.Checkpoints = None,
    unreadable: Annotated[str | None, typer.Option(help="refuse or skip images that cannot be read")] = None,
    weights: options.Weights = None,
    mean: options.Mean = None,
    std: options.Std = None,
    size: options.Size = None,
    crop: Annotated[float | None, typer.Option(help="share of the short side that is kept before resizing")] = None,
    classes: options.Classes = None,
    outputs: options.Outputs = None,
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16; tried before it is used")] = None,
    device: options.Device = None,
    batch: options.Batch = None,
    shard: options.Shard = None,
    workers: options.Workers = None,
    threads: options.Threads = None,
    compile: Annotated[bool | None, typer.Option(help="compile the forward pass; decided from the plan otherwise")] = None,
    dask: Annotated[str | None, typer.Option(help="address of a Dask scheduler")] = None,
    trust: options.Trust = False,
) -> None:
    """Explain images by methods, score the maps by metrics, write a run folder and its report."""
    given = _given(locals(), but=("settings", "trust"))
    from snellen.runs.settings import Settings

    values = Settings.read(settings) if settings else {}
    _compute(Settings.of(values | given), trust=trust)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")], trust: options.Trust = False
) -> None:
    """Continue a run that was interrupted, with the settings it was started with."""
    from snellen.errors import SnellenError
    from snellen.runs.settings import Settings
    from snellen.runs.store import Store
    from snellen.runs.trusting import EVERYTHING, require

    record = Store(folder).record()
    if record is None:
        raise SnellenError(f"'{folder}' is not a run folder: it has no run.json")
    request = record["request"]
    if request is None:
        raise SnellenError(f"'{folder}' was made from Python objects; call snellen.evaluate(..., out='{folder}') again")
    settings = Settings.of(request | {"out": str(folder)})
    require(Store(folder), record, EVERYTHING, trust=trust)
    _compute(settings, trust=trust)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="a run folder, or one with run folders inside")],
) -> None:
    """Compare every file of a run with its name or checksum; exit code 1 if something is damaged. Changes nothing."""
    from snellen.runs.verify import verify as verified

    with Console(stderr=True).status("checking") as status:
        found = verified(folder, told=lambda path: status.update(f"checking {path}"))
    for problem in found.problems:
        print(problem)
    print(found.summary)
    if found.problems:
        raise typer.Exit(1)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")],
    out: Annotated[Path | None, typer.Option(help="where to write; RUN/report.html otherwise")] = None,
) -> None:
    """Write the HTML page of a run again."""
    from snellen.report.terminal import summary_table
    from snellen.runs import Run

    found = Run(folder)
    Console().print(summary_table(found))
    print(found.report(out))


@app.command()
def explain(
    photo: Annotated[Path, typer.Argument(help="an image file")],
    methods: options.Methods = None,
    model: options.Model = None,
    target: Annotated[str, typer.Option(help="predicted, least-likely, or a class")] = "predicted",
    out: Annotated[Path | None, typer.Option(help="the PNG to write; PHOTO-maps.png otherwise")] = None,
    seed: Annotated[int, typer.Option(help="changes every random draw")] = 0,
    images: Annotated[str | None, typer.Option(help="a folder of such images, for methods that learn from some")] = None,
    weights: options.Weights = None,
    mean: options.Mean = None,
    std: options.Std = None,
    size: options.Size = None,
) -> None:
    """Draw the maps of one photo beside it, as one PNG."""
    given = _given(locals(), but=("photo", "target", "out", "seed"))
    from snellen.report.explain import explain_photo
    from snellen.runs.progress import Live
    from snellen.runs.settings import Settings

    print(explain_photo(photo, Settings.of(given), target=target, out=out, seed=seed, observer=Live()))


@app.command()
def suite(
    full: Annotated[
        bool, typer.Option("--full", help="all 33 tests, with trained relatives of the classifier, and all other metrics")
    ] = False,
    model: options.Model = None,
    images: options.Images = None,
    methods: options.Methods = None,
    metrics: Annotated[str | None, typer.Option(help="only these metrics, names with commas between")] = None,
    out: options.Out = None,
    target: options.Target = None,
    seed: options.Seed = None,
    labels: options.Labels = None,
    masks: options.Masks = None,
    boxes: options.Boxes = None,
    recipe: options.Recipe = None,
    training: options.Training = None,
    training_labels: options.TrainingLabels = None,
    checkpoints: options.Checkpoints = None,
    weights: options.Weights = None,
    mean: options.Mean = None,
    std: options.Std = None,
    size: options.Size = None,
    classes: options.Classes = None,
    outputs: options.Outputs = None,
    device: options.Device = None,
    batch: options.Batch = None,
    shard: options.Shard = None,
    workers: options.Workers = None,
    threads: options.Threads = None,
    trust: options.Trust = False,
) -> None:
    """Run the tests of the saliency card on a classifier and print its Table A2; without --model on a small default one."""
    given = _given(locals(), but=("full", "trust"))
    from snellen.report import write_report
    from snellen.runs.progress import Live
    from snellen.suite import run_suite, subject
    from snellen.suite.page import write_suite
    from snellen.suite.terminal import Shown

    grid = run_suite(subject(given, full=full), full=full, observer=Live(), trust=trust)
    Console().print(Shown(grid))
    folder = Path(grid.run.folder)
    print(f"report: {write_report(grid.run, folder / 'report.html')}")
    print(f"suite: {write_suite(grid, folder / 'suite.html')}, {grid.write_csv(folder / 'suite.csv')}")


@app.command("reproduce")
def reproduce_table(
    table: Annotated[str, typer.Argument(help="zhang2024-table1 to zhang2024-table4, or cose2023-table1")],
    model: options.Model = None,
    images: options.Images = None,
    methods: Annotated[
        str | None,
        typer.Option(help="some of the table's methods with commas between, or all; slow ones are left out otherwise"),
    ] = None,
    variations: Annotated[int, typer.Option(help="how many of the paper's variations of each change to run (table 4)")] = 1,
    out: options.Out = None,
    seed: options.Seed = None,
    labels: options.Labels = None,
    checkpoints: options.Checkpoints = None,
    weights: options.Weights = None,
    mean: options.Mean = None,
    std: options.Std = None,
    size: options.Size = None,
    classes: options.Classes = None,
    device: options.Device = None,
    batch: options.Batch = None,
    shard: options.Shard = None,
    workers: options.Workers = None,
    threads: options.Threads = None,
) -> None:
    """Run the protocol of a published table; print published and measured numbers, and whether the paper's findings hold."""
    given = _given(locals(), but=("table", "methods", "variations"))
    from snellen.papers import reproduce
    from snellen.papers.terminal import Shown
    from snellen.runs.progress import Live

    chosen = methods.split(",") if methods else None
    found = reproduce(table, given, methods=chosen, variations=variations, observer=Live())
    Console().print(Shown(found))
    print(f"table: {found.write_csv(Path(given.get('out', f'runs/{table}')) / 'reproduce.csv')}")


@app.command("list")
def list_names(what: Annotated[str, typer.Argument(metavar="methods|metrics|conditions|models")]) -> None:
    """Print names, what they need and what they cite."""
    from snellen.report.listing import listing

    Console().print(listing(what))


@app.command()
def conform(
    neighbours: Annotated[
        str | None, typer.Option("--with", help="captum, grad-cam, quantus, torchcam: whom to ask too, with commas between")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="a Markdown file to write the table to")] = None,
) -> None:
    """Ask Snellen, and other toolkits, for numbers that are known; exit code 1 if Snellen misses one."""
    from snellen.conformance import conform as asked

    names = [one.strip() for one in (neighbours or "").split(",") if one.strip()]
    with Console(stderr=True).status("asking") as status:
        found = asked(names, told=lambda one: status.update(f"asking {one}"))
    Console().print(found.table())
    print("\n".join(found.tally()))
    if out is not None:
        out.write_text(found.markdown())
        print(f"written: {out}")
    if found.missed:
        raise typer.Exit(1)


app.registered_commands += cards.registered_commands


def _given(arguments: Mapping[str, Any], *, but: Collection[str]) -> dict[str, Any]:
    """The settings among the arguments that were given; those that hold several values are taken apart."""
    from snellen.errors import SnellenError
    from snellen.plugins.notation import split_names

    values = {key: value for key, value in arguments.items() if key not in but and value is not None}
    for key in ("methods", "metrics"):
        if key in values:
            values[key] = split_names(values[key])
    for key in ("mean", "std"):
        if key in values:
            try:
                values[key] = [float(part) for part in str(values[key]).split(",")]
            except ValueError:
                raise SnellenError(f"--{key} must be numbers with commas between, not '{values[key]}'") from None
    return values


def _compute(settings: Any, *, trust: bool) -> None:
    from snellen.report.terminal import summary_table
    from snellen.runs.progress import Live

    found = settings.run(Live(), trust=trust)
    Console().print(summary_table(found))
    print(f"report: {found.report()}")


def main() -> None:
    """Runs the command. A mistake is one sentence and exit code 2; an unforeseen error is one with the path of its log."""
    with stopping_on_signals() as received:
        _run_command(received)


def _run_command(received: Sequence[signal.Signals]) -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show is shown escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        _check_words(sys.argv[1:])
        app()
    except SnellenError as problem:
        _tell(str(problem))
        sys.exit(_interrupted(received) if isinstance(problem, InterruptionError) else MISTAKE)
    except (KeyboardInterrupt, SystemExit) as end:
        # typer turns an interruption into an exit of its own, silently and with the shell's code for it.
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        how = f"stopped by {received[0].name}" if received else "interrupted"
        print(f"\nsnellen: {how}; finished work is kept, and the same command continues", file=sys.stderr)
        sys.exit(_interrupted(received))
    except BrokenPipeError:  # whoever read the output has stopped reading, as `head` does
        with contextlib.suppress(OSError):  # else the interpreter complains when it flushes
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(UNEXPECTED)
    except OSError as problem:
        if problem.filename is None:
            _fail(problem)
        # A path that cannot be read or written, wherever that was met, is the user's to mend.
        _tell(f"{shown(str(problem.filename))} cannot be used ({problem.strerror}); check the path, its rights and the disk")
        sys.exit(MISTAKE)
    except Exception as problem:
        _fail(problem)


def _fail(problem: Exception) -> NoReturn:
    """One sentence about an error that nobody foresaw; its traceback goes to a log."""
    log = log_failure(problem)
    where = f"its traceback is in '{log}'; please report it" if log else "its traceback could not be written"
    reason = shortened(f"{type(problem).__name__}: {problem}")
    _tell(f"stopped by an error that Snellen did not foresee ({reason}); {where}")
    sys.exit(UNEXPECTED)


def _interrupted(received: Sequence[int]) -> int:
    """The exit code of a command that was stopped: the shell's for the signal that stopped it, if one did."""
    return 128 + received[0] if received else INTERRUPTED


def _check_words(words: Sequence[str]) -> None:
    """Refuses words that are not text, as names of files can be, and empty ones: an empty path means the current folder."""
    for word, before in zip(words, ("snellen", *words), strict=False):
        option, equals, value = word.partition("=")
        if not word.strip() or (option.startswith("--") and equals and not value.strip()):
            place = option if equals else before
            raise SnellenError(f"the word after '{place}' is empty; write what you mean, or leave out the option")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise SnellenError(f"{shown(word)} on the command line is not UTF-8; rename that file") from None


def _tell(sentence: str) -> None:
    text = " ".join(sentence.split())  # what a library says inside of it may have several lines
    Console(stderr=True, soft_wrap=True).print(f"snellen: {text}", style="red", highlight=False, markup=False)
