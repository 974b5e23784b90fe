from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import SnellenError
from snellen.maps.fills import BLACK, MEAN, NOISE, Blur
from snellen.metrics.deletion import Deletion
from snellen.metrics.insertion import Insertion
from snellen.metrics.sensitivity import MaxSensitivity
from snellen.plugins.citations import CITATIONS
from snellen.plugins.notation import split_names
from snellen.plugins.registry import FILLS, METHODS, METRICS, Registry, UnknownNameError, label, method, metric, spec, traits
from snellen.types import CurveMetric, Fill, Method, Metric, NoPasses, Passes

# What the decorator refuses ------------------------------------------------------------------------------------------


def facts(**changed: Any) -> dict[str, Any]:
    return {"cite": "nobody2000", "attribute": "minimality", "higher_is_better": True, "bounds": (0.0, 1.0), **changed}


@pytest.fixture
def clean():
    """Takes out again what a test has put into the registry."""
    before = dict(METRICS._classes)
    yield
    METRICS._classes.clear()
    METRICS._classes.update(before)


@dataclass(frozen=True)
class Plain:
    """A number that means nothing."""

    size: int = 1

    def __call__(self, case, *, rng):
        raise AssertionError("only its registration is tested; nobody calls it")

    def passes(self, size, explain):
        return Passes()


@dataclass(frozen=True)
class Silent:
    size: int = 1


@dataclass(frozen=True)
class Demanding:
    """A number that wants a setting."""

    size: int


@dataclass(frozen=True)
class Unwritable:
    """A number with a setting that JSON cannot hold."""

    values: Any = field(default_factory=lambda: {1, 2})
    __call__, passes = Plain.__call__, Plain.passes


@dataclass(frozen=True)
class Costless:
    """A number that does not say what it costs."""

    __call__ = Plain.__call__


@dataclass(frozen=True)
class Scoreless(CurveMetric, NoPasses):
    """A curve that nothing sums up."""

    def curve(self, case, *, rng):
        raise AssertionError("only its registration is tested; nobody calls it")


class Loose:
    """A number, but not a dataclass."""


@dataclass
class Thawed:
    """A number whose settings may change under our feet."""


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    ("name", "plugin", "changed", "sentence"),
    [
        ("deletion", Plain, {}, "metric 'deletion' is registered twice; choose another name"),
        ("silent", Silent, {}, "'silent' needs a docstring that says in one sentence what its number means"),
        ("plain", Plain, {"cite": ""}, "'plain' must cite the work that defines it"),
        ("demanding", Demanding, {}, "metric 'demanding': the field 'size' needs a default"),
        ("unwritable", Unwritable, {}, "metric 'unwritable': its settings must survive JSON, but a set does not"),
        ("costless", Costless, {}, "metric 'costless' has no passes, which snellen.types.Metric requires"),
        ("scoreless", Scoreless, {}, "metric 'scoreless' must define score"),
        ("loose", Loose, {}, "metric 'loose' must be a frozen dataclass"),
        ("thawed", Thawed, {}, "metric 'thawed' must be a frozen dataclass"),
        ("Plain_Metric", Plain, {}, "metric 'Plain_Metric': a name is lower-case words joined by hyphens"),
    ],
)
def test_the_decorator_refuses_in_one_sentence(name, plugin, changed, sentence):
    with pytest.raises(SnellenError) as refusal:
        metric(name, **facts(**changed))(plugin)
    assert str(refusal.value) == sentence
    assert METRICS.get("deletion") is Deletion
    assert name == "deletion" or name not in METRICS


@pytest.mark.usefixtures("clean")
def test_a_registered_class_can_be_built_described_and_found():
    registered = metric("plain-metric", **facts(rank_only=True, needs={"truth"}, undefined="now and then", version=3))(Plain)
    assert registered is Plain
    assert METRICS["plain-metric"] is Plain
    assert METRICS.build("plain-metric", {"size": 4}) == Plain(4)
    stated = traits(Plain())
    assert (stated.name, stated.cite, stated.summary) == ("plain-metric", "nobody2000", "A number that means nothing.")
    assert (stated.bounds, stated.rank_only, stated.needs) == ((0.0, 1.0), True, {"truth"})
    assert (stated.undefined, stated.version, stated.attribute) == ("now and then", 3, "minimality")


def test_a_registry_is_an_honest_sorted_mapping():
    assert list(METRICS) == sorted(METRICS)
    assert len(METRICS) == len(list(METRICS))
    assert "deletion" in METRICS
    assert "delusion" not in METRICS
    assert METRICS.get("delusion") is None
    with pytest.raises(KeyError):
        METRICS["delusion"]


# What a user mistypes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("registry", "text", "sentence"),
    [
        (METRICS, "delation", "unknown metric 'delation'; did you mean 'deletion'?"),
        (METHODS, "gradcam", "unknown method 'gradcam'; did you mean 'grad-cam'?"),
        (METRICS, "qqqq", "unknown metric 'qqqq'"),
        (
            METRICS,
            "deletion(step=3)",
            "metric 'deletion' has no setting 'step'; did you mean 'steps'? (it has: steps, fill, of)",
        ),
        (METRICS, "complexity(size=3)", "metric 'complexity' has no setting 'size' (it has: none)"),
        (METRICS, "deletion(steps=many)", "metric 'deletion': steps must be a whole number, not 'many'"),
        (METRICS, "deletion(steps=2.5)", "metric 'deletion': steps must be a whole number, not 2.5"),
        (METRICS, "deletion(steps=true)", "metric 'deletion': steps must be a whole number, not True"),
        (METRICS, "deletion(steps=0)", "metric 'deletion': steps must be at least 1, not 0"),
        (METRICS, "deletion(of=softmax)", "metric 'deletion': of must be one of logit, probability, not 'softmax'"),
        (METRICS, "deletion(fill=gray)", "unknown fill 'gray'"),
        (METRICS, "deletion(fill=blurr)", "unknown fill 'blurr'; did you mean 'blur'?"),
        (METRICS, "deletion(fill=blur(kernel=4))", "fill 'blur': kernel must be odd and positive, not 4"),
        (METRICS, "max-sensitivity(radius=wide)", "metric 'max-sensitivity': radius must be a number, not 'wide'"),
        (METRICS, "max-sensitivity(radius=-1)", "metric 'max-sensitivity': radius must not be negative, not -1.0"),
        (METRICS, "max-sensitivity(relative=1)", "metric 'max-sensitivity': relative must be true or false, not 1"),
        (METRICS, "deletion(28)", "cannot read '28' in 'deletion(28)'; write settings as name=value"),
        (METRICS, "deletion(steps=3", "cannot read 'deletion(steps=3'; write a name such as rise, or rise(masks=500)"),
        (METHODS, "", "cannot read ''; write a name such as rise, or rise(masks=500)"),
        (METRICS, {"nam": "deletion"}, "a metric is written as a name or as {name, params}, not {'nam': 'deletion'}"),
        (METHODS, "smoothgrad(of=grad-cm)", "unknown method 'grad-cm'; did you mean 'grad-cam'?"),
    ],
)
def test_a_mistake_gets_one_sentence(registry, text, sentence):
    with pytest.raises(SnellenError) as refusal:
        registry.parse(text)
    assert str(refusal.value) == sentence


def test_an_unknown_name_is_a_key_error_that_still_reads_as_a_sentence():
    with pytest.raises(UnknownNameError) as refusal:
        METRICS["delation"]
    assert str(refusal.value) == "unknown metric 'delation'; did you mean 'deletion'?"


# Text, JSON and back -----------------------------------------------------------------------------------------------------


def test_text_with_settings_and_plugins_inside_plugins():
    assert METRICS.parse(" deletion ( steps = 7 , fill = blur(kernel=5, sigma=2) ) ") == Deletion(7, Blur(5, 2.0))
    assert METRICS.parse("max-sensitivity(radius=1)") == MaxSensitivity(radius=1.0)
    assert label(Insertion(steps=7, fill=Blur(5, 2.0))) == "insertion(steps=7, fill=blur(kernel=5, sigma=2.0))"
    assert label(Deletion()) == "deletion"
    assert METRICS.parse(Deletion(steps=3)) == Deletion(steps=3)
    assert METRICS.parse({"name": "deletion"}) == Deletion()


def test_a_method_inside_a_method():
    wrapped = METHODS.parse("smoothgrad(of=grad-cam, samples=8)")
    assert wrapped.of == METHODS.build("grad-cam")
    assert wrapped.samples == 8
    assert label(wrapped) == "smoothgrad(of=grad-cam, samples=8)"
    deep = METHODS.parse("smoothgrad(of=smoothgrad(of=integrated-gradients(steps=4, baseline=blur(kernel=3)), samples=2))")
    assert METHODS.parse(label(deep)) == deep
    assert METHODS.parse(json.loads(json.dumps(spec(deep)))) == deep
    assert deep.of.of.baseline == Blur(kernel=3)


@pytest.mark.parametrize(("registry", "name"), [(kind, name) for kind in (METHODS, METRICS, FILLS) for name in kind])
def test_every_plugin_survives_text_and_json_with_its_defaults(registry, name):
    plugin = registry.build(name)
    assert label(plugin) == name
    assert registry.parse(name) == plugin
    assert registry.parse(json.loads(json.dumps(spec(plugin)))) == plugin


fills = st.one_of(
    st.sampled_from([BLACK, MEAN, NOISE]),
    st.builds(Blur, kernel=st.integers(0, 40).map(lambda half: 2 * half + 1), sigma=st.floats(1e-3, 1e6)),
)
outputs = st.sampled_from(["logit", "probability"])
metrics = st.one_of(
    st.builds(Deletion, steps=st.integers(1, 10**6), fill=fills, of=outputs),
    st.builds(Insertion, steps=st.integers(1, 10**6), fill=fills, of=outputs),
    st.builds(MaxSensitivity, samples=st.integers(1, 10**6), radius=st.floats(0, 1e300), relative=st.booleans()),
)


@given(metrics)
def test_any_settings_survive_text_and_json(plugin):
    assert METRICS.parse(label(plugin)) == plugin
    assert METRICS.parse(json.loads(json.dumps(spec(plugin)))) == plugin


@given(st.lists(metrics, max_size=4))
def test_a_list_of_labels_is_split_where_it_was_joined(plugins):
    assert split_names(",".join(map(label, plugins))) == [label(plugin) for plugin in plugins]


@dataclass(frozen=True)
class Rich:
    """A number with every kind of setting."""

    layer: str | None = None
    sizes: tuple[int, ...] = (1, 2)
    fill: Fill = MEAN
    method: Method | None = None
    __call__, passes = Plain.__call__, Plain.passes


RICH: Registry[Any] = Registry("rich")
"""A registry apart, for checks that run many times."""
Rich.traits = SimpleNamespace(name="rich")
RICH.add("rich", Rich)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    "text",
    [
        "rich",
        "rich(layer=layer4.1.conv2)",
        "rich(sizes=[3, 4, 5])",
        "rich(sizes=[])",
        "rich(layer=blocks.6, sizes=[7], fill=black)",
    ],
)
def test_words_lists_and_nothing_survive(text):
    metric("rich", **facts())(Rich)
    plugin = METRICS.parse(text)
    assert label(plugin) == text
    assert METRICS.parse(json.loads(json.dumps(spec(plugin)))) == plugin
    with pytest.raises(SnellenError, match="metric 'rich': sizes must be a list, not 3"):
        METRICS.parse("rich(sizes=3)")
    with pytest.raises(SnellenError, match="metric 'rich': sizes must be a whole number, not 'a'"):
        METRICS.parse("rich(sizes=[a])")


@pytest.mark.usefixtures("clean")
def test_an_optional_plugin_can_be_given_or_left_out():
    metric("rich", **facts())(Rich)
    assert METRICS.parse("rich(method=null)") == Rich()
    plugin = METRICS.parse("rich(method=rise(masks=10))")
    assert plugin.method == METHODS.parse("rise(masks=10)")
    assert METRICS.parse(label(plugin)) == plugin


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("word", ["12", "true", "null", "1e5", "[a]", "a,b", "a(b", 'say "x"', "\\", " spaced ", ""])
def test_a_word_that_looks_like_something_else_stays_a_word(word):
    metric("rich", **facts())(Rich)
    plugin = Rich(layer=word)
    assert METRICS.parse(json.loads(json.dumps(spec(plugin)))) == plugin
    assert METRICS.parse(label(plugin)) == plugin
    assert split_names(f"{label(plugin)}, deletion") == [label(plugin), "deletion"]


@given(st.text())
def test_any_word_survives_text(word):
    plugin = Rich(layer=word)
    assert RICH.parse(label(plugin)) == plugin
    assert split_names(f"{label(plugin)}, deletion") == [label(plugin), "deletion"]


def test_a_layer_may_be_called_by_a_number():
    assert METHODS.parse("grad-cam(layer=7)").layer == "7"


def test_registries_do_not_share_names():
    other: Registry[Metric] = Registry("other")
    assert "deletion" not in other
    assert len(other) == 0


def test_a_preset_is_its_paper_s_settings_and_may_be_changed_further() -> None:
    built = METHODS.parse("rise@petsiuk2018")
    assert (built.masks, built.cells, built.keep) == (6000, 8, 0.1)
    assert label(built) == "rise@petsiuk2018"
    assert METHODS.parse("rise@petsiuk2018(cells=4)") == METHODS.parse("rise(masks=6000, cells=4)")
    assert METHODS.parse({"name": "rise@zhang2024", "params": {"masks": 8}}) == METHODS.parse(
        "rise(masks=8, cells=4, of=logit)"
    )


def test_a_preset_may_say_what_a_paper_really_ran() -> None:
    built = METHODS.parse("smoothgrad@cose2023(samples=9)")
    assert label(built) == "smoothgrad-squared(of=gradient(fold=norm, of=probability), samples=9)"
    assert label(METHODS.parse("smoothgrad@cose2023")) == "smoothgrad-squared@cose2023"


def test_metrics_have_presets_too() -> None:
    built = METRICS.build("deletion@petsiuk2018")
    assert built == METRICS.parse("deletion(steps=224)")
    assert label(built) == "deletion@petsiuk2018"
    assert label(METRICS.parse("insertion(fill=blur(kernel=5))")) == "insertion@zhang2024"
    assert label(METRICS.build("deletion@zhang2024")) == "deletion"  # its settings are the defaults


@pytest.mark.parametrize("name", list(METRICS))
def test_what_a_metric_cites_beside_its_definition_is_known(name: str) -> None:
    facts = METRICS[name].traits
    for preset in facts.presets:
        assert preset.split("-")[0] in CITATIONS
        METRICS.build(f"{name}@{preset}")
    for key, caveat in facts.caveats.items():
        assert key in CITATIONS
        assert caveat[0].islower()
        assert not caveat.endswith(".")


def test_an_unknown_preset_is_refused_by_name() -> None:
    with pytest.raises(SnellenError) as caught:
        METHODS.parse("rise@petsiuk2019")
    assert str(caught.value) == (
        "method 'rise' has no preset 'petsiuk2019'; did you mean 'petsiuk2018'? "
        "(it has: petsiuk2018, petsiuk2018-evaluation, zhang2024, boggust2023)"
    )


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        ({"siez": (2, 3)}, "method 'fifth' gives a range for 'siez', which is no setting of it; did you mean 'size'?"),
        ({"size": ()}, "method 'fifth': the range of 'size' must be a tuple of values, not ()"),
    ],
)
def test_a_range_must_be_of_a_setting_and_hold_values(ranges: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SnellenError) as refusal:
        method("fifth", cite="nobody2000", ranges=ranges)(Plain)
    assert str(refusal.value) == sentence
    assert "fifth" not in METHODS
