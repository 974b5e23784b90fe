"""Rules: from one line of text to the label of every bucket, and to what a map should focus on and avoid there.

A rule is made of tests. `box1` asks whether the thing is there, `text == "B"` which of its kinds is shown; `not`, `and` and
`or` make one of several. `if TEST: … elif TEST: … else: …`, or `… if TEST else …`, chooses; at the end stands a label, a
number, or a test whose answer is the label. What is truly looked at follows from the tests on the way to the label:

- a test that is met puts the things that it asks about, where they are there, into focus;
- a test that is not met puts nothing there, and leaves its things neutral; `not` only turns the answer round;
- a comparison puts a thing that is there into focus, whichever kind it is;
- a thing that no test on the way asks about is to be avoided.

Comparing a thing that is not there has no answer, and a bucket whose label hangs on it is undefined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from snellen.errors import SnellenError
from snellen.textbox.things import Shown, Thing, buckets


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
        return f"not ({self.test})" if isinstance(self.test, Both) else f"not {self.test}"


@dataclass(frozen=True)
class Both:
    """All of several tests, or any of them, as one test."""

    tests: tuple[Test, ...]
    every: bool

    def __str__(self) -> str:
        parts = (f"({one})" if isinstance(one, Both) else str(one) for one in self.tests)
        return (" and " if self.every else " or ").join(parts)


Test = Present | Kind | Not | Both


@dataclass(frozen=True)
class Choice:
    """One way or the other, as a test says; without the other way, undefined there."""

    test: Test
    then: Node
    otherwise: Node | None


Node = Choice | Test | int


@dataclass(frozen=True)
class Truth:
    """What a rule says of one bucket: its label, and the things that are there and looked at, or not."""

    label: int | None
    focus: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Rule:
    """A rule over things: what it says of every bucket. Made by `Rule.read`."""

    text: str
    things: tuple[Thing, ...]
    tree: Node

    @staticmethod
    def read(text: str, things: Sequence[Thing]) -> Rule:
        """Reads and checks a rule; one that cannot be learnt, or speaks of what is not there, is refused in a sentence."""
        rule = Rule(" ".join(text.split()), tuple(things), _Reader(text, things).rule())
        rule._check()
        return rule

    @cached_property
    def truths(self) -> tuple[Truth, ...]:
        """Of all buckets, in the order of their numbers."""
        return tuple(self._truth(shown) for shown in buckets(self.things))

    @property
    def labels(self) -> tuple[int | None, ...]:
        """Of all buckets, None where the rule leaves it open."""
        return tuple(one.label for one in self.truths)

    @property
    def defined(self) -> tuple[int, ...]:
        """The numbers, from 1, of the buckets that have a label."""
        return tuple(number for number, label in enumerate(self.labels, 1) if label is not None)

    @property
    def classes(self) -> int:
        """How many labels there are, counted from 0."""
        return 1 + max(label for label in self.labels if label is not None)

    @property
    def simple(self) -> bool:
        """Whether it asks about one thing only."""
        return len({name for test, _ in _tests(self.tree) for name in _asked(test)}) == 1

    def _truth(self, shown: Shown) -> Truth:
        label, way = _follow(self.tree, shown)
        if label is None:
            return Truth(None)
        there = {name for name, kind in shown.items() if kind is not None}
        focus = {name for test, met in way for name in _looked_at(test, met)}
        asked = {name for test, _ in way for name in _asked(test)}
        return Truth(label, frozenset(there & focus), frozenset(there - asked))

    def _check(self) -> None:
        answers: dict[int, set[bool]] = {}
        for shown in buckets(self.things):
            for test, met in _follow(self.tree, shown)[1]:
                answers.setdefault(id(test), set()).add(met)
        for test, last in _tests(self.tree):
            found = answers.get(id(test), set())
            if not found:
                raise SnellenError(f"the rule '{self.text}' contradicts itself: nothing ever comes to '{test}'")
            if len(found) == 1 and not (last and found == {True}):
                word = "always" if found.pop() else "never"
                raise SnellenError(
                    f"the rule '{self.text}' contradicts itself: when it comes to '{test}', that is {word} so"
                )
        labels = {label for label in self.labels if label is not None}
        if not labels:
            raise SnellenError(f"the rule '{self.text}' leaves the label of every bucket undefined")
        if len(labels) == 1:
            raise SnellenError(f"the rule '{self.text}' gives every picture the label {labels.pop()}: nothing to be learnt")
        if labels != set(range(len(labels))):
            raise SnellenError(f"the labels of a rule are 0, 1, … without gaps, not {', '.join(map(str, sorted(labels)))}")


def _follow(node: Node | None, shown: Shown) -> tuple[int | None, list[tuple[Test, bool]]]:
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


def _looked_at(test: Test, met: bool) -> set[str]:
    """What a test puts into focus where it is there."""
    while isinstance(test, Not):
        test, met = test.test, not met
    return _asked(test) if met else _asked(test, compared=True)


def _asked(test: Test, *, compared: bool = False) -> set[str]:
    """The things that a test asks about, or only those that it compares."""
    if isinstance(test, Not):
        return _asked(test.test, compared=compared)
    if isinstance(test, Both):
        return {name for one in test.tests for name in _asked(one, compared=compared)}
    return {test.name} if isinstance(test, Kind) or not compared else set()


def _tests(node: Node | None) -> Iterator[tuple[Test, bool]]:
    """Every test of a rule, and whether it is the last of a list of cases, which may stand for all that is left."""
    if isinstance(node, Choice):
        yield node.test, node.otherwise is None
        yield from _tests(node.then)
        yield from _tests(node.otherwise)
    elif node is not None and not isinstance(node, int):
        yield node, False


# Reading ------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"""\s*(?:([A-Za-z_][\w-]*)|(\d+)|(==|!=|=|[():;&|]|"[^"]*"|'[^']*'))""")
_WORDS = {"if", "elif", "else", "and", "or", "not", "otherwise"}
_ALIKE = {"&": "and", "|": "or", "otherwise": "else"}


class _Reader:
    """Reads a rule word by word, the longest construction first."""

    def __init__(self, text: str, things: Sequence[Thing]) -> None:
        self.text = " ".join(text.split())
        self.things: Mapping[str, Thing] = {one.name: one for one in things}
        self.words = [_ALIKE.get(one, one) for one in self._split(text)]
        self.at = 0

    def rule(self) -> Node:
        if self._next(1) == "=" and self._next() not in _WORDS:  # `label = …`
            self.at += 2
        node = self._node()
        if self._next() is not None:
            raise self._wrong("the end")
        return node

    def _node(self) -> Node:
        self._skip()
        if self._took("if"):
            return self._choice()
        found = self._leaf()
        if not self._took("if"):
            return found
        test = self._any()
        self._want("else")
        return Choice(test, found, self._node())

    def _choice(self) -> Choice:
        test = self._any()
        self._want(":")
        then = self._node()
        self._skip()
        if self._took("elif"):
            return Choice(test, then, self._choice())
        if not self._took("else"):
            return Choice(test, then, None)
        self._took(":")
        return Choice(test, then, self._node())

    def _leaf(self) -> Node:
        word = self._next()
        if word is not None and word.isdigit():
            self.at += 1
            return int(word)
        if word == "(" and self._next(1) == "if":
            self.at += 1
            found = self._node()
            self._want(")")
            return found
        return self._any()

    def _any(self) -> Test:
        return self._several("or", self._all)

    def _all(self) -> Test:
        return self._several("and", self._one)

    def _several(self, word: str, part: Callable[[], Test]) -> Test:
        found = [part()]
        while self._took(word):
            found.append(part())
        return found[0] if len(found) == 1 else Both(tuple(found), every=word == "and")

    def _one(self) -> Test:
        if self._took("not"):
            return Not(self._one())
        if self._took("("):
            found = self._any()
            self._want(")")
            return found
        name = self._next()
        if name is None or name in _WORDS or not (name[0].isalpha() or name[0] == "_"):
            raise self._wrong("the name of a thing")
        self.at += 1
        if name not in self.things:
            raise SnellenError(f"the rule '{self.text}' speaks of '{name}', but the scenes hold {_listed(self.things)}")
        for word, same in (("==", True), ("!=", False)):
            if self._took(word):
                return Kind(name, self._kind(self.things[name]), same)
        return Present(name)

    def _kind(self, thing: Thing) -> str:
        word = self._next()
        if word is None or word in _WORDS or not (word[0].isalnum() or word[0] in "\"'"):
            raise self._wrong(f"a kind of {thing.name}")
        self.at += 1
        kind = word.strip("\"'")
        if len(thing.kinds) < 2:
            raise SnellenError(f"'{thing.name}' is of one kind only; ask '{thing.name}' alone whether it is there")
        if kind not in thing.kinds:
            raise SnellenError(f"'{thing.name}' is {_listed(thing.kinds, 'or')}, never '{kind}'")
        return kind

    def _split(self, text: str) -> list[str]:
        words, at = [], 0
        text = text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise SnellenError(f"the rule '{self.text}' cannot be read at '{text[at:].strip()}'")
            words.append(found.group(found.lastindex or 0))
            at = found.end()
        return words

    def _next(self, ahead: int = 0) -> str | None:
        return self.words[self.at + ahead] if self.at + ahead < len(self.words) else None

    def _took(self, word: str) -> bool:
        if self._next() != word:
            return False
        self.at += 1
        return True

    def _skip(self) -> None:
        while self._took(";"):
            pass

    def _want(self, word: str) -> None:
        if not self._took(word):
            raise self._wrong(f"'{word}'")

    def _wrong(self, wanted: str) -> SnellenError:
        found = self._next()
        where = "at its end" if found is None else f"at '{found}'"
        return SnellenError(f"the rule '{self.text}' cannot be read {where}: {wanted} should stand there")


def _listed(names: Sequence[str] | Mapping[str, object], word: str = "and") -> str:
    *rest, last = names
    return f"{', '.join(rest)} {word} {last}" if rest else str(last)
