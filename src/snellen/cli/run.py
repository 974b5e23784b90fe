"""The commands about runs: `run`, `resume`, `verify`, `report` and `explain`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from snellen.cli import options, terminal
from snellen.cli.options import EvaluationOptions, MetricOptions, ModelOptions, PictureOptions

if TYPE_CHECKING:
    from snellen.runs.settings import Settings

app = typer.Typer()

RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="a run folder, or its URL: s3://bucket/runs/mine")]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of `run` alone."""

    heading: ClassVar = "More settings of a run"

    condition: Annotated[
        str | None, typer.Option(help="changes all images first: rotation(degrees=45), resize(side=64), crop, mixup")
    ] = None
    unreadable: Annotated[str | None, typer.Option(help="refuse or skip images that cannot be read")] = None
    crop: Annotated[float | None, typer.Option(help="centre crop before resizing, as a share of the short side")] = None
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16; tried before it is used")] = None
    engine: Annotated[
        str | None, typer.Option(help="of forward-only passes: eager, compiled, onnxruntime; else the fastest by measuring")
    ] = None
    fold_norms: Annotated[
        bool | None,
        typer.Option(
            "--fold-norms", help="gradients with batch normalisation folded into convolutions: faster, by rounding"
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(help="settled: only as many images as each verdict needs; or 'precision 0.1', in standard deviations"),
    ] = None
    budget: Annotated[
        str | None, typer.Option(help="spend so much where it decides most: 10m, 1h30m or '500000 passes'")
    ] = None
    keep_maps: Annotated[
        str | None,
        typer.Option(help="all, some (a sample, and the best and worst by each metric) or none: maps kept once scored"),
    ] = None
    dask: Annotated[str | None, typer.Option(help="address of a Dask scheduler")] = None


@app.command()
@options.expand
def run(
    *,
    settings: Annotated[
        Path | None, typer.Argument(metavar="SETTINGS", help="a YAML or TOML file; options given here win over it")
    ] = None,
    methods: options.Methods = None,
    metrics: options.Metrics = None,
    model: ModelOptions,
    evaluation: EvaluationOptions,
    picture: PictureOptions,
    metric: MetricOptions,
    extra: RunOptions,
    trust: options.Trust = False,
) -> None:
    """Explain images by methods, score the maps by metrics, write a run folder and its report."""
    from snellen.runs.settings import Settings

    values = Settings.read(settings) if settings else {}
    values |= options.to_settings(model, evaluation, picture, metric, extra, methods=methods, metrics=metrics)
    _evaluate(Settings.of(values), trust=trust)


@app.command()
def resume(folder: RunFolder, trust: options.Trust = False) -> None:
    """Continue a run that was interrupted, with the settings it was started with."""
    from snellen.errors import SnellenError
    from snellen.runs.foreign_code import EVERYTHING, require_trust
    from snellen.runs.settings import Settings
    from snellen.runs.store import Store

    record = Store(folder).record()
    if record is None:
        raise SnellenError(f"'{folder}' is not a run folder: it has no run.json")
    request = record.request
    if request is None:
        raise SnellenError(f"'{folder}' was made from Python objects; call snellen.evaluate(..., out='{folder}') again")
    settings = Settings.of_request(request, out=folder)
    require_trust(Store(folder), record, EVERYTHING, trust=trust)
    _evaluate(settings, trust=trust)


@app.command()
def verify(
    folder: Annotated[str, typer.Argument(metavar="RUN", help="a run folder, or one with run folders inside")],
) -> None:
    """Compare every file of a run with its name or checksum; exit code 1 if something is damaged. Changes nothing."""
    from snellen.runs.verify import verify as verify_run

    with terminal.status("checking") as status:
        result = verify_run(folder, on_file=lambda path: status.update(f"checking {path}"))
    for problem in result.problems:
        print(problem)
    print(result.summary)
    if result.problems:
        raise typer.Exit(1)


@app.command()
def report(
    folder: RunFolder,
    out: Annotated[Path | None, typer.Option(help="where to write; RUN/report.html otherwise")] = None,
) -> None:
    """Write the HTML page of a run again."""
    from snellen.report.summary_table import summary_table
    from snellen.runs import Run

    run = Run(folder)
    terminal.show(summary_table(run))
    print(run.report(out))


@app.command()
@options.expand
def explain(
    *,
    photo: Annotated[Path, typer.Argument(metavar="PHOTO", help="an image file")],
    methods: options.Methods = None,
    model: ModelOptions,
    picture: PictureOptions,
    target: Annotated[
        list[str] | None,
        typer.Option(help="predicted (if left out), least-likely, a class, contrast(a, b) or down; may be repeated"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="the PNG to write; PHOTO-maps.png otherwise")] = None,
    seed: Annotated[int, typer.Option(help="changes every random draw")] = 0,
    images: Annotated[str | None, typer.Option(help="a folder of such images, for methods that are fitted to some")] = None,
) -> None:
    """Draw the maps of one photo beside it, as one PNG."""
    from snellen.report.explain import explain_photo
    from snellen.runs.progress import Live
    from snellen.runs.settings import Settings

    settings = Settings.of(options.to_settings(model, picture, methods=methods, images=images))
    print(explain_photo(photo, settings, targets=target or ["predicted"], out=out, seed=seed, observer=Live()))


def _evaluate(settings: Settings, *, trust: bool) -> None:
    from snellen.runs.progress import Live

    run = settings.run(Live(), trust=trust)
    # Imported after the run, so that a refusal does not wait for them.
    from snellen.report.summary_table import summary_table
    from snellen.report.verdict_lines import next_command, verdict_lines

    terminal.show(summary_table(run), verdict_lines(run))
    print(f"report: {run.report()}")
    print(f"next: {next_command(run)}")
