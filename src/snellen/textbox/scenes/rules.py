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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from snellen.errors import SnellenError
from snellen.textbox.scenes.objects import SceneObject, Shown, buckets
from snellen.textbox.scenes.rule_parser import read_tree
from snellen.textbox.scenes.rule_trees import Node, asked, follow, looked_at, tests_of


@dataclass(frozen=True)
class Truth:
    """What a rule says of one bucket: its label, and the things that are there and looked at, or not."""

    label: int | None
    focus: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SceneRule:
    """A rule over things: what it says of every bucket. Made by `Rule.read`."""

    text: str
    objects: tuple[SceneObject, ...]
    tree: Node

    @staticmethod
    def read(text: str, objects: Sequence[SceneObject]) -> SceneRule:
        """Reads and checks a rule; one that cannot be learnt, or speaks of what is not there, is refused in a sentence."""
        rule = SceneRule(" ".join(text.split()), tuple(objects), read_tree(text, objects))
        rule._check()
        return rule

    @cached_property
    def truths(self) -> tuple[Truth, ...]:
        """Of all buckets, in the order of their numbers."""
        return tuple(self._truth(shown) for shown in buckets(self.objects))

    @property
    def labels(self) -> tuple[int | None, ...]:
        """Of all buckets, None where the rule leaves it open."""
        return tuple(truth.label for truth in self.truths)

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
        return len({name for test, _ in tests_of(self.tree) for name in asked(test)}) == 1

    def _truth(self, shown: Shown) -> Truth:
        label, way = follow(self.tree, shown)
        if label is None:
            return Truth(None)
        there = {name for name, kind in shown.items() if kind is not None}
        focus = {name for test, met in way for name in looked_at(test, met)}
        relevant = {name for test, _ in way for name in asked(test)}
        return Truth(label, frozenset(there & focus), frozenset(there - relevant))

    def _check(self) -> None:
        answers: dict[int, set[bool]] = {}
        for shown in buckets(self.objects):
            for test, met in follow(self.tree, shown)[1]:
                answers.setdefault(id(test), set()).add(met)
        for test, last in tests_of(self.tree):
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
