"""LIME and Kernel SHAP against the lime and shap packages, and against answers that can be worked out; and superpixels."""

from __future__ import annotations

import itertools
import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import pairwise_distances
from tests.methods import problems
from tests.methods.problems import Problem, photograph_problem
from tests.networks import CLASSES, NETWORKS, SIDE
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.maps import superpixels as cutting
from snellen.maps.fills import BLACK
from snellen.maps.superpixels import superpixels
from snellen.methods.kernel_shap import KernelShap, coalitions, shapley
from snellen.methods.lime import Lime, draw, surrogate
from snellen.plugins.registry import METHODS
from snellen.types import Rng

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what these call in others
    import shap
    from lime import lime_base, lime_image

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


assert_same = partial(problems.assert_same, share=1e-5)


@pytest.fixture(params=sorted(NETWORKS))
def problem(request: pytest.FixtureRequest) -> Problem:
    rng = Rng(seed=1, ids=("a", "b", "c"))
    net = NETWORKS[request.param](activation=nn.ReLU)
    classifier = Classifier(net, mean=MEAN, std=STD)
    inputs = classifier.to_inputs(rng.uniform("images", (3, SIDE, SIDE)))
    return Problem(net=net, classifier=classifier, inputs=inputs, targets=torch.tensor([0, 3, 1]), rng=rng)


@pytest.fixture(scope="module")
def photograph() -> Problem:
    return photograph_problem()


# LIME ---------------------------------------------------------------------------------------------------------------


class Drawn:
    """Stands where the lime package asks numpy for random zeros and ones, and gives it ours."""

    def __init__(self, kept: Tensor) -> None:
        self.kept = kept

    def randint(self, low: int, high: int, size: int) -> np.ndarray:
        assert (low, high, size) == (0, 2, self.kept.numel())
        return self.kept.flatten().numpy().astype(int)


def package(problem: Problem, row: int, samples: int, labels: Tensor):
    """The lime package's explanation of one image with our superpixels and draws; removed means black."""
    explainer = lime_image.LimeImageExplainer(random_state=0)
    explainer.random_state = Drawn(draw(problem.rng[row : row + 1], samples, int(labels.max()) + 1))
    image = problem.classifier.to_pixels(problem.inputs[row : row + 1])[0].permute(1, 2, 0).double().numpy()

    def predict(images: np.ndarray) -> np.ndarray:
        pixels = torch.from_numpy(images).float().permute(0, 3, 1, 2)
        return problem.classifier.probabilities(problem.classifier.to_inputs(pixels)).double().numpy()

    target = int(problem.targets[row])
    explanation = explainer.explain_instance(
        image,
        predict,
        labels=(target,),
        top_labels=None,
        hide_color=0,
        num_samples=samples,
        segmentation_fn=lambda image: labels.numpy(),
        random_seed=0,
    )
    weights = np.zeros(explanation.segments.max() + 1)
    for superpixel, weight in explanation.local_exp[target]:
        weights[superpixel] = weight
    return explanation, torch.from_numpy(weights[explanation.segments]).float()


@pytest.mark.parametrize("segments", ["quickshift", "quickshift-inputs", "slic", "grid"])
def test_lime_is_the_lime_packages(problem: Problem, segments: str) -> None:
    maps = Lime(samples=150, segments=segments, fill=BLACK)(
        problem.classifier, problem.inputs, problem.targets, rng=problem.rng
    )
    labels = superpixels(problem.classifier, problem.inputs, segments)
    for row in range(3):
        _, expected = package(problem, row, 150, labels[row])
        assert_same(maps[row], expected)


@pytest.mark.slow
def test_lime_on_a_photograph_is_the_lime_packages(photograph: Problem) -> None:
    maps = Lime(samples=40, fill=BLACK)(photograph.classifier, photograph.inputs, photograph.targets, rng=photograph.rng)
    image = photograph.classifier.to_pixels(photograph.inputs)[0].permute(1, 2, 0).double().numpy()
    cut = lime_image.SegmentationAlgorithm("quickshift", kernel_size=4, max_dist=200, ratio=0.2, random_seed=0)(image)
    labels = superpixels(photograph.classifier, photograph.inputs, "quickshift")[0]
    assert torch.equal(labels, torch.from_numpy(cut))
    _, expected = package(photograph, 0, 40, labels)
    assert_same(maps[0], expected)


def test_what_lime_shows_of_its_weights(problem: Problem) -> None:
    def shown(show: str) -> Tensor:
        method = Lime(samples=100, segments="grid", show=show, fill=BLACK)
        return method(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)

    weights, ternary = shown("weight"), shown("ternary")
    assert torch.equal(shown("positive"), weights.clamp_min(0))
    labels = superpixels(problem.classifier, problem.inputs, "grid")
    for row in range(3):
        explanation, _ = package(problem, row, 100, labels[row])
        _, mask = explanation.get_image_and_mask(
            int(problem.targets[row]), positive_only=False, num_features=10, hide_rest=False
        )
        assert torch.equal(ternary[row], torch.from_numpy(mask).float())


def test_regressions_of_many_images_are_the_lime_packages_one_by_one() -> None:
    rng = np.random.default_rng(0)
    counts, samples = (5, 17, 1, 9), 60
    kept = torch.zeros(len(counts), samples, max(counts), dtype=torch.float64)
    outputs = torch.from_numpy(rng.normal(size=(len(counts), samples)))
    for row, count in enumerate(counts):
        kept[row, :, :count] = torch.from_numpy(rng.integers(0, 2, (samples, count)))
        kept[row, 0, :count] = 1
        kept[row, 1] = 0  # a copy that keeps nothing lies at distance 1
    coefficients = surrogate(kept, outputs)
    base = lime_base.LimeBase(lambda distances: np.sqrt(np.exp(-(distances**2) / 0.25**2)), random_state=0)
    for row, count in enumerate(counts):
        data = kept[row, :, :count].numpy()
        distances = pairwise_distances(data, data[:1], metric="cosine").ravel()
        _, weights, _, _ = base.explain_instance_with_data(
            data, outputs[row, :, None].numpy(), distances, 0, count, feature_selection="none"
        )
        expected = torch.zeros(max(counts), dtype=torch.float64)
        for superpixel, weight in weights:
            expected[superpixel] = weight
        torch.testing.assert_close(coefficients[row], expected, rtol=0, atol=1e-10)
        assert bool((coefficients[row, count:] == 0).all())


def test_lime_finds_the_weights_of_a_linear_output() -> None:
    kept = draw(Rng(seed=0, ids=("a",)), 4000, 6)[None].double()
    truth = torch.tensor([3.0, -2.0, 0.0, 1.0, 0.5, -0.1], dtype=torch.float64)
    torch.testing.assert_close(
        surrogate(kept, kept @ truth - 7)[0], truth, rtol=0, atol=0.02
    )  # the penalty shrinks a little


def test_presets_of_lime_are_the_papers_settings() -> None:
    assert METHODS.parse("lime@cose2023") == Lime(segments="quickshift-inputs", show="ternary")
    assert METHODS.parse("lime@boggust2023") == Lime(segments="quickshift-inputs", show="positive")
    assert Lime().samples == 1000


# Kernel SHAP --------------------------------------------------------------------------------------------------------


class Tangled(nn.Module):
    """A random network on images of 2×4, whose eight pixels are eight superpixels of the grid."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(4)
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(24, 40), nn.Tanh(), nn.Linear(40, CLASSES))

    def forward(self, inputs: Tensor) -> Tensor:
        return 3 * self.layers(inputs)


@pytest.fixture
def tangled() -> Problem:
    rng = Rng(seed=2, ids=("a", "b"))
    net, inputs = Tangled(), 2 * rng.normal("images", (3, 2, 4))
    return Problem(net=net, classifier=Classifier(net), inputs=inputs, targets=torch.tensor([1, 2]), rng=rng)


def game(problem: Problem, row: int):
    """What a coalition of the eight pixels of one image is worth."""

    def worth(kept: np.ndarray) -> np.ndarray:
        masks = torch.from_numpy(np.asarray(kept)).float().view(-1, 1, 2, 4)
        return problem.classifier.logits(problem.inputs[row] * masks)[:, problem.targets[row]].double().numpy()

    return worth


def exact(worth, count: int) -> np.ndarray:
    """Shapley's sum over all coalitions, as it is defined."""
    values = {members: worth(np.array([[player in members for player in range(count)]]))[0]
              for size in range(count + 1) for members in itertools.combinations(range(count), size)}  # fmt: skip
    shapley = np.zeros(count)
    for player in range(count):
        for members, value in values.items():
            if player not in members:
                weight = 1 / (count * math.comb(count - 1, len(members)))
                shapley[player] += weight * (values[tuple(sorted((*members, player)))] - value)
    return shapley


def test_kernel_shap_with_all_coalitions_is_exact_and_is_that_of_shap(tangled: Problem) -> None:
    with tangled.classifier.counting() as ledger:
        maps = KernelShap(samples=254, segments="grid")(tangled.classifier, tangled.inputs, tangled.targets, rng=tangled.rng)
    assert ledger.passes.forward == 2 * 2**8
    for row in range(2):
        expected = exact(game(tangled, row), 8)
        assert_same(maps[row].flatten(), torch.from_numpy(expected).float())
        twin = shap.KernelExplainer(game(tangled, row), np.zeros((1, 8)))
        theirs = twin.shap_values(np.ones((1, 8)), nsamples=254, l1_reg=False, silent=True)[0]
        np.testing.assert_allclose(theirs, expected, atol=1e-5)


def test_kernel_shap_with_few_coalitions_is_near(tangled: Problem) -> None:
    maps = KernelShap(samples=120, segments="grid")(tangled.classifier, tangled.inputs, tangled.targets, rng=tangled.rng)
    for row in range(2):
        expected = exact(game(tangled, row), 8)
        assert 1e-4 < np.abs(maps[row].flatten().numpy() - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("samples", [60, 200])
def test_paired_coalitions_are_exact_for_games_of_pairs(samples: int) -> None:
    # Where superpixels act alone or two at a time, worth(S) - worth(rest) is linear in S: pairs see nothing else.
    count, rng = 24, np.random.default_rng(3)
    alone, pairs = rng.normal(size=count), np.triu(rng.normal(size=(count, count)), 1)
    kept, weights = coalitions(count, samples, Rng(seed=0, ids=("a",)))
    assert len(kept) == samples
    member = kept.double().numpy()
    rises = member @ alone + np.einsum("si,ij,sj->s", member, pairs, member)
    whole = torch.tensor([alone.sum() + pairs.sum()], dtype=torch.float64)
    values = shapley(kept[None].double(), weights[None], torch.from_numpy(rises)[None], whole, torch.tensor([count]))
    np.testing.assert_allclose(values[0], alone + (pairs.sum(axis=0) + pairs.sum(axis=1)) / 2, atol=1e-9)


@pytest.mark.parametrize(("count", "samples"), [(2, 50), (5, 20), (6, 1000), (9, 200), (12, 333), (30, 1000), (200, 64)])
def test_coalitions_weigh_what_the_kernel_says(count: int, samples: int) -> None:
    kept, weights = coalitions(count, samples, Rng(seed=0, ids=("a",)))
    size = kept.sum(dim=1)
    assert len(kept) == min(samples, 2**count - 2)
    assert bool(((size > 0) & (size < count)).all())
    kernel = {n: 1 / (n * (count - n)) for n in range(1, count)}
    assert float(weights.sum()) == pytest.approx(sum(kernel.values()))
    if samples >= 2**count - 2:
        assert len(kept.unique(dim=0)) == len(kept)
        for n, mass in kernel.items():
            assert float(weights[size == n].sum()) == pytest.approx(mass)


def test_every_image_of_a_batch_has_its_own_regression() -> None:
    rng, blocks = np.random.default_rng(0), []
    for count in (3, 11, 1):
        kept, weights = coalitions(count, 40, Rng(seed=0, ids=("a",)))
        blocks.append((kept, weights, torch.from_numpy(rng.normal(size=len(kept))), float(rng.normal())))
    rows, columns, counts = max(len(block[0]) for block in blocks), 11, torch.tensor([3, 11, 1])
    together = shapley(
        cutting.pad_blocks([block[0] for block in blocks], (rows, columns)),
        cutting.pad_blocks([block[1] for block in blocks], (rows,)),
        cutting.pad_blocks([block[2] for block in blocks], (rows,)),
        torch.tensor([block[3] for block in blocks], dtype=torch.float64),
        counts,
    )
    for row, (count, (kept, weights, rises, whole)) in enumerate(zip(counts.tolist(), blocks, strict=True)):
        assert float(together[row].sum()) == pytest.approx(whole)
        assert bool((together[row, count:] == 0).all())
        # The same by the other road: the last value is what the others leave, and the rest is plain least squares.
        root = weights.sqrt()[:, None]
        last = kept[:, -1:].double()
        design, aim = root * (kept[:, :-1].double() - last), root * (rises[:, None] - last * whole)
        expected = torch.linalg.lstsq(design, aim).solution[:, 0] if count > 1 else torch.empty(0).double()
        torch.testing.assert_close(together[row, : count - 1], expected, rtol=1e-8, atol=1e-10)


def test_fewer_coalitions_than_superpixels_still_sum_to_the_rise(problem: Problem) -> None:
    maps = KernelShap(samples=10, segments="grid")(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)
    ends = torch.stack([problem.classifier.logits(images) for images in (torch.zeros_like(problem.inputs), problem.inputs)])
    rise = (ends[1] - ends[0]).gather(1, problem.targets[:, None])[:, 0]
    torch.testing.assert_close(maps.sum(dim=(1, 2)), rise, rtol=1e-4, atol=1e-5)


# Superpixels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["quickshift", "quickshift-inputs", "slic", "grid"])
@pytest.mark.parametrize(("channels", "height", "width"), [(3, 24, 24), (1, 30, 17), (3, 60, 90)])
def test_superpixels_are_numbered_without_gaps(how: str, channels: int, height: int, width: int) -> None:
    rng = Rng(seed=0, ids=("a", "b"))
    classifier = Classifier(nn.Flatten(), mean=0.5, std=0.25, channels=channels)
    labels = superpixels(classifier, classifier.to_inputs(rng.uniform("images", (channels, height, width))), how)
    assert labels.shape == (2, height, width)
    for segments in labels:
        assert segments.unique().tolist() == list(range(int(segments.max()) + 1))
        assert int(segments.max()) > 0
    if how == "grid":
        assert int(labels.max()) == 48
        sizes = labels[0].flatten().bincount()
        assert int(sizes.max()) <= math.ceil(height / 7) * math.ceil(width / 7)


def test_an_image_is_segmented_once_and_few_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = []
    real = cutting._segment
    monkeypatch.setattr(cutting, "_segment", lambda picture, how: cuts.append(how) or real(picture, how))
    monkeypatch.setattr(cutting, "_cache", type(cutting._cache)())
    monkeypatch.setattr(cutting, "CACHED_IMAGES", 5)
    classifier = Classifier(nn.Flatten())
    images = Rng(seed=0, ids=tuple("abcdefgh")).uniform("images", (3, 8, 8))
    first = superpixels(classifier, images[:4], "slic")
    assert torch.equal(superpixels(classifier, images[:4].flip(0), "slic").flip(0), first)
    assert len(cuts) == 4
    superpixels(classifier, images[:4], "grid")
    assert cuts == ["slic"] * 4 + ["grid"] * 4
    superpixels(classifier, images, "slic")
    assert len(cutting._cache) == 5
