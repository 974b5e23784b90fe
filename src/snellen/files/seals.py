"""Whether a folder was made here: what it would execute is sealed with a key that only this user has."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from snellen.errors import SnellenError

HOME = "SNELLEN_HOME"
"""The environment variable that moves the user's folder elsewhere."""

_KEY, _LENGTH = "key", 32


def user_folder() -> Path | None:
    """Where Snellen keeps the user's key, or None where nobody's home is known."""
    named = os.environ.get(HOME)
    folder = Path(named) if named else Path(typer.get_app_dir("snellen"))
    return folder if folder.is_absolute() else None


def seal(facts: Any) -> str | None:
    """What nobody can write without this user's key; None where no key can be kept."""
    key = _key()
    if key is None:
        return None
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def is_sealed(facts: Any, mark: Any) -> bool:
    """Whether this user sealed exactly these facts."""
    mine = seal(facts)
    return mine is not None and isinstance(mark, str) and hmac.compare_digest(mine.encode(), mark.encode())


def untrusted_folder(folder: Path, would: Sequence[str]) -> SnellenError:
    """The refusal of a folder that was not made here: what would be executed, and what to do."""
    *rest, last = would
    what = f"{', '.join(rest)} and {last}" if rest else last
    known = "" if _key() else f" (no key could be kept in '{user_folder() or '~'}', so no folder is known to be made here)"
    return SnellenError(
        f"'{folder}' was not made here and would {what}{known}; look at it, and add --trust (trust=True in Python) "
        "if you trust whoever made it"
    )


def first_time(what: str) -> bool:
    """Whether this user is to be told something for the first time; true every time where that cannot be remembered."""
    folder = user_folder()
    try:
        if folder is None:
            return True
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / f"said-{what}").touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def _key() -> bytes | None:
    """The user's key, made when it is needed first; None where it cannot be kept."""
    folder = user_folder()
    if folder is None:
        return None
    path = folder / _KEY
    try:
        if not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=folder)  # for this user alone from the first moment
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(secrets.token_bytes(_LENGTH))
                os.link(name, path)  # whole or not at all, and never over the key of a process that was faster
            except FileExistsError:
                pass
            finally:
                os.unlink(name)
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == _LENGTH else None
