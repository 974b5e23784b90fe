"""The commands of `snellen study`: no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Studies with people: whether a map helps anyone, and whether the metrics know.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="the study's folder")]


@app.callback()
def study() -> None:
    """Studies with people: whether a map helps anyone, and whether the metrics know."""
    from importlib.util import find_spec

    from snellen.errors import SnellenError

    if not all(map(find_spec, ("alembic", "pingouin", "sqlalchemy", "starlette", "statsmodels", "uvicorn"))):
        raise SnellenError("`snellen study` needs the extra: pip install 'snellen[study]'")
