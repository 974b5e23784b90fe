from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from snellen import Classifier, SnellenError
from snellen.plugins.registry import METHODS
from snellen.runs.foreign_code import named_code
from snellen.types import Rng
from snellen.zoo import load_classifier

pytest.importorskip("onnx")
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
    assert "cannot be loaded by onnxruntime (" in refused(spec)
    export(path, TwoInputs(), rows=2, inputs=(IMAGES[:2], IMAGES[:2]))
    assert "has 2 inputs (image, " in refused(spec)
    export(path, TwoOutputs(), rows=2)
    assert "has 2 outputs (" in refused(spec)
    export(path, nn.Linear(3, 2), rows=2, inputs=(torch.rand(2, 3),))
    assert "takes tensor(float) of 2×3, not float images of N×C×H×W" in refused(spec)


def test_a_graph_is_no_code(tmp_path: Path) -> None:
    assert named_code({"model": f"onnx:{tmp_path}/model.onnx"}) == {}


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert refused(f"onnx:{tmp_path}/model.onnx").endswith("needs the extra: pip install 'snellen[onnx]'")
