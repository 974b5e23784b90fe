"""explain() in one line: what it holds, how a notebook shows it, and its refusals."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
import torch
from tests.networks import SIDE, plain

import snellen
from snellen.cards import CardSet
from snellen.report.saliency_maps import SaliencyMaps


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.rand(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def maps(images: torch.Tensor) -> SaliencyMaps:
    return snellen.explain(plain(), images, methods=["grad-cam", "gradient(fold=sum)"], targets=[0, 1, 2])


def test_maps_are_those_of_a_run(images: torch.Tensor, maps: SaliencyMaps) -> None:
    run = snellen.evaluate(plain(), images, methods=list(maps), metrics=None, target=1)
    assert np.array_equal(run.maps("grad-cam")[1], maps["grad-cam", 1].numpy())


def test_it_is_a_mapping_by_method_and_image(maps: SaliencyMaps) -> None:
    assert list(maps) == ["grad-cam", "gradient(fold=sum)"]
    assert len(maps) == 2
    assert maps["grad-cam"].shape == (3, SIDE, SIDE)
    assert torch.equal(maps["grad-cam", 2], maps["grad-cam"][2])
    assert torch.equal(maps["grad-cam", "2"], maps["grad-cam", -1])
    assert maps.numpy().shape == (2, 3, SIDE, SIDE)
    assert "3 images" in repr(maps)


def test_nothing_is_computed_twice(images: torch.Tensor) -> None:
    calls = []

    def model(inputs: torch.Tensor) -> torch.Tensor:
        calls.append(len(inputs))
        return inputs.mean(dim=(2, 3))

    maps = snellen.explain(model, images, methods=["random"])
    before = list(calls)
    maps["random", 0]
    maps.numpy()
    maps._repr_html_()
    maps.plot()
    assert calls == before


def test_a_notebook_shows_it_offline_and_small(maps: SaliencyMaps) -> None:
    html = maps._repr_html_()
    assert html.count("<img") == 9
    assert not re.search(r"https?://|<script|<link", html)
    assert len(html) < 100_000


def test_plot_needs_matplotlib(maps: SaliencyMaps, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(maps.plot().axes) == 9
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(snellen.SnellenError, match="plot\\(\\) needs matplotlib"):
        maps.plot()


def test_names_are_escaped(images: torch.Tensor) -> None:
    classifier = snellen.Classifier(plain(), classes=["<b>0", "1", "2", "3", "4"])
    assert "<b>" not in snellen.explain(classifier, images, methods="random", targets="<b>0")._repr_html_()


def test_wrong_names_are_sentences(images: torch.Tensor, maps: SaliencyMaps) -> None:
    with pytest.raises(snellen.SnellenError, match="there are no maps of 'gradcam'; did you mean 'grad-cam'"):
        maps["gradcam"]
    with pytest.raises(KeyError, match="there is no image 3: there are 3"):
        maps["grad-cam", 3]
    with pytest.raises(snellen.SnellenError, match="grad-cam needs gradients and layer"):
        snellen.explain(lambda inputs: inputs.mean(dim=(2, 3)), images, methods="grad-cam")


def test_without_names_those_that_support_the_model_are_used(images: torch.Tensor) -> None:
    assert "grad-cam" in snellen.explain(plain(), images)
    with pytest.raises(snellen.SnellenError, match="name others with methods="):
        snellen.explain(lambda inputs: inputs.mean(dim=(2, 3)), images)


def test_runs_and_cards_show_themselves(images: torch.Tensor) -> None:
    run = snellen.evaluate(plain(), images, methods=["gradient", "random"], metrics=["deletion", "sparseness"])
    html = run._repr_html_()
    assert "sparseness ↑" in html
    assert "random (control)" in html
    card = CardSet.of(run).find("gradient")._repr_html_()
    assert "Minimality" in card
    for shown in (html, card):
        assert not re.search(r"https?://|<script|<link", shown)
        assert len(shown) < 20_000


def test_a_run_as_plain_values(images: torch.Tensor) -> None:
    run = snellen.evaluate(plain(), images, methods=["gradient", "random"], metrics=["deletion", "sparseness"])
    summary = run.summary()
    mean = run.table().loc["gradient", "deletion"]
    assert summary["numbers"]["gradient/deletion/mean"] == pytest.approx(mean)
    assert all(type(value) is float for value in summary["numbers"].values())
    assert summary["verdicts"] == {"gradient/deletion": "not counted", "gradient/sparseness": "not counted"}
    assert all(type(text) is str and text.startswith("<svg") for text in summary["figures"].values())
    assert set(summary["figures"]) == {"deletion", "sparseness"}


def test_maps_with_nan_and_of_another_shape_are_refused() -> None:
    images = torch.rand(2, 3, SIDE, SIDE)
    with pytest.raises(snellen.SnellenError, match="gave a map with NaN or infinite values"):
        snellen.explain(plain(), images, methods=[lambda classifier, inputs, targets: inputs.mean(dim=1) / 0])
    with pytest.raises(snellen.SnellenError, match=r"called sys.exit\(3\)"):
        snellen.explain(plain(), images, methods=[lambda classifier, inputs, targets: sys.exit(3)])


def test_an_image_is_named_by_its_id_or_place() -> None:
    maps = snellen.explain(plain(), torch.rand(3, 3, SIDE, SIDE), methods=["gradient"])
    assert torch.equal(maps["gradient", np.int64(1)], maps["gradient"][1])
    assert torch.equal(maps["gradient", -1], maps["gradient"][2])
    wrong: list[Any] = [1.5, slice(0, 2), [0]]
    for place in wrong:
        with pytest.raises(snellen.SnellenError, match="an image is named by its id or its place, not"):
            maps["gradient", place]


def test_a_run_says_what_was_not_run_and_which_methods_it_has() -> None:
    images = torch.rand(3, 3, SIDE, SIDE)
    maps = {"theirs": torch.rand(3, SIDE, SIDE)}
    run = snellen.evaluate(plain(), images, methods=["gradient"], maps=maps, metrics=["sparseness", "random-logit"])
    page = run._repr_html_()
    assert page.count(">–</td>") == 1
    assert "its maps were made elsewhere" in page
    assert "undefined" not in page
    with pytest.raises(
        snellen.SnellenError, match=r"has no method 'gradiant'; did you mean 'gradient'\? \(it has: gradient, theirs\)"
    ):
        run.maps("gradiant")
