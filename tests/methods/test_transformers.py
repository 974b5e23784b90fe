"""Transformers and other modern networks of timm and torchvision, with random weights, and no reshape function anywhere."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.networks import CLASSES
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.classifier.attention import AttentionRecorder
from snellen.classifier.operations import intercepting
from snellen.errors import SnellenError
from snellen.plugins.registry import METHODS
from snellen.types import Passes, Rng

pytestmark = [pytest.mark.usefixtures("torchvision"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

RNG = Rng(seed=6, ids=("a", "b", "c"))
TARGETS = torch.tensor([0, 2, 1])
SIZE = {"timm-vit-wide": (48, 96), "timm-swin": (48, 96), "torchvision-swin": (48, 96), "timm-convnext": (96, 160)}
SIZE["torchvision-convnext"] = (48, 96)

LAYERS = {
    "timm-vit": "blocks.2.norm1",
    "timm-vit-wide": "blocks.2.norm1",
    "timm-vit-mean": "blocks.2.norm1",
    "timm-vit-registers": "blocks.2.norm1",
    "timm-vit-registers-mean": "blocks.2.norm1",
    "timm-vit-unfused": "blocks.2.norm1",
    "timm-deit-distilled": "blocks.2.norm1",
    "torchvision-vit": "encoder.layers.encoder_layer_2.ln_1",
    "timm-swin": "layers.1.blocks.1.norm1",
    "torchvision-swin": "features.3.1.norm1",
    "timm-convnext": "norm_pre",  # an identity: what the last block of the last stage puts out
    "torchvision-convnext": "features",
}
"""Where class-activation methods look, as in COSE's code."""

PREFIX = {"timm-vit-mean": 0, "timm-vit-registers": 5, "timm-vit-registers-mean": 4, "timm-deit-distilled": 2}
READ = {"timm-vit-mean": slice(0, None), "timm-vit-registers-mean": slice(4, None), "timm-deit-distilled": slice(0, 2)}
PLAIN = [name for name in LAYERS if "vit" in name or "deit" in name]


def build(name: str) -> nn.Module:
    import timm

    small: dict[str, Any] = {"pretrained": False, "num_classes": CLASSES}
    vit = small | {"img_size": SIZE.get(name, (64, 64)), "embed_dim": 48, "depth": 3, "num_heads": 3}
    swin = small | {"img_size": (48, 96), "window_size": 3, "embed_dim": 24, "depths": (1, 2), "num_heads": (2, 4)}
    match name:
        case "timm-vit" | "timm-vit-wide" | "timm-vit-unfused":
            net = timm.create_model("vit_tiny_patch16_224", **vit)
            for block in net.blocks:
                block.attn.fused_attn = name != "timm-vit-unfused"
            return net
        case "timm-vit-mean":
            return timm.create_model("vit_tiny_patch16_224", **vit, class_token=False, global_pool="avg")
        case "timm-vit-registers":
            return timm.create_model("vit_tiny_patch16_224", **vit, reg_tokens=4)
        case "timm-vit-registers-mean":
            return timm.create_model("vit_tiny_patch16_224", **vit, reg_tokens=4, class_token=False, global_pool="avg")
        case "timm-deit-distilled":
            return timm.create_model("deit_tiny_distilled_patch16_224", **vit)
        case "timm-swin":
            return timm.create_model("swin_tiny_patch4_window7_224", **swin)
        case "timm-convnext":
            return timm.create_model("convnext_atto", **small, depths=(1, 1, 1, 2), dims=(8, 12, 16, 20))
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    from torchvision.models.swin_transformer import SwinTransformer
    from torchvision.models.vision_transformer import VisionTransformer

    match name:
        case "torchvision-vit":
            return VisionTransformer(64, 16, 3, 3, 48, 96, num_classes=CLASSES)
        case "torchvision-swin":
            return SwinTransformer([4, 4], 24, [1, 2], [2, 4], [3, 3], num_classes=CLASSES)
        case "torchvision-convnext":
            return ConvNeXt([CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 2)], num_classes=CLASSES)
    raise AssertionError(name)


@functools.cache
def network(name: str) -> nn.Module:
    """Random weights that are large enough for attention to be uneven and for no gradient to be tiny."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net = build(name).eval()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(0.15 * torch.randn_like(parameter))
    return net


def images(name: str) -> Tensor:
    return RNG.normal("images", (3, *SIZE.get(name, (64, 64))))


def close(actual: Tensor, expected: Tensor, share: float) -> None:
    """Equal up to a share of the largest value of each map."""
    assert actual.shape == expected.shape
    largest = expected.abs().amax(dim=tuple(range(1, expected.dim())), keepdim=True)
    assert float(largest.min()) > 0
    error = ((actual - expected).abs() / largest).max()
    assert float(error) < share, float(error)


def upsample(coarse: Tensor, size: tuple[int, ...]) -> Tensor:
    return functional.interpolate(coarse[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]


# Feature maps -------------------------------------------------------------------------------------------------------


def reshape(name: str) -> Callable[[Tensor], Tensor] | None:
    """What a user of pytorch-grad-cam has to write."""
    if "swin" in name:
        return lambda output: output.permute(0, 3, 1, 2)
    if "convnext" in name:
        return None
    rows, columns = (side // 16 for side in SIZE.get(name, (64, 64)))
    prefix = PREFIX.get(name, 1)

    def as_map(output: Tensor) -> Tensor:
        return output[:, prefix:].reshape(len(output), rows, columns, -1).permute(0, 3, 1, 2)

    return as_map


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_grad_cam_is_pytorch_grad_cams_with_a_reshape_function(name: str) -> None:
    from pytorch_grad_cam import GradCAM

    net, inputs = network(name), images(name)
    classifier = Classifier(net, name=name)
    assert classifier.feature_layer(inputs) == LAYERS[name]
    layer = net.get_submodule(LAYERS[name])
    with GradCAM(net, target_layers=[layer], reshape_transform=reshape(name)) as twin:
        logits = twin.activations_and_grads(inputs.clone().requires_grad_())
        logits.gather(1, TARGETS[:, None]).sum().backward()
        seen = twin.activations_and_grads
        activations, gradients = seen.activations[0].numpy(), seen.gradients[0].numpy()
        coarse = twin.get_cam_image(inputs, layer, None, activations, gradients, False)
    expected = upsample(torch.from_numpy(coarse).relu(), inputs.shape[2:])
    maps = METHODS.build("grad-cam")(classifier, inputs, TARGETS, rng=RNG)
    torch.testing.assert_close(maps, expected, rtol=1e-4, atol=1e-4 * float(expected.max()))
    assert float(expected.max()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_methods_without_a_layer_setting_run(name: str) -> None:
    inputs = images(name)
    classifier = Classifier(network(name), name=name)
    for text in (
        "gradient", "input-x-gradient", "integrated-gradients(steps=3)", "smoothgrad(samples=2)",
        "smoothgrad(of=grad-cam, samples=2)", "occlusion(cells=3)",
    ):  # fmt: skip
        method = METHODS.parse(text)
        with classifier.counting() as ledger:
            maps = method(classifier, inputs, TARGETS, rng=RNG)
        assert maps.shape == (3, *inputs.shape[2:])
        assert bool(maps.isfinite().all())
        assert bool((maps.flatten(1).std(dim=1) > 0).any()), text
        assert ledger.passes + ledger.cached == 3 * method.passes(tuple(inputs.shape[2:]), classifier), text


@pytest.mark.parametrize(
    ("name", "layer", "rows", "columns"),
    [
        ("timm-vit-wide", "blocks.1", 3, 6),
        ("timm-vit-wide", "patch_embed.proj", 3, 6),
        ("timm-vit-wide", "blocks.0.mlp.fc1", 3, 6),
        ("torchvision-vit", "encoder.layers.encoder_layer_0", 4, 4),
        ("timm-swin", "layers.0", 12, 24),
        ("torchvision-swin", "features.2", 6, 12),
        ("timm-convnext", "stages.1", 12, 20),
        ("torchvision-convnext", "features.1", 12, 24),
    ],
)
def test_any_layer_with_a_grid_can_be_named(name: str, layer: str, rows: int, columns: int) -> None:
    classifier = Classifier(network(name), name=name)
    features, gradient = classifier.layer_gradient(images(name), TARGETS, layer)
    assert features.shape == gradient.shape
    assert features.shape[2:] == (rows, columns)
    # A step along the gradient raises the output by the square of its length: it is the gradient of what was recorded.
    assert float(gradient.abs().amax()) > 0
    step = 1e-2 * gradient / gradient.square().sum(dim=(1, 2, 3), keepdim=True).sqrt()
    layout = classifier.layer_layouts(images(name)).layout(layer)

    def moved(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return layout.put_back(layout.to_map(output) + step, output)

    before = network(name)(images(name)).gather(1, TARGETS[:, None])[:, 0].detach()
    handle = network(name).get_submodule(layer).register_forward_hook(moved)
    try:
        after = network(name)(images(name)).gather(1, TARGETS[:, None])[:, 0].detach()
    finally:
        handle.remove()
    torch.testing.assert_close(after - before, (gradient * step).sum(dim=(1, 2, 3)), rtol=0.05, atol=2e-5)


def test_layers_without_a_grid_are_refused() -> None:
    for name, layer in (("timm-vit", "head"), ("timm-swin", "layers.0.blocks.0.attn"), ("torchvision-vit", "heads")):
        classifier = Classifier(network(name), name=name)
        with pytest.raises(SnellenError, match=f"layer '{layer}' of '{name}' does not output a feature map; name another"):
            classifier.layer_gradient(images(name), TARGETS, layer)


# Planted ------------------------------------------------------------------------------------------------------------

LIT = (1, 2)
"""Row and column of the one patch that is lit."""


def planted(kind: str) -> tuple[nn.Module, Tensor]:
    """One block that looks at lit patches alone and hands what it finds there to the token that the head reads."""
    if kind == "torchvision":
        from torchvision.models.vision_transformer import VisionTransformer

        net: Any = VisionTransformer(64, 16, 1, 2, 8, 8, num_classes=2)
        attention = net.encoder.layers[0].self_attention
        patches, out, head, grid = net.conv_proj, attention.out_proj, net.heads.head, (4, 4)
        qkv, bias = attention.in_proj_weight, attention.in_proj_bias
    else:
        import timm

        settings = {"class_token": False, "global_pool": "avg"} if kind == "timm-mean" else {}
        net = timm.create_model(
            "vit_tiny_patch16_224", img_size=(48, 96), embed_dim=8, depth=1, num_heads=2, num_classes=2, **settings
        )
        attention = net.blocks[0].attn
        patches, out, head, grid = net.patch_embed.proj, attention.proj, net.head, (3, 6)
        qkv, bias = attention.qkv.weight, attention.qkv.bias
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        for module in net.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.fill_(1)
        patches.weight[0] = 1 / 256
        qkv[8:16] = torch.eye(8)
        qkv[16:] = torch.eye(8)
        bias[0] = bias[4] = 4.0
        out.weight.copy_(torch.eye(8))
        head.weight[1, 0] = 1.0
    row, column = LIT
    inputs = torch.zeros(1, 3, 16 * grid[0], 16 * grid[1])
    inputs[:, :, 16 * row : 16 * row + 16, 16 * column : 16 * column + 16] = 1.0
    return net.eval(), inputs


@pytest.mark.parametrize("kind", ["timm", "timm-mean", "torchvision"])
def test_the_peak_lies_in_the_one_patch_that_matters(kind: str) -> None:
    net, inputs = planted(kind)
    classifier = Classifier(net)
    lit = inputs[0, 0] > 0
    for name in ("grad-cam", "attention-rollout", "transformer-attribution"):
        saliency = METHODS.build(name)(classifier, inputs, torch.tensor([1]), rng=RNG[:1])[0]
        assert float(saliency[lit].mean()) > 1.5 * float(saliency[~lit].mean()) > 0, name
        # The cell is drawn out around its centre.
        for at, place in zip(torch.where(saliency >= (1 - 1e-6) * saliency.max()), torch.where(lit), strict=True):
            assert float(at.float().mean()) == pytest.approx(float(place.float().mean()), abs=1e-3), name


# Attention ----------------------------------------------------------------------------------------------------------


def attention_by_hooks(name: str, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
    """The attention weights of every block with the graph behind them, from the library's own slow path; the logits."""
    net, matrices = network(name), []
    leaf = inputs.clone().requires_grad_()
    if name == "torchvision-vit":
        handles = []
        original = {}
        for block in net.encoder.layers:
            attention = block.self_attention
            original[attention] = attention.forward

            def forward(query: Tensor, key: Tensor, value: Tensor, attention=attention, **_: Any) -> tuple[Tensor, None]:
                """Head by head, from the weights that the module holds."""
                q, k, v = (query @ attention.in_proj_weight.T + attention.in_proj_bias).chunk(3, dim=-1)
                heads = [
                    (q[..., i : i + 16] @ k[..., i : i + 16].transpose(1, 2) / 4).softmax(dim=-1) for i in range(0, 48, 16)
                ]
                weights = torch.stack(heads, dim=1)
                matrices.append(weights)
                mixed = torch.cat([weights[:, i] @ v[..., 16 * i : 16 * i + 16] for i in range(3)], dim=-1)
                return attention.out_proj(mixed), None

            attention.forward = forward
        try:
            logits = net(leaf)
        finally:
            for attention, forward in original.items():
                attention.forward = forward
        return matrices, logits
    fused = [block.attn.fused_attn for block in net.blocks]
    handles = [
        block.attn.attn_drop.register_forward_hook(lambda module, args, output: matrices.append(output))
        for block in net.blocks
    ]
    try:
        for block in net.blocks:
            block.attn.fused_attn = False
        logits = net(leaf)
    finally:
        for block, flag in zip(net.blocks, fused, strict=True):
            block.attn.fused_attn = flag
        for handle in handles:
            handle.remove()
    return matrices, logits


def grid_of(name: str, flow: np.ndarray) -> np.ndarray:
    """Rows of the tokens that the head reads, to patches, as a grid."""
    rows, columns = (side // 16 for side in SIZE.get(name, (64, 64)))
    read = flow[READ.get(name, slice(0, 1))]
    return read[:, PREFIX.get(name, 1) :].mean(axis=0).reshape(rows, columns)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_attention_rollout_is_a_product_of_matrices(name: str) -> None:
    inputs = images(name)
    layers, _ = attention_by_hooks(name, inputs)
    assert len(layers) == 3
    classifier = Classifier(network(name), name=name, rows=2)
    for heads in ("mean", "max", "min"):
        coarse = []
        for i in range(3):
            flow = None
            for layer in layers:
                weights = getattr(np, heads)(layer[i].detach().double().numpy(), axis=0)
                mixing = 0.5 * weights + 0.5 * np.eye(len(weights))
                mixing = np.stack([row / row.sum() for row in mixing])
                flow = mixing if flow is None else mixing @ flow
            coarse.append(torch.from_numpy(grid_of(name, flow)).float())
        expected = upsample(torch.stack(coarse), inputs.shape[2:])
        method = METHODS.build("attention-rollout", {"heads": heads})
        with classifier.counting() as ledger:
            maps = method(classifier, inputs, TARGETS, rng=RNG)
        assert ledger.passes == Passes(3)
        close(maps, expected, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_transformer_attribution_is_the_rule_head_by_head(name: str) -> None:
    inputs = images(name)
    coarse = []
    for i in range(3):
        layers, logits = attention_by_hooks(name, inputs[i : i + 1])
        gradients = torch.autograd.grad(logits[0, TARGETS[i]], layers)
        count = layers[0].shape[-1]
        relevance = np.eye(count)
        for layer, gradient in zip(layers, gradients, strict=True):
            raising = np.zeros((count, count))
            for weights, slope in zip(layer[0].detach().double().numpy(), gradient[0].double().numpy(), strict=True):
                raising += np.maximum(slope * weights, 0) / 3
            relevance = relevance + raising @ relevance
        coarse.append(torch.from_numpy(grid_of(name, relevance - np.eye(count))).float())
    expected = upsample(torch.stack(coarse), inputs.shape[2:])
    classifier = Classifier(network(name), name=name, rows=2)
    with classifier.counting() as ledger:
        maps = METHODS.build("transformer-attribution")(classifier, inputs, TARGETS, rng=RNG)
    assert ledger.passes == Passes(3, 3)
    close(maps, expected, 1e-3)
    other = METHODS.build("transformer-attribution")(classifier, inputs, (TARGETS + 1) % CLASSES, rng=RNG)
    assert not torch.allclose(maps, other)


class Scaled(nn.Module):
    """One call of torch's fused attention with whatever it may be given."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value, **self.settings)


SHOWN = RNG[:1].uniform("shown", (7, 7))[0] < 0.6
SHOWN.fill_diagonal_(True)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"scale": 0.7}, {"is_causal": True}, {"attn_mask": SHOWN}, {"attn_mask": SHOWN.float()},
        {"attn_mask": SHOWN.expand(3, 4, 7, 7)}, {"attn_mask": torch.stack([SHOWN] * 4).float()},
    ],
    ids=str,
)  # fmt: skip
def test_fused_attention_step_by_step_is_fused_attention(settings: dict[str, Any]) -> None:
    query, key, value = (RNG.normal(name, (4, 7, 5)) for name in ("query", "key", "value"))
    module, noted = Scaled(**settings), AttentionRecorder()
    with intercepting(module, noted):
        attended = module(query, key, value)
    torch.testing.assert_close(attended, module(query, key, value), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(noted.weights[0] @ value, attended)
    few = Scaled(enable_gqa=True)
    with intercepting(few, AttentionRecorder()):
        grouped = few(query, key[:, :2], value[:, :2])
    torch.testing.assert_close(grouped, few(query, key[:, :2], value[:, :2]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("masking", ["nothing", "mask", "masks", "padding", "weights", "all-weights"])
@pytest.mark.parametrize("settings", [{}, {"batch_first": True}, {"kdim": 6, "vdim": 4}, {"bias": False}], ids=str)
def test_packed_attention_step_by_step_is_packed_attention(settings: dict[str, Any], masking: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.MultiheadAttention(8, 2, **settings).eval()
        nn.init.normal_(module.out_proj.weight)
    widths = (8, settings.get("kdim", 8), settings.get("vdim", 8))
    tokens = [RNG.normal(name, (7, width)) for name, width in zip(("query", "key", "value"), widths, strict=True)]
    if not settings.get("batch_first"):
        tokens = [token_rows.transpose(0, 1) for token_rows in tokens]
    arguments = {
        "nothing": {"need_weights": False},
        "mask": {"attn_mask": ~SHOWN},
        "masks": {"attn_mask": RNG[:1].normal("masks", (6, 7, 7))[0]},
        "padding": {"key_padding_mask": torch.arange(7).expand(3, 7) > 4},
        "weights": {},
        "all-weights": {"average_attn_weights": False},
    }[masking]
    with torch.no_grad():
        expected, expected_weights = module(*tokens, **arguments)
        with intercepting(module, noted := AttentionRecorder()):
            attended, weights = module(*tokens, **arguments)
        _, every = module(*tokens, **(arguments | {"need_weights": True, "average_attn_weights": False}))
    torch.testing.assert_close(attended, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(noted.weights[0], every, rtol=1e-4, atol=1e-6)
    assert (weights is None) == (expected_weights is None)
    if expected_weights is not None:
        torch.testing.assert_close(weights, expected_weights, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["attention-rollout", "transformer-attribution"])
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("timm-swin", "attends within windows at layers.0.blocks.0.attn"),
        ("torchvision-swin", "attends within windows at features.1.0.attn"),
        ("timm-convnext", "has no attention"),
    ],
)
def test_networks_without_attention_between_all_tokens_are_refused(method: str, name: str, what: str) -> None:
    sentence = f"{method} follows attention between all tokens, but '{name}' {what}"
    with pytest.raises(SnellenError, match=sentence) as caught:
        METHODS.build(method).prepare(Classifier(network(name), name=name), images(name))
    assert str(caught.value).endswith("; use grad-cam")


def test_the_cached_structure_is_not_pickled_with_a_classifier() -> None:
    classifier = Classifier(network("timm-vit"))
    method = METHODS.build("transformer-attribution")
    method.prepare(classifier, images("timm-vit"))
    sent = pickle.loads(pickle.dumps(classifier))
    assert not sent._structure._cache
    maps = method(sent, images("timm-vit"), TARGETS, rng=RNG)
    assert torch.equal(maps, method(classifier, images("timm-vit"), TARGETS, rng=RNG))
