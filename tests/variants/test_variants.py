"""Relatives that Snellen makes itself, beside networks whose answers are known."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.planted import network, planted
from torch import nn

from snellen.classifier import Classifier, probes
from snellen.maps.explainer import case_of
from snellen.metrics.axioms import ImplementationInvariance, InputInvariance, Linearity
from snellen.plugins.registry import METHODS
from snellen.types import Rng
from snellen.variants.compressed import prune, quantise
from snellen.variants.randomised import randomise_in_turn, randomise_layers
from snellen.variants.recombined import mix_classes, shift_inputs, sum_classifiers
from snellen.variants.rewrites import REWRITES, possible_rewrites, rewrite
from snellen.variants.weight_layers import weight_layers

NETS = ("cnn", "resnet", "vit")
SIZE = (24, 24)


def net_of(*layers: nn.Module, seed: int = 0) -> Classifier:
    """A small network with weights that do not hang on the tests before."""
    draw = torch.Generator().manual_seed(seed)
    module = nn.Sequential(*layers).eval()
    with torch.no_grad():
        for one in module.parameters():
            one.copy_(torch.rand(one.shape, generator=draw) - 0.4)
        for name, buffer in module.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.copy_(torch.rand(buffer.shape, generator=draw) + 0.1)
    return Classifier(module)


def pictures(channels: int = 3, side: int = 8) -> torch.Tensor:
    return Rng(0, ("a", "b")).uniform("picture", (channels, side, side))


@pytest.mark.parametrize("net", NETS)
def test_the_original_is_never_changed(net):
    scene = planted(2, net=net)
    before = copy.deepcopy(scene.classifier.module.state_dict())
    mean, stamp = scene.classifier.mean.clone(), scene.classifier.fingerprint
    layers = weight_layers(scene.classifier, SIZE)
    made = [
        randomise_layers(scene.classifier, layers, rng=scene.rng),
        prune(scene.classifier, 0.99),
        quantise(scene.classifier, 4),
        mix_classes(scene.classifier, 0.5, SIZE),
        shift_inputs(scene.classifier, -1.0, SIZE),
        sum_classifiers(scene.classifier, randomise_layers(scene.classifier, layers[:1], rng=scene.rng), 0.5),
        *(rewrite(scene.classifier, way, SIZE) for way in possible_rewrites(scene.classifier, SIZE)),
    ]
    for name, value in scene.classifier.module.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert torch.equal(scene.classifier.mean, mean)
    assert not any(list(one._forward_pre_hooks) + list(one._forward_hooks) for one in scene.classifier.module.modules())
    prints = [stamp, *(one.fingerprint for one in made)]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("net", NETS)
def test_looks_cost_nothing_and_passes_are_booked_with_the_original(net):
    scene = planted(2, net=net)
    with scene.classifier.counting() as ledger:
        made = rewrite(scene.classifier, "permuted", SIZE)
        shift_inputs(scene.classifier, -1.0, SIZE)
        assert ledger.passes.forward == 0
        made.logits(scene.inputs)
    assert ledger.passes.forward == 2


@pytest.mark.parametrize("net", NETS)
def test_rewrites_compute_the_same_function_with_other_weights(net):
    scene = planted(4, net=net)
    wanted = scene.classifier.logits(scene.inputs)
    expected = {
        "cnn": {"permuted", "rescaled", "widened"},
        "resnet": set(REWRITES),
        "vit": {"permuted", "rescaled", "widened"},
    }
    assert set(possible_rewrites(scene.classifier, SIZE)) == expected[net]
    for way in possible_rewrites(scene.classifier, SIZE):
        made = rewrite(scene.classifier, way, SIZE)
        torch.testing.assert_close(made.logits(scene.inputs), wanted, rtol=1e-5, atol=1e-5)
        assert made.fingerprint != scene.classifier.fingerprint


def test_folding_leaves_no_normalisation_where_all_can_go():
    scene = planted(1, net="resnet")
    made = rewrite(scene.classifier, "folded", SIZE)
    assert not any(isinstance(one, nn.BatchNorm2d) for one in made.module.modules())


def test_channels_that_skip_a_layer_stay_in_place():
    """What enters a sum with something else cannot change places: only the inner channels of each block may."""
    scene = planted(1, net="resnet")
    made = rewrite(scene.classifier, "permuted", SIZE)
    changed = {
        name
        for name, one in made.module.named_parameters()
        if not torch.equal(one, scene.classifier.module.get_parameter(name))
    }
    inner = {"conv1.weight", "bn1.weight", "bn1.bias", "conv2.weight"}
    assert changed == {f"{block}.{one}" for block in ("layer1", "layer2") for one in inner}


@pytest.mark.parametrize(("activation", "passing"), [(nn.ReLU(), True), (nn.ReLU6(), False), (nn.GELU(), False)])
def test_factors_pass_a_rectifier_and_nothing_else(activation, passing):
    one = net_of(nn.Flatten(), nn.Linear(192, 5), activation, nn.Linear(5, 3))
    assert ("rescaled" in possible_rewrites(one, (8, 8))) == passing
    assert {"permuted", "widened"} <= set(possible_rewrites(one, (8, 8)))


def test_depthwise_convolutions_follow_their_channels():
    one = net_of(
        nn.Conv2d(3, 6, 1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.BatchNorm2d(6),
        nn.ReLU(), nn.Conv2d(6, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3),
    )  # fmt: skip
    assert possible_rewrites(one, (8, 8)) == REWRITES
    for way in REWRITES:
        made = rewrite(one, way, (8, 8))
        torch.testing.assert_close(made.logits(pictures()), one.logits(pictures()), rtol=1e-5, atol=1e-5)
    assert not torch.equal(rewrite(one, "permuted", (8, 8)).module[3].weight, one.module[3].weight)
    assert rewrite(one, "widened", (8, 8)).module[3].groups == 12


class Rectifying(nn.BatchNorm2d):
    """A normalisation that does more than its base class, as timm's do."""

    def forward(self, inputs):
        return super().forward(inputs).relu()


def test_folding_keeps_what_a_normalisation_does_besides():
    one = net_of(nn.Conv2d(3, 6, 1), Rectifying(6), nn.Conv2d(6, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3))
    made = rewrite(one, "folded", (8, 8))
    torch.testing.assert_close(made.logits(pictures()), one.logits(pictures()), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(made.module[0].weight, one.module[0].weight)
    assert (made.module[1].weight == 1).all()


class Beside(nn.Module):
    """A branch that hardly counts beside what it is added to."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.first, self.second, self.scale = nn.Linear(192, 8), nn.Linear(8, 192), scale

    def forward(self, inputs):
        return inputs + self.scale * self.second(nn.functional.gelu(self.first(inputs)))


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_a_rewrite_that_only_seems_exact_is_refused_by_what_it_passes(scale):
    """With such a small scale no logit would tell; but factors do not pass a GELU, and sums keep their channels."""
    one = net_of(nn.Flatten(), Beside(scale), nn.Linear(192, 3))
    assert possible_rewrites(one, (8, 8)) == ("permuted", "widened")
    made = rewrite(one, "permuted", (8, 8))
    assert torch.equal(made.module[2].weight, one.module[2].weight)
    assert not torch.equal(made.module[1].first.weight, one.module[1].first.weight)


def test_a_network_without_hidden_channels_has_no_rewrite():
    one = net_of(nn.Flatten(), nn.Linear(192, 3))
    assert possible_rewrites(one, (8, 8)) == ()
    case = case_of(METHODS.build("gradient"), one, pictures(), torch.tensor([0, 1]), rng=Rng(0, ("a", "b")))
    assert ImplementationInvariance()(case, rng=Rng(0, ("a", "b"))).isnan().all()


@pytest.mark.parametrize("net", NETS)
def test_a_shift_is_absorbed_by_the_first_bias(net):
    scene = planted(3, net=net)
    made = shift_inputs(scene.classifier, -1.0, SIZE)
    torch.testing.assert_close(made.logits(scene.inputs - 1), scene.classifier.logits(scene.inputs), rtol=1e-5, atol=1e-5)
    first = {"cnn": "colours", "resnet": "conv1", "vit": "patch_embed"}[net]
    assert type(made.module) is type(scene.classifier.module)
    parts = [one for one in made.module.get_submodule(first).modules() if isinstance(one, nn.Conv2d)]
    assert parts[0].bias is not None
    torch.testing.assert_close(made.to_pixels(scene.inputs - 1), scene.classifier.to_pixels(scene.inputs))
    black = -made.mean / made.std
    torch.testing.assert_close(black + 1, -scene.classifier.mean / scene.classifier.std)


@pytest.mark.parametrize(
    "layers",
    [
        (nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)),
        (nn.Conv2d(3, 2, 3, padding="same", bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)),
        (nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect"), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)),
        (nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 2, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)),
        (nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 3)),
    ],
    ids=["padded", "same", "reflected", "pad-layer", "linear"],
)
def test_padding_moves_with_the_shift(layers):
    one = net_of(*copy.deepcopy(layers))
    made = shift_inputs(one, 2.0, (8, 8))
    torch.testing.assert_close(made.logits(pictures() + 2), one.logits(pictures()), rtol=1e-4, atol=1e-4)
    assert type(made.module) is nn.Sequential


def test_where_no_bias_can_take_it_the_shift_is_taken_away_first():
    one = net_of(nn.AvgPool2d(2, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(75, 3))
    made = shift_inputs(one, 2.0, (8, 8))
    torch.testing.assert_close(made.logits(pictures() + 2), one.logits(pictures()))
    assert type(made.module) is not nn.Sequential
    assert [name for name, _ in made.module.named_modules()] == [name for name, _ in one.module.named_modules()]


def rolled(logits: torch.Tensor, weight: float) -> torch.Tensor:
    return weight * logits + (1 - weight) * logits[:, [*range(1, logits.shape[1]), 0]]


@pytest.mark.parametrize("weight", [0.0, 0.3])
@pytest.mark.parametrize("net", NETS)
def test_mixed_classes_are_one_network(net, weight):
    scene = planted(3, net=net)
    made = mix_classes(scene.classifier, weight, SIZE)
    wanted = rolled(scene.classifier.logits(scene.inputs), weight)
    torch.testing.assert_close(made.logits(scene.inputs), wanted, rtol=1e-5, atol=1e-5)
    assert type(made.module) is type(scene.classifier.module)


def test_mixed_classes_where_something_follows_the_last_layer():
    one = net_of(nn.Flatten(), nn.Linear(192, 3), nn.Tanh())
    torch.testing.assert_close(mix_classes(one, 0.3, (8, 8)).logits(pictures()), rolled(one.logits(pictures()), 0.3))


def test_a_classifier_of_probabilities_mixes_their_logarithms():
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, 3), nn.Softmax(dim=1))
    one = Classifier(module, outputs="probabilities")
    torch.testing.assert_close(
        mix_classes(one, 0.3, (8, 8)).logits(pictures()), rolled(one.logits(pictures()), 0.3), rtol=1e-5, atol=1e-5
    )


def test_a_black_box_can_be_mixed_and_shifted():
    def box(inputs):
        return torch.stack([inputs.sum(dim=(1, 2, 3)), inputs[:, 0, 0, 0], inputs.amax(dim=(1, 2, 3))], dim=1).numpy()

    one = Classifier(box)
    torch.testing.assert_close(mix_classes(one, 0.3, (8, 8)).logits(pictures()), rolled(one.logits(pictures()), 0.3))
    torch.testing.assert_close(
        shift_inputs(one, 2.0, (8, 8)).logits(pictures() + 2), one.logits(pictures()), rtol=1e-4, atol=1e-4
    )
    assert weight_layers(one, (8, 8)) == ()
    assert possible_rewrites(one, (8, 8)) == ()
    rng = Rng(0, ("a", "b"))
    case = case_of(METHODS.parse("occlusion(cells=4, of=logit)"), one, pictures(), torch.tensor([0, 2]), rng=rng)
    assert Linearity()(case, rng=rng).max() < 1e-5
    assert InputInvariance()(case, rng=rng).isfinite().all()


def test_a_sum_of_two_networks():
    scene = planted(2)
    other = scene.classifier.variant(network("resnet"), "another")
    made = sum_classifiers(scene.classifier, other, 0.25)
    wanted = 0.25 * scene.classifier.logits(scene.inputs) + 0.75 * other.logits(scene.inputs)
    torch.testing.assert_close(made.logits(scene.inputs), wanted)
    assert sum_classifiers(scene.classifier, other, 0.5).fingerprint != made.fingerprint


def test_pruning_takes_the_smallest_weights_of_all_layers_together():
    one = net_of(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    made = prune(one, 0.25)
    before = torch.cat([one.module[0].weight.flatten(), one.module[3].weight.flatten()])
    after = torch.cat([made.module[0].weight.flatten(), made.module[3].weight.flatten()])
    assert int((after == 0).sum()) == int(0.25 * len(before))
    assert before[after == 0].abs().max() < before[after != 0].abs().min()
    assert torch.equal(before[after != 0], after[after != 0])
    assert torch.equal(one.module[0].bias, made.module[0].bias)


@pytest.mark.parametrize("share", [0.2, 0.3, 0.9])
def test_pruning_takes_its_share_of_equal_weights_too(share):
    one = net_of(nn.Flatten(), nn.Linear(192, 5), nn.ReLU(), nn.Linear(5, 3))
    with torch.no_grad():
        for layer in (one.module[1], one.module[3]):
            layer.weight.sign_()
    made = prune(one, share)
    assert sum(int((made.module[place].weight == 0).sum()) for place in (1, 3)) == int(share * (192 * 5 + 15))


def test_rounding_leaves_few_values_per_channel():
    one = net_of(nn.Conv2d(3, 4, 5), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    made = quantise(one, 3)
    for before, after in zip(one.module[0].weight, made.module[0].weight, strict=True):
        assert len(after.unique()) <= 7
        assert (before - after).abs().max() <= before.abs().max() / 3 / 2 + 1e-6


def test_layers_come_in_the_order_of_a_pass_not_of_their_names():
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(4, 3)
            self.norm = nn.BatchNorm1d(4)
            self.first = nn.Linear(192, 4)

        def forward(self, inputs):
            return self.last(self.norm(self.first(inputs.flatten(1))))

    layers = weight_layers(Classifier(Turned().eval()), (8, 8))
    assert [(one.name, one.modules) for one in layers] == [("first", ("first", "norm")), ("last", ("last",))]


def test_a_layer_whose_weights_another_reads_follows_that_one():
    attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    tokens = torch.rand(1, 3, 4)
    assert probes.call_order(attention, lambda: attention(tokens, tokens, tokens)) == ("", "out_proj")


@pytest.mark.parametrize("net", NETS)
def test_layers_randomised_in_turn_are_those_of_networks_made_one_by_one(net):
    """One copy serves all stages, so what a stage does not randomise must be as it was."""
    scene = planted(2, net=net)
    top, middle, *_ = weight_layers(scene.classifier, SIZE)[::-1]
    stages = [(top,), (top, middle), (middle,), (), (top,)]
    for stage, found in zip(stages, randomise_in_turn(scene.classifier, stages, rng=scene.rng), strict=True):
        alone = randomise_layers(scene.classifier, stage, rng=scene.rng)
        assert found.fingerprint == alone.fingerprint
        assert torch.equal(found.logits(scene.inputs), alone.logits(scene.inputs))
    assert found.fingerprint != scene.classifier.fingerprint


def test_randomised_layers_keep_the_size_of_what_passes_through():
    """After a dozen layers a network with default initial weights would put out next to nothing."""
    parts: list[nn.Module] = [nn.Flatten(), nn.Linear(192, 64), nn.ReLU()]
    for _ in range(20):
        parts += [nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()]
    one = net_of(*parts, nn.Linear(64, 3))
    made = randomise_layers(one, weight_layers(one, (8, 8)), rng=Rng(0, ()))
    assert 1e-2 < float(made.logits(pictures()).abs().mean()) < 1e2
    norm = made.module[4]
    assert norm.running_mean.abs().max() == 0
    assert (norm.running_var == 1).all()
    assert (norm.weight == 1).all()
    other = randomise_layers(one, weight_layers(one, (8, 8)), rng=Rng(1, ()))
    assert not torch.equal(other.module[1].weight, made.module[1].weight)


def test_a_normalisation_without_scale_forgets_its_statistics():
    one = net_of(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    layers = weight_layers(one, (8, 8))
    assert [layer.modules for layer in layers] == [("0", "1"), ("4",)]
    first, top = randomise_layers(one, layers[:1], rng=Rng(0, ())), randomise_layers(one, layers[1:], rng=Rng(0, ()))
    assert first.module[1].running_mean.abs().max() == 0
    assert (first.module[1].running_var == 1).all()
    assert torch.equal(top.module[1].running_mean, one.module[1].running_mean)


def test_a_normalisation_over_several_axes_is_no_layer_with_weights():
    one = net_of(nn.Conv2d(3, 4, 3), nn.LayerNorm([4, 6, 6]), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    layers = weight_layers(one, (8, 8))
    assert [layer.modules for layer in layers] == [("0", "1"), ("4",)]
    made = randomise_layers(one, layers, rng=Rng(0, ()))
    assert (made.module[1].weight == 1).all()
    assert made.module[1].bias.abs().max() == 0
    for other in (prune(one, 0.9), quantise(one, 2)):
        assert torch.equal(other.module[1].weight, one.module[1].weight)
