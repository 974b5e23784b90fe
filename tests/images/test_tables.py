"""Tables of labels: one class per image, several labels per image, or a column per finding."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor

from snellen.errors import SnellenError
from snellen.images import as_samples, from_arrays
from snellen.images.tables import read_labels
from snellen.types import Findings, Sample

CLASSES = ["cat", "dog", "tench, Tinca tinca"]


def images(count: int = 12) -> Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def read(folder, text: str, classes=CLASSES):
    path = folder / "labels.csv"
    path.write_text(text)
    return read_labels(path, ["a", "b"], classes)


@pytest.mark.parametrize(
    "text",
    [
        "file,label\na,0\na,2\nb,1",
        "file,label,label2\na,0,2\nb,1,",
        "file,label_1,label_2\na,0,2\nb,1,",
        "file,label\na,0;2\nb,1",
        'file,label\na,"0,2"\nb,1',
        "file,label\na,cat|2\nb,dog",
        "file,label\na,0\na,\na,2\nb,1",
    ],
)
def test_several_labels_of_an_image_are_findings(tmp_path, text):
    assert read(tmp_path, text) == ({"a": Findings((0, 2)), "b": 1}, {})


def test_a_column_per_finding_has_one_zero_empty_and_minus_one(tmp_path):
    """The shape of CheXpert's tables: 1 present, 0 absent, empty or -1 unknown; columns that are no class do not count."""
    text = "file,Sex,Dog,CAT,group\na,F,1.0,0.0,p1\nb,M,-1.0,,p1"
    labels, groups = read(tmp_path, text)
    assert labels == {"a": Findings((1,), (0,)), "b": Findings((), ())}
    assert groups == {"a": "p1", "b": "p1"}


def test_columns_that_are_no_class_and_classes_without_a_column_are_noted(tmp_path):
    path, notes = tmp_path / "labels.csv", []
    path.write_text("file,Sex,cat,dogg\na,F,1,1\nb,M,0,0")
    read_labels(path, ["a", "b"], CLASSES, notes)
    assert notes == [
        f"'{path}' has no column for 'dog', 'tench, Tinca tinca': unknown for every image",
        f"'{path}' has columns that are no classes and are not read: 'Sex', 'dogg'",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file,cat,dog\na,2,0\nb,1,0", "line 2: cat is '2'; a finding is 1 (present), 0 (absent), or empty or -1 (unknown)"),
        ("file,cat,dog\na,yes,0\nb,1,0", "line 2: cat is 'yes'; a finding is"),
        ("file,cat,dog\na,1,0\na,0,0\nb,1,0", "'a' has two rows with different findings; keep one"),
        ("file,label\na,0,2\nb,1", "line 2: 'a' has more cells (2) than there are columns"),
        ("file,label\na,0 2\nb,1", "the label '0 2' is no class of this classifier"),
        ("file,cat,Cat\na,1,0\nb,1,0", "has two columns of the class 'cat'; keep one"),
        ("file,bird\na,1\nb,0", "needs the columns file, label in its first line, but 'label' is missing"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(SnellenError, match=re.escape(sentence)):
        read(tmp_path, text)


def test_a_name_that_two_classes_share_is_refused_where_it_is_used(tmp_path):
    classes = ("crane", "cat", "Crane")
    (tmp_path / "labels.csv").write_text("file,label\na,cat\nb,2\n")
    assert read_labels(tmp_path / "labels.csv", ("a", "b"), classes)[0] == {"a": 1, "b": 2}
    (tmp_path / "labels.csv").write_text("file,label\na,cat\nb,crane\n")
    with pytest.raises(SnellenError, match="'crane' is the name of the classes 0 and 2; write the number of the class"):
        read_labels(tmp_path / "labels.csv", ("a", "b"), classes)


def test_a_name_with_a_comma_and_a_column_beside_are_no_several_labels(tmp_path):
    text = 'file,label,label_name\na,0,cat\nb,"tench, Tinca tinca",tench\n'
    assert read(tmp_path, text) == ({"a": 0, "b": 2}, {})


class Items(torch.utils.data.Dataset):
    def __init__(self, label) -> None:
        self.label = label

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int):
        return images(2)[index], self.label


@pytest.mark.parametrize(
    ("label", "findings"),
    [
        ([0, 2], Findings((0, 2))),
        ((1,), Findings((1,))),
        ({2, 1}, Findings((1, 2))),
        (torch.tensor([0.0, 1.0, 1.0]), Findings((1, 2), (0,))),
        (np.array([0, 1, -1]), Findings((1,), (0,))),
        (np.array([np.nan, 1.0]), Findings((1,))),
    ],
)
def test_several_labels_in_python(label, findings):
    """A list of Python's holds indices; an array holds a mark per label."""
    assert [sample.label for sample in as_samples(Items(label))] == [findings] * 2
    assert [sample.label for sample in as_samples((images(2), [label, label]))] == [findings] * 2


def test_labels_that_are_no_indices_are_refused():
    for label in ([0, "cat"], [0, -1], [0.5]):
        with pytest.raises(SnellenError, match="label"):
            as_samples((images(2), [label, label]))
    with pytest.raises(SnellenError, match="a finding is 1"):
        from_arrays(images(2), np.array([[0, 1], [0, 7]]))


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_an_array_of_marks_has_a_row_per_image_and_a_column_is_read(kind):
    marked = from_arrays(images(2), kind([[0, 1, 1], [1, 0, 0]]))
    assert [sample.label for sample in marked] == [Findings((1, 2), (0,)), Findings((0,), (1, 2))]
    assert [sample.label for sample in from_arrays(images(2), kind([[4], [7]]))] == [4, 7]


def test_findings_and_regions_of_labels_change_the_checksum():
    plain = Sample("a", images(1)[0], label=Findings((1,)))
    region = torch.zeros(32, 32, dtype=torch.bool)
    others = [
        Sample("a", plain.image, label=Findings((1,), (0,))),
        Sample("a", plain.image, label=Findings((1,)), truths={1: region}),
        Sample("a", plain.image, label=Findings((1,)), truths={1: ~region}),
    ]
    digests = [as_samples([sample]).digests[0] for sample in (plain, *others)]
    assert len(set(digests)) == 4
