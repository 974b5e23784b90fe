"""A study under load: many simulated participants at once against the real server, with and without its sudden death.

    python benchmarks/study_load.py [--people 200] [--think 1 0] [--kills 0 5] [--databases sqlite postgresql]

The server is a process of its own, and shares the machine with the participants and the database. The study is as long as
the published one: two tasks with 12 trials and 2 for practice each, three pictures and six more to choose from, two
attention checks and two questionnaires; pictures have the size of photographs. Everybody arrives in the same second; one
in twelve leaves early, and of all pages some are reloaded, sent twice at once, or answered again by going back. Without
time to think (`--think 0`) everybody sends the next answer as soon as a page is there: then times tell how many are in
line, not how long one person waits. Run alone: the clock is the wall's.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import sys
import tempfile
from collections import Counter
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

from snellen.runs.machine import revision
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.simulation.effect import Effect
from snellen.study.simulation.participant import Faults
from snellen.study.simulation.server import Server, serving
from snellen.study.simulation.simulate import AnswerCheck, ServedStudy, Simulation, simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "study"))

import postgres
from planted_study import plant

TASKS = [{"task": name, "items": 12, "practice": 2} for name in ("class-accuracy", "forward-selection")]
FAULTS = Faults(reload=0.02, double=0.02, back=0.02)
AIM = 500
"""Milliseconds below which 95 % of all pages should be there."""

HEAD = (
    "| database | think | kills | finished | requests/s | page: half, 95 %, 99 % | answer until next page: half, 95 %, 99 % "
    "| confirmed | stored | lost | changed | doubled | arms |",
    "| :-- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
)


def study_of(folder: Path) -> Study:
    """A study whose pictures are as large as photographs are."""
    study, _ = plant(folder, arms=["grad-cam", "guided-backprop", "lime"], tasks=TASKS)
    draw = np.random.default_rng(0)
    picture = folder / "one.jpg"
    Image.fromarray(draw.integers(0, 256, (320, 320, 3), dtype=np.uint8)).save(picture, quality=30)
    for path in (folder / "pictures").iterdir():
        path.write_bytes(picture.read_bytes())
    return study


async def killed(server: Server, store: AnswerStore, kills: int, expected: int) -> int:
    """Kills the server so many times while answers come in, and starts it again at once; returns how often it did."""
    done = 0
    for turn in range(1, kills + 1):
        while await asyncio.to_thread(store.kept, simulated=True) < expected * turn / (kills + 1):
            await asyncio.sleep(0.2)
        await asyncio.to_thread(server.kill)
        done += 1
        await asyncio.to_thread(server.start)
    return done


async def loaded(study: Study, server: Server, store: AnswerStore, people: int, think: float, kills: int) -> Simulation:
    """Everybody takes part at once, while the server is killed."""
    # Of the pages of all, some are never answered: one in twelve people leaves half way.
    expected = round(0.9 * people * len(study.pages(0, 0)))
    killing = asyncio.create_task(killed(server, store, kills, expected))
    simulation = await simulate(study, server.link, people, Effect(), concurrency=people, think=think, faults=FAULTS)
    if not killing.done() or killing.result() != kills:
        sys.exit("the server was not killed as often as it should have been")
    return simulation


def row(database: str, think: float, kills: int, simulation: Simulation, check: AnswerCheck, arms: Counter[int]) -> str:
    """A line of the table."""
    requests = sum(len(times) for kind, times in simulation.times.items() if kind != "step")
    wrong = [words for log in simulation.logs for words in log.errors]
    if wrong:
        print(f"{len(wrong)} times what must not happen, as in: {wrong[0]}", file=sys.stderr)
    cells = [
        database, f"{think:g} s" if think else "none", kills, sum(log.state == "finished" for log in simulation.logs),
        round(requests / simulation.seconds), _times(simulation.times["page"]), _times(simulation.times["step"]),
        check.confirmed, check.stored, check.lost, check.changed, check.doubled,
        "/".join(str(arms[arm]) for arm in sorted(arms)),
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def _times(times: list[float]) -> str:
    return ", ".join(f"{1000 * seconds:.0f}" for seconds in np.quantile(times, [0.5, 0.95, 0.99])) + " ms"


def measure(name: str, cluster: postgres.Cluster | None, people: int, think: float, kills: int) -> tuple[str, bool]:
    """One line, and whether nothing was lost or doubled."""
    with tempfile.TemporaryDirectory() as folder:
        study = study_of(Path(folder) / "study")
        address = cluster.fresh() if name == "postgresql" and cluster else None
        with serving(study.folder, address) as server, closing(AnswerStore.open(study, address)) as store:
            simulation = asyncio.run(loaded(study, server, store, people, think, kills))
            check = ServedStudy(server.link, store).compare(simulation)
            arms = Counter(visit.group for visit in store.participations(simulated=True))
        assert check is not None
        return row(name, think, kills, simulation, check, arms), check.clean


def main() -> None:
    """Runs, prints and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--think", type=float, nargs="+", default=[1.0, 0.0], help="seconds before an answer, on average")
    parser.add_argument("--kills", type=int, nargs="+", default=[0, 5])
    parser.add_argument("--databases", nargs="+", choices=["sqlite", "postgresql"], default=["sqlite", "postgresql"])
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    now = datetime.datetime.now(datetime.UTC)
    lines = [
        "## A study under load",
        "",
        f"- command: `python benchmarks/study_load.py --people {options.people}`",
        f"- {now:%Y-%m-%d %H:%M} UTC, Snellen at {(revision() or '')[:7]}, {os.cpu_count()} cores shared by server, "
        f"database and {options.people} simulated participants; load average before: {psutil.getloadavg()[0]:.1f}",
        f"- aim: 95 % of pages within {AIM} ms, nothing lost, changed or doubled",
        "",
        *HEAD,
    ]
    print("\n".join(lines), flush=True)
    clean = True
    with postgres.running() if "postgresql" in options.databases else nullcontext() as cluster:
        for name in options.databases:
            for think in options.think:
                for kills in options.kills:
                    line, good = measure(name, cluster, options.people, think, kills)
                    print(line, flush=True)
                    lines.append(line)
                    clean &= good
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")
    if not clean:
        sys.exit("answers were lost, changed or doubled")


if __name__ == "__main__":
    main()
