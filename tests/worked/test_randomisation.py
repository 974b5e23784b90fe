"""Metrics over relatives of the classifier, on networks small enough for a pencil."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from tests.worked.pictures import RNG
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.maps.explainer import Explainer, case_of
from snellen.metrics.axioms import ImplementationInvariance, InputInvariance, Linearity
from snellen.metrics.model_consistency import ModelConsistency
from snellen.metrics.randomisation import (
    CascadingRandomisation,
    EfficientRandomisation,
    IndependentRandomisation,
    WeightRandomisation,
)
from snellen.types import Passes
from snellen.variants.randomised import randomise_layers
from snellen.variants.weight_layers import weight_layers

SIZE = (4, 4)


class Tiny(nn.Module):
    """4×4 pixels -> three rectified sums -> two logits."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(16, 3), nn.Linear(3, 2)
        with torch.no_grad():
            self.hidden.weight.zero_()
            self.hidden.weight[0, 0], self.hidden.weight[1, 1], self.hidden.weight[2, 2] = 1.0, 2.0, 3.0
            self.hidden.bias.copy_(torch.tensor([0.0, 0.5, 0.0]))
            self.head.weight.copy_(torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]]))
            self.head.bias.copy_(torch.tensor([0.1, -0.1]))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.hidden(inputs.flatten(1)).relu())


class Weights:
    """The hidden weights times the target's head weights, where they would act: a map of the model alone."""

    def __call__(self, classifier, inputs, targets, *, rng):
        gradient, _ = classifier.gradient(inputs, targets)
        return gradient.sum(dim=1)

    def passes(self, size, classifier):
        return Passes(1, 1)


class Times:
    """Input times gradient."""

    def __call__(self, classifier, inputs, targets, *, rng):
        return Weights()(classifier, inputs, targets, rng=rng) * inputs.sum(dim=1)

    def passes(self, size, classifier):
        return Passes(1, 1)


def tiny() -> tuple[Classifier, Tensor, Tensor]:
    picture = torch.zeros(1, 1, 4, 4)
    picture[0, 0, 0, :3] = torch.tensor([1.0, 2.0, 1.0])
    return Classifier(Tiny(), channels=1), picture, torch.tensor([0])


def make_case(method=None):
    classifier, picture, targets = tiny()
    return case_of(method or Weights(), classifier, picture, targets, rng=RNG)


def row(*values: float) -> Tensor:
    """A 4×4 map that begins with these values and is zero elsewhere."""
    out = torch.zeros(1, 4, 4)
    out.view(-1)[: len(values)] = torch.tensor(values)
    return out


class Scripted:
    """Shows the maps that it was given, one per model, in the order in which models arrive; then the last again."""

    def __init__(self, *maps: Tensor) -> None:
        self.maps, self.places = maps, {}

    def __call__(self, classifier, inputs, targets, *, rng):
        place = self.places.setdefault(classifier.fingerprint, len(self.places))
        return self.maps[min(place, len(self.maps) - 1)]

    def passes(self, size, classifier):
        return Passes()


def scripted(*maps: Tensor):
    """A case whose own map is the first."""
    classifier, picture, targets = tiny()
    method = Scripted(*maps)
    case = case_of(method, classifier, picture, targets, rng=RNG)
    return replace(case, explain=Explainer(method, classifier, targets))


RISING = torch.arange(16.0).view(1, 4, 4)
HALF = torch.cat([torch.arange(8.0).flip(0), torch.arange(8.0, 16.0)]).view(1, 4, 4)
"""The lower half of the ranks turned round: Σd² = 2 (7² + 5² + 3² + 1²) = 168, so 1 - 6·168 / (16·255) = 0.752941."""


def test_cascading_randomisation__two_layers():
    # The head alone, then both: the same map (likeness 1), then its reverse (-1). The mean is 0.
    metric = CascadingRandomisation()
    case = scripted(RISING, RISING * 3 + 1, RISING.flip(1, 2))
    assert metric.points(SIZE, case.classifier) == ("head", "hidden")
    assert metric.curve(case, rng=RNG)[0].tolist() == pytest.approx([1.0, -1.0], abs=1e-6)
    assert metric(scripted(RISING, RISING, RISING.flip(1, 2)), rng=RNG).item() == pytest.approx(0.0, abs=1e-6)


def test_cascading_randomisation__a_constant_map_has_no_likeness():
    # The first stage has none and is left out; the second is 0.752941.
    metric = CascadingRandomisation()
    case = scripted(RISING, torch.ones(1, 4, 4), HALF)
    assert metric(case, rng=RNG).item() == pytest.approx(1 - 6 * 168 / (16 * 255), abs=1e-6)


def test_cascading_randomisation__compares_magnitudes_by_default():
    case = scripted(RISING, -RISING)
    assert CascadingRandomisation()(case, rng=RNG).item() == pytest.approx(1.0, abs=1e-6)
    assert CascadingRandomisation(magnitude=False)(case, rng=RNG).item() == pytest.approx(-1.0, abs=1e-6)


def test_independent_randomisation__one_layer_at_a_time():
    # The head alone keeps the map, the hidden layer alone gives HALF: (1 + 0.752941) / 2.
    metric = IndependentRandomisation()
    case = scripted(RISING, RISING, HALF)
    assert metric.points(SIZE, case.classifier) == ("head", "hidden")
    assert metric(case, rng=RNG).item() == pytest.approx((1 + 1 - 6 * 168 / (16 * 255)) / 2, abs=1e-6)


def test_weight_randomisation__is_the_last_stage():
    assert WeightRandomisation()(scripted(RISING, HALF), rng=RNG).item() == pytest.approx(0.752941, abs=1e-6)


def test_efficient_randomisation__entropy_of_two_and_of_four_bins():
    # Half the pixels at 0 and half at 1 fill two bins: ln 2. Quarters at 0, 1, 2, 3 fill four: ln 4. (ln 4 - ln 2) / ln 2.
    two, four = (torch.arange(16.0).remainder(count).view(1, 4, 4) for count in (2, 4))
    assert EfficientRandomisation()(scripted(two, four), rng=RNG).item() == pytest.approx(1.0, abs=1e-6)
    assert EfficientRandomisation()(scripted(four, two), rng=RNG).item() == pytest.approx(-0.5, abs=1e-6)


def test_efficient_randomisation__of_the_magnitude_over_the_pixels():
    # One pixel has no entropy, so two and four pixels: (ln 4 - ln 2) / ln 2.
    metric = EfficientRandomisation(entropy="mass")
    assert metric(scripted(row(1, -1), row(2, 2, -2, 2)), rng=RNG).item() == pytest.approx(1.0, abs=1e-6)
    assert math.isnan(metric(scripted(row(1), row(1, 1)), rng=RNG).item())


def test_implementation_invariance__the_largest_change():
    # The map has norm 4. The network can be permuted, rescaled and widened: changes of norm 1, 2 and 0.
    case = scripted(row(4), row(4, 1), row(4, 0, 2), row(4))
    metric = ImplementationInvariance()
    assert metric.points(SIZE, case.classifier) == ("permuted", "rescaled", "widened")
    assert metric.curve(case, rng=RNG)[0].tolist() == pytest.approx([0.25, 0.5, 0.0], abs=1e-6)
    assert metric(case, rng=RNG).item() == pytest.approx(0.5, abs=1e-6)


def test_linearity__input_times_gradient_is_linear_and_its_square_is_not():
    # Class 0 weighs pixels 1 and 2 by 1 and 2, class 1 pixels 2 and 3 by 2 and 6. With inputs 1, 2, 1 the maps are
    # (1, 4, 0) and (0, 4, 6), that of their mean (0.5, 4, 3).
    assert make_case(Times()).maps[0, 0].tolist() == pytest.approx([1, 4, 0, 0])
    assert Linearity()(make_case(Times()), rng=RNG).item() == pytest.approx(0, abs=1e-6)

    class Square(Times):
        def __call__(self, classifier, inputs, targets, *, rng):
            return super().__call__(classifier, inputs, targets, rng=rng).square()

    # Squares: (1, 16, 0) and (0, 16, 36), mean (0.5, 16, 18), but the sum's is (0.25, 16, 9): off by (0.25, 0, 9).
    size = (math.sqrt(1 + 256) + math.sqrt(256 + 36**2)) / 2
    assert Linearity()(make_case(Square()), rng=RNG).item() == pytest.approx(math.sqrt(0.0625 + 81) / size, rel=1e-5)


def test_input_invariance__input_times_gradient_moves_by_the_gradient():
    # Gradient (1, 2), map (1, 4) of norm √17; after a shift by -1 the inputs are 0, 1 and the map (0, 2): √(1 + 4) / √17.
    assert InputInvariance()(make_case(Weights()), rng=RNG).item() == pytest.approx(0, abs=1e-6)
    assert InputInvariance()(make_case(Times()), rng=RNG).item() == pytest.approx(math.sqrt(5 / 17), rel=1e-5)
    assert InputInvariance(shift=2.0)(make_case(Times()), rng=RNG).item() == pytest.approx(2 * math.sqrt(5 / 17), rel=1e-5)


def test_model_consistency__the_mean_over_variants():
    metric = ModelConsistency(prune=0.1)
    case = scripted(RISING, HALF, RISING)
    assert metric.points(SIZE, case.classifier) == ("pruned 10%", "8 bits")
    assert metric(case, rng=RNG).item() == pytest.approx((0.752941 + 1) / 2, abs=1e-6)


def test_model_consistency__a_variant_that_predicts_another_class_is_left_out():
    # 54 weights, of which the zeros go first; without 98 % only the largest, 3 and 2, are left to the hidden layer and one
    # 2 to the head. Pixel 1 counts no more, and class 0 turns into class 1.
    classifier, picture, targets = tiny()
    assert classifier.predictions(picture).tolist() == [1]
    flipped = picture.clone()
    flipped[0, 0, 0, :3] = torch.tensor([5.0, 0.0, 0.0])
    assert classifier.predictions(flipped).tolist() == [0]
    case = case_of(Times(), classifier, flipped, targets, rng=RNG)
    curve = ModelConsistency(prune=0.99).curve(case, rng=RNG)[0]
    assert math.isnan(curve[0].item())
    assert curve[1].item() == pytest.approx(1.0, abs=1e-6)


def test_random_weights_of_a_layer_depend_on_its_name_alone():
    classifier, _, _ = tiny()
    layers = weight_layers(classifier, SIZE)
    assert [layer.name for layer in layers] == ["hidden", "head"]
    both, last = randomise_layers(classifier, layers, rng=RNG), randomise_layers(classifier, layers[1:], rng=RNG[:0])
    assert torch.equal(both.module.head.weight, last.module.head.weight)
    assert not torch.equal(both.module.hidden.weight, last.module.hidden.weight)
    assert torch.equal(last.module.hidden.weight, classifier.module.hidden.weight)
    assert both.module.head.bias.tolist() == [0.0, 0.0]
    untouched = copy.deepcopy(Tiny().state_dict())
    assert all(torch.equal(value, untouched[name]) for name, value in classifier.module.state_dict().items())
