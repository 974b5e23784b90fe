"""Maps of the classifier at earlier moments of its training."""

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
    undefined="no earlier state decides differently from the classifier, or both maps are constant (one of them where maps "
    "are correlated)",
    formula="mean over states s with argmax fₛ(x) ≠ argmax f(x) of 1 − likeness(M(f, x), M(fₛ, x))",
    reading="Each state is explained for the class that it predicts itself, as in the paper; `target=same` holds the case's "
    "class fixed instead. The paper adds a model with random weights to the states.",
    caveats={"cose2023": "the explained class changes along with the decision, so part of the change is that of the class"},
)
@dataclass(frozen=True)
class CheckpointSensitivity(CurveMetric):
    """How much the map changes along with the decision, at moments of training when the model decided otherwise.

    Daroya et al. 2023 (COSE), the part of sensitivity that changes the model. The states are taken evenly from those that
    were saved, the first and the last among them; where fewer were saved, some stand twice. A method that ignores the model
    scores 0. A state that decides as the classifier does says nothing here, whatever its map.
    """

    likeness: Likeness = "ssim"
    target: Literal["own", "same"] = "own"
    states: int = 4

    def __post_init__(self) -> None:
        if self.states < 1:
            raise ValueError(f"states must be at least 1, not {self.states}")

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """For every state how unlike its map is, NaN where it decides as the classifier does."""
        saved = [sibling for name, sibling in case.variants.items() if name.startswith(CHECKPOINT)]
        if not saved:
            raise SnellenError("checkpoint-sensitivity needs saved states of the classifier: give --checkpoints")
        decided = case.classifier.cached_outputs(case.inputs, case.targets).predicted
        columns = []
        for step in range(self.states):
            state = saved[round(step * (len(saved) - 1) / max(1, self.states - 1))]
            own = state.cached_outputs(case.inputs, case.targets).predicted
            maps = case.explain(
                case.inputs, targets=own if self.target == "own" else case.targets, classifier=state, rng=rng
            )
            columns.append((1 - likeness(case.maps, maps, self.likeness)).masked_fill(own == decided, torch.nan))
        return torch.stack(columns, dim=1)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean over the states that say something."""
        return curve.nanmean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """Where the state stands among those that were saved."""
        return tuple(f"state {step + 1} of {self.states}" for step in range(self.states))

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """What the classifier and every state say, and a map of every state."""
        return Passes(forward=1 + self.states) + self.states * explain

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """What is said of the untouched pictures."""
        said = output_parts()
        for step in range(self.states):
            said |= output_parts(CHECKPOINT, self.states, step)
        return said
