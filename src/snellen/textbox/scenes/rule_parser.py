"""Parses a rule: from one line of text to its tree, or an error that says where it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from snellen.errors import SnellenError, shorten
from snellen.textbox.scenes.objects import SceneObject
from snellen.textbox.scenes.rule_trees import Combined, IfElse, IsKind, IsShown, Node, Not, Test

_TOKEN = re.compile(r"""\s*(?:([A-Za-z_][\w-]*)|(\d+)|(==|!=|=|[():;&|]|"[^"]*"|'[^']*'))""")
WORDS = {"if", "elif", "else", "and", "or", "not", "otherwise"}
MOST_NESTED = 60
"""How many brackets, choices and negations a rule may have."""
_SYNONYMS = {"&": "and", "|": "or", "otherwise": "else"}


def read_tree(text: str, objects: Sequence[SceneObject]) -> Node:
    """The tree of a rule about these objects."""
    return _RuleParser(text, objects).rule()


class _RuleParser:
    """Parses a rule word by word, the longest construction first."""

    def __init__(self, text: str, objects: Sequence[SceneObject]) -> None:
        self.text = " ".join(text.split())
        self.objects: Mapping[str, SceneObject] = {item.name: item for item in objects}
        self.words = [_SYNONYMS.get(word, word) for word in self._split(text)]
        self.position = 0
        if sum(word in ("(", "if", "elif", "not") for word in self.words) > MOST_NESTED:
            raise SnellenError(f"the rule '{shorten(self.text)}' is too long; write it with fewer brackets and choices")

    def rule(self) -> Node:
        if self._next(1) == "=" and self._next() not in WORDS:  # `label = …`
            self.position += 2
        node = self._node()
        if self._next() is not None:
            raise self._error("the end")
        return node

    def _node(self) -> Node:
        self._skip()
        if self._take("if"):
            return self._choice()
        leaf = self._leaf()
        if not self._take("if"):
            return leaf
        test = self._any()
        self._expect("else")
        return IfElse(test, leaf, self._node())

    def _choice(self) -> IfElse:
        test = self._any()
        self._expect(":")
        then = self._node()
        self._skip()
        if self._take("elif"):
            return IfElse(test, then, self._choice())
        if not self._take("else"):
            return IfElse(test, then, None)
        self._take(":")
        return IfElse(test, then, self._node())

    def _leaf(self) -> Node:
        word = self._next()
        if word is not None and re.fullmatch("[0-9]{1,4}", word):
            self.position += 1
            return int(word)
        if word == "(" and self._next(1) == "if":
            self.position += 1
            node = self._node()
            self._expect(")")
            return node
        return self._any()

    def _any(self) -> Test:
        return self._combined("or", self._all)

    def _all(self) -> Test:
        return self._combined("and", self._single)

    def _combined(self, word: str, part: Callable[[], Test]) -> Test:
        tests = [part()]
        while self._take(word):
            tests.append(part())
        return tests[0] if len(tests) == 1 else Combined(tuple(tests), every=word == "and")

    def _single(self) -> Test:
        if self._take("not"):
            return Not(self._single())
        if self._take("("):
            test = self._any()
            self._expect(")")
            return test
        name = self._next()
        if name is None or name in WORDS or not (name[0].isalpha() or name[0] == "_"):
            raise self._error("the name of an object")
        self.position += 1
        if name not in self.objects:
            raise SnellenError(f"the rule '{self.text}' names '{name}', but the scenes hold {_listed(self.objects)}")
        for word, equal in (("==", True), ("!=", False)):
            if self._take(word):
                return IsKind(name, self._kind(self.objects[name]), equal)
        return IsShown(name)

    def _kind(self, item: SceneObject) -> str:
        word = self._next()
        if word is None or word in WORDS or not (word[0].isalnum() or word[0] in "\"'"):
            raise self._error(f"a kind of {item.name}")
        self.position += 1
        kind = word.strip("\"'")
        if len(item.kinds) < 2:
            raise SnellenError(f"'{item.name}' is of one kind only; write '{item.name}' alone to ask whether it is shown")
        if kind not in item.kinds:
            raise SnellenError(f"'{item.name}' is {_listed(item.kinds, 'or')}, never '{kind}'")
        return kind

    def _split(self, text: str) -> list[str]:
        words, position = [], 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise SnellenError(f"the rule '{self.text}' cannot be read at '{text[position:].strip()}'")
            words.append(match.group(match.lastindex or 0))
            position = match.end()
        return words

    def _next(self, ahead: int = 0) -> str | None:
        return self.words[self.position + ahead] if self.position + ahead < len(self.words) else None

    def _take(self, word: str) -> bool:
        if self._next() != word:
            return False
        self.position += 1
        return True

    def _skip(self) -> None:
        while self._take(";"):
            pass

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._error(f"'{word}'")

    def _error(self, expected: str) -> SnellenError:
        word = self._next()
        where = "at its end" if word is None else f"at '{word}'"
        return SnellenError(f"the rule '{self.text}' cannot be read {where}: {expected} should stand there")


def _listed(names: Sequence[str] | Mapping[str, object], word: str = "and") -> str:
    *rest, last = names
    return f"{', '.join(rest)} {word} {last}" if rest else str(last)
