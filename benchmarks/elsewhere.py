"""The other side of `methods.py`: each method as captum, pytorch-grad-cam, PAIR saliency or lime compute it.

Every advantage that costs them nothing is given: evaluation mode, parameters without gradients, the memory layout that
Snellen uses, and full batches wherever their interface has a setting for it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import captum.attr
import numpy as np
import torch
from skimage.segmentation import quickshift
from torch import Tensor, nn

from snellen.classifier import Classifier
from theirs import with_relu

Explain = Callable[[Tensor, Tensor], Tensor]
"""Inputs and targets to one map each, (batch, height, width)."""


@dataclass(frozen=True, eq=False)
class Rival:
    """One method as somebody else computes it, and our settings that ask for the same."""

    ours: str
    whose: str
    explain: Explain
    relu: bool = False
    """Compared on a copy with nn.ReLU in place of ReLU6, which the other library does not know."""
    scaled: bool = False
    """The other library stretches its maps to [0, 1], so ours are stretched before they are compared."""
    same: bool = True
    note: str = ""


def rivals(classifier: Classifier, inputs: Tensor) -> list[Rival]:
    """Everyone else who computes one of our methods."""
    net = copy.deepcopy(classifier.module)
    relu = with_relu(net)
    rows, gradient_rows = classifier.rows_for(inputs), classifier.rows_for(inputs, gradients=True)
    layer = classifier.feature_layer(inputs)
    return [
        *_captum(net, relu, layer, rows, gradient_rows),
        *_grad_cam(net, layer),
        *_pair(classifier, net),
        *_lime(classifier, net, rows),
    ]


# captum ---------------------------------------------------------------------------------------------------------------


def _captum(net: nn.Module, relu: nn.Module, layer: str, rows: int, gradient_rows: int) -> list[Rival]:
    attr = captum.attr
    saliency, product, integrated = attr.Saliency(net), attr.InputXGradient(net), attr.IntegratedGradients(net)
    deconvolution, guided = attr.Deconvolution(relu), attr.GuidedBackprop(relu)
    guided_cam = attr.GuidedGradCam(relu, dict(relu.named_modules())[layer])
    tunnel, shap, lift, kernel = (
        attr.NoiseTunnel(saliency),
        attr.GradientShap(net),
        attr.DeepLift(relu),
        attr.KernelShap(net),
    )

    def occlude(images: Tensor, targets: Tensor) -> Tensor:
        channels, side = images.shape[1:3]
        window = math.ceil(side / 7)
        stride = math.ceil(window / 2)
        maps = attr.Occlusion(lambda x: net(x).softmax(dim=1)).attribute(
            images,
            target=targets,
            sliding_window_shapes=(channels, window, window),
            strides=(channels, stride, stride),
            perturbations_per_eval=max(1, rows // len(images)),
        )
        return maps[:, 0]

    def smooth(images: Tensor, targets: Tensor) -> Tensor:
        return tunnel.attribute(
            images, target=targets, nt_samples=8, nt_samples_batch_size=max(1, gradient_rows // len(images)), stdevs=0.3
        ).amax(dim=1)

    def kernel_shap(images: Tensor, targets: Tensor) -> Tensor:
        maps = []
        for image, target in zip(images, targets.tolist(), strict=True):  # captum takes one example at a time
            labels = torch.from_numpy(superpixels(image))
            values = kernel.attribute(
                image[None], target=target, feature_mask=labels[None, None], n_samples=100, perturbations_per_eval=rows
            )
            maps.append(values[0, 0] / torch.bincount(labels.flatten())[labels])
        return torch.stack(maps)

    return [
        Rival("gradient", "captum", lambda x, y: saliency.attribute(x, target=y).amax(dim=1)),
        Rival("input-x-gradient", "captum", lambda x, y: product.attribute(x, target=y).sum(dim=1)),
        Rival(
            "integrated-gradients(steps=32)",
            "captum",
            lambda x, y: (
                integrated.attribute(x, target=y, n_steps=32, internal_batch_size=max(len(x), gradient_rows))
                .sum(dim=1)
                .float()
            ),
        ),
        Rival("smoothgrad(samples=8)", "captum", smooth, same=False, note="own noise"),
        Rival(
            "gradient-shap(samples=8)",
            "captum",
            lambda x, y: shap.attribute(x, baselines=torch.zeros_like(x[:1]), target=y, n_samples=8).sum(dim=1),
            same=False,
            note="own noise",
        ),
        Rival("deconvnet", "captum", lambda x, y: deconvolution.attribute(x, target=y).abs().amax(dim=1), relu=True),
        Rival("guided-backprop", "captum", lambda x, y: guided.attribute(x, target=y).abs().amax(dim=1), relu=True),
        Rival(
            "guided-grad-cam(fold=sum)",
            "captum",
            lambda x, y: guided_cam.attribute(x, target=y, interpolate_mode="bilinear").sum(dim=1),
            relu=True,
        ),
        Rival("deeplift-rescale", "captum", lambda x, y: lift.attribute(x, target=y).sum(dim=1), relu=True),
        Rival("occlusion", "captum", occlude),
        Rival("kernel-shap(samples=100)", "captum", kernel_shap, same=False, note="own coalitions"),
    ]


# pytorch-grad-cam -----------------------------------------------------------------------------------------------------


def _grad_cam(net: nn.Module, layer: str) -> list[Rival]:
    import pytorch_grad_cam as cams
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    names = {
        "grad-cam": "GradCAM", "grad-cam++@zhang2024": "GradCAMPlusPlus", "score-cam@zhang2024": "ScoreCAM",
        "ablation-cam": "AblationCAM",
        "eigen-cam(centred=true)": "EigenCAM", "layer-cam": "LayerCAM", "xgrad-cam": "XGradCAM", "hires-cam": "HiResCAM",
    }  # fmt: skip

    def rival(ours: str, theirs: str) -> Rival:
        def explain(images: Tensor, targets: Tensor) -> Tensor:
            model = copy.deepcopy(net)
            with getattr(cams, theirs)(model=model, target_layers=[dict(model.named_modules())[layer]]) as cam:
                outputs = [ClassifierOutputTarget(target) for target in targets.tolist()]
                # Its backward pass needs something that wants a gradient; the image is cheaper than all parameters.
                return torch.from_numpy(cam(input_tensor=images.requires_grad_(), targets=outputs))

        return Rival(ours, "pytorch-grad-cam", explain, scaled=True)

    return [rival(ours, theirs) for ours, theirs in names.items()]


# PAIR saliency --------------------------------------------------------------------------------------------------------


def _pair(classifier: Classifier, net: nn.Module) -> list[Rival]:
    import saliency.core as pair
    import saliency.core.guided_ig as broken

    # Their guided IG calls np.quantile with an argument that numpy has renamed; with this it runs.
    class Numpy:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        @staticmethod
        def quantile(values: Any, share: Any, interpolation: str = "linear", **rest: Any) -> Any:
            return np.quantile(values, share, method=interpolation, **rest)

    broken.np = Numpy()

    def call(images: np.ndarray, call_model_args: Any = None, expected_keys: Any = None) -> dict[str, np.ndarray]:
        batch = torch.from_numpy(np.asarray(images, dtype=np.float32)).permute(0, 3, 1, 2).contiguous()
        batch = batch.to(memory_format=torch.channels_last).requires_grad_()
        target = call_model_args["target"]
        (gradient,) = torch.autograd.grad(net(batch)[:, target].sum(), batch)
        return {pair.INPUT_OUTPUT_GRADIENTS: gradient.permute(0, 2, 3, 1).numpy()}

    def each(mask: Callable[[np.ndarray, dict[str, Any]], np.ndarray]) -> Explain:
        def explain(images: Tensor, targets: Tensor) -> Tensor:
            maps = []
            for image, target in zip(images, targets.tolist(), strict=True):  # they take one image at a time
                values = mask(image.permute(1, 2, 0).numpy(), {"target": target})
                maps.append(torch.from_numpy(np.asarray(values, dtype=np.float32)))
            return torch.stack([saliency.sum(dim=2) if saliency.dim() == 3 else saliency for saliency in maps])

        return explain

    blur, guided, regions = pair.BlurIG(), pair.GuidedIG(), pair.XRAI()
    return [
        Rival("blur-ig(steps=50)", "PAIR saliency", each(
            lambda x, a: blur.GetMask(x, call, a, max_sigma=50, steps=50, batch_size=16)
        )),
        Rival("guided-ig(steps=50)", "PAIR saliency", each(
            lambda x, a: guided.GetMask(x, call, a, x_baseline=np.zeros_like(x), x_steps=50, max_dist=0.02, fraction=0.25)
        )),
        Rival("xrai@boggust2023", "PAIR saliency", each(lambda x, a: regions.GetMask(x, call, a, batch_size=16))),
        Rival("xrai", "PAIR saliency", each(lambda x, a: regions.GetMask(x, call, a, batch_size=16)), same=False,
              note="32 nodes for their 100 steps"),
    ]  # fmt: skip


# lime -----------------------------------------------------------------------------------------------------------------


def superpixels(image: Tensor) -> np.ndarray:
    """The segments that lime and captum are given: lime's own default."""
    return np.asarray(
        quickshift(image.permute(1, 2, 0).double().numpy(), kernel_size=4, max_dist=200, ratio=0.2), dtype=np.int64
    )


def _lime(classifier: Classifier, net: nn.Module, rows: int) -> list[Rival]:
    from lime import lime_image

    @torch.no_grad()
    def probabilities(images: np.ndarray) -> np.ndarray:
        batch = torch.from_numpy(np.asarray(images, dtype=np.float32)).permute(0, 3, 1, 2)
        return net(batch.contiguous(memory_format=torch.channels_last)).softmax(dim=1).numpy()

    def explain(images: Tensor, targets: Tensor) -> Tensor:
        maps = []
        for image, target in zip(images, targets.tolist(), strict=True):  # lime takes one image at a time
            explainer = lime_image.LimeImageExplainer(random_state=0)
            explanation = explainer.explain_instance(
                image.permute(1, 2, 0).double().numpy(),
                probabilities,
                labels=(target,),
                top_labels=None,
                hide_color=0,
                num_features=100000,
                num_samples=200,
                batch_size=rows,
            )
            weights = dict(explanation.local_exp[target])
            lookup = np.array(
                [weights.get(superpixel, 0.0) for superpixel in range(explanation.segments.max() + 1)], dtype=np.float32
            )
            maps.append(torch.from_numpy(lookup[explanation.segments]))
        return torch.stack(maps)

    return [Rival("lime(samples=200)", "lime", explain, same=False, note="own draws")]
