"""Samples from torch loaders, Hugging Face data sets and WebDataset shards."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import tracemalloc

import datasets
import numpy as np
import pytest
import torch
from PIL import Image
from tests.images.dicom_files import write
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler, TensorDataset

from snellen import SnellenError
from snellen.images import Reading, as_samples, from_path
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.shards import shard_paths
from snellen.types import Findings

GENERATOR = np.random.default_rng(0)
PICTURES = [GENERATOR.integers(0, 256, (8, 8, 3), dtype=np.uint8) for _ in range(5)]
LABELS = [0, 1, 2, 1, 0]


def encoded(picture: np.ndarray, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format=kind)
    return buffer.getvalue()


def check(samples, labels=LABELS) -> None:
    """That these are the pictures above, in order, also after pickling a part."""
    assert [sample.label for sample in samples] == labels
    for sample, picture in zip(samples, PICTURES, strict=True):
        np.testing.assert_allclose(sample.image.permute(1, 2, 0).numpy(), picture / 255, atol=1e-6)
    part = pickle.loads(pickle.dumps(samples.take([3, 1])))
    assert [sample.label for sample in part] == [labels[3], labels[1]]
    assert torch.equal(part[0].image, samples[3].image)


# Loaders -------------------------------------------------------------------------------------------------------------------


def tensors() -> TensorDataset:
    images = torch.from_numpy(np.stack(PICTURES)).permute(0, 3, 1, 2).float() / 255
    return TensorDataset(images, torch.tensor(LABELS))


def first_as_list(batch):
    return [image for image, _ in batch], [label for _, label in batch]


def test_a_loader_gives_the_samples_of_its_data_set():
    check(as_samples(DataLoader(tensors(), batch_size=2)))
    shuffled = as_samples(DataLoader(tensors(), batch_size=2, sampler=SubsetRandomSampler([1, 2])))
    check(shuffled)
    assert shuffled.notes == (
        "the whole data set of the DataLoader is used, in its own order, without the loader's sampler",
    )
    assert shuffled.description == "a DataLoader of TensorDataset"


def test_a_loader_with_its_own_collate_function():
    check(as_samples(DataLoader(tensors(), batch_size=2, collate_fn=first_as_list)))
    inverted = as_samples(DataLoader(tensors(), collate_fn=lambda batch: 1 - torch.stack([image for image, _ in batch])))
    np.testing.assert_allclose(inverted[0].image.permute(1, 2, 0).numpy(), 1 - PICTURES[0] / 255, atol=1e-6)


class Listed(torch.utils.data.Dataset):
    def __init__(self, items: list) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int):
        return self.items[index], 0


class Stream(IterableDataset):
    def __init__(self, stated: int | None) -> None:
        self.stated = stated

    def __iter__(self):
        return iter(zip(PICTURES, LABELS, strict=True))

    def __len__(self) -> int:
        if self.stated is None:
            raise TypeError
        return self.stated


def test_a_loader_of_a_stream_needs_a_right_length():
    check(as_samples(DataLoader(Stream(5), batch_size=None, collate_fn=torch.utils.data.default_collate)))
    for stated, words in (
        (None, "which is iterable and has no length; give a map-style Dataset, or arrays"),
        (4, "'Stream' states 4 items, but yields more; correct its __len__"),
        (6, "'Stream' states 6 items, but yields only 5; correct its __len__"),
    ):
        with pytest.raises(SnellenError, match=words):
            as_samples(DataLoader(Stream(stated), batch_size=None, collate_fn=torch.utils.data.default_collate))


class Noisy(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int):
        return torch.rand(3, 4, 4), 0


def test_random_transforms_are_refused():
    with pytest.raises(SnellenError, match="item 0 of 'Noisy' is different each time it is loaded; leave out random"):
        as_samples(Noisy())


def test_deep_pil_images_of_a_data_set_are_scaled_not_clipped():
    deep = Image.fromarray(np.array([[0, 32768], [65535, 256]], dtype=np.uint16))
    sample = as_samples(torch.utils.data.Subset([(deep, 0)], [0]))[0]
    np.testing.assert_allclose(sample.image[0].numpy(), np.array([[0, 32768], [65535, 256]]) / 65535, atol=1e-6)


# Hugging Face --------------------------------------------------------------------------------------------------------------


def hugging_face(names=("cat", "dog", "owl"), **columns) -> datasets.Dataset:
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(names))}
    rows = {"image": [{"bytes": encoded(picture), "path": None} for picture in PICTURES], "label": LABELS}
    return datasets.Dataset.from_dict(rows | columns, features=datasets.Features(features | {key: datasets.Value("string") for key in columns}))  # fmt: skip  # noqa: E501


def test_a_data_set_and_its_folder_give_the_same_samples(tmp_path):
    data = hugging_face(owner=["somebody"] * 5)
    check(as_samples(data))
    data.save_to_disk(tmp_path / "saved")
    from_disk = as_samples(tmp_path / "saved", classes=["cat", "dog", "owl"])
    check(from_disk)
    assert from_disk.digests == as_samples(data).digests
    assert from_disk.description == f"'{tmp_path / 'saved'}'"


def test_labels_are_matched_by_name():
    data = hugging_face()
    assert [sample.label for sample in as_samples(data, classes=["Owl", "dog", "cat", "fox"])] == [2, 1, 0, 1, 2]
    in_order = as_samples(data, classes=["a", "b", "c"])
    assert [sample.label for sample in in_order] == LABELS
    assert in_order.notes == ("labels of the dataset are taken as classes in their order: cat = 0 and so on",)
    with pytest.raises(SnellenError, match="the label 'cat' of the dataset is no class of this classifier"):
        as_samples(data, classes=["a", "b"])


def test_several_labels_and_missing_ones():
    features = datasets.Features({"image": datasets.Image(), "labels": datasets.List(datasets.Value("int64"))})
    rows = {"image": [{"bytes": encoded(PICTURES[0]), "path": None}] * 2, "labels": [[0, 3], []]}
    samples = as_samples(datasets.Dataset.from_dict(rows, features=features))
    assert [sample.label for sample in samples] == [Findings((0, 3)), Findings(())]
    unlabelled = hugging_face().select(range(2)).remove_columns("label").add_column("label", [-1, 2])
    assert [sample.label for sample in as_samples(unlabelled)] == [None, 2]


def test_data_sets_that_cannot_be_used_are_one_sentence(tmp_path):
    data = hugging_face()
    datasets.DatasetDict({"train": data, "test": data}).save_to_disk(tmp_path / "splits")
    (tmp_path / "damaged").mkdir()
    for name in ("dataset_info.json", "state.json"):
        (tmp_path / "damaged" / name).write_text("{}")
    data.save_to_disk(tmp_path / "saved")
    for source, options, words in (
        (tmp_path / "splits", {}, f"holds the splits test, train; give one of them, such as '{tmp_path}/splits/test'"),
        (tmp_path / "damaged", {}, "cannot be read as a Hugging Face data set"),
        (data.remove_columns("image"), {}, r"has no image column \(label\)"),
        (data.to_iterable_dataset(), {}, "is a IterableDataset, which is read as a stream; give a datasets.Dataset"),
        (data, {"channels": 5}, "holds pictures of 1 or 3 channels, but the classifier takes 5; give arrays"),
        (tmp_path / "saved", {"reading": Reading(window=(1, 2))}, "--window is for DICOM files, but "),
    ):
        with pytest.raises(SnellenError, match=words):
            as_samples(source, **options)
    with pytest.raises(SnellenError, match=r"which brings its own labels; leave out --labels 'x\.csv'"):
        from_path(tmp_path / "saved", geometry=AS_IS, labels="x.csv")


def test_a_damaged_picture_of_a_data_set_is_named():
    features = datasets.Features({"image": datasets.Image()})
    rows = {"image": [{"bytes": encoded(PICTURES[0]), "path": None}, {"bytes": b"no picture", "path": None}]}
    with pytest.raises(SnellenError, match="'item 1' is not a picture that can be read"):
        as_samples(datasets.Dataset.from_dict(rows, features=features))


# Shards --------------------------------------------------------------------------------------------------------------------


def write_shard(path, members: dict[str, bytes]):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def shards(tmp_path):
    members = [
        {f"{place:03d}.png": encoded(picture), f"{place:03d}.cls": str(label).encode()}
        for place, (picture, label) in enumerate(zip(PICTURES, LABELS, strict=True))
    ]
    write_shard(tmp_path / "s" / "train-000.tar", members[0] | members[1])
    write_shard(tmp_path / "s" / "train-001.tar", members[2] | members[3] | members[4])
    return tmp_path / "s"


def test_shards_by_folder_and_by_pattern(shards):
    for path in (shards, str(shards / "train-{000..001}.tar")):
        samples = as_samples(path)
        check(samples)
        assert samples.ids == ("000", "001", "002", "003", "004")
    assert [sample.label for sample in as_samples(shards / "train-000.tar")] == [0, 1]


def test_labels_in_json_and_by_name(tmp_path):
    picture = encoded(PICTURES[0])
    members = {
        "a.png": picture, "a.json": json.dumps({"label": "Owl"}).encode(),
        "b.png": picture, "b.json": json.dumps({"label": [0, 2]}).encode(),
        "c.png": picture, "c.cls": b"dog\n",
        "d.png": picture, "d.txt": b"a caption", "d.seg.png": picture,
    }  # fmt: skip
    samples = as_samples(write_shard(tmp_path / "x.tar", members), classes=["cat", "dog", "owl"])
    assert [sample.label for sample in samples] == [2, Findings((0, 2)), 1, None]


def test_shards_hold_arrays_and_dicom_files_too(tmp_path):
    values = np.array([[0, 1000], [2000, 4095]], dtype=np.uint16)
    medical = write(tmp_path / "x.dcm", values, WindowCenter=0, WindowWidth=2).read_bytes()
    reading = Reading(window=(2048, 4096))
    sample = as_samples(write_shard(tmp_path / "m.tar", {"x.dcm": medical}), reading=reading, channels=1)[0]
    np.testing.assert_allclose(sample.image[0].numpy(), values / 4095, atol=1e-6)
    buffer = io.BytesIO()
    np.save(buffer, np.stack([values] * 5))
    many = write_shard(tmp_path / "n.tar", {"x.npy": buffer.getvalue(), "x.cls": b"3"})
    sample = as_samples(many, reading=Reading(range=(0, 4095)), channels=5)[0]
    np.testing.assert_allclose(sample.image.numpy(), np.stack([values] * 5) / 4095, atol=1e-6)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"a.txt": b"x"}, "holds no pictures; members of a shard are called key.jpg, key.cls and the like"),
        ({"a.png": b"x"}, "a.png' is not a picture that can be read"),
        ({"a.png": encoded(PICTURES[0]), "a.jpg": b"x"}, r"has several pictures \(png, jpg\); keep one"),
        ({"a.png": encoded(PICTURES[0]), "a.cls": b"bird"}, "the label of 'a' in .* is 'bird', which is no class"),
        ({"a.png": encoded(PICTURES[0]), "a.json": b"{"}, "the JSON of 'a' in .* cannot be read"),
        ({"a.png": encoded(PICTURES[0]), "a.cls": b"\xff"}, "'a.cls' of 'a' in .* is not a text file"),
    ],
)
def test_shards_that_cannot_be_used_are_one_sentence(tmp_path, members, words):
    with pytest.raises(SnellenError, match=words):
        as_samples(write_shard(tmp_path / "x.tar", members), classes=["cat", "dog"])


def test_broken_and_missing_shards(tmp_path, shards):
    (tmp_path / "x.tar").write_bytes(b"no archive" * 100)
    for path, words in (
        (tmp_path / "x.tar", "cannot be read as an uncompressed tar file; unpack or repair it"),
        (tmp_path / "none.tar", "there is no file '"),
        (str(shards / "train-{001..000}.tar"), "must count upwards and name at most 100000 files"),
        (str(shards / "train-{000..003}.tar"), "there is no file '.*train-002.tar'"),
    ):
        with pytest.raises(SnellenError, match=words):
            as_samples(path)
    write_shard(shards / "train-002.tar", {"000.png": encoded(PICTURES[0])})
    with pytest.raises(SnellenError, match=r"'000' is in '.*train-000\.tar' and in '.*train-002\.tar'"):
        as_samples(shards)


def test_options_that_no_member_of_a_shard_would_use_are_refused(shards, tmp_path):
    with pytest.raises(SnellenError, match="--window is for DICOM files, but there are none, such as '000'; leave it out"):
        as_samples(shards, reading=Reading(window=(40, 400)))
    with pytest.raises(SnellenError, match="--range is for pictures with more than 8 bits per channel, but '000' has 8"):
        as_samples(shards, reading=Reading(range=(0, 4095)))


def test_notes_about_members_of_a_shard_are_those_about_files(tmp_path):
    medical = write(tmp_path / "x.dcm", np.array([[0, 1], [2, 4095]], dtype=np.uint16), BitsStored=12, HighBit=11)
    samples = as_samples(write_shard(tmp_path / "m.tar", {"x.dcm": medical.read_bytes()}), channels=1)
    (note,) = samples.notes
    assert note.startswith("'x' has no window, so black to white are all values that the file can hold, 0 to 4095")
    dark = encoded(np.arange(4096, dtype=np.uint16).reshape(64, 64))
    (note,) = as_samples(write_shard(tmp_path / "d.tar", {"x.png": dark}), channels=1).notes
    assert note.startswith("'x' uses only the darkest 1/16 of the 16-bit range")


def test_a_window_for_a_hugging_face_data_set_is_refused():
    data = datasets.Dataset.from_dict({"image": [Image.fromarray(picture) for picture in PICTURES]})
    with pytest.raises(SnellenError, match="--window is for DICOM files, but the dataset is a Hugging Face data set"):
        as_samples(data, reading=Reading(window=(40, 400)))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_parts_are_white_in_every_source(tmp_path, mode):
    values = GENERATOR.integers(0, 256, (8, 8, 4), dtype=np.uint8)
    values[0, 0, 3] = 0
    image = Image.fromarray(values).convert(mode if mode != "P" else "RGB")
    if mode == "P":
        image = image.quantize(8)
        image.info["transparency"] = 2
    image.save(tmp_path / "x.png")
    from_file = as_samples([tmp_path / "x.png"])[0].image
    from_items = as_samples(Listed([image]))[0].image
    assert torch.equal(from_items, from_file)
    assert float(from_file.max()) == 1


def test_links_in_a_shard_are_not_followed(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        link = tarfile.TarInfo("a.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(SnellenError, match="holds no pictures"):
        as_samples(tmp_path / "x.tar")
    assert shard_paths(tmp_path / "x.png") == []


# Memory --------------------------------------------------------------------------------------------------------------------


def peak(source, count: int) -> int:
    """The most memory while all samples are checked and then loaded one by one."""
    tracemalloc.start()
    samples = as_samples(source, geometry=Geometry((8, 8), crop=1.0))
    assert len(samples) == count
    for place in range(len(samples)):
        samples.take([place])[0]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("kind", ["shards", "hugging-face", "loader"])
def test_memory_does_not_grow_with_the_number_of_pictures(tmp_path, kind):
    picture = GENERATOR.integers(0, 256, (200, 200, 3), dtype=np.uint8)
    data = encoded(picture, "BMP")  # 120 kB each

    class Made(torch.utils.data.Dataset):
        def __init__(self, count: int) -> None:
            self.count = count

        def __len__(self) -> int:
            return self.count

        def __getitem__(self, index: int):
            return Image.fromarray(picture), 0

    def source(count: int):
        if kind == "loader":
            return DataLoader(Made(count), batch_size=4)
        if kind == "shards":
            return write_shard(tmp_path / f"{count}.tar", {f"{place}.bmp": data for place in range(count)})
        features = datasets.Features({"image": datasets.Image()})
        rows = {"image": [{"bytes": data, "path": None}] * count}
        datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / f"{count}")
        return tmp_path / f"{count}"

    few, many = source(4), source(64)
    peak(few, 4)  # imports
    assert peak(many, 64) < peak(few, 4) + 20 * len(data)
