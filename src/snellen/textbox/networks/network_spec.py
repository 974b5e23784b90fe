"""What a network is trained to do: its rule, the scenes that the rule is about, and the architecture."""

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
from snellen.textbox.scenes.scene_files import SceneFile, is_scene_file, read_scenes
from snellen.textbox.scenes.scenes import SIDE, WHITE, SceneLayout
from snellen.textbox.scenes.settings import find_setting


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """The rule of a network, the scenes it is about, and how the network is made."""

    name: str
    rule: SceneRule
    architecture: str
    """A name in `ARCHITECTURES`."""
    background: str = "black"
    """A name in `BACKGROUNDS`, or a folder of photographs."""
    robust: bool = False
    """Whether the network is trained against attacks."""
    side: int = SIDE
    """Height and width of the scenes in pixels."""
    colour: tuple[int, int, int] = WHITE
    """Of the objects."""

    @staticmethod
    def of(
        rule: str | SceneRule,
        *,
        name: str | None = None,
        architecture: str | None = None,
        background: str = "black",
        robust: bool = False,
        side: int = SIDE,
        colour: tuple[int, int, int] = WHITE,
        objects: tuple[SceneObject, ...] = OBJECTS,
    ) -> NetworkSpec:
        """The checked spec of a rule, with the published architecture unless another is named."""
        read_rule = SceneRule.read(rule, objects) if isinstance(rule, str) else rule
        spec = NetworkSpec(
            name=name or "own",
            rule=read_rule,
            architecture=architecture or ("small-cnn" if read_rule.simple else "deep-cnn"),
            background=background,
            robust=robust,
            side=side,
            colour=colour,
        )
        if spec.architecture not in ARCHITECTURES:
            hint = nearest(spec.architecture, ARCHITECTURES) or ";"
            raise SnellenError(f"there is no architecture '{spec.architecture}'{hint} there are {', '.join(ARCHITECTURES)}")
        _ = spec.layout  # an impossible layout is refused now
        return spec

    @staticmethod
    def of_setting(
        setting: str, *, architecture: str | None = None, background: str = "black", robust: bool = False
    ) -> NetworkSpec:
        """The spec of one of the seven settings; its name says what differs from the published network."""
        scenes = None if background == "black" else Path(background).name
        name = "-".join(part for part in (setting, architecture, scenes, "robust" if robust else None) if part)
        return NetworkSpec.of(
            find_setting(setting), name=name, architecture=architecture, background=background, robust=robust
        )

    @staticmethod
    def of_rule(
        rule: str,
        *,
        name: str | None = None,
        architecture: str | None = None,
        background: str | None = None,
        robust: bool = False,
    ) -> NetworkSpec:
        """The spec of a rule in one line about the published scenes, or of a scene file."""
        scenes = read_scenes(rule) if is_scene_file(rule) else SceneFile(name="own", rule=rule)
        return NetworkSpec.of(
            scenes.rule,
            name=name or scenes.name,
            architecture=architecture,
            background=background or scenes.background,
            robust=robust,
            side=scenes.side,
            colour=scenes.colour,
            objects=scenes.objects,
        )

    @cached_property
    def layout(self) -> SceneLayout:
        """What its scenes look like."""
        return SceneLayout(
            side=self.side, objects=self.rule.objects, colour=self.colour, background=find_background(self.background)
        )

    @property
    def simple(self) -> bool:
        """Whether its rule asks about one object only."""
        return self.rule.simple

    def record(self) -> dict[str, Any]:
        """The spec as stored with a trained network."""
        return {
            "name": self.name,
            "rule": self.rule.text,
            "architecture": self.architecture,
            "background": self.background,
            "robust": self.robust,
            "side": self.side,
            "colour": list(self.colour),
            "things": [
                {
                    "name": item.name,
                    "looks": {kind: bitmap.split() for kind, bitmap in zip(item.kinds, item.bitmaps, strict=True)},
                }
                for item in self.rule.objects
            ],
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> NetworkSpec:
        """The spec that was stored as this record."""
        objects = tuple(
            SceneObject(item["name"], tuple("\n".join(rows) for rows in item["looks"].values()), tuple(item["looks"]))
            for item in record["things"]
        )
        red, green, blue = record["colour"]
        return NetworkSpec(
            name=record["name"],
            rule=SceneRule.read(record["rule"], objects),
            architecture=record["architecture"],
            background=record["background"],
            robust=bool(record["robust"]),
            side=int(record["side"]),
            colour=(red, green, blue),
        )
