"""Positive controls: the masks of a run scored as maps, beside the methods and apart from every verdict."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from tests.runs import test_cases
from tests.runs.subject import finished_units
from tests.worked.pictures import QUARTERS, total
from torch import Tensor, nn

import snellen
from snellen import Sample, SnellenError
from snellen.classifier import Classifier
from snellen.maps.explaining_again import why_not_scored
from snellen.methods.controls import CONTROLS
from snellen.methods.positive_controls import POSITIVE_CONTROLS, BlurredTruth, TruthMap
from snellen.plugins.checks import CheckReport
from snellen.plugins.registry import METHODS, METRICS, label, method, traits
from snellen.runs import Options, Run, evaluate
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.types import MadeOfTruth

SIDE = 8
METRIC_NAMES = ["deletion(steps=4)", "pointing-game", "sparseness"]


class Bright(nn.Module):
    """Two classes by the brightness of the left and the right half of the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(8.0))

    def forward(self, images: Tensor) -> Tensor:
        halves = images.mean(dim=(1, 2)).unflatten(1, (2, SIDE // 2)).mean(dim=2)
        return self.scale * halves


def left_and_right(count: int = 4, *, empty: tuple[int, ...] = (), without: tuple[int, ...] = ()) -> list[Sample]:
    """A bright square on the left or right of each noisy picture, and its mask."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for number in range(count):
        column = 1 if number % 2 == 0 else 5
        mask = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        if number not in empty:
            mask[3:5, column : column + 2] = True
        image = 0.2 * torch.rand(3, SIDE, SIDE, generator=generator)
        image[:, 3:5, column : column + 2] += 0.8
        made.append(Sample(id=f"p{number:02d}", image=image, label=number % 2, truth=None if number in without else mask))
    return made


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier(Bright())


def run(classifier: Classifier, samples: object, *names: str, metrics: object = METRIC_NAMES, **settings: object) -> Run:
    settings = {"options": Options(threads=1), "observer": Silent()} | settings
    return evaluate(classifier, samples, methods=names or ("truth", "random"), metrics=metrics, **settings)


def scores_of(result: Run, name: str, metric: str) -> list[float]:
    table = result.positive_scores()
    return table[(table["method"] == name) & (table["metric"] == metric)]["value"].tolist()


# By hand ------------------------------------------------------------------------------------------------------------------


def quarters(mask: Tensor) -> Run:
    """A run on the picture of four bright pixels, whose sum the model gives, with this mask."""
    black_box = Classifier(total, outputs="probabilities", channels=1)
    sample = Sample(id="picture", image=QUARTERS, truth=mask)
    names = ["deletion(steps=4)", "insertion(steps=4, fill=mean)", "pointing-game", "energy-pointing-game", "relevance-mass"]
    return run(black_box, [sample], metrics=names)


def test_the_truth_that_the_model_uses_scores_best():
    result = quarters(QUARTERS[0] > 0)
    # The first of four steps takes all four bright pixels: 1, 0, 0, 0, 0. Area: (1/2) / 4.
    assert scores_of(result, "truth", "deletion(steps=4)") == pytest.approx([1 / 8])
    # Put onto nothing: 0, 1, 1, 1, 1.
    assert scores_of(result, "truth", "insertion(steps=4, fill=mean)") == pytest.approx([7 / 8])
    for name in ("pointing-game", "energy-pointing-game", "relevance-mass"):
        assert scores_of(result, "truth", name) == [1.0]


def test_a_truth_that_the_model_does_not_use_scores_worst_where_the_model_decides():
    # The twelve dark pixels are removed first, four by four: 1, 1, 1, 1, 0. Area: (1/2 + 3) / 4.
    result = quarters(QUARTERS[0] == 0)
    assert scores_of(result, "truth", "deletion(steps=4)") == pytest.approx([7 / 8])
    assert scores_of(result, "truth", "pointing-game") == [1.0]  # which asks where the mask is, not what the model uses


def test_a_blurred_mask_by_hand():
    # Sigma is one of four pixels, so that the weights at 0, 1, 2, 3 pixels are 1, .60653, .13534, .01111.
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    mask[:, :, :2] = True
    rows = BlurredTruth(sigma=0.25).maps_of(mask)[0]
    first = (1 + 0.60653) / (1 + 0.60653 + 0.13534 + 0.01111)
    second = (0.60653 + 1) / (0.60653 + 1 + 0.60653 + 0.13534)
    expected = torch.tensor([first, second, 1 - second, 1 - first]).expand(4, 4)
    assert torch.allclose(rows, expected, atol=1e-5)


def test_a_mask_of_the_whole_image_stays_even_at_its_border():
    assert torch.allclose(BlurredTruth().maps_of(torch.ones(2, 9, 5, dtype=torch.bool)), torch.ones(2, 9, 5))
    assert not BlurredTruth().maps_of(torch.zeros(1, 9, 5, dtype=torch.bool)).any()


def test_a_map_does_not_depend_on_the_rest_of_the_batch():
    masks = torch.rand(3, 33, 21, generator=torch.Generator().manual_seed(1)) > 0.7
    for control in (TruthMap(), BlurredTruth()):
        together = control.maps_of(masks)
        assert all(torch.equal(together[row : row + 1], control.maps_of(masks[row : row + 1])) for row in range(3))
    with pytest.raises(SnellenError, match="'blurred-truth': sigma must be positive, not 0"):
        METHODS.build("blurred-truth", {"sigma": 0.0})


# What a run does ----------------------------------------------------------------------------------------------------------


def test_maps_are_the_masks_and_are_named_apart(classifier):
    samples = left_and_right()
    result = run(classifier, samples, "truth", "blurred-truth(sigma=0.1)", "gradient", "random")
    assert result.methods == ["gradient", "random"]
    assert result.positive_controls == ["truth", "blurred-truth(sigma=0.1)"]
    masks = np.stack([sample.truth.numpy() for sample in samples])
    np.testing.assert_array_equal(result.maps("truth"), masks)
    np.testing.assert_array_equal(
        result.maps("blurred-truth(sigma=0.1)"), BlurredTruth(sigma=0.1).maps_of(torch.from_numpy(masks)).numpy()
    )
    assert list(result.table().index) == ["gradient", "random", "truth", "blurred-truth(sigma=0.1)"]
    assert result.table().loc["truth", "pointing-game"] == 1
    assert set(result.scores()["method"]) == {"gradient", "random"}
    assert set(result.costs()["method"]) == {"gradient", "random"}
    assert list(result.curves("deletion(steps=4)")) == ["gradient", "random", "truth", "blurred-truth(sigma=0.1)"]


def test_each_case_has_the_mask_of_its_own_label():
    result = test_cases.run(
        test_cases.corners(), test_cases.samples(), ["pointing-game", "energy-pointing-game"],
        methods=["truth", "blurred-truth", "random"], target="every-label",
    )  # fmt: skip
    assert [row.sample for row in result.record.samples.rows] == [
        "both [north-west]", "both [south-west]", "one [north-east]"
    ]  # fmt: skip
    expected = torch.stack([test_cases.region(corner) for corner in (0, 2, 1)])
    np.testing.assert_array_equal(result.maps("truth"), expected.numpy())
    assert result.positive_scores().groupby(["method", "metric"])["value"].mean()["truth"].tolist() == [1, 1]


def test_an_empty_mask_is_undefined_and_counted(classifier):
    result = run(classifier, left_and_right(4, empty=(1,)), "truth", "gradient", "random")
    for name in METRIC_NAMES:
        values = scores_of(result, "truth", name)
        assert np.isnan(values).tolist() == [False, True, False, False]
    curves = result.curves("deletion(steps=4)")
    assert np.isnan(curves["truth"]).all(axis=1).tolist() == [False, True, False, False]
    assert np.isfinite(curves["gradient"]).all()
    rows = {control.row.metric: control.row for control in result.verdicts().positive_controls}
    assert [(rows[name].n, rows[name].undefined) for name in METRIC_NAMES] == [(3, 1)] * 3
    assert rows["deletion(steps=4)"].reason.startswith("the truth is empty, or ")
    assert rows["pointing-game"].reason == "the truth is empty"


class Recorder(Silent):
    """Remembers notes, and what was begun."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.begun: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def begin(self, what: str, passes: object, units: int) -> None:
        self.begun.append(what)


@pytest.mark.parametrize("without", [(0, 1, 2, 3), (2, 3)])
def test_a_missing_mask_is_refused_before_computing(classifier, without):
    seen = Recorder()
    with pytest.raises(SnellenError) as problem:
        run(classifier, left_and_right(4, without=without), metrics=["deletion(steps=4)"], observer=seen)
    assert str(problem.value) == (
        f"truth needs Sample.truth, but 'p0{without[0]}' has none (nor have {len(without) - 1} others). "
        "Drop the positive control or give --masks or --boxes."
    )
    assert "explaining" not in seen.begun


def test_metrics_that_explain_again_leave_the_cell_empty(classifier):
    names = ["deletion(steps=4)", "max-sensitivity(samples=1)", "random-logit"]
    seen = Recorder()
    result = run(classifier, left_and_right(), "truth", "blurred-truth", "gradient", "random", metrics=names, observer=seen)
    problems = result.problems()
    assert {pair for pair in problems if pair[0] in POSITIVE_CONTROLS} == {
        (name, metric) for name in POSITIVE_CONTROLS for metric in names[1:]
    }
    assert all("the maps are made of the masks, and this metric must explain" in problem for problem in problems.values())
    assert sum("cannot be scored on truth, blurred-truth" in note for note in seen.notes) == 1
    assert result.table().loc["truth"].isna().tolist() == [False, True, True]
    assert result.table().loc["gradient"].notna().all()


def test_no_metric_scores_them_by_explaining_again(classifier):
    """Every metric that needs nothing but masks and labels: it has a score, or it says that it must explain."""
    chosen = [name for name in METRICS if not traits(METRICS[name]).needs & {"recipe", "checkpoints"}][::4]
    result = run(classifier, left_and_right(2), "truth", "random", metrics=chosen)
    problems = result.problems()
    for metric in result.record.spec.metrics:
        again = "explain" in traits(METRICS[metric.name]).needs
        assert again is ("must explain" in problems.get(("truth", metric.label), ""))
        assert len(scores_of(result, "truth", metric.label)) == (0 if again else 2)
    assert "training images" in str(why_not_scored(TruthMap(), METRICS.build("roar")))


def test_a_metric_of_a_user_that_explains_again_is_refused(classifier):
    def again(case):
        return case.explain(case.inputs, rng=snellen.Rng(0, ("a",) * len(case))).mean(dim=(1, 2))

    problems = run(classifier, left_and_right(2), metrics=[again, "sparseness"]).problems()
    (problem,) = [why for (name, _), why in problems.items() if name == "truth"]
    assert "'truth' is a positive control, made of the masks of a run's own images, so it cannot explain other" in problem


def test_a_condition_moves_the_mask_with_the_image(classifier):
    result = run(classifier, left_and_right(2), condition="rotation(degrees=90)", metrics=["pointing-game"])
    turned = result.maps("truth")[0] > 0
    assert turned.any()
    assert not np.array_equal(turned, left_and_right(1)[0].truth.numpy())
    assert scores_of(result, "truth", "pointing-game") == [1, 1]


@pytest.mark.slow
def test_workers_give_the_same(classifier):
    here, there = (
        run(
            classifier,
            left_and_right(6),
            "truth",
            "gradient",
            "random",
            options=Options(shard=2, workers=workers, threads=1),
        )
        for workers in (0, 2)
    )
    pd.testing.assert_frame_equal(here.positive_scores(), there.positive_scores())


# Apart from everything that is judged --------------------------------------------------------------------------------------


def test_nothing_changes_for_the_methods(classifier, tmp_path):
    """Scores bit by bit, verdicts and their intervals, the order of the record; cards and recommendation."""
    from snellen.cards import CardSet
    from snellen.cards.card_json import write_json
    from snellen.cards.priorities import Priorities
    from snellen.cards.recommend import recommend

    samples = left_and_right(36)
    names = ("gradient", "input-x-gradient", *CONTROLS)
    plain = run(classifier, samples, *names, out=tmp_path / "a" / "run")
    beside = run(classifier, samples, "truth", *names, "blurred-truth", out=tmp_path / "b" / "run")
    pd.testing.assert_frame_equal(plain.scores(), beside.scores())
    assert plain.verdicts().judgements == beside.verdicts().judgements
    pd.testing.assert_frame_equal(plain.verdicts().summary, beside.verdicts().summary)
    assert plain.record.spec.methods == beside.record.spec.methods
    assert "positive" not in (tmp_path / "a" / "run" / "run.json").read_text()
    assert "positive" not in (tmp_path / "a" / "run" / "verdicts.json").read_text()
    decks = [CardSet.of(result) for result in (plain, beside)]
    assert [card.method for card in decks[1].cards] == list(names)
    assert [write_json(card) for card in decks[0].cards] == [write_json(card) for card in decks[1].cards]
    priorities = Priorities.read(need=["input-sensitivity"])
    chosen = [[place.card.method for place in recommend(deck, priorities).nearest] for deck in decks]
    assert chosen[0] == chosen[1]
    with pytest.raises(SnellenError, match=r"'truth' is a positive control of .*, and no method; name one of gradient"):
        decks[1].find("truth")


def test_a_run_continues_with_the_truth_added(classifier, tmp_path):
    samples, out = left_and_right(6), tmp_path / "run"
    first = run(classifier, samples, "gradient", "random", out=out, options=Options(shard=2, threads=1))
    stored, scores = finished_units(out), first.scores()
    seen = Recorder()
    more = run(
        classifier, samples, "gradient", "random", "truth", out=out, options=Options(shard=2, threads=1), observer=seen
    )
    assert stored.items() <= finished_units(out).items()
    assert any("6 of 9 units are already finished" in note for note in seen.notes)
    pd.testing.assert_frame_equal(more.scores(), scores)
    again = Recorder()
    run(classifier, samples, "truth", "gradient", "random", out=out, options=Options(shard=2, threads=1), observer=again)
    assert "explaining" not in again.begun or any("9 of 9" in note for note in again.notes)
    verdicts = more.verdicts()
    reopened = Run(out).verdicts()
    assert repr(reopened.positive_controls) == repr(verdicts.positive_controls)  # NaN is not equal to itself
    assert verdicts.positive_controls[0].against[0].control == "random"
    assert json.loads((out / "verdicts.json").read_text())["positive"]
    with pytest.raises(SnellenError, match="was made with other samples"):  # masks belong to the samples
        run(classifier, left_and_right(6, empty=(0,)), "truth", "random", out=out, options=Options(shard=2, threads=1))


def test_positive_controls_alone_are_refused(classifier):
    with pytest.raises(SnellenError, match="truth and blurred-truth are there to compare others with; name a method too"):
        run(classifier, left_and_right(), "truth", "blurred-truth")


def test_they_are_in_no_list_of_methods():
    assert not set(POSITIVE_CONTROLS) & set(METHODS)
    assert all(name in METHODS for name in POSITIVE_CONTROLS)
    assert all(isinstance(METHODS.build(name), MadeOfTruth) for name in POSITIVE_CONTROLS)
    assert [label(METHODS.parse(name)) for name in ("truth", "blurred-truth(sigma=0.1)")] == [
        "truth",
        "blurred-truth(sigma=0.1)",
    ]
    assert not any(traits(METHODS[name]).positive for name in METHODS)


def test_no_method_sees_the_truth():
    with pytest.raises(SnellenError, match="needs the truth, which no method sees; a positive control defines maps_of"):

        @method("peeking", cite="kim2022", needs={"truth"})
        class Peeking:
            """It looks."""


@pytest.mark.parametrize("wrapper", ["smoothgrad", "vargrad", "blurred", "shuffled"])
def test_no_method_wraps_them(wrapper):
    with pytest.raises(SnellenError, match=f"method '{wrapper}': truth is made of the masks, so no method can explain"):
        METHODS.parse(f"{wrapper}(of=truth)")


def test_where_they_make_no_sense_a_sentence_says_so(classifier, tmp_path):
    from snellen.cards.files import card_without_run
    from snellen.report.explain import explain_photo
    from snellen.textbox.exam.method_list import method_list

    images, masks = torch.rand(2, 3, SIDE, SIDE), torch.ones(2, SIDE, SIDE)
    settings = Settings.of({"model": "digits", "images": "zoo:digits", "methods": ["truth"], "metrics": ["deletion"]})
    calls = {
        "it explains no image by itself": lambda: snellen.explain(classifier, images, methods=["truth"]),
        "give the masks as maps= instead": lambda: snellen.score("deletion", classifier, images, masks, method="truth"),
        "it explains no photo": lambda: explain_photo(
            tmp_path / "a.png", settings, targets=["predicted"], out=None, seed=0, observer=Silent()
        ),
        "it has no card": lambda: card_without_run("truth"),
        "whose oracle is the perfect map": lambda: method_list(["blurred-truth"]),
        "cannot explain those of a check": lambda: CheckReport.of("truth"),
        "cannot explain those of a check; name a method": lambda: CheckReport.of(
            "pointing-game", good="truth", bad="random"
        ),
    }
    for words, call in calls.items():
        with pytest.raises(SnellenError) as problem:
            call()
        assert words in str(problem.value)
        assert re.search(
            r"'(blurred-)?truth' is a positive control, made of the masks of a run's own images", str(problem.value)
        )
        assert "\n" not in str(problem.value)


def test_a_score_of_the_masks_as_maps_is_that_of_the_truth(classifier):
    samples = left_and_right()
    result = run(classifier, samples, metrics=["deletion(steps=4)"])
    images, masks = (torch.stack(column) for column in zip(*((row.image, row.truth) for row in samples), strict=True))
    values = snellen.score("deletion(steps=4)", classifier, images, masks, ids=[sample.id for sample in samples])
    assert values.tolist() == scores_of(result, "truth", "deletion(steps=4)")


def test_a_study_has_no_arm_for_them(tmp_path):
    from snellen.study.making.make import _protocol

    with pytest.raises(SnellenError, match=r"'truth' is a positive control of .*, made of its masks, and no method"):
        _protocol(run(Classifier(Bright()), left_and_right()), {"arms": ["truth"]})


@pytest.fixture
def eroded():
    """A positive control of a user: the mask without its border, or without its last column."""

    @method("eroded-truth", cite="boggust2023", class_specific=False, needs={"truth"})
    @dataclass(frozen=True)
    class Eroded(TruthMap):
        """The mask without its border."""

        cut: int = 0

        def maps_of(self, truth):
            smaller = -nn.functional.max_pool2d(-truth.float()[:, None], 3, 1, 1)[:, 0]
            return smaller[:, :, : SIDE - self.cut]

    yield Eroded
    del METHODS._classes["eroded-truth"]


def test_a_user_may_write_another(classifier, eroded):
    result = run(classifier, left_and_right(2), "eroded-truth", "random", metrics=["deletion(steps=4)"])
    assert result.positive_controls == ["eroded-truth"]
    assert not result.maps("eroded-truth").any()  # two pixels are all border
    assert "eroded-truth" not in set(METHODS)
    with pytest.raises(
        SnellenError, match=r"eroded-truth\(cut=1\) gave maps of 2×8×7, not one number per pixel of each mask"
    ):
        run(classifier, left_and_right(2), "eroded-truth(cut=1)", "random", metrics=["deletion(steps=4)"])


def test_masks_without_a_positive_control_are_pointed_out_once(tmp_path):
    """A run with --masks names what could be scored; one that has it, or has no masks, says nothing."""
    from PIL import Image
    from tests.runs.subject import write_images

    write_images(tmp_path / "images", count=2)
    (tmp_path / "masks").mkdir()
    for path in (tmp_path / "images").iterdir():
        Image.fromarray(np.eye(32, dtype=np.uint8) * 255).save(tmp_path / "masks" / path.name)
    values = {"model": "digits", "images": str(tmp_path / "images"), "metrics": ["sparsity"], "workers": 0}
    masks = {"masks": str(tmp_path / "masks")}
    for name, more, methods, expected in (
        ("a", masks, ["random"], 1), ("b", masks, ["random", "truth"], 0), ("c", {}, ["random"], 0)
    ):  # fmt: skip
        seen = Recorder()
        Settings.of(values | more | {"methods": methods, "out": str(tmp_path / name)}).run(seen)
        assert sum("add truth,blurred-truth to --methods" in note for note in seen.notes) == expected
    again = Recorder()
    stored = json.loads((tmp_path / "b" / "run.json").read_text())["request"]
    resumed = Settings.of(stored).run(again)
    assert resumed.positive_controls == ["truth"]
    assert any("2 of 2 units are already finished" in note for note in again.notes)
