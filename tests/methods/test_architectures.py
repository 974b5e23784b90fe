"""Every method on the networks that people use: it gives a finite map, or one sentence before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import snellen
from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.registry import METHODS
from snellen.runs import requirements
from snellen.runs.progress import Silent
from snellen.types import Rng, Sample

CHEAP: dict[str, dict[str, Any]] = {
    "integrated-gradients": {"steps": 2}, "blur-ig": {"steps": 3}, "guided-ig": {"steps": 3}, "xrai": {"steps": 2},
    "smoothgrad": {"samples": 2}, "smoothgrad-squared": {"samples": 2}, "vargrad": {"samples": 2},
    "gradient-shap": {"samples": 2}, "deepshap": {"backgrounds": 2}, "rise": {"masks": 4}, "occlusion": {"cells": 2},
    "lime": {"samples": 4}, "lime-lasso": {"samples": 4}, "kernel-shap": {"samples": 4, "segments": "grid"},
    "sis": {"per_step": 3000}, "sis-removal": {"cells": 2}, "meaningful-perturbation": {"steps": 2},
    "extremal-perturbation": {"steps": 2, "areas": [0.2]}, "iba": {"steps": 2},
}  # fmt: skip

ALWAYS = {
    "gradient", "input-x-gradient", "integrated-gradients", "blur-ig", "guided-ig", "smoothgrad", "vargrad", "gradient-shap",
    "grad-cam", "grad-cam++", "eigen-cam", "layer-cam", "xgrad-cam", "hires-cam", "rise", "occlusion", "lime", "kernel-shap",
    "sis", "meaningful-perturbation", "extremal-perturbation", "iba", "xrai",
}  # fmt: skip
"""What no network here may be refused."""

SLOW = {"score-cam", "ablation-cam"}
"""A pass per channel: left to the three networks below that have few."""
FEW_CHANNELS = {"timm vit", "torchvision squeezenet", "timm convnext"}

SIDE = 64


def _timm(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, num_classes=10, **settings)

    return build


def _torchvision(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import torchvision

        return getattr(torchvision.models, name)(weights=None, num_classes=10, **settings)

    return build


def _vision_transformer() -> nn.Module:
    import torchvision

    return torchvision.models.VisionTransformer(
        image_size=SIDE, patch_size=16, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10
    )


NETWORKS = {
    "torchvision resnet": _torchvision("resnet18"),
    "torchvision vgg": _torchvision("vgg11_bn"),
    "torchvision densenet": _torchvision("densenet121"),
    "torchvision googlenet": _torchvision("googlenet", aux_logits=False, init_weights=False),
    "torchvision squeezenet": _torchvision("squeezenet1_1"),
    "torchvision mobilenet-v2": _torchvision("mobilenet_v2"),
    "torchvision mobilenet-v3": _torchvision("mobilenet_v3_small"),
    "torchvision shufflenet": _torchvision("shufflenet_v2_x0_5"),
    "torchvision efficientnet": _torchvision("efficientnet_b0"),
    "torchvision vit": _vision_transformer,
    "torchvision swin": _torchvision("swin_t"),
    "torchvision convnext": _torchvision("convnext_tiny"),
    "timm resnet": _timm("resnet10t"),
    "timm regnet": _timm("regnetx_002"),
    "timm efficientnet": _timm("efficientnet_lite0"),
    "timm convnext": _timm("convnext_atto"),
    "timm vit": _timm("vit_tiny_patch16_224", img_size=SIDE, depth=2),
    "timm deit": _timm("deit_tiny_distilled_patch16_224", img_size=SIDE, depth=2),
    "timm swin": _timm("swin_tiny_patch4_window7_224", img_size=SIDE, window_size=2, depths=(1, 1, 1, 1)),
}


@pytest.mark.exhaustive
@pytest.mark.usefixtures("torchvision")
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")  # the libraries' own
@pytest.mark.parametrize("network", NETWORKS)
def test_every_method_serves_or_refuses_in_one_sentence(network: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        classifier = Classifier(NETWORKS[network](), mean=0.5, std=0.25, name=network)
    rng = Rng(seed=0, ids=("a", "b"))
    pixels = rng.uniform("pixels", (3, SIDE, SIDE))
    inputs, targets = classifier.to_inputs(pixels), torch.tensor([3, 7])
    samples = [Sample(name, image) for name, image in zip(rng.ids, pixels, strict=True)]
    problems = []
    for name in METHODS:
        if name in SLOW and network not in FEW_CHANNELS:
            continue
        method = METHODS.build(name, CHEAP.get(name))
        try:
            requirements.check_needs(classifier, [method], inputs)
        except SnellenError as refusal:
            if name in ALWAYS or "\n" in str(refusal) or name not in str(refusal):
                problems.append(f"{name} refused: {refusal}")
            continue
        try:
            snellen.fit(classifier, samples, methods=[method], observer=Silent())
            with torch.no_grad():
                maps = method(classifier, inputs, targets, rng=rng)
            if maps.shape != (2, SIDE, SIDE) or not bool(maps.isfinite().all()):
                problems.append(f"{name} gave no finite map")
        except Exception as problem:
            problems.append(f"{name} raised {type(problem).__name__}: {problem}")
    assert not problems, "\n".join(problems)
