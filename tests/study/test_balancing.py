from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.study.making.balancing import pick

# Each one: its number, its group, how often it was used, its class and its band.
One = tuple[int, bool, int, int, int]
pools = st.lists(
    st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=9
).map(lambda some: [(place, *candidate) for place, candidate in enumerate(some)])


def _cost(some: list[One]) -> tuple[int, int, int]:
    even = [sum(count**2 for count in Counter(candidate[place] for candidate in some).values()) for place in (3, 4)]
    return sum(candidate[2] for candidate in some), even[0], even[1]


def _picked(pool: list[One], needs: dict[bool, int]) -> list[One]:
    return pick(
        pool,
        needs,
        group=lambda candidate: candidate[1],
        reuse=lambda candidate: candidate[2],
        over=[lambda candidate: candidate[3], lambda candidate: candidate[4]],
    )


@given(pools, st.data())
def test_nothing_is_more_even_than_what_is_picked(pool: list[One], data: st.DataObject) -> None:
    there = Counter(candidate[1] for candidate in pool)
    needs = {group: data.draw(st.integers(0, count)) for group, count in there.items()}
    picked = _picked(pool, needs)
    assert Counter(candidate[1] for candidate in picked) == Counter(
        {group: count for group, count in needs.items() if count}
    )
    assert len(set(picked)) == len(picked)
    every = [
        _cost(list(some))
        for some in combinations(pool, sum(needs.values()))
        if all(sum(candidate[1] == group for candidate in some) == count for group, count in needs.items())
    ]
    assert _cost(picked)[:2] == min(every)[:2]
    # Later traits are as even as exchanging one for another can make them.
    for out in picked:
        for other in set(pool) - set(picked):
            if other[1] == out[1]:
                assert _cost(picked) <= _cost([other if here == out else here for here in picked])


def test_a_class_passes_from_one_group_to_the_other_where_no_single_exchange_helps() -> None:
    pool = [(0, False, 0, 2, 0), (1, True, 0, 1, 0), (2, True, 0, 1, 0), (3, False, 0, 0, 0), (4, True, 0, 2, 0)]
    assert {candidate[3] for candidate in _picked(pool, {False: 1, True: 2})} == {0, 1, 2}


def test_thousands_of_images_are_no_burden() -> None:
    pool = [(place, place % 3 > 0, 0, place % 1000, place % 7 % 3) for place in range(30_000)]
    picked = _picked(pool, {False: 12, True: 12})
    assert len({candidate[3] for candidate in picked}) == 24
    assert set(Counter(candidate[4] for candidate in picked).values()) == {8}


def test_more_than_there_are_cannot_be_picked() -> None:
    with pytest.raises(ValueError, match="there are 1"):
        pick(["a"], {True: 2}, group=lambda candidate: True)
