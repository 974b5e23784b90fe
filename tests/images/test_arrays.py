from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from snellen import Geometry, Sample, SnellenError
from snellen.images import as_samples, digest, from_arrays, from_dataset, from_list

BYTES = np.random.default_rng(0).integers(0, 256, (5, 3, 6, 7), dtype=np.uint8)
PIXELS = torch.from_numpy(BYTES).float() / 255


@pytest.mark.parametrize(
    "images",
    [
        BYTES,
        BYTES.transpose(0, 2, 3, 1),
        torch.from_numpy(BYTES),
        PIXELS,
        PIXELS.double(),
        PIXELS.permute(0, 2, 3, 1).numpy(),
    ],
    ids=["bytes", "channels last", "torch bytes", "float", "double", "numpy float, channels last"],
)
def test_every_kind_of_array_gives_the_same_pixels(images: np.ndarray | torch.Tensor) -> None:
    samples = from_arrays(images, labels=np.array([0, 1, 2, 1, 0]))
    torch.testing.assert_close(torch.stack([sample.image for sample in samples]), PIXELS)
    assert [sample.label for sample in samples] == [0, 1, 2, 1, 0]
    assert samples.ids == ("0", "1", "2", "3", "4")


def test_grey_arrays_and_truth() -> None:
    truth = np.zeros((5, 6, 7), dtype=np.uint8)
    truth[1, 2, 3] = 9
    samples = from_arrays(BYTES[:, 0], truth=truth, ids=list("abcde"))
    assert samples[1].image.shape == (1, 6, 7)
    marked = samples[1].truth
    assert marked is not None
    assert torch.nonzero(marked).tolist() == [[2, 3]]
    assert samples[1].id == "b"


def test_a_part_of_arrays_holds_only_its_rows() -> None:
    images = np.zeros((200, 8, 8, 3), dtype=np.uint8)
    images[150] = 255
    samples = from_arrays(images, labels=[0] * 150 + [1] * 50)
    part = pickle.loads(pickle.dumps(samples.take([150, 151])))
    assert len(pickle.dumps(part)) < 3000
    assert part.ids == ("150", "151")
    assert float(part[0].image.mean()) == 1.0
    assert part[1].label == 1
    assert part.digest(0) == samples.digest(150) == digest(part[0])


def test_a_memory_mapped_array_stays_on_disk(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", BYTES)
    samples = from_arrays(np.load(tmp_path / "images.npy", mmap_mode="r"))
    torch.testing.assert_close(samples[4].image, PIXELS[4])


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (
            lambda: from_arrays(PIXELS * 4 - 2),
            "'0' has values from -2 to 1.89, but pixels lie in [0, 1]; leave normalisation",
        ),
        (lambda: from_arrays(PIXELS * float("nan")), "'0' holds NaN or infinite pixels"),
        (lambda: from_arrays(PIXELS.flatten()), "images have the shape 630"),
        (lambda: from_arrays(PIXELS[:0]), "images have the shape 0×3×6×7"),
        (lambda: from_arrays(PIXELS[:, :2]), "images of shape 5×2×6×7 have neither 1 nor 3 channels"),
        (lambda: from_arrays(BYTES.astype(np.int64)), "not int64"),
        (lambda: from_arrays(BYTES, labels=[1, 2]), "there are 5 images, but 2 labels"),
        (lambda: from_arrays(BYTES, ids=["a"]), "there are 5 images, but 1 ids"),
        (lambda: from_arrays(BYTES, ids=list("aabcd")), "the sample id 'a' occurs twice"),
        (lambda: from_arrays(BYTES, labels=[0, 1, 2, 3, -1]), "the label of image 4 is -1"),
        (lambda: from_arrays(BYTES, labels=[0, 1, 2, 3, 0.5]), "the label of image 4 is 0.5"),
        (lambda: from_arrays(BYTES, labels=np.eye(5) * 3), "label 0 of image 0 is '3.0'; a finding is 1 (present)"),
        (lambda: from_arrays(BYTES, truth=np.zeros((5, 6, 6))), "truth has the shape 5×6×6, but the images need 5×6×7"),
        (lambda: as_samples(7), "not from a int"),
        (lambda: as_samples([]), "the list is empty"),
        (lambda: as_samples([1]), "item 0 of the list is a int, not a Sample"),
        (lambda: as_samples("no such folder"), "'no such folder' does not exist"),
    ],
)
def test_each_mistake_gets_a_sentence(call: object, part: str) -> None:
    with pytest.raises(SnellenError) as caught:
        call()  # type: ignore[operator]
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


class Pictures(Dataset):  # type: ignore[type-arg]
    def __init__(self, *items: object) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> object:
        if self.items[index] == "broken":
            raise OSError("disk on fire")
        return self.items[index]


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[object]:
        yield PIXELS[0], 1


def test_a_dataset_of_tensors() -> None:
    samples = from_dataset(TensorDataset(PIXELS, torch.tensor([4, 3, 2, 1, 0])))
    assert torch.equal(samples[2].image, PIXELS[2])
    assert [sample.label for sample in samples] == [4, 3, 2, 1, 0]
    assert samples.describe() == "5 pictures from a TensorDataset"


def test_a_part_of_a_dataset_leaves_the_dataset_behind() -> None:
    samples = from_dataset(TensorDataset(PIXELS.repeat(40, 1, 1, 1), torch.arange(200)))
    part = pickle.loads(pickle.dumps(samples.take([7, 100])))
    assert len(pickle.dumps(part)) < 5000
    assert [sample.label for sample in part] == [7, 100]
    assert part.ids == ("007", "100")
    assert torch.equal(part[0].image, PIXELS[2])
    assert part.digest(1) == samples.digest(100)


def test_a_dataset_of_pil_pictures_goes_through_the_geometry() -> None:
    truth = np.ones((4, 4), dtype=bool)
    dataset = Pictures((Image.new("RGB", (9, 5), (255, 0, 0)), 1, truth), (Image.new("L", (3, 30)), None))
    samples = from_dataset(dataset, geometry=Geometry((4, 4)))
    assert samples[0].image[0].tolist() == [[1.0] * 4] * 4
    marked = samples[0].truth
    assert marked is not None
    assert marked.all()
    assert samples[1].label is None


@pytest.mark.parametrize(
    ("dataset", "part"),
    [
        (Pictures(), "'Pictures' is empty"),
        (Pictures("broken"), "item 0 of the dataset cannot be loaded (disk on fire)"),
        (Pictures((PIXELS[0], 1, None, 2)), "item 0 of the dataset has 4 parts"),
        (Pictures(("text", 1)), "the image of item 0 of the dataset is a str; give a PIL picture or a tensor"),
        (Pictures((PIXELS[0] * 2, 1)), "item 0 of the dataset' has values from"),
        (Pictures((PIXELS[0], "cat")), "the label of item 0 of the dataset is 'cat'"),
        (
            Pictures((PIXELS[0], 1, np.ones((3, 3)))),
            "the truth of item 0 of the dataset does not have the size of its image",
        ),
        (Pictures((PIXELS[0], 1), (PIXELS[0, :, :3], 1)), "'0' is 6×7×3 and '1' is 3×7×3"),
        (Stream(), "'Stream' has no length; give a map-style Dataset"),
    ],
)
def test_each_mistake_of_a_dataset_gets_a_sentence(dataset: Dataset, part: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(SnellenError) as caught:
        from_dataset(dataset)
    assert part in str(caught.value)


def test_as_samples_takes_every_supported_source(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    sample = Sample("one", PIXELS[0], 3)
    samples = from_list([sample])
    geometry = Geometry((4, 4))
    assert as_samples(samples) is samples
    assert as_samples(sample)[0] is sample
    assert as_samples([sample])[0] is sample
    assert as_samples(BYTES).ids == ("0", "1", "2", "3", "4")
    assert as_samples((BYTES, [0, 1, 2, 3, 4]))[3].label == 3
    assert as_samples(Pictures((PIXELS[0], 1)))[0].label == 1
    assert as_samples(tmp_path, geometry=geometry).ids == ("a.png",)
    assert as_samples(str(tmp_path / "a.png"), geometry=geometry)[0].image.shape == (3, 4, 4)
    assert as_samples([tmp_path / "a.png"], geometry=geometry).ids == (str(tmp_path / "a.png"),)
