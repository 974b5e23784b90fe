"""What it costs that a study's database is checked before it is used: `PRAGMA quick_check` reads the whole file.

    python benchmarks/study_start.py [--people 200 2000 20000]

Every participant has 40 replies, as in the published study. The file is read from the system's cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from sqlalchemy import text

from snellen.runs.machine import revision
from snellen.study.answers.store import FILE, AnswerStore
from snellen.study.answers.tables import EVENTS, PARTICIPANTS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "study"))

from planted_study import plant

PAGES = 40
AT = "2026-01-01T00:00:00.000+00:00"


def fill(store: AnswerStore, people: int) -> None:
    """Puts so many participants with all their replies into the database."""
    names = [f"{place:024x}" for place in range(people)]
    own = {"simulated": False, "group": 0, "language": "en", "state": "finished", "code": "0" * 8, "recruited": {}}
    times = {"started": AT, "finished": AT, "seen": AT}
    rows = [
        {"participant": name, "number": place, "token": f"{place:064x}", **own, **times} for place, name in enumerate(names)
    ]
    reply = {"kind": "reply", "content": {"value": 3, "beside": 70}, "seconds": 4.2, "at": AT}
    with store.database.writing() as connection:
        connection.execute(PARTICIPANTS.insert(), rows)
        for page in range(PAGES):
            connection.execute(EVENTS.insert(), [{"participant": name, "page": f"p{page:03d}", **reply} for name in names])


def seconds_of(work: object, times: int = 3) -> float:
    """The fastest of some runs."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        work()  # type: ignore[operator]
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--people", type=int, nargs="+", default=[200, 2000, 20000])
    arguments = options.parse_args()
    print(f"revision {revision()}\n")
    print("| participants | answers | file | quick_check | opening the store, in all |\n| --: | --: | --: | --: | --: |")
    for people in arguments.people:
        with tempfile.TemporaryDirectory() as folder:
            study, _ = plant(Path(folder) / "study")
            with closing(AnswerStore.open(study)) as store:
                fill(store, people)

            def check(store: AnswerStore) -> None:
                with store.database.reading() as connection:
                    assert connection.execute(text("PRAGMA quick_check(1)")).scalar_one() == "ok"

            with closing(AnswerStore.open(study)) as store:
                checking = seconds_of(lambda: check(store))
            opening = seconds_of(lambda: AnswerStore.open(study).close())  # noqa: B023
            size = (study.folder / FILE).stat().st_size / 1e6
            print(
                f"| {people:,} | {people * PAGES:,} | {size:.1f} MB | {checking * 1000:.0f} ms | {opening * 1000:.0f} ms |"
            )


if __name__ == "__main__":
    main()
