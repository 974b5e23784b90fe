"""Writes the data of a study as CSV and Parquet files with a codebook; real and simulated participants in separate files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from snellen import __version__
from snellen.errors import SnellenError
from snellen.files.atomic import write_whole
from snellen.study.answers.codebook import ABOUT, SIMULATED, Codebook, ExportTable
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.participation import collect_data

RECRUITING = "recruiting"
"""The only table with ids by which others know people; the other tables are anonymous."""


def write_export(study: Study, store: AnswerStore, folder: Path, *, simulated: bool) -> list[Path]:
    """Writes all tables and the codebook, of real or of simulated participants, into files for their owner alone."""
    contents = export_files(study, store, simulated=simulated)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, content in contents.items():
            write_whole(folder / name, content, private=True)
    except OSError as problem:
        raise SnellenError(f"cannot write the export into '{folder}': {problem.strerror}; give another --out") from None
    return [folder / name for name in contents]


def export_files(study: Study, store: AnswerStore, *, simulated: bool) -> dict[str, bytes]:
    """All tables and the codebook by file name; those of simulated participants have names that say so."""
    book = Codebook(
        study=study,
        tables=_tables(study, store, simulated),
        simulated=simulated,
        erased=store.erased(simulated=simulated),
        at=store.time(),
    )
    _check(book)
    contents: dict[str, bytes] = {}
    for table in book.tables:
        first, second = table.files(book.prefix)
        contents[first] = _csv(table).encode()
        contents[second] = _parquet(table, book)
    contents[f"{book.prefix}codebook.md"] = book.as_text().encode()
    contents[f"{book.prefix}codebook.json"] = (json.dumps(book.as_values(), indent=2, ensure_ascii=False) + "\n").encode()
    return contents


def _tables(study: Study, store: AnswerStore, simulated: bool) -> tuple[ExportTable, ...]:
    collected = collect_data(study, store.participations(simulated=simulated), simulated=simulated)
    frames = {"participants": collected.participants, "answers": collected.answers, "ratings": collected.ratings}
    result = [
        ExportTable.of(name, about, columns, frames[name], simulated=simulated) for name, (about, columns) in ABOUT.items()
    ]
    return (*result, _recruiting(study, store, collected.participants["participant"].tolist(), simulated))


def _recruiting(study: Study, store: AnswerStore, people: list[str], simulated: bool) -> ExportTable:
    """Completion codes and the recruiting ids that the protocol names, for paying participants."""
    columns = {
        "participant": "random name of the participant",
        "completion_code": "the code that the last page showed; empty for who has not finished",
        **{f"id_{name}": f"`{name}` in the link that the participant came by" for name in study.protocol.recruiting},
    }
    codes, ids = store.codes(simulated=simulated), store.recruited(simulated=simulated)
    rows = [
        [person, codes.get(person, ""), *(ids.get(person, {}).get(name, "") for name in study.protocol.recruiting)]
        for person in people
    ]
    about = "One row per participant: what recruiting and paying people takes. Never publish it."
    return ExportTable.of(RECRUITING, about, columns, pd.DataFrame(rows, columns=list(columns)), simulated=simulated)


def _check(book: Codebook) -> None:
    """Refuses to write real and simulated rows into the same files, whatever went wrong before."""
    marks = [table.frame["simulated"] for table in book.tables if "simulated" in table.frame]
    if any((mark != book.simulated).any() for mark in marks) or (book.simulated and len(marks) < len(book.tables)):
        raise ValueError("real and simulated participants are never exported together")


def _csv(table: ExportTable) -> str:
    frame = table.frame.copy()
    if table.name == RECRUITING:
        # A link can hold anything, and a spreadsheet would take an id such as =1+1 for a formula.
        for column in (name for name in table.columns if name.startswith("id_")):
            frame[column] = frame[column].str.replace(r"^([=+\-@])", r"'\1", regex=True)
    return str(frame.to_csv(index=False, lineterminator="\n"))


def _parquet(table: ExportTable, book: Codebook) -> bytes:
    columns = pa.Table.from_pandas(table.frame, preserve_index=False)
    facts = {
        "snellen.version": __version__,
        "snellen.study": book.study.digest,
        "snellen.simulated": "true" if book.simulated else "false",
        **({"snellen.warning": SIMULATED} if book.simulated else {}),
    }
    out = io.BytesIO()
    parquet.write_table(columns.replace_schema_metadata({**(columns.schema.metadata or {}), **facts}), out)
    return out.getvalue()
