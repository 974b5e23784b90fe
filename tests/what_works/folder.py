"""The folder in which every command of the table runs: small models, images, labels, maps and plug-ins of a user."""

from __future__ import annotations

import io
import shutil
import tarfile
import warnings
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import tifffile
import torch
from PIL import Image
from safetensors.numpy import load_file, save_file
from tests.images import dicom_files
from tests.torchvision_kernels import import_torchvision

SIDE = 32
FINDINGS = [f"finding{number}" for number in range(14)]

_MODELS = """
import torch
from torch import nn


def _network(outputs, channels=3, *last):
    torch.manual_seed(0)
    layers = [nn.Conv2d(channels, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, outputs), *last).eval()


def five():
    return _network(5)


def five_probabilities():
    return _network(5, 3, nn.Softmax(1))


def fourteen():
    return _network(14)


def fourteen_probabilities():
    return _network(14, 3, nn.Sigmoid())


def one():
    return _network(1)


def one_probability():
    return _network(1, 3, nn.Sigmoid())


def four_channels():
    return _network(5, 4)


def grey():
    return _network(5, 1)


def black_box():
    network = five()
    return lambda images: network(images).detach()


def no_model():
    return "weights.pt"


def second_minus_first(logits):
    return logits[:, 1] - logits[:, 0]


def winner(logits):
    return logits.argmax(dim=1).float()


def out_of_range(logits):
    return logits[:, 9]
"""

_PLUGINS = """
def bright(classifier, inputs, targets, power: float = 1.0):
    return inputs.mean(dim=1) ** power


def channels(classifier, inputs, targets):
    return inputs


def divides(classifier, inputs, targets):
    return inputs.mean(dim=1) / (1 // 0)


def ends(classifier, inputs, targets):
    raise SystemExit(3)


def two(classifier, inputs):
    return inputs.mean(dim=1)


def spread(case):
    return case.maps.flatten(1).std(dim=1)


def average(case):
    return case.maps.mean()


def no_number(case):
    return case.mapz.mean()


class Scaled:
    def __init__(self, factor: int = 2):
        self.factor = factor

    def __call__(self, classifier, inputs, targets):
        return self.factor * inputs.mean(dim=1)
"""


def write_folder(folder: Path) -> Path:
    """Writes everything that the commands name."""
    (folder / "models.py").write_text(_MODELS, encoding="utf-8")
    for where in (folder, folder / "my code", folder / "code, (1)"):
        where.mkdir(exist_ok=True)
        (where / "mine.py").write_text(f"{_PLUGINS}# {where.name}\n", encoding="utf-8")
    (folder / "raises.py").write_text("import torch\n\ntorch.absent()\n", encoding="utf-8")
    generator = np.random.default_rng(0)
    pictures = folder / "pictures"
    pictures.mkdir()
    for number in range(3):
        small = generator.integers(0, 255, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(pictures / f"p{number}.png")
    _write_tables(folder)
    _write_models(folder)
    _write_images(folder)
    _write_maps(folder)
    return folder


def _write_maps(folder: Path) -> None:
    maps = {
        f"p{number}": values for number, values in enumerate(np.random.default_rng(2).random((3, SIDE, SIDE), np.float32))
    }
    np.savez(folder / "maps.npz", **maps)
    save_file(maps, folder / "maps.safetensors")
    folders: dict[str, dict[str, np.ndarray]] = {
        "maps": maps,
        "maps_missing": {name: maps[name] for name in ("p0", "p1")},
        "maps_extra": {**maps, "p3": maps["p0"]},
        "maps_small": {**maps, "p1": maps["p1"][:16]},
        "maps_nan": {**maps, "p1": maps["p1"] * np.nan},
        "maps_findings": {f"{name}@{finding}": values for name, values in maps.items() for finding in FINDINGS},
        "maps_twice": {**maps, "p1.png": maps["p1"]},
    }
    for where, values in folders.items():
        (folder / where).mkdir()
        for name, value in values.items():
            np.save(folder / where / f"{name}.npy", value)
    for where, regions in {"masks": (1, 2, 3), "masks_missing": (1, 2), "masks_empty": (1, 0, 3)}.items():
        (folder / where).mkdir()
        for number, side in enumerate(regions):
            mask = np.zeros((SIDE, SIDE), np.uint8)
            mask[8 : 8 + 4 * side, 8 : 8 + 4 * side] = 255
            Image.fromarray(mask).save(folder / where / f"p{number}.png")
    (folder / "maps_png").mkdir()
    for name, value in maps.items():
        Image.fromarray((value * 255).astype(np.uint8)).save(folder / "maps_png" / f"{name}.png")


def _write_models(folder: Path) -> None:
    """Folders of transformers with a network of random weights; ONNX, TorchScript and weight files."""
    import_torchvision()  # before transformers, which imports it
    import transformers

    for name, settings in {
        "vit": {"num_labels": 5},
        "findings": {"num_labels": 14, "problem_type": "multi_label_classification"},
        "bare": {"num_labels": 5},
    }.items():
        shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        torch.manual_seed(0)
        config = transformers.ViTConfig(**shape, image_size=SIDE, patch_size=8, **settings)
        transformers.ViTForImageClassification(config).save_pretrained(folder / name)
        if name != "bare":
            transformers.ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}).save_pretrained(folder / name)
    shutil.copytree(folder / "vit", folder / "other_head")
    weights = load_file(folder / "vit" / "model.safetensors")
    other = {**weights, "classifier.weight": np.zeros((7, 16), np.float32), "classifier.bias": np.zeros(7, np.float32)}
    save_file(other, folder / "other_head" / "model.safetensors", {"format": "pt"})
    names: dict[str, Any] = {}
    exec(_MODELS, names)
    network, images = names["five"](), torch.rand(1, 3, SIDE, SIDE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"dynamo": False, "input_names": ["image"]}
        torch.onnx.export(network, (images,), str(folder / "single.onnx"), **options)
        torch.onnx.export(network, (images,), str(folder / "five.onnx"), dynamic_axes={"image": {0: "rows"}}, **options)
        torch.jit.trace(network, images).save(str(folder / "five.pt"))
    torch.save(network.state_dict(), folder / "weights.pt")


def _write_images(folder: Path) -> None:
    values = (np.random.default_rng(1).random((3, SIDE, SIDE)) * 4095).astype(np.uint16)
    archive = tarfile.open(folder / "shards.tar", "w")  # noqa: SIM115
    for name in ("grey", "deep", "four", "pages", "negative", "broken"):
        (folder / name).mkdir()
    for number, plane in enumerate(values):
        stem = f"p{number}"
        Image.fromarray((plane / 16).astype(np.uint8)).save(folder / "grey" / f"{stem}.png")
        Image.fromarray(plane).save(folder / "deep" / f"{stem}.png")
        four = np.stack([(plane / 16).astype(np.uint8)] * 4)
        tifffile.imwrite(folder / "negative" / f"{stem}.tif", plane * 16, photometric="miniswhite")
        tifffile.imwrite(folder / "pages" / f"{stem}.tif", four, photometric="minisblack")
        tifffile.imwrite(
            folder / "four" / f"{stem}.tif", four.transpose(1, 2, 0), photometric="minisblack", planarconfig="contig"
        )
        dicom_files.write(folder / "dicom" / f"{stem}.dcm", plane, WindowCenter=2000, WindowWidth=4000)
        dicom_files.write(folder / "frames" / f"{stem}.dcm", values)
        file = folder / "pictures" / f"{stem}.png"
        archive.add(file, arcname=file.name)
        archive.addfile(_member(f"{stem}.cls", b"1"), io.BytesIO(b"1"))
    archive.close()
    dicom_files.write(folder / "pixelless" / "p0.dcm", values[0], PixelData=None)
    (folder / "broken" / "p0.png").write_bytes(b"no image")
    pictures = [str(path) for path in sorted((folder / "pictures").iterdir())]  # the data set reads the files itself
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list("abcde"))})
    data = datasets.Dataset.from_dict({"image": pictures, "label": [0, 1, 2]}, features=features)
    data.save_to_disk(str(folder / "data_set"))


def _member(name: str, content: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member


def _write_tables(folder: Path) -> None:
    (folder / "findings.txt").write_text("\n".join(FINDINGS) + "\n", encoding="utf-8")
    marks = {0: ["1", "0", "", "-1", *["0"] * 10], 1: ["1", "1", *["0"] * 12], 2: ["0"] * 13 + ["1"]}
    columns = ["file," + ",".join(FINDINGS), *(f"p{number}.png," + ",".join(row) for number, row in marks.items())]
    tables = {
        "findings.csv": columns,
        "rows.csv": ["file,label", "p0.png,finding0", "p1.png,finding0", "p1.png,finding1", "p2.png,finding13"],
        "classes.csv": ["file,label", "p0.png,0", "p1.png,1", "p2.png,4"],
        "beyond.csv": ["file,label", "p0.png,0", "p1.png,7", "p2.png,4"],
        "short.csv": ["file,label", "p0.png,0"],
        "two.csv": ["file,mark", "p0.png,0", "p1.png,1", "p2.png,1"],
        "marks.csv": [columns[0], *(line[:-1] + "2" for line in columns[1:])],
        "twice.csv": [f"{columns[0]},Finding0", *(f"{line},1" for line in columns[1:])],
        "words.csv": ["file,label", "p0.png,ill", "p1.png,well", "p2.png,ill"],
        "marked.csv": ["file,label", "p0.png,0", "p1.png,1", "p2.png,"],
        "answers.txt": ["well", "ill"],
        "ages.csv": ["file,age", "p0.png,63", "p1.png,41.5", "p2.png,70"],
    }
    for name, lines in tables.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
