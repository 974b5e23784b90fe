"""Variations: which networks they need, and a whole one in small, with shipped networks standing in."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from tests.textbox.handmade import frame_of

from snellen.errors import InterruptionError, SnellenError
from snellen.files.integrity import dump_record
from snellen.methods.gradient import Gradient
from snellen.runs.progress import Silent
from snellen.textbox.exam.method_list import method_list
from snellen.textbox.exam.variations import (
    VARIATIONS,
    VariationResult,
    _cached_results,
    expected_seconds,
    find_variation,
    run_variation,
    variation_from_options,
)
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import find_network, write_network
from snellen.textbox.networks.training import TrainingPlan, TrainingResult
from snellen.textbox.networks.training_progress import TrainingProgress
from snellen.textbox.report.bucket_means import PAPER
from snellen.textbox.report.variation_claims import decide_variation_claims
from snellen.textbox.report.variation_report import ClaimList, figure, markdown, write_variation

SETTINGS = ("simple-fr", "complex-fr")
METHODS = ("gradient", "smoothgrad-squared(samples=2)", "input-x-gradient", "lrp-z", "grad-cam")


def stand_in(folder: Path, setting: str, **circumstance: object) -> None:
    """The plain network, kept as if it had been taught under other circumstances."""
    plain = find_network(setting)
    spec = NetworkSpec.of_setting(setting, **circumstance)  # type: ignore[arg-type]
    write_network(
        folder / spec.name, spec, TrainingResult(module=plain.module, seed=0, accuracy=plain.accuracy), TrainingPlan()
    )


def small(study: str, folder: Path, **options: object) -> VariationResult:
    values = {
        "settings": SETTINGS, "methods": METHODS, "models": folder / "models", "out": folder / "out",
        "cached": folder / "none", "per_bucket": 2, "workers": 1, "threads": 1, "observer": Silent(),
        "progress": TrainingProgress(Console(file=io.StringIO())),
    }  # fmt: skip
    return run_variation(find_variation(study), **{**values, **options})  # type: ignore[arg-type]


def test_each_study_names_the_networks_that_it_needs() -> None:
    names = {study: [kind.spec(name).name for kind in it.kinds for name in SETTINGS] for study, it in VARIATIONS.items()}
    assert names["architecture"] == [
        f"{setting}-{architecture}" for architecture in ("alexnet", "vgg16", "resnet", "vit-tiny") for setting in SETTINGS
    ]
    assert names["robust"] == ["simple-fr-robust", "complex-fr-robust"]
    assert names["noise"] == ["simple-fr-noise", "complex-fr-noise"]
    assert names["photos"] == ["simple-fr-photos", "complex-fr-photos"]
    robust = VARIATIONS["robust"].kinds[0].spec("complex-cr1")
    assert robust.robust
    assert robust.architecture == "deep-cnn"


@pytest.fixture(scope="module")
def robust(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, VariationResult]:
    folder = tmp_path_factory.mktemp("study")
    stand_in(folder / "models", "simple-fr", robust=True)
    return folder, small("robust", folder, settings=["simple-fr"])


@pytest.mark.slow
def test_the_same_network_under_another_name_scores_the_same(robust: tuple[Path, VariationResult]) -> None:
    _, studied = robust
    own = studied.frames["robust"].reset_index(drop=True)
    pd.testing.assert_frame_equal(own, studied.plain.reset_index(drop=True))
    assert {"oracle", "random", *METHODS} <= set(own["method"])
    better, *others = decide_variation_claims(studied)
    assert better.holds is False
    assert "scored as the published code does, it does not hold either (G " in better.reason
    assert {claim.numbers for claim in others if "falls" in claim.sentence} == {"no complex setting was run"}


def test_a_study_is_written_as_tables_claims_page_and_figure(robust: tuple[Path, VariationResult]) -> None:
    folder, studied = robust
    page = write_variation(studied, folder / "written").read_text(encoding="utf-8")
    table = pd.read_csv(folder / "written" / "table.csv")
    assert set(table["circumstance"]) == {"plain", "robust"}
    row = table[(table["circumstance"] == "robust") & (table["method"] == "lrp-z")].iloc[0]
    frame = studied.frames["robust"]
    expected = frame[frame["method"] == "lrp-z"].groupby("bucket")["pafl"].mean().mean()
    assert row["pafl_average"] == pytest.approx(expected, abs=1e-4)
    text = f"{expected:.2f}".removeprefix("0")
    assert f"| LRP-Z `lrp-z` | {text} → {text} |" in page
    assert "`simple-fr-robust`" in page
    assert "    snellen textbox run --variation robust --settings simple-fr --images 2\n" in page
    assert "| *oracle* | 1.00 → 1.00 | 1.00 → 1.00 |" in page
    assert len(pd.read_csv(folder / "written" / "claims.csv")) == len(decide_variation_claims(studied))
    out = io.StringIO()
    Console(file=out, width=100).print(ClaimList(decide_variation_claims(studied), "robust"))
    assert "DOES NOT HOLD" in out.getvalue()


def test_the_figure_shows_simple_and_complex_here_and_plain_and_leaves_gaps() -> None:
    def values(name: str, bucket: int, method: str) -> tuple[float, float]:
        return (0.8 if name == "simple-fr" else 0.3), 0.1

    plain = frame_of(values, [*PAPER.values(), "random", "oracle"], SETTINGS)
    without = plain[plain["method"] != "deep-taylor"]
    studied = VariationResult(
        variation=VARIATIONS["noise"],
        per_bucket=2,
        plain=plain,
        frames={"noise": without},
        networks={"noise": ()},
        left_out={"noise": {"deep-taylor": "no"}},
    )
    drawn = figure(studied).standalone()
    assert drawn.count("<circle") == 2 * 2 * 14, "simple and complex, average and worst"
    assert drawn.count("<polyline") == 2 * 2 * (1 + 2), "the solid lines are broken where a method is missing"
    assert "- `deep-taylor` is not among the methods on noise: no." in markdown(studied)


@pytest.mark.slow
def test_a_field_that_is_there_already_is_used_for_the_plain_networks(
    robust: tuple[Path, VariationResult], tmp_path: Path
) -> None:
    folder, studied = robust
    again = small("robust", folder, settings=["simple-fr"], cached=folder / "out" / "fields" / "plain", out=tmp_path / "out")
    assert not (tmp_path / "out" / "fields" / "plain").exists()
    pd.testing.assert_frame_equal(again.plain, studied.plain)


@pytest.mark.slow
def test_a_field_of_other_networks_under_the_same_names_is_not_used(
    robust: tuple[Path, VariationResult], tmp_path: Path
) -> None:
    """Somebody's own network of a setting is no plain one, nor are maps of another version of a method."""
    folder, _ = robust
    lines, plain = method_list(METHODS), folder / "out" / "fields" / "plain"
    assert _cached_results(plain, ["simple-fr"], lines, 2) is not None
    assert _cached_results(plain, ["simple-fr", "simple-nr"], lines, 2) is None
    assert _cached_results(plain, ["simple-fr"], lines, 3) is None
    for place, fact in enumerate(({"model": "/somewhere/simple-fr"}, {"fingerprint": "other"})):
        copy = Path(shutil.copytree(plain, tmp_path / str(place)))
        record = json.loads((copy / "field.json").read_text())
        record["settings"]["simple-fr"] |= fact
        (copy / "field.json").write_bytes(dump_record(record))
        assert _cached_results(copy, ["simple-fr"], lines, 2) is None
    newer = replace(Gradient.traits, version=Gradient.traits.version + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gradient, "traits", newer)
        assert _cached_results(plain, ["simple-fr"], lines, 2) is None


def test_each_circumstance_is_compared_with_the_plain_networks_in_its_own_settings() -> None:
    def values(name: str, bucket: int, method: str) -> tuple[float, float]:
        return {"simple-fr": 0.5, "complex-fr": 0.5, "complex-cr1": 0.2}[name], 0.1

    plain = frame_of(values, settings=(*SETTINGS, "complex-cr1"))
    frames = {"alexnet": plain[plain["setting"] != "complex-cr1"], "resnet": plain}
    claims = decide_variation_claims(
        VariationResult(
            variation=VARIATIONS["architecture"],
            per_bucket=2,
            plain=plain,
            frames=frames,
            networks={"alexnet": (), "resnet": ()},
        )
    )
    held = {claim.sentence.partition(":")[0]: claim for claim in claims if "PAFL in the worst" in claim.sentence}
    assert "it does not hold either (0 of 15; mean over methods .50 to .50)" in held["alexnet"].reason
    assert held["resnet"].holds
    rising = frame_of(
        lambda name, bucket, method: (0.1 if name == "simple-fr" else 0.5, 0.1), settings=(*SETTINGS, "complex-cr1")
    )
    claims = decide_variation_claims(
        VariationResult(
            variation=VARIATIONS["architecture"],
            per_bucket=2,
            plain=plain,
            frames={**frames, "resnet": rising},
            networks={"alexnet": (), "resnet": ()},
        )
    )
    (worst_claim,) = [claim for claim in claims if claim.sentence.startswith("resnet: PAFL in the worst")]
    assert "in the same settings, it holds (15 of 15; mean over methods .50 to .20)" in worst_claim.reason


def test_a_network_that_does_not_follow_its_rule_takes_no_part(tmp_path: Path) -> None:
    stand_in(tmp_path / "models", "simple-fr", background="noise")  # taught on black, it breaks down on noise
    with pytest.raises(SnellenError, match=r"the variation 'noise' has no network to look at: .*simple-fr-noise"):
        small("noise", tmp_path, settings=["simple-fr"])


def test_what_cannot_be_trained_is_said_with_the_time_that_it_may_take(tmp_path: Path) -> None:
    output = io.StringIO()
    with pytest.raises(SnellenError, match="was not learnt by resnet in 1 attempts"):
        small(
            "architecture", tmp_path, settings=["simple-fr"], only=["resnet"],
            plan={"most": 256, "attempts": 1, "watch": 256, "batch": 64},
            progress=TrainingProgress(Console(file=output, width=200)),
        )  # fmt: skip
    assert "1 of 1 networks must be trained first, which may take" in output.getvalue()
    assert "simple-fr-resnet takes no part" in output.getvalue()


def test_whoever_interrupts_a_lesson_has_interrupted_the_study(tmp_path: Path) -> None:
    class Interrupting(TrainingProgress):
        def on_images(self, images: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(InterruptionError, match="the training of 'simple-fr-noise' was interrupted"):
        small("noise", tmp_path, progress=Interrupting(Console(file=io.StringIO())))


def test_robust_training_is_expected_to_take_longer() -> None:
    plain, robust = (
        expected_seconds(NetworkSpec.of_setting("simple-fr", robust=robust), {"most": 10_000}) for robust in (False, True)
    )
    assert 0 < 2 * plain < robust


def test_names_that_do_not_exist_are_refused_first(tmp_path: Path) -> None:
    with pytest.raises(SnellenError, match="there is no variation 'nois'; did you mean 'noise'"):
        find_variation("nois")
    with pytest.raises(SnellenError, match="there is no setting 'simple-fx'"):
        small("noise", tmp_path, settings=["simple-fx"])
    with pytest.raises(SnellenError, match="the variation 'architecture' has no 'vgg'"):
        small("architecture", tmp_path, only=["vgg"])
    with pytest.raises(SnellenError, match="images must be at least 1, not 0"):
        small("noise", tmp_path, per_bucket=0)
    assert not list(tmp_path.iterdir()), "nothing was trained"


def test_options_that_mean_nothing_for_a_study_are_refused() -> None:
    assert variation_from_options("noise") is VARIATIONS["noise"]
    with pytest.raises(SnellenError, match="--variation takes no --model"):
        variation_from_options("noise", model=["somewhere"])
    with pytest.raises(SnellenError, match="--variation takes no --reading"):
        variation_from_options("noise", reading="published-code")
    with pytest.raises(SnellenError, match="belong to a --variation; there are architecture, robust, noise, photos"):
        variation_from_options(None)


def test_a_folder_with_another_reasoning_is_refused(tmp_path: Path) -> None:
    spec = NetworkSpec.of_setting("simple-fr", background="noise")
    other = NetworkSpec.of_setting("simple-nr", background="noise")
    module = build_network(other.architecture, classes=2, side=64, seed=0)
    write_network(tmp_path / "models" / spec.name, other, TrainingResult(module=module, seed=0, accuracy={}), TrainingPlan())
    with pytest.raises(SnellenError, match="holds another network than simple-fr-noise"):
        small("noise", tmp_path, settings=["simple-fr"])
