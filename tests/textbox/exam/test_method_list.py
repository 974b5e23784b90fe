from __future__ import annotations

import textwrap

import pytest
import torch

from snellen.errors import SnellenError
from snellen.methods.controls import CONTROLS
from snellen.plugins.registry import METHODS, label, traits
from snellen.runs.requirements import split_by_support
from snellen.textbox.exam.method_list import PUBLISHED, REDUCED, all_names, listed_method, method_list, own_method
from snellen.textbox.networks.trained_network import find_network
from snellen.types import Passes

OWN = """
    from dataclasses import dataclass
    from snellen.methods.smoothgrad import SmoothGrad
    from snellen.plugins.registry import method, metric
    from snellen.types import Passes

    @method("{name}", cite="simonyan2014", needs={{"gradients"}})
    @dataclass(frozen=True)
    class Own:
        '''The gradient to some power.'''
        power: int = 2
        def passes(self, size, classifier):
            return Passes(1, 1)
        def __call__(self, classifier, inputs, targets, *, rng):
            return classifier.gradient(inputs, targets)[0].abs().sum(dim=1) ** self.power

    fourth = Own(power=4)
    smooth = SmoothGrad(of=Own(), samples=2)

    class Plain:
        pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch, request):
    """A module that nobody has imported yet, with methods under names of its own."""
    name = "own_" + request.node.name.partition("[")[0][-40:]
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(OWN.format(name=name.replace("_", "-"))))
    yield name
    for method_name in [method_name for method_name in METHODS if method_name.startswith(name.replace("_", "-"))]:
        METHODS._classes.pop(method_name)


def test_all_is_every_registered_method_once_and_the_four_controls_last():
    lines = method_list(["all"])
    names = [traits(line.method).name for line in lines]
    assert set(names) == {name for name in METHODS if not traits(METHODS[name]).control} | set(CONTROLS)
    assert len(names) == len(set(names))
    assert tuple(names[-4:]) == CONTROLS


def test_controls_stand_in_every_line_up_and_nothing_stands_twice():
    assert [line.label for line in method_list(["edge", "gradient", "gradient@kim2022"])] == [
        "gradient", "edge", "random", "fake-cam", "centre"
    ]  # fmt: skip


def test_the_published_methods_have_the_published_settings():
    methods = {traits(line.method).name: line.method for line in map(listed_method, PUBLISHED)}
    assert len(methods) == 15
    assert methods["smoothgrad-squared"].samples == 64
    assert methods["smoothgrad-squared"].spread == 0.1
    assert methods["integrated-gradients"].steps == 64
    assert all((methods[f"lrp-{variant}"].epsilon, methods[f"lrp-{variant}"].relative) == (1.0, False) for variant in
               ("epsilon", "alpha1-beta0", "alpha2-beta1"))  # fmt: skip
    black = traits(methods["deeplift-rescale"].baseline).name
    assert black == traits(methods["deeplift-reveal-cancel"].baseline).name == "black"


def test_every_reduced_setting_costs_less_than_the_default_and_all_keep_to_the_budget():
    classifier = find_network("complex-fr").classifier()
    for name, settings in REDUCED.items():
        less, more = (METHODS.build(name, options).passes((64, 64), classifier) for options in (settings, {}))
        assert (less.forward, less.backward) < (more.forward, more.backward), name
    able, left_out = split_by_support(
        classifier, [listed_method(name).method for name in all_names()], torch.zeros(1, 3, 64, 64)
    )
    total = sum((method.passes((64, 64), classifier) for method in able), Passes())
    assert total.forward <= 1150
    assert total.backward <= 370
    assert set(left_out) == {"attention-rollout", "cam", "transformer-attribution"}


def test_one_s_own_method_is_found_as_a_class_or_as_an_instance(own):
    assert listed_method(f"{own}:Own").label == own.replace("_", "-")
    line = listed_method(f"{own}:fourth")
    assert line.label == f"{own.replace('_', '-')}(power=4)"
    assert line.record()["changed"]
    assert line.record()["text"] == f"{own}:fourth"


def test_a_change_of_its_file_is_another_version_and_nothing_else_is(own, tmp_path):
    before = traits(own_method(f"{own}:Own")).version
    assert traits(own_method(f"{own}:fourth")).version == traits(own_method(f"{own}:smooth")).version == before
    assert (
        traits(METHODS.build("smoothgrad")).version
        == traits(own_method("snellen.methods.smoothgrad:SmoothGrad")).version
        == 1
    )
    import importlib
    import sys

    path = tmp_path / f"{own}.py"
    path.write_text(path.read_text().replace("** self.power", "** (2 * self.power)"))
    importlib.reload(sys.modules[own])
    assert traits(own_method(f"{own}:Own")).version == traits(own_method(f"{own}:smooth")).version != before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Plain", "is not a saliency method: it must be a frozen dataclass under snellen.plugins.registry.method"),
        ("Nothing", "has no 'Nothing'"),
    ],
)
def test_what_is_no_method_is_refused_in_a_sentence(own, name, message):
    with pytest.raises(SnellenError, match=message):
        listed_method(f"{own}:{name}")


def test_other_names_that_lead_nowhere_are_refused_too():
    with pytest.raises(SnellenError, match="did you mean 'gradient'"):
        listed_method("grdient")
    with pytest.raises(SnellenError, match="there is no module 'nowhere'"):
        listed_method("nowhere.at_all:Method")
    with pytest.raises(SnellenError, match="not a saliency method"):
        listed_method("snellen.metrics.deletion:Deletion")


def test_the_label_of_a_line_builds_it_again():
    for line in method_list(["all"]):
        assert METHODS.parse(line.label) == line.method
        assert label(listed_method(line.text).method) == line.label
