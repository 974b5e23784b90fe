"""Every registered method against every rule for methods, on the planted classifier."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack

from planted import AREA_SHARE, MEAN, SIDE, STD, Net, planted
from snellen import registry
from snellen.citations import CITATIONS
from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.registry import METHODS, method
from snellen.types import Method, Passes, Rng

NAMES = list(METHODS)

SETTINGS: dict[str, dict[str, Any]] = {"rise": {"masks": 300}}
"""Where the default would only make the suite slower."""

EXEMPT: dict[tuple[str, str], str] = {
    ("random", "planted"): "a control knows nothing of the classifier",
    ("edge", "planted"): "a control knows nothing of the classifier",
    ("fake-cam", "planted"): "a control knows nothing of the classifier",
    ("centre", "planted"): "a control knows nothing of the classifier",
    ("random", "raises"): "a control never calls the model",
    ("edge", "raises"): "a control never calls the model",
    ("fake-cam", "raises"): "a control never calls the model",
    ("centre", "raises"): "a control never calls the model",
}


@pytest.fixture(params=NAMES)
def built(request: pytest.FixtureRequest) -> Method:
    check = request.node.originalname.removeprefix("test_")
    if (request.param, check) in EXEMPT:
        pytest.skip(EXEMPT[request.param, check])
    return METHODS.build(request.param, SETTINGS.get(request.param))


def explain(built: Method, classifier: Classifier, inputs: Tensor, targets: Tensor, rng: Rng) -> Tensor:
    prepare(built, classifier, inputs)
    return built(classifier, inputs, targets, rng=rng)


def prepare(built: Method, classifier: Classifier, inputs: Tensor) -> None:
    if hasattr(built, "prepare"):
        built.prepare(classifier, inputs)


def test_exemptions_name_what_exists() -> None:
    checks = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {name for name, _ in EXEMPT} <= set(NAMES)
    assert {check for _, check in EXEMPT} <= checks


def test_cited(built: Method) -> None:
    assert registry.traits(built).cite in CITATIONS


def test_one_finite_number_per_pixel(built: Method) -> None:
    case = planted(3)
    maps = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    assert maps.shape == (3, SIDE, SIDE)
    assert maps.dtype == torch.float32
    assert bool(maps.isfinite().all())
    assert not maps.requires_grad


def test_wide_image(built: Method) -> None:
    class Wide(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d(2))
            self.head = torch.nn.Linear(4 * 6 * 10, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(self.body(inputs).flatten(1))

    rng = Rng(seed=3, ids=("wide",))
    inputs = rng.normal("image", (3, 12, 20))
    with (model := Classifier(Wide())).counting() as ledger:  # not prepared, as in a worker of its own
        maps = built(model, inputs, torch.tensor([1]), rng=rng)
    assert maps.shape == (1, 12, 20)
    assert ledger.passes + ledger.shared == built.passes((12, 20), model)


def test_batch_of_three_equals_three_singles(built: Method) -> None:
    case = planted(3)
    together = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    for i in range(3):
        alone = explain(
            built, case.classifier, case.inputs[i : i + 1].clone(), case.targets[i : i + 1].clone(), case.rng[i : i + 1]
        )
        torch.testing.assert_close(together[i], alone[0], rtol=1e-4, atol=1e-6)


def test_rows_per_pass_do_not_matter(built: Method) -> None:
    case = planted(3)
    narrow = Classifier(Net(), mean=MEAN, std=STD, rows=8)
    expected = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    found = explain(built, narrow, case.inputs, case.targets, case.rng)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_same_rng_same_bits(built: Method) -> None:
    case = planted(3)
    first = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    again = explain(built, planted(3).classifier, case.inputs.clone(), case.targets.clone(), case.rng)
    assert torch.equal(first, again)


def test_deterministic_is_true_exactly_when_the_seed_does_not_matter(built: Method) -> None:
    case = planted(3)
    first = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    other = explain(built, planted(3).classifier, case.inputs, case.targets, Rng(seed=99, ids=case.rng.ids))
    assert torch.equal(first, other) == registry.traits(built).deterministic


def test_no_method_touches_the_global_generator(built: Method) -> None:
    case = planted(3)
    before = torch.get_rng_state()
    explain(built, case.classifier, case.inputs, case.targets, case.rng)
    assert torch.equal(torch.get_rng_state(), before)


class Breakable(Net):
    """Raises in its last layer, after every hook and rectifier has been passed, once `broken` is set."""

    broken = False

    def forward(self, inputs: Tensor) -> Tensor:
        out = super().forward(inputs)
        if self.broken:
            raise RuntimeError("the planted failure")
        return out


def used(net: Net) -> Net:
    """A user's model in the middle of training, with a hook and gradients of its own."""
    net.train()
    net.register_buffer("steps_taken", torch.tensor(7))
    net.head.register_forward_hook(lambda module, args, output: None)
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


def test_model_is_left_as_found(built: Method) -> None:
    net = used(Net())
    case = planted(3)
    model = Classifier(net, mean=MEAN, std=STD)
    theirs, ours = state(net), state(model.module)
    explain(built, model, case.inputs, case.targets, case.rng)
    assert_as_found(net, theirs)
    assert_as_found(model.module, ours)


def test_raises(built: Method) -> None:
    net = used(Breakable())
    case = planted(3)
    model = Classifier(net, mean=MEAN, std=STD)
    prepare(built, model, case.inputs)
    model.module.broken = True  # type: ignore[assignment]
    theirs, ours = state(net), state(model.module)
    with pytest.raises(RuntimeError, match="the planted failure"):
        built(model, case.inputs, case.targets, rng=case.rng)
    assert_as_found(net, theirs)
    assert_as_found(model.module, ours)
    model.module.broken = False  # type: ignore[assignment]
    expected = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    assert torch.equal(built(model, case.inputs, case.targets, rng=case.rng), expected)


def test_inputs_are_left_as_found(built: Method) -> None:
    case = planted(3)
    inputs, targets = case.inputs.clone(), case.targets.clone()
    maps = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    maps.add_(1)  # a map must not be a view of the inputs or of something that the next caller shares
    assert torch.equal(case.inputs, inputs)
    assert torch.equal(case.targets, targets)
    assert case.inputs.grad is None
    assert not case.inputs.requires_grad
    again = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    torch.testing.assert_close(again, maps - 1, rtol=0, atol=1e-6)


def test_class_specific_is_true_exactly_when_the_target_matters(built: Method) -> None:
    case = planted(3)
    own = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    other = explain(built, case.classifier, case.inputs, (case.targets + 1) % 3, case.rng)
    differs = [not torch.equal(one, two) for one, two in zip(own, other, strict=True)]
    assert differs == [registry.traits(built).class_specific] * 3


def test_complete_maps_sum_to_the_rise_of_the_logit(built: Method) -> None:
    case = planted(6)
    total = explain(built, case.classifier, case.inputs, case.targets, case.rng).sum(dim=(1, 2))
    rise = (case.classifier.logits(case.inputs) - case.classifier.logits(torch.zeros_like(case.inputs))).gather(
        1, case.targets[:, None]
    )[:, 0]
    met = bool(((total - rise).abs() < 0.02 * rise.abs()).all())
    assert met == registry.traits(built).complete


def test_signed_is_true_exactly_when_something_is_negative(built: Method) -> None:
    case = planted(6)
    maps = explain(built, case.classifier, case.inputs, case.targets, case.rng)
    assert bool((maps < 0).any()) == registry.traits(built).signed


def test_planted(built: Method) -> None:
    case = planted(6)
    size = explain(built, case.classifier, case.inputs, case.targets, case.rng).abs()
    share = (size * case.truth).sum(dim=(1, 2)) / size.sum(dim=(1, 2))
    assert bool((share > 1.05 * AREA_SHARE).all()), share / AREA_SHARE


def test_settings_survive_json(built: Method) -> None:
    written = json.loads(json.dumps(registry.spec(built)))
    assert METHODS.build(written["name"], written["params"]) == built
    assert METHODS.parse(registry.label(built)) == built
    assert METHODS.parse(written) == built


def test_planned_passes_are_the_counted_ones(built: Method) -> None:
    case = planted(3)
    prepare(built, case.classifier, case.inputs)
    for _ in range(2):  # the second time some may be shared, and count all the same
        with case.classifier.counting() as ledger:
            built(case.classifier, case.inputs, case.targets, rng=case.rng)
        assert ledger.passes + ledger.shared == 3 * built.passes((SIDE, SIDE), case.classifier)


def test_needs_are_exactly_what_a_black_box_cannot_give(built: Method) -> None:
    case = planted(3)
    net = copy.deepcopy(case.classifier.module)

    def black_box(inputs: Tensor) -> Tensor:
        return net(inputs)

    model = Classifier(black_box, mean=MEAN, std=STD)
    if registry.traits(built).needs:
        with pytest.raises(SnellenError, match="black_box"):
            explain(built, model, case.inputs, case.targets, case.rng)
    else:
        expected = explain(built, case.classifier, case.inputs, case.targets, case.rng)
        found = explain(built, model, case.inputs, case.targets, case.rng)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rise(masks=0)", "method 'rise': masks and cells must be at least 1, not 0 and 8"),
        ("rise(keep=0)", "method 'rise': keep must lie above 0 and up to 1, not 0.0"),
        ("rise(of=score)", "method 'rise': of must be one of logit, probability, not 'score'"),
        ("occlusion(overlap=0)", "method 'occlusion': cells and overlap must be at least 1, not 7 and 0"),
        ("integrated-gradients(steps=0)", "method 'integrated-gradients': steps must be at least 1, not 0"),
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

    class Loose:
        """A map that is no dataclass."""

    cases = [
        ("gradient", "me2026", Brightness, "method 'gradient' is registered twice; choose another name"),
        ("silent", "me2026", Silent, "'silent' needs a docstring that says in one sentence what its number means"),
        ("uncited", "", Brightness, "'uncited' must cite the work that defines it"),
        ("undecided", "me2026", Undecided, "method 'undecided': the field 'gain' needs a default"),
        ("opaque", "me2026", Opaque, "method 'opaque': its settings must survive JSON, but a Tensor does not"),
        ("loose", "me2026", Loose, "method 'loose' must be a frozen dataclass"),
        ("Grad CAM", "me2026", Brightness, "method 'Grad CAM': a name is lower-case words joined by hyphens"),
    ]
    for name, cite, plugin, sentence in cases:
        with pytest.raises(SnellenError) as caught:
            method(name, cite=cite)(plugin)
        assert str(caught.value) == sentence
        assert name == "gradient" or name not in METHODS
