"""Cards whose grades are known: set by hand, or judged from scores that were made to pass and fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tests.report.recorded import Recorded, method, metric

from snellen.cards.card_set import CardSet, card
from snellen.cards.grades import word
from snellen.cards.schema import ATTRIBUTES, TESTED, Finding, Grade

CONTROLS = ("random", "edge", "fake-cam", "centre")

# By method: input, label, model sensitivity, minimality, perceptual correspondence; + better than controls, - worse.
TESTS = {
    "grad-cam": "+++-+",
    "integrated-gradients(steps=8)": "++++-",
    "rise(masks=100)": "+++-+",
    "gradient": "-+++-",
}
# By method: determinism, hyperparameter dependence, model agnosticism, efficiency; then seconds per image.
MEASURED = {
    "grad-cam": (1.0, 0.8, 0.3, 0.9, 0.02),
    "integrated-gradients(steps=8)": (1.0, 0.3, 0.8, 0.6, 0.3),
    "rise(masks=100)": (0.1, 0.3, 1.0, 0.1, 4.0),
    "gradient": (1.0, 1.0, 0.6, 1.0, 0.01),
}


def measured(label: str) -> dict[str, Finding]:
    *shares, seconds = MEASURED[label]
    findings = {
        name: Finding(attribute=name, word=word(share), sentence=f"{label} was measured: {share:g}.", share=share)
        for name, share in zip(ATTRIBUTES[:4], shares, strict=True)
    }
    cost = findings["computational-efficiency"]
    return findings | {"computational-efficiency": replace(cost, numbers={"seconds": seconds})}


def run_of(images: int = 48, **changes: Any) -> Recorded:
    """Two tests per attribute; methods are far above the controls or far below them."""
    ids = [f"{at:03d}.png" for at in range(images)]
    metrics = [metric(f"{name}-{at}", name, test=f"Test {at} of {name}") for name in TESTED for at in (1, 2)]
    methods = [method(label) for label in TESTS] + [method(label, control=True) for label in CONTROLS]
    values = {}
    for place, label in enumerate([*TESTS, *CONTROLS]):
        signs = TESTS.get(label, "00000")
        for spec in metrics:
            middle = {"+": 0.8 + 0.03 * place, "-": 0.1 + 0.02 * place, "0": 0.4}[signs[TESTED.index(spec.attribute)]]
            noise = np.random.default_rng([place, *spec.label.encode()]).normal(0, 0.03, images)
            values[(label, spec.label)] = middle + noise
    return Recorded(methods=methods, metrics=metrics, ids=ids, values=values, **changes)


def planted_deck(images: int = 48) -> CardSet:
    return CardSet.of(run_of(images), {label: measured(label) for label in TESTS})


def hand_deck(shares: Mapping[str, Mapping[str, float]], seconds: Mapping[str, float] | None = None) -> CardSet:
    """A card set with these grades, by method and attribute; all others are not known."""
    cards = []
    for label, mine in shares.items():
        plain = card(label.partition("(")[0], label)
        grades = {
            attribute: Grade(
                attribute=attribute,
                share=mine.get(attribute, math.nan),
                word=word(mine.get(attribute, math.nan)),
                reason="by hand",
                weight=1.0,
            )
            for attribute in ATTRIBUTES
        }
        findings = {
            attribute: Finding(attribute=attribute, word=word(share), sentence="By hand.", share=share)
            for attribute, share in mine.items()
            if attribute in ATTRIBUTES[:5]
        }
        if seconds and label in seconds:
            cost = Finding(
                attribute="computational-efficiency",
                word="by hand",
                sentence="By hand.",
                share=0.5,
                numbers={"seconds": seconds[label]},
            )
            findings["computational-efficiency"] = cost
        cards.append(replace(plain, grades=grades, findings=findings))
    return CardSet(run=Recorded(), cards=tuple(cards), trust={})
