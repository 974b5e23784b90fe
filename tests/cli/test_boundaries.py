"""Every place where Snellen reads what people or files say: whatever stands there is read, or refused in one sentence.

`make test` tries the same few examples each time; `make test-exhaustive` searches through thousands and prints the counts.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.mutations import WORDS, anything, attempt, mutated, scribbled
from tests.runs.subject import write_images
from tests.study.planted_study import PROTOCOL, plant

import snellen.images  # noqa: F401  (its conditions register themselves)
from snellen.cards.card_json import as_json
from snellen.cards.card_set import card, cards_of_runs
from snellen.cards.files import read_card
from snellen.cards.markdown_writer import write_markdown
from snellen.cards.printed_card import printable
from snellen.cards.priorities import Priorities
from snellen.cli import main as cli
from snellen.errors import SnellenError
from snellen.images.tables import read_boxes, read_labels
from snellen.plugins.registry import CONDITIONS, METHODS, METRICS, label
from snellen.report.page import page
from snellen.report.summary_table import summary_table
from snellen.runs import Run
from snellen.runs.plan import parse_methods, parse_metrics
from snellen.runs.segments import new_frame
from snellen.runs.settings import Settings
from snellen.study.folder import Study
from snellen.study.making.preview import StudyPreview
from snellen.study.protocol import Protocol
from snellen.study.web.sentences import check_texts
from snellen.textbox.networks import trained_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.scenes.scene_files import read_scenes

SEARCHING = settings.default.max_examples > 100
pytestmark = pytest.mark.timeout(3600 if SEARCHING else 300)
FULL = settings.default.max_examples if SEARCHING else 12
"""Examples per test; the fast tests try a few, the same each time."""


def examples(share: float) -> settings:
    """This share of the examples of the profile: what costs more is tried less often."""
    return settings(max_examples=max(5, int(share * FULL)), suppress_health_check=list(HealthCheck))


def printed(what: object) -> None:
    Console(file=io.StringIO(), width=100).print(what)


def dumped(values: Any) -> str:
    """Values as JSON, whatever they are; JSON has no word for numbers that Python cannot write."""
    try:
        return json.dumps(values)
    except (ValueError, TypeError):
        return json.dumps(str(type(values)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("boundaries")


@pytest.fixture(scope="module")
def images(folder) -> Path:
    return write_images(folder / "images", count=2, side=8)


@pytest.fixture(scope="module")
def finished(folder, images) -> Path:
    """A small run that was made from settings."""
    values = {
        "model": "tests.runs.subject:load", "images": str(images), "size": 8, "out": str(folder / "run"), "threads": 1,
        "seed": 3, "methods": ["gradient", "grad-cam", "random"], "metrics": ["sparseness", "deletion(steps=2)"],
    }  # fmt: skip
    from snellen.runs.progress import Silent

    Settings.of(values).run(Silent())
    return folder / "run"


# Settings ----------------------------------------------------------------------------------------------------------------

SETTINGS = {
    "model": "tests.runs.subject:load", "images": "somewhere",
    "methods": ["gradient", {"name": "rise", "params": {"masks": 30}}],
    "metrics": ["deletion", "sparseness"], "out": "runs/x", "target": "predicted", "seed": 0, "mean": [0.5, 0.5, 0.5],
    "std": 0.2, "size": 32, "crop": 0.9, "batch": 8, "shard": 4, "workers": 0, "threads": 1, "engine": "eager",
    "unreadable": "skip", "outputs": "logits", "precision": "float32", "condition": "rotation(degrees=45)",
}  # fmt: skip


def read_settings(path: Path) -> None:
    settings_read = Settings.of(Settings.read(path))
    parse_methods(settings_read.methods)
    parse_metrics(settings_read.metrics)
    if settings_read.condition is not None:
        CONDITIONS.parse(settings_read.condition)
    assert isinstance(json.dumps(settings_read.as_values(), allow_nan=False), str)


@examples(1)
@given(values=mutated(SETTINGS))
def test_settings_with_wrong_values(folder, values):
    (folder / "settings.json").write_text(dumped(values))
    attempt("settings", lambda: read_settings(folder / "settings.json"))
    attempt("settings", lambda: Settings.of(values) if isinstance(values, dict) else None)


@examples(1)
@given(text=scribbled(yaml.safe_dump(SETTINGS)), ending=st.sampled_from(["yaml", "toml"]))
def test_settings_with_wrong_text(folder, text, ending):
    path = folder / f"settings.{ending}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    attempt("settings", lambda: read_settings(path))


# Names with settings -----------------------------------------------------------------------------------------------------

SPECS = [
    "gradient", "rise(masks=500, cells=7)", "smoothgrad(of=grad-cam, samples=8, spread=0.1)", "rise@petsiuk2018", "lime",
    "smoothgrad(of=smoothgrad(of=gradient))", "deletion(steps=28, fill=blur)", "infidelity(scaled=true)",
    "rotation(degrees=45)", "resize(side=64)", "mixup", "grad-cam(layer=layer4)", "occlusion(overlap=2)",
    "integrated-gradients(steps=8)", "pointing-game", "max-sensitivity(samples=3)", "road(steps=4)",
]  # fmt: skip


@examples(3)
@given(text=st.sampled_from(SPECS).flatmap(scribbled))
def test_names_with_settings(text):
    for registry in (METHODS, METRICS, CONDITIONS):
        attempt("names with settings", lambda registry=registry: label(registry.parse(text)))


@examples(2)
@given(name=st.sampled_from(sorted([*METHODS, *METRICS, *CONDITIONS])), value=anything, data=st.data())
def test_settings_of_every_plug_in(name, value, data):
    registry: Any = next(registry for registry in (METHODS, METRICS, CONDITIONS) if name in registry)
    fields = [*registry[name].__dataclass_fields__]
    key = data.draw(st.sampled_from(fields)) if fields else "nothing"
    attempt("names with settings", lambda: label(registry.parse({"name": name, "params": {key: value}})))


@examples(1)
@given(value=anything)
def test_anything_in_the_place_of_a_name(value):
    attempt("names with settings", lambda: METHODS.parse(value))
    attempt("names with settings", lambda: METRICS.parse({"name": value, "params": value}))


# Tables of labels and boxes ----------------------------------------------------------------------------------------------

IDS = ["cat/000.png", "cat/001.png", "dog/002.png"]
LABELS = "file,label\ncat/000.png,0\n001.png,tabby\ndog/002.png,\n"
BOXES = "file,x0,y0,x1,y1\ncat/000.png,0,0,4,4\ndog/002.png,1.5,2,3,4e0\n"


@examples(2)
@given(text=scribbled(LABELS), encoding=st.sampled_from(["utf-8", "utf-16", "latin-1"]), names=st.booleans())
def test_tables_of_labels(folder, text, encoding, names):
    path = folder / "labels.csv"
    path.write_bytes(text.encode(encoding, "replace"))

    def read() -> None:
        labels, groups = read_labels(path, IDS, ["tabby", "terrier"] if names else None)
        assert all(label is None or label >= 0 for label in labels.values())
        assert all(groups.values())

    attempt("tables", read)


@examples(2)
@given(text=scribbled(BOXES), encoding=st.sampled_from(["utf-8", "utf-16", "latin-1"]))
def test_tables_of_boxes(folder, text, encoding):
    path = folder / "boxes.csv"
    path.write_bytes(text.encode(encoding, "replace"))

    def read() -> None:
        assert all(math.isfinite(value) for boxes in read_boxes(path, IDS).values() for box in boxes for value in box)

    attempt("tables", read)


# Run folders -------------------------------------------------------------------------------------------------------------


def record_of(path: Path) -> dict[str, Any]:
    """A record as an older version wrote it: without a checksum, which would refuse every change."""
    record: dict[str, Any] = json.loads(path.read_text())
    record.pop("checksum", None)
    return record


def read_run(folder: Path, *, whole: bool) -> None:
    run = Run(folder)
    printed(summary_table(run))
    run.costs()
    run.problems()
    run.curves(run.metrics[0] if run.metrics else "none")
    if whole:
        page(run)
        printed(printable(cards_of_runs([folder]).cards[0]))


@contextlib.contextmanager
def changed(path: Path, text: str | bytes) -> Iterator[None]:
    """A file with another content for a moment."""
    before = path.read_bytes()
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        yield
    finally:
        path.write_bytes(before)


@examples(1)
@given(data=st.data(), whole=st.integers(0, 9))
def test_records_of_runs(finished, data, whole):
    values = data.draw(mutated(record_of(finished / "run.json")))
    with changed(finished / "run.json", dumped(values)):
        attempt("run.json", lambda: read_run(finished, whole=not whole))


def written_again(path: Path, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """A file of units whose first header was changed, as somebody may write it who knows the checksums."""
    content = path.read_bytes()
    lengths = struct.unpack_from("<4sII16s", content)
    middle, end = 28 + lengths[1], 28 + lengths[1] + lengths[2]
    return new_frame(change(json.loads(content[28:middle])), content[middle:end]) + content[end:]


@examples(1)
@given(data=st.data())
def test_frames_of_units(finished, data):
    path = min((finished / "segments").glob("*.units"))
    try:
        text = written_again(path, lambda header: data.draw(mutated(header)))
    except (TypeError, ValueError, UnicodeEncodeError):
        return  # it cannot be written
    (index,) = (finished / "index").iterdir()
    before = index.read_bytes()
    index.unlink()
    try:
        with changed(path, text):
            attempt("units", lambda: read_run(finished, whole=False))
    finally:
        index.write_bytes(before)


@examples(1)
@given(data=st.data())
def test_text_of_records(finished, data):
    path = finished / "run.json"
    with changed(path, data.draw(scribbled(json.dumps(record_of(path))))):
        attempt("run.json", lambda: read_run(finished, whole=False))


# Studies -----------------------------------------------------------------------------------------------------------------

TASKS = [{"task": "error-detection", "items": 2, "practice": 1}, {"task": "forward-selection", "items": 2, "practice": 0}]


@pytest.fixture(scope="module")
def planted(folder) -> Path:
    study, _ = plant(folder / "study", tasks=TASKS, scales=["trust"], languages=["en"], arms=["grad-cam", "none"])
    return study.folder


def read_study(folder: Path) -> None:
    study = Study.read(folder)
    check_texts(study)
    printed(StudyPreview(study))
    study.pages(0, 1)
    assert study.digest
    study.sign("x")
    study.admits("x")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stimuli.json", "study.yaml", "questionnaires/trust.yaml", "texts/en.yaml", "secret.json"])
@examples(1)
@given(data=st.data())
def test_files_of_studies(planted, name, data):
    text = (planted / name).read_text()
    wrong = mutated(yaml.safe_load(text)).map(dumped)
    other = data.draw(wrong | wrong | scribbled(text))
    with changed(planted / name, other):
        attempt(f"study: {name}", lambda: read_study(planted))


@examples(1)
@given(values=mutated(PROTOCOL))
def test_protocols(values):
    attempt("study: study.yaml", lambda: Protocol.of(values, "planted") if isinstance(values, dict) else None)


# Cards -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_card(finished):
    return cards_of_runs([finished]).cards[0]


@examples(1)
@given(data=st.data(), own=st.booleans())
def test_cards_as_json(folder, run_card, data, own):
    values = data.draw(mutated(as_json(run_card if own else card("grad-cam", "grad-cam"))))
    (folder / "card.json").write_text(dumped(values))
    attempt("cards", lambda: printed(printable(read_card(folder / "card.json"))))


@examples(1)
@given(data=st.data(), ending=st.sampled_from(["md", "json"]))
def test_cards_as_text(folder, run_card, data, ending):
    text = write_markdown(run_card) if ending == "md" else json.dumps(as_json(run_card))
    path = folder / f"card.{ending}"
    path.write_bytes(data.draw(scribbled(text)).encode("utf-8", "surrogatepass"))
    attempt("cards", lambda: printed(printable(read_card(path))))


@examples(1)
@given(
    words=st.lists(st.sampled_from(["determinism", "Minimality", "people"]).flatmap(scribbled) | st.sampled_from(WORDS)),
    cost=st.none() | st.sampled_from(["2s", "500ms", "1 min"]).flatmap(scribbled),
    profile=st.none() | st.just("radiologist").flatmap(scribbled),
)
def test_priorities(words, cost, profile):
    half = len(words) // 2
    attempt("priorities", lambda: Priorities.read(need=words[:half], nice=words[half:], avoid_cost=cost, profile=profile))


# TextBox -----------------------------------------------------------------------------------------------------------------

SCENES = {
    "rule": 'if star: box else: text == "B"', "side": 64, "background": "noise", "colour": "orange",
    "things": {"text": "published", "box": {"height": 8, "width": 12}, "star": "..#..\n#####\n.#.#.", "dot": 3},
}  # fmt: skip
RULES = ["if box1: box2 else: text == 'B'", "not (box1 and box2) or text", "if box1: 0 elif box2: 1 else: 2", "label = box1"]
LONG_RULES = st.builds(lambda part, times: part * times, st.sampled_from(["not ", "(", "if box1: "]), st.integers(1, 3000))


@examples(0.3)
@given(data=st.data())
def test_scene_files(folder, data):
    path = folder / "scenes.yaml"
    if data.draw(st.booleans()):
        path.write_text(dumped(data.draw(mutated(SCENES))))
    else:
        path.write_bytes(data.draw(scribbled(yaml.safe_dump(SCENES))).encode("utf-8", "surrogatepass"))
    attempt("textbox: scene files", lambda: read_scenes(path))


@examples(2)
@given(rule=st.sampled_from(RULES).flatmap(scribbled) | LONG_RULES)
def test_rules(rule):
    attempt("textbox: rules", lambda: NetworkSpec.of_rule(rule))


@examples(0.3)
@given(data=st.data())
def test_records_of_trained_networks(folder, data):
    mine = folder / "reasoner"
    if not mine.exists():
        shutil.copytree(trained_network.shipped_folder() / "simple-fr", mine)
    path = mine / trained_network.RECORD
    with changed(path, dumped(data.draw(mutated(json.loads(path.read_text()))))):
        attempt("textbox: trained networks", lambda: trained_network.read_network(mine).classifier())


# The command line --------------------------------------------------------------------------------------------------------

NUMBER_OPTIONS = ["--seed", "--size", "--crop", "--batch", "--shard", "--workers", "--threads", "--mean", "--std"]
TEXT_OPTIONS = [
    "--target", "--condition", "--labels", "--masks", "--boxes", "--unreadable", "--weights", "--classes", "--outputs",
    "--precision", "--device", "--images", "--methods", "--metrics", "--out", "--model", "--nonsense", "--recipe",
    "--training",
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["-1", "0", "nan", "1e999", "100000", "9" * 30, "9" * 5000, "1,2,3", "meta", "cuda:99", "²", "0.5,x"]),
    st.sampled_from(["rotation(degrees=NaN)", "smoothgrad(of=5)", "rise(masks=-3)", "gradient,gradient", "a:b", "zoo:"]),
    st.sampled_from([word for word in WORDS if "\0" not in word]),
    st.text(max_size=6).filter(lambda word: "\0" not in word),
)
options = st.lists(st.tuples(st.sampled_from([*NUMBER_OPTIONS, *TEXT_OPTIONS]), VALUES), max_size=2)


def snellen_ends(*words: str) -> int:
    """The exit code of the command line in this process; an error that nobody foresaw fails the test."""
    out, err = io.StringIO(), io.StringIO()
    arguments, sys.argv = sys.argv, ["snellen", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        sys.argv = arguments
    assert code in (0, 2), (words, code, err.getvalue()[-600:])
    assert "Traceback" not in err.getvalue()
    return code


def try_command(*words: str) -> None:
    def call() -> None:
        if snellen_ends(*words):
            raise SnellenError("refused")

    attempt("command lines", call)


@examples(0.5)
@given(extra=options)
def test_command_lines_of_run(folder, images, extra, elsewhere):
    with tempfile.TemporaryDirectory(dir=folder) as out:
        base = ["run", "--model", "tests.runs.subject:load", "--size", "8", "--images", str(images), "--methods", "random",
                "--metrics", "sparseness", "--out", f"{out}/run", "--threads", "1"]  # fmt: skip
        try_command(*base, *(word for pair in extra for word in pair))


@examples(0.5)
@given(extra=options, photo=st.sampled_from(["", ".", "nowhere.png", "000.png", "\udcff", "/dev/null"]))
def test_command_lines_of_explain(folder, images, extra, photo, elsewhere):
    path = str(images / photo) if photo == "000.png" else photo
    words = [word for pair in extra for word in pair if pair[0] != "--images"]
    out = str(folder / "maps.png")
    try_command(
        "explain", path, "--model", "tests.runs.subject:load", "--size", "8", "--methods", "random", "--out", out, *words
    )


READERS = [
    "report",
    "resume",
    "verify",
    "study check",
    "study status",
    "study password",
    "study export",
    "list",
    "card",
    "compare",
    "recommend --run",
    "recommend --profile",
    "recommend --avoid-cost",
    "card --run",
    "textbox show --rule",
    "textbox show --model",
    "study new",
    "study pause",
    "study erase",
    "reproduce",
    "cards --run",
]


@examples(1)
@given(command=st.sampled_from(READERS), words=st.lists(VALUES | st.just("RUN") | st.just("STUDY"), max_size=3))
def test_command_lines_that_read(folder, finished, planted, command, words, elsewhere):
    places = {"RUN": str(folder / "gone"), "STUDY": str(planted)}
    try_command(*command.split(), *(places.get(word, word) for word in words))


@pytest.fixture(scope="module")
def elsewhere(folder) -> Iterator[None]:
    """A folder of its own to work in, where commands may write, and the tests' own models on the path."""
    with pytest.MonkeyPatch.context() as patch:
        work = folder / "work"
        work.mkdir()
        patch.chdir(work)
        patch.setattr(tempfile, "tempdir", str(work))
        patch.setenv("COLUMNS", "100")
        yield
