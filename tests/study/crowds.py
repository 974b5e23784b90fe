"""What several processes do to one store at the same time."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from snellen.study.answers.store import AnswerStore, Participant
from snellen.study.folder import Study

PROCESSES = multiprocessing.get_context("forkserver")
# Imported once, for all of them.
PROCESSES.set_forkserver_preload(["snellen.study.answers.store"])


def admit(store: AnswerStore, token: str, *, simulated: bool = False, **recruited: str) -> Participant:
    """Admits one, in English."""
    return store.admit(token=token, language="en", simulated=simulated, recruited=recruited)


def arrive(store: AnswerStore, names: list[str], threads: int) -> None:
    """Everybody at once, each twice, as impatient people do."""

    def enter(name: str) -> None:
        admit(store, name)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(enter, [*names, *names]))


def serve_arrivals(folder: Path, url: str, names: list[str], gate: Barrier) -> None:
    """A process that opens the database as soon as the others do, and then admits."""
    study = Study.read(folder)
    gate.wait()
    store = AnswerStore.open(study, url)
    arrive(store, names, 8)
    store.close()


def serve_answers(folder: Path, url: str, sender: Connection) -> None:
    """A process that keeps answers, page after page, and tells so, until somebody ends it."""
    store = AnswerStore.open(Study.read(folder), url)
    person = admit(store, "only")
    for page in range(100_000):
        assert store.reply(person, f"p{page:05d}", {"value": page}, 1.0, last=False)
        sender.send(page)
