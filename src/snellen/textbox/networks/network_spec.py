"""A reasoning that a classifier is taught: a rule, the scenes that it is about, and the network that learns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from snellen.errors import SnellenError, nearest
from snellen.textbox.networks.architectures import ARCHITECTURES
from snellen.textbox.scenes.backgrounds import find_background
from snellen.textbox.scenes.objects import OBJECTS, SceneObject
from snellen.textbox.scenes.rules import SceneRule
from snellen.textbox.scenes.scenes import SceneLayout
from snellen.textbox.scenes.settings import setting

SIDE = 64
WHITE = (255, 255, 255)


@dataclass(frozen=True)
class NetworkSpec:
    """What is learnt (a rule), where (scenes of a layout), and how (by which network, plainly or against attacks)."""

    name: str
    rule: SceneRule
    architecture: str
    background: str = "black"
    robust: bool = False
    side: int = SIDE
    colour: tuple[int, int, int] = WHITE

    @staticmethod
    def of(
        rule: str,
        *,
        name: str | None = None,
        architecture: str | None = None,
        background: str = "black",
        robust: bool = False,
        side: int = SIDE,
        colour: tuple[int, int, int] = WHITE,
        objects: tuple[SceneObject, ...] = OBJECTS,
    ) -> NetworkSpec:
        """A reasoning from a rule as text, checked; the published network for it unless another is named."""
        read = SceneRule.read(rule, objects)
        return NetworkSpec.with_rule(
            read, name or "own", architecture=architecture, background=background, robust=robust, side=side, colour=colour
        )

    @staticmethod
    def of_setting(
        name: str, *, architecture: str | None = None, background: str = "black", robust: bool = False
    ) -> NetworkSpec:
        """One of the seven published settings, perhaps under other circumstances, which its name then says."""
        scenes = None if background == "black" else Path(background).name
        full = "-".join(one for one in (name, architecture, scenes, "robust" if robust else None) if one)
        return NetworkSpec.with_rule(setting(name), full, architecture=architecture, background=background, robust=robust)

    @staticmethod
    def with_rule(rule: SceneRule, name: str, *, architecture: str | None, **circumstances: Any) -> NetworkSpec:
        """The same from a rule that has been read."""
        chosen = architecture or ("small-cnn" if rule.simple else "deep-cnn")
        found = NetworkSpec(name, rule, chosen, **circumstances)
        if chosen not in ARCHITECTURES:
            hint = nearest(chosen, ARCHITECTURES) or ";"
            raise SnellenError(f"there is no architecture '{chosen}'{hint} there are {', '.join(ARCHITECTURES)}")
        _ = found.layout  # an impossible layout is refused now
        return found

    @cached_property
    def layout(self) -> SceneLayout:
        """What its scenes look like."""
        return SceneLayout(self.side, self.rule.objects, self.colour, find_background(self.background))

    @property
    def simple(self) -> bool:
        """Whether it looks at one thing only."""
        return self.rule.simple

    def record(self) -> dict[str, Any]:
        """As plain values, from which `from_record` makes it again."""
        return {
            "name": self.name,
            "rule": self.rule.text,
            "architecture": self.architecture,
            "background": self.background,
            "robust": self.robust,
            "side": self.side,
            "colour": list(self.colour),
            "things": [
                {"name": one.name, "looks": {k: look.split() for k, look in zip(one.kinds, one.looks, strict=True)}}
                for one in self.rule.objects
            ],
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> NetworkSpec:
        """The reasoning that wrote this record."""
        objects = tuple(
            SceneObject(thing["name"], tuple("\n".join(rows) for rows in thing["looks"].values()), tuple(thing["looks"]))
            for thing in record["things"]
        )
        red, green, blue = record["colour"]
        return NetworkSpec(
            record["name"],
            SceneRule.read(record["rule"], objects),
            record["architecture"],
            record["background"],
            bool(record["robust"]),
            int(record["side"]),
            (red, green, blue),
        )
