"""The commands about plug-ins: `list`, `new`, `check` and `conform`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snellen.cli import completion, options, terminal

if TYPE_CHECKING:
    from rich.status import Status

app = typer.Typer()


@app.command("list")
def list_names(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="methods, metrics, conditions or models",
            autocompletion=completion.words("methods", "metrics", "conditions", "models"),
        ),
    ],
    json: options.Json = False,
) -> None:
    """Print names, what they need and what they cite."""
    from snellen.catalogue.listed import document, kind_of
    from snellen.catalogue.shipped import listed

    kind = kind_of(what)
    entries = listed(kind)
    if json:
        terminal.show_json(document(kind, entries))
        return
    from snellen.catalogue.printed_list import PrintedList

    terminal.show(PrintedList(entries))


@app.command()
def new(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="method or metric", autocompletion=completion.words("method", "metric"))
    ],
    name: Annotated[str, typer.Argument(help="lower-case words joined by hyphens: bright-edges")],
    out: Annotated[Path, typer.Option(help="the folder to write into")] = Path(),
) -> None:
    """Write a method or metric that works as it is, and its test, as two files to start from."""
    from snellen.plugins.templates import NewPlugin

    plugin = NewPlugin(kind=kind, name=name)
    file, test = plugin.write(out)
    print(f"written: {file} and {test}")
    images = "--model digits --images zoo:digits"
    other = "--metrics deletion" if kind == "method" else "--methods gradient,random"
    print(f"try: snellen run {images} --{kind}s {file}:{plugin.title} {other} --out runs/{name}")
    print(f"check: snellen check {file}:{plugin.title}, or pytest {test}")


@app.command()
def check(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME", help="methods and metrics: mine.py:MyMethod, package.module:f, rise(masks=50)"),
    ],
    good: Annotated[
        str | None, typer.Option(help="for a metric: a method that it must score better than --bad, on every image")
    ] = None,
    bad: Annotated[str | None, typer.Option(help="for a metric: a method that it must score worse")] = None,
    json: options.Json = False,
) -> None:
    """Try a method or metric against every rule of the contract, on small networks; exit code 1 if it breaks one."""
    from snellen.plugins.checks import CheckReport
    from snellen.report.check_list import check_list

    options.refuse_json_file(names, json=json)
    reports = []
    for name in names:
        with terminal.status(f"checking {name}") as status:

            def show(rule: str, index: int, count: int, name: str = name, status: Status = status) -> None:
                status.update(f"checking {name}: {rule}, {index + 1} of {count}")

            report = CheckReport.of(name, good=good, bad=bad, on_progress=show)
        if not json:
            terminal.show(check_list(report))
        reports.append(report)
    if json:
        terminal.show_json([report.as_json() for report in reports])
    if any(report.failures for report in reports):
        raise typer.Exit(1)


@app.command()
def conform(
    neighbours: Annotated[
        str | None,
        typer.Option("--with", help="other toolkits to compare with, comma-separated: captum, grad-cam, quantus, torchcam"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="a Markdown file to write the table to")] = None,
) -> None:
    """Compare Snellen, and other toolkits, with numbers that are known; exit code 1 if Snellen misses one."""
    from snellen.conformance import conform as compare

    names = [name.strip() for name in (neighbours or "").split(",") if name.strip()]
    with terminal.status("comparing") as status:
        result = compare(names, on_progress=lambda name: status.update(f"comparing {name}"))
    terminal.show(result.table())
    print("\n".join(result.counts()))
    if out is not None:
        out.write_text(result.markdown())
        print(f"written: {out}")
    if result.failures:
        raise typer.Exit(1)
