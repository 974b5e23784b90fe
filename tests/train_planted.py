"""Trains the residual network and the transformer of `planted_networks` and writes their weights: `make planted-weights`.

The hand-set network is the teacher. The pupils see planted images with parts taken away, dimmed and noised, give the
teacher's logits, and pay for any gradient of logit k outside patch k, so that they look where the teacher looks. They also
pay for a class activation map outside the patch: evidence of a place stays at that place in the last feature map.
"""

from __future__ import annotations

import sys

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from snellen.plugins.checks.planted import SIDE, PlantedCNN, patches, planted_batch
from snellen.plugins.checks.planted_networks import WEIGHTS, PlantedResNet, PlantedViT

BATCH = 64
INSIDE = patches(torch.arange(3)).float()


def views(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Planted images as methods will show them: a random part removed, dimmed, with noise."""
    count = len(inputs)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    cells = functional.interpolate((draw(count, 1, 6, 6) < draw(count, 1, 1, 1)).float(), size=SIDE)
    keep = torch.where(draw(count, 1, 1, 1) < 0.5, cells, torch.ones(()))
    dim = torch.where(draw(count, 1, 1, 1) < 0.5, draw(count, 1, 1, 1), torch.ones(()))
    noise = 0.5 * draw(count, 1, 1, 1) * torch.randn(inputs.shape, generator=generator)
    noisy = (draw(count, 1, 1, 1) < 0.3).float()
    return keep * dim * inputs + noisy * noise


def spilt(net: nn.Module, layer: str, inputs: Tensor, labels: Tensor) -> Tensor:
    """The share of each Grad-CAM map that lies outside the patch of its class."""
    seen: list[Tensor] = []
    handle = net.get_submodule(layer).register_forward_hook(lambda module, args, output: seen.append(output))
    logits = net(inputs)
    handle.remove()
    (features,) = seen
    (gradient,) = torch.autograd.grad(logits.gather(1, labels[:, None]).sum(), features, create_graph=True)
    if features.dim() == 3:  # tokens, the class token first
        features, gradient = (values[:, 1:].transpose(1, 2).unflatten(2, (6, 6)) for values in (features, gradient))
    maps = functional.relu((features * gradient.mean(dim=(2, 3), keepdim=True)).sum(dim=1))
    outside = maps * (1 - functional.avg_pool2d(INSIDE, 4)[labels])
    return outside.sum(dim=(1, 2)) / (maps.sum(dim=(1, 2)) + 1e-6)


def train(net: nn.Module, layer: str, steps: int, rate: float, settled: int) -> nn.Module:
    """`settled`: the step from which batch statistics no longer move and what falls outside the patches is paid for."""
    generator = torch.Generator().manual_seed(0)
    teacher = PlantedCNN()
    case = planted_batch(1536, seed=1)
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=steps)
    net.train()
    for step in range(steps):
        if step == settled:
            net.eval()
        chosen = torch.randint(len(case.inputs), (BATCH,), generator=generator)
        inputs = views(case.inputs[chosen], generator).requires_grad_()
        with torch.no_grad():
            expected = teacher(inputs)
        logits = net(inputs)
        loss = (logits - expected).square().mean()
        if step >= settled:
            k = torch.randint(3, (BATCH,), generator=generator)
            (gradient,) = torch.autograd.grad(logits.gather(1, k[:, None]).sum(), inputs, create_graph=True)
            outside = (gradient.square().sum(dim=1) * (1 - INSIDE[k])).sum(dim=(1, 2)).mean()
            few = chosen[: BATCH // 4]
            loss = loss + 3 * outside + 0.2 * spilt(net, layer, case.inputs[few], case.targets[few]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"{type(net).__name__} step {step}: loss {loss.item():.4f}", file=sys.stderr)
    return net.eval()


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    WEIGHTS.mkdir(exist_ok=True)
    plans = ((PlantedResNet, "resnet", "layer2", 700, 0.01, 250), (PlantedViT, "vit", "blocks.1.norm1", 700, 0.004, 0))
    for build, name, layer, steps, rate, settled in plans:
        torch.manual_seed(0)
        # Only the plain kernel of attention has a second derivative.
        with sdpa_kernel(SDPBackend.MATH):
            net = train(build(), layer, steps, rate, settled)
        save_file({key: value.contiguous() for key, value in net.state_dict().items()}, WEIGHTS / f"{name}.safetensors")


if __name__ == "__main__":
    main()
