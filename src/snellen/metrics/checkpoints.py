"""Checkpoint sensitivity: how maps change between checkpoints with different predictions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.similarity import Likeness, likeness
from snellen.metrics.case_cache import output_parts
from snellen.plugins.registry import metric
from snellen.types import CHECKPOINT, Case, CurveMetric, Passes, Rng


@metric(
    "checkpoint-sensitivity",
    cite="cose2023",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 2.0),
    needs={"explain", "checkpoints"},
    needs_output="decision",
    undefined="no checkpoint predicts another class than the classifier, or both maps are constant (one of them where maps "
    "are correlated)",
    formula="mean over states s with argmax fₛ(x) ≠ argmax f(x) of 1 − likeness(M(f, x), M(fₛ, x))",
    reading="Each checkpoint is explained for its own prediction, as in the paper; `target=same` explains the case's "
    "target instead. The paper adds a model with random weights to the checkpoints.",
    caveats={"cose2023": "the explained class changes with the prediction, so part of the change is due to the class"},
)
@dataclass(frozen=True)
class CheckpointSensitivity(CurveMetric):
    """How much the map differs from those of checkpoints that predict another class: 0 is not at all.

    Daroya et al. 2023 (COSE), the part of sensitivity that changes the model. `states` checkpoints are taken at even
    distances, including the first and the last; where fewer were saved, some are used twice. Checkpoints with the same
    prediction as the classifier are left out. Likenesses 0.9 and 0.5 give 0.3; a method that ignores the model scores 0.
    """

    likeness: Likeness = "ssim"
    target: Literal["own", "same"] = "own"
    """Whether a checkpoint's map explains its own prediction, or the same target as the case."""
    states: int = 4

    def __post_init__(self) -> None:
        if self.states < 1:
            raise ValueError(f"states must be at least 1, not {self.states}")

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """1 - likeness for every checkpoint, NaN where it predicts the same class as the classifier."""
        saved = [variant for name, variant in case.variants.items() if name.startswith(CHECKPOINT)]
        if not saved:
            raise SnellenError("checkpoint-sensitivity needs saved states of the classifier: give --checkpoints")
        predicted = case.classifier.cached_outputs(case.inputs, case.targets).predicted
        columns = []
        for step in range(self.states):
            state = saved[round(step * (len(saved) - 1) / max(1, self.states - 1))]
            prediction = state.cached_outputs(case.inputs, case.targets).predicted
            # -1 means no to the target, which is then explained.
            explained = prediction.where(prediction >= 0, case.targets) if self.target == "own" else case.targets
            maps = case.explain(case.inputs, targets=explained, classifier=state, rng=rng)
            columns.append((1 - likeness(case.maps, maps, self.likeness)).masked_fill(prediction == predicted, torch.nan))
        return torch.stack(columns, dim=1)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean over the checkpoints that predict another class."""
        return curve.nanmean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The number of the checkpoint among those that are used."""
        return tuple(f"state {step + 1} of {self.states}" for step in range(self.states))

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The outputs of the classifier and of every checkpoint, and a map of every checkpoint."""
        return Passes(forward=1 + self.states) + self.states * explain

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The outputs for the unchanged images."""
        parts = output_parts()
        for step in range(self.states):
            parts |= output_parts(CHECKPOINT, self.states, step)
        return parts
