"""Methods of captum, Quantus and pytorch-grad-cam through their adapters: our own maps, the contract, and a run."""

from __future__ import annotations

import captum.attr
import pytest
import torch
from tests.networks import SIDE, plain

import snellen
from snellen.methods.adapters.foreign_method import UNSIGNED
from snellen.methods.grad_cam import GradCam
from snellen.methods.gradient import Gradient
from snellen.methods.integrated_gradients import IntegratedGradients
from snellen.plugins.checks import checks
from snellen.plugins.registry import METHODS, label
from snellen.types import Rng

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = Rng(seed=1, ids=("a", "b", "c"))
TARGETS = torch.tensor([0, 3, 1])

SALIENCY = snellen.adapters.captum(captum.attr.Saliency, fold="absolute-max", stated=UNSIGNED)
INTEGRATED = snellen.adapters.captum(captum.attr.IntegratedGradients, n_steps=9)


def layer_grad_cam(module: torch.nn.Module) -> captum.attr.LayerGradCam:
    return captum.attr.LayerGradCam(module, module[5])


def noisy_saliency(module: torch.nn.Module) -> captum.attr.NoiseTunnel:
    return captum.attr.NoiseTunnel(captum.attr.Saliency(module))


def saliency_of_arrays(model, inputs, targets, **kwargs):
    """An explain_func as Quantus calls it."""
    leaf = torch.from_numpy(inputs).requires_grad_()
    model(leaf).gather(1, torch.from_numpy(targets)[:, None]).sum().backward()
    return kwargs.get("scale", 1) * leaf.grad.abs().amax(dim=1).numpy()


@pytest.fixture(scope="module")
def classifier() -> snellen.Classifier:
    return snellen.Classifier(plain(activation=torch.nn.SiLU))


@pytest.fixture(scope="module")
def inputs() -> torch.Tensor:
    return RNG.normal("images", (3, SIDE, SIDE))


def assert_same(maps: torch.Tensor, expected: torch.Tensor, share: float = 1e-4) -> None:
    assert float((maps - expected).abs().max()) <= share * float(expected.abs().max())


def stretched(maps: torch.Tensor) -> torch.Tensor:
    """From 0 to 1, as pytorch-grad-cam does; a constant map becomes 0."""
    low = maps.amin(dim=(1, 2), keepdim=True)
    return (maps - low) / (maps.amax(dim=(1, 2), keepdim=True) - low).clamp_min(1e-7)


class Parts(torch.nn.Module):
    """A network whose parts have names that are common, such as in torchvision."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
        self.inner = torch.nn.Identity()
        self.classifier = torch.nn.Linear(4, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.inner(self.features(images)).mean(dim=(2, 3))
        return self.classifier(features)


def by_names_of_parts(module: torch.nn.Module) -> captum.attr.LayerGradCam:
    names = dict(module.named_modules())
    assert isinstance(module.classifier, torch.nn.Linear)
    assert isinstance(module.inner, torch.nn.Identity)
    assert names["features.0"] is module.features[0] is module.get_submodule("features.0")
    return captum.attr.LayerGradCam(module, names["features.0"])


def test_functions_see_the_parts_of_the_users_module(inputs: torch.Tensor) -> None:
    classifier = snellen.Classifier(Parts())
    maps = snellen.adapters.captum(by_names_of_parts)(classifier, inputs, TARGETS, rng=RNG)
    net = classifier.module
    expected = captum.attr.LayerGradCam(net, net.features[0]).attribute(inputs, target=TARGETS)
    expected = torch.nn.functional.interpolate(expected, size=(SIDE, SIDE), mode="bilinear")[:, 0]
    assert_same(maps, expected)


def test_settings_of_captum_may_be_tuples(classifier: snellen.Classifier, inputs: torch.Tensor) -> None:
    """JSON turns them into lists, which captum does not take."""
    adapter = snellen.adapters.captum(captum.attr.Occlusion, sliding_window_shapes=(3, 16, 16), strides=(3, 16, 16))
    adapter = METHODS.parse(label(adapter))
    maps = adapter(classifier, inputs[:1], TARGETS[:1], rng=RNG[:1])
    occlusion = captum.attr.Occlusion(classifier.module)
    shape = (3, 16, 16)
    expected = occlusion.attribute(inputs[:1], target=TARGETS[:1], sliding_window_shapes=shape, strides=shape)
    assert_same(maps, expected.sum(dim=1))


def test_captum_gives_our_maps(classifier: snellen.Classifier, inputs: torch.Tensor) -> None:
    pairs = [
        (SALIENCY, Gradient()),
        (INTEGRATED, IntegratedGradients(steps=9)),
        (snellen.adapters.captum(layer_grad_cam, relu_attributions=True), GradCam(layer="5")),
    ]
    for adapter, own in pairs:
        assert_same(adapter(classifier, inputs, TARGETS, rng=RNG), own(classifier, inputs, TARGETS, rng=RNG))


def test_a_quantus_function_gives_our_maps(classifier: snellen.Classifier, inputs: torch.Tensor) -> None:
    adapter = snellen.adapters.quantus_explain(saliency_of_arrays, scale=2)
    assert_same(adapter(classifier, inputs, TARGETS, rng=RNG), 2 * Gradient()(classifier, inputs, TARGETS, rng=RNG))


def test_quantus_own_explain_gives_our_maps(quantus: object, classifier: snellen.Classifier, inputs: torch.Tensor) -> None:
    adapter = snellen.adapters.quantus_explain("quantus:explain", method="IntegratedGradients", n_steps=50)
    maps = adapter(classifier, inputs, TARGETS, rng=RNG)
    own = IntegratedGradients(steps=50)(classifier, inputs, TARGETS, rng=RNG)
    correlation = torch.corrcoef(torch.stack([maps.flatten(), own.flatten()]))[0, 1]
    assert float(correlation) > 0.999


@pytest.mark.usefixtures("torchvision")
def test_pytorch_grad_cam_gives_our_maps_up_to_its_stretching(classifier: snellen.Classifier, inputs: torch.Tensor) -> None:
    from pytorch_grad_cam import GradCAM

    own = stretched(GradCam()(classifier, inputs, TARGETS, rng=RNG))
    for layers in ((), ("5",)):
        adapter = snellen.adapters.grad_cam(GradCAM, target_layers=layers)
        assert_same(stretched(adapter(classifier, inputs, TARGETS, rng=RNG)), own, share=1e-3)


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("heads", ["exclusive-classes", "independent-labels"])
def test_adapters_take_every_target(inputs: torch.Tensor, heads: str) -> None:
    classifier = snellen.Classifier(plain(activation=torch.nn.SiLU), heads=heads)
    methods = [
        INTEGRATED,
        "integrated-gradients(steps=9)",
        snellen.adapters.grad_cam("pytorch_grad_cam:GradCAM"),
        "grad-cam",
    ]
    theirs, own, their_cam, own_cam = snellen.explain(
        classifier, inputs.sigmoid(), methods=methods, targets="contrast(3, 0)"
    ).values()
    assert_same(theirs, own)
    assert bool((own_cam > 0).any())
    assert_same(stretched(their_cam), stretched(own_cam), share=1e-3)


CONTRACTS = [
    SALIENCY,
    INTEGRATED,  # nine steps miss the rise by 3 % on one network: not complete
    snellen.adapters.captum(
        captum.attr.IntegratedGradients, n_steps=32, stated=("class-specific", "complete", "deterministic", "signed")
    ),
    snellen.adapters.quantus_explain(saliency_of_arrays, stated=UNSIGNED),
    snellen.adapters.captum(noisy_saliency, nt_samples=3, stated=("class-specific",)),
    snellen.adapters.grad_cam("pytorch_grad_cam:GradCAM"),
]


@pytest.mark.slow
@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("adapter", CONTRACTS, ids=label)
def test_adapters_keep_the_contract(adapter) -> None:
    for rule in checks(adapter):
        rule.run()


@pytest.mark.usefixtures("torchvision")
def test_a_run_takes_adapters() -> None:
    images = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    methods = [SALIENCY, "gradient", snellen.adapters.grad_cam("pytorch_grad_cam:GradCAM")]
    run = snellen.evaluate(plain(), images, methods=methods, metrics=["deletion(steps=8)", "sparseness"])
    table = run.table()
    assert len(table) == 3
    assert table.loc[label(SALIENCY), "sparseness"] == pytest.approx(table.loc["gradient", "sparseness"], rel=1e-4)


@pytest.mark.parametrize("kind", [captum.attr.DeepLift, captum.attr.GuidedBackprop])
def test_the_model_is_as_before_also_when_it_raises(kind: type, inputs: torch.Tensor) -> None:
    classifier = snellen.Classifier(plain())
    adapter = snellen.adapters.captum(kind)
    maps = adapter(classifier, inputs, TARGETS, rng=RNG)
    classifier.module[-1].register_forward_hook(_fail)
    with pytest.raises(RuntimeError, match="planned"):
        adapter(classifier, inputs, TARGETS, rng=RNG)
    assert sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in classifier.module.modules()) == 1
    classifier.module[-1]._forward_hooks.clear()
    assert torch.equal(adapter(classifier, inputs, TARGETS, rng=RNG), maps)


def _fail(*_: object) -> None:
    raise RuntimeError("planned")


def test_adapters_are_written_and_read_as_text_but_not_listed() -> None:
    assert METHODS.parse(label(INTEGRATED)) == INTEGRATED
    assert "captum" in METHODS
    assert "captum" not in list(METHODS)
    assert len(METHODS) == len(list(METHODS))


def test_a_mistake_is_one_sentence(classifier: snellen.Classifier, inputs: torch.Tensor) -> None:
    with pytest.raises(snellen.SnellenError, match="define it at the top level of a module or notebook"):
        snellen.adapters.captum(lambda module: captum.attr.Saliency(module))
    with pytest.raises(snellen.SnellenError, match="an object of Saliency, which is bound to one model; give its class"):
        snellen.adapters.captum(captum.attr.Saliency(plain()))
    with pytest.raises(snellen.SnellenError, match="captum: settings must survive JSON"):
        snellen.adapters.captum(captum.attr.IntegratedGradients, baselines=torch.zeros(1))
    with pytest.raises(snellen.SnellenError, match=r"captum cannot import 'captum\.attr:Salienc'"):
        snellen.explain(plain(), inputs.sigmoid(), methods=[snellen.adapters.captum("captum.attr:Salienc")])
    with pytest.raises(snellen.SnellenError, match="has no layer '99'"):
        snellen.explain(
            plain(), inputs.sigmoid(), methods=[snellen.adapters.grad_cam("builtins:dict", target_layers=["99"])]
        )
    with pytest.raises(ValueError, match="stated must hold some of"):
        snellen.adapters.captum(captum.attr.Saliency, stated=("fast",))
    with pytest.raises(snellen.SnellenError, match="needs gradients"):
        snellen.explain(lambda pixels: pixels.mean(dim=(2, 3)), inputs.sigmoid(), methods=[SALIENCY])
