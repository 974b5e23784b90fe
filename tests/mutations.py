"""Values, texts and documents with mistakes in them, and what may come of reading one: success, or one sentence."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from snellen.errors import SnellenError

COUNTS: Counter[tuple[str, str]] = Counter()
"""By boundary and outcome; `pytest` prints it at its end (see conftest.py)."""

MOST_SECONDS = 10.0
"""Of this process for one input."""

WORDS = [
    "", " ", "²", "٣", "\0", "\udcff", "😀", "x" * 5000, "9" * 5000, "NaN", "inf", "-1", "1e999", "..", "../../etc/passwd",
    "/dev/null", "a/b", "null", "{}", "[]", "(", "gradient", "none", "*", "%s", "{0}", "\n", "-", "--", "true",
]  # fmt: skip
NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**70), 10**400, 0.5, -0.0, 1e308, 1e-320, float("nan"), float("inf"), float("-inf")]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NUMBERS),
    st.integers(),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=9),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def attempt(boundary: str, call: Callable[[], Any]) -> bool:
    """Whether the call succeeded; anything but success or one sentence, soon, fails the test."""
    started = time.process_time()
    try:
        call()
        word = "read"
    except SnellenError as problem:
        sentence = str(problem)
        assert sentence, "a refusal without words"
        assert len(sentence) < 2100, sentence[:300]
        word = "refused"
    assert time.process_time() - started < MOST_SECONDS
    COUNTS[boundary, word] += 1
    return word == "read"


@st.composite
def mutated(draw: st.DrawFn, original: Any) -> Any:
    """The same values with one to three of them replaced, removed, doubled, renamed or wrapped."""
    whole = {"": copy.deepcopy(original)}
    for _ in range(draw(st.integers(1, 3))):
        holder: Any = whole
        key: Any = ""
        while isinstance(holder[key], dict | list) and holder[key] and draw(st.integers(0, 5)):
            holder = holder[key]
            key = draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
        change = draw(st.sampled_from(["replace", "replace", "swap", "remove", "double", "rename", "wrap"]))
        if change == "remove" and holder is not whole:
            del holder[key]
        elif change == "double" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif change == "rename" and isinstance(holder, dict) and holder is not whole:
            holder[draw(st.sampled_from(WORDS) | st.text(max_size=5))] = holder.pop(key)
        elif change == "wrap":
            holder[key] = draw(st.sampled_from([[holder[key]], {"a": holder[key]}]))
        elif change == "swap" and isinstance(holder, dict | list) and len(holder) > 1:
            other = draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
            holder[key], holder[other] = holder[other], holder[key]
        else:
            holder[key] = draw(anything)
    return whole[""]


@st.composite
def scribbled(draw: st.DrawFn, original: str) -> str:
    """The same text with one to four stretches of it replaced, removed or doubled."""
    text = original
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        put = draw(st.one_of(st.just(""), st.just(text[start:end] * 2), st.sampled_from(WORDS), st.text(max_size=4)))
        text = text[:start] + put + text[end:]
    return text
