"""A rule as a tree of tests: the label that it comes to, by which tests, and about which things these ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from snellen.textbox.scenes.objects import Shown


@dataclass(frozen=True)
class Present:
    """Whether a thing is there."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Kind:
    """Whether a thing is of this kind; no answer where it is not there."""

    name: str
    kind: str
    same: bool = True

    def __str__(self) -> str:
        return f'{self.name} {"==" if self.same else "!="} "{self.kind}"'


@dataclass(frozen=True)
class Not:
    """The other answer."""

    test: Test

    def __str__(self) -> str:
        return f"not ({self.test})" if isinstance(self.test, Several) else f"not {self.test}"


@dataclass(frozen=True)
class Several:
    """All of several tests, or any of them, as one test."""

    tests: tuple[Test, ...]
    every: bool

    def __str__(self) -> str:
        parts = (f"({test})" if isinstance(test, Several) else str(test) for test in self.tests)
        return (" and " if self.every else " or ").join(parts)


Test = Present | Kind | Not | Several


@dataclass(frozen=True)
class Choice:
    """One way or the other, as a test says; without the other way, undefined there."""

    test: Test
    then: Node
    otherwise: Node | None


Node = Choice | Test | int


def follow(node: Node | None, shown: Shown) -> tuple[int | None, list[tuple[Test, bool]]]:
    """The label of a bucket, and the tests on the way to it with their answers."""
    way: list[tuple[Test, bool]] = []
    while True:
        if node is None or isinstance(node, int):
            return node, way
        test = node.test if isinstance(node, Choice) else node
        met = _answer(test, shown)
        if met is None:
            return None, way
        way.append((test, met))
        if not isinstance(node, Choice):
            return int(met), way
        node = node.then if met else node.otherwise


def _answer(test: Test, shown: Shown) -> bool | None:
    """Whether a test is met; None where that cannot be said, and hangs on it."""
    if isinstance(test, Present):
        return shown[test.name] is not None
    if isinstance(test, Kind):
        kind = shown[test.name]
        return None if kind is None else (kind == test.kind) is test.same
    if isinstance(test, Not):
        found = _answer(test.test, shown)
        return None if found is None else not found
    answers = [_answer(one, shown) for one in test.tests]
    if (not test.every) in answers:
        return not test.every
    return None if None in answers else test.every


def looked_at(test: Test, met: bool) -> set[str]:
    """What a test puts into focus where it is there."""
    while isinstance(test, Not):
        test, met = test.test, not met
    return asked(test) if met else asked(test, compared=True)


def asked(test: Test, *, compared: bool = False) -> set[str]:
    """The things that a test asks about, or only those that it compares."""
    if isinstance(test, Not):
        return asked(test.test, compared=compared)
    if isinstance(test, Several):
        return {name for one in test.tests for name in asked(one, compared=compared)}
    return {test.name} if isinstance(test, Kind) or not compared else set()


def tests_of(node: Node | None) -> Iterator[tuple[Test, bool]]:
    """Every test of a rule, and whether it is the last of a list of cases, which may stand for all that is left."""
    if isinstance(node, Choice):
        yield node.test, node.otherwise is None
        yield from tests_of(node.then)
        yield from tests_of(node.otherwise)
    elif node is not None and not isinstance(node, int):
        yield node, False
