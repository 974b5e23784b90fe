"""Choosing elements of a pool so that every kind comes equally often, as far as there are enough of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")
Trait = Callable[[T], Hashable]

Kind = tuple[Hashable, int, tuple[Hashable, ...]]
"""Group, reuse and traits of an element; elements of the same kind are interchangeable."""


def pick(
    pool: Sequence[T],
    needs: Mapping[Hashable, int],
    *,
    group: Trait[T],
    reuse: Callable[[T], int] = lambda element: 0,
    over: Sequence[Trait[T]] = (),
) -> list[T]:
    """Picks as many elements of every group as needed, with the least reuse, and then as evenly over the traits as possible.

    The first trait counts most: the second is made even only where that costs the first nothing. Even means the least sum of
    squared counts. That is reached for reuse and the first trait; a later one is so even that no exchange of one for
    another would help. Among equals, those that stand first in the pool are taken: a shuffled pool makes a random choice.

    >>> pick(["cat 1", "cat 2", "dog 1", "dog 2"], {True: 2}, group=lambda pet: True, over=[lambda pet: pet[:3]])
    ['cat 1', 'dog 1']
    """
    left: dict[Kind, list[T]] = defaultdict(list)
    for element in pool:
        left[group(element), reuse(element), tuple(trait(element) for trait in over)].append(element)
    available: Counter[Hashable] = Counter()
    for kind, elements in left.items():
        available[kind[0]] += len(elements)
    for name, need in needs.items():
        if available[name] < need:
            raise ValueError(f"{need} of {name!r} are needed, and there are {available[name]}")
    balance = _Balance(left, len(over))
    for name in sorted(needs, key=lambda name: available[name] - needs[name]):  # those with the least choice come first
        for _ in range(needs[name]):
            free = [kind for kind in left if kind[0] == name and balance.left[kind]]
            balance.put(min(free, key=lambda kind: balance.cost([(None, kind)])))
    while (better := next(balance.gains(), None)) is not None:
        balance.move(better)
    return [element for kind, elements in left.items() for element in elements[: balance.taken[kind]]]


Move = tuple[Kind | None, Kind]
"""An exchange: an element of the first kind, if any, is put back, and one of the second kind is picked."""


class _Balance:
    """How many of every kind are picked, and what an exchange would change."""

    def __init__(self, pool: Mapping[Kind, Sequence[object]], traits: int) -> None:
        self.left = Counter({kind: len(elements) for kind, elements in pool.items()})
        self.taken: Counter[Kind] = Counter()
        self.counts: list[Counter[Hashable]] = [Counter() for _ in range(traits)]

    def put(self, kind: Kind, times: int = 1) -> None:
        self.left[kind] -= times
        self.taken[kind] += times
        for counts, trait in zip(self.counts, kind[2], strict=True):
            counts[trait] += times

    def move(self, moves: Sequence[Move]) -> None:
        for back, taken in moves:
            if back is not None:
                self.put(back, -1)
            self.put(taken)

    def cost(self, moves: Sequence[Move]) -> tuple[int, ...]:
        """By how much reuse and uneven traits would grow, in the order in which they count."""
        reuse = sum(taken[1] - (back[1] if back else 0) for back, taken in moves)
        result = [reuse]
        for place, counts in enumerate(self.counts):
            change: Counter[Hashable] = Counter()
            for back, taken in moves:
                change[taken[2][place]] += 1
                if back is not None:
                    change[back[2][place]] -= 1
            result.append(sum(step * (2 * counts[trait] + step) for trait, step in change.items()))
        return tuple(result)

    def gains(self) -> Iterator[list[Move]]:
        """Exchanges that make it better: one for another, or one in each of two groups where those depend on each other."""
        nothing = (0,) * (1 + len(self.counts))
        single = list(self._exchanges())
        for exchange in single:
            if self.cost([exchange]) < nothing:
                yield [exchange]
        if not self.counts or max(self.counts[0].values(), default=0) < 2:
            return
        # A trait can pass from one group to another: what goes back in one group comes in again in the other.
        by_trait: dict[Hashable, list[Move]] = defaultdict(list)
        for exchange in single:
            by_trait[exchange[1][2][0]].append(exchange)
        for exchange in single:
            assert exchange[0] is not None
            for other in by_trait[exchange[0][2][0]]:
                if other[1][0] != exchange[1][0] and self.cost([exchange, other]) < nothing:
                    yield [exchange, other]

    def _exchanges(self) -> Iterator[tuple[Kind, Kind]]:
        free: dict[Hashable, list[Kind]] = defaultdict(list)
        for kind, count in self.left.items():
            if count:
                free[kind[0]].append(kind)
        for back, count in self.taken.items():
            if count:
                yield from ((back, taken) for taken in free[back[0]])
