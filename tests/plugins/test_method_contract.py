"""Every registered method against every rule for methods, on three planted classifiers.

`test_traits_pretrained.py` tries the traits on real networks.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from tests.planted import AREA_SHARE, MEAN, SIDE, STD, Kind, network, planted
from tests.planted_networks import ResNet, ViT, rewrites
from tests.trait_figures import CHEAPER
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins import registry
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS, method
from snellen.plugins.traits import LAYERS, TraitEvidence
from snellen.types import Method, NeedsFit, Passes, Rng

NAMES = list(METHODS)
NETS: tuple[Kind, ...] = ("cnn", "resnet", "vit")

REFUSES: dict[tuple[str, str], tuple[str, ...]] = {
    ("attention-rollout", "cnn"): ("attention-rollout", "'planted' has no attention", "grad-cam"),
    ("attention-rollout", "resnet"): ("attention-rollout", "has no attention", "grad-cam"),
    ("transformer-attribution", "cnn"): ("transformer-attribution", "'planted' has no attention", "grad-cam"),
    ("transformer-attribution", "resnet"): ("transformer-attribution", "has no attention", "grad-cam"),
    ("guided-backprop", "vit"): ("guided-backprop", "gelu", "blocks.0.mlp.1"),
    ("guided-grad-cam", "vit"): ("guided-grad-cam", "gelu", "blocks.0.mlp.1"),
    ("cam", "cnn"): ("cam", "linear at head", "grad-cam"),
    ("cam", "vit"): ("cam", "linear at blocks.1.attn.qkv", "grad-cam"),
    ("deconvnet", "vit"): ("deconvnet", "gelu", "blocks.0.mlp.1"),
    ("deep-taylor", "vit"): ("deep-taylor", "layer_norm", "integrated-gradients"),
    ("lrp-z", "vit"): ("lrp-z", "layer_norm", "integrated-gradients"),
    ("lrp-epsilon", "vit"): ("lrp-epsilon", "layer_norm", "integrated-gradients"),
    ("lrp-alpha1-beta0", "vit"): ("lrp-alpha1-beta0", "layer_norm", "integrated-gradients"),
    ("lrp-alpha2-beta1", "vit"): ("lrp-alpha2-beta1", "layer_norm", "integrated-gradients"),
    ("deeplift-rescale", "vit"): ("deeplift-rescale", "layer_norm", "integrated-gradients"),
    ("deeplift-reveal-cancel", "vit"): ("deeplift-reveal-cancel", "layer_norm", "integrated-gradients"),
    ("deepshap", "vit"): ("deepshap", "layer_norm", "integrated-gradients"),
}
"""Which methods refuse which classifier in `prepare`, with words of their sentence: who refuses, what, and where."""

_CONTROL = "a control knows nothing of the classifier"
_UNCALLED = "a control never calls the model"
_SIGNED_LAYER = "behind layer normalisation features have both signs, and the method is made for a layer behind a ReLU"

EXEMPT: dict[tuple[str, str] | tuple[str, str, str], str] = {
    ("random", "planted"): _CONTROL,
    ("fake-cam", "planted"): _CONTROL,
    ("centre", "planted"): _CONTROL,
    ("constant", "planted"): _CONTROL,
    ("shuffled", "planted"): "what it knows of places is gone",
    ("random", "raises"): _UNCALLED,
    ("edge", "raises"): _UNCALLED,
    ("fake-cam", "raises"): _UNCALLED,
    ("centre", "raises"): _UNCALLED,
    ("constant", "raises"): _UNCALLED,
    ("deconvnet", "planted", "resnet"): "without max-pooling the map is the same for every image (springenberg2015)",
    ("grad-cam++", "planted", "vit"): _SIGNED_LAYER,
    ("xgrad-cam", "planted", "vit"): _SIGNED_LAYER,
    ("ablation-cam", "planted", "vit"): _SIGNED_LAYER,
    ("eigen-cam", "planted", "vit"): _SIGNED_LAYER,
    ("guided-ig", "complete_is_true_exactly_when_maps_sum_to_the_rise_of_the_logit"): (
        "complete on these small networks, but not on pretrained ones"
    ),
}
"""(method, check) or (method, check, network) and why that check must fail there."""


@dataclass(frozen=True)
class Trial:
    """One method on one of the three classifiers."""

    name: str
    net: Kind
    built: Method

    @property
    def maps(self) -> Tensor:
        """Its maps of three planted images; computed once, so nobody may write on them."""
        return reference(self.name, self.net)


TRIALS = [(name, net) for name in NAMES for net in NETS if (name, net) not in REFUSES]
INVARIANT = [one for one in TRIALS if registry.traits(METHODS.build(one[0])).implementation_invariant]


@pytest.fixture(params=TRIALS, ids=["-".join(one) for one in TRIALS])
def trial(request: pytest.FixtureRequest) -> Trial:
    name, net = request.param
    check = request.node.originalname.removeprefix("test_")
    for key in ((name, check), (name, check, net)):
        if key in EXEMPT:  # and if it passes all the same, the reason is wrong
            request.applymarker(pytest.mark.xfail(reason=EXEMPT[key], strict=True))
    return Trial(name, net, build(name))


@pytest.fixture(params=NAMES)
def built(request: pytest.FixtureRequest) -> Method:
    return build(request.param)


@pytest.fixture
def trials(built: Method, request: pytest.FixtureRequest) -> list[Trial]:
    """The method on every classifier that it accepts, for claims about all of them together."""
    name, check = registry.traits(built).name, request.node.originalname.removeprefix("test_")
    if (name, check) in EXEMPT:
        request.applymarker(pytest.mark.xfail(reason=EXEMPT[name, check], strict=True))
    return [Trial(name, net, built) for net in NETS if (name, net) not in REFUSES and (name, check, net) not in EXEMPT]


def build(name: str) -> Method:
    return METHODS.build(name, CHEAPER.get(name))


@functools.cache
def reference(name: str, net: Kind) -> Tensor:
    case = planted(3, net=net)
    return explain(build(name), case.classifier, case.inputs, case.targets, case.rng)


def explain(built: Method, classifier: Classifier, inputs: Tensor, targets: Tensor, rng: Rng) -> Tensor:
    prepare(built, classifier, inputs)
    return built(classifier, inputs, targets, rng=rng)


def prepare(built: Method, classifier: Classifier, inputs: Tensor) -> None:
    if hasattr(built, "prepare"):
        built.prepare(classifier, inputs)
    learn(built, classifier, inputs.shape[2:])


def learn(built: Method, classifier: Classifier, size: tuple[int, int]) -> None:
    """What methods have to learn from images first: always from the same ones, whatever is explained afterwards."""
    for one in _learning(built):
        if one.fit_key() not in classifier.fitted_state:
            rng = Rng(seed=5, ids=tuple(f"lesson-{i}" for i in range(6)))
            with torch.random.fork_rng():  # building a network draws its first weights
                images = planted(6, seed=5).inputs if size == (SIDE, SIDE) else rng.normal("lesson", (3, *size))
            classifier.fitted_state[one.fit_key()] = one.fit(classifier, [images], rng=rng)


def _learning(built: Any) -> Iterator[NeedsFit]:
    if isinstance(built, NeedsFit):
        yield built
    for one in dataclasses.fields(built):
        if hasattr(inner := getattr(built, one.name), "traits"):
            yield from _learning(inner)


def assert_planned(ledger: Any, planned: Passes, *, at_most: bool) -> None:
    counted = ledger.passes + ledger.cached
    if at_most:
        assert counted.forward <= planned.forward
        assert counted.backward <= planned.backward
    else:
        assert counted == planned


def test_tables_name_what_exists() -> None:
    checks = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {key[0] for key in [*EXEMPT, *REFUSES]} | set(CHEAPER) <= set(NAMES)
    assert {key[1] for key in EXEMPT} <= checks
    assert {net for _, *rest in EXEMPT for net in rest[1:]} | {net for _, net in REFUSES} <= set(NETS)


@pytest.mark.parametrize("net", NETS)
def test_the_planted_classifiers_look_at_the_patch(net: Kind) -> None:
    case = planted(12, net=net)

    def own(inputs: Tensor) -> Tensor:
        return case.classifier.logits(inputs).gather(1, case.targets[:, None])[:, 0]

    logits = case.classifier.logits(case.inputs)
    ranked = logits.sort(dim=1).values
    assert torch.equal(logits.argmax(dim=1), case.targets)
    assert float((ranked[:, 2] - ranked[:, 1]).min()) > 1.5
    patch = case.truth[:, None]
    without = own(case.inputs.masked_fill(patch, 0))
    alone = own(case.inputs.masked_fill(~patch, 0))
    assert float((without - own(torch.zeros_like(case.inputs))).abs().max()) < 0.3
    assert float((alone - own(case.inputs)).abs().max()) < 0.3
    assert float(own(case.inputs).min()) > 2.5
    gradient = case.classifier.gradient(case.inputs, case.targets)[0].abs().amax(dim=1)
    share = (gradient * case.truth).sum(dim=(1, 2)) / gradient.sum(dim=(1, 2))
    assert float(share.min()) > 4 * AREA_SHARE


@pytest.mark.parametrize("net", NETS)
def test_prepare_accepts_or_refuses_in_the_words_of_the_table(built: Method, net: Kind) -> None:
    """No method may refuse, or stop refusing, without a line in REFUSES; and it refuses before it computes."""
    name = registry.traits(built).name
    case = planted(3, net=net)
    with case.classifier.counting() as ledger:
        try:
            if hasattr(built, "prepare"):
                built.prepare(case.classifier, case.inputs)
        except SnellenError as refusal:
            sentence = str(refusal)
            assert (name, net) in REFUSES, f"new refusal, not in REFUSES: {sentence}"
            assert all(word in sentence for word in REFUSES[name, net]), sentence
            assert "\n" not in sentence
            with pytest.raises(SnellenError):
                built(planted(3, net=net).classifier, case.inputs, case.targets, rng=case.rng)  # in a worker of its own
        else:
            assert (name, net) not in REFUSES
    assert ledger.passes.forward <= 1  # a look at the classifier
    assert ledger.passes.backward == 0


def test_cited(built: Method) -> None:
    assert registry.traits(built).cite in CITATIONS


def test_every_method_of_snellen_states_its_family(built: Method) -> None:
    facts = registry.traits(built)
    assert facts.family != "other"
    assert (facts.family == "control") == facts.control


def test_presets_build_and_name_their_source(built: Method) -> None:
    facts = registry.traits(built)
    for preset in facts.presets:
        assert preset.split("-")[0] in CITATIONS, preset
        chosen = METHODS.build(f"{facts.name}@{preset}")
        assert METHODS.parse(registry.label(chosen)) == chosen
        assert METHODS.parse(json.loads(json.dumps(registry.spec(chosen)))) == chosen


def choices(hint: Any) -> tuple[Any, ...]:
    """All values of a setting that has few."""
    return (False, True) if hint is bool else typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


def test_every_setting_has_a_range_worth_trying(built: Method) -> None:
    facts, fields = registry.traits(type(built)), dataclasses.fields(built)
    assert set(facts.ranges) == {one.name for one in fields}
    hints = typing.get_type_hints(type(built))
    for one in fields:
        values = facts.ranges[one.name]
        if one.name == "layer":
            assert values == LAYERS
            continue
        default, plain = getattr(type(built)(), one.name), METHODS.build(facts.name)
        variants = [METHODS.build(facts.name, {one.name: value}) for value in values]
        assert plain not in variants
        assert len({registry.label(variant) for variant in variants}) == len(values)
        assert min(2, len(choices(hints[one.name])) - 1 if choices(hints[one.name]) else 2) <= len(values) <= 4
        assert all(getattr(variant, one.name) != default for variant in variants)


def test_caveats_are_sentences_with_a_source(built: Method) -> None:
    facts = registry.traits(built)
    assert not (facts.control and facts.caveats), "what a control cannot do is its purpose, not a caveat"
    for key, sentence in facts.caveats.items():
        assert key in CITATIONS
        assert sentence.strip() == sentence
        assert sentence
        assert not sentence.endswith(".")
        assert "\n" not in sentence


def test_one_finite_number_per_pixel(trial: Trial) -> None:
    assert trial.maps.shape == (3, SIDE, SIDE)
    assert trial.maps.dtype == torch.float32
    assert bool(trial.maps.isfinite().all())
    assert not trial.maps.requires_grad


class Wide(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d(2))
        self.head = torch.nn.Linear(4 * 6 * 10, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs).flatten(1))


def wide(net: Kind) -> torch.nn.Module:
    """A random network of the same family for images of 12×20."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {"cnn": Wide, "resnet": ResNet, "vit": lambda: ViT(places=(3, 5))}[net]()


def test_wide_image(trial: Trial) -> None:
    rng = Rng(seed=3, ids=("wide",))
    inputs = rng.normal("image", (3, 12, 20))
    model = Classifier(wide(trial.net))
    learn(trial.built, model, (12, 20))
    with model.counting() as ledger:  # not prepared, as in a worker of its own
        maps = trial.built(model, inputs, torch.tensor([1]), rng=rng)
    assert maps.shape == (1, 12, 20)
    assert bool(maps.isfinite().all())
    assert_planned(ledger, trial.built.passes((12, 20), model), at_most=registry.traits(trial.built).at_most)


def test_batch_of_three_equals_three_singles(trial: Trial) -> None:
    case = planted(3, net=trial.net)
    for i in range(3):
        one = slice(i, i + 1)
        alone = explain(trial.built, case.classifier, case.inputs[one].clone(), case.targets[one].clone(), case.rng[one])
        torch.testing.assert_close(trial.maps[i], alone[0], rtol=1e-4, atol=1e-6)


def test_rows_per_pass_do_not_matter(trial: Trial) -> None:
    case = planted(3)
    narrow = Classifier(network(trial.net), mean=MEAN, std=STD, rows=8)
    found = explain(trial.built, narrow, case.inputs, case.targets, case.rng)
    torch.testing.assert_close(found, trial.maps, rtol=1e-4, atol=1e-6)


def test_same_rng_same_bits(trial: Trial) -> None:
    case, first = planted(3, net=trial.net), trial.maps
    before = torch.get_rng_state()
    again = explain(trial.built, case.classifier, case.inputs, case.targets, case.rng)
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)


def test_deterministic_is_true_exactly_when_the_seed_does_not_matter(trial: Trial) -> None:
    case = planted(3, net=trial.net)
    other = explain(trial.built, case.classifier, case.inputs, case.targets, Rng(seed=99, ids=case.rng.ids))
    assert torch.equal(trial.maps, other) == registry.traits(trial.built).deterministic


def breakable(net: torch.nn.Module) -> torch.nn.Module:
    """The same network; raises after its last layer, when every hook and rectifier has been passed, once `broken` is set."""

    class Breakable(type(net)):  # type: ignore[misc]
        broken = False

        def forward(self, inputs: Tensor) -> Tensor:
            out = super().forward(inputs)
            if self.broken:
                raise RuntimeError("the planted failure")
            return out

    net.__class__ = Breakable
    return net


def used(net: torch.nn.Module) -> torch.nn.Module:
    """A user's model in the middle of training, with a hook and gradients of its own."""
    net.train()
    net.register_buffer("steps_taken", torch.tensor(7))
    net.head.register_forward_hook(lambda module, args, output: None)  # type: ignore[operator, union-attr]
    for parameter in net.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    return net


def state(module: torch.nn.Module) -> dict[str, Any]:
    modules = dict(module.named_modules())
    return {
        "tensors": {name: one.clone() for name, one in module.state_dict().items()},
        "gradients": {name: None if one.grad is None else one.grad.clone() for name, one in module.named_parameters()},
        "wanted": {name: one.requires_grad for name, one in module.named_parameters()},
        "training": {name: one.training for name, one in modules.items()},
        "hooks": {
            name: [list(getattr(one, kind)) for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")]
            for name, one in modules.items()
        },
    }


def assert_as_found(module: torch.nn.Module, before: dict[str, Any]) -> None:
    after = state(module)
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert _get_current_function_mode_stack() == []
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_model_is_left_as_found(trial: Trial) -> None:
    net = used(network(trial.net))
    case = planted(3)
    model = Classifier(net, mean=MEAN, std=STD)
    theirs, ours = state(net), state(model.module)
    maps = explain(trial.built, model, case.inputs, case.targets, case.rng)
    assert_as_found(net, theirs)
    assert_as_found(model.module, ours)
    assert torch.equal(maps, trial.maps)


def test_raises(trial: Trial) -> None:
    net = used(breakable(network(trial.net)))
    case = planted(3)
    model = Classifier(net, mean=MEAN, std=STD)
    prepare(trial.built, model, case.inputs)
    model.module.broken = True  # type: ignore[assignment]
    theirs, ours = state(net), state(model.module)
    with pytest.raises(RuntimeError, match="the planted failure"):
        trial.built(model, case.inputs, case.targets, rng=case.rng)
    assert_as_found(net, theirs)
    assert_as_found(model.module, ours)
    model.module.broken = False  # type: ignore[assignment]
    assert torch.equal(trial.built(model, case.inputs, case.targets, rng=case.rng), trial.maps)


def test_inputs_are_left_as_found(trial: Trial) -> None:
    case = planted(3, net=trial.net)
    inputs, targets = case.inputs.clone(), case.targets.clone()
    maps = explain(trial.built, case.classifier, case.inputs, case.targets, case.rng)
    maps.add_(1)  # a map must not be a view of the inputs or of something that the next caller shares
    assert torch.equal(case.inputs, inputs)
    assert torch.equal(case.targets, targets)
    assert case.inputs.grad is None
    assert not case.inputs.requires_grad
    again = explain(trial.built, case.classifier, case.inputs, case.targets, case.rng)
    torch.testing.assert_close(again, trial.maps, rtol=0, atol=1e-6)


def test_class_specific_is_true_exactly_when_the_target_matters(trial: Trial) -> None:
    case = planted(3, net=trial.net)
    other = explain(trial.built, case.classifier, case.inputs, (case.targets + 1) % 3, case.rng)
    differs = [not torch.equal(one, two) for one, two in zip(trial.maps, other, strict=True)]
    assert differs == [registry.traits(trial.built).class_specific] * 3


def test_complete_is_true_exactly_when_maps_sum_to_the_rise_of_the_logit(trials: list[Trial]) -> None:
    missed = {}
    for trial in trials:
        case = planted(3, net=trial.net)
        rise = (case.classifier.logits(case.inputs) - case.classifier.logits(torch.zeros_like(case.inputs))).gather(
            1, case.targets[:, None]
        )[:, 0]
        missed[trial.net] = float(((trial.maps.sum(dim=(1, 2)) - rise) / rise).abs().max())
    claim = registry.traits(trials[0].built).complete
    assert (max(missed.values()) < (claim.within if isinstance(claim, TraitEvidence) else 0.02)) == bool(claim), missed


def test_a_claim_with_a_tolerance_says_how_far_it_was_shown(built: Method) -> None:
    facts = registry.traits(built)
    for claim in (facts.complete, facts.implementation_invariant):
        if claim is not False:
            assert isinstance(claim, TraitEvidence)
            assert 0 < claim.within <= 0.05
            assert min(claim.images, claim.networks) > 1


def test_signed_is_true_exactly_when_something_is_negative(trials: list[Trial]) -> None:
    negative = {trial.net: bool((trial.maps < 0).any()) for trial in trials}
    assert any(negative.values()) == registry.traits(trials[0].built).signed, negative


def test_planted(trial: Trial) -> None:
    size = trial.maps.abs()
    share = (size * planted(3).truth).sum(dim=(1, 2)) / size.sum(dim=(1, 2))
    assert bool((share > 1.05 * AREA_SHARE).all()), share / AREA_SHARE


def test_settings_survive_json(built: Method) -> None:
    written = json.loads(json.dumps(registry.spec(built)))
    assert METHODS.build(written["name"], written["params"]) == built
    assert METHODS.parse(registry.label(built)) == built
    assert METHODS.parse(written) == built


def test_planned_passes_are_the_counted_ones(trial: Trial) -> None:
    case = planted(3, net=trial.net)
    prepare(trial.built, case.classifier, case.inputs)
    planned = 3 * trial.built.passes((SIDE, SIDE), case.classifier)
    for _ in range(2):  # the second time some may be shared, and count all the same
        with case.classifier.counting() as ledger:
            trial.built(case.classifier, case.inputs, case.targets, rng=case.rng)
        assert_planned(ledger, planned, at_most=registry.traits(trial.built).at_most)


def test_needs_are_exactly_what_a_black_box_cannot_give(trials: list[Trial]) -> None:
    first = trials[0]
    net = copy.deepcopy(network(first.net))
    case = planted(3)

    def black_box(inputs: Tensor) -> Tensor:
        return net(inputs)

    model = Classifier(black_box, mean=MEAN, std=STD)
    if registry.traits(first.built).needs - {"training-data"}:
        with pytest.raises(SnellenError, match="black_box"):
            explain(first.built, model, case.inputs, case.targets, case.rng)
    else:
        found = explain(first.built, model, case.inputs, case.targets, case.rng)
        torch.testing.assert_close(found, first.maps, rtol=1e-4, atol=1e-6)


# The same function, written in another way ----------------------------------------------------------------------------


def changed_by_rewriting(built: Method, net: Kind) -> dict[str, float]:
    """How far maps move, in shares of their largest value, when the network is written in another way."""
    case = planted(3, net=net)
    before = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    found = {}
    for name, other in rewrites(net, network(net)).items():
        model = Classifier(other, mean=MEAN, std=STD)
        after = explain(built, model, case.inputs, case.targets, case.rng)
        found[name] = float(((after - before).abs().amax(dim=(1, 2)) / before.abs().amax(dim=(1, 2))).max())
    return found


@pytest.mark.parametrize("net", NETS)
def test_rewriting_keeps_the_function(net: Kind) -> None:
    case = planted(6, net=net)
    inputs = torch.cat([case.inputs, 0.5 * case.inputs, case.rng.normal("any", (3, SIDE, SIDE))])
    expected = case.classifier.logits(inputs)
    for other in rewrites(net, network(net)).values():
        model = Classifier(other, mean=MEAN, std=STD)
        torch.testing.assert_close(model.logits(inputs), expected, rtol=1e-4, atol=1e-5)
        assert model.fingerprint != Classifier(network(net), mean=MEAN, std=STD).fingerprint


@pytest.mark.parametrize("trial", INVARIANT, ids=["-".join(one) for one in INVARIANT], indirect=True)
def test_implementation_invariant(trial: Trial) -> None:
    changed = changed_by_rewriting(trial.built, trial.net)
    assert max(changed.values()) < 1e-3, changed


@pytest.mark.parametrize("net", NETS)
def test_a_method_that_reads_weights_is_not_invariant(net: Kind) -> None:
    @dataclass(frozen=True)
    class Peeping:
        def __call__(self, classifier: Classifier, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
            weights = torch.cat([one.flatten() for one in classifier.module.parameters()])
            return inputs[:, 0] * float((weights * torch.arange(len(weights)).cos()).sum())

    changed = changed_by_rewriting(Peeping(), net)
    assert min(changed.values()) > 0.01, changed


@pytest.mark.parametrize("net", ["cnn", "resnet"])
def test_guided_backprop_depends_on_how_the_network_is_written(net: Kind) -> None:
    assert changed_by_rewriting(METHODS.build("guided-backprop"), net)["cancelling"] > 0.01


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rise(masks=0)", "method 'rise': masks and cells must be at least 1, not 0 and 8"),
        ("rise(keep=0)", "method 'rise': keep must lie above 0 and up to 1, not 0.0"),
        ("rise(of=score)", "method 'rise': of must be one of logit, probability, not 'score'"),
        ("occlusion(overlap=0)", "method 'occlusion': cells and overlap must be at least 1, not 7 and 0"),
        ("integrated-gradients(steps=0)", "method 'integrated-gradients': steps must be at least 1, not 0"),
        ("integrated-gradients(tolerance=0)", "method 'integrated-gradients': tolerance must be positive, not 0.0"),
        ("smoothgrad(samples=0)", "method 'smoothgrad': samples must be at least 1, not 0"),
        ("vargrad(spread=-1)", "method 'vargrad': spread must not be negative, not -1.0"),
        ("centre(sigma=0)", "method 'centre': sigma must be positive, not 0.0"),
        (
            "gradient(fold=largest)",
            "method 'gradient': fold must be one of sum, absolute-sum, absolute-max, norm, mean, not 'largest'",
        ),
        ("grad-cam(layr=head)", "method 'grad-cam' has no setting 'layr'; did you mean 'layer'? (it has: layer)"),
    ],
)
def test_wrong_settings_get_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SnellenError) as caught:
        METHODS.parse(text)
    assert str(caught.value) == sentence


# What the decorator refuses -----------------------------------------------------------------------------------------


@pytest.fixture
def guest() -> Any:
    """Room for a user's own method; whatever a test registers is taken out again."""
    yield
    for name in set(METHODS) - set(NAMES):
        del METHODS._classes[name]


@dataclass(frozen=True)
class Brightness:
    """How bright the pixel is."""

    gain: float = 1.0

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        return Passes()

    def __call__(self, classifier: Classifier, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
        return self.gain * inputs.mean(dim=1)


@pytest.mark.usefixtures("guest")
def test_a_users_method_joins_the_registry() -> None:
    method("brightness", cite="me2026", signed=True, class_specific=False)(Brightness)
    case = planted(2)
    built = METHODS.parse("brightness(gain=2)")
    maps = built(case.classifier, case.inputs, case.targets, rng=case.rng)
    torch.testing.assert_close(maps, 2 * case.inputs.mean(dim=1))
    assert registry.traits(built).summary == "How bright the pixel is."
    smooth = METHODS.parse("smoothgrad(of=brightness(gain=2), spread=0)")
    torch.testing.assert_close(smooth(case.classifier, case.inputs, case.targets, rng=case.rng), maps)


@pytest.mark.usefixtures("guest")
def test_the_decorator_refuses_what_breaks_a_rule() -> None:
    @dataclass(frozen=True)
    class Silent:
        gain: float = 1.0

    @dataclass(frozen=True)
    class Undecided:
        """A map with an open question."""

        gain: float

    @dataclass(frozen=True)
    class Opaque:
        """A map with a setting that JSON cannot hold."""

        weights: Any = field(default_factory=lambda: torch.ones(2))
        __call__, passes = Brightness.__call__, Brightness.passes

    @dataclass(frozen=True)
    class Costless:
        """A map that does not say what it costs."""

        __call__ = Brightness.__call__

    class Loose:
        """A map that is no dataclass."""

    cases = [
        ("gradient", "me2026", Brightness, "method 'gradient' is registered twice; choose another name"),
        ("silent", "me2026", Silent, "'silent' needs a docstring that says in one sentence what its number means"),
        ("uncited", "", Brightness, "'uncited' must cite the work that defines it"),
        ("undecided", "me2026", Undecided, "method 'undecided': the field 'gain' needs a default"),
        ("opaque", "me2026", Opaque, "method 'opaque': its settings must survive JSON, but a Tensor does not"),
        ("costless", "me2026", Costless, "method 'costless' has no passes, which snellen.types.Method asks for"),
        ("loose", "me2026", Loose, "method 'loose' must be a frozen dataclass"),
        ("Grad CAM", "me2026", Brightness, "method 'Grad CAM': a name is lower-case words joined by hyphens"),
    ]
    for name, cite, plugin, sentence in cases:
        with pytest.raises(SnellenError) as caught:
            method(name, cite=cite)(plugin)
        assert str(caught.value) == sentence
        assert name == "gradient" or name not in METHODS
