from __future__ import annotations

import json
import pickle
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tests.torchvision_kernels import import_torchvision

from snellen import Classifier, SnellenError
from snellen.images import from_files
from snellen.plugins.registry import METHODS
from snellen.runs.foreign_code import named_code
from snellen.runs.recording import describe_classifier
from snellen.types import Rng
from snellen.zoo import load_classifier

SIZE = 32
LABELS = {0: "cat", 1: "dog", 2: "cow", 3: "hen"}
INPUTS = torch.rand(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
TARGETS = torch.tensor([0, 3])
RNG = Rng(0, ("a", "b"))
PLAIN_ATTENTION = ("vit", "dinov2")
NAMES = (*PLAIN_ATTENTION, "swin", "resnet", "convnext")


@pytest.fixture(scope="module")
def transformers() -> Any:
    """The package; it imports torchvision where that is installed."""
    import_torchvision()
    return pytest.importorskip("transformers")


def network(transformers: Any, name: str, **settings: Any) -> Any:
    """A tiny network with random weights."""
    torch.manual_seed(0)
    settings = {"id2label": LABELS, "label2id": {label: key for key, label in LABELS.items()}, **settings}
    tokens = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIZE, "patch_size": 8}
    config, model = {
        "vit": ("ViTConfig", "ViTForImageClassification"),
        "dinov2": ("Dinov2Config", "Dinov2ForImageClassification"),
        "swin": ("SwinConfig", "SwinForImageClassification"),
        "resnet": ("ResNetConfig", "ResNetForImageClassification"),
        "convnext": ("ConvNextConfig", "ConvNextForImageClassification"),
    }[name]
    own = {
        "vit": {**tokens, "intermediate_size": 32},
        "dinov2": tokens,
        "swin": {
            "image_size": SIZE,
            "patch_size": 4,
            "embed_dim": 8,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
        "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
        "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    }[name]
    return getattr(transformers, model)(getattr(transformers, config)(**own, **settings)).eval()


def save(transformers: Any, folder: Path, name: str, *, processor: Any = None, **settings: Any) -> Any:
    """Writes a folder as save_pretrained does; returns the network."""
    model = network(transformers, name, **settings)
    model.save_pretrained(folder)
    if processor is None:
        processor = {
            "convnext": lambda: transformers.ConvNextImageProcessorPil(size={"shortest_edge": SIZE}),
            "dinov2": lambda: transformers.BitImageProcessorPil(
                size={"shortest_edge": 40}, crop_size={"height": SIZE, "width": SIZE}
            ),
        }.get(name, lambda: transformers.ViTImageProcessorPil(size={"height": SIZE, "width": SIZE}))()
    processor.save_pretrained(folder)
    return model


def refused(spec: str) -> str:
    with pytest.raises(SnellenError) as caught:
        load_classifier(spec)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def photograph(wide: int = 90, tall: int = 60) -> Image.Image:
    down, across = np.mgrid[0 : 1 : tall * 1j, 0 : 1 : wide * 1j]
    levels = np.stack([down, across, np.sin(6 * down * across) / 2 + 0.5], axis=-1)
    return Image.fromarray((255 * levels).astype(np.uint8))


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_by_name_gives_outputs_and_maps(transformers: Any, tmp_path: Path, name: str) -> None:
    model = save(transformers, tmp_path, name)
    classifier = load_classifier(f"hf:{tmp_path}")
    assert classifier.name == f"hf:{tmp_path}"
    assert classifier.classes == tuple(LABELS.values())
    assert classifier.check(INPUTS) == 4
    with torch.no_grad():
        torch.testing.assert_close(classifier.logits(INPUTS), model(INPUTS).logits, rtol=1e-4, atol=1e-5)
    attention = ("attention-rollout", "transformer-attribution") if name in PLAIN_ATTENTION else ()
    for method in ("gradient", "grad-cam", *attention):
        maps = METHODS.build(method)(classifier, INPUTS, TARGETS, rng=RNG)
        assert maps.shape == (2, SIZE, SIZE)
        assert float(maps.abs().sum()) > 0
    assert pickle.loads(pickle.dumps(classifier)).fingerprint == classifier.fingerprint


def test_attention_within_windows_is_refused_by_name(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "swin")
    with pytest.raises(SnellenError, match="attends within windows"):
        METHODS.build("attention-rollout")(load_classifier(f"hf:{tmp_path}"), INPUTS, TARGETS, rng=RNG)


SQUARE = {"size": {"height": 32, "width": 32}}

PROCESSORS = {
    "stretched": ("ViTImageProcessorPil", SQUARE),
    "stretched and cropped": (
        "DeiTImageProcessorPil",
        {"size": {"height": 40, "width": 40}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True},
    ),
    "cropped": ("BitImageProcessorPil", {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}}),
    "convnext": ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 32}}),
    "convnext 384": ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 384}}),
    "not normalised": ("ViTImageProcessorPil", {**SQUARE, "do_normalize": False}),
    "0 to 255": ("ViTImageProcessorPil", {**SQUARE, "do_rescale": False, "image_mean": 120.0, "image_std": 60.0}),
    "-1 to 1": ("ViTImageProcessorPil", {**SQUARE, "rescale_factor": 1 / 127.5, "image_mean": 1.0, "image_std": 1.0}),
    "nearest": ("ViTImageProcessorPil", {**SQUARE, "resample": 0}),
    "lanczos": ("ViTImageProcessorPil", {**SQUARE, "resample": 1}),
    "divided by std twice": ("EfficientNetImageProcessorPil", {**SQUARE, "image_std": [0.2, 0.3, 0.4]}),
    "divided by std once, not normalised": (
        "EfficientNetImageProcessorPil",
        {**SQUARE, "do_normalize": False, "image_std": [0.2, 0.3, 0.4]},
    ),
    "-1 to 1 by an offset": (
        "EfficientNetImageProcessorPil",
        {**SQUARE, "rescale_factor": 1 / 127.5, "rescale_offset": True, "do_normalize": False, "include_top": False},
    ),
    "levit": ("LevitImageProcessorPil", {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}),
    "poolformer": ("PoolFormerImageProcessorPil", {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_images_are_prepared_as_the_processor_does(transformers: Any, tmp_path: Path, name: str) -> None:
    kind, settings = PROCESSORS[name]
    processor = getattr(transformers, kind)(**settings)
    save(transformers, tmp_path, "resnet", processor=processor)
    classifier = load_classifier(f"hf:{tmp_path}")
    for image in (photograph(90, 60), photograph(50, 70)):
        theirs = torch.as_tensor(np.asarray(processor(image, return_tensors="np")["pixel_values"]))
        ours = classifier.to_inputs(classifier.geometry.picture(image)[None])
        assert ours.shape == theirs.shape
        # Only at the edge of a crop does the processor see pixels beyond it.
        differences = ((ours - theirs) * classifier.std).abs()
        assert float(differences[:, :, 2:-2, 2:-2].max()) < 0.03
        assert float(differences.max()) < 0.1


@pytest.mark.parametrize("name", NAMES)
def test_logits_of_real_photographs(transformers: Any, tmp_path: Path, name: str) -> None:
    model = save(transformers, tmp_path, name)
    classifier = load_classifier(f"hf:{tmp_path}")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    photographs = [Image.fromarray(getattr(skimage.data, picture)()) for picture in ("astronaut", "chelsea", "coffee")]
    with torch.no_grad():
        theirs = model(torch.as_tensor(np.asarray(processor(photographs, return_tensors="np")["pixel_values"]))).logits
    pixels = torch.stack([classifier.geometry.picture(photograph) for photograph in photographs])
    ours = classifier.logits(classifier.to_inputs(pixels))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-3)


ODD = {"size": {"height": 37, "width": 37}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True}


@pytest.mark.parametrize("kind", ["DeiTImageProcessorPil", "BitImageProcessorPil"])
def test_files_are_prepared_exactly_as_the_processor_does(transformers: Any, tmp_path: Path, kind: str) -> None:
    sizes = ODD if kind.startswith("DeiT") else {**ODD, "size": {"shortest_edge": 37}}
    processor = getattr(transformers, kind)(**sizes)
    save(transformers, tmp_path, "resnet", processor=processor)
    classifier = load_classifier(f"hf:{tmp_path}")
    noise = np.random.default_rng(0).integers(0, 256, (301, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((800, 602), Image.Resampling.BICUBIC).save(tmp_path / "large.jpg")  # far above 2 × 32
    theirs = torch.as_tensor(np.asarray(processor(Image.open(tmp_path / "large.jpg"), return_tensors="np")["pixel_values"]))
    ours = classifier.to_inputs(from_files([tmp_path / "large.jpg"], geometry=classifier.geometry)[0].image[None])
    assert float((ours - theirs).abs().max()) <= 2 / 255 / float(classifier.std.min())  # 8-bit rounding of the resized edge


def test_a_processor_that_reverses_the_channels(transformers: Any, tmp_path: Path) -> None:
    processor = transformers.MobileViTImageProcessorPil(
        size={"shortest_edge": 40}, crop_size={"height": SIZE, "width": SIZE}
    )
    model = save(transformers, tmp_path, "resnet", processor=processor)
    classifier = load_classifier(f"hf:{tmp_path}")
    image = photograph()
    theirs = torch.as_tensor(np.asarray(processor(image, return_tensors="np")["pixel_values"]))
    ours = classifier.to_inputs(classifier.geometry.picture(image)[None])
    assert float((ours.flip(1) - theirs).abs()[:, :, 2:-2, 2:-2].max()) < 0.03
    with torch.no_grad():
        torch.testing.assert_close(classifier.logits(INPUTS), model(INPUTS.flip(1)).logits, rtol=1e-4, atol=1e-5)
    assert METHODS.build("grad-cam")(classifier, INPUTS, TARGETS, rng=RNG).shape == (2, SIZE, SIZE)
    assert pickle.loads(pickle.dumps(classifier)).fingerprint == classifier.fingerprint


def save_timm(transformers: Any, folder: Path, **settings: Any) -> Any:
    """Writes a folder of a model of timm, whose configuration says how images are prepared."""
    config = {"input_size": [3, 64, 64], "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4], "crop_pct": 0.95, **settings}
    stated = {"architecture": "resnet10t", "num_classes": 2, "label_names": ["a", "b"], "pretrained_cfg": config}
    torch.manual_seed(0)
    model = transformers.TimmWrapperForImageClassification(transformers.TimmWrapperConfig.from_dict(stated)).eval()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("settings", [{}, {"crop_pct": 0.9, "interpolation": "lanczos"}, {"crop_mode": "squash"}])
def test_a_folder_of_timm(transformers: Any, tmp_path: Path, settings: dict[str, Any]) -> None:
    model = save_timm(transformers, tmp_path, **settings)
    classifier = load_classifier(f"hf:{tmp_path}")
    assert classifier.classes == ("a", "b")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    for picture in ("astronaut", "chelsea", "coffee"):
        image = Image.fromarray(getattr(skimage.data, picture)())
        theirs = processor(image)["pixel_values"]
        ours = classifier.to_inputs(classifier.geometry.picture(image)[None])
        assert float(((ours - theirs) * classifier.std).abs().max()) <= 2 / 255
    with torch.no_grad():
        torch.testing.assert_close(classifier.logits(ours), model(ours).logits, rtol=1e-3, atol=1e-4)


def test_a_folder_of_timm_that_adds_borders_is_refused(transformers: Any, tmp_path: Path) -> None:
    save_timm(transformers, tmp_path, crop_mode="border")
    assert "resizes in a way that is not supported (bicubic, crop mode border)" in refused(f"hf:{tmp_path}")


REFUSED_PROCESSORS = {
    "prepares images in a way that size, crop, mean and std do not describe": (
        "ViTImageProcessorPil",
        {**SQUARE, "do_pad": True, "pad_size": {"height": 40, "width": 40}},
    ),
    "PerceiverImageProcessor resizes in a way that is not supported": ("PerceiverImageProcessorPil", {}),
    "Siglip2ImageProcessor resizes in a way that is not supported": ("Siglip2ImageProcessorPil", {}),
    "BitImageProcessor resizes in a way that is not supported": (
        "BitImageProcessorPil",
        {"size": {"shortest_edge": 40, "longest_edge": 60}, "crop_size": {"height": 32, "width": 32}},
    ),
    "crops stretched images of 40×48, which is not supported": (
        "BitImageProcessorPil",
        {"size": {"height": 40, "width": 48}, "crop_size": {"height": 32, "width": 32}},
    ),
    "its processor fails on a colour picture": (
        "ImageGPTImageProcessorPil",
        {"clusters": [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], **SQUARE},
    ),
}


@pytest.mark.parametrize("sentence", REFUSED_PROCESSORS)
def test_processors_that_are_refused(transformers: Any, tmp_path: Path, sentence: str) -> None:
    kind, settings = REFUSED_PROCESSORS[sentence]
    save(transformers, tmp_path, "resnet", processor=getattr(transformers, kind)(**settings))
    assert sentence in refused(f"hf:{tmp_path}")


def test_attention_of_a_pooling_head_is_refused_by_name(transformers: Any, tmp_path: Path) -> None:
    vision = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIZE, "patch_size": 8}
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.SiglipConfig(vision_config={**vision, "intermediate_size": 32}, text_config=text, num_labels=4)
    transformers.SiglipForImageClassification(config).save_pretrained(tmp_path)
    transformers.SiglipImageProcessorPil(**SQUARE).save_pretrained(tmp_path)
    classifier = load_classifier(f"hf:{tmp_path}")
    with pytest.raises(SnellenError, match="attends between other tokens at vision_model"):
        METHODS.build("attention-rollout")(classifier, INPUTS, TARGETS, rng=RNG)


def test_a_processor_that_pads_is_refused(transformers: Any, tmp_path: Path) -> None:
    large = transformers.BitImageProcessorPil(size={"shortest_edge": 24}, crop_size={"height": 32, "width": 32})
    save(transformers, tmp_path, "resnet", processor=large)
    assert "pads images of 24×24 to 32×32" in refused(f"hf:{tmp_path}")


def test_a_processor_without_a_crop_gives_a_note(transformers: Any, tmp_path: Path) -> None:
    save(
        transformers,
        tmp_path,
        "resnet",
        processor=transformers.BitImageProcessorPil(size={"shortest_edge": 32}, do_center_crop=False),
    )
    classifier = load_classifier(f"hf:{tmp_path}")
    assert classifier.geometry.size == (32, 32)
    assert classifier.notes == (f"'hf:{tmp_path}' keeps the proportions of its images; here they are cropped to a square",)


def test_several_labels_are_independent(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "resnet", problem_type="multi_label_classification")
    classifier = load_classifier(f"hf:{tmp_path}")
    assert classifier.head.text.startswith("independent-labels")
    torch.testing.assert_close(classifier.probabilities(INPUTS), classifier.logits(INPUTS).sigmoid())
    assert load_classifier(f"hf:{tmp_path}", heads="exclusive-classes").head.text.startswith("exclusive-classes")


def one_output(**settings: Any) -> dict[str, Any]:
    return {"id2label": {0: "age"}, "label2id": {"age": 0}, **settings}


def test_one_output_is_a_number(transformers: Any, tmp_path: Path) -> None:
    spec = f"hf:{tmp_path}"
    save(transformers, tmp_path, "resnet", **one_output(problem_type="regression"))
    classifier = load_classifier(spec)
    assert (classifier.head.text, classifier.classes, classifier.notes) == ("number", ("age",), ())
    assert classifier.check(INPUTS) == 1
    save(transformers, tmp_path, "resnet", **one_output())
    classifier = load_classifier(spec)
    assert classifier.head.text == "number"
    assert classifier.notes == (
        f"'{spec}' has one output, read as a number; if it is a yes or no, state heads=single-logit",
    )
    yes_or_no = load_classifier(spec, heads="single-logit")
    assert (yes_or_no.classes, yes_or_no.notes) == (("not age", "age"), ())
    save(transformers, tmp_path, "resnet", **one_output(problem_type="multi_label_classification"))
    assert load_classifier(spec).head.text == "independent-labels"


def test_several_numbers_are_refused(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "resnet", problem_type="regression")
    assert "gives 4 numbers (problem_type regression), but a number is one output" in refused(f"hf:{tmp_path}")
    assert load_classifier(f"hf:{tmp_path}", heads="independent-labels").head.text == "independent-labels"


def test_a_folder_is_read_without_network(transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*arguments: Any) -> None:
        raise AssertionError("a local folder needs no network")

    save(transformers, tmp_path, "resnet")
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    assert load_classifier(f"hf:{tmp_path}").check(INPUTS) == 4


def test_a_name_without_network_is_one_sentence(transformers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*arguments: Any, **settings: Any) -> None:
        raise OSError("We couldn't connect to 'https://huggingface.co' to load the files. Check your internet.")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", unreachable)
    assert refused("hf:owner/name") == (
        "'hf:owner/name' is no folder here and not in the cache of transformers, and the Hub cannot be reached; "
        "give a folder that save_pretrained wrote"
    )


def test_an_exported_model_of_transformers_with_a_fixed_batch(transformers: Any, tmp_path: Path) -> None:
    model = network(transformers, "resnet")
    torch.export.save(torch.export.export(model, (INPUTS,)), tmp_path / "model.pt2")
    classifier = load_classifier(str(tmp_path / "model.pt2"))
    images = torch.rand(5, 3, SIZE, SIZE)
    with torch.no_grad():
        torch.testing.assert_close(classifier.logits(images), model(images).logits, rtol=1e-4, atol=1e-5)


def test_numbered_labels_are_no_names(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "resnet", id2label={0: "LABEL_0", 1: "LABEL_1"}, label2id={"LABEL_0": 0, "LABEL_1": 1})
    assert load_classifier(f"hf:{tmp_path}").classes is None


def test_missing_files_are_one_sentence_each(transformers: Any, tmp_path: Path) -> None:
    spec = f"hf:{tmp_path}"
    assert f"there is no folder '{tmp_path}/gone'" in refused(f"{spec}/gone")
    assert "has no config.json" in refused(spec)
    save(transformers, tmp_path, "resnet")
    (tmp_path / "preprocessor_config.json").rename(tmp_path / "aside.json")
    assert "has no preprocessor_config.json, which says how images are prepared" in refused(spec)
    (tmp_path / "aside.json").rename(tmp_path / "preprocessor_config.json")
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert "has no *.safetensors; pickled weights are code" in refused(spec)


def test_a_model_without_a_trained_head_is_refused(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "vit")
    network(transformers, "vit").vit.save_pretrained(tmp_path)
    assert "has no fitting weights for classifier.bias" in refused(f"hf:{tmp_path}")


def test_weights_that_are_missing_or_of_another_shape_are_refused_by_name(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "vit")
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    kept = weights.pop("vit.layernorm.weight")
    save_file(weights, path, {"format": "pt"})
    assert "has no fitting weights for vit.layernorm.weight" in refused(f"hf:{tmp_path}")
    save_file({**weights, "vit.layernorm.weight": kept, "classifier.bias": torch.zeros(7)}, path, {"format": "pt"})
    assert "has no fitting weights for classifier.bias; give a model" in refused(f"hf:{tmp_path}")


def test_a_model_that_is_no_image_classifier(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "vit")
    transformers.BertConfig().save_pretrained(tmp_path)
    assert refused(f"hf:{tmp_path}") == f"'hf:{tmp_path}' is a model of the type bert, which is no image classifier"


def test_code_in_a_folder_is_never_executed(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "resnet")
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.Mine", "AutoModelForImageClassification": "code.Mine"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    assert "brings code of its own, which is not executed" in refused(f"hf:{tmp_path}")
    assert not (tmp_path / "executed").exists()
    assert named_code({"model": f"hf:{tmp_path}"}) == {}


def test_code_of_a_processor_is_never_executed(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "resnet")
    path = tmp_path / "preprocessor_config.json"
    values = json.loads(path.read_text()) | {"image_processor_type": "Mine", "auto_map": {"AutoImageProcessor": "code.Mine"}}
    path.write_text(json.dumps(values))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    assert "brings code of its own, which is not executed" in refused(f"hf:{tmp_path}")
    assert not (tmp_path / "executed").exists()


def test_the_record_holds_what_is_stated_in_the_folder(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "dinov2")
    record = describe_classifier(load_classifier(f"hf:{tmp_path}"), classes=4, rows=2).as_json()["model"]
    assert record["source"] == "hf"
    assert record["spec"] == f"hf:{tmp_path}"
    assert record["processor"]["crop_size"] == {"height": SIZE, "width": SIZE}
    assert record["versions"] == {"transformers": transformers.__version__}
    assert "model" not in describe_classifier(Classifier(torch.nn.Flatten()), classes=4, rows=2).as_json()


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "resnet")
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert refused(f"hf:{tmp_path}").endswith("needs the extra: pip install 'snellen[hf]'")
