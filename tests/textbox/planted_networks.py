"""Networks that follow a rule by construction. No two things overlap, so on black the amount of ink tells what is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import TrainedNetwork
from snellen.textbox.scenes.objects import OBJECTS, bucket_contents

Seen = Mapping[str, Tensor]
"""Whether each thing is there, and whether the text is a B, scene by scene."""


class Planted(nn.Module):
    """Says `decide` of what it sees, with this difference between the logits."""

    def __init__(self, decide: Callable[[Seen], Tensor], certainty: float = 20.0) -> None:
        super().__init__()
        self.decide = decide
        self.certainty = certainty
        self.weight = nn.Parameter(torch.zeros(1))
        ink = {
            (item.name, kind): int(look.sum()) for item in OBJECTS for kind, look in zip(item.kinds, item.masks, strict=True)
        }
        shown = list(bucket_contents(OBJECTS))
        self.amounts = torch.tensor([sum(ink.get(part, 0) for part in contents.items()) for contents in shown])
        assert len(set(self.amounts.tolist())) == len(shown)
        self.there = {
            "box1": torch.tensor([contents["box1"] is not None for contents in shown]),
            "box2": torch.tensor([contents["box2"] is not None for contents in shown]),
            "text": torch.tensor([contents["text"] is not None for contents in shown]),
            "B": torch.tensor([contents["text"] == "B" for contents in shown]),
        }

    def forward(self, inputs: Tensor) -> Tensor:
        amount = inputs[:, 0].flatten(1).sum(dim=1).round()
        bucket = (amount[:, None] == self.amounts).int().argmax(dim=1)
        sign = self.decide({name: truth[bucket] for name, truth in self.there.items()}).float() * 2 - 1
        return 0.5 * self.certainty * torch.stack([-sign, sign], dim=1) + self.weight


def planted(rule: str, decide: Callable[[Seen], Tensor], *, certainty: float = 20.0) -> TrainedNetwork:
    """A network that decides like this, presented as one that was taught the rule."""
    spec = NetworkSpec.of(rule, name="planted")
    return TrainedNetwork(spec=spec, module=Planted(decide, certainty), record={"accuracy": {}}, folder=Path())
