from __future__ import annotations

import importlib.metadata
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from snellen import SnellenError
from snellen.catalogue.registered import registered
from snellen.plugins import registry
from snellen.runs.foreign_code import named_code
from snellen.zoo import load_classifier
from snellen.zoo.models import executes_code, model_origin
from snellen.zoo.sources import LoadedModel, ModelRequest, source
from snellen.zoo.sources import source as source_module
from snellen.zoo.sources.source import all_sources

IMAGES = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))

CLASS = """
from torch import nn

class Net(nn.Module):
    def __init__(self, width=2, depth=1):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, images):
        return self.body(images)

def function():
    return Net()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a module of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_net", raising=False)
    (tmp_path / "own_net.py").write_text(CLASS)
    return tmp_path


@pytest.fixture
def own_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that a test registers are forgotten after it."""
    home = sys.modules["snellen.zoo.sources.source"]
    monkeypatch.setattr(home, "_SOURCES", dict(home._SOURCES))


def refused(spec: str) -> str:
    with pytest.raises(SnellenError) as caught:
        load_classifier(spec)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def black_box(request: ModelRequest) -> LoadedModel:
    return LoadedModel(model=lambda images: images.amax(dim=(2, 3)), name=request.name, facts={"processor": {"side": 8}})


@pytest.mark.usefixtures("own_sources")
def test_a_package_brings_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name, value = "mine", "mine"

        def load(self) -> None:
            source("mine", spec="mine:NAME", what="a model of mine")(black_box)

    monkeypatch.setattr(registry, "_loaded", False)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [Point()])
    classifier = load_classifier("mine:model")
    torch.testing.assert_close(classifier.logits(IMAGES), IMAGES.amax(dim=(2, 3)))
    assert classifier.model_facts["source"] == "mine"
    assert classifier.model_facts["processor"] == {"side": 8}
    assert "mine:NAME" in [form.spec for form in all_sources()]
    assert "mine:NAME" in [form.spec for form in registered("models")]
    assert executes_code("mine:model")  # unless the source says otherwise
    assert named_code({"model": "mine:model"}) == {"model": "mine:model"}


@pytest.mark.usefixtures("own_sources")
def test_a_source_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(SnellenError, match="source 'timm' is registered twice; choose another name"):
        source_module("timm", spec="timm:NAME", what="another")(black_box)
    with pytest.raises(SnellenError, match="a name is lower-case words joined by hyphens"):
        source_module("My Own", spec="", what="")(black_box)


def test_every_source_is_listed() -> None:
    names = [form.name for form in all_sources()]
    assert names[:7] == ["efficientnet-lite0", "digits", "digits-many", "timm", "torchvision", "hf", "onnx"]
    library = {form.name for form in all_sources() if not form.executes_code}
    assert library >= {"efficientnet-lite0", "digits", "timm", "torchvision", "hf", "onnx"}
    assert not library & {"lightning", "torchscript", "torch-export", "function"}


# Lightning --------------------------------------------------------------------------------------------------------------


def checkpoint(path: Path, **hyper_parameters: object) -> dict[str, torch.Tensor]:
    """Writes a file with the keys of a Lightning checkpoint; returns its weights."""
    torch.manual_seed(0)
    width = int(hyper_parameters.get("width", 2))  # type: ignore[call-overload]
    weights = {"body.0.weight": torch.rand(width, 3, 3, 3), "body.0.bias": torch.rand(width)}
    torch.save(
        {
            "epoch": 1,
            "global_step": 10,
            "pytorch-lightning_version": "2.6.6",
            "state_dict": weights,
            "optimizer_states": [],
            "hyper_parameters": hyper_parameters,
            "hparams_name": "kwargs",
        },
        path,
    )
    return weights


def test_a_lightning_checkpoint(here: Path) -> None:
    weights = checkpoint(here / "last.ckpt", width=5, learning_rate=0.1)
    classifier = load_classifier("lightning:own_net:Net@last.ckpt")
    assert classifier.name == "own_net:Net@last.ckpt"
    expected = torch.nn.functional.conv2d(IMAGES, weights["body.0.weight"], weights["body.0.bias"]).mean(dim=(2, 3))
    torch.testing.assert_close(classifier.logits(IMAGES), expected)
    assert classifier.offers == {"gradients", "layer", "relu"}
    assert model_origin("lightning:own_net:Net@last.ckpt") == f"{here / 'own_net.py'} {here / 'last.ckpt'}"
    assert named_code({"model": "lightning:own_net:Net@last.ckpt"})


class Strange:
    pass


def test_lightning_checkpoints_that_are_refused(here: Path) -> None:
    assert "is not written as lightning:package.module:Class@file.ckpt" in refused("lightning:own_net:Net")
    assert "there is no checkpoint 'gone.ckpt'" in refused("lightning:own_net:Net@gone.ckpt")
    checkpoint(here / "strange.ckpt", thing=Strange())
    assert "cannot be read as a checkpoint of tensors and plain values" in refused("lightning:own_net:Net@strange.ckpt")
    torch.save([1], here / "list.ckpt")
    assert "is no Lightning checkpoint: it holds no state_dict" in refused("lightning:own_net:Net@list.ckpt")
    checkpoint(here / "last.ckpt", width=5)
    assert "own_net:function is not a class of modules" in refused("lightning:own_net:function@last.ckpt")
    checkpoint(here / "less.ckpt", depth=0)
    (here / "other_net.py").write_text(CLASS.replace("width=2", "width"))
    assert "with the stored hyper-parameters failed (TypeError: " in refused("lightning:other_net:Net@less.ckpt")


# Other frameworks -------------------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "other-frameworks.md"


class Softmax:
    """Stands for a model of another framework: arrays of N×H×W×3 in, probabilities out."""

    def __call__(self, images: np.ndarray, training: bool = False) -> np.ndarray:
        assert images.shape[3] == 3
        values = np.exp(images.mean(axis=(1, 2)))
        return values / values.sum(axis=1, keepdims=True)


def test_the_page_on_other_frameworks(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keras, jax, flax = types.ModuleType("keras"), types.ModuleType("jax"), types.ModuleType("own_flax_model")
    keras.models = types.SimpleNamespace(load_model=lambda path: Softmax())  # type: ignore[attr-defined]
    jax.jit = lambda function: function  # type: ignore[attr-defined]
    flax.restore = lambda path: (lambda weights, images: images.mean(axis=(1, 2)), None)  # type: ignore[attr-defined]
    for module in (keras, jax, flax):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    for name, block in zip(("keras_model", "jax_model"), blocks, strict=True):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (here / f"{name}.py").write_text(block)
        assert f"{name}:load" in PAGE.read_text(encoding="utf-8")
        classifier = load_classifier(f"{name}:load")
        pixels = torch.rand(2, 3, *classifier.geometry.size)
        assert classifier.check(classifier.to_inputs(pixels)) == 3
        means = classifier.to_inputs(pixels).mean(dim=(2, 3))
        torch.testing.assert_close(classifier.probabilities(classifier.to_inputs(pixels)), means.softmax(dim=1))
