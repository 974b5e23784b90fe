"""A recommendation as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from snellen.cards.card_json import plain
from snellen.cards.recommend import Recommendation
from snellen.charts.html_page import write_page


def as_json(recommendation: Recommendation) -> dict[str, Any]:
    """The recommendation as plain values; unknown ones are null."""
    priorities = recommendation.priorities
    values = {
        "sentence": recommendation.sentence,
        "model": recommendation.card_set.run.record.classifier.name,
        "fingerprint": recommendation.card_set.run.record.classifier.fingerprint,
        "images": recommendation.card_set.run.record.samples.count,
        "priorities": {
            "profile": priorities.profile.name if priorities.profile else None,
            "levels": {priority: priorities.level(priority) for priority in recommendation.card_set.priorities},
            "avoid_cost": priorities.avoid_cost,
            "black_box": priorities.black_box,
        },
        "places": [
            {
                "place": ranked.place,
                "method": ranked.card.method,
                "state": ranked.state,
                "score": ranked.score,
                "needs": [
                    {"name": need.name, "state": need.state, "grade": need.grade.share if need.grade else None,
                     "words": need.words} for need in ranked.needs
                ],
                "grades": {attribute: ranked.card.grades[attribute].share for attribute in priorities.weighed},
                "decided": ranked.decided,
                "sacrifice": ranked.sacrifice,
                "first": ranked.first,
                "pareto": ranked.pareto,
            }
            for ranked in recommendation.places
        ],
        "first_three_hold": recommendation.holds,
        "nearest": [ranked.card.method for ranked in recommendation.nearest],
        "remedies": recommendation.remedies,
        "cautions": recommendation.cautions,
    }  # fmt: skip
    return {name: plain(value) for name, value in values.items()}


def write_json(recommendation: Recommendation, path: Path) -> Path:
    """Writes the recommendation atomically."""
    return write_page(json.dumps(as_json(recommendation), indent=2, ensure_ascii=False, allow_nan=False) + "\n", path)
