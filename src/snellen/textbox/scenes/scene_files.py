"""Scene files: your own scenes and the rule about them as a YAML file.

    rule: if star: box else: text == "B"
    side: 96
    background: noise
    things:
      text: published
      box: {height: 8, width: 12}
      star: |
        ..#..
        #####
        .#.#.

Only the rule is needed; all else is as published by default. `things` are the objects of the scenes: a box by its size (`8`,
or height and width), a picture in rows of # and ., or several kinds by their names (`{A: …, B: …}`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import ImageColor

from snellen.errors import SnellenError, nearest
from snellen.errors import short_repr as quoted
from snellen.files.documents import parse_yaml, read_text
from snellen.textbox.scenes.backgrounds import BACKGROUNDS, find_background
from snellen.textbox.scenes.objects import OBJECTS, SceneObject, box
from snellen.textbox.scenes.rule_parser import WORDS
from snellen.textbox.scenes.rules import SceneRule
from snellen.textbox.scenes.scenes import SIDE, WHITE, SceneLayout

KEYS = ("rule", "things", "side", "colour", "background")
MOST_SIDE = 512
"""A batch of larger scenes would not fit into memory."""

_PUBLISHED = "published"
_NAME = re.compile(r"[A-Za-z_][\w-]*")
# A rule holds colons, which YAML would take for keys: the line is read as it stands.
_RULE_LINE = re.compile(r"^(rule:[ \t]+)([^\s\"'|>#][^\n]*?)[ \t]*(?:[ \t]#[^\n]*)?$", re.MULTILINE)
_ROWS = "rows of # and ., in quotes or below a |"


@dataclass(frozen=True, kw_only=True)
class SceneFile:
    """The content of a scene file."""

    name: str
    """Name of the file, without its ending."""
    rule: str
    objects: tuple[SceneObject, ...] = OBJECTS
    side: int = SIDE
    colour: tuple[int, int, int] = WHITE
    background: str = "black"


def is_scene_file(rule: str) -> bool:
    """Whether a text is the path of a file rather than a rule."""
    return rule.strip().endswith((".yaml", ".yml")) or (len(rule) < 256 and "\n" not in rule and Path(rule).is_file())


def read_scenes(path: str | Path) -> SceneFile:
    """Reads and checks a scene file; an error names the file, the key, the value and the remedy."""
    file = Path(path)
    text = read_text(file, "the scene file", remedy="give a YAML file")
    with_quotes = _RULE_LINE.sub(lambda line: line[1] + json.dumps(line[2], ensure_ascii=False), text)
    content = parse_yaml(with_quotes, f"'{file}'")
    if not isinstance(content, Mapping):
        raise SnellenError(f"'{file}' must hold a rule, such as `rule: if box1: box2 else: text == \"B\"`")
    try:
        return _scene_file(file, content)
    except SnellenError as problem:
        raise SnellenError(f"in '{file}', {problem}") from None


def _scene_file(file: Path, content: Mapping[Any, Any]) -> SceneFile:
    for key in content:
        if key not in KEYS:
            raise SnellenError(f"there is no key '{key}'{nearest(str(key), KEYS) or ';'} there are {', '.join(KEYS)}")
    rule = content.get("rule")
    if not isinstance(rule, str) or not rule.strip():
        raise SnellenError(f"'rule' must be one line of text, such as `rule: box1`, not {_quoted(rule)}")
    scenes = SceneFile(
        name=file.stem,
        rule=" ".join(rule.split()),
        objects=_objects(content["things"]) if "things" in content else OBJECTS,
        side=_side(content.get("side", SIDE)),
        colour=_colour(content.get("colour", list(WHITE))),
        background=_background(content.get("background", "black"), file.parent),
    )
    # A rule that cannot be read, and objects that do not fit together, are refused now.
    SceneRule.read(scenes.rule, scenes.objects)
    SceneLayout(scenes.side, scenes.objects, scenes.colour).scenes([1] * 64, range(64), seed=0)
    return scenes


def _objects(value: Any) -> tuple[SceneObject, ...]:
    if not isinstance(value, Mapping) or not value:
        raise SnellenError(f"'things' must be objects by their names, such as `things: {{box: 8}}`, not {_quoted(value)}")
    return tuple(_object(name, description) for name, description in value.items())


def _object(name: Any, description: Any) -> SceneObject:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in WORDS:
        raise SnellenError(f"an object cannot be called {_quoted(name)}: a rule must be able to name it by one plain word")
    if description == _PUBLISHED:
        for item in OBJECTS:
            if item.name == name:
                return item
        names = ", ".join(item.name for item in OBJECTS)
        raise SnellenError(f"no published object is called '{name}'; there are {names}")
    if not isinstance(description, Mapping) or set(description) & {"height", "width"}:
        return SceneObject(name, (_bitmap(name, description),), (name,))
    if not description:
        raise SnellenError(f"'things: {name}' holds no kind; give {_ROWS}, or a box by height and width")
    for kind in description:
        if not isinstance(kind, str | int) or isinstance(kind, bool):
            raise SnellenError(f"a kind of '{name}' cannot be {_quoted(kind)}; put its name in quotes")
    bitmaps = tuple(_bitmap(f"{name}: {kind}", value) for kind, value in description.items())
    return SceneObject(name, bitmaps, tuple(str(kind) for kind in description))


def _bitmap(name: str, description: Any) -> str:
    """A bitmap from a size, or from rows."""
    if _is_whole(description):
        description = {"height": description, "width": description}
    if isinstance(description, Mapping):
        for key in description:
            if key not in ("height", "width"):
                raise SnellenError(f"'things: {name}' is a box by height and width, and has no '{key}'")
        height, width = (_size(name, key, description.get(key)) for key in ("height", "width"))
        return box("box", height, width).bitmaps[0]
    is_text = isinstance(description, str)
    rows = [row.strip() for row in description.strip().splitlines()] if is_text else description
    if not isinstance(rows, list) or not rows:
        raise SnellenError(f"'things: {name}' must be {_ROWS}, or a box by height and width, not {_quoted(description)}")
    for number, row in enumerate(rows, 1):
        if row is None:
            raise SnellenError(f"row {number} of 'things: {name}' is empty, for YAML takes # as a comment; put it in quotes")
        if not isinstance(row, str) or not row or set(row) - set("#."):
            raise SnellenError(f"row {number} of 'things: {name}' must be # and . alone, not {_quoted(row)}")
        if len(row) != len(rows[0]):
            raise SnellenError(f"row {number} of 'things: {name}' has {len(row)} marks where the first has {len(rows[0])}")
    return "\n".join(rows)


def _size(name: str, key: str, value: Any) -> int:
    if not _is_whole(value) or not 1 <= value <= MOST_SIDE:
        raise SnellenError(f"'{key}' of 'things: {name}' must be a whole number of pixels, not {_quoted(value)}")
    return int(value)


def _side(value: Any) -> int:
    if not _is_whole(value) or not 1 <= value <= MOST_SIDE:
        raise SnellenError(f"'side' must be a whole number of pixels up to {MOST_SIDE}, not {_quoted(value)}")
    return int(value)


def _colour(value: Any) -> tuple[int, int, int]:
    if isinstance(value, str):
        try:
            red, green, blue = ImageColor.getrgb(value)[:3]
        except ValueError:
            raise SnellenError(f"'colour' must be a name, such as orange, or [255, 140, 0], not '{value}'") from None
        return red, green, blue
    if (
        not isinstance(value, list)
        or len(value) != 3
        or not all(_is_whole(channel) and 0 <= channel <= 255 for channel in value)
    ):
        raise SnellenError(
            f"'colour' must be three whole numbers from 0 to 255, such as [255, 140, 0], not {_quoted(value)}"
        )
    red, green, blue = value
    return red, green, blue


def _background(value: Any, folder: Path) -> str:
    if not isinstance(value, str):
        raise SnellenError(f"'background' must be one of {', '.join(BACKGROUNDS)}, or a folder, not {_quoted(value)}")
    if value not in BACKGROUNDS:
        for path in (folder / value, Path(value)):
            if path.is_dir():
                return str(path.resolve())  # training records it, and the record is read from anywhere
    find_background(value)
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _quoted(value: Any) -> str:
    return "nothing" if value is None else quoted(value)
