"""`snellen explain`: the maps of one photo beside it, as one PNG."""

from __future__ import annotations

from pathlib import Path

import torch

from snellen.charts.pictures import contact_sheet
from snellen.classifier import Classifier
from snellen.classifier.repeatability import repeatability_warnings
from snellen.errors import SnellenError
from snellen.images import Samples, digest, from_files
from snellen.plugins.registry import METHODS, label, traits
from snellen.runs import fitting
from snellen.runs import plan as planning
from snellen.runs.guard import Guard
from snellen.runs.progress import Observer
from snellen.runs.settings import PHOTOGRAPHS, Settings
from snellen.runs.unit import InspectShard, PackedClassifier
from snellen.types import Method, Passes, Rng


def explain_photo(
    photo: Path, settings: Settings, *, target: str | int, out: Path | None, seed: int, observer: Observer
) -> Path:
    """Writes the picture and returns its path; without methods in the settings, all that support this classifier are run."""
    methods = planning.parse_methods(settings.methods) if settings.methods else []
    if not photo.name:
        raise SnellenError("explain needs the path of a photograph, but it is empty")
    path = out or photo.with_name(f"{photo.stem}-maps.png")
    if path.suffix.lower() != ".png":
        raise SnellenError(f"'{path}' must end in .png")
    settings.note_code(observer)
    classifier = settings.classifier()
    samples = from_files([photo], geometry=classifier.geometry, channels=classifier.channels)
    image = samples[0].image
    inputs = classifier.to_inputs(image[None])
    classes = classifier.check(inputs)
    for note in repeatability_warnings(classifier, image):
        observer.note(note)
    if methods:
        planning.check_needs(classifier, methods, inputs)
    else:
        registered = [METHODS.build(name) for name in METHODS]
        methods, _ = planning.split_by_support(
            classifier, [method for method in registered if not traits(method).control], inputs
        )
    _fit_methods(classifier, methods, samples, settings, seed, observer)
    inspected = InspectShard(
        classifier=PackedClassifier(classifier), samples=samples, digests=(digest(samples[0]),), pictures=0, threads=None
    )()
    (class_index,) = planning.resolve_targets(target, classifier, classes, samples.ids, inspected)

    size = (int(inputs.shape[2]), int(inputs.shape[3]))
    observer.begin("explaining", sum((method.passes(size, classifier) for method in methods), Passes()), len(methods))
    targets, rng, maps = torch.tensor([class_index]), Rng(seed, tuple(samples.ids)), {}
    guard = Guard({"the model": classifier}, {"the inputs": inputs, "the targets": targets})
    try:
        for method in methods:
            observer.running(label(method))
            with guard.watching(label(method), SnellenError), classifier.counting(observer.passed), torch.no_grad():
                maps[label(method)] = method(classifier, inputs, targets, rng=rng)[0].numpy()
            observer.finished(Passes())
    finally:
        observer.end()
    probability = float(classifier.probabilities(inputs)[0, class_index])
    name = classifier.classes[class_index] if classifier.classes else f"class {class_index}"
    pixels = (image.expand(3, -1, -1) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    picture = contact_sheet(pixels, maps, {}, heading=f"{name}, p = {probability:.2f}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    except OSError as problem:
        raise SnellenError(f"cannot write '{path}' ({problem.strerror}); choose another --out") from None
    return path


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
