"""Maps made elsewhere: scored as a method's own, never computed, refused with a sentence where they cannot be right."""

from __future__ import annotations

from concurrent.futures import Executor, Future

import cloudpickle
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file
from torch import nn

import snellen
from snellen import Sample, SnellenError
from snellen.cards.card_set import refuse_unfit
from snellen.classifier import Classifier
from snellen.classifier.heads import IndependentLabels
from snellen.plugins.registry import METRICS, traits
from snellen.report.verdict_lines import next_command
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.types import Findings

QUICK = ["deletion(steps=4)", "sparseness", "max-sensitivity(samples=1)"]
IDS = ("a/one.png", "a/two.png", "three")


class Small(nn.Module):
    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(
            nn.Conv2d(channels, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.body(images)


class Recorder(Silent):
    """Remembers notes, and how much was computed when each came."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.begun: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)
        if "cannot be scored" in sentence:
            assert "explaining" not in self.begun

    def begin(self, what: str, passes: object, units: int) -> None:
        self.begun.append(what)


def samples(labels: tuple[object, ...] = (0, 1, 2)) -> list[Sample]:
    pixels = torch.from_numpy(np.random.default_rng(0).random((3, 3, 8, 8), dtype=np.float32))
    truth = torch.zeros(8, 8, dtype=torch.bool)
    truth[2:5, 2:5] = True
    rows = zip(IDS, pixels, labels, strict=True)
    return [Sample(id=name, image=image, label=label, truth=truth) for name, image, label in rows]


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier(Small())


@pytest.fixture(scope="module")
def maps(classifier) -> np.ndarray:
    return snellen.evaluate(classifier, samples(), methods=["gradient(fold=sum)"], metrics=None).maps("gradient(fold=sum)")


@pytest.fixture
def folder(tmp_path, maps):
    """A folder with a map per picture."""
    (tmp_path / "theirs" / "a").mkdir(parents=True)
    for name, values in zip(IDS, maps, strict=True):
        np.save(tmp_path / "theirs" / f"{name.removesuffix('.png')}.npy", values)
    return tmp_path / "theirs"


def evaluate(classifier, source, **options) -> snellen.Run:
    options = {"methods": (), "metrics": QUICK[:2], **options}
    return snellen.evaluate(classifier, samples(), maps={"theirs": source}, **options)


def values_of(run: snellen.Run, method: str, metric: str) -> np.ndarray:
    table = run.scores()
    return table[(table["method"] == method) & (table["metric"] == metric)]["value"].to_numpy()


def refusal(classifier, source, **options) -> str:
    with pytest.raises(SnellenError) as problem:
        evaluate(classifier, source, **options)
    return str(problem.value)


@pytest.mark.parametrize("share", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_scores_are_those_of_the_method_that_made_the_maps(classifier, folder, share):
    """In every metric that does not explain again, bit by bit; all others refuse, and none explains."""
    own = "gradient(fold=sum)"
    chosen = [name for name in METRICS if not traits(METRICS[name]).needs & {"recipe", "checkpoints"}][::share]
    seen = Recorder()
    run = evaluate(classifier, str(folder), methods=[own, "random"], metrics=chosen, observer=seen)
    again = {name for name in chosen if "explain" in traits(METRICS[name]).needs}
    assert len(again) >= 15 // share
    assert len(chosen) - len(again) >= 15 // share
    problems = run.problems()
    for name in chosen:
        label = next(metric.label for metric in run.record.spec.metrics if metric.name == name)
        if name in again:
            assert len(values_of(run, "theirs", label)) == 0
            assert "must explain" in problems["theirs", label]
            assert any(label in note and "cannot be scored on theirs" in note for note in seen.notes)
        elif (own, label) not in problems:
            np.testing.assert_array_equal(values_of(run, "theirs", label), values_of(run, own, label), err_msg=name)
            assert len(values_of(run, "theirs", label)) == 3
    np.testing.assert_array_equal(run.maps("theirs"), run.maps(own))


def test_nothing_is_computed_for_the_maps(classifier, folder):
    run = evaluate(classifier, str(folder), methods=["gradient"], metrics=None)
    costs = run.costs().set_index("method")
    assert costs.loc["theirs", "images"] == 0
    assert costs.loc["gradient", "images"] == 3
    assert "theirs/seconds" not in run.summary()["numbers"]
    assert "gradient/seconds" in run.summary()["numbers"]
    (spec,) = [method for method in run.record.spec.methods if method.label == "theirs"]
    assert spec.maps.count == 3
    assert str(folder) in spec.maps.source
    assert spec.signed


def test_a_function_that_explains_again_is_refused(classifier, folder):
    def again(case):
        return case.explain(case.inputs, rng=snellen.Rng(0, IDS)).mean(dim=(1, 2))

    run = evaluate(classifier, str(folder), metrics=[again, "sparseness"])
    (problem,) = run.problems().values()
    assert "were made elsewhere" in problem


def test_metrics_that_train_on_explained_images_are_refused(classifier):
    from snellen.maps.explaining_again import why_not_scored
    from snellen.maps.made_elsewhere import maps_made_elsewhere

    (theirs,) = maps_made_elsewhere({"theirs": np.zeros((3, 8, 8))})
    assert "training images" in why_not_scored(theirs, METRICS.build("roar"))
    assert why_not_scored(theirs, METRICS.build("deletion")) is None


def test_forms_of_maps(classifier, tmp_path, maps, folder):
    """Files of all types, and arrays, give the same scores."""
    expected = values_of(evaluate(classifier, folder), "theirs", QUICK[0])
    np.savez(tmp_path / "all.npz", **dict(zip(IDS, maps, strict=True)))
    save_file(dict(zip(IDS, maps, strict=True)), tmp_path / "all.safetensors")
    each = tmp_path / "each"
    (each / "a").mkdir(parents=True)
    np.savez(each / "a" / "one.npz", maps[0])
    save_file({"map": maps[1]}, each / "a" / "two.png.safetensors")
    np.save(each / "three.npy", maps[2].astype(np.float64)[None, None])
    channels = np.zeros((3, 3, 8, 8), np.float32)
    channels[:, 1] = maps
    forms = [
        tmp_path / "all.npz", tmp_path / "all.safetensors", each, maps, torch.from_numpy(maps), list(maps), channels,
        dict(zip(("one", "a/two", "three"), maps, strict=True)),
    ]  # fmt: skip
    for form in forms:
        run = evaluate(classifier, form)
        np.testing.assert_array_equal(values_of(run, "theirs", QUICK[0]), expected, err_msg=str(type(form)))
        assert ("3 channels summed" in run.record.spec.methods[0].summary) is (form is channels)


def test_grey_pictures_have_a_stated_range(classifier, tmp_path):
    levels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    for bits, stored in ((8, levels), (16, levels.astype(np.uint16) * 257)):
        for name in ("one", "two", "three"):
            (tmp_path / str(bits)).mkdir(exist_ok=True)
            Image.fromarray(stored).save(tmp_path / str(bits) / f"{name}.png")
        run = evaluate(classifier, tmp_path / str(bits), map_range=(-1, 1))
        np.testing.assert_allclose(run.maps("theirs")[0], 2 * levels / 255 - 1, atol=1e-6)
    assert "state them with --map-range" in refusal(classifier, tmp_path / "8")
    assert "two numbers, the smaller first" in refusal(classifier, tmp_path / "8", map_range=(1, 0))
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "8" / "one.png")
    assert "is not grey (its mode is RGB)" in refusal(classifier, tmp_path / "8", map_range=(0, 1))


def test_bad_files_are_refused_before_computing(classifier, folder, maps):
    def after(name: str, content: object) -> str:
        path = folder / name
        path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content, allow_pickle=True)
        seen = Recorder()
        sentence = refusal(classifier, folder, observer=seen)
        assert not seen.begun
        assert "\n" not in sentence
        path.unlink()
        return sentence

    assert "belongs to no picture" in after("four.npy", maps[0])
    assert "is no map: maps are .npy" in after("notes.txt", b"hello")
    assert "are both maps of 'three'" in after("three.npz", b"")
    assert "are both maps of 'a/one.png'" in after("a/one.png.npy", maps[0])
    kept = np.load(folder / "three.npy")
    assert "is 8×7, but the model receives 'three' as 8×8 pixels" in after("three.npy", maps[0][:, :7])
    assert "is 2×8×8" in after("three.npy", maps[:2])
    assert "holds NaN or infinite values" in after("three.npy", np.where(kept == kept[0, 0], np.nan, kept))
    assert "holds NaN or infinite values" in after("three.npy", np.full((8, 8), 1e300))
    assert "not real numbers" in after("three.npy", kept.astype(complex))
    assert "cannot be read as a map" in after("three.npy", np.array([None]))
    assert "cannot be read as a map" in after("three.npy", b"\x93NUMPY")
    assert "lack 'three'" in refusal(classifier, folder)


def test_bad_names_and_options_are_refused(classifier, folder, maps, tmp_path):
    assert "have the name of a method" in _refused(classifier, {"gradient": folder})
    assert "maps cannot be called 'a b'" in _refused(classifier, {"a b": folder})
    assert "must be a dictionary" in _refused(classifier, folder)
    assert "must be a folder, a file" in refusal(classifier, 3)
    assert "there is no such folder or file" in refusal(classifier, tmp_path / "absent")
    assert "only .npz and .safetensors files have keys" in refusal(classifier, folder / "three.npy")
    assert "--map-range is for PNG maps" in refusal(classifier, folder, map_range=(0, 1))
    assert "map_range is for PNG maps" in refusal(classifier, maps, map_range=(0, 1))
    assert "2 maps, but there are 3 images" in refusal(classifier, maps[:2])
    assert "leave out --condition" in refusal(classifier, folder, condition="rotation(degrees=45)")
    (tmp_path / "empty").mkdir()
    assert "holds no maps" in refusal(classifier, tmp_path / "empty")
    np.savez(tmp_path / "empty" / "three.npz", a=maps[0], b=maps[1])
    assert "holds 2 arrays" in refusal(classifier, tmp_path / "empty")
    with pytest.raises(SnellenError, match="no method was named"):
        snellen.evaluate(classifier, samples(), metrics=QUICK)


def _refused(classifier, maps) -> str:
    with pytest.raises(SnellenError) as problem:
        snellen.evaluate(classifier, samples(), metrics=QUICK, maps=maps)
    return str(problem.value)


def test_two_pictures_of_one_stem_need_whole_names(maps):
    pictures = [Sample(id=name, image=sample.image) for name, sample in zip(("a.png", "a.jpg"), samples(), strict=False)]
    with pytest.raises(SnellenError, match=r"may be the map of 'a.png' or of 'a.jpg'"):
        snellen.evaluate(Small(), pictures, metrics=None, maps={"theirs": {"a": maps[0]}})
    run = snellen.evaluate(Small(), pictures, metrics=None, maps={"theirs": {"a.png": maps[0], "a.jpg": maps[1]}})
    np.testing.assert_array_equal(run.maps("theirs"), maps[:2])


def test_a_run_resumes_by_the_content_of_the_maps(classifier, folder, tmp_path, maps):
    out = tmp_path / "run"
    first = evaluate(classifier, folder, out=out)
    seen = Recorder()
    moved = folder.rename(tmp_path / "moved")
    evaluate(classifier, moved, out=out, observer=seen)
    assert any("1 of 1 units are already finished" in note for note in seen.notes)
    np.save(moved / "three.npy", -maps[2])
    second = evaluate(classifier, moved, out=out, observer=seen)
    assert any("theirs has changed since this run was made" in note for note in seen.notes)
    before, after = (values_of(run, "theirs", QUICK[0]) for run in (first, second))
    assert (before != after).tolist() == [False, False, True]


class Elsewhere(Executor):
    """Sends calls as to another process."""

    def submit(self, function, /, *arguments, **options):
        function, arguments, options = cloudpickle.loads(cloudpickle.dumps((function, arguments, options)))
        future: Future = Future()
        future.set_result(function(*arguments, **options))
        return future


def test_workers_get_the_maps(classifier, folder):
    alone = evaluate(classifier, folder, metrics=QUICK)
    together = evaluate(classifier, folder, metrics=QUICK, executor=Elsewhere(), options=snellen.Options(shard=2))
    np.testing.assert_allclose(values_of(together, "theirs", QUICK[0]), values_of(alone, "theirs", QUICK[0]), rtol=1e-5)
    assert len(together.problems()) == 1


def test_several_targets_need_a_map_each(tmp_path, maps):
    several = Classifier(Small(), heads=IndependentLabels(), classes=("cat", "dog", "cow", "hen"))
    pictures = samples((Findings((0, 1)), Findings((2,)), Findings((3,))))

    def run(**theirs: np.ndarray) -> snellen.Run:
        named = {name.replace("_at_", "@"): values for name, values in theirs.items()}
        return snellen.evaluate(several, pictures, metrics=["sparseness"], target="every-label", maps={"theirs": named})

    each = run(one_at_cat=maps[0], one_at_1=maps[1], two=maps[2], three_at_hen=maps[0], three_at_dog=maps[1])
    np.testing.assert_array_equal(each.maps("theirs"), maps[[0, 1, 2, 0]])
    assert any("1 of 5 maps of 'theirs' are not used" in note for note in each.record.notes)
    others = {"two": maps[2], "three": maps[0]}
    with pytest.raises(SnellenError, match=r"one map of 'a/one.png', but this run explains 2 targets of it \(cat, dog\)"):
        run(**(others | {"one": maps[0]}))
    with pytest.raises(
        SnellenError, match=r"lack 'a/one.png' for 'dog' \(it has maps for cat\); add a map called 'a/one@dog'"
    ):
        run(one_at_cat=maps[0], **others)
    with pytest.raises(SnellenError, match="names the target 'cog', which is no output of the model; did you mean 'dog'"):
        run(one_at_cog=maps[0], **others)
    with pytest.raises(SnellenError, match=r"are both maps of 'a/two.png' for 'cow'"):
        run(one_at_cat=maps[0], one_at_dog=maps[0], two_at_cow=maps[0], **others)


def test_pages_say_where_the_maps_are_from(classifier, folder):
    run = evaluate(classifier, folder, methods=["gradient", "random"], metrics=QUICK)
    page = " ".join(run.report().read_text(encoding="utf-8").split())
    assert f"The maps of theirs were made elsewhere (&#39;{folder}&#39;)" in page
    assert "not run on theirs: its maps were made elsewhere, and this metric must explain" in page
    assert '<small class="missing">explains again</small>' in page
    assert "theirs: – per map, made elsewhere" in page
    assert "<li>own</li>" not in page
    assert "without --maps" in next_command(run) or "more images" in next_command(run)
    with pytest.raises(SnellenError, match="a card describes a method"):
        refuse_unfit(run)


def test_a_contrast_takes_the_map_of_the_picture(classifier, folder):
    run = evaluate(classifier, folder, metrics=["deletion(steps=2, of=logit)"], target="contrast(1, 2)")
    assert np.isfinite(values_of(run, "theirs", "deletion(steps=2, of=logit)")).all()


def load() -> nn.Module:
    return Small()


def test_settings_and_resume(tmp_path, folder):
    (tmp_path / "pictures" / "a").mkdir(parents=True)
    for sample in samples():
        pixels = (sample.image.permute(1, 2, 0) * 255).byte().numpy()
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{sample.id.removesuffix('.png')}.png")
    (tmp_path / "pictures" / "three.png").rename(tmp_path / "pictures" / "a" / "three.png")
    values = {
        "model": f"{__name__}:load", "images": str(tmp_path / "pictures"), "maps": {"theirs": str(folder)},
        "metrics": ["sparseness"], "out": str(tmp_path / "run"), "size": 8,
    }  # fmt: skip
    run = Settings.of(values).run(Silent())
    assert run.methods == ["theirs"]
    assert run.record.request["maps"] == {"theirs": str(folder)}
    again = Settings.of(run.record.request).run(Silent())
    np.testing.assert_array_equal(run.maps("theirs"), again.maps("theirs"))
