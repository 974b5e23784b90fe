"""What rich prints for `snellen list`: a paragraph per plug-in or source of models."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.text import Text

from snellen.catalogue.listed import Listed, ListedPlugin, ListedSource
from snellen.plugins.notation import write_value
from snellen.plugins.traits import MethodTraits, MetricTraits


class PrintedList:
    """Names in bold with what they need, and below each what it is, its traits and the work that it cites."""

    def __init__(self, listed: Listed) -> None:
        self._listed = listed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """One paragraph each."""
        for number, entry in enumerate(self._listed):
            if number:
                yield Text("")
            name, facts = _head(entry)
            yield Text.assemble((name, "bold"), f"  {facts}" if facts else "")
            for words, style in _lines(entry):
                yield Padding(Text(words, style=style), (0, 0, 0, 4))


def _head(entry: ListedPlugin | ListedSource) -> tuple[str, str]:
    """How the entry is written on the command line, and the facts beside that."""
    if isinstance(entry, ListedSource):
        return entry.spec, "" if entry.needs == "nothing" else f"needs {entry.needs}"
    traits = entry.traits
    if isinstance(traits, MethodTraits):
        kind = "positive control" if traits.positive else traits.family
        without = "nothing" if traits.control else "outputs alone"
        return traits.name, f"{kind}; needs {', '.join(sorted(traits.needs)) or without}"
    if isinstance(traits, MetricTraits):
        better = "↑ higher is better" if traits.higher_is_better else "↓ lower is better"
        needs = f"; needs {', '.join(sorted(traits.needs))}" if traits.needs else ""
        return traits.name, f"{better}{needs}"
    settings = ", ".join(f"{name}={write_value(value)}" for name, value in entry.settings.items())
    return f"{traits.name}({settings})" if settings else traits.name, ""


def _lines(entry: ListedPlugin | ListedSource) -> Iterator[tuple[str, str]]:
    """Lines below the name, each with its style."""
    if isinstance(entry, ListedSource):
        yield entry.what, ""
        return
    yield entry.traits.summary, ""
    if isinstance(entry.traits, MethodTraits):
        yield entry.traits.in_words, "dim"
    yield entry.citation, "dim"
