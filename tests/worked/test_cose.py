"""COSE on a grey picture of 4×4, checkable with a pencil; a test is named after its metric, then two underscores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from tests.worked.pictures import RNG

from snellen.classifier import Classifier
from snellen.images.transforms import TRANSFORMS, draw_magnitudes
from snellen.maps.explainer import Explainer
from snellen.metrics.consistency import Consistency, InputConsistency
from snellen.metrics.cose import Cose, Sensitivity
from snellen.metrics.cose_pooling import drawn_magnitudes, pool, pool_by, pool_by_magnitude
from snellen.types import Case, Passes, Rng

GREY = 128 / 255
"""The only level of the picture: whatever has to do with colour, contrast or edges leaves it alone; only light does not."""
RISING = torch.arange(4.0).expand(1, 4, 4)
"""A map that rises from left to right."""


def day_or_night(inputs: torch.Tensor) -> torch.Tensor:
    """Class 0 (day) or class 1 (night, where the mean is below 0.3), as a probability of 0.9."""
    day = torch.where(inputs.flatten(1).mean(dim=1) >= 0.3, 0.9, 0.1)
    return torch.stack([day, 1 - day], dim=1)


@dataclass(frozen=True)
class Fixed:
    """The rising map; falling where the picture is darker than the original, and for night a map from top to bottom."""

    falls_in_the_dark: bool = False
    knows_the_night: bool = False

    def __call__(self, classifier, inputs, targets, *, rng):
        maps = RISING.repeat(len(inputs), 1, 1)
        darker = inputs.flatten(1).mean(dim=1) < GREY - 1e-4
        if self.falls_in_the_dark:
            maps = torch.where(darker.view(-1, 1, 1), -maps, maps)
        if self.knows_the_night:
            maps = torch.where((targets == 1).view(-1, 1, 1), maps.transpose(1, 2), maps)
        return maps

    def passes(self, size, classifier):
        return Passes()


def always_night(inputs: torch.Tensor) -> torch.Tensor:
    """Another model, which takes every picture for night."""
    return torch.tensor([[0.1, 0.9]]).repeat(len(inputs), 1)


def twilight(inputs: torch.Tensor) -> torch.Tensor:
    """An earlier state of the model, less sure of the same answers."""
    return (day_or_night(inputs) + 0.5) / 2


def make_case(method: Fixed, *, label: int | None = None, checkpoints: tuple = ()) -> Case:
    classifier = Classifier(day_or_night, outputs="probabilities", channels=1)
    inputs, targets = torch.full((1, 1, 4, 4), GREY), torch.tensor([0])
    explain = Explainer(method, classifier, targets)
    labels = None if label is None else torch.tensor([label])
    variants = {f"checkpoint/{place}": classifier.variant(model, f"step {place}") for place, model in enumerate(checkpoints)}
    return Case(classifier, inputs, targets, RISING.clone(), explain, variants=variants, labels=labels)


def steps_of_name(name: str, count: int = 6) -> list[int]:
    return draw_magnitudes(next(transform for transform in TRANSFORMS if transform.name == name), count, rng=RNG)[0].tolist()


def trace(metric, case: Case) -> dict[str, float]:
    names = metric.points((4, 4), case.classifier)
    return dict(zip(names, metric.curve(case, rng=RNG)[0].tolist(), strict=True))


def test_input_consistency__of_a_map_that_falls_in_the_dark():
    # 28 variants, of which only those of brightness change the grey. Brightness 1 + 0.99 s / 30 makes it night (below 0.3)
    # where s < -12.2: those do not count. A darker day gives the falling map, likeness -1; all else the same map, +1.
    steps = steps_of_name("brightness")
    dusk, night = sum(-12.2 < step < 0 for step in steps), sum(step < -12.2 for step in steps)
    assert dusk > 0
    assert night > 0
    metric = InputConsistency(likeness="pearson")
    values = trace(metric, make_case(Fixed(falls_in_the_dark=True)))
    for draw, step in enumerate(steps):
        likeness = 1.0 if step > 0 else -1.0 if step > -12.2 else math.nan
        assert values[f"photometric/brightness/{draw}"] == pytest.approx(likeness, nan_ok=True)
    counted = 28 - night
    value = metric(make_case(Fixed(falls_in_the_dark=True)), rng=RNG).item()
    assert value == pytest.approx((counted - 2 * dusk) / counted)


def test_input_consistency__of_a_map_that_never_changes():
    assert InputConsistency(likeness="pearson")(make_case(Fixed()), rng=RNG).item() == pytest.approx(1)


def test_input_consistency__only_where_the_label_is_right():
    metric = InputConsistency(likeness="pearson", correct_only=True)
    assert metric(make_case(Fixed(), label=0), rng=RNG).item() == pytest.approx(1)
    assert math.isnan(metric(make_case(Fixed(), label=1), rng=RNG).item())  # day is the wrong answer
    assert math.isnan(metric(make_case(Fixed(), label=-1), rng=RNG).item())  # nobody knows
    assert math.isnan(metric(make_case(Fixed()), rng=RNG).item())


def test_consistency__of_a_rising_map_under_flips_and_moves():
    # The map does not move with the picture. Flipped back left to right it falls: -1. Upside down it is the same: +1.
    # A translation by one pixel of four (the least there is) leaves three quarters of the light, 0.376, which is day; moved
    # back it is a rising line again, one lower, on the three columns or rows that have a counterpart: +1.
    values = trace(Consistency(likeness="pearson"), make_case(Fixed()))
    assert values["geometric/flip-lr"] == pytest.approx(-1)
    assert values["geometric/flip-ud"] == pytest.approx(1)
    for draw in range(6):
        assert values[f"geometric/translate-x/{draw}"] == pytest.approx(1)
        assert values[f"geometric/translate-y/{draw}"] == pytest.approx(1)


def test_consistency__is_the_mean_of_what_counts():
    metric = Consistency(likeness="pearson", magnitudes=1)
    values = trace(metric, make_case(Fixed()))
    assert len(values) == 7 + 6
    kept = [value for value in values.values() if not math.isnan(value)]
    assert metric(make_case(Fixed()), rng=RNG).item() == pytest.approx(sum(kept) / len(kept))
    assert metric.score(torch.tensor([[0.9, math.nan, 0.7]])).item() == pytest.approx(0.8)


def test_sensitivity__of_a_map_that_knows_the_night():
    # For night the map runs from top to bottom, whose correlation with one from left to right is 0: 1 - 0 = 1. Of the
    # photometric changes only a brightness with s < -12.2 brings the night. A flip or a move by a pixel does not.
    values = trace(Sensitivity(likeness="pearson"), make_case(Fixed(knows_the_night=True)))
    for draw, step in enumerate(steps_of_name("brightness")):
        change = 1.0 if step < -12.2 else math.nan
        assert values[f"photometric/brightness/{draw}"] == pytest.approx(change, nan_ok=True)
    assert math.isnan(values["geometric/flip-lr"])
    assert math.isnan(values["photometric/equalize"])
    assert math.isnan(values["model/random"])  # a black box has no weights to redraw
    assert values["models"] == 0


def test_sensitivity__with_the_class_held_fixed():
    # The same map is explained all along, so it does not change with the night: 1 - 1 = 0.
    metric = Sensitivity(likeness="pearson", fixed_class=True)
    values = trace(metric, make_case(Fixed(knows_the_night=True)))
    dark = [draw for draw, step in enumerate(steps_of_name("brightness")) if step < -12.2]
    assert [values[f"photometric/brightness/{draw}"] for draw in dark] == pytest.approx([0.0] * len(dark))


def test_sensitivity__to_checkpoints():
    # Two earlier models: one that says night and so gets the other map, 1; and one that says what the final one says, which
    # does not count. The final model itself is no earlier state.
    case = make_case(Fixed(knows_the_night=True), checkpoints=(always_night, twilight, day_or_night))
    values = trace(Sensitivity(likeness="pearson"), case)
    assert values["model/checkpoint/0"] == pytest.approx(1)
    assert math.isnan(values["model/checkpoint/1"])
    assert math.isnan(values["model/checkpoint/2"])
    assert values["models"] == 2


def test_cose__is_the_harmonic_mean_of_its_two_parts():
    # Consistency (0.9 + 0.7) / 2 = 0.8, sensitivity (0.3 + 0.5) / 2 = 0.4: 2 · 0.32 / 1.2, and √0.32 beside it.
    metric = Cose(magnitudes=1)
    curve = torch.full((1, len(metric.points((4, 4), make_case(Fixed()).classifier))), math.nan)
    curve[0, :2] = torch.tensor([0.9, 0.7])
    curve[0, 15:17] = torch.tensor([0.3, 0.5])
    assert metric.score(curve).item() == pytest.approx(0.64 / 1.2)
    curve[0, :2] = -1  # turned around is not consistent at all
    assert metric.score(curve).item() == 0
    curve[0, :13] = math.nan
    assert math.isnan(metric.score(curve).item())


def test_cose__of_a_map_that_knows_the_night():
    settings = {"likeness": "pearson", "magnitudes": 4}
    case = make_case(Fixed(knows_the_night=True))
    steady, moved = (metric(case, rng=RNG).item() for metric in (Consistency(**settings), Sensitivity(**settings)))
    assert 0 < steady < 1
    assert Cose(**settings)(case, rng=RNG).item() == pytest.approx(2 * steady * moved / (steady + moved), rel=1e-5)
    values = trace(Cose(**settings), case)
    assert values["geometric-mean"] == pytest.approx(math.sqrt(steady * moved), rel=1e-5)


def test_cose__pooled_over_pictures_is_not_the_mean_of_their_scores():
    # Two pictures. The first has one consistent pair (1.0) and one sensitive pair (0.5), the second three consistent pairs
    # (0.2 each) and one sensitive pair (0.1).
    # Per picture: 2 · 0.5 / 1.5 = 2/3 and 2 · 0.02 / 0.3 = 2/15, on average 0.4.
    # Pooled: consistency (1 + 0.6) / 4 = 0.4, sensitivity 0.3: 0.24 / 0.7 = 0.343, geometric √0.12 = 0.346.
    metric = Cose(magnitudes=1)
    points = metric.points((4, 4), make_case(Fixed()).classifier)
    curve = torch.full((2, len(points)), math.nan)
    for name, first, second in [
        ("consistency/geometric/rotate/0", 1.0, 0.2),
        ("consistency/geometric/flip-lr", math.nan, 0.2),
        ("consistency/photometric/blur", math.nan, 0.2),
        ("sensitivity/geometric/rotate/0", math.nan, 0.1),
        ("sensitivity/model/random", 0.5, math.nan),
        ("models", 7.0, 7.0),
        ("geometric-mean", 9.0, 9.0),
    ]:
        curve[:, points.index(name)] = torch.tensor([first, second])
    assert metric.score(curve).mean().item() == pytest.approx(0.4)
    pooled = pool(curve, points)
    assert (pooled.consistent, pooled.sensitive) == (4, 2)
    assert pooled.consistency == pytest.approx(0.4)
    assert pooled.sensitivity == pytest.approx(0.3)
    assert pooled.harmonic == pytest.approx(0.24 / 0.7)
    assert pooled.geometric == pytest.approx(math.sqrt(0.12))
    kinds = pool_by(curve, points, "kind")
    assert list(kinds) == ["geometric", "photometric", "model"]
    assert kinds["geometric"].consistency == pytest.approx((1.0 + 0.2 + 0.2) / 3)
    assert kinds["photometric"].consistency == pytest.approx(0.2)
    assert math.isnan(kinds["photometric"].sensitivity)
    assert math.isnan(kinds["photometric"].harmonic)
    assert kinds["model"].sensitivity == pytest.approx(0.5)
    transforms = pool_by(curve, points, "transform")
    assert transforms["rotate"].consistency == pytest.approx(0.6)
    assert transforms["rotate"].sensitivity == pytest.approx(0.1)
    rng = Rng(0, ("first", "second"))
    drawn_steps = drawn_magnitudes(points, magnitudes=1, rng=rng)[:, points.index("consistency/geometric/rotate/0")]
    sizes = [int(abs(step)) for step in drawn_steps.tolist()]
    assert sizes[0] != sizes[1]
    strengths = pool_by_magnitude(curve, points, magnitudes=1, rng=rng)
    assert strengths[sizes[0]].consistency == pytest.approx(1.0)
    assert strengths[sizes[1]].consistency == pytest.approx(0.2)
    assert strengths[sizes[1]].sensitivity == pytest.approx(0.1)


def test_consistency__and_sensitivity_alone_can_be_pooled_too():
    points = ("geometric/rotate/0", "photometric/blur", "models")
    trace = torch.tensor([[0.25, 0.75, 3.0]])
    assert pool(trace, points, part="consistency").consistency == pytest.approx(0.5)
    pooled = pool_by(trace, points, "kind", part="sensitivity")
    assert pooled["photometric"].sensitivity == pytest.approx(0.75)
    assert math.isnan(pooled["photometric"].consistency)
