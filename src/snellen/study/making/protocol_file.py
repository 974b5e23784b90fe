"""Writes `study.yaml` with a comment on every setting: what it means, and when it can be changed."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import yaml

from snellen.study.protocol import Protocol

HEAD = """\
The protocol of this study. Edit it before anybody takes part; `snellen study check` reads it again and prints what
participants will see. Settings marked [fixed] belong to the pictures: to change one, make the study again. Settings
marked [free] may be changed at any time. Answers under different values of the others cannot be compared: once somebody
has taken part, the server refuses to go on with other values.
"""

COMMENTS: Mapping[str, str] = {
    "title": "[free] The name of the study on every page. Participants read it, so it must not reveal your question.",
    "run": "[free] The run that the study was made from, whose metrics can be compared with the answers.",
    "design": "[fixed] between: everybody sees one condition. within: everybody sees all, in the orders of a Latin square.",
    "arms": "[fixed] What is compared: methods of the run by their labels, and `none` for the picture without a map.",
    "presentation": "[fixed] How maps are shown: overlay, side-by-side, map. Several are crossed with the arms.",
    "tasks": (
        "[items and practice are fixed] In this order. `practice` comes first and shows the right answer; `items` are those "
        "that count; `order` is shuffled anew for everybody, or fixed."
    ),
    "scales": "Questionnaires after the trials: files in questionnaires/, without .yaml. [] asks none.",
    "attention": "How many attention checks are spread over the trials.",
    "exclude": (
        "Which participants are excluded, stated before anybody took part: those who miss more than `missed` attention "
        "checks, or whose median time per trial is below `seconds`. Those who do not finish, or withdraw, never count."
    ),
    "alpha": "The level of significance; intervals have the confidence 1 - alpha.",
    "margin": "Two means on a scale that differ by less count as equal, in points of the scale (equivalence test).",
    "seed": "[fixed] The choice of images and everybody's order of pages depend on it.",
    "languages": "[free] Files in texts/, without .yaml. The browser's language decides which is shown, else the first.",
    "people": "[free] After so many have finished, no new participant is admitted. null: you close the study yourself.",
    "abandoned": "[free] Minutes without an answer after which a participant no longer counts when groups are filled.",
    "recruiting": "[free] Parameters of the link that are stored, such as PROLIFIC_PID. All others are ignored.",
    "return_link": "[free] Where the last page leads to; {code} stands for the completion code. null: nowhere.",
}
"""By setting, in the order of the file."""

_WIDTH = 118


def protocol_text(protocol: Protocol) -> str:
    """The protocol as YAML with its comments."""
    values = protocol.as_values()
    parts = [_comment(HEAD)]
    parts += [f"{_comment(text)}{_written(name, values[name])}" for name, text in COMMENTS.items()]
    return "\n".join(parts)


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, _WIDTH - 2))


def _written(name: str, value: Any) -> str:
    if name == "tasks":
        lines = "".join(f"  - {_flow(plan)}" for plan in value)
        return f"{name}:\n{lines}"
    return f"{name}: {_flow(value)}"


def _flow(value: Any) -> str:
    """On one line; safe_dump ends a bare word with a line of dots."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10_000)
    return text.removesuffix("...\n")
