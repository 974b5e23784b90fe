"""Every registered method has prose of its own that agrees with its code; the literature is whole."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

import pytest

from snellen.cards.literature import literature, literature_of
from snellen.cards.prose import prose_of, read_prose
from snellen.errors import SnellenError
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS, text_of
from snellen.suite.card_tests import TESTS

NAMES = sorted(name for name in METHODS if METHODS[name].__module__.startswith("snellen."))
WORDS = 150


@pytest.mark.parametrize("name", NAMES)
def test_every_method_has_prose_that_agrees_with_its_code(name):
    prose, traits = prose_of(name), METHODS[name].traits
    whole = " ".join([prose.summary, prose.methodology, *prose.sections.values()])
    assert "Not written yet" not in whole, f"{name} lacks cards/prose/{name}.md"
    assert len(whole.split()) >= WORDS
    assert {traits.cite, *traits.caveats} <= set(prose.references)
    cited = " ".join(CITATIONS[key] for key in prose.references)
    for person in prose.developers:
        assert person.split()[-1] in cited, f"{person} is in none of the references"
    for setting in dataclasses.fields(METHODS[name]):
        text = " ".join(prose.sections["hyperparameter-dependence"].split())
        match = re.search(rf"`{setting.name}` \((?:default )?`([^`]*)`", text)
        assert match, f"the setting '{setting.name}' and its default are not explained"
        assert match[1].lower().replace("none", "null") == text_of(getattr(METHODS[name](), setting.name))


@pytest.mark.parametrize("name", NAMES)
def test_prose_says_what_a_method_asks_of_the_model_and_whether_chance_plays_a_part(name):
    prose, traits = prose_of(name), METHODS[name].traits
    offered = prose.sections["model-agnosticism"].lower()
    if not traits.needs & {"gradients", "layer", "relu"} and not traits.control:
        assert "black box" in offered or "any " in offered or "whatever" in offered
    if "gradients" in traits.needs:
        assert "gradient" in offered or "differenti" in offered or "black box" in offered or "inner method" in offered
    chance = prose.sections["determinism"].lower()
    if traits.deterministic:
        assert re.search(r"no chance|chance plays no|nothing is random|chance enters only if", chance)
    else:
        assert "seed" in chance


def test_a_method_without_a_file_is_told_from_one_that_has_one(monkeypatch):
    prose_of.cache_clear()
    monkeypatch.setattr("snellen.cards.prose.resources.files", lambda _: __import__("pathlib").Path("nowhere"))
    assert "Not written yet" in prose_of("grad-cam").methodology
    prose_of.cache_clear()


GOOD = """---
method: grad-cam
title: Grad-CAM
developers: []
references: [selvaraju2017]
implementations: {}
aliases: []
directness: trained
---
Summary.

## Methodology
How.

### Determinism
a

### Hyperparameter Dependence
b

### Model Agnosticism
c

### Computational Efficiency
d

### Semantic Directness
e
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("---\nmethod", "method", "must begin with front matter"),
        ("title: Grad-CAM", "title: [", "not YAML"),
        ("aliases: []\n", "", "exactly these fields"),
        ("title: Grad-CAM", "title: 3", "'title' must be a str"),
        ("method: grad-cam", "method: rise", "says that it is of 'rise'"),
        ("selvaraju2017", "selvaraju2018", "did you mean"),
        ("directness: trained", "directness: easy", "must be one of plain, trained, expert"),
        ("### Determinism", "### Determination", "must have the headings"),
        ("\nSummary.\n", "\n", "says nothing under 'the summary'"),
    ],
)
def test_prose_that_breaks_a_rule_is_refused_in_a_sentence(old, new, message):
    assert read_prose(GOOD, "grad-cam").summary == "Summary."
    with pytest.raises(SnellenError, match=re.escape(message)) as refusal:
        read_prose(GOOD.replace(old, new), "grad-cam")
    assert "\n" not in str(refusal.value)


def test_the_literature_has_the_verdicts_of_the_six_public_cards():
    counts = Counter(name for name, _ in literature())
    assert counts == {
        "integrated-gradients": 25, "gradient": 22, "smoothgrad": 16, "grad-cam": 14, "lime": 5, "xrai": 4,
    }  # fmt: skip
    assert Counter(row.verdict for _, row in literature()) == {"pass": 30, "inconclusive": 37, "fail": 19}
    for name, row in literature():
        assert row.test in TESTS[row.attribute], (name, row.test)
        assert row.source.kind == "literature"
        assert row.weight == 0
    assert len(literature_of("grad-cam")) == 14
    assert {test for tests in TESTS.values() for test in tests} - {row.test for _, row in literature()} == {
        "Region Perturbation", "Sufficiency", "Minimality",
    }  # fmt: skip
