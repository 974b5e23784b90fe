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
).map(lambda some: [(place, *one) for place, one in enumerate(some)])


def _cost(some: list[One]) -> tuple[int, int, int]:
    even = [sum(count**2 for count in Counter(one[place] for one in some).values()) for place in (3, 4)]
    return sum(one[2] for one in some), even[0], even[1]


def _picked(pool: list[One], needs: dict[bool, int]) -> list[One]:
    return pick(
        pool, needs, group=lambda one: one[1], reuse=lambda one: one[2], over=[lambda one: one[3], lambda one: one[4]]
    )


@given(pools, st.data())
def test_nothing_is_more_even_than_what_is_picked(pool: list[One], data: st.DataObject) -> None:
    there = Counter(one[1] for one in pool)
    needs = {group: data.draw(st.integers(0, count)) for group, count in there.items()}
    found = _picked(pool, needs)
    assert Counter(one[1] for one in found) == Counter({group: count for group, count in needs.items() if count})
    assert len(set(found)) == len(found)
    every = [
        _cost(list(some))
        for some in combinations(pool, sum(needs.values()))
        if all(sum(one[1] == group for one in some) == count for group, count in needs.items())
    ]
    assert _cost(found)[:2] == min(every)[:2]
    # Later traits are as even as exchanging one for another can make them.
    for out in found:
        for one in set(pool) - set(found):
            if one[1] == out[1]:
                assert _cost(found) <= _cost([one if here == out else here for here in found])


def test_a_class_passes_from_one_group_to_the_other_where_no_single_exchange_helps() -> None:
    pool = [(0, False, 0, 2, 0), (1, True, 0, 1, 0), (2, True, 0, 1, 0), (3, False, 0, 0, 0), (4, True, 0, 2, 0)]
    assert {one[3] for one in _picked(pool, {False: 1, True: 2})} == {0, 1, 2}


def test_thousands_of_images_are_no_burden() -> None:
    pool = [(place, place % 3 > 0, 0, place % 1000, place % 7 % 3) for place in range(30_000)]
    found = _picked(pool, {False: 12, True: 12})
    assert len({one[3] for one in found}) == 24
    assert set(Counter(one[4] for one in found).values()) == {8}


def test_more_than_there_are_cannot_be_picked() -> None:
    with pytest.raises(ValueError, match="there are 1"):
        pick(["a"], {True: 2}, group=lambda one: True)
