"""Reads a rule: from one line of text to its tree, or a sentence that says where it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from snellen.errors import SnellenError, shorten
from snellen.textbox.scenes.objects import SceneObject
from snellen.textbox.scenes.rule_trees import Choice, Kind, Node, Not, Present, Several, Test

_TOKEN = re.compile(r"""\s*(?:([A-Za-z_][\w-]*)|(\d+)|(==|!=|=|[():;&|]|"[^"]*"|'[^']*'))""")
WORDS = {"if", "elif", "else", "and", "or", "not", "otherwise"}
MOST_NESTED = 60
"""Brackets, choices and negations of a rule; each may stand inside of another."""
_ALIKE = {"&": "and", "|": "or", "otherwise": "else"}


def read_tree(text: str, objects: Sequence[SceneObject]) -> Node:
    """The tree of a rule about these things."""
    return _Reader(text, objects).rule()


class _Reader:
    """Reads a rule word by word, the longest construction first."""

    def __init__(self, text: str, objects: Sequence[SceneObject]) -> None:
        self.text = " ".join(text.split())
        self.objects: Mapping[str, SceneObject] = {one.name: one for one in objects}
        self.words = [_ALIKE.get(part, part) for part in self._split(text)]
        self.at = 0
        if sum(word in ("(", "if", "elif", "not") for word in self.words) > MOST_NESTED:
            raise SnellenError(f"the rule '{shorten(self.text)}' is too long; write it with fewer brackets and choices")

    def rule(self) -> Node:
        if self._next(1) == "=" and self._next() not in WORDS:  # `label = …`
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
        if word is not None and re.fullmatch("[0-9]{1,4}", word):
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
        return found[0] if len(found) == 1 else Several(tuple(found), every=word == "and")

    def _one(self) -> Test:
        if self._took("not"):
            return Not(self._one())
        if self._took("("):
            found = self._any()
            self._want(")")
            return found
        name = self._next()
        if name is None or name in WORDS or not (name[0].isalpha() or name[0] == "_"):
            raise self._wrong("the name of a thing")
        self.at += 1
        if name not in self.objects:
            raise SnellenError(f"the rule '{self.text}' speaks of '{name}', but the scenes hold {_listed(self.objects)}")
        for word, same in (("==", True), ("!=", False)):
            if self._took(word):
                return Kind(name, self._kind(self.objects[name]), same)
        return Present(name)

    def _kind(self, object_: SceneObject) -> str:
        word = self._next()
        if word is None or word in WORDS or not (word[0].isalnum() or word[0] in "\"'"):
            raise self._wrong(f"a kind of {object_.name}")
        self.at += 1
        kind = word.strip("\"'")
        if len(object_.kinds) < 2:
            raise SnellenError(f"'{object_.name}' is of one kind only; ask '{object_.name}' alone whether it is there")
        if kind not in object_.kinds:
            raise SnellenError(f"'{object_.name}' is {_listed(object_.kinds, 'or')}, never '{kind}'")
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
