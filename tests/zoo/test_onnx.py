from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.torchvision_kernels import import_torchvision
from torch import Tensor, nn

from snellen import Classifier, SnellenError
from snellen.plugins.registry import METHODS
from snellen.runs.foreign_code import named_code
from snellen.types import Rng
from snellen.zoo import load_classifier

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

IMAGES = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)).eval()


def export(path: Path, model: nn.Module, *, rows: int | None, inputs: tuple[Tensor, ...] | None = None) -> Path:
    """Writes an ONNX file whose batch is fixed to `rows`, or dynamic."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            inputs or (IMAGES[: rows or 2],),
            str(path),
            dynamo=False,
            input_names=["image"],
            dynamic_axes={"image": {0: "rows"}} if rows is None else None,
        )
    return path


def refused(spec: str) -> str:
    with pytest.raises(SnellenError) as caught:
        load_classifier(spec)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        (None, None),
        (1, "was exported for one image at a time; a dynamic batch axis would be faster"),
        (3, "was exported for batches of exactly 3 images, filled up if fewer; a dynamic batch axis would be faster"),
    ],
)
def test_outputs_are_those_of_the_model(tmp_path: Path, rows: int | None, note: str | None) -> None:
    model = network()
    path = export(tmp_path / "model.onnx", model, rows=rows)
    classifier = load_classifier(f"onnx:{path}")
    assert classifier.name == "model.onnx"
    assert classifier.geometry.size == (8, 8)
    assert classifier.notes == (() if note is None else (f"'onnx:{path}' {note}",))
    assert classifier.offers == frozenset()
    for copy in (classifier, pickle.loads(pickle.dumps(classifier))):
        for count in (1, 2, 5):
            assert copy.check(IMAGES[:count]) == 5
            torch.testing.assert_close(copy.logits(IMAGES[:count]), Classifier(model).logits(IMAGES[:count]))
    with pytest.raises(SnellenError, match="is a black-box function: it has no gradients"):
        classifier.gradient(IMAGES, torch.zeros(5, dtype=torch.long))
    occlusion, targets, rng = METHODS.build("occlusion"), torch.tensor([0, 1]), Rng(0, ("a", "b"))
    maps = [occlusion(subject, IMAGES[:2], targets, rng=rng) for subject in (classifier, Classifier(model))]
    torch.testing.assert_close(maps[0], maps[1])


class ChannelsLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, image: Tensor) -> Tensor:
        return self.inner(image.permute(0, 3, 1, 2))


def test_channels_may_come_last(tmp_path: Path) -> None:
    path = export(tmp_path / "model.onnx", ChannelsLast(), rows=2, inputs=(IMAGES[:2].permute(0, 2, 3, 1),))
    classifier = load_classifier(f"onnx:{path}")
    assert classifier.geometry.size == (8, 8)
    torch.testing.assert_close(classifier.logits(IMAGES), Classifier(network()).logits(IMAGES))


class FourChannelsLast(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image.amax(dim=(1, 2))


@pytest.mark.parametrize("axes", [{0: "rows"}, {0: "rows", 1: "height", 2: "width"}])
def test_four_channels_may_come_last(tmp_path: Path, axes: dict[int, str]) -> None:
    images = torch.rand(2, 4, 8, 8)
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            FourChannelsLast(),
            (images.permute(0, 2, 3, 1),),
            str(path),
            dynamo=False,
            input_names=["image"],
            dynamic_axes={"image": axes},
        )
    classifier = load_classifier(f"onnx:{path}")
    assert classifier.channels == 4
    torch.testing.assert_close(classifier.logits(images), images.amax(dim=(2, 3)))


def test_images_of_another_size_are_one_sentence(tmp_path: Path) -> None:
    path = export(tmp_path / "model.onnx", network(), rows=None)
    with pytest.raises(SnellenError, match=r"takes images of 3×8×8, not 3×9×9; leave out --size and --channels$"):
        load_classifier(f"onnx:{path}", size=9).check(torch.rand(1, 3, 9, 9))


def test_other_weights_give_another_fingerprint(tmp_path: Path) -> None:
    paths = [export(tmp_path / f"{seed}.onnx", network(seed), rows=None) for seed in (0, 1)]
    first, second = (load_classifier(f"onnx:{path}") for path in paths)
    assert first.fingerprint != second.fingerprint


class TwoInputs(nn.Module):
    def forward(self, image: Tensor, other: Tensor) -> Tensor:
        return (image + other).mean(dim=(2, 3))


class TwoOutputs(nn.Module):
    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        return image.mean(dim=(2, 3)), image.amax(dim=(2, 3))


def test_models_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    spec = f"onnx:{path}"
    assert refused(spec) == f"there is no model file '{path}'"
    path.write_text("no")
    assert "cannot be read as an ONNX file (" in refused(spec)
    export(path, TwoInputs(), rows=2, inputs=(IMAGES[:2], IMAGES[:2]))
    assert "has 2 inputs (image, " in refused(spec)
    export(path, TwoOutputs(), rows=2)
    assert "has 2 outputs (" in refused(spec)
    assert "a classifier has one tensor with a row per image" in refused(spec)
    export(path, nn.Linear(3, 2), rows=2, inputs=(torch.rand(2, 3),))
    assert "takes tensor(float) of 2×3, not float images of N×C×H×W" in refused(spec)


def test_weights_in_a_file_beside_it(tmp_path: Path) -> None:
    path, model = export(tmp_path / "model.onnx", network(), rows=None), network()
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    classifier = load_classifier(f"onnx:{path}")
    torch.testing.assert_close(classifier.logits(IMAGES), Classifier(model).logits(IMAGES))
    (tmp_path / "model.onnx.data").unlink()
    assert "cannot be read as an ONNX file (" in refused(f"onnx:{path}")


class SharedBias(nn.Module):
    """Its exporter gives one initializer two names, by an Identity node."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleList([nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)])
        for layer in self.body:
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, image: Tensor) -> Tensor:
        return self.body[1](self.body[0](image).relu()).mean(dim=(2, 3))


@pytest.mark.parametrize("make", [network, SharedBias])
def test_a_converted_graph_has_gradients(tmp_path: Path, make: Callable[[], nn.Module]) -> None:
    import_torchvision()
    pytest.importorskip("onnx2torch")
    torch.manual_seed(0)
    model = make().eval()
    classifier = load_classifier(f"onnx2torch:{export(tmp_path / 'model.onnx', model, rows=None)}")
    twin = Classifier(model)
    assert classifier.offers == {"gradients", "layer", "relu"}
    assert classifier.model_facts["versions"].keys() == {"onnx", "onnxruntime", "onnx2torch"}
    targets, rng = torch.tensor([0, 1]), Rng(0, ("a", "b"))
    torch.testing.assert_close(classifier.logits(IMAGES), twin.logits(IMAGES))
    for name in ("gradient", "grad-cam"):
        maps = [METHODS.build(name)(subject, IMAGES[:2], targets, rng=rng) for subject in (classifier, twin)]
        torch.testing.assert_close(maps[0], maps[1], rtol=1e-4, atol=1e-6)
    assert pickle.loads(pickle.dumps(classifier)).fingerprint == classifier.fingerprint


class Unusual(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return torch.linalg.det(image[..., :3, :3]) + image.mean(dim=(2, 3))


def test_graphs_that_do_not_convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_torchvision()
    onnx2torch = pytest.importorskip("onnx2torch")
    path = tmp_path / "model.onnx"
    spec, black_box = f"onnx2torch:{path}", f"name it onnx:{path}, a black box, or give the model that it was exported from"
    export(path, network(), rows=1)
    needed = "a dynamic batch axis, the channels before height and width, and float32 values"
    assert refused(spec).endswith(f"cannot be converted: that needs {needed}; {black_box}")
    export(path, Unusual(), rows=None)
    message = refused(spec)
    assert "cannot be converted by onnx2torch (" in message
    assert message.endswith(black_box)
    export(path, network(), rows=None)
    monkeypatch.setattr(onnx2torch, "convert", lambda graph: network(1))
    assert refused(spec).endswith(f"gives other outputs after the conversion; {black_box}")
    monkeypatch.setitem(sys.modules, "onnx2torch", None)
    assert refused(spec).endswith("needs the extra: pip install 'snellen[onnx2torch]'")


def test_a_graph_is_no_code(tmp_path: Path) -> None:
    assert named_code({"model": f"onnx:{tmp_path}/model.onnx"}) == {}


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert refused(f"onnx:{tmp_path}/model.onnx").endswith("needs the extra: pip install 'snellen[onnx]'")
    monkeypatch.setitem(sys.modules, "onnx2torch", None)
    spec = f"onnx2torch:{tmp_path}/model.onnx"
    assert refused(spec).endswith("needs the extra: pip install 'snellen[onnx2torch]'")
