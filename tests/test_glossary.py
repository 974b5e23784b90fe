"""Plain words, one per concept: names and phrases that the glossary of docs/architecture.md replaces do not come back."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "snellen"

NAMES = frozenset(
    [
        "one",
        "found",
        "given",
        "wanted",
        "known",
        "said",
        "told",
        "asked",
        "heard",
        "sibling",
        "siblings",
        "relatives",
        "kin",
        "drawn_out",
        "lesson",
        "lessons",
        "learnt",
        "taught",
        "tally",
        "tallies",
        "specimen",
        "specimens",
        "lane",
        "lanes",
        "line_up",
        "blackboard",
    ]
)
"""Identifiers that say nothing about a value, or that belong to the old vocabulary."""

EXEMPT = {("trust.py", "known"), ("test_trust.py", "known"), ("methodology.py", "asked"), ("database.py", "one")}
"""By file: fields whose names are keys in files on disk, and a function of SQLAlchemy."""

PHRASES = {
    "hangs on": "depends on",
    "hang on": "depend on",
    "commas between": "comma-separated",
    "drawn out": "upsampled",
    "whoever asks": "cached per ...",
    "are nobody": "say what is not counted",
    "line-up": "method list",
    "siblings": "variants",
    "the very same": "the same",
}
"""Phrases in code, templates and docs, with what to say instead."""


DOCUMENTED_ROOMS = frozenset(
    ["types.py", "errors.py", "files", "plugins", "images", "classifier", "variants", "maps", "methods", "metrics", "zoo"]
)
"""The rooms in which every public field has a docstring, or is named in that of its class."""

DOCUMENTED_TYPES = frozenset(["Fill", "Output", "Fold", "Likeness", "MaskedLikeness", "Alike", "Method", "Segmentation"])
"""Types that say what a field of them is, wherever it stands."""


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(SOURCE.rglob("*.py")))


@cache
def covered_files() -> tuple[Path, ...]:
    """Everything in Python whose names have to be plain: the package, its tests, benchmarks, documentation and examples."""
    folders = (ROOT / name for name in ("tests", "benchmarks", "docs", "examples"))
    return (*modules(), *(path for folder in folders for path in sorted(folder.rglob("*.py"))))


def imported_names(path: Path) -> set[str]:
    """What a file imports under the name that somebody else chose, such as `given` of hypothesis."""
    return {
        alias.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if not alias.asname
    }


def names_in(path: Path) -> Iterator[tuple[str, int]]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            yield token.string, token.start[0]


def test_no_name_needs_a_dictionary() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in covered_files()
        for name, line in names_in(path)
        if name in NAMES and (path.name, name) not in EXEMPT and name not in imported_names(path)
    ]
    assert not places, f"{len(places)} names, such as {places[:20]}"


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_phrase_of_the_old_vocabulary(phrase: str) -> None:
    pattern = re.compile(rf"\b{re.escape(phrase)}\b", re.IGNORECASE)
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    texts.remove(ROOT / "docs" / "architecture.md")  # which has the glossary itself
    for ending in ("*.py", "*.html", "*.yaml", "*.md"):
        texts += SOURCE.rglob(ending)
    places = [str(path.relative_to(ROOT)) for path in texts if pattern.search(path.read_text(encoding="utf-8"))]
    assert not places, f"say '{PHRASES[phrase]}' in {places}"


def test_a_class_name_exists_once() -> None:
    counts = Counter(
        node.name
        for path in modules()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, count in counts.items() if count > 1]


def test_the_ground_floor_has_three_modules() -> None:
    files = {path.name for path in SOURCE.glob("*.py")}
    assert files == {"__init__.py", "__main__.py", "errors.py", "types.py"}, (
        "a module has a room; docs/architecture.md says which"
    )
    assert not [path for path in modules() if path.stem in {"utils", "helpers", "common", "base", "misc"}]


def _positional(call: ast.Call) -> int:
    return len(call.args) if not any(isinstance(argument, ast.Starred) for argument in call.args) else 0


def test_above_three_fields_a_record_is_built_by_keywords() -> None:
    """A call of one of our classes with more than three positional arguments can be put in the wrong order unseen."""
    classes = {
        node.name for path in modules() for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
    }
    places = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.func.id}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in classes
        and _positional(node) > 3
    ]
    assert not places, places


def _undocumented_fields(record: ast.ClassDef) -> Iterator[str]:
    """Public fields of a dataclass or named tuple that nothing says what they are."""
    described = ast.get_docstring(record) or ""
    for statement, following in zip(record.body, [*record.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        name, kind = statement.target.id, ast.unparse(statement.annotation)
        has_docstring = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if name.startswith("_") or kind.startswith("ClassVar") or kind in DOCUMENTED_TYPES or has_docstring:
            continue
        if f"`{name}" not in described:
            yield f"{record.name}.{name}"


def test_fields_of_records_and_settings_are_documented() -> None:
    records = [
        node
        for path in modules()
        if path.relative_to(SOURCE).parts[0] in DOCUMENTED_ROOMS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and any("dataclass" in ast.unparse(part) or "NamedTuple" in ast.unparse(part) for part in _heading(node))
    ]
    assert len(records) > 100
    assert not [field for record in records for field in _undocumented_fields(record)]


def _heading(record: ast.ClassDef) -> list[ast.expr]:
    return [*record.decorator_list, *record.bases]
