"""Scores of maps: worked by hand, against the numbers of the paper and its code, and against plain loops."""

from __future__ import annotations

import itertools
import math

import cv2
import matplotlib
import numpy as np
import pytest
import torch
from tests.textbox.scenes_by_hand import exam_of

from snellen.errors import SnellenError
from snellen.textbox.exam.exam_scenes import ExamScenes
from snellen.textbox.exam.rendering import COLOURED, render
from snellen.textbox.exam.scoring import READINGS, SCORES, ScoreReading, find_reading, oracle_maps, score

BOX1, BOX2, TEXT = (10, 10, 20, 20), (40, 40, 44, 44), (30, 10, 45, 23)


def test_a_four_by_four_by_hand() -> None:
    exam = exam_of([[(0, 0, 1, 2)]], [[(3, 0, 4, 4)]], side=4)
    maps = torch.tensor([[[4.0, -3, 2, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 5, 0, -2]]])
    scores = {name: float(values[0]) for name, values in score(exam, maps, "own").items()}
    # 16 in all, 7 of it in focus and 7 to be avoided; the two largest are 5 (avoid) and 4 (focus).
    expected = {"pafl": 7 / 16, "safl": 7 / 16, "piou": 1 / 3, "siou": 1 / 5, "pmafl": 7 / 32, "smafl": 7 / 64}
    assert scores == pytest.approx(expected)


def test_the_toy_of_figure_14() -> None:
    text, box1 = (20, 20, 39, 33), (45, 45, 55, 55)  # 19 × 13 = 247 pixels, as in the paper, and 100
    exam = exam_of([[text]], [[box1]])
    maps = torch.full((1, 64, 64), 0.001)
    maps[exam.focus], maps[exam.avoid] = 1.0, 0.8
    scores = score(exam, maps, "toy")
    assert int(exam.focus.sum()) == 247
    assert scores["pafl"][0] == pytest.approx(0.75, abs=0.005)
    assert scores["safl"][0] == pytest.approx(0.24, abs=0.005)
    assert (scores["piou"][0], scores["siou"][0]) == (1.0, 0.0)


def test_a_perfect_map_is_perfect_in_the_paper_and_is_not_in_its_code() -> None:
    exam = exam_of([[BOX2], [BOX1], [BOX1, BOX2]], [[BOX1], [BOX2], [TEXT]])
    paper = score(exam, oracle_maps(exam), "oracle")
    assert paper["pafl"] == pytest.approx([1, 1, 1])
    assert paper["piou"].tolist() == [1, 1, 1]
    assert paper["safl"].tolist() == paper["siou"].tolist() == [0, 0, 0]
    assert paper["pmafl"] == pytest.approx([1 / 16, 1 / 100, 1 / 116])
    code = score(exam, oracle_maps(exam), "oracle", reading="published-code")
    # A window of 7 moves all but 4/7 of a side of 4, and all but 58/70 of a side of 10, out of the box.
    box2, box1 = (4 / 7) ** 2, (58 / 70) ** 2
    assert code["pafl"] == pytest.approx([box2, box1, (100 * box1 + 16 * box2) / 116])
    assert code["pafl"] == pytest.approx([0.327, 0.687, 0.64], abs=0.005)
    assert code["piou"][2] < 0.5  # two things can never both fill the salient pixels
    inner = torch.zeros(3, 64, 64)
    inner[:, 13:17, 13:17] = 1  # so far from the edge of box1 that nothing is blurred over it: more than the perfect map has
    assert score(exam, inner, "oracle", reading="published-code")["pafl"][1:] == pytest.approx([1, 1])


def test_equal_pixels_share_the_score_of_all_their_orders() -> None:
    exam = exam_of([[(0, 0, 1, 2)]], [[(1, 0, 2, 1)]], side=2)
    maps = torch.tensor([[[3.0, 1], [1, 1]]])
    scores = score(exam, maps, "own")
    # The first is taken for sure, and one of three: the other one of the focus, the one to be avoided, or neither.
    assert scores["piou"][0] == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)
    assert scores["siou"][0] == pytest.approx((0 + 1 / 2 + 0) / 3)
    flat = score(exam, torch.ones(1, 2, 2), "own")
    chances = {0: 1 / 6, 1: 4 / 6, 2: 1 / 6}  # two of four, of which two are marked
    assert flat["piou"][0] == pytest.approx(sum(chance * hits / (4 - hits) for hits, chance in chances.items()))


@pytest.mark.parametrize("reading", READINGS)
def test_what_is_undefined_is_nan(reading: ScoreReading) -> None:
    exam = exam_of([[BOX1], [BOX1], [BOX1], [], [BOX1], []], [[BOX2], [BOX2], [BOX2], [BOX2], [], []])
    maps = torch.rand(6, 64, 64, generator=torch.Generator().manual_seed(1))
    maps[0], maps[1, 5, 5], maps[2, 5, 5] = 0, torch.nan, torch.inf
    scores = score(exam, maps, "own", reading=reading)
    assert tuple(scores) == SCORES
    assert all(np.isnan(values[:3]).all() for values in scores.values())
    assert all(np.isnan(values[5]) for values in scores.values())
    for name in ("pafl", "pmafl", "piou"):
        assert np.isnan(scores[name][3])
        assert not np.isnan(scores[name][4])
    for name in ("safl", "smafl"):
        assert not np.isnan(scores[name][3])
    # How many pixels to take is unknown without a focus; the code takes the uppermost bin of values then.
    assert np.isnan(scores["siou"][3]) == (reading == "paper")
    assert all(np.isnan(scores[name][4]) for name in ("safl", "smafl", "siou"))
    rest = exam_of([[BOX1]], [[BOX2]])
    flat = score(rest, torch.full((1, 64, 64), 0.3), "own", reading=reading)
    assert np.isnan(flat["pafl"][0]) == (reading == "published-code")  # a picture without contrast


@pytest.mark.parametrize("reading", READINGS)
def test_neither_unit_nor_company_of_a_map_moves_its_scores(reading: ScoreReading) -> None:
    exam = exam_of([[BOX1], [BOX2, TEXT]], [[TEXT], [BOX1]])
    maps = torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    scores = score(exam, maps, "integrated-gradients", reading=reading)
    scaled = score(exam, maps * 1e-6, "integrated-gradients", reading=reading)
    alone = score(exam_of([[BOX1]], [[TEXT]]), maps[:1].numpy(), "integrated-gradients", reading=reading)
    for name in SCORES:
        assert scaled[name] == pytest.approx(scores[name], rel=1e-9)
        assert alone[name] == pytest.approx(scores[name][:1], rel=1e-12)
    if reading == "paper":  # evidence against counts as much as evidence for
        assert score(exam, -maps, "integrated-gradients")["pafl"] == pytest.approx(scores["pafl"], rel=1e-12)


def test_colours_are_those_of_seismic() -> None:
    values = torch.tensor([0, 0.25, -0.25, 0.5, -0.5, 1, -1], dtype=torch.float64)
    scores = render(values[None, None], torch.tensor([1]), "lrp-epsilon").flatten().tolist()
    assert scores == pytest.approx([0, 0.33, 0.33, 0.67, 0.67, 0.83, 0.90], abs=0.012)
    colours = matplotlib.colormaps["seismic"](np.arange(256))[:, :3]
    ramp = torch.linspace(-1, 1, 4001, dtype=torch.float64)
    expected = 1 - colours.mean(axis=1)[((ramp.numpy() + 1) / 2 * 255).astype(int)]
    assert render(ramp[None, None], torch.tensor([1]), "lrp-z")[0, 0].numpy() == pytest.approx(expected, abs=1e-12)


def test_how_the_code_draws_each_kind_of_method() -> None:
    saliency = torch.tensor([[[-2.0, 0, 1, 4]]])

    def drawn(method: str) -> list[float]:
        return [float(value) for value in render(saliency, torch.tensor([1]), method).flatten()]

    assert drawn("deepshap(backgrounds=5)") == pytest.approx([0, 1 / 3, 1 / 2, 1])
    assert drawn("gradient@kim2022") == pytest.approx([127 / 255, 0, 63 / 255, 1])
    low, high = np.percentile(saliency.numpy(), [1, 99])
    assert drawn("guided-backprop") == pytest.approx([(low / high + 1) / 2, 0.5, (1 / high + 1) / 2, 1])
    assert drawn("grad-cam") == drawn("mypackage:Own") == drawn("oracle") == [-2, 0, 1, 4]
    assert drawn("occlusion") == drawn("lrp-z")  # signed, and unknown to the code


def test_a_bucket_is_clipped_together() -> None:
    maps = torch.zeros(2, 10, 10)
    maps[0, 0, 0], maps[1] = 100.0, torch.arange(100.0).reshape(10, 10)
    together = render(maps, torch.tensor([4, 4]), "deconvnet")
    apart = render(maps, torch.tensor([4, 5]), "deconvnet")
    assert not torch.allclose(together, apart)
    assert float(apart[1].max()) == 1.0


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("method", ["integrated-gradients", "guided-backprop", "deepshap", "gradient", "grad-cam"])
def test_the_loops_agree(reading: ScoreReading, method: str) -> None:
    side = 16
    focus = [[(1, 1, 5, 6)], [(0, 9, 4, 13), (8, 2, 12, 5)], [], [(11, 11, 16, 16)]]
    avoid = [[(10, 3, 13, 9), (0, 12, 2, 16)], [], [(4, 4, 9, 9)], [(0, 0, 3, 3)]]
    exam = exam_of(focus, avoid, side=side, buckets=[1, 1, 2, 2])
    generator = torch.Generator().manual_seed(len(method))
    fine = torch.randn(4, side, side, generator=generator, dtype=torch.float64)
    for maps in (fine, (2 * fine).round()):  # the rounded ones have many equal pixels
        scores = score(exam, maps, method, reading=reading)
        for row in range(4):
            expected = (
                paper_twin(maps[row].tolist(), focus[row], avoid[row])
                if reading == "paper"
                else code_twin(maps, exam, row, method, focus[row], avoid[row])
            )
            assert {name: scores[name][row] for name in SCORES} == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


def test_the_blur_is_that_of_opencv() -> None:
    picture = np.random.default_rng(3).random((20, 20))
    assert np.array(soft(picture.tolist())) == pytest.approx(cv2.blur(picture, (7, 7)))


def test_mistakes_get_a_sentence() -> None:
    exam = exam_of([[BOX1], [BOX2]], [[], []])
    with pytest.raises(SnellenError, match="the maps of own are 1 × 64 × 64, but its exam has scenes of 2 × 64 × 64"):
        score(exam, torch.zeros(1, 64, 64), "own")
    assert find_reading("published-code") == "published-code"
    with pytest.raises(SnellenError, match="no reading 'papers'; did you mean 'paper'"):
        find_reading("papers")


# The same in plain loops.


def inside(boxes: list[tuple[int, int, int, int]]) -> list[tuple[int, int]]:
    return [
        place for top, left, bottom, right in boxes for place in itertools.product(range(top, bottom), range(left, right))
    ]


def levels(shares: list[list[float]], boxes: list[tuple[int, int, int, int]]) -> tuple[float, float]:
    values = [shares[down][across] for down, across in inside(boxes)]
    return (sum(values), sum(values) / len(values)) if values else (math.nan, math.nan)


def paper_twin(
    values: list[list[float]], focus: list[tuple[int, int, int, int]], avoid: list[tuple[int, int, int, int]]
) -> dict[str, float]:
    total = sum(abs(value) for row in values for value in row)
    shares = [[abs(value) / total for value in row] for row in values]
    scores = {}
    area = len(inside(focus))
    order = sorted(itertools.product(range(len(values)), repeat=2), key=lambda place: -abs(values[place[0]][place[1]]))
    for initial, boxes in (("p", focus), ("s", avoid)):
        scores[f"{initial}afl"], scores[f"{initial}mafl"] = levels(shares, boxes)
        marked = set(inside(boxes))
        if not area or not marked:
            scores[f"{initial}iou"] = math.nan
            continue
        least = abs(values[order[area - 1][0]][order[area - 1][1]])
        higher = [place for place in order if abs(values[place[0]][place[1]]) > least]
        equal = [place for place in order if abs(values[place[0]][place[1]]) == least]
        sure, maybe, taken = len(marked & set(higher)), len(marked & set(equal)), area - len(higher)
        scores[f"{initial}iou"] = sum(
            math.comb(maybe, hits)
            * math.comb(len(equal) - maybe, taken - hits)
            / math.comb(len(equal), taken)
            * (sure + hits)
            / (area + len(marked) - sure - hits)
            for hits in range(min(maybe, taken) + 1)
        )
    return scores


def code_twin(
    maps: torch.Tensor,
    exam: ExamScenes,
    row: int,
    method: str,
    focus: list[tuple[int, int, int, int]],
    avoid: list[tuple[int, int, int, int]],
) -> dict[str, float]:
    bucket = maps[exam.buckets == exam.buckets[row]].flatten().tolist()
    picture = soft(draw(maps[row].tolist(), bucket, method))
    flat = [value for line in picture for value in line]
    low, high = min(flat), max(flat)
    light = [[(value - low) / (high - low) for value in line] for line in picture]
    total = sum(value for line in light for value in line)
    shares = [[value / total for value in line] for line in light]
    counts, edges = np.histogram(flat)
    seen, threshold = 0, low
    for bin_ in reversed(range(10)):
        seen += counts[bin_]
        if seen >= len(inside(focus)):
            threshold = edges[bin_]
            break
    salient = {(i, j) for i, line in enumerate(picture) for j, value in enumerate(line) if value >= threshold}
    scores = {}
    for initial, boxes in (("p", focus), ("s", avoid)):
        scores[f"{initial}afl"], scores[f"{initial}mafl"] = levels(shares, boxes)
        each = [len(salient & set(inside([box]))) / len(salient | set(inside([box]))) for box in boxes]
        scores[f"{initial}iou"] = sum(each) / len(each) if each else math.nan
    return scores


def draw(values: list[list[float]], bucket: list[float], method: str) -> list[list[float]]:
    if method == "guided-backprop":
        low, high = np.percentile(bucket, [1, 99])
        values = [[min(max(value, low), high) for value in row] for row in values]
    largest = max(abs(value) for row in values for value in row)
    least, most = min(map(min, values)), max(map(max, values))

    def shade(value: float) -> float:
        if method in COLOURED:
            place = int((value / largest + 1) / 2 * 255) / 255
            blue_to_white, white_to_red = min(max(4 * place - 1, 0), 1), min(max(3 - 4 * place, 0), 1)
            red = blue_to_white if place <= 0.75 else 1 - 2 * (place - 0.75)
            blue = 0.3 + 2.8 * place if place <= 0.25 else white_to_red
            return 1 - (red + min(blue_to_white, white_to_red) + blue) / 3
        if method == "gradient":
            return int(abs(value) / largest * 255) / 255
        if method == "guided-backprop":
            return (value / largest + 1) / 2
        return (value - least) / (most - least) if method == "deepshap" else value

    return [[shade(value) for value in row] for row in values]


def soft(picture: list[list[float]]) -> list[list[float]]:
    side = len(picture)

    def mirrored(place: int) -> int:
        return -place if place < 0 else 2 * side - 2 - place if place >= side else place

    around = range(-3, 4)
    return [
        [
            sum(picture[mirrored(down + i)][mirrored(across + j)] for i in around for j in around) / 49
            for across in range(side)
        ]
        for down in range(side)
    ]
