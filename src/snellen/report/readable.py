"""The part of a run that pages read."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd

from snellen.runs.people import StudyResult
from snellen.runs.record import RunRecord
from snellen.verdicts import Verdicts


@runtime_checkable
class Readable(Protocol):
    """The part of a run that pages, tables and cards read."""

    @property
    def folder(self) -> str | Path:
        """The path, or the URL, of the run's folder."""
        ...

    @property
    def record(self) -> RunRecord:
        """The run's own record."""
        ...

    def scores(self) -> pd.DataFrame:
        """Columns sample, method, metric, value."""
        ...

    def positive_scores(self) -> pd.DataFrame:
        """The same columns for the positive controls."""
        ...

    def samples(self) -> pd.DataFrame:
        """Columns sample, label, prediction, probability, target and the names of the three classes."""
        ...

    def curves(self, metric: str, /) -> dict[str, np.ndarray]:
        """Per method, one curve per sample."""
        ...

    def problems(self) -> dict[tuple[str, str], str]:
        """By method and metric, why scores are missing."""
        ...

    def maps(self, method: str, samples: list[str], /) -> np.ndarray:
        """One map per sample."""
        ...

    def picture(self, sample: str, /) -> np.ndarray | None:
        """The photograph; None if it was not stored."""
        ...

    def costs(self) -> pd.DataFrame:
        """Per method: images, passes and seconds."""
        ...

    def verdicts(self) -> Verdicts:
        """A verdict per method and metric."""
        ...

    def people(self) -> tuple[StudyResult, ...]:
        """The results of studies with people that were joined to the run."""
        ...
