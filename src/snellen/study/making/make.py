"""Makes a study folder from a run: chooses images, draws the maps of all arms in the same way, writes all files at once."""

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
from snellen.files.folder import folder_at
from snellen.images import Samples, colours
from snellen.runs import Run
from snellen.runs.method_labels import find_label
from snellen.runs.progress import Observer, default_observer
from snellen.runs.reload import reload_subject
from snellen.study import scales
from snellen.study.folder import SCHEMA, Study, new_password
from snellen.study.making import rendering
from snellen.study.making.choosing import ItemChoice, candidates, choose
from snellen.study.making.protocol_file import protocol_text
from snellen.study.protocol import NONE, Protocol, StudyCondition
from snellen.study.stimuli import ClassRow, Item, Picture, Subject
from snellen.study.tasks import TASKS, Candidate, ChosenItem, accuracy, find_task
from snellen.study.texts import written_languages, written_texts

TITLE = "What does the program see?"
TASK: tuple[Mapping[str, Any], ...] = ({"task": "error-detection"},)
"""The tasks of a protocol that names none."""

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
    """Makes a study of a run's maps in a new folder.

    The password of the new study is not returned: `snellen.study.folder.new_password` makes another and returns it.

    Args:
        run: The folder of the run.
        folder: The new folder; it may exist if it is empty.
        values: Settings of the protocol, of which only `arms` is needed.
        classifier: For a run that was made from Python objects, its classifier.
        samples: For a run that was made from Python objects, its samples.
        observer: Shows the progress.
        trust: Whether code in the run's model may be executed.
    """
    target, source, observer = Path(folder), Run(run), observer or default_observer()
    _refuse_taken(target)
    _refuse_other_outputs(source)
    protocol = _protocol(source, values)
    files = _files(protocol)
    pool = candidates(source.samples())
    choice = choose(pool, protocol)
    _, loaded = reload_subject(source, classifier, samples, observer, usage=_PYTHON, trust=trust)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=target.parent) as name:
        new = Path(name) / "study"
        renderer = _Renderer(run=source, samples=loaded, protocol=protocol, choice=choice, folder=new / "pictures")
        observer.note(f"drawing {count(renderer.total, 'picture')}")
        (new / "pictures").mkdir(parents=True)
        stimuli = {
            "schema": SCHEMA,
            "subject": _subject(source, pool, choice),
            "items": [item.as_values() for item in renderer.items()],
        }
        (new / "stimuli.json").write_text(json.dumps(stimuli, indent=1, ensure_ascii=False), encoding="utf-8")
        (new / "study.yaml").write_text(protocol_text(protocol), encoding="utf-8")
        for path, text in files.items():
            (new / path).parent.mkdir(exist_ok=True)
            (new / path).write_text(text, encoding="utf-8")
        new_password(new)
        Study.read(new)
        if target.exists():
            target.rmdir()  # it is empty: that was checked
        new.rename(target)
    return Study.read(target)


def read_tasks(text: str) -> list[dict[str, Any]]:
    """Tasks as written on the command line: comma-separated names, each with `:items` or `:items:practice`.

    >>> read_tasks("error-detection:12,sharpness:6:1")
    [{'task': 'error-detection', 'items': 12}, {'task': 'sharpness', 'items': 6, 'practice': 1}]
    """
    plans = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        name, *numbers = part.split(":")
        if len(numbers) > 2 or not all(number.isascii() and number.isdigit() for number in numbers):
            raise SnellenError(f"cannot read the task '{part}'; write its name, items and practice trials: {name}:12:2")
        if name not in TASKS:
            raise SnellenError(f"there is no task '{name}'{nearest(name, TASKS) or ';'} there are {', '.join(TASKS)}")
        plans.append({"task": name} | dict(zip(("items", "practice"), map(int, numbers), strict=False)))
    return plans


def _refuse_taken(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SnellenError(f"'{folder}' exists and is not empty; choose another folder for the study")


def _refuse_other_outputs(run: Run) -> None:
    """Participants are told the class that the model predicts, and judge whether it is right."""
    classifier = run.record.classifier
    if not classifier.exclusive:
        raise SnellenError(
            f"a study shows the class that a model predicts, but '{classifier.name}' of '{run.folder}' has "
            f"{classifier.head_words}; make it from a run of a model with exclusive classes"
        )


def _protocol(run: Run, values: Mapping[str, Any]) -> Protocol:
    """The protocol, with arms named by their labels in the run; every arm must have a map of every image."""
    methods = {method.label: method.name for method in run.record.spec.methods}
    arms = []
    for arm in values.get("arms") or ():
        label = NONE if arm == NONE else find_label(str(arm), methods, f"'{run.folder}'", run.positive_controls)
        if label != NONE and label not in run.explained:
            broken = run.record.method_failures
            reason = f" ({broken[label]})" if label in broken else ""
            raise SnellenError(
                f"'{run.folder}' has no map of '{label}' for some images{reason}; finish the run, or leave it out"
            )
        if label != NONE and not run.record.spec.keeps_all_maps and len(run.kept_maps(label)) < len(run.samples()):
            raise SnellenError(
                f"'{run.folder}' did not keep all maps of '{label}', which a study shows; make the run again with "
                "--keep-maps all and another --out"
            )
        arms.append(label)
    settings = {"title": TITLE, "tasks": TASK, **values, "arms": tuple(arms), "run": str(run.folder)}
    return Protocol.of(settings, "the study")


def _files(protocol: Protocol) -> dict[str, str]:
    """The texts and questionnaires that come with Snellen, by their paths in the study's folder."""
    questionnaires = scales.shipped()
    files = {}
    for what, available, names, folder in (
        ("texts in", written_languages(), protocol.languages, "texts"),
        ("questionnaire", sorted(questionnaires), protocol.scales, "questionnaires"),
    ):
        for name in names:
            if name not in available:
                raise SnellenError(
                    f"Snellen has no {what} '{name}', only {', '.join(available)}; make the study without it, put "
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


def _subject(run: Run, pool: Sequence[Candidate], choice: ItemChoice) -> Subject:
    """The run that the study was made from, and how its images were chosen."""
    record, accuracy_of = run.record, accuracy(pool)
    labels = (item.images[0].label for item in choice.items if find_task(item.task).traits.about_class)
    classes = sorted({label for label in labels if label is not None})
    return Subject(
        run=folder_at(run.folder).name,
        model=record.classifier.name,
        fingerprint=record.classifier.fingerprint,
        digest=record.samples.digest,
        images=record.samples.count,
        chosen=choice.table(),
        notes=list(choice.notes),
        classes={
            _class(run, label): ClassRow(accuracy=accuracy_of[label], images=sum(image.label == label for image in pool))
            for label in classes
        },
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Renderer:
    """Draws the pictures of the chosen images for every condition, in files with random names."""

    run: Run
    samples: Samples
    protocol: Protocol
    choice: ItemChoice
    folder: Path

    @property
    def total(self) -> int:
        """The number of pictures."""
        return sum(len(self.protocol.conditions) * len(item.images) + len(item.further) for item in self.choice.items)

    def items(self) -> Iterator[Item]:
        """Draws the pictures of every item and yields the items of the study."""
        numbers: dict[tuple[str, bool], int] = {}
        for item in self.choice.items:
            number = numbers[item.task, item.practice] = numbers.get((item.task, item.practice), 0) + 1
            yield self._item(item, f"{item.task}-{'practice-' if item.practice else ''}{number}")

    def _item(self, chosen: ChosenItem, name: str) -> Item:
        task = find_task(chosen.task)
        label = chosen.images[0].label
        return Item(
            id=name,
            task=chosen.task,
            practice=chosen.practice,
            samples=tuple(image.sample for image in chosen.images),
            predictions=tuple(_class(self.run, image.prediction) for image in chosen.images),
            truth=task.truth(chosen, self._accuracy),
            pictures={
                condition.name: tuple(self._draw(image, condition.arm, self._style(condition)) for image in chosen.images)
                for condition in self.protocol.conditions
            },
            about=_class(self.run, label) if task.traits.about_class and label is not None else "",
            further=tuple(image.sample for image in chosen.further),
            choices=tuple(self._draw(image, NONE, rendering.PHOTOGRAPH) for image in chosen.further),
        )

    def _style(self, condition: StudyCondition) -> str:
        """How pictures are drawn: without maps they are grey where the photographs under all maps are grey."""
        grey = condition.arm == NONE and self.protocol.presentation == ("overlay",)
        return rendering.GREY if grey else condition.presentation

    def _draw(self, image: Candidate, arm: str, presentation: str) -> Picture:
        photo = self._photographs[image.sample]
        values = None if arm == NONE else self._maps[arm][image.sample]
        pixels = rendering.picture(photo, values, presentation)
        file = self.folder / f"{secrets.token_hex(16)}.webp"
        file.write_bytes(rendering.encoded(pixels, photo))
        os.utime(file, (self._now, self._now))  # the order of drawing would reveal which pictures belong together
        return Picture(file.name, pixels.shape[1], pixels.shape[0])

    @cached_property
    def _now(self) -> float:
        return self.folder.stat().st_mtime

    @cached_property
    def _accuracy(self) -> dict[int, float]:
        return accuracy(candidates(self.run.samples()))

    @cached_property
    def _photographs(self) -> dict[str, rendering.Rgb]:
        names = {image.sample for item in self.choice.items for image in (*item.images, *item.further)}
        ids = enumerate(self.samples.ids)
        return {
            name: rendering.photograph(colours(self.samples[index].image, self.samples.show_channels))
            for index, name in ids
            if name in names
        }

    @cached_property
    def _maps(self) -> dict[str, dict[str, Float[np.ndarray, "height width"]]]:
        """By arm and sample, the maps of the images of all items."""
        names = sorted({image.sample for item in self.choice.items for image in item.images})
        arms = [arm for arm in self.protocol.arms if arm != NONE]
        return {arm: dict(zip(names, self.run.maps(arm, names), strict=True)) for arm in arms}


def _class(run: Run, index: int) -> str:
    """The name of a class, as participants read it."""
    names = run.record.classifier.class_names
    return str(names[index]) if names else f"class {index}"
