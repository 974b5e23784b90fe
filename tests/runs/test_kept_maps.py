"""--keep-maps: scores never depend on it, and whoever needs a map that was not kept reads a sentence."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from snellen.cards.loaded_run import LoadedRun
from snellen.errors import SnellenError
from snellen.runs import Options, Run, evaluate
from snellen.runs.kept_maps import PICTURES, extreme_samples, sampled_maps
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.runs.store import Store
from snellen.runs.verify import verify
from snellen.study.making.make import make
from snellen.zoo import digit_samples, load_classifier

METHODS = ["gradient", "random"]
METRICS = ["deletion(steps=4)", "sparseness"]
COUNT, SHARD = 40, 20


class Noting(Silent):
    """Remembers what was noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def go(out: Path, keep: str | None, metrics=METRICS, **changed) -> tuple[Run, Noting]:
    observer = Noting()
    options = replace(Options(shard=SHARD, engine="eager", keep_maps=keep), **changed)
    run = evaluate(
        load_classifier("digits"),
        digit_samples()[:COUNT],
        methods=METHODS,
        metrics=metrics,
        out=out,
        options=options,
        observer=observer,
    )
    return run, observer


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("kept")
    return {keep: go(folder / keep, keep)[0] for keep in ("all", "some", "none")}


def map_bytes(run: Run) -> int:
    return sum(path.stat().st_size for path in (Path(run.folder) / "segments").glob("*.maps"))


def test_scores_are_the_same_and_folders_shrink(runs: dict[str, Run]) -> None:
    for keep in ("some", "none"):
        assert runs[keep].scores().equals(runs["all"].scores())
        assert verify(runs[keep].folder).problems == []
    assert map_bytes(runs["all"]) > 1.5 * map_bytes(runs["some"]) > 0
    assert map_bytes(runs["none"]) == 0


def test_some_keeps_first_images_a_sample_and_the_extremes(runs: dict[str, Run]) -> None:
    run, whole = runs["some"], runs["all"]
    ids = list(run.samples()["sample"])
    drawn = {ids[place] for place in sampled_maps("some", ids, 0, seed=0) or ()}
    assert set(ids[:PICTURES]) <= drawn
    for method in METHODS:
        kept = run.kept_maps(method)
        assert drawn <= set(kept)
        assert len(kept) < COUNT
        assert kept == [name for name in ids if name in kept]
        np.testing.assert_array_equal(run.maps(method, kept), whole.maps(method, kept))
        scores = run.scores().query("method == @method")
        for metric in METRICS:
            values = scores[scores["metric"] == metric].set_index("sample")["value"]
            assert {values.idxmax(), values.idxmin()} <= set(kept)


@pytest.mark.parametrize("keep", ["some", "none"])
def test_a_map_that_was_not_kept_is_a_sentence(runs: dict[str, Run], keep: str) -> None:
    missing = next(name for name in runs[keep].samples()["sample"] if name not in runs[keep].kept_maps("gradient"))
    with pytest.raises(SnellenError, match=f"'{missing}' was not kept.* keeps {keep}, .*--keep-maps all and another --out"):
        runs[keep].maps("gradient")


def test_reports_draw_what_is_kept_and_say_so(runs: dict[str, Run]) -> None:
    pages = {keep: Path(run.report()).read_text(encoding="utf-8") for keep, run in runs.items()}
    drawn = {keep: len(re.findall(r'alt="map of \S+ for', page)) for keep, page in pages.items()}
    assert drawn == {"all": PICTURES * len(METHODS), "some": PICTURES * len(METHODS), "none": 0}
    assert "stored maps" not in pages["all"]
    assert "<dt>stored maps</dt><dd>of the first 12 images" in pages["some"]
    assert "<dt>stored maps</dt><dd>none: they were dropped once they were scored" in pages["none"]
    assert "<code>--keep-maps none</code>" in pages["none"]


@pytest.mark.parametrize("keep", ["some", "none"])
def test_a_later_metric_computes_maps_again_to_the_same_numbers(tmp_path: Path, runs: dict[str, Run], keep: str) -> None:
    go(tmp_path, keep, METRICS[:1])
    run, observer = go(tmp_path, None)  # as before, without saying so
    assert run.record.spec.keep_maps == keep
    again = [note for note in observer.notes if "were not kept by this run" in note]
    assert len(again) == 1
    assert f"maps of {len(METHODS) * COUNT // SHARD} units" in again[0]
    assert f"{COUNT} forward and {COUNT} backward passes" in again[0]
    assert observer.notes.index(again[0]) == [note.startswith("planned:") for note in observer.notes].index(True) + 1
    assert run.scores().equals(runs["all"].scores())
    if keep == "some":
        kept = run.kept_maps("gradient")
        np.testing.assert_array_equal(run.maps("gradient", kept), runs["all"].maps("gradient", kept))
    before = Store(tmp_path).folder.list("segments")
    _, observer = go(tmp_path, None)  # nothing is left to do
    assert not any("computed again" in note for note in observer.notes)
    assert Store(tmp_path).folder.list("segments") == before


def test_another_setting_counts_from_then_on(tmp_path: Path, runs: dict[str, Run]) -> None:
    go(tmp_path, "none", METRICS[:1])
    run, _ = go(tmp_path, "all")
    assert (run.record.spec.keep_maps, run.record.spec.keep_maps_before) == ("all", ("none",))
    assert run.record.spec.kept_words == "all; earlier: none: they were dropped once they were scored"
    np.testing.assert_array_equal(run.maps("gradient"), runs["all"].maps("gradient"))
    spec = runs["all"].record.spec.as_json()
    assert not {"keep_maps", "keep_maps_before"} & set(spec)


def test_maps_that_are_stored_serve_a_run_that_keeps_none(tmp_path: Path) -> None:
    go(tmp_path, "all", METRICS[:1])
    run, observer = go(tmp_path, "none")
    assert not any("computed again" in note for note in observer.notes)
    assert len(run.maps("gradient")) == COUNT


def test_maps_made_elsewhere_are_read_again(tmp_path: Path) -> None:
    samples = digit_samples()[:4]
    maps = {name: np.full(samples[0].image.shape[1:], number, np.float32) for number, name in enumerate(samples.ids)}
    runs = [
        evaluate(
            load_classifier("digits"),
            samples,
            methods=["random"],
            maps={"mine": maps},
            metrics=metrics,
            out=tmp_path,
            options=Options(engine="eager", keep_maps="none"),
        )
        for metrics in (METRICS[1:], METRICS)
    ]
    assert runs[1].kept_maps("mine") == []
    assert set(runs[1].scores()["metric"]) == set(METRICS)
    assert not runs[1].problems()


def test_workers_drop_maps_themselves(tmp_path: Path, runs: dict[str, Run]) -> None:
    run, _ = go(tmp_path, "some", workers=1)
    assert run.kept_maps("gradient") == runs["some"].kept_maps("gradient")
    assert run.scores().equals(runs["some"].scores())


def test_cards_compute_maps_again_and_studies_refuse(tmp_path: Path, runs: dict[str, Run]) -> None:
    observer, samples = Noting(), digit_samples()[:COUNT]
    loaded = LoadedRun.of(runs["none"], load_classifier("digits"), samples, observer)
    np.testing.assert_array_equal(loaded.maps("gradient", 5), runs["all"].maps("gradient", loaded.ids(5)))
    assert "maps of 'gradient' were not kept, so 5 are computed again" in observer.notes
    with pytest.raises(SnellenError, match="did not keep all maps of 'gradient', which a study shows; make the run again"):
        make(runs["some"].folder, tmp_path / "study", {"arms": ["gradient"]}, samples=samples)


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(SnellenError, match="--keep-maps is all, some or none, not 'som'"):
        go(tmp_path, "som")
    with pytest.raises(SnellenError, match="keep_maps"):
        Settings.of({"keep_maps": "few"})
    assert Settings.of({"keep_maps": "some"}).as_values() == {"keep_maps": "some"}
    with pytest.raises(SnellenError, match="there are no metrics; name some"):
        go(tmp_path, "none", None)


def test_extremes_and_samples() -> None:
    nan = float("nan")
    assert extreme_samples({"a": np.array([nan, 2.0, 1.0, 2.0]), "b": np.array([nan, nan, nan, nan])}) == {1, 2}
    ids = [f"picture {number}" for number in range(4000)]
    kept = sampled_maps("some", ids, 100, seed=1) or ()
    assert 0.04 < len(kept) / len(ids) < 0.06
    assert set(kept) != set(sampled_maps("some", ids, 100, seed=2) or ())
    assert sampled_maps("all", ids, 0, seed=1) is None
    assert sampled_maps("none", ids, 0, seed=1) == ()
