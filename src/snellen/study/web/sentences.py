"""The sentences of the pages: one file per language, found by name, with words filled in and everything escaped."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml
from markupsafe import Markup, escape

from snellen.errors import SnellenError, nearest
from snellen.study.folder import Study
from snellen.study.texts import written_languages, written_texts

_WORD = re.compile(r"\{([a-z_]+)\}")
_BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
_CODE = re.compile(r"`(.+?)`")


@dataclass(frozen=True, eq=False)
class Sentences:
    """Every sentence in one language; `t("tasks.*.question", "betting")` is the question of that task."""

    language: str
    texts: Mapping[str, str]
    """By name, such as `consent.heading`."""
    _rich: dict[tuple[str, ...], Markup] = field(default_factory=dict)

    def __call__(self, name: str, *parts: str, **words: object) -> str:
        """A sentence as plain text; every star in its name stands for one of `parts`."""
        text = _on_one_line(self.texts[_full_name(name, parts)])
        return _WORD.sub(lambda match: str(words[match[1]]), text) if words else text

    def line(self, name: str, *parts: str, **words: object) -> Markup:
        """A sentence with its bold words."""
        return _with_words(_as_html(self.texts[_full_name(name, parts)]), words)

    def rich(self, name: str, *parts: str, **words: object) -> Markup:
        """A text in paragraphs, with its bold words."""
        key = (name, *parts)
        if key not in self._rich:
            paragraphs = re.split(r"\n\s*\n", self.texts[_full_name(name, parts)].strip())
            self._rich[key] = Markup("\n").join(Markup("<p>{}</p>").format(_as_html(text)) for text in paragraphs)
        return _with_words(self._rich[key], words)


def _full_name(name: str, parts: tuple[str, ...]) -> str:
    for part in parts:
        name = name.replace("*", part, 1)
    return name


def _on_one_line(text: str) -> str:
    """A text on one line, with no-break spaces before per cent signs."""
    return " ".join(text.split()).replace(" %", "\N{NO-BREAK SPACE}%")


def _as_html(text: str) -> Markup:
    return Markup(_CODE.sub(r"<code>\1</code>", _BOLD.sub(r"<strong>\1</strong>", str(escape(_on_one_line(text))))))


def _with_words(text: Markup, words: Mapping[str, object]) -> Markup:
    # Words come last, so that nothing in them can be taken for markup or for another word.
    return Markup(_WORD.sub(lambda match: str(escape(words[match[1]])), text)) if words else text


def flat_texts(texts: Mapping[str, Any], owner: str, before: str = "") -> Iterator[tuple[str, str]]:
    """Every sentence with its name, such as `consent.heading`.

    Args:
        texts: Sentences, nested by name.
        owner: The file, for errors.
        before: The beginning of all names.
    """
    for name, value in texts.items():
        if isinstance(value, Mapping):
            yield from flat_texts(value, owner, f"{before}{name}.")
        elif isinstance(value, str) and value.strip():
            yield f"{before}{name}", value
        else:
            raise SnellenError(f"'{before}{name}' in {owner} must be a sentence, not {value!r}; put it in quotation marks")


def words(text: str) -> set[str]:
    """The words in braces, which are filled in."""
    return set(_WORD.findall(text))


def shipped(language: str = "en") -> dict[str, str]:
    """The sentences that come with Snellen, by name."""
    return dict(_parsed(written_texts(language), f"texts/{language}.yaml"))


@cache
def _parsed(text: str, owner: str) -> dict[str, str]:
    return dict(flat_texts(yaml.safe_load(text), owner))


def _own_texts(language: str) -> dict[str, str]:
    """Snellen's own sentences in this language, or else in English."""
    return shipped(language) if language in written_languages() else shipped()


def check_texts(study: Study) -> dict[str, Sentences]:
    """The sentences of a study by language; a name or a word in braces that is missing is refused before anybody reads.

    Sentences of the experimenter's page that a study lacks, because it is older than they are, are Snellen's own.
    Sentences of tasks that the study does not have are ignored.
    """
    tasks = {plan.task for plan in study.protocol.tasks}
    required = _of_tasks(shipped(), tasks)
    result = {}
    for language, texts in study.texts.items():
        owner = f"'{study.folder / 'texts' / language}.yaml'"
        desk = {name: text for name, text in _own_texts(language).items() if name.startswith("desk.")}
        own = _of_tasks(desk | dict(flat_texts(texts, owner)), tasks)
        for name in required.keys() - own.keys():
            raise SnellenError(f"{owner} has no '{name}'; Snellen's own text says: {' '.join(required[name].split())[:80]}")
        for name in own.keys() - required.keys():
            raise SnellenError(f"{owner} has an unknown name '{name}'{nearest(name, required)}")
        for name, text in own.items():
            _check_words(owner, name, words(text), words(required[name]))
        result[language] = Sentences(language, own)
    return result


def _of_tasks(texts: Mapping[str, str], tasks: Collection[str]) -> dict[str, str]:
    """All texts but those of other tasks."""
    return {name: text for name, text in texts.items() if not name.startswith("tasks.") or name.split(".")[1] in tasks}


def _check_words(owner: str, name: str, own: set[str], required: set[str]) -> None:
    for word in sorted(required - own):
        raise SnellenError(f"'{name}' in {owner} has lost its {{{word}}}; put it back where it should be filled in")
    for word in sorted(own - required):
        allowed = f"only {', '.join(f'{{{word}}}' for word in sorted(required))}" if required else "nothing"
        raise SnellenError(f"'{name}' in {owner} asks for {{{word}}}, but {allowed} can be filled in there")
