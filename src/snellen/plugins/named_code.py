"""Code that a user names as `file.py:name` or `package.module:name`: where it is, importing it, and the line that failed."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from snellen.errors import SnellenError, first_line, nearest, no_exit
from snellen.plugins.notation import read_plugin

FILE = ".py"
"""Ending of files with Python code."""


def names_code(text: Any) -> bool:
    """Whether a method or metric is written as `file.py:name` or `package.module:name`, which is imported.

    >>> names_code("mine.py:f(steps=3)"), names_code("rise(masks=500)"), names_code({"name": "package.module:f"})
    (True, False, True)
    """
    name = text.get("name") if isinstance(text, Mapping) else text
    if not isinstance(name, str):
        return False
    with suppress(SnellenError):
        name, _ = read_plugin(name)
    return bool(name.rpartition(":")[0].strip())


def holds_code(plugin: Any) -> bool:
    """Whether a method or metric, or a setting of it at any depth, may name code: every text with a colon counts."""
    if isinstance(plugin, Mapping):
        return any(map(holds_code, plugin.values()))
    if isinstance(plugin, list | tuple):
        return any(map(holds_code, plugin))
    return isinstance(plugin, str) and ":" in plugin


def code_origins(text: str) -> str:
    """The paths of all files and modules that a text names, wherever in it, comma-separated; "" if there are none."""
    return ", ".join(filter(None, map(code_origin, dict.fromkeys(_CODE.findall(text)))))


_CODE = re.compile(r"[^\s'\"(),=\[\]{}]+:(?=\w)")
"""The file or module before a colon; of a path with spaces or brackets the end."""


def code_origin(text: str) -> str:
    """The path of the file or module in `file.py:name` or `package.module:name`, found without executing it; "" if none.

    The current folder is searched last, so that a file there cannot replace an installed package.
    """
    module = (text.rpartition(":")[0] or text).strip()  # a path may hold a colon, as in C:\\code\\mine.py:f
    if module.endswith(FILE):
        return str(Path(module).resolve())
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)
    importlib.invalidate_caches()
    try:
        module_spec = PathFinder.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return ""
    return "" if module_spec is None else str(module_spec.origin or list(module_spec.submodule_search_locations or ()))


def find_object(spec: str, *, files: bool = False) -> Any:
    """The object that `package.module:name` names, from the current folder or an installed package.

    Args:
        spec: the text.
        files: whether `path/file.py:name` is allowed too.
    """
    module, _, name = spec.rpartition(":")
    if not name or not module:
        raise SnellenError(f"'{spec}' is not written as package.module:function{' or file.py:name' if files else ''}")
    is_file = module.endswith(FILE)
    if is_file and not files:
        raise SnellenError(f"'{spec}' names a file; write it as a module: '{module[:-3].replace('/', '.')}:{name}'")
    try:
        with no_exit(f"'{module}'"):
            target: Any = _module_of_file(Path(module)) if is_file else _import(module)
    except SnellenError:
        raise
    except ModuleNotFoundError as problem:
        if not is_file and problem.name and (module == problem.name or module.startswith(f"{problem.name}.")):
            raise SnellenError(
                f"'{spec}': there is no module '{problem.name}', neither here nor among installed packages"
            ) from None
        raise SnellenError(f"'{spec}': importing '{module}' failed {reason_and_line(problem)}") from problem
    except Exception as problem:
        raise SnellenError(f"'{spec}': importing '{module}' failed {reason_and_line(problem)}") from problem
    for part in name.split("."):
        if not hasattr(target, part):
            public = [var for var in vars(target) if not var.startswith("_")] if hasattr(target, "__dict__") else []
            raise SnellenError(f"'{spec}': '{module}' has no '{part}'{nearest(part, public)}")
        target = getattr(target, part)
    return target


def _import(module: str) -> ModuleType:
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    return importlib.import_module(module)


def _module_of_file(path: Path) -> ModuleType:
    """The module that a file defines. A file that did not change is executed once; workers receive it by value."""
    path = path.resolve()
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise SnellenError(f"the file '{path}' cannot be read ({problem.strerror}); write file.py:name") from None
    name = f"snellen_file_{hashlib.sha256(str(path).encode() + content).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise SnellenError(f"the file '{path}' is not Python code; write file.py:name")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for the files beside it
    module = importlib.util.module_from_spec(spec)
    module.__snellen_source__ = content.decode(errors="replace")  # type: ignore[attr-defined]
    sys.modules[name] = module  # dataclasses look their module up
    try:
        # Not by the loader: it takes bytecode of an earlier content that has the same size and second of change.
        exec(compile(content, str(path), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    cloudpickle.register_pickle_by_value(module)
    return module


def reason_and_line(problem: BaseException) -> str:
    """The kind and the first line of an error, and the line of the user's code that raised it, if it is there."""
    return f"({reason(problem)}){line_of_user(problem)}"


def line_of_user(problem: BaseException) -> str:
    """The line of the user's code that raised an error, as " in mine.py, line 7"; "" if there is none."""
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if _is_of_user(frame.filename)]
    if not frames or isinstance(problem, SyntaxError | SnellenError):  # their messages say it
        return ""
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}"


def _is_of_user(file: str) -> bool:
    """Whether a file is neither Snellen's, nor Python's, nor of an installed package."""
    installed = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    return file.endswith(FILE) and not file.startswith((*installed, str(Path(__file__).parents[1])))


def reason(problem: BaseException) -> str:
    """The kind and the first line of an error."""
    return f"{type(problem).__name__}: {first_line(problem)}" if str(problem).strip() else type(problem).__name__
