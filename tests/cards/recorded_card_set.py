"""A card set of the recorded run of the report's tests, with measured methodology for most of its methods."""

from __future__ import annotations

import numpy as np
from tests.report.recorded import METHODS, Recorded

from snellen.cards.card_set import CardSet
from snellen.cards.schema import METHODOLOGY, Finding


def deck_of(images: int) -> CardSet:
    """Grades of all kinds: some known, some not, two methods that tie, and some that need no look inside."""
    rng = np.random.default_rng(3)
    findings = {
        name: {
            attribute: Finding(
                attribute=attribute,
                word="measured",
                sentence=f"A sentence about {attribute}.",
                share=float(np.round(rng.random(), 3)),
                numbers={"seconds": float(10 ** rng.uniform(-3, 1)), "forward": 3, "backward": 1},
            )
            for attribute in METHODOLOGY[:4]
        }
        for name in METHODS
        if name != "occlusion"
    }
    findings["rise"] = findings["gradient"]
    return CardSet.of(Recorded(ids=[f"{at}.jpg" for at in range(images)]), findings)
