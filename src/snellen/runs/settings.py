"""The settings of a run: from a YAML or TOML file, the command line, or both, where the command line wins."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from snellen.classifier import Classifier
from snellen.classifier.arithmetic import Precision
from snellen.errors import SnellenError
from snellen.files.documents import EXACT, parse_as, parse_toml, parse_yaml, read_text
from snellen.files.seals import first_time
from snellen.images import Reading, Samples, from_path
from snellen.methods.controls import CONTROLS
from snellen.methods.positive_controls import POSITIVE_CONTROLS
from snellen.plugins.registry import CONDITIONS, traits
from snellen.runs.evaluate import evaluate
from snellen.runs.executors import dask_executor
from snellen.runs.job import UnfinishedError
from snellen.runs.kept_maps import KeepMaps
from snellen.runs.options import Options, Seed, ShardSize, Threads, Workers
from snellen.runs.plan import parse_methods, parse_metrics
from snellen.runs.progress import Observer
from snellen.runs.run import Run
from snellen.runs.variant_training import DIGITS, DIGITS_TRAINING, find_recipe, find_training
from snellen.types import Passes
from snellen.zoo import EMBEDDED, digit_samples, digits, digits_many, load_classifier, many_digit_samples, photographs
from snellen.zoo.models import executes_code

PHOTOGRAPHS = "zoo:photographs"
"""The pictures that come with the demo extra."""
DIGITS_MANY = "zoo:digits-many"
"""Scenes with several digits."""

MOST_SIDE = 8192
"""The largest side of an image in pixels; a batch of larger images fits into no memory."""
MOST_CHANNELS = 4096
"""The most channels of an image."""
MOST_ROWS = 65_536
"""The most images per pass."""

OLD_SETTINGS = {"compile"}
"""Settings of older versions: the record of a run says how it was computed, which it goes on with."""

PluginName = Annotated[Any, WithJsonSchema({"type": ["string", "object"]})]
"""A method or metric as text, or as a mapping with its name and settings."""

LoadedSubject = tuple[Classifier, Samples]


@contextmanager
def _checking(observer: Observer) -> Iterator[None]:
    observer.begin("checking the images", Passes(), 1)
    try:
        yield
    finally:
        observer.end()


@dataclass(frozen=True)
class Settings:
    """What to run. Every field is a setting of a settings file, under its own name, and an option of the command line."""

    __pydantic_config__ = ConfigDict(**EXACT, use_attribute_docstrings=True)

    model: str = EMBEDDED
    """A name of the zoo, timm:NAME, hf:FOLDER, onnx:FILE, package.module:function, or a file: `snellen list models`."""
    images: str = PHOTOGRAPHS
    """A folder of images or of a Hugging Face data set, .tar shards, a .parquet manifest, the URL of one of these such as
    s3://bucket/photos, or zoo:photographs, zoo:digits or zoo:digits-many."""
    root: str | None = None
    """The folder, or its URL, that the rows of a manifest are below; that of the manifest otherwise."""
    check: Literal["all", "first"] | None = None
    """Whether all pictures are loaded before the run, or only the first; decided from their number otherwise."""
    methods: tuple[PluginName, ...] = ()
    """Methods by name, with settings in brackets, such as rise(masks=500); or code of your own, such as mine.py:f."""
    metrics: tuple[PluginName, ...] = ()
    """Metrics by name, with settings in brackets, such as deletion(steps=28); or code of your own, such as mine.py:m."""
    maps: dict[str, str] | None = None
    """Maps made elsewhere, by a name for each set: a folder, or an .npz or .safetensors file with picture ids as keys."""
    map_range: tuple[float, float] | None = None
    """The two numbers that black and white of PNG maps mean, such as [-1, 1]."""
    out: str = "runs/latest"
    """The run folder; an existing one is continued."""
    target: str | int = "predicted"
    """The class that maps explain: predicted, label, least-likely, a class name or its number."""
    condition: str | None = None
    """Changes all images first, such as rotation(degrees=45)."""
    seed: Seed = 0
    """Changes every random draw."""
    labels: str | None = None
    """A CSV file with the columns file, label and, for patients and the like, group."""
    masks: str | None = None
    """A folder with a mask per image, for metrics that need to know where the evidence is."""
    boxes: str | None = None
    """A CSV file with the columns file, x0, y0, x1, y1, instead of masks."""
    window: tuple[float, float] | None = None
    """DICOM: centre and width of the values to show; the window of each file otherwise."""
    range: tuple[float, float] | None = None
    """The stored values that become black and white in files with more than 8 bits per channel, such as [0, 4095]."""
    frame: Annotated[int, Field(ge=1)] | None = None
    """Which frame of files with several, counted from 1."""
    show_channels: tuple[int, ...] | None = None
    """What pages show of images with many channels: one, or three as red, green and blue, counted from 1."""
    unreadable: Literal["refuse", "skip"] = "refuse"
    """What to do with images that cannot be read."""
    recipe: str | None = None
    """package.module:function that trains a model, or zoo:digits, for metrics that compare with trained variants."""
    training: str | None = None
    """A folder of labelled images for the recipe, or zoo:digits-training."""
    training_labels: str | None = None
    """A CSV file with the columns file and label, for the training images."""
    checkpoints: str | None = None
    """A folder of state dicts that were saved while the model was trained, or zoo:digits."""
    weights: str | None = None
    """A file of weights for timm: and torchvision: models."""
    mean: tuple[float, ...] | None = None
    """Normalisation: the mean of each channel, of pixels in [0, 1]."""
    std: tuple[Annotated[float, Field(gt=0)], ...] | None = None
    """Normalisation: the standard deviation of each channel."""
    size: Annotated[int, Field(ge=1, le=MOST_SIDE)] | None = None
    """The side of the square that the model takes, in pixels."""
    crop: Annotated[float, Field(gt=0, le=1)] | None = None
    """Centre crop before resizing, as a share of the short side."""
    channels: Annotated[int, Field(ge=1, le=MOST_CHANNELS)] | None = None
    """Channels of the images that the model takes, where these are neither 3 nor 1."""
    classes: str | None = None
    """A text file with one class name per line."""
    outputs: Literal["logits", "probabilities"] | None = None
    """What the model returns."""
    heads: str | None = None
    """What the outputs mean, such as independent-labels."""
    precision: Precision = "float32"
    """Of the numbers inside the model."""
    device: str = "cpu"
    """cpu, cuda, cuda:1 or mps."""
    batch: Annotated[int, Field(ge=1, le=MOST_ROWS)] | None = None
    """Images per pass; chosen by a memory budget otherwise."""
    shard: ShardSize = 16
    """Images per unit of work."""
    workers: Workers = 0
    """Processes; 0 computes in this one."""
    threads: Threads | None = None
    """Threads of each process."""
    engine: Literal["eager", "compiled", "onnxruntime"] | None = None
    """How forward-only passes are computed; the fastest by measuring otherwise."""
    fold_norms: bool = False
    """Whether gradients come from a copy of the model with batch normalisations folded into convolutions: faster, and
    the same up to rounding."""
    dask: str | None = None
    """The address of a Dask scheduler."""
    until: str | None = None
    """settled, or precision 0.1 (standard deviations): how many images each verdict gets; all of them otherwise."""
    budget: str | None = None
    """What to spend where it decides most, such as 10m or 500000 passes; as much as it takes otherwise."""
    keep_maps: KeepMaps | None = None
    """Which maps are kept after they were scored: all, some (a sample, and the best and worst by each metric) or none; all,
    or as before in a run that is continued, where none is stated."""

    @staticmethod
    def read(path: str | Path) -> dict[str, Any]:
        """The settings in a .yaml, .yml, .toml or .json file, unchecked."""
        text = read_text(path, "the settings", remedy="give a YAML or TOML file")
        values = (parse_toml if Path(path).suffix == ".toml" else parse_yaml)(text, f"'{path}'")
        if not isinstance(values, Mapping):
            raise SnellenError(f"'{path}' must hold settings by name, such as `model: {EMBEDDED}`")
        return dict(values)

    @classmethod
    def of(cls, values: Mapping[str, Any], owner: str = "the settings") -> Settings:
        """Settings from plain values; unknown names, wrong types and numbers out of bounds are refused by name."""
        lists = {key: [values[key]] for key in ("mean", "std") if isinstance(values.get(key), int | float)}
        if isinstance(values.get("out"), str) and not values["out"].strip():
            raise SnellenError("--out is empty; name the run folder, or leave it out")
        settings = parse_as(cls, {**values, **lists}, owner)
        _ = settings.reading  # which refuses values that mean nothing
        return settings

    @classmethod
    def of_request(cls, request: Mapping[str, Any], **others: Any) -> Settings:
        """The settings that a run was started with, which an older version may have written, and others that win.

        Where the request says nothing else, all pictures were loaded first.
        """
        stored = {name: value for name, value in request.items() if name not in OLD_SETTINGS}
        return cls.of({"check": "all", **stored, **others})

    def as_values(self) -> dict[str, Any]:
        """The settings that differ from the defaults, as JSON."""
        changed = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }
        return dict(json.loads(json.dumps(changed)))

    def _request(self, samples: Samples) -> dict[str, Any]:
        """What is stored of these settings with a run on these samples."""
        values = {name: value for name, value in self.as_values().items() if name != "check"}
        return values if samples.shape is None else {**values, "check": "first"}

    @property
    def reading(self) -> Reading:
        """How picture files become pixels."""
        return Reading(window=self.window, range=self.range, frame=self.frame, show_channels=self.show_channels)

    def classifier(self) -> Classifier:
        """The model that these settings name."""
        return load_classifier(
            self.model,
            weights=self.weights,
            mean=self.mean,
            std=self.std,
            size=self.size,
            crop=self.crop,
            channels=self.channels,
            classes=self.classes,
            outputs=self.outputs,
            heads=self.heads,
            device=self.device,
            rows=self.batch,
            precision=self.precision,
        )

    def note_code(self, observer: Observer) -> None:
        """Notes, once per user, that a model of their own is code."""
        if executes_code(self.model) and first_time("models-are-code"):
            observer.note(
                f"the model '{self.model}' is code, which runs with your rights, a .pt or .pt2 file too: use models of "
                "people whom you trust (this note comes once; see docs/security.md)"
            )

    def samples(self, classifier: Classifier, observer: Observer) -> Samples:
        """The images that these settings name, shaped for the classifier; all are read once, to find broken ones early."""
        if self.images in (PHOTOGRAPHS, DIGITS, DIGITS_MANY):
            own = {"labels": self.labels, "masks": self.masks, "boxes": self.boxes, "root": self.root}
            _refuse_beside(self.images, own, "labels and truth")
            for option in ("window", "range", "frame", "show_channels"):
                if getattr(self, option) is not None:
                    raise SnellenError(
                        f"--{option.replace('_', '-')} is for your own picture files, but --images is {self.images}; "
                        "leave it out"
                    )
        if self.images == PHOTOGRAPHS:
            return photographs(classifier.geometry, classifier.channels)
        if self.images == DIGITS:
            _check_takes_scenes(classifier, DIGITS, digits.SIDE)
            return digit_samples()
        if self.images == DIGITS_MANY:
            _check_takes_scenes(classifier, DIGITS_MANY, digits_many.SIDE)
            return many_digit_samples()
        return self._folder(
            self.images,
            "image",
            classifier,
            observer,
            labels=self.labels,
            masks=self.masks,
            boxes=self.boxes,
            check=self.check,
            root=self.root,
        )

    def training_samples(self, classifier: Classifier, observer: Observer) -> Samples | None:
        """The labelled pictures for the recipe."""
        if self.training is None:
            return None
        if self.training == DIGITS_TRAINING:
            _refuse_beside(self.training, {"training-labels": self.training_labels}, "labels")
            _check_takes_scenes(classifier, DIGITS, digits.SIDE)
            return find_training(self.training, classifier)
        return self._folder(self.training, "training image", classifier, observer, labels=self.training_labels)

    def _folder(
        self,
        path: str,
        what: str,
        classifier: Classifier,
        observer: Observer,
        *,
        labels: str | None,
        masks: str | None = None,
        boxes: str | None = None,
        check: str | None = None,
        root: str | None = None,
    ) -> Samples:
        return from_path(
            path,
            geometry=classifier.geometry,
            channels=classifier.channels,
            labels=labels,
            masks=masks,
            boxes=boxes,
            classes=classifier.classes,
            numbers=not classifier.head.decides,
            reading=self.reading,
            unreadable=self.unreadable,
            check=check,
            root=root,
            progress=lambda done, total: observer.running(f"checking {what} {done} of {total}"),
        )

    def load(self, observer: Observer) -> LoadedSubject:
        """The model and the images."""
        self.note_code(observer)
        classifier = self.classifier()
        with _checking(observer):
            return classifier, self.samples(classifier, observer)

    def run(self, observer: Observer, loaded: LoadedSubject | None = None, *, trust: bool = False) -> Run:
        """Runs `evaluate` on the `loaded` model and images, or else loads them; `trust` is that of `evaluate`.

        Names are checked first, because loading a model takes longer than reading a name.
        """
        methods, metrics = parse_methods(self.methods, self.maps, self.map_range), parse_metrics(self.metrics)
        condition = None if self.condition is None else CONDITIONS.parse(self.condition)
        recipe = None if self.recipe is None else find_recipe(self.recipe)
        with ExitStack() as stack:
            executor: Executor | None = stack.enter_context(dask_executor(self.dask)) if self.dask else None
            classifier, samples = loaded or self.load(observer)
            with _checking(observer):
                training = self.training_samples(classifier, observer)
            if metrics and not any(traits(method).control for method in methods):
                observer.note(
                    f"no control is among the methods, so nothing will be judged; add {','.join(CONTROLS)} for verdicts"
                )
            if metrics and (self.masks or self.boxes) and not any(traits(method).positive for method in methods):
                observer.note(
                    f"the masks can be scored as maps too: add {','.join(POSITIVE_CONTROLS)} to --methods for what a map "
                    "would score that is right by the masks"
                )
            options = Options(
                shard=self.shard,
                workers=self.workers,
                threads=self.threads,
                engine=self.engine,
                fold_norms=self.fold_norms,
                request=self._request(samples),
                until=self.until,
                budget=self.budget,
                keep_maps=self.keep_maps,
            )
            return evaluate(
                classifier,
                samples,
                methods=methods,
                metrics=metrics,
                target=self.target,
                condition=condition,
                seed=self.seed,
                out=self.out,
                options=options,
                executor=executor,
                observer=observer,
                recipe=recipe,
                training=training,
                checkpoints=self.checkpoints,
                trust=trust,
            )

    def run_what_works(self, observer: Observer, loaded: LoadedSubject, *, trust: bool = False) -> Run:
        """Like `run`, but failed units are reported in a note, and the run is returned without them."""
        try:
            return self.run(observer, loaded, trust=trust)
        except UnfinishedError as problem:
            observer.note(str(problem))
            return Run(self.out)


def workers_for_short_passes() -> int:
    """How many processes to use for a model whose passes are too short to be split over threads."""
    return min(4, os.cpu_count() or 1)


def _refuse_beside(name: str, options: Mapping[str, str | None], what: str) -> None:
    """Refuses a file of labels or truth for built-in images, which have their own."""
    for option, path in options.items():
        if path is not None:
            raise SnellenError(f"{name} bring their own {what}; leave out --{option} '{path}', or name a folder of images")


def _check_takes_scenes(classifier: Classifier, name: str, side: int) -> None:
    if classifier.geometry.size not in (None, (side, side)) or classifier.channels != 3:
        raise SnellenError(f"{name} are colour pictures of {side}×{side}, which '{classifier.name}' does not take")
