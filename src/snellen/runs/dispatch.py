"""Dispatch: which calls go to workers, in which bundles, and when. It has no clock, threads or processes of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

from snellen.types import Passes

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

TRIES = 3
"""How often a call is tried before a lost worker is reported as an error."""


@runtime_checkable
class Call(Protocol[R_co]):
    """A picklable piece of work."""

    def __call__(self, on_pass: Callable[[Passes], None] | None = None) -> R_co: ...


@dataclass(frozen=True)
class Pace:
    """How work is handed out: the one place that says how long a bundle should last, and how much is sent ahead."""

    aim: float = 10.0
    """Seconds that a bundle should last: long beside the client's milliseconds per bundle, short beside a run."""
    stretch: float = 2.0
    """A bundle may last this many times as long where that keeps a group together, whose calls share cached passes."""
    least: float = 0.25
    """Seconds near the end of the work, where bundles shrink so that all workers stop at about the same time."""
    window: int = 2
    """Bundles in flight per slot: one that runs and one that is there when it ends."""
    late: float = 3.0
    """A bundle is late when a free worker could have done it this many times over."""
    patience: float = 10.0
    """Seconds that no bundle is late before."""
    bundle_bytes: int = 64 << 20
    """Most bytes of inputs and results of a bundle, unless one call has more."""
    flight_bytes: int = 1 << 30
    """Most bytes of all bundles in flight, unless they hold one call each."""


PACE = Pace()


@dataclass(frozen=True, eq=False)
class Work(Generic[R_co]):
    """A call, and what is expected of it."""

    key: str
    call: Call[R_co]
    seconds: Mapping[Hashable, float]
    """Expected seconds by kind of work, such as a method and a metric; only their proportions matter much."""
    group: Hashable = None
    """Calls of one group share cached passes when the same worker runs them one after the other."""
    bytes: int = 0
    """Of its inputs and its result, as they travel."""


@dataclass(frozen=True, eq=False)
class Bundle(Generic[R_co]):
    """Calls that one worker runs one after the other, so that a message is worth its cost."""

    number: int
    works: tuple[Work[R_co], ...]
    sent: float
    """When."""
    seconds: float
    """How long it should last."""
    bytes: int
    alone: bool = False
    """Whether nothing else is in flight, so that whatever a worker dies of is this."""


@dataclass
class _Seconds:
    """Expected and measured seconds of finished work; older work counts less."""

    expected: float = 0.0
    measured: float = 0.0

    def add(self, expected: float, measured: float, remembered: float = 0.95) -> None:
        self.expected = self.expected * remembered + expected
        self.measured = self.measured * remembered + measured

    @property
    def ratio(self) -> float:
        return self.measured / self.expected if self.expected > 0 else 1.0


class Tempo:
    """How long work takes: what was expected of each kind, corrected by what finished work took."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Seconds] = {}
        self._all = _Seconds()

    @property
    def ratio(self) -> float:
        """Measured seconds per expected second, over all kinds."""
        return self._all.ratio

    def seconds(self, work: Work[R]) -> float:
        """How long this work should take."""
        overall, total = self._all.ratio, 0.0
        for kind, expected in work.seconds.items():
            seen = self._kinds.get(kind)
            total += expected * (overall if seen is None else seen.ratio)
        return total

    def knows(self, work: Work[R]) -> bool:
        """Whether most of it is of kinds that were measured."""
        measured = sum(expected for kind, expected in work.seconds.items() if kind in self._kinds)
        return measured > 0.5 * sum(work.seconds.values())

    def learn(self, work: Work[R], total: float, parts: Mapping[Hashable, float] | None = None) -> None:
        """Work took `total` seconds; `parts` says which share each kind had, else the expected shares count."""
        shares = {kind: (parts or work.seconds).get(kind, 0.0) for kind in work.seconds}
        measured = sum(shares.values())
        for kind, expected in work.seconds.items():
            part = total * shares[kind] / measured if measured > 0 else total / len(shares)
            self._kinds.setdefault(kind, _Seconds()).add(expected, part)
            self._all.add(expected, part, remembered=0.999)


@dataclass(frozen=True)
class Timing:
    """How long a finished call took."""

    seconds: float
    parts: Mapping[Hashable, float] | None = None
    """By kind of work, where the call says."""


@dataclass(eq=False)
class Dispatch(Generic[R]):
    """Hands out work in bundles to whoever has slots, and decides what happens when a worker is lost or late.

    Bundles hold as many calls as should last `Pace.aim` seconds, in the order of the works, so that a group stays together.
    A call of which nothing is known yet travels alone. Towards the end bundles shrink. When nothing is left to hand out
    and workers are idle, what a slow worker sits on is handed out a second time, and the first result counts.
    """

    works: Iterable[Work[R] | None]
    """Built when they are drawn. None means that more may come after the next result."""
    expected: float | None = None
    """Expected seconds of all works; None where that is not known."""
    pace: Pace = PACE
    tempo: Tempo = field(default_factory=Tempo)
    in_flight: dict[int, Bundle[R]] = field(default_factory=dict)
    """By number."""

    def __post_init__(self) -> None:
        self._source = iter(self.works)
        self._next: Work[R] | None = None
        self._paused = self._exhausted = False
        self._drawn = 0.0
        """Expected seconds of the works drawn so far."""
        self._flying: dict[str, set[int]] = {}
        """By key of work that has no result yet, the numbers of the bundles in flight that hold it."""
        self._again: deque[Work[R]] = deque()
        self._suspects: dict[str, Work[R]] = {}
        """By key, what may have ended a worker; it runs alone at the end."""
        self._deaths: dict[str, int] = {}
        self._repeats: dict[str, int] = {}
        self._idle_since: float | None = None
        self._alone = 0
        """Number of the last bundle that was sent alone."""
        self._count = 0

    @property
    def done(self) -> bool:
        """Whether every work has a result, or was given up."""
        return self._exhausted and self._next is None and not (self._flying or self._again or self._suspects)

    def bundle(self, slots: int, now: float) -> Bundle[R] | None:
        """The next bundle to send at `now` to workers with so many slots; None where nothing is to be sent now."""
        alone = self._alone in self.in_flight
        if not alone:
            if len(self.in_flight) >= self.pace.window * slots:
                return None
            if (repeated := self._next_again()) is not None:
                return self._send([repeated], now)
            works = self._fill(slots)
            if works:
                return self._send(works, now)
            if not self._exhausted and not self._paused:
                return None
            if self._suspects and not self.in_flight:
                return self._send([self._suspects.pop(next(iter(self._suspects)))], now, alone=True)
        self._repeat_late(slots, now)  # also what was sent alone: its worker may hang
        repeated = self._next_again()
        return None if repeated is None else self._send([repeated], now, alone=alone)

    def finished(self, bundle: Bundle[R], timings: Mapping[str, Timing]) -> tuple[list[str], list[Bundle[R]]]:
        """A bundle came back with results for these keys.

        Returns the keys whose result counts, because it is the first, and the bundles that nobody waits for any more.
        """
        self._land(bundle)
        self._paused = False
        new: list[str] = []
        touched: set[int] = set()
        for work in bundle.works:
            timing = timings.get(work.key)
            if timing is None:
                continue
            self.tempo.learn(work, timing.seconds, timing.parts)
            holders = self._flying.pop(work.key, None)
            if holders is not None:
                self._suspects.pop(work.key, None)
                new.append(work.key)
                touched |= holders
        useless = [
            self.in_flight[number]
            for number in sorted(touched & self.in_flight.keys())
            if not any(work.key in self._flying for work in self.in_flight[number].works)
        ]
        for late in useless:
            self._land(late)
        return new, useless

    def lost(self, bundle: Bundle[R], *, suspects: Collection[str] | None = None, certain: bool = False) -> list[Work[R]]:
        """A bundle's worker died. Its calls are sent again one by one; a call that does it again runs alone at the end.

        Most workers die of something else than their call, such as a machine that is taken away.

        Args:
            bundle: What was lost.
            suspects: Keys of the calls that were running when the worker died; None where that is not known.
            certain: Whether several workers died of this bundle already.

        Returns:
            The works that are given up, because their workers died `TRIES` times.
        """
        self._land(bundle)
        self._paused = False
        given_up: list[Work[R]] = []
        single = len(bundle.works) == 1
        for work in bundle.works:
            if work.key not in self._flying or self._flying[work.key]:
                continue  # it has a result, or another worker has it too
            suspect = single if suspects is None else work.key in suspects
            if not suspect:
                self._again.append(work)
                continue
            if work.key in self._suspects:
                continue
            self._deaths[work.key] = self._deaths.get(work.key, 0) + 1
            if bundle.alone and (certain or self._deaths[work.key] >= TRIES):
                del self._flying[work.key]
                given_up.append(work)
            elif self._deaths[work.key] < TRIES - 1 and not certain:
                self._again.append(work)
            else:
                self._suspects[work.key] = work
        return given_up

    def refused(self, bundle: Bundle[R]) -> None:
        """A bundle could not be sent or opened as a whole: its calls are sent one by one."""
        self._land(bundle)
        self._again.extend(work for work in bundle.works if self._flying.get(work.key) == set())

    def resume(self) -> None:
        """Results were read: works that came with them may be drawn."""
        self._paused = False

    def forget(self, key: str) -> None:
        """A call gets no result, and nobody waits for it."""
        self._flying.pop(key, None)

    # What the next bundle holds --------------------------------------------------------------------------------------------

    def _target(self, slots: int) -> float:
        """Seconds that the next bundle should last: less where little work is left for so many slots."""
        if self.expected is None:
            return self.pace.aim
        left = max(0.0, self.expected - self._drawn) * self.tempo.ratio
        return min(self.pace.aim, max(self.pace.least, left / (2 * self.pace.window * max(1, slots))))

    def _fill(self, slots: int) -> list[Work[R]]:
        """The next works of the source, as many as make a bundle."""
        most = min(self.pace.bundle_bytes, self.pace.flight_bytes // (self.pace.window * max(1, slots)))
        target = self._target(slots)
        works: list[Work[R]] = []
        seconds, size = 0.0, 0
        while (work := self._peek()) is not None:
            expected, is_measured = self.tempo.seconds(work), self.tempo.knows(work)
            if works:
                same = work.group is not None and work.group == works[-1].group
                room = target * (self.pace.stretch if same else 1.0)
                # A new group is begun only where at least half of the bundle is left for it.
                full = seconds + expected > room or (not same and work.group is not None and seconds > target / 2)
                if full or not is_measured or size + work.bytes > most:
                    break
            works.append(work)
            seconds, size = seconds + expected, size + work.bytes
            self._next = None
            self._drawn += sum(work.seconds.values())
            if not is_measured:
                break
        return works

    def _peek(self) -> Work[R] | None:
        if self._next is None and not self._exhausted and not self._paused:
            try:
                self._next = next(self._source)
            except StopIteration:
                self._exhausted = True
            else:
                self._paused = self._next is None
        return self._next

    def _send(self, works: list[Work[R]], now: float, *, alone: bool = False) -> Bundle[R]:
        self._count += 1
        seconds, size = sum(map(self.tempo.seconds, works)), sum(work.bytes for work in works)
        bundle = Bundle(number=self._count, works=tuple(works), sent=now, seconds=seconds, bytes=size, alone=alone)
        self.in_flight[bundle.number] = bundle
        self._alone = bundle.number if alone else self._alone
        for work in works:
            self._flying.setdefault(work.key, set()).add(bundle.number)
        return bundle

    def _land(self, bundle: Bundle[R]) -> None:
        self.in_flight.pop(bundle.number, None)
        for work in bundle.works:
            self._flying.get(work.key, set()).discard(bundle.number)

    def _next_again(self) -> Work[R] | None:
        while self._again:
            work = self._again.popleft()
            if work.key in self._flying and work.key not in self._suspects:  # else it has a result meanwhile
                return work
        return None

    def _repeat_late(self, slots: int, now: float) -> None:
        """Queues the calls of the bundle that is latest a second time, where nothing else is left to hand out."""
        if len(self.in_flight) >= slots:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        longest = max((bundle.seconds for bundle in self.in_flight.values()), default=0.0)

        def lateness(bundle: Bundle[R]) -> float:
            # Since a slot is idle, nothing waits any more: each of these runs, or a slow worker sits on it.
            begun = bundle.sent + (self.pace.window - 1) * longest
            if self._idle_since is not None:
                begun = min(begun, max(bundle.sent, self._idle_since))
            return now - begun - max(self.pace.patience, self.pace.late * bundle.seconds)

        def repeatable(bundle: Bundle[R]) -> list[Work[R]]:
            return [
                work
                for work in bundle.works
                if max(self._flying.get(work.key, ()), default=0) == bundle.number and self._repeats.get(work.key, 0) < TRIES
            ]

        latest = max((bundle for bundle in self.in_flight.values() if repeatable(bundle)), key=lateness, default=None)
        if latest is not None and lateness(latest) > 0:
            for work in repeatable(latest):
                self._repeats[work.key] = self._repeats.get(work.key, 0) + 1
                self._again.append(work)
