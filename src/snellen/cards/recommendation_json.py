"""A recommendation as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from snellen.cards.card_json import plain
from snellen.cards.recommend import Recommendation
from snellen.charts.html_page import write_page


def as_json(found: Recommendation) -> dict[str, Any]:
    """The choice as plain values; what is not known is null."""
    asked = found.priorities
    values = {
        "sentence": found.sentence,
        "model": found.card_set.run.record.classifier.name,
        "fingerprint": found.card_set.run.record.classifier.fingerprint,
        "images": found.card_set.run.record.samples.count,
        "priorities": {
            "profile": asked.profile.name if asked.profile else None,
            "levels": {priority: asked.level(priority) for priority in found.card_set.priorities},
            "avoid_cost": asked.avoid_cost,
            "black_box": asked.black_box,
        },
        "places": [
            {
                "place": place.place,
                "method": place.card.method,
                "state": place.state,
                "score": place.score,
                "needs": [
                    {"name": need.name, "state": need.state, "grade": need.grade.share if need.grade else None,
                     "words": need.words} for need in place.needs
                ],
                "grades": {attribute: place.card.grades[attribute].share for attribute in asked.weighed},
                "decided": place.decided,
                "sacrifice": place.sacrifice,
                "first": place.first,
                "pareto": place.pareto,
            }
            for place in found.places
        ],
        "first_three_hold": found.holds,
        "nearest": [one.card.method for one in found.nearest],
        "remedies": found.remedies,
        "cautions": found.cautions,
    }  # fmt: skip
    return {name: plain(value) for name, value in values.items()}


def write_json(found: Recommendation, path: Path) -> Path:
    """Writes the choice whole or not at all."""
    return write_page(json.dumps(as_json(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n", path)
