"""The table of COSE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from snellen.papers import table_rules as findings
from snellen.papers.published_table import Arm, Column, Pooled, Protocol, per_cent
from snellen.papers.table_rules import Finding
from snellen.papers.table_values import Key


def _part(name: str) -> Pooled:
    """The mean of all defined columns of one part of COSE, over all images: what the paper calls a dataset's number."""

    def pooled(traces: Float[np.ndarray, "images points"], points: Sequence[str]) -> float:
        columns = traces[:, [at for at, point in enumerate(points) if point.startswith(f"{name}/")]]
        defined = columns[np.isfinite(columns)]
        return float(defined.mean()) if defined.size else float("nan")

    return pooled


def _parts(traces: Float[np.ndarray, "images points"], points: Sequence[str]) -> tuple[float, float]:
    """Both parts; a negative one counts as 0, an undefined one stays so."""
    alike, unlike = (float(np.maximum(0.0, _part(name)(traces, points))) for name in ("consistency", "sensitivity"))
    return alike, unlike


def _harmonic(traces: Float[np.ndarray, "images points"], points: Sequence[str]) -> float:
    alike, unlike = _parts(traces, points)
    return 2 * alike * unlike / (alike + unlike) if alike + unlike else 0.0


def _geometric(traces: Float[np.ndarray, "images points"], points: Sequence[str]) -> float:
    alike, unlike = _parts(traces, points)
    return float(np.sqrt(alike * unlike))


def _cell(row: Mapping[str, str]) -> tuple[Key, float]:
    return (f"{row['dataset']}, {row['model']}", row["method"], "cose"), float(row["cose_percent"])


_OVERALL = "all, Overall"
_COSE = "cose@cose2023-code(magnitudes=3)"

TABLES = (
    Protocol(
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
            "cose": Column(_COSE, per_cent, "COSE", _harmonic),
            "geometric": Column(_COSE, per_cent, "geom.", _geometric),
            "consistency": Column(_COSE, per_cent, "consist.", _part("consistency")),
            "sensitivity": Column(_COSE, per_cent, "sens.", _part("sensitivity")),
        },
        arms=(Arm("", _OVERALL),),
        findings=(
            Finding(
                "Grad-CAM has the highest COSE",
                findings.extreme("Grad-CAM", "cose", highest=True, arm=_OVERALL),
            ),
            Finding(
                "Grad-CAM is above IG, and IG above Guided IG",
                findings.in_order("Grad-CAM", "IG", "Guided IG", metric="cose", arm=_OVERALL),
            ),
            Finding(
                "Grad-CAM++ is below Grad-CAM, BlurIG and IG",
                lambda values: (
                    values.get(_OVERALL, "Grad-CAM++", "cose")
                    < min(values.row(_OVERALL, ("Grad-CAM", "BlurIG", "IG"), "cose"))
                ),
            ),
            Finding(
                "BlurIG comes right after Grad-CAM",
                findings.both(
                    findings.in_order("Grad-CAM", "BlurIG", metric="cose", arm=_OVERALL),
                    lambda values: findings.extreme("BlurIG", "cose", highest=True, arm=_OVERALL)(
                        values.without(["Grad-CAM"])
                    ),
                ),
            ),
        ),
        differs=(
            "Three strengths of each signed change are drawn for a picture, six in the paper: 27 changed pictures, not 48.",
            "Which mean made the published numbers cannot be told: the paper says harmonic, its code prints the geometric.",
            "Only pictures that are classified rightly count, as in the published code; the text does not ask for that.",
            "Saved states of the classifier enter sensitivity only where they are given (--checkpoints); a state equal to "
            "the final model adds nothing.",
            "The published IG starts from zero inputs, a grey picture, although the text says black; so does this one.",
            "When the prediction changes, the explained class changes with it, so part of the change is that of the class.",
        ),
        subject={"model": "digits", "images": "zoo:digits", "checkpoints": "zoo:digits"},
        cell=_cell,
    ),
)
