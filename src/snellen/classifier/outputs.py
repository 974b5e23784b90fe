"""TargetOutputs: the logit and probability of each row's target class."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier.heads import Head
from snellen.types import Output


@dataclass(frozen=True, eq=False)
class TargetOutputs:
    """For each row the target's logit and probability, and what the model decides (see `Head.decisions`)."""

    logit: Float[Tensor, "*rows"]
    """The logit of the target."""
    probability: Float[Tensor, "*rows"]
    """The probability of the target; NaN where the head has none."""
    predicted: Int[Tensor, "*rows"]
    """The column that the model decides for; -1 for none."""

    @staticmethod
    def read(logits: Float[Tensor, "rows columns"], targets: Int[Tensor, " rows"], head: Head) -> TargetOutputs:
        """The outputs of each row's target, from the logits of all columns."""
        return TargetOutputs(
            target_output(logits, targets, "logit", head),
            target_output(logits, targets, "probability", head),
            head.decisions(logits, targets).to(targets.device),
        )

    def of(self, output: Output) -> Float[Tensor, "*rows"]:
        """The logits or the probabilities."""
        return self.logit if output == "logit" else self.probability


def target_output(
    logits: Float[Tensor, "rows columns"], targets: Int[Tensor, " rows"], of: Output, head: Head
) -> Float[Tensor, " rows"]:
    """The logit or probability of each row's target."""
    rows = logits if of == "logit" else head.probabilities(logits)
    picked: Tensor = rows.gather(1, targets.to(rows.device).view(-1, 1)).squeeze(1)
    return picked.to(targets.device)
