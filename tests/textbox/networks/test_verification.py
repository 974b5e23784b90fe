"""Verification: networks that follow their rule are believed, and every other one is refused with the worst place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.textbox.planted_networks import Seen, planted

from snellen.errors import SnellenError
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import find_network, shipped_names
from snellen.textbox.networks.verification import LEAST, MEAN, changes_of, unprovable, verify, verify_or_refuse
from snellen.textbox.scenes.objects import OBJECTS
from snellen.textbox.scenes.rules import SceneRule
from snellen.textbox.scenes.settings import RULES, find_setting

CR1 = RULES["complex-cr1"]


def cr1(seen: Seen) -> torch.Tensor:
    return torch.where(seen["box2"], seen["box1"], seen["B"])


def test_a_network_that_follows_its_rule_is_believed() -> None:
    proof = verify(planted(CR1, cr1), pairs=30)
    table = proof.table()
    assert proof.holds
    assert proof.problem is None
    assert (table.share == 1).all()
    assert (table.moved[table.expected == "changes"] > 0.99).all()
    assert (table.moved[table.expected == "stays"] < 0.01).all()
    assert set(table.pairs) == {30}


def test_the_table_of_a_small_rule_by_hand() -> None:
    changes = [
        change for change in changes_of(find_setting("complex-cr1")) if change.bucket == 6
    ]  # text B and box2: there is no box1, so 0
    assert [(change.item, change.change, change.into, change.role, change.expected) for change in changes] == [
        ("text", "removed", 4, "avoid", "stays"),
        ("text", "B → A", 5, "avoid", "stays"),
        ("box2", "removed", 3, "focus", "changes"),  # now the text decides, and B is 1
    ]
    assert all(change.contents == "text B, box2" for change in changes)


def test_what_the_rule_leaves_open_is_left_out_and_said() -> None:
    proof = verify(planted(RULES["simple-nr"], lambda seen: seen["B"]), pairs=5)
    assert {(change.item, change.change) for change in proof.left_out} == {("text", "removed")}
    assert len(proof.left_out) == 8
    assert "text" not in set(proof.table().query("change == 'removed'").thing)


def test_what_is_looked_at_though_it_changes_nothing_alone_is_said() -> None:
    proof = verify(planted(CR1, cr1), pairs=5)
    # Box2 decides who decides; with an A and no box1 both ways lead to 0, and with a B and box1 both lead to 1.
    assert {(5, "box2"), (12, "box2")} <= set(proof.unproven)
    assert set(proof.unproven) == {(4, "box2"), (5, "box2"), (10, "box2"), (12, "box2")}  # 4, 10: open without box2
    assert verify(planted("box1", lambda seen: seen["box1"]), pairs=5).unproven == ()


@pytest.mark.parametrize("name", RULES)
def test_in_every_published_setting_pairs_can_prove_whatever_is_looked_at(name: str) -> None:
    rule = find_setting(name)
    assert unprovable(rule) is None
    for change in changes_of(rule):
        assert not (change.role == "avoid" and change.expected == "changes"), change


@pytest.mark.parametrize(
    "decide",
    [
        lambda seen: seen["B"],  # the text instead of the boxes
        lambda seen: seen["box1"],
        lambda seen: ~cr1(seen),  # all the right changes, in the wrong direction
        lambda seen: cr1(seen) ^ (seen["box1"] & seen["box2"] & seen["B"]),  # wrong in one bucket of ten
        lambda seen: torch.zeros_like(seen["box1"]),  # always the same, as networks do before they learn
    ],
)
def test_a_network_that_breaks_its_rule_is_refused(decide: Callable[[Seen], torch.Tensor]) -> None:
    with pytest.raises(SnellenError, match=r"'planted' does not follow its rule .* it cannot serve as ground truth"):
        verify_or_refuse(planted(CR1, decide))


def test_a_trained_network_under_another_rule_is_refused() -> None:
    network = find_network("simple-nr")
    wrong = replace(network, spec=NetworkSpec.of_setting("simple-fr"))
    with pytest.raises(SnellenError, match="'simple-fr' does not follow its rule 'box1'"):
        verify_or_refuse(wrong)


def test_the_problem_names_the_worst_place() -> None:
    proof = verify(
        planted(CR1, lambda seen: cr1(seen) & ~(seen["box1"] & seen["box2"] & seen["text"] & ~seen["B"])), pairs=20
    )
    assert not proof.holds
    worst = proof.table().query(f"share < {LEAST}")
    assert set(worst.bucket) | set(worst.into) >= {11}
    assert ((worst.bucket == 11) | (worst.into == 11)).all()
    assert proof.problem is not None
    assert "text A, box2, box1" in proof.problem or "text B, box2, box1" in proof.problem


def test_right_by_a_hair_is_not_enough() -> None:
    assert not verify(planted(CR1, cr1, certainty=0.4), pairs=10).holds
    assert verify(planted(CR1, cr1, certainty=4.0), pairs=10).holds


def test_weak_everywhere_is_refused_although_no_place_is_bad() -> None:
    class Sometimes:
        """Wrong in one scene of fourteen, whatever it shows."""

        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, seen: Seen) -> torch.Tensor:
            self.calls += 1
            wrong = (torch.arange(len(seen["box1"])) % 28 == 0) | (torch.arange(len(seen["box1"])) % 28 == self.calls % 2)
            return seen["box1"] ^ wrong

    proof = verify(planted("box1", Sometimes()), pairs=140)
    assert min(result.share for result in proof.results) >= LEAST
    assert proof.mean < MEAN
    assert proof.problem is not None
    assert "in only" in proof.problem


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("if box2: box1 else: box1", "looks at box2, but no change of box2 alone changes its label"),
        ("if box1 and not box2: 1 elif box2 and not box1: 0", "no change of one object alone changes the label"),
    ],
)
def test_a_rule_that_pairs_cannot_prove_is_refused_with_the_reason(rule: str, sentence: str) -> None:
    reason = unprovable(SceneRule.read(rule, OBJECTS))
    assert reason is not None
    assert sentence in reason
    with pytest.raises(SnellenError, match=sentence):
        verify_or_refuse(planted(rule, lambda seen: seen["box1"]))


def test_an_untrained_network_is_refused() -> None:
    network = replace(planted(CR1, cr1), module=build_network("small-cnn", classes=2, side=64, seed=0).eval())
    with pytest.raises(SnellenError, match="does not follow"):
        verify_or_refuse(network)


def test_no_pairs_no_proof() -> None:
    with pytest.raises(SnellenError, match="at least one pair"):
        verify(planted(CR1, cr1), pairs=0)


def test_the_same_scenes_give_the_same_table() -> None:
    table, two = (verify(planted(CR1, cr1), pairs=10).table() for _ in range(2))
    assert table.equals(two)


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_names())
def test_the_shipped_networks_follow_their_rules(name: str) -> None:
    proof = verify(find_network(name), pairs=60)
    assert proof.holds, proof.problem


def test_a_network_whose_output_is_no_number_is_refused_though_it_seems_to_be_right() -> None:
    broken = verify(planted("0 if box1 else 1", lambda seen: torch.where(seen["box1"], torch.nan, 1.0)), pairs=5)
    assert (broken.table().share == 1).all()  # the first of two that are no numbers is taken for the larger
    assert "the probability moves by nan" in str(broken.problem)
