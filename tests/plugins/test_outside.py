"""Methods and metrics from a file, a module, a class, an instance or a plain function."""

from __future__ import annotations

import functools
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.named_code import code_origin, names_code
from snellen.plugins.outside import kind_of
from snellen.plugins.registry import METHODS, METRICS, UnknownNameError, label, method, metric, spec, traits
from snellen.runs.evaluate import evaluate
from snellen.runs.job import UnfinishedError
from snellen.runs.plan import parse_methods
from snellen.runs.score import score
from snellen.textbox.exam.method_list import method_list
from snellen.types import Passes, Rng

FILE = '''
from dataclasses import dataclass

import torch

from snellen.plugins.registry import method
from snellen.types import Passes


def brightness(classifier, inputs, targets, power: float = 1.0):
    """How bright each pixel is."""
    return inputs.mean(dim=1) ** power


def steep(classifier, inputs, targets, *, rng):
    inputs.requires_grad_()
    outputs = classifier.module(inputs).gather(1, targets[:, None])
    gradient, = torch.autograd.grad(outputs.sum(), inputs)
    return gradient.abs().sum(dim=1) + 0 * classifier.logits(inputs).sum()


def average(case):
    """The average of a map."""
    return case.maps.flatten(1).mean(dim=1)


average.higher_is_better = False
average.bounds = (0, 1)


class Scaled:
    """Brightness times a number."""

    def __init__(self, factor: int = 2):
        self.factor = factor

    def __call__(self, classifier, inputs, targets):
        return self.factor * inputs.mean(dim=1)


@method("own-brightness", cite="own", class_specific=False)
@dataclass(frozen=True)
class Registered:
    """Brightness."""

    factor: float = 1.0

    def passes(self, size, classifier):
        return Passes()

    def __call__(self, classifier, inputs, targets, *, rng):
        return self.factor * inputs.mean(dim=1)


ready = Registered(factor=3.0)
NUMBER = 7


def wrong_shape(classifier, inputs, targets):
    return inputs


def too_few(classifier):
    return None


def no_default(classifier, inputs, targets, steps):
    return None


def breaks(classifier, inputs, targets):
    raise RuntimeError("no luck")
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def explain(method, classifier: Classifier, rows: int = 2):
    inputs = torch.rand(rows, classifier.channels, 8, 8)
    targets = torch.zeros(rows, dtype=torch.long)
    return inputs, method(classifier, inputs, targets, rng=Rng(0, tuple("ab")[:rows]))


def test_a_function_in_a_file_is_a_method_with_cautious_traits(file):
    method = METHODS.parse(f"{file}:brightness(power=2)", load=True)
    assert label(method) == "mine.py:brightness(power=2.0)"
    assert spec(method) == {"name": "mine.py:brightness", "params": {"power": 2.0}}
    facts = traits(method)
    assert facts.summary == "How bright each pixel is."
    assert not any((facts.needs, facts.complete, facts.class_specific, facts.deterministic, facts.control))
    assert facts.family == "other"
    assert METHODS.parse(f"{file}:brightness(power=2)", load=True) == METHODS.parse(label(method))


def test_maps_of_a_function_and_of_a_class(file):
    classifier = Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3)))
    inputs, maps = explain(METHODS.parse(f"{file}:brightness", load=True), classifier)
    assert torch.equal(maps, inputs.mean(dim=1))
    inputs, maps = explain(METHODS.parse(f"{file}:Scaled(factor=3)", load=True), classifier)
    assert torch.equal(maps, 3 * inputs.mean(dim=1))
    inputs, maps = explain(METHODS.parse(f"{file}:ready", load=True), classifier)
    assert torch.equal(maps, 3 * inputs.mean(dim=1))


def test_a_function_may_differentiate_and_its_passes_are_counted(file):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3))
    classifier = Classifier(network)
    method = METHODS.parse(f"{file}:steep", load=True)
    with torch.no_grad():
        inputs, maps = explain(method, classifier)
    assert not inputs.requires_grad
    assert torch.allclose(maps[0], network[1].weight[0].abs().view(3, 8, 8).sum(dim=0))
    assert method.passes((8, 8), classifier).forward == 1


def test_a_function_is_a_metric_that_states_its_direction(file):
    metric = METRICS.parse(f"{file}:average", load=True)
    assert label(metric) == "mine.py:average"
    assert not traits(metric).higher_is_better
    assert traits(metric).bounds == (0.0, 1.0)


def test_a_registered_class_keeps_its_name_and_changes_with_its_file(file):
    before = METHODS.parse(f"{file}:Registered(factor=2)", load=True)
    assert label(before) == "own-brightness(factor=2.0)"
    file.write_text(FILE + "\n# changed\n")
    after = METHODS.parse(f"{file}:Registered(factor=2)", load=True)
    assert traits(before).version != traits(after).version


@pytest.mark.parametrize("text", ["{}:brightness", "smoothgrad(of={}:brightness)", "smoothgrad(of={}:Registered)"])
def test_a_changed_file_is_another_method_also_inside_another(file, text):
    before = METHODS.parse(text.format(file), load=True)
    assert traits(METHODS.parse(text.format(file), load=True)).version == traits(before).version
    file.write_text(FILE.replace("inputs.mean(dim=1)", "inputs.amax(dim=1)"))
    assert traits(METHODS.parse(text.format(file), load=True)).version != traits(before).version


def test_functions_classes_and_instances_in_python():
    def flat(classifier, inputs, targets):
        return torch.ones_like(inputs[:, 0])

    @dataclass(frozen=True)
    class Undecorated:
        value: float = 2.0

        def __call__(self, classifier, inputs, targets):
            return torch.full_like(inputs[:, 0], self.value)

    classifier = Classifier(lambda inputs: inputs.flatten(1)[:, :3])
    assert explain(METHODS.parse(flat), classifier)[1].unique().tolist() == [1.0]
    assert explain(METHODS.parse(Undecorated), classifier)[1].unique().tolist() == [2.0]
    assert explain(METHODS.parse(Undecorated(5.0)), classifier)[1].unique().tolist() == [5.0]
    assert traits(METHODS.parse(Undecorated(5.0))).version != traits(METHODS.parse(Undecorated(6.0))).version
    assert METHODS.parse(type(METHODS.build("random"))) == METHODS.build("random")


def test_wrapped_functions_travel_to_workers(file):
    classifier = Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3)))
    for name in ("brightness", "Scaled", "Registered", "ready"):
        method = METHODS.parse(f"{file}:{name}", load=True)
        copied = cloudpickle.loads(cloudpickle.dumps(method))
        torch.manual_seed(0)
        first = explain(method, classifier)[1]
        torch.manual_seed(0)
        assert torch.equal(explain(copied, classifier)[1], first)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("too_few", "takes 1 argument; a function is called with classifier, inputs, targets"),
        ("no_default", "the argument 'steps' needs a default"),
        ("NUMBER", "is not a saliency method"),
        ("brightnes", "did you mean 'brightness'"),
        ("ready(factor=2)", "is an instance with settings of its own"),
        ("brightness(powr=2)", "has no setting 'powr'; did you mean 'power'?"),
        ("brightness(power=x)", "power must be a number"),
        ("", "is not written as package.module:function or file.py:name"),
    ],
)
def test_mistakes_are_sentences(file, name, sentence):
    with pytest.raises(SnellenError) as caught:
        METHODS.parse(f"{file}:{name}", load=True)
    assert sentence in str(caught.value)


def test_a_file_without_a_name_and_a_method_as_a_metric_are_explained(file):
    with pytest.raises(SnellenError, match=r"unknown method '.*mine.py'; name what is in the file: .*mine.py:f"):
        METHODS.parse(str(file), load=True)
    with pytest.raises(SnellenError, match="the argument 'inputs' needs a default, because a metric is called with case"):
        METRICS.parse(f"{file}:steep", load=True)


def test_a_function_that_fails_or_gives_another_shape_is_met_before_computing(file):
    classifier = Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3)))
    with pytest.raises(
        SnellenError, match="gave maps of 1×3×8×8, but it must give one number per pixel of each image, 1×8×8"
    ):
        METHODS.parse(f"{file}:wrong_shape", load=True).passes((8, 8), classifier)
    with pytest.raises(SnellenError, match=r"failed on a grey image of 8×8 \(RuntimeError: no luck\)"):
        METHODS.parse(f"{file}:breaks", load=True).passes((8, 8), classifier)


def test_a_missing_file_and_a_broken_file_are_sentences(tmp_path):
    with pytest.raises(SnellenError, match="cannot be read"):
        METHODS.parse(f"{tmp_path}/none.py:f", load=True)
    (tmp_path / "broken.py").write_text("1 +")
    with pytest.raises(SnellenError, match=r"importing '.*' failed"):
        METHODS.parse(f"{tmp_path}/broken.py:f", load=True)


def test_nothing_is_executed_without_load(file, tmp_path):
    marker = tmp_path / "executed"
    file.write_text(f"open({str(marker)!r}, 'w').close()\ndef untouched(classifier, inputs, targets): return None\n")
    name = f"{file}:untouched"
    for text in (name, f"smoothgrad(of={name})", {"name": name}, {"name": "smoothgrad", "params": {"of": name}}):
        with pytest.raises(UnknownNameError):
            METHODS.parse(text)
    assert not marker.exists()


def test_functions_of_users_are_not_listed(file):
    names = list(METHODS)
    METHODS.parse(f"{file}:brightness", load=True)
    assert [name for name in METHODS if name != "own-brightness"] == [name for name in names if name != "own-brightness"]


def test_where_code_is(file):
    assert code_origin(f"{file}:f") == str(file.resolve())
    assert names_code("a.b:c(d=1)")
    assert not names_code("rise(fill=a:b)")
    assert not names_code(7)


def test_a_registered_method_by_its_name_keeps_its_version():
    @method("own-installed", cite="own", class_specific=False)
    @dataclass(frozen=True)
    class Installed:
        """Brightness."""

        factor: float = 1.0

        def passes(self, size, classifier):
            return Passes()

        def __call__(self, classifier, inputs, targets, *, rng):
            return self.factor * inputs.mean(dim=1)

    try:
        for text in (
            "own-installed(factor=2.5)",
            "smoothgrad(of=own-installed, samples=2)",
            "rise(masks=5)",
            Installed(3.0),
        ):
            assert traits(METHODS.parse(text, load=True)).version == 1
    finally:
        del METHODS._classes["own-installed"]


@pytest.mark.parametrize("text", ["{}:Registered(factor=2)", "smoothgrad(of={}:brightness)", "smoothgrad(of={}:Registered)"])
def test_what_a_run_stores_is_built_with_the_same_version(file, text):
    built = METHODS.parse(text.format(file), load=True)
    assert traits(METHODS.parse(spec(built))).version == traits(built).version != 1
    assert traits(METHODS.parse(label(built))).version == traits(built).version


METRICS_FILE = '''
import torch


def alone(case):
    return case.maps.mean()


def breaks(case):
    return case.mapz


def again(case, *, rng):
    """How far maps move when images are darker."""
    darker = case.explain(0.5 * case.inputs, rng=rng)
    return (darker - case.maps).abs().mean(dim=(1, 2)) + 0 * case.classifier.logits(case.inputs).sum(dim=1)


def inside(case):
    return (case.maps * case.truth).sum(dim=(1, 2))


inside.needs = {"truth"}
'''


def test_a_metric_is_tried_before_computing_and_its_passes_are_counted(tmp_path):
    file = tmp_path / "metrics.py"
    file.write_text(METRICS_FILE)
    classifier = Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3)))
    with pytest.raises(SnellenError, match="alone gave scores of a single number, but it must give one per image, 2"):
        METRICS.parse(f"{file}:alone", load=True).passes((8, 8), Passes(3, 1), classifier)
    with pytest.raises(SnellenError) as caught:
        METRICS.parse(f"{file}:breaks", load=True).passes((8, 8), Passes(3, 1), classifier)
    assert str(caught.value) == (
        "'metrics.py:breaks' failed on two noisy images of 8×8 (AttributeError: 'Case' object has no attribute 'mapz') in "
        "metrics.py, line 10"
    )
    assert METRICS.parse(f"{file}:again", load=True).passes((8, 8), Passes(3, 1), classifier) == Passes(4, 1)
    assert METRICS.parse(f"{file}:inside", load=True).passes((8, 8), Passes(3, 1), classifier) == Passes()


def test_a_plain_metric_that_uses_truth_and_does_not_say_so_gets_a_hint(tmp_path):
    file = tmp_path / "metrics.py"
    file.write_text(METRICS_FILE.replace('inside.needs = {"truth"}', ""))
    classifier = Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3)))
    run = evaluate(classifier, torch.rand(2, 3, 8, 8), methods="random", metrics=["sparseness", f"{file}:inside"])
    assert 'if it uses case.truth, state its attribute needs = {"truth"}' in run.problems()["random", "metrics.py:inside"]
    with pytest.raises(SnellenError, match="on images without masks"):
        score(f"{file}:inside", classifier, torch.rand(2, 3, 8, 8), torch.rand(2, 8, 8), 0)


def test_a_registered_metric_must_give_one_score_per_image():
    @metric("own-average", cite="own", attribute="input-sensitivity", higher_is_better=True, bounds=(0.0, 1.0))
    @dataclass(frozen=True)
    class Average:
        """The average of all maps."""

        def passes(self, size, explain, classifier):
            return Passes()

        def __call__(self, case, *, rng):
            return case.maps.mean()

    try:
        classifier = Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3)))
        sentence = "own-average gave scores of a single number, but it must give one per image, 2"
        with pytest.raises(UnfinishedError, match=sentence):
            evaluate(classifier, torch.rand(2, 3, 8, 8), methods="random", metrics="own-average")
        with pytest.raises(SnellenError, match=sentence):
            score("own-average", classifier, torch.rand(2, 3, 8, 8), torch.rand(2, 8, 8), 0)
    finally:
        del METRICS._classes["own-average"]


def test_a_plain_metric_that_needs_truth_refuses_a_case_without(tmp_path):
    file = tmp_path / "metrics.py"
    file.write_text(METRICS_FILE)
    classifier = Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3)))
    with pytest.raises(SnellenError, match="inside compares maps with the truth, but there is none; give truth="):
        score(f"{file}:inside", classifier, torch.rand(2, 3, 8, 8), torch.rand(2, 8, 8), 0)
    scores = score(f"{file}:inside", classifier, torch.rand(2, 3, 8, 8), torch.ones(2, 8, 8), 0, truth=torch.ones(2, 8, 8))
    assert scores.tolist() == [64.0, 64.0]


@pytest.mark.parametrize("folder", ["my code", "odd, (1)", "c:drive", "["])
def test_paths_may_hold_spaces_and_in_quotes_anything(tmp_path, folder):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "mine.py").write_text(FILE)
    path = f"{tmp_path}/{folder}/mine.py:brightness"
    text = path if folder in ("my code", "c:drive") else f'"{path}"'
    (first, second, nested) = parse_methods(f"{text}(power=3), random, smoothgrad(of={text}, samples=2)")
    assert (label(first), label(second)) == ("mine.py:brightness(power=3.0)", "random")
    assert label(nested) == "smoothgrad(of=mine.py:brightness, samples=2)"
    assert names_code(text)
    assert code_origin(path) == str((tmp_path / folder / "mine.py").resolve())


def test_brackets_without_quotes_are_explained(tmp_path):
    with pytest.raises(SnellenError, match=r'a path with brackets or commas stands in quotes: "my code \(1\)/mine.py:f"'):
        METHODS.parse(f"{tmp_path}/code (1)/mine.py:f(power=2)", load=True)


def test_the_label_of_an_odd_file_is_read_back(tmp_path):
    (tmp_path / "my, (odd) file.py").write_text(FILE)
    method = METHODS.parse(f'"{tmp_path}/my, (odd) file.py:brightness"', load=True)
    assert label(method) == "my---odd--file.py:brightness"
    assert METHODS.parse(label(method)) == method


@pytest.mark.parametrize("nested", ["{}", "smoothgrad(of={}, samples=2)"])
@pytest.mark.parametrize("name", ["brightness", "brightness(power=2)", "Registered", "Registered(factor=2)"])
def test_two_files_of_one_name_are_refused(tmp_path, file, nested, name):
    """Tables could not tell them apart, also where other settings give them other labels."""
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "mine.py"
    other.write_text(FILE.replace("inputs.mean(dim=1)", "inputs.amax(dim=1)"))
    first, second = nested.format(f"{file}:{name.partition('(')[0]}"), nested.format(f"{other}:{name}")
    for parse in (parse_methods, method_list):
        with pytest.raises(SnellenError, match=r"two different plug-ins are both called '.*' in tables and reports"):
            parse([first, second])
    assert len(parse_methods([first, nested.format(f"{file}:brightness(power=7)")])) == 2


def test_a_registered_class_is_that_of_the_file_that_was_named(tmp_path, file):
    """Another file may register the same class under the same name in between."""
    other = tmp_path / "copied.py"
    other.write_text(FILE.replace("self.factor * inputs.mean(dim=1)", "self.factor * inputs.amax(dim=1)"))
    classifier = Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3)))
    for path, reduce in ((file, torch.mean), (other, torch.amax), (file, torch.mean)):
        inputs, maps = explain(METHODS.parse(f"{path}:Registered", load=True), classifier)
        assert torch.equal(maps, reduce(inputs, dim=1))


class Held:
    """A user's class whose instances hold something."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __call__(self, classifier, inputs, targets):
        return inputs.mean(dim=1)


def plain_mean(classifier, inputs, targets, power=1.0):
    return inputs.mean(dim=1) ** power


def plain_largest(classifier, inputs, targets, power=1.0):
    return inputs.amax(dim=1) ** power


def closure(held):
    def inside(classifier, inputs, targets):
        return inputs.mean(dim=1) * (held is not None)

    return inside


def module(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Conv2d(3, 1, 1)


def slotted(value: float) -> object:
    class Slotted:
        __slots__ = ("value",)

        def __init__(self) -> None:
            self.value = value

    return Slotted()


PAIRS = [
    (lambda: torch.ones(3), lambda: torch.zeros(3)),
    (lambda: torch.ones(3, dtype=torch.bfloat16), lambda: torch.zeros(3, dtype=torch.bfloat16)),
    (lambda: {"weights": [np.ones(2)]}, lambda: {"weights": [np.zeros(2)]}),
    (lambda: plain_mean, lambda: plain_largest),
    (lambda: lambda images: images.mean(1), lambda: lambda images: images.std(1)),
    (lambda: module(1), lambda: module(2)),
    (lambda: slotted(1.0), lambda: slotted(2.0)),
    (lambda: {"a", "b"}, lambda: {"a", "c"}),
]


@pytest.mark.parametrize("wrap", [Held, closure, lambda held: functools.partial(Held(held).__call__)])
@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_what_instances_and_closures_hold_is_part_of_the_version(wrap, pair):
    first, again, other = (traits(METHODS.parse(wrap(make()))).version for make in (pair[0], pair[0], pair[1]))
    assert first == again != other


def test_partial_functions_differ_by_their_function():
    first, other = (traits(METHODS.parse(functools.partial(call))).version for call in (plain_mean, plain_largest))
    assert first != other


class Module(torch.nn.Module):
    def forward(self, classifier, inputs, targets):
        return inputs.mean(dim=1)


@pytest.mark.parametrize("value", [Module, Module()])
def test_a_torch_module_is_a_method(value):
    classifier = Classifier(lambda inputs: inputs.flatten(1)[:, :3])
    inputs, maps = explain(METHODS.parse(value), classifier)
    assert torch.equal(maps, inputs.mean(dim=1))
    assert kind_of(value, "it") == "method"


def test_an_object_that_holds_itself_has_a_version():
    circle = Held([])
    circle.held.append(circle)
    assert traits(METHODS.parse(circle)).version == traits(METHODS.parse(circle)).version


CELL = """
def helper(images):
    return images.{reduce}(dim=1)

def f(classifier, inputs, targets):
    return helper(inputs) * POWER

class Explains:
    def __call__(self, classifier, inputs, targets):
        return helper(inputs) * POWER

part = functools.partial(f)
instance = Explains()
"""


@pytest.mark.parametrize("name", ["f", "Explains", "instance", "part"])
def test_in_a_notebook_what_is_used_from_other_cells_is_part_of_the_version(name, monkeypatch):
    def version(reduce: str, power: float) -> int:
        cells = types.ModuleType("a_notebook")  # like a notebook, it has no file
        cells.__dict__.update(POWER=power, functools=functools)
        monkeypatch.setitem(sys.modules, "a_notebook", cells)
        exec(CELL.format(reduce=reduce), cells.__dict__)
        return traits(METHODS.parse(getattr(cells, name))).version

    assert version("mean", 1.0) == version("mean", 1.0)
    assert len({version("mean", 1.0), version("mean", 2.0), version("amax", 1.0)}) == 3


def test_a_registered_class_of_a_script_changes_with_it(monkeypatch):
    def version(factor: float) -> int:
        script = types.ModuleType("__main__")
        script.__dict__.update(method=method, dataclass=dataclass, Passes=Passes)
        monkeypatch.setitem(sys.modules, "__main__", script)
        text = FILE[FILE.index("@method(") : FILE.index("ready =")].replace("self.factor", f"{factor} * self.factor")
        exec(text, script.__dict__)
        return traits(METHODS.parse(script.Registered)).version

    assert version(2.0) == version(2.0) != version(3.0)
