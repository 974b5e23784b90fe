"""Small random networks for comparisons with other implementations; weights depend on the seed alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

SIDE, CLASSES = 32, 5


class Residual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(out),
            activation(),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.skip = nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))
        self.last = activation()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.body(inputs) + self.skip(inputs))


def plain(seed: int = 0, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Two convolutions and a linear head."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 8, 5, padding=2), activation(), nn.AvgPool2d(2),
            nn.Conv2d(8, 12, 3, padding=1), activation(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(12 * 8 * 8, CLASSES),
        ).eval()  # fmt: skip


def residual(seed: int = 0, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Two residual blocks whose batch normalisation has lived: its statistics are neither zero nor one."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), Residual(8, 12, 2, activation), Residual(12, 16, 2, activation),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES),
        )  # fmt: skip
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.running_mean, -0.3, 0.3)
                nn.init.uniform_(module.running_var, 0.3, 2.0)
                nn.init.uniform_(module.weight, 0.5, 1.5)
        return net.eval()


NETWORKS = {"plain": plain, "residual": residual}
