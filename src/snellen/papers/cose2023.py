"""The table of COSE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from snellen.papers import table_rules as rules
from snellen.papers.claims import Claim, all_of
from snellen.papers.published_table import Pooling, PublishedColumn, PublishedTable, TableBlock, per_cent
from snellen.papers.table_values import CellKey


def _part(name: str) -> Pooling:
    """The mean of all defined columns of one part of COSE, over all images: what the paper calls a dataset's number."""

    def mean(traces: Float[np.ndarray, "images points"], points: Sequence[str]) -> float:
        columns = traces[:, [index for index, point in enumerate(points) if point.startswith(f"{name}/")]]
        defined = columns[np.isfinite(columns)]
        return float(defined.mean()) if defined.size else float("nan")

    return mean


def _parts(traces: Float[np.ndarray, "images points"], points: Sequence[str]) -> tuple[float, float]:
    """Consistency and sensitivity; a negative part counts as 0, an undefined part stays undefined."""
    consistency, sensitivity = (
        float(np.maximum(0.0, _part(name)(traces, points))) for name in ("consistency", "sensitivity")
    )
    return consistency, sensitivity


def _harmonic(traces: Float[np.ndarray, "images points"], points: Sequence[str]) -> float:
    consistency, sensitivity = _parts(traces, points)
    return 2 * consistency * sensitivity / (consistency + sensitivity) if consistency + sensitivity else 0.0


def _geometric(traces: Float[np.ndarray, "images points"], points: Sequence[str]) -> float:
    consistency, sensitivity = _parts(traces, points)
    return float(np.sqrt(consistency * sensitivity))


def _read_row(row: Mapping[str, str]) -> tuple[CellKey, float]:
    return (f"{row['dataset']}, {row['model']}", row["method"], "cose"), float(row["cose_percent"])


_OVERALL = "all, Overall"
_COSE = "cose@cose2023-code(magnitudes=3)"

TABLES = (
    PublishedTable(
        name="cose2023-table1",
        cite="cose2023",
        title="Table 1: COSE, the mean over 11 models and 5 datasets",
        file="cose2023_table1.csv",
        methods={
            "BlurIG": "blur-ig@cose2023",
            "Grad-CAM": "grad-cam@cose2023",
            "Grad-CAM++": "grad-cam++@cose2023",
            "Guided IG": "guided-ig@cose2023",
            "IG": "integrated-gradients@cose2023",
            "LIME": "lime@cose2023",
            "SmoothGrad": "smoothgrad@cose2023",
        },
        columns={
            "cose": PublishedColumn(metric=_COSE, unit=per_cent, short="COSE", pooling=_harmonic),
            "geometric": PublishedColumn(metric=_COSE, unit=per_cent, short="geom.", pooling=_geometric),
            "consistency": PublishedColumn(metric=_COSE, unit=per_cent, short="consist.", pooling=_part("consistency")),
            "sensitivity": PublishedColumn(metric=_COSE, unit=per_cent, short="sens.", pooling=_part("sensitivity")),
        },
        blocks=(TableBlock(published=_OVERALL),),
        claims=(
            Claim(
                sentence="Grad-CAM has the highest COSE",
                rule=rules.extreme("Grad-CAM", "cose", highest=True, block=_OVERALL),
            ),
            Claim(
                sentence="Grad-CAM is above IG, and IG above Guided IG",
                rule=rules.in_order("Grad-CAM", "IG", "Guided IG", metric="cose", block=_OVERALL),
            ),
            Claim(
                sentence="Grad-CAM++ is below Grad-CAM, BlurIG and IG",
                rule=rules.below("Grad-CAM++", ("Grad-CAM", "BlurIG", "IG"), "cose", _OVERALL),
            ),
            Claim(
                sentence="BlurIG comes right after Grad-CAM",
                rule=all_of(
                    rules.in_order("Grad-CAM", "BlurIG", metric="cose", block=_OVERALL),
                    lambda values: rules.extreme("BlurIG", "cose", highest=True, block=_OVERALL)(
                        values.without(["Grad-CAM"])
                    ),
                ),
            ),
        ),
        differs=(
            "Three strengths of each signed change are drawn for an image, six in the paper: 27 changed images, not 48.",
            "Which mean made the published numbers is not known: the paper says harmonic, its code prints the geometric.",
            "Only images that are classified correctly count, as in the published code; the text does not require it.",
            "Saved states of the classifier enter sensitivity only where they are given (--checkpoints); a state equal to "
            "the final model adds nothing.",
            "The published IG starts from zero inputs, a grey image, although the text says black; so does this one.",
            "When the prediction changes, the explained class changes with it, which is part of the measured change.",
        ),
        subject={"model": "digits", "images": "zoo:digits", "checkpoints": "zoo:digits"},
        read_row=_read_row,
    ),
)
