"""A rule as a tree of tests: the label that it gives, the tests on the way, and the objects that these ask about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from snellen.textbox.scenes.objects import Contents


@dataclass(frozen=True)
class IsShown:
    """Whether an object is shown."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class IsKind:
    """Whether an object is of this kind, or, with `equal=False`, of another; undefined where it is not shown."""

    name: str
    kind: str
    equal: bool = True

    def __str__(self) -> str:
        return f'{self.name} {"==" if self.equal else "!="} "{self.kind}"'


@dataclass(frozen=True)
class Not:
    """The negation of a test."""

    test: Test

    def __str__(self) -> str:
        return f"not ({self.test})" if isinstance(self.test, Combined) else f"not {self.test}"


@dataclass(frozen=True)
class Combined:
    """All of several tests (`every`), or any of them, as one test."""

    tests: tuple[Test, ...]
    every: bool

    def __str__(self) -> str:
        parts = (f"({test})" if isinstance(test, Combined) else str(test) for test in self.tests)
        return (" and " if self.every else " or ").join(parts)


Test = IsShown | IsKind | Not | Combined


@dataclass(frozen=True)
class IfElse:
    """A choice: one branch where a test is met, another where it is not; without the other, the label is undefined there."""

    test: Test
    then: Node
    otherwise: Node | None


Node = IfElse | Test | int


def follow(node: Node | None, contents: Contents) -> tuple[int | None, list[tuple[Test, bool]]]:
    """The label of a bucket, and the tests on the way to it with their results; None where it is undefined."""
    way: list[tuple[Test, bool]] = []
    while True:
        if node is None or isinstance(node, int):
            return node, way
        test = node.test if isinstance(node, IfElse) else node
        is_met = _evaluate(test, contents)
        if is_met is None:
            return None, way
        way.append((test, is_met))
        if not isinstance(node, IfElse):
            return int(is_met), way
        node = node.then if is_met else node.otherwise


def _evaluate(test: Test, contents: Contents) -> bool | None:
    """Whether a test is met; None where that is undefined and the result depends on it."""
    if isinstance(test, IsShown):
        return contents[test.name] is not None
    if isinstance(test, IsKind):
        kind = contents[test.name]
        return None if kind is None else (kind == test.kind) is test.equal
    if isinstance(test, Not):
        result = _evaluate(test.test, contents)
        return None if result is None else not result
    results = [_evaluate(part, contents) for part in test.tests]
    if (not test.every) in results:
        return not test.every
    return None if None in results else test.every


def focused_objects(test: Test, is_met: bool) -> set[str]:
    """The objects that a test looks at, where they are shown."""
    while isinstance(test, Not):
        test, is_met = test.test, not is_met
    return objects_in_test(test, compared_only=not is_met)


def objects_in_test(test: Test, *, compared_only: bool = False) -> set[str]:
    """The objects that a test asks about, or only those whose kind it compares."""
    if isinstance(test, Not):
        return objects_in_test(test.test, compared_only=compared_only)
    if isinstance(test, Combined):
        return {name for part in test.tests for name in objects_in_test(part, compared_only=compared_only)}
    return {test.name} if isinstance(test, IsKind) or not compared_only else set()


def tests_of(node: Node | None) -> Iterator[tuple[Test, bool]]:
    """Every test of a rule, and whether it is the last of a list of cases, which may cover all that is left."""
    if isinstance(node, IfElse):
        yield node.test, node.otherwise is None
        yield from tests_of(node.then)
        yield from tests_of(node.otherwise)
    elif node is not None and not isinstance(node, int):
        yield node, False
