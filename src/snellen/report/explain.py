"""`snellen explain`: the maps of one photo beside it, as one PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image

from snellen.charts.pictures import contact_sheet
from snellen.classifier import Classifier
from snellen.classifier.repeatability import repeatability_warnings
from snellen.errors import SnellenError
from snellen.images import Samples, colours, digest, from_files
from snellen.plugins.registry import METHODS, label, traits
from snellen.runs import chosen_targets, fitting, requirements
from snellen.runs import plan as planning
from snellen.runs.guard import Guard
from snellen.runs.progress import Observer
from snellen.runs.score import make_maps
from snellen.runs.settings import PHOTOGRAPHS, Settings
from snellen.runs.unit import InspectShard, PackedClassifier, ShardFacts
from snellen.types import Method, Passes, Rng


def explain_photo(
    photo: Path, settings: Settings, *, targets: Sequence[str | int], out: Path | None, seed: int, observer: Observer
) -> Path:
    """Writes the picture and returns its path; without methods in the settings, all that support this classifier are run.

    Several targets are drawn one below the other.
    """
    methods = planning.parse_methods(settings.methods) if settings.methods else []
    requirements.refuse_positive_controls(methods, "it explains no photo")
    if not photo.name:
        raise SnellenError("explain needs the path of a photograph, but it is empty")
    path = out or photo.with_name(f"{photo.stem}-maps.png")
    if path.suffix.lower() != ".png":
        raise SnellenError(f"'{path}' must end in .png")
    settings.note_code(observer)
    classifier = settings.classifier()
    samples = from_files([photo], geometry=classifier.geometry, channels=classifier.channels, reading=settings.reading)
    for note in (*classifier.notes, *samples.notes):
        observer.note(note)
    image = samples[0].image
    inputs = classifier.to_inputs(image[None])
    classes = classifier.check(inputs)
    for note in repeatability_warnings(classifier, image):
        observer.note(note)
    inspected = InspectShard(
        classifier=PackedClassifier(classifier), samples=samples, digests=(digest(samples[0]),), pictures=0, threads=None
    )()
    explained = [chosen for target in targets for chosen in _columns(target, classifier, classes, samples.ids, inspected)]
    models = list({model.fingerprint: model for model, _, _ in explained}.values())
    if methods:
        for model in models:
            requirements.check_needs(model, methods, inputs)
    else:
        methods = [method for method in (METHODS.build(name) for name in METHODS) if not traits(method).control]
        for model in models:
            methods, _ = requirements.split_by_support(model, methods, inputs)
    _fit_methods(classifier, methods, samples, settings, seed, observer)

    size = (int(inputs.shape[2]), int(inputs.shape[3]))
    passes = sum((method.passes(size, classifier) for method in methods), Passes()) * len(explained)
    observer.begin("explaining", passes, len(methods) * len(explained))
    pixels = (colours(image, samples.show_channels) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    sheets = []
    try:
        for model, column, name in explained:
            maps, column_of_row, rng = {}, torch.tensor([column]), Rng(seed, tuple(samples.ids))
            guard = Guard({"the model": model}, {"the inputs": inputs, "the targets": column_of_row})
            for method in methods:
                observer.running(label(method))
                with guard.watching(label(method), SnellenError), model.counting(observer.passed):
                    maps[label(method)] = make_maps(method, model, inputs, column_of_row, rng)[0].numpy()
                observer.finished(Passes())
            value, letter, unit = chosen_targets.caption_outputs(model, inputs, column_of_row)
            heading = f"{name}, {letter} = {float(value):.2f} {unit}".strip()
            sheets.append(contact_sheet(pixels, maps, {}, heading=heading))
    finally:
        observer.end()
    picture = sheets[0] if len(sheets) == 1 else _stacked(sheets)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    except OSError as problem:
        raise SnellenError(f"cannot write '{path}' ({problem.strerror}); choose another --out") from None
    return path


def _columns(
    target: str | int, classifier: Classifier, classes: int, ids: Sequence[str], facts: ShardFacts
) -> list[tuple[Classifier, int, str]]:
    """The classifier, column and name of each target that the text states; independent labels may be several."""
    if target in ("label", "every-label"):
        raise SnellenError(f"the label of a photograph is not known here, so target '{target}' means nothing; name a class")
    further = chosen_targets.further_target(target, classifier, classes)
    if further is not None:
        name = chosen_targets.target_name(further, classifier, classes)
        return [(classifier.with_target(further, name), classes, name)]
    if classifier.head.exclusive or not classifier.head.decides:
        columns = chosen_targets.resolve_targets(target, classifier, classes, ids, facts)
    else:
        (columns,) = chosen_targets.targets_of_images(target, classifier, classes, ids, [facts])
        if not columns:
            raise SnellenError("no label of this image is above its threshold; name one, such as --target 0")
    names = classifier.classes or [f"class {column}" for column in range(classes)]
    return [(classifier, column, names[column]) for column in columns]


def _stacked(pictures: Sequence[Image.Image]) -> Image.Image:
    """The pictures one below the other."""
    size = max(picture.width for picture in pictures), sum(picture.height for picture in pictures)
    stacked = Image.new("RGB", size, "white")
    top = 0
    for picture in pictures:
        stacked.paste(picture, (0, top))
        top += picture.height
    return stacked


def _fit_methods(
    classifier: Classifier, methods: list[Method], photo: Samples, settings: Settings, seed: int, observer: Observer
) -> None:
    """Fits methods that need it to the images of the settings, or to the photo if these are missing or of another size."""
    needed = fitting.states_to_fit(methods)
    if not needed:
        return
    samples = photo
    try:
        others = settings.samples(classifier, observer)
    except SnellenError:
        if settings.images != PHOTOGRAPHS:  # the default photographs may not be installed, and they were not requested
            raise
    else:
        if others[0].image.shape == photo[0].image.shape:
            samples = others
    if (few := fitting.few_images_note(len(samples), list(needed.values()))) is not None:
        observer.note(f"{few}; name a folder of such images with --images")
    fitting.fit(classifier, samples, methods=list(methods), seed=seed, observer=observer)
