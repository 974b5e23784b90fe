"""`snellen list`: tables of plug-ins and models, with what they need and cite, read from their decorators."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from snellen.errors import SnellenError, nearest
from snellen.methods.positive_controls import POSITIVE_CONTROLS
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import CONDITIONS, METHODS, METRICS, text_of
from snellen.zoo.sources.source import all_sources

KINDS = ("methods", "metrics", "conditions", "models")


def listing(what: str) -> Table:
    """The table of one of `KINDS`, for the terminal."""
    if what not in KINDS:
        raise SnellenError(f"cannot list '{what}'{nearest(what, KINDS)} (known: {', '.join(KINDS)})")
    return {"methods": _methods, "metrics": _metrics, "conditions": _conditions, "models": _models}[what]()


def _methods() -> Table:
    table = _table("name", "needs", "what its number means", "traits", "cites")
    ordered = sorted(METHODS, key=lambda name: (METHODS[name].traits.control, name))  # type: ignore[attr-defined]
    for name in (*ordered, *POSITIVE_CONTROLS):
        facts = METHODS[name].traits  # type: ignore[attr-defined]
        needs = ", ".join(sorted(facts.needs)) or ("nothing" if facts.control else "logits only")
        needs += " (control)" if facts.control else " (positive control)" if facts.positive else ""
        table.add_row(name, needs, facts.summary, facts.in_words, CITATIONS.get(facts.cite, facts.cite))
    return table


def _metrics() -> Table:
    table = _table("name", "better", "needs", "what its number means", "cites")
    for name in METRICS:
        facts = METRICS[name].traits  # type: ignore[attr-defined]
        better = "↑ high" if facts.higher_is_better else "↓ low"
        table.add_row(name, better, ", ".join(sorted(facts.needs)), facts.summary, CITATIONS.get(facts.cite, facts.cite))
    return table


def _conditions() -> Table:
    table = _table("--condition", "what happens to the pictures", "cites")
    for name in CONDITIONS:
        facts = CONDITIONS[name].traits  # type: ignore[attr-defined]
        settings = ", ".join(f"{key}={text_of(value)}" for key, value in vars(CONDITIONS.build(name)).items())
        table.add_row(escape(f"{name}({settings})"), facts.summary, CITATIONS.get(facts.cite, facts.cite))
    return table


def _models() -> Table:
    table = _table("--model", "what it is", "needs", whole=(2,))  # the first column holds long texts
    for form in all_sources():
        table.add_row(form.spec, form.what, escape(form.needs))  # snellen[demo] is no markup
    return table


def _table(*headings: str, whole: tuple[int, ...] = (0,)) -> Table:
    """A table without lines; columns in `whole` are never wrapped."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=place in whole)
    return table
