"""Rules: from one line of text to the label of every bucket, and to what a map should focus on and avoid there.

A rule is made of tests. `box1` asks whether the object is shown, `text == "B"` which of its kinds; `not`, `and` and `or`
combine tests. `if TEST: … elif TEST: … else: …`, or `… if TEST else …`, chooses; at the end stands a label: a number, or a
test whose result is the label. What the rule looks at follows from the tests on the way to the label:

- a test that is met puts the objects that it asks about, where they are shown, into focus;
- a test that is not met puts nothing into focus, and leaves its objects neutral; `not` only inverts the result;
- a comparison puts an object that is shown into focus, whichever kind it is;
- an object that no test on the way asks about is to be avoided.

Comparing an object that is not shown is undefined, and so is a bucket whose label depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from snellen.errors import SnellenError
from snellen.textbox.scenes.objects import Contents, SceneObject, bucket_contents
from snellen.textbox.scenes.rule_parser import read_tree
from snellen.textbox.scenes.rule_trees import Node, focused_objects, follow, objects_in_test, tests_of


@dataclass(frozen=True)
class Truth:
    """What a rule says of one bucket: its label, and which of the objects shown it looks at and which it ignores."""

    label: int | None
    """None where the rule leaves the bucket undefined."""
    focus: frozenset[str] = frozenset()
    """Names of the objects that the rule looks at."""
    avoid: frozenset[str] = frozenset()
    """Names of the objects that no test on the way asks about."""


@dataclass(frozen=True)
class SceneRule:
    """A rule about objects: what it says of every bucket. Made by `SceneRule.read`."""

    text: str
    """In one line."""
    objects: tuple[SceneObject, ...]
    """All objects of the scenes, in the order in which buckets are counted."""
    tree: Node
    """The rule, parsed."""

    @staticmethod
    def read(text: str, objects: Sequence[SceneObject]) -> SceneRule:
        """Reads and checks a rule; one that cannot be learnt, or names objects that do not exist, is refused."""
        rule = SceneRule(" ".join(text.split()), tuple(objects), read_tree(text, objects))
        rule._check()
        return rule

    @cached_property
    def truths(self) -> tuple[Truth, ...]:
        """What the rule says of all buckets, in the order of their numbers."""
        return tuple(self._truth(contents) for contents in bucket_contents(self.objects))

    @property
    def labels(self) -> tuple[int | None, ...]:
        """The labels of all buckets, None where the rule leaves them undefined."""
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
        """Whether it asks about one object only."""
        return len({name for test, _ in tests_of(self.tree) for name in objects_in_test(test)}) == 1

    def _truth(self, contents: Contents) -> Truth:
        label, way = follow(self.tree, contents)
        if label is None:
            return Truth(None)
        visible = {name for name, kind in contents.items() if kind is not None}
        focus = {name for test, is_met in way for name in focused_objects(test, is_met)}
        tested = {name for test, _ in way for name in objects_in_test(test)}
        return Truth(label, frozenset(visible & focus), frozenset(visible - tested))

    def _check(self) -> None:
        results: dict[int, set[bool]] = {}
        for contents in bucket_contents(self.objects):
            for test, is_met in follow(self.tree, contents)[1]:
                results.setdefault(id(test), set()).add(is_met)
        for test, last in tests_of(self.tree):
            possible = results.get(id(test), set())
            if not possible:
                raise SnellenError(f"the rule '{self.text}' contradicts itself: no bucket reaches '{test}'")
            if len(possible) == 1 and not (last and possible == {True}):
                word = "always" if possible.pop() else "never"
                raise SnellenError(
                    f"the rule '{self.text}' contradicts itself: where it reaches '{test}', that is {word} true"
                )
        labels = {label for label in self.labels if label is not None}
        if not labels:
            raise SnellenError(f"the rule '{self.text}' leaves the label of every bucket undefined")
        if len(labels) == 1:
            raise SnellenError(f"the rule '{self.text}' gives every picture the label {labels.pop()}: nothing to be learnt")
        if labels != set(range(len(labels))):
            raise SnellenError(f"the labels of a rule are 0, 1, … without gaps, not {', '.join(map(str, sorted(labels)))}")
