"""Runs that stop where verdicts are settled, or where a budget ends: what they compute, and how they are continued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from tests.runs.subject import write_images

import snellen
from snellen import zoo
from snellen.errors import SnellenError
from snellen.runs import Run
from snellen.runs.options import Options
from snellen.runs.progress import Silent
from snellen.runs.schedule import Budget, seeded_order

METHODS = "gradient,grad-cam,random,centre"
METRICS = "deletion(steps=4),sparseness,completeness"

HERE = Path(__file__).parent
MAIN = "from snellen.cli.main import main; main()"


class Notes(Silent):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture(scope="module")
def subject():
    return zoo.load_classifier("digits"), zoo.digit_samples()


def run(subject, out=None, *, methods=METHODS, metrics=METRICS, images=64, observer=None, **options):
    classifier, samples = subject
    return snellen.evaluate(
        classifier, samples.take(range(images)), methods=methods, metrics=metrics, out=out, observer=observer or Silent(),
        options=Options(**{"shard": 8, "threads": 1, **options}),
    )  # fmt: skip


def tidy(scores: pd.DataFrame) -> pd.DataFrame:
    return scores.sort_values(["sample", "method", "metric"], ignore_index=True)


def counts(finished: Run) -> dict[tuple[str, str], int]:
    return finished.scores().groupby(["method", "metric"]).size().to_dict()


@pytest.fixture(scope="module")
def settled(subject, tmp_path_factory):
    return run(subject, tmp_path_factory.mktemp("settled"), until="settled")


# Order and budget --------------------------------------------------------------------------------------------------------


def test_the_order_depends_on_seed_and_names_alone():
    names = [f"photo-{number}" for number in range(20)]
    drawn = [names[place] for place in seeded_order(names, 3)]
    assert drawn != names
    assert sorted(drawn) == sorted(names)
    assert [names[::-1][place] for place in seeded_order(names[::-1], 3)] == drawn
    assert [names[place] for place in seeded_order(names, 4)] != drawn


@pytest.mark.parametrize(
    ("text", "seconds", "passes"),
    [
        ("90s", 90.0, float("inf")),
        ("10m", 600.0, float("inf")),
        ("1h30m", 5400.0, float("inf")),
        ("1.5 h", 5400.0, float("inf")),
        ("500,000 passes", float("inf"), 500_000.0),
    ],
)
def test_a_budget_is_a_time_or_a_number_of_passes(text, seconds, passes):
    assert Budget.parse(text) == Budget(seconds, passes)


@pytest.mark.parametrize("text", ["0", "0m", "0 passes", "-5m", "ten minutes", "", "10", "5 apples", "m", "1e400s"])
def test_a_budget_of_nothing_or_of_nonsense_is_one_sentence(subject, text):
    with pytest.raises(SnellenError, match=r"^budget (is a time|must be more than nothing)") as refusal:
        run(subject, budget=text)
    assert "\n" not in str(refusal.value)


def test_without_controls_there_is_nothing_to_settle(subject):
    with pytest.raises(SnellenError, match="none is among the methods; add random,edge,fake-cam,centre"):
        run(subject, methods="gradient", metrics="sparseness", until="settled")


# Until settled -----------------------------------------------------------------------------------------------------------


def test_a_run_until_settled_computes_less_and_gives_the_verdicts_of_the_full_run(subject, settled, tmp_path):
    full = run(subject, tmp_path)
    assert settled.complete
    assert sum(counts(settled).values()) < sum(counts(full).values())
    assert min(counts(settled).values()) == 32
    theirs = {(each.method, each.metric): each.verdict for each in full.verdicts().judgements}
    assert {(each.method, each.metric): each.verdict for each in settled.verdicts().judgements} == theirs
    assert all("Looked at after 32" in each.rule for each in settled.verdicts().judgements)
    assert settled.record.spec.order == "seeded"
    assert settled.record.spec.until == "settled"


def test_the_order_of_the_folder_does_not_matter(subject, settled, tmp_path):
    classifier, samples = subject
    reversed_samples = samples.take(range(63, -1, -1))
    other = run((classifier, reversed_samples), tmp_path, until="settled")
    pd.testing.assert_frame_equal(tidy(other.scores()), tidy(settled.scores()), check_exact=True)
    assert other.verdicts().judgements == settled.verdicts().judgements


def test_it_resumes_without_computing_anything_again_and_keeps_its_verdicts(subject, settled):
    notes = Notes()
    again = run(subject, settled.folder, until="settled", observer=notes)
    assert again.record.totals.forward == settled.record.totals.forward
    assert again.record.units == settled.record.units
    pd.testing.assert_frame_equal(again.scores(), settled.scores(), check_exact=True)
    assert again.verdicts().judgements == settled.verdicts().judgements
    assert any("verdicts are settled" in text for text in notes.texts)


def test_the_same_folder_can_be_extended_to_all_images_with_the_scores_of_a_plain_run(subject, settled, tmp_path):
    run(subject, tmp_path / "grown", until="settled")
    grown = run(subject, tmp_path / "grown")
    plain = run(subject, tmp_path / "plain")
    assert set(counts(grown).values()) == {64}
    merged = tidy(grown.scores()).merge(tidy(plain.scores()), on=["sample", "method", "metric"])
    assert len(merged) == len(plain.scores())
    assert (merged["value_x"] == merged["value_y"]).all() or abs(merged["value_x"] - merged["value_y"]).max() < 1e-5
    assert not grown.record.spec.stops_early
    assert all("Looked at" not in each.rule for each in grown.verdicts().judgements)
    first = tidy(settled.scores()).merge(tidy(grown.scores()), on=["sample", "method", "metric"])
    assert (first["value_x"] == first["value_y"]).all()


def test_a_folder_in_the_order_of_its_images_cannot_be_continued_until_settled(subject, tmp_path):
    run(subject, tmp_path, methods="gradient,random", metrics="sparseness", images=8)
    with pytest.raises(
        SnellenError, match="was made in the order of its images, so --until and --budget cannot continue it"
    ):
        run(subject, tmp_path, methods="gradient,random", metrics="sparseness", images=8, until="settled")


def test_an_unknown_end_is_refused_before_anything_is_made(subject, tmp_path):
    with pytest.raises(SnellenError, match=r"until is 'settled' or 'precision'.*not 'never'"):
        run(subject, tmp_path / "run", methods="gradient,random", metrics="sparseness", images=8, until="never")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("images", [1, 12])
def test_too_few_images_are_all_computed_and_get_no_verdict(subject, images):
    notes = Notes()
    few = run(subject, images=images, methods="gradient,random", metrics="sparseness", until="settled", observer=notes)
    assert set(counts(few).values()) == {images}
    assert [each.reason for each in few.verdicts().judgements] == ["too few images for a verdict"]
    assert any("too few for a verdict, which needs at least 30" in text for text in notes.texts)


def test_a_precision_is_reached_or_all_images_are_computed(subject):
    notes = Notes()
    coarse = run(subject, until="precision 3", methods="gradient,random", metrics="sparseness", observer=notes)
    assert set(counts(coarse).values()) == {32}
    assert any("1 of 1 verdicts have the precision" in text for text in notes.texts)
    fine = run(subject, until="precision 0.001", methods="gradient,random", metrics="deletion(steps=4)")
    assert set(counts(fine).values()) == {64}


@pytest.mark.slow
def test_worker_processes_compute_the_same(subject, settled, tmp_path):
    pooled = run(subject, tmp_path, until="settled", workers=2)
    assert counts(pooled) == counts(settled)
    assert pooled.verdicts().judgements == settled.verdicts().judgements


# A budget ----------------------------------------------------------------------------------------------------------------


def test_a_budget_of_passes_is_kept_and_goes_to_cheap_metrics_first(subject, tmp_path):
    notes = Notes()
    part = run(subject, tmp_path, budget="500 passes", observer=notes)
    assert part.complete
    assert part.record.totals.forward + part.record.totals.backward <= 500
    computed = {metric for _, metric in counts(part)}
    assert "sparseness" in computed
    assert "deletion(steps=4)" not in computed  # 32 images of 4 methods and 5 passes
    (words,) = [text for text in notes.texts if "open" in text]
    assert "would take up to about" in words
    verdicts = {each.metric: each.verdict for each in part.verdicts().judgements}
    assert verdicts["sparseness"] in ("pass", "fail")
    assert verdicts["deletion(steps=4)"] == "not counted"


def test_a_second_budget_continues_where_the_first_ended_and_no_budget_finishes(subject, tmp_path):
    first = run(subject, tmp_path, budget="500 passes")
    second = run(subject, tmp_path, budget="100000 passes")
    assert sum(counts(second).values()) > sum(counts(first).values())
    assert {each.verdict for each in second.verdicts().judgements} <= {"pass", "fail", "inconclusive"}
    assert set(counts(run(subject, tmp_path)).values()) == {64}


def test_a_budget_of_no_time_stops_at_once_and_says_so(subject):
    notes = Notes()
    nothing = run(subject, budget="0.001s", observer=notes)
    assert counts(nothing) == {}
    assert any("0 of 6 verdicts are settled, 6 are open" in text for text in notes.texts)
    assert {each.verdict for each in nothing.verdicts().judgements} == {"not counted"}


# Killed ------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_in_the_middle_it_continues_to_the_same_bits(tmp_path):
    images = write_images(tmp_path / "images", count=60)

    def command(out: str) -> list[str]:
        return [
            sys.executable, "-c", MAIN, "run", "--model", "subject:load", "--images", str(images), "--out",
            str(tmp_path / out), "--size", "32", "--shard", "4", "--threads", "1", "--until", "settled",
            "--methods", "gradient,rise(masks=150),random,edge", "--metrics", "deletion,insertion,complexity",
        ]  # fmt: skip

    subprocess.run(command("whole"), cwd=HERE, check=True, capture_output=True, timeout=240)
    process = subprocess.Popen(command("killed"), cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "killed").rglob("*"))) < 20 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run(command("killed"), cwd=HERE, check=True, capture_output=True, timeout=240)
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    pd.testing.assert_frame_equal(whole.scores(), killed.scores(), check_exact=True)
    assert whole.verdicts().judgements == killed.verdicts().judgements
