"""Evidence from the literature: the 86 verdicts of the six public cards (Boggust et al. 2023)."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import cast

from snellen.cards.schema import Evidence, EvidenceSource
from snellen.plugins.registry import Attribute
from snellen.verdicts import Verdict

NAMES = {
    "Vanilla Gradients": "gradient",
    "Integrated Gradients": "integrated-gradients",
    "Grad-CAM": "grad-cam",
    "SmoothGrad": "smoothgrad",
    "XRAI": "xrai",
    "LIME": "lime",
}
"""By name of a method on the public cards, its name in Snellen."""


@cache
def literature() -> tuple[tuple[str, Evidence], ...]:
    """Every verdict as (registered name, evidence)."""
    text = resources.files("snellen.cards").joinpath("literature.csv").read_text(encoding="utf-8")
    return tuple(
        (
            NAMES[row["method"]],
            Evidence(
                attribute=cast(Attribute, row["attribute"].replace("_", "-")),
                test=row["test"],
                metric=None,
                verdict=cast(Verdict, row["verdict"]),
                reason=row["note"],
                source=EvidenceSource(kind="literature", name=row["source_paper"], model="", data=row["models_datasets"]),
            ),
        )
        for row in csv.DictReader(text.splitlines())
    )


def literature_of(name: str) -> tuple[Evidence, ...]:
    """The literature's evidence on a registered method."""
    return tuple(evidence for method, evidence in literature() if method == name)
