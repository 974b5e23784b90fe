from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from snellen import Classifier, Geometry, SnellenError
from snellen.images import Samples
from snellen.zoo import EMBEDDED, PHOTOGRAPHS, class_names, load_classifier, photographs
from snellen.zoo import efficientnet_lite0 as lite0
from snellen.zoo.photographs import Photograph


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load_classifier(EMBEDDED)


@pytest.fixture(scope="module")
def seven() -> Samples:
    return photographs()


def test_the_top_label_of_each_photograph_is_sensible(classifier: Classifier, seven: Samples) -> None:
    inputs = classifier.to_inputs(torch.stack([sample.image for sample in seven]))
    classifier.check(inputs, [sample.label for sample in seven])
    top = classifier.logits(inputs).argmax(dim=1).tolist()
    for photograph, index in zip(PHOTOGRAPHS, top, strict=True):
        assert index in photograph.sensible, f"{photograph.name} is taken for a {class_names()[index]}"


def test_the_normalisation_matters(classifier: Classifier, seven: Samples) -> None:
    """The published preprocessing makes the network surer of the seven than the common ImageNet one."""
    pixels = torch.stack([sample.image for sample in seven])
    common = Classifier(classifier.module, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    ours, theirs = (model.probabilities(model.to_inputs(pixels)) for model in (classifier, common))
    sensible = [list(photograph.sensible) for photograph in PHOTOGRAPHS]

    def mean(rows: torch.Tensor) -> float:
        return sum(float(row[indices].sum()) for row, indices in zip(rows, sensible, strict=True)) / len(sensible)

    assert mean(ours) > mean(theirs) + 0.05


def test_every_activation_is_a_module_of_its_own(classifier: Classifier, seven: Samples) -> None:
    inputs = classifier.to_inputs(seven[0].image[None])
    calls: list[str] = []
    for name, module in classifier.module.named_modules():
        if isinstance(module, nn.ReLU6):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    modules = [name for name, module in classifier.module.named_modules() if isinstance(module, nn.ReLU6)]
    seen = [operation for operation in classifier.operations(inputs) if operation.kind in ("rectifier", "activation")]
    assert {operation.name for operation in seen} == {"relu6"}
    assert sorted(operation.layer for operation in seen) == sorted(modules)
    assert sorted(calls) == sorted(modules)
    assert classifier.feature_layer(inputs) == "head"
    for module in classifier.module.modules():
        module._forward_hooks.clear()


def test_the_network_has_the_published_number_of_weights() -> None:
    assert sum(weights.numel() for weights in lite0.EfficientNetLite0().parameters()) == 4_652_008


def test_padding_of_stride_two_starts_one_later_than_symmetric() -> None:
    """By hand on 4×4: with no margin before and one after, a 3×3 sum at stride 2 starts at pixel 0, not at -1."""
    unit = lite0._convolution(1, 1, kernel=3, stride=2, active=False)
    nn.init.ones_(unit.get_submodule("conv").weight)
    picture = torch.arange(16.0).view(1, 1, 4, 4)
    seen = unit.get_submodule("conv")(unit.get_submodule("pad")(picture))
    assert seen.flatten().tolist() == [45.0, 39.0, 66.0, 50.0]


def test_a_changed_weight_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "weights.pth"
    broken.write_bytes(lite0.weight_file().read_bytes()[:-1])
    monkeypatch.setattr(lite0, "weight_file", lambda: broken)
    with pytest.raises(SnellenError, match="is not the one that Snellen expects"):
        lite0.efficientnet_lite0()


def test_class_names_are_a_thousand_different_ones_in_the_standard_order() -> None:
    names = class_names()
    assert len({name.casefold() for name in names}) == len(names) == 1000
    expected = {
        0: "tench",
        207: "golden retriever",
        281: "tabby",
        517: "crane (machine)",
        867: "trailer truck",
        999: "toilet tissue",
    }
    assert {index: names[index] for index in expected} == expected


def test_class_names_agree_with_those_of_timm() -> None:
    timm = importlib.util.find_spec("timm")
    assert timm is not None
    assert timm.origin is not None
    info = Path(timm.origin).parent / "data" / "_info"
    lemmas = dict(line.split("\t", 1) for line in (info / "imagenet_synset_to_lemma.txt").read_text().splitlines())
    for index, synset in enumerate((info / "imagenet_synsets.txt").read_text().split()):
        words = [word.strip().casefold() for word in lemmas[synset].split(",")]
        assert class_names()[index].split(" (")[0].casefold() in words, index


def test_photographs_have_boxes_that_show(seven: Samples) -> None:
    assert seven.ids == ("chelsea", "coffee", "camera", "rocket", "motorcycle", "china", "flower")
    for photograph, sample in zip(PHOTOGRAPHS, seven, strict=True):
        assert sample.label == photograph.sensible[0]
        assert sample.truth is not None
        assert sample.truth.float().mean() > 0.05
    rocket = seven[3].truth
    assert rocket is not None
    columns = torch.nonzero(rocket.any(dim=0)).flatten()
    # The rocket stands in columns 306 to 338 of 640; the window is 373.6 wide and starts at 133.2.
    assert (int(columns[0]), int(columns[-1]) + 1) == (round(172.8 * 224 / 373.625), round(204.8 * 224 / 373.625))


def test_photographs_take_another_geometry_and_pickle_small() -> None:
    small = photographs(Geometry((32, 32)), channels=1)
    part = pickle.loads(pickle.dumps(small.take([4])))
    assert len(pickle.dumps(part)) < 2000
    assert part[0].image.shape == (1, 32, 32)
    assert part[0].id == "motorcycle"


def test_a_changed_or_missing_photograph_is_refused() -> None:
    photograph = PHOTOGRAPHS[0]

    def refused(**changes: str) -> str:
        with pytest.raises(SnellenError) as caught:
            Photograph(**{**vars(photograph), **changes}).path()
        return str(caught.value)

    assert "is not the photograph that Snellen expects" in refused(sha256="0" * 64)
    assert "is missing from scikit-image" in refused(file="gone.png")
