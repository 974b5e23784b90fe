"""Reads the prose of cards: one Markdown file per method, whose front matter and headings are checked."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any, get_args

import yaml

from snellen.cards.schema import METHODOLOGY, Directness, Prose
from snellen.errors import SnellenError, nearest
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS

HEADINGS = {
    "Determinism": METHODOLOGY[0],
    "Hyperparameter Dependence": METHODOLOGY[1],
    "Model Agnosticism": METHODOLOGY[2],
    "Computational Efficiency": METHODOLOGY[3],
    "Semantic Directness": METHODOLOGY[4],
}
"""By heading of methodology, its attribute, in the order of the card."""

_FIELDS = {
    "method": str,
    "title": str,
    "developers": list,
    "references": list,
    "implementations": dict,
    "aliases": list,
    "directness": str,
}


@cache
def prose_of(name: str) -> Prose:
    """The prose of a registered method; for a method without a file, such as one of another package, only its facts."""
    file = resources.files("snellen.cards").joinpath("prose", f"{name}.md")
    if not file.is_file():
        return _plain(name)
    return read_prose(file.read_text(encoding="utf-8"), name)


def read_prose(text: str, name: str) -> Prose:
    """The prose in a file. Raises `SnellenError` if the file breaks a rule of the format."""
    where = f"the prose of '{name}'"
    match = re.fullmatch(r"---\n(.*?\n)---\n(.*)", text, re.DOTALL)
    if match is None:
        raise SnellenError(f"{where} must begin with front matter between two lines of three hyphens")
    try:
        facts = yaml.safe_load(match[1])
    except yaml.YAMLError as problem:
        raise SnellenError(f"{where} has front matter that is not YAML: {' '.join(str(problem).split())}") from None
    _check(facts, name, where)
    parts = re.split(r"^(#{2,3} .*)$", match[2], flags=re.MULTILINE)
    headings = [part.lstrip("# ").strip() for part in parts[1::2]]
    bodies = [part.strip() for part in parts[0::2]]
    if headings != ["Methodology", *HEADINGS]:
        raise SnellenError(f"{where} must have the headings Methodology, {', '.join(HEADINGS)}, not {', '.join(headings)}")
    if empty := [heading for heading, body in zip(["the summary", *headings], bodies, strict=True) if not body]:
        raise SnellenError(f"{where} says nothing under '{empty[0]}'")
    return Prose(
        method=name,
        title=facts["title"],
        developers=tuple(facts["developers"]),
        references=tuple(facts["references"]),
        implementations=dict(facts["implementations"]),
        aliases=tuple(facts["aliases"]),
        directness=facts["directness"],
        summary=bodies[0],
        methodology=bodies[1],
        sections=dict(zip(METHODOLOGY, bodies[2:], strict=True)),
    )


def _check(facts: Any, name: str, where: str) -> None:
    if not isinstance(facts, dict) or set(facts) != set(_FIELDS):
        raise SnellenError(f"{where} must have exactly these fields: {', '.join(_FIELDS)}")
    for key, kind in _FIELDS.items():
        if not isinstance(facts[key], kind):
            raise SnellenError(f"{where}: '{key}' must be a {kind.__name__}")
    if facts["method"] != name:
        raise SnellenError(f"{where} says that it is of '{facts['method']}'")
    for key in facts["references"]:
        if key not in CITATIONS:
            raise SnellenError(f"{where} refers to '{key}'{nearest(str(key), CITATIONS)}, which is no known citation")
    if facts["directness"] not in get_args(Directness):
        raise SnellenError(f"{where}: 'directness' must be one of {', '.join(get_args(Directness))}")


def _plain(name: str) -> Prose:
    """The prose of a method without a file, from its decorator."""
    traits = METHODS[name].traits  # type: ignore[attr-defined]
    nothing = "Not written yet."
    return Prose(
        method=name,
        title=name,
        developers=(),
        references=(traits.cite,),
        implementations={},
        aliases=(),
        directness=None,
        summary=traits.summary,
        methodology=nothing,
        sections=dict.fromkeys(METHODOLOGY, nothing),
    )
