"""What commands print: tables and sentences by rich, which is imported when something is printed, and JSON for programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.status import Status


def show(*renderables: Any) -> None:
    """Prints tables and other things that rich draws."""
    from rich.console import Console

    Console().print(*renderables)


def show_json(values: Any) -> None:
    """Prints values as one JSON document; whatever else a command prints with it goes to standard error."""
    import json

    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(values, indent=2, ensure_ascii=not unicode, allow_nan=False))


def status(words: str) -> Status:
    """A context that shows what is being done, on standard error, while it is being done."""
    from rich.console import Console

    return Console(stderr=True).status(words)
