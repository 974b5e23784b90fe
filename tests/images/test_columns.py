"""Ids and checksums in arrays behave as the tuples that they replace."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from snellen.errors import SnellenError
from snellen.images.columns import Digests, Names, text_array

TEXTS = ("b.png", "ä.png", "c.png", "", "b.png")


def test_names_are_a_sequence_of_texts():
    names = Names(TEXTS)
    assert tuple(names) == TEXTS
    assert names == TEXTS
    assert names == list(TEXTS)
    assert names != TEXTS[:4]
    assert names != "b.png"
    assert (names[1], names[-1], len(names)) == ("ä.png", "b.png", 5)
    assert names[1:3] == TEXTS[1:3]
    assert names[::-1] == TEXTS[::-1]
    assert names.take(np.array([2, 0])) == ("c.png", "b.png")
    assert "c.png" in names
    assert names.index("c.png") == 2
    for index in (5, -6):
        with pytest.raises(IndexError):
            names[index]


def test_a_part_of_names_is_pickled_without_the_others():
    names = Names([f"{number:030d}" for number in range(10_000)])
    assert pickle.loads(pickle.dumps(names[5:8])) == names[5:8]
    assert len(pickle.dumps(names[5:8])) < 2000


def test_the_first_name_that_occurs_twice_is_found():
    assert Names(TEXTS).duplicate() == "b.png"
    assert Names(TEXTS[1:]).duplicate() is None
    assert Names([]).duplicate() is None


def test_digests_are_a_sequence_of_hexadecimal_digits():
    texts = tuple(f"{number:064x}" for number in (1, 2**255, 7))
    digests = Digests(texts)
    assert tuple(digests) == texts
    assert digests == texts
    assert digests[1:] == texts[1:]
    assert digests.take([2, 0]) == (texts[2], texts[0])
    assert digests != Digests(texts[:2])
    assert pickle.loads(pickle.dumps(digests)) == digests


def test_names_that_are_not_text_are_refused():
    with pytest.raises(SnellenError, match="is not text in UTF-8; rename it"):
        text_array(["a", "\ud800"])
