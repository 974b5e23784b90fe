"""The oracle as a method that metrics can call again."""

from __future__ import annotations

import pickle

import pytest
import torch

from snellen import Classifier
from snellen.errors import SnellenError
from snellen.plugins.registry import METHODS, label, spec
from snellen.textbox.exam.exam_scenes import draw_exam_scenes
from snellen.textbox.exam.oracle import Decoy, Oracle
from snellen.textbox.exam.scoring import score
from snellen.textbox.networks.trained_network import find_network
from snellen.types import Method, Rng

SETTING = "simple-nr"
ORACLE = Oracle(SETTING, per_bucket=2)


@pytest.fixture(scope="module")
def network():
    return find_network(SETTING)


@pytest.fixture(scope="module")
def sat(network):
    return draw_exam_scenes(network, per_bucket=2)


@pytest.fixture(scope="module")
def inputs(network, sat):
    return network.classifier().to_inputs(sat.scenes.pixels.float() / 255)


def test_it_scores_all_that_there_is(network, sat, inputs) -> None:
    maps = ORACLE(network.classifier(), inputs, sat.labels, rng=Rng(0, sat.ids))
    assert score(sat, maps, "oracle", reading="paper")["pafl"] == pytest.approx(1, abs=1e-12)
    order = torch.arange(len(sat)).flip(0)
    turned = ORACLE(network.classifier(), inputs[order], sat.labels[order], rng=Rng(0, sat.ids))
    assert torch.equal(turned, maps[order])


def test_its_decoy_has_the_same_values_elsewhere(network, sat, inputs) -> None:
    decoy = Decoy(ORACLE)
    maps = decoy(network.classifier(), inputs, sat.labels, rng=Rng(0, sat.ids))
    assert torch.equal(maps.flatten(1).sort().values, sat.focus.float().flatten(1).sort().values)
    assert score(sat, maps, "decoy", reading="paper")["pafl"].max() == 0
    assert (decoy.traits.control, "decoy" in METHODS) == (True, False)


def test_it_is_a_method_that_nobody_lists() -> None:
    assert isinstance(ORACLE, Method)
    assert METHODS.parse(ORACLE) is ORACLE
    assert "oracle" not in METHODS
    assert label(ORACLE) == "oracle(reasoner=simple-nr, per_bucket=2)"
    assert spec(ORACLE) == {"name": "oracle", "params": {"reasoner": SETTING, "per_bucket": 2, "seed": 4}}


def test_it_travels(network, sat, inputs) -> None:
    again = pickle.loads(pickle.dumps(ORACLE))
    assert again == ORACLE
    maps = again(network.classifier(), inputs, sat.labels, rng=Rng(1, sat.ids))
    assert torch.equal(maps, sat.focus.float())


def test_noise_light_and_masks_do_not_change_it(network, sat, inputs) -> None:
    noise = Rng(0, sat.ids).uniform("noise", tuple(inputs.shape[1:])) * 0.4 - 0.2
    for changed in (inputs + noise, 0.3 * inputs + 0.2, inputs * sat.focus[:, None]):
        assert torch.equal(ORACLE(network.classifier(), changed, sat.labels, rng=Rng(0, sat.ids)), sat.focus.float())


def test_what_nobody_knows_it_does_not_make_up(network, sat, inputs) -> None:
    classifier = network.classifier()
    rng = Rng(0, sat.ids)
    assert ORACLE(classifier, inputs.flip(3), sat.labels, rng=rng).isnan().all()
    assert ORACLE(classifier, torch.zeros_like(inputs), sat.labels, rng=rng).isnan().all()
    other = sat.labels.clone()
    other[0] = 1 - other[0]
    assert ORACLE(classifier, inputs, other, rng=rng).isnan().flatten(1).any(dim=1).nonzero().flatten().tolist() == [0]
    with pytest.raises(SnellenError, match="draws the truth of 'simple-nr', not of 'stranger'"):
        ORACLE(Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12288, 2)), name="stranger"), inputs,
               sat.labels, rng=rng)  # fmt: skip
