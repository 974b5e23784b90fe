"""A recommendation as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from snellen.cards.card_json import plain
from snellen.cards.recommend import Recommendation
from snellen.charts.html_page import write_page


def as_json(recommendation: Recommendation) -> dict[str, Any]:
    """The choice as plain values; what is not known is null."""
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
                "place": place.place,
                "method": place.card.method,
                "state": place.state,
                "score": place.score,
                "needs": [
                    {"name": need.name, "state": need.state, "grade": need.grade.share if need.grade else None,
                     "words": need.words} for need in place.needs
                ],
                "grades": {attribute: place.card.grades[attribute].share for attribute in priorities.weighed},
                "decided": place.decided,
                "sacrifice": place.sacrifice,
                "first": place.first,
                "pareto": place.pareto,
            }
            for place in recommendation.places
        ],
        "first_three_hold": recommendation.holds,
        "nearest": [ranked_method.card.method for ranked_method in recommendation.nearest],
        "remedies": recommendation.remedies,
        "cautions": recommendation.cautions,
    }  # fmt: skip
    return {name: plain(value) for name, value in values.items()}


def write_json(recommendation: Recommendation, path: Path) -> Path:
    """Writes the choice whole or not at all."""
    return write_page(json.dumps(as_json(recommendation), indent=2, ensure_ascii=False, allow_nan=False) + "\n", path)
