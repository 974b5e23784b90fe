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

Database = Annotated[
    str | None,
    typer.Option(metavar="URL", help="where answers are kept, such as postgresql+psycopg://...; else in the study's folder"),
]


@app.callback()
def study() -> None:
    """Studies with people: whether a map helps anyone, and whether the metrics know."""
    from importlib.util import find_spec

    from snellen.errors import SnellenError

    if not all(map(find_spec, ("alembic", "pingouin", "sqlalchemy", "starlette", "statsmodels", "uvicorn"))):
        raise SnellenError("`snellen study` needs the extra: pip install 'snellen[study]'")


@app.command()
def serve(
    folder: Folder,
    host: Annotated[
        str, typer.Option(help="the address to listen at; 0.0.0.0 for every one of this computer")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="the port; 0 takes a free one")] = 8000,
    database: Database = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="a proxy in front tells in X-Forwarded-For who is asking")
    ] = False,
    secure: Annotated[
        bool, typer.Option("--secure", help="participants reach the study by https, so cookies are for https alone")
    ] = False,
) -> None:
    """Serve the study as web pages: for participants, and, with the password, for the experimenter."""
    from snellen.study.folder import Study
    from snellen.study.store import Store
    from snellen.study.web import serve as serving

    found = Study.read(folder)
    store = Store.open(found, database)
    try:
        serving(found, store, host=host, port=port, secure=secure, behind_proxy=behind_proxy)
    finally:
        store.close()


@app.command()
def password(folder: Folder) -> None:
    """Make a new password for the experimenter's page and tell it, once; logins with the old one end."""
    from snellen.study.folder import Study, new_password

    print(f"password: {new_password(Study.read(folder).folder)}")
