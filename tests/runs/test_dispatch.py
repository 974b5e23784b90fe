"""Dispatch, driven by a fake clock and fake workers: windows, bundles, lost and late workers."""

from __future__ import annotations

import heapq
import itertools

import pytest

from snellen.runs.dispatch import TRIES, Dispatch, Pace, Tempo, Timing, Work

PACE = Pace(aim=10.0, least=0.25, window=2)


def nothing(on_pass=None):
    return None


def works(count: int, *, expected: float = 1.0, kind: str = "kind", group_of=lambda number: None, size: int = 0):
    return [Work(f"{number}", nothing, {kind: expected}, group=group_of(number), bytes=size) for number in range(count)]


def simulate(dispatch: Dispatch, slots, seconds_of, *, most: int = 100_000):
    """Runs everything on workers that take `seconds_of(work, bundle)`; `slots` is a function of the time.

    Returns the bundles in the order in which they were sent, the keys in the order of their results, and the end.
    """
    now, sent, order, free_at = 0.0, [], [], []
    events: list[tuple[float, int]] = []
    for _ in range(most):
        while (bundle := dispatch.bundle(slots(now), now)) is not None:
            sent.append(bundle)
            while len(free_at) < slots(now):
                heapq.heappush(free_at, now)
            end = max(now, heapq.heappop(free_at)) + sum(seconds_of(work, bundle) for work in bundle.works)
            heapq.heappush(free_at, end)
            heapq.heappush(events, (end, bundle.number))
        if dispatch.done:
            return sent, order, now
        if events and events[0][0] <= now + 1:
            now, number = heapq.heappop(events)
            if number in dispatch.in_flight:
                bundle = dispatch.in_flight[number]
                timings = {work.key: Timing(seconds_of(work, bundle)) for work in bundle.works}
                order += dispatch.finished(bundle, timings)[0]
        else:
            now += 1
    raise AssertionError("it does not end")


def constant(seconds: float):
    return lambda work, bundle: seconds


@pytest.mark.parametrize("slots", [1, 2, 7, 40])
def test_twice_as_many_bundles_as_slots_are_in_flight(slots):
    dispatch = Dispatch(works(1000), pace=PACE)
    count = sum(1 for _ in iter(lambda: dispatch.bundle(slots, 0.0), None))
    assert count == 2 * slots == len(dispatch.in_flight)


def test_the_window_follows_workers_that_come_and_go():
    dispatch = Dispatch(works(100), pace=PACE)
    sent = [dispatch.bundle(1, 0.0) for _ in range(3)]
    assert [bundle is not None for bundle in sent] == [True, True, False]
    assert dispatch.bundle(2, 0.0) is not None  # a second worker joined
    assert dispatch.bundle(2, 0.0) is not None
    dispatch.finished(sent[0], {"0": Timing(1.0)})
    assert dispatch.bundle(1, 0.0) is None  # it left, and three are in flight


def test_a_call_of_which_nothing_is_known_travels_alone():
    dispatch = Dispatch(works(100), pace=PACE)
    assert all(len(dispatch.bundle(4, 0.0).works) == 1 for _ in range(8))


@pytest.mark.parametrize(("expected", "real"), [(1.0, 1.0), (0.001, 1.0), (100.0, 1.0), (3.0, 0.5)])
def test_bundles_last_as_long_as_they_should_whatever_was_expected(expected, real):
    dispatch = Dispatch(works(4000, expected=expected), expected=4000 * expected, pace=PACE)
    sent, order, _ = simulate(dispatch, lambda now: 4, constant(real))
    assert sorted(order, key=int) == [f"{number}" for number in range(4000)]
    middle = [len(bundle.works) * real for bundle in sent[20 : len(sent) // 2]]
    assert 0.8 * PACE.aim <= min(middle)
    assert max(middle) <= PACE.aim + real


def test_kinds_are_corrected_one_by_one():
    """Two kinds were expected to last the same, and one lasts a hundred times as long."""
    mixed = [Work(f"{n}", nothing, {("slow" if n % 2 else "fast"): 1.0}) for n in range(400)]
    dispatch = Dispatch(mixed, expected=400.0, pace=PACE)
    sent, _, _ = simulate(dispatch, lambda now: 2, lambda work, bundle: 2.0 if "slow" in work.seconds else 0.02)
    lasted = [sum(2.0 if "slow" in work.seconds else 0.02 for work in bundle.works) for bundle in sent[6:30]]
    assert all(6.0 < seconds <= 12.0 for seconds in lasted)


def test_parts_of_a_call_teach_about_each_kind():
    tempo = Tempo()
    both = Work("a", nothing, {"maps": 1.0, "metric": 1.0})
    assert not tempo.knows(both)
    tempo.learn(both, 10.0, {"maps": 1.0, "metric": 8.0})  # one second was neither
    assert tempo.seconds(Work("b", nothing, {"maps": 1.0})) == pytest.approx(10 / 9)
    assert tempo.seconds(Work("c", nothing, {"metric": 2.0})) == pytest.approx(2 * 80 / 9)
    assert tempo.seconds(Work("d", nothing, {"new": 1.0})) == pytest.approx(5.0, rel=0.01)  # as the others on average
    assert tempo.knows(Work("e", nothing, {"maps": 1.0, "new": 0.5}))
    assert not tempo.knows(Work("f", nothing, {"maps": 1.0, "new": 2.0}))


def test_a_group_stays_together():
    """Twelve calls of a group last 12 seconds: more than the aim, less than what a bundle may be stretched to."""
    grouped = works(240, group_of=lambda number: number // 12)
    sent, _, _ = simulate(Dispatch(grouped, expected=None, pace=PACE), lambda now: 2, constant(1.0))
    split = [bundle for bundle in sent[5:] if len({work.group for work in bundle.works}) > 1]
    whole = [bundle for bundle in sent[5:] if len(bundle.works) == 12 and len({work.group for work in bundle.works}) == 1]
    assert not split
    assert len(whole) >= 18


def test_workers_end_at_about_the_same_time():
    dispatch = Dispatch(works(4000), expected=4000.0, pace=PACE)
    sent, _, end = simulate(dispatch, lambda now: 16, constant(0.5))
    assert end < 1.03 * 4000 * 0.5 / 16
    assert [len(bundle.works) for bundle in sent[-16:]] == [1] * 16


def test_results_in_flight_are_bounded():
    for slots, calls in {1: 5, 2: 2, 50: 1}.items():  # 20 bytes per bundle; 40 in flight; one call each at least
        dispatch = Dispatch(works(1000, expected=0.001, size=4), pace=Pace(bundle_bytes=20, flight_bytes=40))
        dispatch.tempo.learn(works(1, expected=0.001)[0], 0.001)
        bundles = list(iter(lambda dispatch=dispatch, slots=slots: dispatch.bundle(slots, 0.0), None))
        assert [len(bundle.works) for bundle in bundles] == [calls] * 2 * slots


def test_a_bundle_whose_worker_died_is_split_and_the_culprit_is_given_up():
    dispatch = Dispatch(works(12), pace=PACE)
    dispatch.tempo.learn(works(1)[0], 1.0)
    fine, given_up, alone = [], [], []
    for now in itertools.count():
        bundle = dispatch.bundle(2, float(now))
        if bundle is None:
            break
        if any(work.key == "5" for work in bundle.works):
            alone += [bundle.alone] if len(bundle.works) == 1 else []
            given_up += [work.key for work in dispatch.lost(bundle)]
        else:
            fine += dispatch.finished(bundle, {work.key: Timing(1.0) for work in bundle.works})[0]
    assert given_up == ["5"]
    assert sorted(fine, key=int) == [f"{number}" for number in range(12) if number != 5]
    assert alone == [False] * (TRIES - 1) + [True]
    assert dispatch.done


def test_who_was_running_is_suspected_and_nobody_else():
    dispatch = Dispatch(works(3), pace=PACE)
    first, second, third = (dispatch.bundle(2, 0.0) for _ in range(3))
    for bundle in (first, second):
        assert not dispatch.lost(bundle, suspects={"0"}, certain=True)
    again = dispatch.bundle(2, 1.0)
    assert [work.key for work in again.works] == ["1"]
    assert not again.alone
    assert dispatch.bundle(2, 1.0) is None
    for bundle in (third, again):
        dispatch.finished(bundle, {work.key: Timing(1.0) for work in bundle.works})
    last = dispatch.bundle(2, 2.0)
    assert last.alone
    assert [work.key for work in last.works] == ["0"]
    assert dispatch.bundle(2, 2.0) is None  # nothing runs beside it
    assert [work.key for work in dispatch.lost(last, certain=True)] == ["0"]
    assert dispatch.done


def test_what_a_slow_worker_sits_on_is_repeated_at_the_end_and_the_first_result_counts():
    """One bundle of twenty gets a worker that hangs for an hour."""
    slow: set[int] = set()

    def seconds(work, bundle):
        if not slow and bundle.sent > 5:
            slow.add(bundle.number)
        return 3600.0 if bundle.number in slow else 0.5

    dispatch = Dispatch(works(200), expected=200.0, pace=Pace(patience=10.0))
    sent, order, end = simulate(dispatch, lambda now: 4, seconds)
    assert sorted(order, key=int) == [f"{number}" for number in range(200)]
    assert end < 3600
    keys = [work.key for bundle in sent for work in bundle.works]
    repeated = {key for key in keys if keys.count(key) > 1}
    assert repeated
    assert max(map(keys.count, repeated)) == 2
    assert dispatch.done


def test_what_runs_alone_is_repeated_too_where_its_worker_hangs():
    dispatch = Dispatch(works(1), pace=Pace(patience=10.0))
    first = dispatch.bundle(2, 0.0)
    assert not dispatch.lost(first, certain=True)
    alone = dispatch.bundle(2, 1.0)
    assert alone.alone
    assert dispatch.bundle(2, 5.0) is None
    again = dispatch.bundle(2, 60.0)
    assert again.alone
    assert [work.key for work in again.works] == ["0"]
    assert not dispatch.lost(again, certain=True)  # the other may still bring a result
    third = dispatch.bundle(2, 120.0)
    assert dispatch.finished(third, {"0": Timing(1.0)}) == (["0"], [alone])
    assert dispatch.done


def test_nothing_is_repeated_while_workers_are_only_busy():
    dispatch = Dispatch(works(60), expected=60.0, pace=Pace(patience=10.0))
    sent, order, _ = simulate(dispatch, lambda now: 4, lambda work, bundle: 1.0 + (int(work.key) % 7) / 7)
    assert len(order) == sum(len(bundle.works) for bundle in sent) == 60


def test_a_refused_bundle_is_sent_call_by_call():
    dispatch = Dispatch(works(10), pace=PACE)
    dispatch.tempo.learn(works(1)[0], 1.0)
    bundle = dispatch.bundle(1, 0.0)
    assert len(bundle.works) == 10
    dispatch.refused(bundle)
    assert [[work.key for work in dispatch.bundle(5, 0.0).works] for _ in range(10)] == [[f"{n}"] for n in range(10)]


def test_a_source_may_wait_for_results():
    """Rounds: what comes next is decided when results were read."""
    names = ["a"]

    def rounds():
        for name in names:
            yield Work(name, nothing, {"kind": 1.0})
            while len(names) < 3 and name == names[-1]:
                yield None

    dispatch = Dispatch(rounds(), pace=PACE)
    bundle = dispatch.bundle(2, 0.0)
    assert dispatch.bundle(2, 0.0) is None
    dispatch.finished(bundle, {"a": Timing(1.0)})
    names += ["b", "c"]
    dispatch.resume()
    assert [work.key for work in dispatch.bundle(2, 0.0).works] == ["b", "c"]


def test_growing_to_64_workers_keeps_them_busy():
    dispatch = Dispatch(works(5_000), expected=5_000.0, pace=PACE)
    sent, _, end = simulate(dispatch, lambda now: 64 if now > 50 else 8, constant(1.0))
    ideal = 50 + (5_000 - 8 * 50) / 64
    assert end < 1.2 * ideal
    assert sum(len(bundle.works) for bundle in sent) == 5_000
