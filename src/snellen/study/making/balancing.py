"""Choosing elements of a pool so that every kind comes equally often, as far as there are enough of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Trait = Callable[[T], Hashable]


class ElementKind(NamedTuple):
    """Elements of the same kind are interchangeable."""

    group: Hashable
    """Elements are exchanged within a group only."""
    reuse: int
    """How often the element was chosen before."""
    traits: tuple[Hashable, ...]
    """The values over which the choice is to be even."""


class Exchange(NamedTuple):
    """An element of one kind, if any, is put back, and an element of another kind of the same group is picked."""

    back: ElementKind | None
    picked: ElementKind


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
    squared counts. That is reached for reuse and the first trait; a later trait is so even that no single exchange would
    help. Among equals, those that come first in the pool are picked: a shuffled pool makes a random choice.

    Args:
        pool: The elements to pick from.
        needs: By group, how many to pick.
        group: The group of an element.
        reuse: How often an element was chosen before.
        over: The traits over which the choice is to be even, the most important first.

    >>> pick(["cat 1", "cat 2", "dog 1", "dog 2"], {True: 2}, group=lambda pet: True, over=[lambda pet: pet[:3]])
    ['cat 1', 'dog 1']
    """
    by_kind: dict[ElementKind, list[T]] = defaultdict(list)
    for element in pool:
        by_kind[ElementKind(group(element), reuse(element), tuple(trait(element) for trait in over))].append(element)
    available: Counter[Hashable] = Counter()
    for kind, elements in by_kind.items():
        available[kind.group] += len(elements)
    for name, need in needs.items():
        if available[name] < need:
            raise ValueError(f"{need} of {name!r} are needed, and there are {available[name]}")
    balance = _Balance(by_kind, len(over))
    for name in sorted(needs, key=lambda name: available[name] - needs[name]):  # those with the least choice come first
        for _ in range(needs[name]):
            free = [kind for kind in by_kind if kind.group == name and balance.left[kind]]
            balance.pick(min(free, key=lambda kind: balance.cost([Exchange(None, kind)])))
    while (exchanges := next(balance.gains(), None)) is not None:
        balance.apply(exchanges)
    return [element for kind, elements in by_kind.items() for element in elements[: balance.picked[kind]]]


class _Balance:
    """How many of every kind are picked, and what an exchange would change."""

    def __init__(self, pool: Mapping[ElementKind, Sequence[object]], traits: int) -> None:
        self.left = Counter({kind: len(elements) for kind, elements in pool.items()})
        self.picked: Counter[ElementKind] = Counter()
        self.counts: list[Counter[Hashable]] = [Counter() for _ in range(traits)]
        """By trait and its value, how many are picked."""

    def pick(self, kind: ElementKind, count: int = 1) -> None:
        """Picks elements of a kind; a negative count puts them back."""
        self.left[kind] -= count
        self.picked[kind] += count
        for counts, trait in zip(self.counts, kind.traits, strict=True):
            counts[trait] += count

    def apply(self, exchanges: Sequence[Exchange]) -> None:
        """Makes the exchanges."""
        for exchange in exchanges:
            if exchange.back is not None:
                self.pick(exchange.back, -1)
            self.pick(exchange.picked)

    def cost(self, exchanges: Sequence[Exchange]) -> tuple[int, ...]:
        """By how much reuse and uneven traits would grow, in the order in which they count."""
        result = [sum(picked.reuse - (back.reuse if back else 0) for back, picked in exchanges)]
        for index, counts in enumerate(self.counts):
            change: Counter[Hashable] = Counter()
            for back, picked in exchanges:
                change[picked.traits[index]] += 1
                if back is not None:
                    change[back.traits[index]] -= 1
            result.append(sum(step * (2 * counts[trait] + step) for trait, step in change.items()))
        return tuple(result)

    def gains(self) -> Iterator[list[Exchange]]:
        """Exchanges that make the choice better: a single one, or two in different groups that share a trait."""
        nothing = (0,) * (1 + len(self.counts))
        single = list(self._exchanges())
        for exchange in single:
            if self.cost([exchange]) < nothing:
                yield [exchange]
        if not self.counts or max(self.counts[0].values(), default=0) < 2:
            return
        # A trait can pass from one group to another: what is put back in one group is picked in the other.
        by_trait: dict[Hashable, list[Exchange]] = defaultdict(list)
        for exchange in single:
            by_trait[exchange.picked.traits[0]].append(exchange)
        for exchange in single:
            assert exchange.back is not None
            for other in by_trait[exchange.back.traits[0]]:
                if other.picked.group != exchange.picked.group and self.cost([exchange, other]) < nothing:
                    yield [exchange, other]

    def _exchanges(self) -> Iterator[Exchange]:
        """Every exchange within a group."""
        free: dict[Hashable, list[ElementKind]] = defaultdict(list)
        for kind, count in self.left.items():
            if count:
                free[kind.group].append(kind)
        for back, count in self.picked.items():
            if count:
                yield from (Exchange(back, picked) for picked in free[back.group])
