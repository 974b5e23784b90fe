"""The commands about plug-ins: `list` and `conform`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer()


@app.command("list")
def list_names(what: Annotated[str, typer.Argument(metavar="methods|metrics|conditions|models")]) -> None:
    """Print names, what they need and what they cite."""
    from snellen.report.plugin_lists import listing

    Console().print(listing(what))


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
    with Console(stderr=True).status("comparing") as status:
        result = compare(names, on_progress=lambda name: status.update(f"comparing {name}"))
    Console().print(result.table())
    print("\n".join(result.counts()))
    if out is not None:
        out.write_text(result.markdown())
        print(f"written: {out}")
    if result.failures:
        raise typer.Exit(1)
