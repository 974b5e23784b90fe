from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid
from tests.runs.subject import finished_units

import snellen
from snellen.errors import SnellenError
from snellen.images import from_arrays
from snellen.plugins.checks.planted import PlantedCNN, planted_batch
from snellen.plugins.registry import METHODS, METRICS
from snellen.runs import Options, Run, evaluate
from snellen.runs.progress import Silent

METHOD_NAMES = ["gradient", "input-x-gradient", "grad-cam", "rise(masks=40)", "random", "fake-cam"]
METRIC_NAMES = [
    "deletion(steps=6)",
    "average-drop",
    "complexity",
    "max-sensitivity(samples=2)",
    "avg-sensitivity(samples=2)",
]


@pytest.fixture(scope="module")
def subject():
    scene = planted_batch()
    pixels = scene.classifier.to_pixels(scene.inputs).clamp(0, 1)
    many = torch.cat([pixels, pixels.flip(3)])[:5]
    return scene.classifier, from_arrays(many, labels=[0, 1, 2, 0, 1])


@pytest.fixture(scope="module")
def finished(subject, tmp_path_factory):
    classifier, samples = subject
    folder = tmp_path_factory.mktemp("run")
    return evaluate(
        classifier, samples, methods=METHOD_NAMES, metrics=METRIC_NAMES, out=folder, options=Options(shard=2, threads=1)
    )


def test_evaluate_gives_a_table(subject):
    classifier, samples = subject
    run = snellen.evaluate(classifier, samples, methods=["gradient", "random"], metrics=["complexity"])
    assert list(run.table().index) == ["gradient", "random"]
    assert list(run.table().columns) == ["complexity"]
    assert run.table().notna().all(axis=None)


@pytest.mark.parametrize("methods", ["gradient", "gradient, random", METHODS.build("gradient"), {"name": "gradient"}])
def test_plug_ins_need_no_list(subject, methods):
    """A text was once read letter by letter."""
    classifier, samples = subject
    run = snellen.evaluate(classifier, samples, methods=methods, metrics="complexity,sparseness")
    assert run.methods == (["gradient", "random"] if methods == "gradient, random" else ["gradient"])
    assert run.metrics == ["complexity", "sparseness"]


def test_maps_without_metrics_are_stored_and_reused_by_later_metrics(subject, tmp_path):
    classifier, samples = subject
    ids = list(samples.ids)
    run = evaluate(classifier, samples, methods=["gradient", "random"], metrics=None, out=tmp_path)
    assert run.complete
    assert run.metrics == []
    maps = run.maps("gradient", ids)
    written = finished_units(tmp_path)
    assert len(written) == 2
    evaluate(classifier, samples, methods=["gradient", "random"], metrics=None, out=tmp_path)
    assert finished_units(tmp_path) == written
    scored = evaluate(classifier, samples, methods=["gradient"], metrics=["complexity"], out=tmp_path)
    assert scored.costs()["forward"].tolist() == [0]
    np.testing.assert_array_equal(scored.maps("gradient", ids), maps)
    again = evaluate(classifier, samples, methods=["gradient", "random"], metrics=None, out=tmp_path)
    assert again.costs()["images"].tolist() == [5, 5]
    with pytest.raises(SnellenError, match="no metric was named"):
        evaluate(classifier, samples, methods=["gradient"], metrics=[], out=tmp_path)


def test_a_map_of_another_shape_is_an_error_and_not_stored(subject, tmp_path):
    classifier, samples = subject

    class Lopsided(type(METHODS.build("gradient"))):
        def __call__(self, classifier, inputs, targets, *, rng):
            return inputs.sum(dim=1)[:, 1:]

    with pytest.raises(SnellenError, match="not one number per pixel of each image"):
        evaluate(classifier, samples, methods=[Lopsided()], metrics=["complexity"], out=tmp_path)
    assert not finished_units(tmp_path)


def test_an_unwrapped_module_is_taken_too(subject):
    _, samples = subject
    run = snellen.evaluate(PlantedCNN(), samples, methods=["gradient"], metrics=["sparseness"])
    assert run.complete


def test_scores_have_every_method_and_metric_in_the_order_of_the_call(finished):
    scores = finished.scores()
    assert len(scores) == len(METHOD_NAMES) * len(METRIC_NAMES) * 5
    assert list(dict.fromkeys(scores["method"])) == METHOD_NAMES
    assert list(dict.fromkeys(scores["metric"])) == METRIC_NAMES
    assert finished.record.finished is not None


def test_scores_are_those_of_the_plain_calls(subject, finished):
    """The loop adds nothing: method and metric called by hand on the whole batch give the same numbers."""
    classifier, samples = subject
    inputs = classifier.to_inputs(torch.stack([sample.image for sample in samples]))
    targets = classifier.logits(inputs).argmax(dim=1)
    rng = snellen.Rng(0, tuple(samples.ids))
    for method_name in METHOD_NAMES:
        method = METHODS.parse(method_name)
        case = snellen.case_of(method, classifier, inputs, targets, rng=rng)
        np.testing.assert_allclose(finished.maps(method_name, list(samples.ids)), case.maps, rtol=1e-4, atol=1e-6)
        for metric_name in METRIC_NAMES:
            by_hand = METRICS.parse(metric_name)(case, rng=rng)
            scores = finished.scores().query("method == @method_name and metric == @metric_name")["value"]
            np.testing.assert_allclose(scores, by_hand, rtol=1e-3, atol=1e-5)


def test_planned_passes_are_what_was_counted(finished):
    totals, planned = finished.record.totals, finished.record.planned
    assert totals.forward + totals.shared_forward == planned.forward
    assert totals.backward + totals.shared_backward == planned.backward


def test_the_estimate_subtracts_what_the_cache_saves(subject, tmp_path):
    notes = []

    class Listening(Silent):
        def note(self, text):
            notes.append(text)

    evaluate(
        *subject,
        methods=["gradient", "input-x-gradient"],
        metrics=["max-sensitivity(samples=3)", "avg-sensitivity(samples=3)"],
        out=tmp_path,
        observer=Listening(),
    )
    # Per image: two maps of one pass and 2 × 2 × 3 perturbed maps; the second map and half of the others come for free.
    assert "70 forward and 70 backward passes" in notes[-1]
    assert "the cache saves 35 and 35" in notes[-1]
    totals = Run(tmp_path).record.totals
    assert (totals.shared_forward, totals.shared_backward) == (35, 35)


def test_methods_and_metrics_share_passes(finished):
    costs = finished.costs().set_index("method")
    assert costs.loc["input-x-gradient", "shared_backward"] == 5, "the gradient was already there"
    assert costs.loc["gradient", "shared_backward"] == 0
    assert costs.loc["rise(masks=40)", "metric_shared_forward"] >= 2 * 40 * 5, "avg-sensitivity used max-sensitivity's maps"


def test_curves_belong_to_their_scores(finished):
    curves = finished.curves("deletion(steps=6)")
    assert {name: curve.shape for name, curve in curves.items()} == dict.fromkeys(METHOD_NAMES, (5, 7))
    areas = trapezoid(curves["gradient"], axis=1) / 6
    scores = finished.scores().query("method == 'gradient' and metric == 'deletion(steps=6)'")["value"]
    np.testing.assert_allclose(areas, scores, rtol=1e-5)
    assert finished.curves("complexity") == {}


def test_running_again_repeats_nothing(subject, finished):
    classifier, samples = subject
    before = finished_units(finished.folder)
    table = (finished.folder / "scores.parquet").read_bytes()
    evaluate(
        classifier,
        samples,
        methods=METHOD_NAMES,
        metrics=METRIC_NAMES,
        out=finished.folder,
        options=Options(shard=2, threads=1),
    )
    assert finished_units(finished.folder) == before
    assert (finished.folder / "scores.parquet").read_bytes() == table


def test_a_new_metric_uses_the_maps_that_are_there(subject, tmp_path):
    classifier, samples = subject
    settings = {"out": tmp_path, "options": Options(shard=3)}
    evaluate(classifier, samples, methods=["rise(masks=40)"], metrics=["complexity"], **settings)
    run = evaluate(classifier, samples, methods=["rise(masks=40)", "edge"], metrics=["sparseness", "complexity"], **settings)
    alone = evaluate(classifier, samples, methods=["rise(masks=40)", "edge"], metrics=["sparseness", "complexity"])
    assert run.costs().set_index("method").loc["rise(masks=40)", "images"] == 5, "maps were made once"
    np.testing.assert_allclose(run.table(), alone.table(), rtol=1e-5)
    assert len(run.scores()) == 2 * 2 * 5


def test_predictions_labels_and_targets_are_stored(subject, finished):
    _, samples = subject
    frame = finished.samples()
    assert list(frame["label"]) == [0, 1, 2, 0, 1]
    assert list(frame["target"]) == list(frame["prediction"])
    assert finished.picture(samples.ids[0]).shape == (24, 24, 3)


@pytest.mark.parametrize(("target", "classes"), [("label", [0, 1, 2, 0, 1]), (2, [2] * 5), ("1", [1] * 5)])
def test_target_sets_the_explained_class(subject, target, classes):
    run = evaluate(*subject, methods=["gradient"], metrics=["complexity"], target=target)
    assert list(run.samples()["target"]) == classes


def test_least_likely_is_the_least_likely(subject):
    classifier, samples = subject
    run = evaluate(classifier, samples, methods=["gradient"], metrics=["complexity"], target="least-likely")
    inputs = classifier.to_inputs(torch.stack([sample.image for sample in samples]))
    assert list(run.samples()["target"]) == classifier.logits(inputs).argmin(dim=1).tolist()


def test_another_seed_changes_only_random_methods(subject):
    tables = [
        evaluate(*subject, methods=["gradient", "random"], metrics=["complexity"], seed=seed).table() for seed in (0, 1)
    ]
    assert tables[0].loc["gradient", "complexity"] == tables[1].loc["gradient", "complexity"]
    assert tables[0].loc["random", "complexity"] != tables[1].loc["random", "complexity"]


# Refusals, all before computing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"methods": ["gradcam"]}, "unknown method 'gradcam'; did you mean 'grad-cam'?"),
        ({"metrics": ["insert"]}, "unknown metric 'insert'; did you mean 'insertion'?"),
        ({"methods": ["rise(maks=3)"]}, "has no setting 'maks'; did you mean 'masks'?"),
        ({"methods": ["rise(masks=many)"]}, "masks must be a whole number"),
        ({"methods": []}, "no method was named"),
        ({"methods": ["gradient", "gradient"]}, "'gradient' is named twice"),
        ({"metrics": ["pointing-game"]}, "pointing-game needs Sample.truth, but '0' has none (nor have 4 others)"),
        ({"target": "zebra"}, "target 'zebra' is not known"),
        ({"target": 7}, "target '7' is not known"),
        ({"methods": ["grad-cam(layer=nowhere)"]}, "no layer 'nowhere'"),
        ({"options": Options(shard=0)}, "shard cannot be 0; it must be at least 1"),
        ({"out": ""}, "out is empty; name the run folder"),
    ],
)
def test_a_wrong_request_is_refused_in_one_sentence(subject, tmp_path, change, sentence):
    request = {"methods": ["gradient"], "metrics": ["complexity"], "out": tmp_path} | change
    with pytest.raises(SnellenError) as caught:
        evaluate(*subject, **request)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not finished_units(tmp_path), "nothing was computed"


def test_a_black_box_runs_what_needs_only_logits_and_refuses_the_rest_by_name(subject):
    classifier, samples = subject
    box = snellen.Classifier(lambda inputs: classifier.logits(inputs), mean=0.5, std=0.25, name="box")
    run = evaluate(box, samples, methods=["rise(masks=30)", "random"], metrics=["deletion(steps=4)"])
    assert run.complete
    with pytest.raises(SnellenError, match="gradient needs gradients; grad-cam needs gradients and layer"):
        evaluate(box, samples, methods=["gradient", "rise", "grad-cam"], metrics=["complexity"])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda net, images: (net, images * 0.9), "was made with other samples"),
        (lambda net, images: (_nudged(net), images), "was made with another classifier"),
    ],
)
def test_a_folder_belongs_to_one_model_and_one_set_of_samples(tmp_path, change, sentence):
    images = torch.rand(2, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    settings = {"methods": ["gradient"], "metrics": ["complexity"], "out": tmp_path}
    evaluate(PlantedCNN(), from_arrays(images), **settings)
    net, images = change(PlantedCNN(), images)
    with pytest.raises(SnellenError, match=sentence):
        evaluate(net, from_arrays(images), **settings)


def _nudged(net: PlantedCNN) -> PlantedCNN:
    with torch.no_grad():
        net.head.bias[0] += 1e-3
    return net


def test_two_writers_cannot_share_a_folder(subject, tmp_path):
    from snellen.runs.store import Store

    with (
        Store(tmp_path).writing(),
        pytest.raises(SnellenError, match="is being written by another run"),
    ):
        evaluate(*subject, methods=["gradient"], metrics=["complexity"], out=tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(subject, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SnellenError, match="cannot write to"):
        evaluate(*subject, methods=["gradient"], metrics=["complexity"], out=tmp_path / "file")


def test_a_newer_schema_is_refused(finished, tmp_path):
    (tmp_path / "run.json").write_text('{"schema": 99}')
    with pytest.raises(SnellenError, match="newer Snellen"):
        Run(tmp_path)
    with pytest.raises(SnellenError, match="is not a run folder"):
        Run(tmp_path / "nowhere")


def test_labels_beyond_the_classes_are_refused(subject):
    classifier, samples = subject
    wrong = from_arrays(torch.stack([sample.image for sample in samples]), labels=[0, 1, 2, 3, 0])
    with pytest.raises(SnellenError, match=r"'3' has label 3, but .* has classes 0 to 2"):
        evaluate(classifier, wrong, methods=["gradient"], metrics=["complexity"])


def test_images_of_several_sizes_are_refused():
    samples = [snellen.Sample("a", torch.rand(3, 24, 24)), snellen.Sample("b", torch.rand(3, 16, 16))]
    with pytest.raises(SnellenError, match="'a' is 24×24×3 and 'b' is 16×16×3"):
        evaluate(PlantedCNN(), samples, methods=["gradient"], metrics=["complexity"])


def test_one_failing_method_loses_nothing_else(subject, tmp_path):
    """A method that raises half-way is reported by name; the others' results are kept and need not be computed again."""
    from snellen.plugins.registry import method
    from snellen.types import Passes

    @method("breaks-in-a-test", cite="nobody")
    @dataclass(frozen=True)
    class Breaks:
        """Raises."""

        def __call__(self, classifier, inputs, targets, *, rng):
            raise RuntimeError("out of luck")

        def passes(self, size, classifier):
            return Passes()

    try:
        with pytest.raises(SnellenError, match=r"3 of 6 units failed, the first being breaks-in-a-test .*out of luck"):
            evaluate(
                *subject,
                methods=["breaks-in-a-test", "gradient"],
                metrics=["complexity"],
                out=tmp_path,
                options=Options(shard=2),
            )
    finally:
        del METHODS._classes["breaks-in-a-test"]
    run = Run(tmp_path)
    assert not run.complete
    assert set(run.scores()["method"]) == {"gradient"}
    assert len(run.scores()) == 5


@contextmanager
def _breaking_metric(problem):
    """A metric that raises for one method's maps only: those of grad-cam are never negative."""
    from snellen.plugins.registry import metric
    from snellen.types import Passes

    @metric("breaks-in-a-test", cite="nobody", attribute="minimality", higher_is_better=True, bounds=(0.0, 1.0))
    @dataclass(frozen=True)
    class Breaks:
        """Raises."""

        def __call__(self, case, *, rng):
            if bool((case.maps >= 0).all()):
                raise problem
            return torch.ones(len(case))

        def passes(self, size, explain, classifier):
            return Passes()

    try:
        yield
    finally:
        del METRICS._classes["breaks-in-a-test"]


REQUEST = {"methods": ["input-x-gradient", "grad-cam"], "metrics": ["breaks-in-a-test", "complexity"]}


def test_a_metric_that_refuses_a_method_loses_nothing_else(subject, tmp_path):
    """Its sentence is stored in the folder, the run counts as finished, and the metric is not called again."""
    settings = REQUEST | {"out": tmp_path, "options": Options(shard=2)}
    with _breaking_metric(SnellenError("grad-cam and I do not go together")):
        run = evaluate(*subject, **settings)
        before = finished_units(tmp_path)
        evaluate(*subject, **settings)
    assert run.complete
    assert run.problems() == {("grad-cam", "breaks-in-a-test"): "grad-cam and I do not go together"}
    assert run.table().notna().to_numpy().tolist() == [[True, True], [False, True]]
    assert finished_units(tmp_path) == before
    assert Run(tmp_path).problems() == run.problems()


def test_a_metric_that_breaks_is_named_and_tried_again(subject, tmp_path):
    settings = REQUEST | {"out": tmp_path, "options": Options(shard=2)}
    with (
        _breaking_metric(RuntimeError("out of luck")),
        pytest.raises(
            SnellenError, match=r"3 scores of shards failed, the first being grad-cam, scored by breaks-in-a-test"
        ),
    ):
        evaluate(*subject, **settings)
    run = Run(tmp_path)
    assert not run.complete
    assert run.table().notna().to_numpy().tolist() == [[True, True], [False, True]]
    assert "out of luck" in run.problems()["grad-cam", "breaks-in-a-test"]
    with _breaking_metric(AssertionError("never reached")) as _:
        METRICS["breaks-in-a-test"].__call__ = lambda self, case, *, rng: torch.zeros(len(case))
        run = evaluate(*subject, **settings)
    assert run.complete
    assert run.problems() == {}
    assert run.table()["breaks-in-a-test"].tolist() == [1.0, 0.0], "only what had failed was computed again"
