"""Images with several labels are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor

from snellen.errors import SnellenError
from snellen.images import as_samples, from_arrays
from snellen.images.tables import read_labels
from snellen.types import Sample


def images(count: int = 12) -> Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("file,label\na,0\na,2\nb,1", "line 3: 'a' has several labels (0 and 2)"),
        ("file,label,label\na,0,1\nb,1,1", "has several labels (in the columns label, label)"),
        ("file,label,label2\na,0,1\nb,1,", "has several labels (in the columns label, label2)"),
        ("file,label_1,label_2\na,0,1\nb,1,", "has several labels (in the columns label_1, label_2)"),
        ("file,label\na,0,2\nb,1", "line 2: 'a' has several labels (2)"),
        ("file,label\na,0;2\nb,1", "the picture has several labels (0;2)"),
        ("file,label\na,0 2\nb,1", "the picture has several labels (0 2)"),
        ("file,label\na,cat|dog\nb,1", "the picture has several labels (cat|dog)"),
    ],
)
def test_a_table_with_several_labels_is_refused(tmp_path, text, told):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(SnellenError, match=re.escape(told)) as refusal:
        read_labels(path, ["a", "b"], ["cat", "dog", "tench, Tinca tinca"])
    assert "independent labels are not supported yet" in str(refusal.value)


def test_a_name_with_a_comma_and_a_column_beside_are_no_several_labels(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text('file,label,label_name\na,0,cat\nb,"tench, Tinca tinca",tench\n')
    assert read_labels(path, ["a", "b"], ["cat", "dog", "tench, Tinca tinca"]) == ({"a": 0, "b": 2}, {})


class Items(torch.utils.data.Dataset):
    def __init__(self, label) -> None:
        self.label = label

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int):
        return images(2)[index], self.label


@pytest.mark.parametrize("label", [[0, 2], (1,), torch.tensor([0.0, 1.0, 1.0]), np.array([0, 1]), {0, 1}])
def test_several_labels_in_python_are_refused(label):
    sample = Sample("a", images(1)[0])
    object.__setattr__(sample, "label", label)  # tests check types where users' code does not
    for given in (Items(label), [sample], (images(2), [label, label])):
        with pytest.raises(SnellenError, match=r"has several labels \(.*independent labels are not supported yet"):
            as_samples(given)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_an_array_of_marks_is_refused_and_a_column_is_read(kind):
    marks = kind([[0, 1, 1], [1, 0, 0]])
    with pytest.raises(SnellenError, match=r"an array of 2×3; where each row marks one, give labels.argmax\(1\)"):
        from_arrays(images(2), marks)
    assert [one.label for one in from_arrays(images(2), kind([[4], [7]]))] == [4, 7]
