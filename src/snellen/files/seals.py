"""Seals: signatures with the user's own key, which show that a folder with executable content was made by this user."""

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
"""Environment variable with the path of the user's folder."""

_KEY, _LENGTH = "key", 32


def user_folder() -> Path | None:
    """The folder with the user's key; None if there is no home folder."""
    setting = os.environ.get(HOME)
    folder = Path(setting) if setting else Path(typer.get_app_dir("snellen"))
    return folder if folder.is_absolute() else None


def seal(facts: Any) -> str | None:
    """A signature of these facts with the user's key; None if there can be no key."""
    key = _key()
    if key is None:
        return None
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def is_sealed(facts: Any, mark: Any) -> bool:
    """Whether `mark` is this user's signature of these facts."""
    expected = seal(facts)
    return expected is not None and isinstance(mark, str) and hmac.compare_digest(expected.encode(), mark.encode())


def untrusted_folder(folder: object, actions: Sequence[str]) -> SnellenError:
    """The error for a folder that was not made by this user; `actions` say what opening it would execute."""
    *rest, last = actions
    what = f"{', '.join(rest)} and {last}" if rest else last
    reason = "" if _key() else f" (no key could be stored in '{user_folder() or '~'}', so no folder counts as made here)"
    return SnellenError(
        f"'{folder}' was not made here and would {what}{reason}; look at it, and add --trust (trust=True in Python) "
        "if you trust whoever made it"
    )


def first_time(what: str) -> bool:
    """Whether the note named `what` is shown to this user for the first time; always true if that cannot be recorded."""
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
    """The user's key, made when first needed; None if it cannot be stored."""
    folder = user_folder()
    if folder is None:
        return None
    path = folder / _KEY
    try:
        if not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=folder)  # only this user can read it
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(secrets.token_bytes(_LENGTH))
                os.link(name, path)  # atomic, and it never overwrites the key of another process
            except FileExistsError:
                pass
            finally:
                os.unlink(name)
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == _LENGTH else None
