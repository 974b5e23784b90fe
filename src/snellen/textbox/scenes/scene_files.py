"""Scene files: scenes of one's own, and the rule about them, as a YAML file.

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

Only the rule is needed; what is left out is as published. A thing is a box by its size (`8`, or height and width), a picture
in rows of # and ., or several kinds of it by their names (`{A: …, B: …}`).
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
from snellen.errors import short_repr as _quoted
from snellen.files.documents import parse_yaml, read_text
from snellen.textbox.networks.network_spec import SIDE, WHITE, NetworkSpec
from snellen.textbox.scenes.backgrounds import BACKGROUNDS, find_background
from snellen.textbox.scenes.objects import OBJECTS, SceneObject, box
from snellen.textbox.scenes.rule_parser import WORDS
from snellen.textbox.scenes.scenes import SceneLayout

KEYS = ("rule", "things", "side", "colour", "background")
MOST_SIDE = 512
"""A batch of larger scenes would not fit into memory."""

_PUBLISHED = "published"
_NAME = re.compile(r"[A-Za-z_][\w-]*")
# A rule holds colons, which YAML would take for keys: the line is read as it stands.
_RULE_LINE = re.compile(r"^(rule:[ \t]+)([^\s\"'|>#][^\n]*?)[ \t]*(?:[ \t]#[^\n]*)?$", re.MULTILINE)
_ROWS = "rows of # and ., in quotes or below a |"


@dataclass(frozen=True)
class SceneFile:
    """What a scene file says; `name` is the name of the file."""

    name: str
    rule: str
    objects: tuple[SceneObject, ...] = OBJECTS
    side: int = SIDE
    colour: tuple[int, int, int] = WHITE
    background: str = "black"

    def spec(
        self,
        *,
        name: str | None = None,
        architecture: str | None = None,
        background: str | None = None,
        robust: bool = False,
    ) -> NetworkSpec:
        """The reasoning that the file describes; what is given here wins over it."""
        return NetworkSpec.of(
            self.rule,
            name=name or self.name,
            architecture=architecture,
            background=background or self.background,
            robust=robust,
            side=self.side,
            colour=self.colour,
            objects=self.objects,
        )


def spec_from_rule(
    rule: str,
    *,
    name: str | None = None,
    architecture: str | None = None,
    background: str | None = None,
    robust: bool = False,
) -> NetworkSpec:
    """The reasoning of a rule in one line about the published scenes, or of a scene file."""
    given = read_scenes(rule) if is_scene_file(rule) else SceneFile("own", rule)
    return given.spec(name=name, architecture=architecture, background=background, robust=robust)


def is_scene_file(rule: str) -> bool:
    """Whether this names a file rather than being a rule: no rule ends like one, nor is one a file's path."""
    return rule.strip().endswith((".yaml", ".yml")) or (len(rule) < 256 and "\n" not in rule and Path(rule).is_file())


def read_scenes(path: str | Path) -> SceneFile:
    """Reads and checks a scene file; each mistake is a sentence with the file, the key, the value and the remedy."""
    file = Path(path)
    text = read_text(file, "the scene file", remedy="give a YAML file")
    quoted = _RULE_LINE.sub(lambda line: line[1] + json.dumps(line[2], ensure_ascii=False), text)
    found = parse_yaml(quoted, f"'{file}'")
    if not isinstance(found, Mapping):
        raise SnellenError(f"'{file}' must hold a rule, such as `rule: if box1: box2 else: text == \"B\"`")
    try:
        return _scene_file(file, found)
    except SnellenError as problem:
        raise SnellenError(f"in '{file}', {problem}") from None


def _scene_file(file: Path, found: Mapping[Any, Any]) -> SceneFile:
    for key in found:
        if key not in KEYS:
            raise SnellenError(f"there is no key '{key}'{nearest(str(key), KEYS) or ';'} there are {', '.join(KEYS)}")
    rule = found.get("rule")
    if not isinstance(rule, str) or not rule.strip():
        raise SnellenError(f"'rule' must be one line of text, such as `rule: box1`, not {_shown(rule)}")
    made = SceneFile(
        file.stem,
        " ".join(rule.split()),
        _things(found["things"]) if "things" in found else OBJECTS,
        _side(found.get("side", SIDE)),
        _colour(found.get("colour", list(WHITE))),
        _background(found.get("background", "black"), file.parent),
    )
    made.spec()  # a rule that cannot be read, things that are too large: refused now
    SceneLayout(made.side, made.objects).scenes([1] * 64, range(64), seed=0)  # as are things that do not fit together
    return made


def _things(value: Any) -> tuple[SceneObject, ...]:
    if not isinstance(value, Mapping) or not value:
        raise SnellenError(f"'things' must be things by their names, such as `things: {{box: 8}}`, not {_shown(value)}")
    return tuple(_thing(name, given) for name, given in value.items())


def _thing(name: Any, given: Any) -> SceneObject:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in WORDS:
        raise SnellenError(f"a thing cannot be called {_shown(name)}: a rule must be able to name it by one plain word")
    if given == _PUBLISHED:
        for one in OBJECTS:
            if one.name == name:
                return one
        raise SnellenError(f"no published thing is called '{name}'; there are {', '.join(one.name for one in OBJECTS)}")
    if not isinstance(given, Mapping) or set(given) & {"height", "width"}:
        return SceneObject(name, (_look(name, given),), (name,))
    if not given:
        raise SnellenError(f"'things: {name}' holds no kind; give {_ROWS}, or a box by height and width")
    for kind in given:
        if not isinstance(kind, str | int) or isinstance(kind, bool):
            raise SnellenError(f"a kind of '{name}' cannot be {_shown(kind)}; put its name in quotes")
    looks = tuple(_look(f"{name}: {kind}", one) for kind, one in given.items())
    return SceneObject(name, looks, tuple(str(kind) for kind in given))


def _look(name: str, given: Any) -> str:
    """A picture from a size, or from rows."""
    if _whole(given):
        given = {"height": given, "width": given}
    if isinstance(given, Mapping):
        for key in given:
            if key not in ("height", "width"):
                raise SnellenError(f"'things: {name}' is a box by height and width, and knows no '{key}'")
        height, width = (_size(name, key, given.get(key)) for key in ("height", "width"))
        return box("box", height, width).looks[0]
    rows = [row.strip() for row in given.strip().splitlines()] if isinstance(given, str) else given
    if not isinstance(rows, list) or not rows:
        raise SnellenError(f"'things: {name}' must be {_ROWS}, or a box by height and width, not {_shown(given)}")
    for number, row in enumerate(rows, 1):
        if row is None:
            raise SnellenError(f"row {number} of 'things: {name}' is empty, for YAML takes # as a comment; put it in quotes")
        if not isinstance(row, str) or not row or set(row) - set("#."):
            raise SnellenError(f"row {number} of 'things: {name}' must be # and . alone, not {_shown(row)}")
        if len(row) != len(rows[0]):
            raise SnellenError(f"row {number} of 'things: {name}' has {len(row)} marks where the first has {len(rows[0])}")
    return "\n".join(rows)


def _size(name: str, key: str, value: Any) -> int:
    if not _whole(value) or not 1 <= value <= MOST_SIDE:
        raise SnellenError(f"'{key}' of 'things: {name}' must be a whole number of pixels, not {_shown(value)}")
    return int(value)


def _side(value: Any) -> int:
    if not _whole(value) or not 1 <= value <= MOST_SIDE:
        raise SnellenError(f"'side' must be a whole number of pixels up to {MOST_SIDE}, not {_shown(value)}")
    return int(value)


def _colour(value: Any) -> tuple[int, int, int]:
    if isinstance(value, str):
        try:
            red, green, blue = ImageColor.getrgb(value)[:3]
        except ValueError:
            raise SnellenError(f"'colour' must be a name, such as orange, or [255, 140, 0], not '{value}'") from None
        return red, green, blue
    if not isinstance(value, list) or len(value) != 3 or not all(_whole(one) and 0 <= one <= 255 for one in value):
        raise SnellenError(f"'colour' must be three whole numbers from 0 to 255, such as [255, 140, 0], not {_shown(value)}")
    red, green, blue = value
    return red, green, blue


def _background(value: Any, folder: Path) -> str:
    if not isinstance(value, str):
        raise SnellenError(f"'background' must be one of {', '.join(BACKGROUNDS)}, or a folder, not {_shown(value)}")
    if value not in BACKGROUNDS:
        for place in (folder / value, Path(value)):
            if place.is_dir():
                return str(place.resolve())  # what training records is read from anywhere
    find_background(value)
    return value


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return "nothing" if value is None else _quoted(value)
