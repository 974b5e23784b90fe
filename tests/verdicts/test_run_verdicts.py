"""Verdicts are computed once per run and rule, stored in the run's folder, and computed again when something changed."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from snellen import Run
from snellen.errors import SnellenError
from snellen.files.folder import LocalFolder
from snellen.report import verdict_lines
from snellen.report.verdict_lines import next_command
from snellen.runs.store import VERDICTS
from snellen.runs.verify import verify
from snellen.verdicts import rule, run_verdicts

STORED = Path(__file__).parents[1] / "runs_v1" / "judged"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(STORED, tmp_path / "run"))


@pytest.fixture
def computed(monkeypatch):
    """How often verdicts are computed."""
    calls = []
    judge = run_verdicts.judge

    def counted(*args, **options):
        calls.append(args)
        return judge(*args, **options)

    monkeypatch.setattr(run_verdicts, "judge", counted)
    return calls


def test_verdicts_are_computed_once(folder, computed):
    first = Run(folder).verdicts()
    again = Run(folder)
    assert again.verdicts() is again.verdicts()
    assert again.verdicts().judgements == first.judgements
    assert again.verdicts().summary.equals(first.summary)
    assert list(again.verdicts().summary.dtypes) == list(first.summary.dtypes)
    again.report()
    assert len(computed) == 1
    assert verify(folder).problems == []


def test_other_scores_or_another_rule_are_judged_again(folder, computed, monkeypatch):
    Run(folder).verdicts()
    monkeypatch.setattr(run_verdicts, "RULE_VERSION", rule.RULE_VERSION + 1)
    Run(folder).verdicts()
    assert len(computed) == 2
    run = Run(folder)
    run.record = run.record.changed(spec=run.record.spec.changed(seed=1))
    run.verdicts()
    fewer = Run(folder)
    fewer.record = fewer.record.with_units(fewer.record.units[:-1])
    fewer.verdicts()
    assert len(computed) == 4


@pytest.mark.parametrize("content", ["{", "[]", '{"key": "x"}'])
def test_a_damaged_file_is_replaced(folder, computed, content):
    (folder / VERDICTS).write_text(content)
    Run(folder).verdicts()
    assert len(json.loads((folder / VERDICTS).read_text())["judgements"]) == 12
    Run(folder).verdicts()
    assert len(computed) == 1


def test_a_changed_file_is_computed_again(folder, computed):
    first = Run(folder).verdicts()
    path = folder / VERDICTS
    path.write_text(path.read_text().replace('"verdict": "fail"', '"verdict": "pass"', 1))
    assert verify(folder).problems != []
    assert Run(folder).verdicts().judgements == first.judgements
    assert len(computed) == 2


def test_a_folder_that_cannot_be_written_has_verdicts_too(folder, monkeypatch):
    def refuse(folder, name, content):
        raise PermissionError

    monkeypatch.setattr(LocalFolder, "write_whole", refuse)
    assert len(Run(folder).verdicts().judgements) == 12
    assert not (folder / VERDICTS).exists()


def test_one_verdict_is_found_by_its_labels(folder):
    verdicts = Run(folder).verdicts()
    judgement = verdicts.find("gradient", "pointing-game")
    assert (judgement.verdict, judgement.reason) == ("inconclusive", "not clear of random, centre")
    with pytest.raises(SnellenError, match="no verdict of 'random' by 'complexity'"):
        verdicts.find("random", "complexity")


def test_the_next_command_follows_from_the_run(folder):
    run = Run(folder)
    assert next_command(run) == f"snellen cards --run {folder} --out cards/"
    run.record = run.record.changed(finished=None)
    assert next_command(run) == f"snellen resume {folder}"
    assert "at least 30" in next_command(Run(STORED.parent / "asked"))


def test_the_terminal_lists_verdicts_by_name_or_counts_them(folder, monkeypatch):
    def printed():
        console = Console(width=100, file=io.StringIO())
        console.print(verdict_lines.verdict_lines(Run(folder)))
        return console.file.getvalue()

    assert "■ fail: completeness, deletion(steps=4)" in printed()
    monkeypatch.setattr(verdict_lines, "NAMED", 3)
    assert "■ 2 fail  ◆ 1 inconclusive" in printed()
