"""What a large cluster would do: the real dispatch with simulated workers and a simulated clock.

    python benchmarks/simulate_cluster.py [--pictures 1000000] [--workers 256] [--quick] [--markdown FILE]

First what the client pays is measured on this machine: packing and sending a bundle, opening its outcomes, storing a unit.
Then `runs/dispatch.py`, the code that runs decide with, hands out pictures × 40 methods to simulated workers. Seconds of
units are those recorded in RESULTS.md (EfficientNet-Lite0, 2 threads); what is expected of them before is their passes at
one speed for all, so that the dispatch has to learn. Workers differ in speed (10 %), units too (20 %). The client does one
thing at a time: results that arrive while it is busy wait, and so may workers.
"""

from __future__ import annotations

import argparse
import heapq
import random
import re
import statistics
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from snellen.runs.dispatch import PACE, Dispatch, Pace, Timing, Work
from snellen.runs.parcel import CallOutcome, Parcel, pack, run_parcel

HERE = Path(__file__).parent
SHARD = 16
RECORDED = 4
"""Pictures in the recorded table."""


@dataclass(frozen=True)
class Method:
    """A method with its recorded seconds and expected seconds per picture."""

    name: str
    seconds: float
    expected: float


def recorded_methods() -> list[Method]:
    """The 40 methods of the table in RESULTS.md."""
    text = (HERE / "RESULTS.md").read_text(encoding="utf-8").partition("## Every method")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\S[^|]*?) \| (\d+) \+ (\d+) \| ([\d.]+) \|", text, re.M)
    return [
        Method(name, float(seconds) / RECORDED, 0.015 * int(forward) + 0.03 * int(backward))
        for name, forward, backward, seconds in rows
    ]


# What the client pays ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClientCosts:
    """Seconds that the client, one thread, pays."""

    bundle_sent: float
    unit_sent: float
    bundle_taken: float
    unit_taken: float

    def sent(self, units: int) -> float:
        """Of a bundle that goes out."""
        return self.bundle_sent + units * self.unit_sent

    def taken(self, units: int) -> float:
        """Of a bundle that came back."""
        return self.bundle_taken + units * self.unit_taken


@dataclass(frozen=True)
class FakeUnit:
    """As large as a unit of 16 pictures: paths, digests and targets go out; maps come back unless workers write."""

    method: str
    names: tuple[str, ...]
    digests: tuple[str, ...]
    targets: tuple[int, ...]
    side: int

    def __call__(self, on_pass=None) -> dict[str, object]:
        maps = np.zeros((len(self.names), self.side, self.side), dtype=np.float32) if self.side else None
        return {"method": self.method, "maps": maps, "scores": {f"metric {n}": [0.5] * len(self.names) for n in range(4)}}


def unit_like(number: int, side: int) -> FakeUnit:
    names = tuple(f"s3://bucket/pictures/n{number:07d}/picture-{place:08d}.jpeg" for place in range(SHARD))
    return FakeUnit(f"method {number % 40}", names, tuple(f"{n:064x}" for n in range(SHARD)), tuple(range(SHARD)), side)


def measured_costs(*, workers_write: bool, dask_seconds: float, repeats: int = 20) -> ClientCosts:
    """What packing, sending, opening and storing cost here.

    Args:
        workers_write: Whether only an entry per unit comes back, rather than maps and scores.
        dask_seconds: What Dask's client and scheduler pay per call, on top.
        repeats: How often each is measured; medians count.
    """
    side = 0 if workers_write else 224

    def packing(units: int) -> tuple[float, float]:
        calls = [(f"{number:020x}", unit_like(number, side)) for number in range(units)]
        started = time.perf_counter()
        content, _ = pack(calls)
        sent = time.perf_counter() - started
        outcomes = run_parcel(Parcel(content, None, {}))
        assert isinstance(outcomes, list)
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            for outcome in outcomes:
                store(outcome, Path(folder), workers_write)
            return sent, time.perf_counter() - begun

    few = [packing(1) for _ in range(repeats)]
    many = [packing(21) for _ in range(repeats)]
    one_sent, one_taken = (statistics.median(column) for column in zip(*few, strict=True))
    all_sent, all_taken = (statistics.median(column) for column in zip(*many, strict=True))
    unit_sent, unit_taken = max(0.0, all_sent - one_sent) / 20, max(0.0, all_taken - one_taken) / 20
    return ClientCosts(
        bundle_sent=max(0.0, one_sent - unit_sent) + dask_seconds / 2,
        unit_sent=unit_sent,
        bundle_taken=max(0.0, one_taken - unit_taken) + dask_seconds / 2,
        unit_taken=unit_taken,
    )


def store(outcome: CallOutcome, folder: Path, workers_write: bool) -> None:
    """Opens an outcome and appends it to a segment, as the client does."""
    result = outcome.open()
    with (folder / "segment").open("ab") as segment:
        if result["maps"] is not None:
            segment.write(result["maps"].tobytes())
        segment.write(repr(result["scores"]).encode())
        segment.flush()


def dask_call_seconds(calls: int = 400) -> float:
    """Seconds per call of nothing through a real client, scheduler and worker on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        executor = client.get_executor()
        content = pack([("0", unit_like(0, 0))])[0]
        executor.submit(run_parcel, Parcel(content, None, {})).result()
        started = time.perf_counter()
        futures = deque(executor.submit(run_parcel, Parcel(content, None, {})) for _ in range(32))
        for _ in range(calls - 32):
            futures.popleft().result()
            futures.append(executor.submit(run_parcel, Parcel(content, None, {})))
        for future in futures:
            future.result()
        return (time.perf_counter() - started) / calls


# The simulation ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """What is simulated."""

    name: str
    costs: ClientCosts
    pictures: int
    workers: int = 256
    speed: float = 1.0
    """How many times as fast as recorded a worker is."""
    pace: Pace = PACE
    slots: int | None = None
    """Slots that the dispatch is told; as many as workers where None."""
    deaths: int = 0
    """Workers that die, at random times; each returns after 60 seconds, and Dask gives its bundle to another."""
    hang: int = 0
    """Workers that hang for good, at random times."""


@dataclass
class Report:
    """What came of it."""

    hours: float
    ideal: float
    client_busy: float
    bundles: int
    units_per_bundle: float
    tail: float
    lost: int
    repeated: int
    seconds: float

    def row(self, scenario: Scenario) -> str:
        used = self.ideal / self.hours
        return (
            f"| {scenario.name} | {scenario.pictures:,} | {self.hours:.2f} h | {used:.1%} | {self.client_busy:.1%} | "
            f"{self.bundles:,} | {self.units_per_bundle:.1f} | {self.tail:.0f} s | {self.lost} | {self.repeated} |"
        )


def nothing(on_pass=None) -> None:
    return None


def simulate(scenario: Scenario, methods: list[Method], seed: int = 0) -> Report:
    """Runs the dispatch against simulated workers."""
    rng = random.Random(seed)
    begun = time.perf_counter()
    shards = -(-scenario.pictures // SHARD)
    expected = {method.name: method.expected * SHARD for method in methods}
    real = {method.name: method.seconds * SHARD / scenario.speed for method in methods}
    entry = 2_000 if scenario.costs.unit_taken < 1e-3 else 4 * 224 * 224 * SHARD

    def works() -> Iterator[Work[None]]:
        for shard in range(shards):
            for method in methods:
                yield Work(f"{shard}/{method.name}", nothing, {method.name: expected[method.name]}, shard, entry)

    dispatch: Dispatch[None] = Dispatch(works(), expected=sum(expected.values()) * shards, pace=scenario.pace)
    slots = scenario.slots or scenario.workers
    speeds = [max(0.5, rng.gauss(1.0, 0.1)) for _ in range(scenario.workers)]
    ideal = sum(real.values()) * shards / sum(speeds)
    fates = sorted(
        [(rng.uniform(0.05, 0.9) * ideal, "dies") for _ in range(scenario.deaths)]
        + [(rng.uniform(0.05, 0.9) * ideal, "hangs") for _ in range(scenario.hang)],
        reverse=True,
    )
    idle = [(0.0, worker) for worker in range(scenario.workers)]  # since when
    queue: deque[int] = deque()
    running: dict[int, int] = {}
    doomed: dict[int, str] = {}
    took: dict[int, dict[str, Timing]] = {}
    events: list[tuple[float, int, str, int]] = []
    now = client = busy = 0.0
    bundles = units = lost = order = 0
    first_idle = None
    seen: Counter[str] = Counter()

    def start(at: float) -> None:
        """Idle workers take what waits."""
        nonlocal order
        while queue and idle:
            number = queue.popleft()
            if number not in dispatch.in_flight:
                continue
            since, worker = heapq.heappop(idle)
            moment = max(at, since)
            running[number] = worker
            timings = {
                work.key: Timing(real[work.key.partition("/")[2]] * max(0.3, rng.gauss(1.0, 0.2)) / speeds[worker])
                for work in dispatch.in_flight[number].works
            }
            took[number] = timings
            end = moment + sum(timing.seconds for timing in timings.values())
            order += 1
            if fates and fates[-1][0] <= end:
                doomed[number] = fates.pop()[1]
                if doomed[number] == "hangs":
                    continue
                end = moment + rng.random() * (end - moment)
            heapq.heappush(events, (end, order, "ends", number))

    while not dispatch.done:
        client = max(client, now)
        while (bundle := dispatch.bundle(slots, client)) is not None:
            cost = scenario.costs.sent(len(bundle.works))
            client, busy = client + cost, busy + cost
            bundles, units = bundles + 1, units + len(bundle.works)
            seen.update(work.key for work in bundle.works if dispatch._exhausted)  # only what may be repeated
            queue.append(bundle.number)
            start(client)
        if dispatch.done:
            break
        if first_idle is None and dispatch._exhausted and idle and not queue:
            first_idle = client
        if events and (events[0][0] <= client + 1.0 or not dispatch._exhausted):
            now, _, what, number = heapq.heappop(events)
        else:
            now = client + 1.0
            continue
        if what == "returns":
            heapq.heappush(idle, (now, number))
            start(now)
            continue
        worker = running.pop(number)
        died = doomed.pop(number, None) == "dies"
        if died:
            order += 1
            heapq.heappush(events, (now + 60.0, order, "returns", worker))
        else:
            heapq.heappush(idle, (now, worker))
        start(now)  # with what is in the window already, while the client may be busy
        timings = took.pop(number)
        if number not in dispatch.in_flight:
            continue
        finished = dispatch.in_flight[number]
        if died:
            lost += 1
            queue.appendleft(number)  # as Dask does, which gives up only after several workers
            start(now)
            continue
        dispatch.finished(finished, timings)
        cost = scenario.costs.taken(len(finished.works))
        client, busy = max(client, now) + cost, busy + cost
    end = max(client, now)
    return Report(
        hours=end / 3600,
        ideal=ideal / 3600,
        client_busy=busy / end,
        bundles=bundles,
        units_per_bundle=units / max(1, bundles),
        tail=end - (first_idle if first_idle is not None else end),
        lost=lost,
        repeated=units - shards * len(methods),
        seconds=time.perf_counter() - begun,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the pictures")
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    methods = recorded_methods()
    call = dask_call_seconds()
    back, entries = (measured_costs(workers_write=value, dask_seconds=call) for value in (False, True))
    few = arguments.pictures // (100 if arguments.quick else 10)
    base = Scenario("workers write", entries, few, arguments.workers)
    old = Pace(aim=0.0, stretch=0.0)
    scenarios = [
        replace(base, name="as before: 4 units in flight, one per call", costs=back, pace=old, slots=2, pictures=few // 100),
        replace(base, name="one unit per call, window of the cluster", costs=back, pace=old, pictures=few // 10),
        replace(base, name="bundles, maps come back", costs=back),
        base,
        replace(base, name="20 workers die, 4 hang", deaths=20, hang=4),
        *(
            replace(base, name=f"workers {speed}× as fast{extra}", costs=costs, speed=float(speed))
            for speed in (10, 100)
            for costs, extra in ((back, ", maps come back"), (entries, ""))
        ),
        replace(base, name="workers 100× as fast, 1,024 of them", speed=100.0, workers=1024),
    ]
    if not arguments.quick:
        scenarios.append(replace(base, name="all pictures", pictures=arguments.pictures))
    lines = [
        f"Measured here: a call through Dask {call * 1e3:.2f} ms; sending {entries.bundle_sent * 1e3:.2f} ms per bundle + "
        f"{entries.unit_sent * 1e6:.0f} µs per unit; taking {back.bundle_taken * 1e3:.2f} ms + "
        f"{back.unit_taken * 1e3:.2f} ms per unit with maps, {entries.bundle_taken * 1e3:.2f} ms + "
        f"{entries.unit_taken * 1e3:.3f} ms where workers write.",
        "",
        f"{len(methods)} methods, {sum(method.seconds for method in methods):.0f} s per picture.",
        "",
        "| scenario | pictures | takes | used | client busy | bundles | units each | tail | lost | repeated |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines))
    for scenario in scenarios:
        report = simulate(scenario, methods)
        lines.append(report.row(scenario))
        print(f"{lines[-1]}   simulated in {report.seconds:.0f} s", flush=True)
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
