"""The seven settings of Kim, Plumb and Talwalkar (2022), Table 1, each of which is a rule."""

from __future__ import annotations

from snellen.errors import SnellenError, nearest
from snellen.textbox.scenes.objects import OBJECTS
from snellen.textbox.scenes.rules import SceneRule

RULES = {
    "simple-fr": "box1",
    "simple-nr": 'text == "B"',
    "complex-fr": "1 if box1 and box2 else 0",
    "complex-cr1": 'if box2: box1 else: text == "B"',
    "complex-cr2": 'if box1: box2 else: text == "B"',
    "complex-cr3": 'if box2: text == "B" else: box1',
    "complex-cr4": 'if box1: text == "B" else: box2',
}
"""FR, NR and CR stand for full, no and conditional reliance on the boxes, which the paper calls spurious."""


def find_setting(name: str) -> SceneRule:
    """The rule of one of the seven settings."""
    if name not in RULES:
        raise SnellenError(f"there is no setting '{name}'{nearest(name, RULES) or ';'} there are {', '.join(RULES)}")
    return SceneRule.read(RULES[name], OBJECTS)
