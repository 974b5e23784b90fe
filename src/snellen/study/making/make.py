"""From a run to a study folder: images chosen, maps drawn in one way for all arms, and all of it written or nothing."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from snellen.charts.numbers import count
from snellen.errors import SnellenError, nearest
from snellen.files.atomic import PREFIX
from snellen.images import Samples
from snellen.runs import Run
from snellen.runs.method_labels import find_label
from snellen.runs.progress import Observer, default_observer
from snellen.runs.reload import reload_subject
from snellen.study import scales
from snellen.study.folder import SCHEMA, Study, new_password
from snellen.study.making import rendering
from snellen.study.making.choosing import ItemChoice, candidates, choose
from snellen.study.making.protocol_file import protocol_text
from snellen.study.protocol import NONE, Condition, Protocol
from snellen.study.stimuli import Item, Picture
from snellen.study.tasks import TASKS, Candidate, ChosenItem, accuracy, find_task
from snellen.study.texts import written_languages, written_texts

TITLE = "What does the program see?"
TASK: tuple[Mapping[str, Any], ...] = ({"task": "error-detection"},)
"""What is asked where nobody says what."""

_PYTHON = "snellen.study.making.make.make(run, folder, values, classifier=..., samples=...)"


def make(
    run: str | Path,
    folder: str | Path,
    values: Mapping[str, Any],
    *,
    classifier: Any = None,
    samples: Any = None,
    observer: Observer | None = None,
    trust: bool = False,
) -> Study:
    """A study of a run's maps in a new folder; `values` are settings of the protocol, of which only `arms` is needed.

    A run that was made from Python objects needs them again: `classifier` and `samples`. A model of a stranger's
    run is loaded only with `trust`. Nobody knows the password of the new study: `snellen.study.folder.new_password` makes
    one and tells it.
    """
    place, found, watching = Path(folder), Run(run), observer or default_observer()
    _refuse_taken(place)
    protocol = _protocol(found, values)
    files = _files(protocol)
    pool = candidates(found.samples())
    choice = choose(pool, protocol)
    _, loaded = reload_subject(found, classifier, samples, watching, given=_PYTHON, trust=trust)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=place.parent) as name:
        new = Path(name) / "study"
        drawn = _Easel(found, loaded, protocol, choice, new / "pictures")
        watching.note(f"drawing {count(drawn.total, 'picture')}")
        (new / "pictures").mkdir(parents=True)
        stimuli = {
            "schema": SCHEMA,
            "subject": _subject(found, pool, choice),
            "items": [item.as_values() for item in drawn.items()],
        }
        (new / "stimuli.json").write_text(json.dumps(stimuli, indent=1, ensure_ascii=False), encoding="utf-8")
        (new / "study.yaml").write_text(protocol_text(protocol), encoding="utf-8")
        for target, text in files.items():
            (new / target).parent.mkdir(exist_ok=True)
            (new / target).write_text(text, encoding="utf-8")
        new_password(new)
        Study.read(new)
        if place.exists():
            place.rmdir()  # it is empty: that was checked
        new.rename(place)
    return Study.read(place)


def read_tasks(text: str) -> list[dict[str, Any]]:
    """Tasks as the command line names them: names with commas between, each with items and practice trials behind colons.

    >>> read_tasks("error-detection:12,sharpness:6:1")
    [{'task': 'error-detection', 'items': 12}, {'task': 'sharpness', 'items': 6, 'practice': 1}]
    """
    found = []
    for one in (part.strip() for part in text.split(",") if part.strip()):
        name, *numbers = one.split(":")
        if len(numbers) > 2 or not all(number.isascii() and number.isdigit() for number in numbers):
            raise SnellenError(f"cannot read the task '{one}'; write its name, items and practice trials: {name}:12:2")
        if name not in TASKS:
            raise SnellenError(f"there is no task '{name}'{nearest(name, TASKS) or ';'} there are {', '.join(TASKS)}")
        found.append({"task": name} | dict(zip(("items", "practice"), map(int, numbers), strict=False)))
    return found


def _refuse_taken(place: Path) -> None:
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise SnellenError(f"'{place}' is there already and not empty; choose another folder for the study")


def _protocol(run: Run, values: Mapping[str, Any]) -> Protocol:
    """The protocol, with arms by the labels of the run, each with a map of every image."""
    known = {method.label: method.name for method in run.record.spec.methods}
    arms = []
    for value in values.get("arms") or ():
        label = NONE if value == NONE else find_label(str(value), known, f"'{run.folder}'")
        if label != NONE and label not in run.explained:
            broken = run.record.method_failures
            reason = f" ({broken[label]})" if label in broken else ""
            raise SnellenError(
                f"'{run.folder}' has no map of '{label}' for some images{reason}; finish the run, or leave it out"
            )
        arms.append(label)
    given = {"title": TITLE, "tasks": TASK, **values, "arms": tuple(arms), "run": str(run.folder)}
    return Protocol.of(given, "the study")


def _files(protocol: Protocol) -> dict[str, str]:
    """The texts and questionnaires that come with Snellen, by their paths in the study's folder."""
    questionnaires = scales.shipped()
    files = {}
    for what, there, names, folder in (
        ("texts in", written_languages(), protocol.languages, "texts"),
        ("questionnaire", sorted(questionnaires), protocol.scales, "questionnaires"),
    ):
        for name in names:
            if name not in there:
                raise SnellenError(
                    f"Snellen has no {what} '{name}', only {', '.join(there)}; make the study without it, put "
                    f"{folder}/{name}.yaml beside the others in its folder, and name it in study.yaml"
                )
            text = written_texts(name) if folder == "texts" else questionnaires[name].read_text(encoding="utf-8")
            files[f"{folder}/{name}.yaml"] = text
    for plan in protocol.tasks:
        texts = TASKS[plan.task].traits.texts
        for language in protocol.languages:
            if language not in texts:
                raise SnellenError(
                    f"the task '{plan.task}' has no texts in '{language}', only in {', '.join(texts)}; "
                    f"give --languages {','.join(texts)}, or add them to the task"
                )
    return files


def _subject(run: Run, pool: Sequence[Candidate], choice: ItemChoice) -> dict[str, Any]:
    """What the study is about, and how it was chosen."""
    record, share = run.record, accuracy(pool)
    labels = (item.images[0].label for item in choice.items if find_task(item.task).traits.about_class)
    asked = sorted({label for label in labels if label is not None})
    return {
        "run": run.folder.resolve().name,
        "model": record.classifier.name,
        "fingerprint": record.classifier.fingerprint,
        "digest": record.samples.digest,
        "images": record.samples.count,
        "chosen": choice.table(),
        "notes": list(choice.notes),
        "classes": {
            _class(run, label): {"accuracy": share[label], "images": sum(one.label == label for one in pool)}
            for label in asked
        },
    }


@dataclass(frozen=True, eq=False)
class _Easel:
    """Draws the pictures of chosen images under every condition, under names that say nothing."""

    run: Run
    samples: Samples
    protocol: Protocol
    choice: ItemChoice
    folder: Path

    @property
    def total(self) -> int:
        """How many pictures there will be."""
        return sum(len(self.protocol.conditions) * len(item.images) + len(item.further) for item in self.choice.items)

    def items(self) -> Iterator[Item]:
        """The items of the study, with their pictures drawn."""
        numbers: dict[tuple[str, bool], int] = {}
        for item in self.choice.items:
            number = numbers[item.task, item.practice] = numbers.get((item.task, item.practice), 0) + 1
            yield self._item(item, f"{item.task}-{'practice-' if item.practice else ''}{number}")

    def _item(self, one: ChosenItem, name: str) -> Item:
        task = find_task(one.task)
        label = one.images[0].label
        return Item(
            name,
            one.task,
            one.practice,
            tuple(image.sample for image in one.images),
            tuple(_class(self.run, image.prediction) for image in one.images),
            task.truth(one, self._accuracy),
            {
                condition.name: tuple(self._drawn(image, condition.arm, self._shown(condition)) for image in one.images)
                for condition in self.protocol.conditions
            },
            _class(self.run, label) if task.traits.about_class and label is not None else "",
            tuple(image.sample for image in one.further),
            tuple(self._drawn(image, NONE, rendering.PHOTOGRAPH) for image in one.further),
        )

    def _shown(self, condition: Condition) -> str:
        """How the pictures of a condition are drawn; where all others lack colours, those without maps lack them too."""
        grey = condition.arm == NONE and self.protocol.presentation == ("overlay",)
        return rendering.GREY if grey else condition.presentation

    def _drawn(self, image: Candidate, arm: str, presentation: str) -> Picture:
        photo = self._photographs[image.sample]
        values = None if arm == NONE else self._maps[arm][image.sample]
        shown = rendering.picture(photo, values, presentation)
        file = self.folder / f"{secrets.token_hex(16)}.webp"
        file.write_bytes(rendering.encoded(shown, photo))
        os.utime(file, (self._now, self._now))  # the order in which pictures were drawn is nobody's business
        return Picture(file.name, shown.shape[1], shown.shape[0])

    @cached_property
    def _now(self) -> float:
        return self.folder.stat().st_mtime

    @cached_property
    def _accuracy(self) -> dict[int, float]:
        return accuracy(candidates(self.run.samples()))

    @cached_property
    def _photographs(self) -> dict[str, rendering.Rgb]:
        wanted = {image.sample for item in self.choice.items for image in (*item.images, *item.further)}
        ids = enumerate(self.samples.ids)
        return {name: rendering.photograph(self.samples[place].image) for place, name in ids if name in wanted}

    @cached_property
    def _maps(self) -> dict[str, dict[str, Float[np.ndarray, "height width"]]]:
        """By arm and sample, only of the images that are shown."""
        wanted = sorted({image.sample for item in self.choice.items for image in item.images})
        arms = [arm for arm in self.protocol.arms if arm != NONE]
        return {arm: dict(zip(wanted, self.run.maps(arm, wanted), strict=True)) for arm in arms}


def _class(run: Run, index: int) -> str:
    """The name of a class, as participants read it."""
    names = run.record.classifier.class_names
    return str(names[index]) if names else f"class {index}"
