"""What a shell offers where a name is expected; it must be there before the next key, so no plug-in is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snellen.catalogue.listed import Kind


def names(kind: Kind) -> Callable[[str], list[str]]:
    """Completes the last of comma-separated names of methods, metrics or conditions."""

    def complete(incomplete: str) -> list[str]:
        from snellen.catalogue.listed import ListedPlugin
        from snellen.catalogue.shipped import shipped

        before = incomplete[: incomplete.rfind(",") + 1]
        return [before + entry.traits.name for entry in shipped(kind) if isinstance(entry, ListedPlugin)]

    return complete


def words(*choices: str) -> Callable[[], list[str]]:
    """Completes one of a few words."""
    return lambda: list(choices)
