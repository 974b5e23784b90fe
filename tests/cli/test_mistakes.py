"""What the command line says of mistakes, and of errors that nobody foresaw."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

import snellen
from snellen.cli import main as cli
from snellen.errors import SnellenError, short_repr
from snellen.files.documents import parse_json, parse_toml, parse_yaml
from snellen.images import from_folder
from snellen.images.geometry import Geometry
from snellen.images.tables import read_labels
from snellen.plugins.registry import CONDITIONS, METHODS
from snellen.runs import Run
from snellen.runs.settings import Settings
from snellen.textbox.scenes.scene_files import read_scenes
from snellen.zoo import load_classifier

FAILURES = {"runtime": RuntimeError, "memory": MemoryError, "pipe": BrokenPipeError}


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def sentences(self) -> int:
        return len(self.err.strip().splitlines())


@pytest.fixture
def call(monkeypatch, capsys):
    """Runs the command line in this process, with one more command that fails in a way that nobody foresaw."""
    extra = typer.Typer()

    @extra.command()
    def boom(kind: str) -> None:
        def deep(depth: int) -> int:
            return deep(depth + 1) + 1

        if kind == "recursion":
            deep(0)
        if kind == "path":
            Path("/nowhere/table.md").write_text("")
        raise FAILURES[kind]("broken \udcff [bold]" + "x" * 999)

    monkeypatch.setattr(cli.app, "registered_commands", [*cli.app.registered_commands, *extra.registered_commands])

    def calling(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["snellen", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Ended(ended.value.code, *capsys.readouterr())

    return calling


@pytest.mark.parametrize("kind", ["runtime", "memory", "recursion"])
def test_an_unforeseen_error_is_one_sentence_with_the_path_of_a_private_log(call, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = call("boom", kind)
    assert done.code == 1
    assert "Traceback" not in done.err
    assert done.sentences == 1
    log = Path(re.search(r"traceback is in '([^']+)'", done.err)[1])
    assert log.parent == tmp_path
    assert "Traceback" in log.read_text()
    assert "boom" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_does_not_hide_the_error(call, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at all")
    done = call("boom", "runtime")
    assert done.code == 1
    assert "RuntimeError: broken" in done.err
    assert "could not be written" in done.err
    assert done.sentences == 1


def test_a_closed_output_pipe_ends_the_command_without_a_message(call):
    done = call("boom", "pipe")
    assert (done.code, done.err) == (1, "")


def test_the_version_is_printed_and_the_package_can_be_run():
    done = subprocess.run([sys.executable, "-m", "snellen", "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"snellen {snellen.__version__}\n", "")


def test_an_unknown_option_is_a_usage_error(call):
    done = call("--nonsense")
    assert done.code == 2
    assert "No such option: --nonsense" in done.err


def test_a_name_that_is_not_utf_8_is_refused(call):
    done = call("report", "run\udcff")
    assert done.code == 2
    assert "is not UTF-8" in done.err
    assert done.sentences == 1


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


VALUES = {
    "no repr": Unprintable(),
    "long": "x" * 10_000,
    "digits": 10**5000,
    "deep": [[[[[[[]]]]]]] * 50,
    "wide": {str(key): key for key in range(99)},
    "no text": "\udcff\0\n\n",
    "bytes": b"\0" * 999,
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_in_a_sentence_is_short_and_on_one_line(name):
    text = short_repr(VALUES[name])
    assert 0 < len(text) <= 80
    assert text.isprintable()
    text.encode()


SETTINGS = {
    "seed": [-1, 2**70, 1.5, True, "3", None],
    "mean": [float("nan"), ["a"], "0.5", {}],
    "std": [0, -1.0, float("inf"), [0.2, 0]],
    "size": [0, -5, 10**9],
    "crop": [0, float("nan"), 2.0],
    "batch": [0, -1, 10**12],
    "shard": [0, -1, 10**12],
    "workers": [-1, 100_000],
    "threads": [-1, 0, 100_000],
    "out": ["a\0b", "\udcff", 3, None],
    "model": [None, 5, ["digits"]],
    "methods": [5, "gradient", {"a": 1}],
    "outputs": ["answers", 3],
    "engine": ["fast", 1],
    "target": [None, 1.5, ["cat"]],
    "nonsense": [1],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in SETTINGS.items() for value in values])
def test_a_setting_of_a_wrong_kind_or_size_is_refused_by_name(name, value):
    with pytest.raises(SnellenError) as refusal:
        Settings.of({name: value})
    assert f"'{name}" in str(refusal.value)
    assert str(refusal.value).isprintable()


def bomb(link: str) -> str:
    """Nine levels of nine aliases each: 400 million values in 500 bytes."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{place}: &a{place} {link % ','.join([f'*a{place - 1}'] * 9)}" for place in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_yaml, bomb("[%s]")),
        (parse_yaml, bomb("{<<: [%s]}")),
        (parse_yaml, "a: &a [*a]"),
        (parse_yaml, "[" * 3000),
        (parse_yaml, "a: " + "9" * 5000),
        (parse_yaml, "a: 0x" + "f" * 5000),
        (parse_yaml, "a: 2024-13-01"),
        (parse_yaml, "a: 2024-12-01"),
        (parse_yaml, "? [1]\n: 2"),
        (parse_yaml, "~: 2"),
        (parse_yaml, "!!int x"),
        (parse_yaml, "!!timestamp x"),
        (parse_yaml, "!!bool x"),
        (parse_yaml, "!!set {a}"),
        (parse_yaml, '"\\ud800"'),
        (parse_yaml, "a: \0"),
        (parse_json, "[" * 100_000),
        (parse_json, "[" * 200 + "]" * 200),
        (parse_json, "9" * 5000),
        (parse_json, '{"a": "\\u0000"}'),
        (parse_toml, "a = " + "[" * 5000),
        (parse_toml, "a = " + "9" * 5000),
        (parse_toml, "a = 2024-12-01"),
    ],
)
def test_a_document_that_would_hang_or_break_what_reads_it_is_refused(parse, text):
    with pytest.raises(SnellenError) as refusal:
        parse(text, "'file'")
    assert str(refusal.value).startswith("'file'")
    assert len(str(refusal.value)) < 400


@pytest.mark.timeout(20)
@pytest.mark.parametrize("read", [Settings.read, read_scenes])
def test_a_file_of_aliases_that_multiply_is_refused(tmp_path, read):
    (tmp_path / "bomb.yaml").write_text(f"rule: box1\n{bomb('[%s]')}")
    with pytest.raises(SnellenError, match="more than 100,000 values once its aliases are written out"):
        read(tmp_path / "bomb.yaml")


def test_an_alias_that_repeats_little_is_read():
    assert parse_yaml("a: &a [1, 2]\nb: *a\nc: {<<: {d: 3}}", "'file'") == {"a": [1, 2], "b": [1, 2], "c": {"d": 3}}


@pytest.mark.parametrize(
    ("registry", "text", "rule"),
    [
        (METHODS, "smoothgrad(of=5)", "'smoothgrad': of must be the name of a method, not 5"),
        (METHODS, "smoothgrad(of=[gradient])", "of must be the name of a method"),
        (METHODS, "smoothgrad(spread=NaN)", "must be a finite number, not nan"),
        (METHODS, "smoothgrad(spread=1e999)", "must be a finite number, not inf"),
        (METHODS, f"rise(masks={'9' * 5000})", "masks must be a whole number"),
        (METHODS, f"rise(masks={10**30})", "masks must be a number of fewer digits"),
        (METHODS, "smoothgrad(of=" * 500 + "gradient" + ")" * 500, "nested deeper"),
        (METHODS, "rise(masks=" + "[" * 2000 + "]" * 2000 + ")", "nested deeper"),
        (METHODS, None, "a method is written as a name, as in rise or rise(masks=500), not None"),
        (METHODS, 5, "a method is written as a name"),
        (METHODS, {"name": "rise", "params": 5}, "a method is written as a name or as {name, params}"),
        (METHODS, {"name": None}, "a method is written as a name or as {name, params}"),
        (METHODS, {"name": "rise", "params": {1: 2}}, "has no setting '1'"),
        (CONDITIONS, "rotation(degrees=NaN)", "degrees must be a finite number"),
        (CONDITIONS, "rotation(degrees=-Infinity)", "degrees must be a finite number"),
    ],
)
def test_a_name_with_settings_of_a_wrong_kind_is_refused(registry, text, rule):
    with pytest.raises(SnellenError, match=re.escape(rule)) as refusal:
        registry.parse(text)
    assert len(str(refusal.value)) < 400


def test_a_label_that_only_looks_like_a_number_is_no_number(tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("file,label\na.png,²\n", encoding="utf-8")
    with pytest.raises(SnellenError, match="the label '²' is a name"):
        read_labels(table, ["a.png"], None)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name themselves")
def test_a_picture_whose_name_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "pic\udcff.png").write_bytes(b"")
    with pytest.raises(SnellenError, match="has a name that is not UTF-8; rename it"):
        from_folder(tmp_path, geometry=Geometry(None))


def test_a_device_that_computes_nothing_is_refused():
    with pytest.raises(SnellenError, match="the device 'meta' cannot be used here"):
        load_classifier("digits", device="meta")


def test_a_seed_is_checked_before_anything_is_computed(tmp_path):
    with pytest.raises(SnellenError, match="seed cannot be -1; it must be at least 0"):
        snellen.evaluate(None, None, methods=["random"], metrics=None, seed=-1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "text", ["[]", "3", "null", '{"schema": "x"}', '{"schema": 1}', '{"schema": 1, "spec": []}', "[" * 9999]
)
def test_a_record_of_another_shape_is_no_run(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(SnellenError, match=r"run\.json' is damaged"):
        Run(tmp_path)


def test_explain_refuses_a_path_that_is_no_photograph(call):
    done = call("explain", "", "--model", "digits")
    assert (done.code, done.sentences) == (2, 1)


def test_a_file_that_cannot_be_written_is_a_mistake(call):
    done = call("boom", "path")
    assert (done.code, done.sentences) == (2, 1)
    assert "'/nowhere/table.md' cannot be used (No such file or directory)" in done.err
