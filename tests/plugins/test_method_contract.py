"""Every registered method against the contract suite, and rules that hold for Snellen's own methods only.

`test_factspretrained.py` tries the traits on real networks.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from tests.trait_figures import CHEAPER
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins import registry
from snellen.plugins.checks.check import Check
from snellen.plugins.checks.exemptions import EXEMPTIONS, exemption
from snellen.plugins.checks.method_checks import KINDS, METHOD_RULES, NETWORK_RULES, changes_by_rewriting, method_checks
from snellen.plugins.checks.planted import AREA_SHARE, MEAN, SIDE, STD, NetworkKind, planted_batch, planted_network
from snellen.plugins.checks.planted_rewrites import rewrites
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS, METRICS, method
from snellen.plugins.traits import LAYERS, TraitEvidence
from snellen.types import Method, Passes, Rng

NAMES = list(METHODS)

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


def build(name: str) -> Method:
    """The method, with faster settings where its defaults take long."""
    return METHODS.build(name, CHEAPER.get(name))


def contract() -> list[Any]:
    """All checks of all methods; those that must fail are strict expected failures.

    Each method's first network belongs to the fast tests, its other networks to the slow ones.
    """
    params = []
    for name in NAMES:
        accepted = [kind for kind in KINDS if (name, kind) not in REFUSES]
        for check in method_checks(build(name), kinds=accepted):
            reason = exemption(name, check.name)
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
            if check.name.endswith(tuple(f"/{kind}" for kind in accepted[1:])):
                marks.append(pytest.mark.slow)
            params.append(pytest.param(check, id=f"{check.name}-{name}", marks=marks))
    return params


@pytest.mark.parametrize("check", contract())
def test_contract(check: Check) -> None:
    check.run()


@pytest.fixture(params=NAMES)
def built(request: pytest.FixtureRequest) -> Method:
    return build(request.param)


def test_tables_name_what_exists() -> None:
    rules = {*NETWORK_RULES, *METHOD_RULES}
    methods = {key for key in EXEMPTIONS if key[0] in NAMES}
    assert {key[0] for key in REFUSES} | set(CHEAPER) <= set(NAMES)
    assert {check.partition("/")[0] for _, check in methods} <= rules
    assert {check.partition("/")[2] for _, check in methods} - {""} | {kind for _, kind in REFUSES} <= set(KINDS)
    assert {key[0] for key in EXEMPTIONS} <= set(NAMES) | set(METRICS)
    assert not set(NAMES) & set(METRICS)


@pytest.mark.parametrize("net", KINDS)
def test_the_planted_classifiers_look_at_the_patch(net: NetworkKind) -> None:
    case = planted_batch(12, kind=net)

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


@pytest.mark.parametrize("net", KINDS)
def test_prepare_accepts_or_refuses_in_the_words_of_the_table(built: Method, net: NetworkKind) -> None:
    """No method may refuse, or stop refusing, without a line in REFUSES; and it refuses before it computes."""
    name = registry.traits(built).name
    case = planted_batch(3, kind=net)
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
                built(
                    planted_batch(3, kind=net).classifier, case.inputs, case.targets, rng=case.rng
                )  # in a worker of its own
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
    assert set(facts.ranges) == {setting.name for setting in fields}
    hints = typing.get_type_hints(type(built))
    for setting in fields:
        values = facts.ranges[setting.name]
        if setting.name == "layer":
            assert values == LAYERS
            continue
        default, plain = getattr(type(built)(), setting.name), METHODS.build(facts.name)
        variants = [METHODS.build(facts.name, {setting.name: value}) for value in values]
        assert plain not in variants
        assert len({registry.label(variant) for variant in variants}) == len(values)
        assert min(2, len(choices(hints[setting.name])) - 1 if choices(hints[setting.name]) else 2) <= len(values) <= 4
        assert all(getattr(variant, setting.name) != default for variant in variants)


def test_caveats_are_sentences_with_a_source(built: Method) -> None:
    facts = registry.traits(built)
    assert not (facts.control and facts.caveats), "what a control cannot do is its purpose, not a caveat"
    for key, sentence in facts.caveats.items():
        assert key in CITATIONS
        assert sentence.strip() == sentence
        assert sentence
        assert not sentence.endswith(".")
        assert "\n" not in sentence


def test_a_claim_with_a_tolerance_says_how_far_it_was_shown(built: Method) -> None:
    facts = registry.traits(built)
    for claim in (facts.complete, facts.implementation_invariant):
        if claim is not False:
            assert isinstance(claim, TraitEvidence)
            assert 0 < claim.within <= 0.05
            assert min(claim.images, claim.networks) > 1


# The same function, written in another way ----------------------------------------------------------------------------


@pytest.mark.parametrize("net", KINDS)
def test_rewriting_keeps_the_function(net: NetworkKind) -> None:
    case = planted_batch(6, kind=net)
    inputs = torch.cat([case.inputs, 0.5 * case.inputs, case.rng.normal("any", (3, SIDE, SIDE))])
    expected = case.classifier.logits(inputs)
    for other in rewrites(net, planted_network(net)).values():
        model = Classifier(other, mean=MEAN, std=STD)
        torch.testing.assert_close(model.logits(inputs), expected, rtol=1e-4, atol=1e-5)
        assert model.fingerprint != Classifier(planted_network(net), mean=MEAN, std=STD).fingerprint


@pytest.mark.parametrize("net", KINDS)
def test_a_method_that_reads_weights_is_not_invariant(net: NetworkKind) -> None:
    @dataclass(frozen=True)
    class ReadsWeights:
        def __call__(self, classifier: Classifier, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
            weights = torch.cat([parameter.flatten() for parameter in classifier.module.parameters()])
            return inputs[:, 0] * float((weights * torch.arange(len(weights)).cos()).sum())

        def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
            return Passes()

    moved = changes_by_rewriting(ReadsWeights(), net)
    assert min(moved.values()) > 0.01, moved


@pytest.mark.parametrize("net", ["cnn", "resnet"])
def test_guided_backprop_depends_on_how_the_network_is_written(net: NetworkKind) -> None:
    assert changes_by_rewriting(METHODS.build("guided-backprop"), net)["cancelling"] > 0.01


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
    case = planted_batch(2)
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
        ("costless", "me2026", Costless, "method 'costless' has no passes, which snellen.types.Method requires"),
        ("loose", "me2026", Loose, "method 'loose' must be a frozen dataclass"),
        ("Grad CAM", "me2026", Brightness, "method 'Grad CAM': a name is lower-case words joined by hyphens"),
    ]
    for name, cite, plugin, sentence in cases:
        with pytest.raises(SnellenError) as caught:
            method(name, cite=cite)(plugin)
        assert str(caught.value) == sentence
        assert name == "gradient" or name not in METHODS
