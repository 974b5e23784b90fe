"""Writes docs/methods/ from the decorators, with one picture per method; `--check` only says whether it is up to date.

Pages follow from the code alone. Pictures cost minutes, so only missing ones are drawn; `--redraw NAME ...` draws anew.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from pages import exemptions, failures, holds, paragraphs, presets, settings
from snellen import fit, zoo
from snellen.charts.pictures import limits, overlay, tile
from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.images import Samples, from_arrays
from snellen.methods.positive_controls import POSITIVE_CONTROLS
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS
from snellen.runs import requirements
from snellen.runs.progress import Silent
from snellen.types import Passes, Rng

FOLDER = Path(__file__).with_name("methods")
PICTURES = FOLDER / "pictures"
PHOTOGRAPHS = ("chelsea", "coffee")
SIDE = 160


@dataclasses.dataclass(frozen=True, eq=False)
class Scene:
    """A classifier with two pictures, and the words that say what is seen."""

    classifier: Classifier
    samples: Samples
    inputs: Tensor
    targets: Tensor
    rng: Rng
    caption: str

    def serves(self, name: str) -> bool:
        """Whether this classifier can show the method."""
        try:
            requirements.check_needs(self.classifier, [METHODS.build(name)], self.inputs)
        except SnellenError:
            return False
        return True

    def picture(self, name: str) -> Image.Image:
        """Photo, map and overlay, twice side by side."""
        method = METHODS.build(name)
        fit(self.classifier, self.samples, methods=[method], observer=Silent())
        with torch.no_grad():
            maps = method(self.classifier, self.inputs, self.targets, rng=self.rng).numpy()
        row = []
        for image, values in zip(self.classifier.to_pixels(self.inputs), maps, strict=True):
            photo = (image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
            signed = bool((values < 0).any())
            ends = limits(values, signed)
            row += [photo, tile(values, signed, ends), overlay(photo, values, signed, ends)]
        gap = np.full((SIDE, 6, 3), 253, dtype=np.uint8)
        parts = [part for picture in row for part in (resized(picture), gap)][:-1]
        return Image.fromarray(np.concatenate(parts, axis=1))


def resized(picture: np.ndarray) -> np.ndarray:
    """The picture at the size of a tile."""
    how = Image.Resampling.BOX if picture.shape[0] > SIDE else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(picture).resize((SIDE, SIDE), how))


def photographs() -> Scene:
    """Two embedded photographs and the embedded classifier."""
    classifier = zoo.load_classifier(zoo.EMBEDDED)
    samples = zoo.photographs(classifier.geometry)
    chosen = [sample for sample in samples if sample.id in PHOTOGRAPHS]
    inputs = classifier.to_inputs(torch.stack([sample.image for sample in chosen]))
    targets = classifier.logits(inputs).argmax(dim=1)
    names = classifier.classes or ()
    words = " and ".join(f"{sample.id} ({names[int(target)]})" for sample, target in zip(chosen, targets, strict=True))
    caption = f"The map for the class that the embedded classifier predicts: {words}."
    return Scene(classifier, samples, inputs, targets, Rng(0, tuple(sample.id for sample in chosen)), caption)


def transformer() -> Scene:
    """Two images of the planted transformer, for methods that the embedded classifier cannot show."""
    case = planted_batch(2, kind="vit")
    caption = (
        "The embedded classifier has no attention, so this is the planted transformer of the contract suite: its output "
        "depends on red in the upper patch (left picture) and on green in the lower left one (right picture)."
    )
    samples = from_arrays(case.pixels.clamp(0, 1))
    return Scene(case.classifier, samples, case.inputs, case.targets, case.rng, caption)


class Stage:
    """Where each method is shown."""

    def __init__(self) -> None:
        self.scenes = [photographs(), transformer()]
        self._scene_of: dict[str, Scene] = {}

    def scene(self, name: str) -> Scene:
        """The first scene whose classifier serves the method."""
        if name not in self._scene_of:
            self._scene_of[name] = next(scene for scene in self.scenes if scene.serves(name))
        return self._scene_of[name]

    def passes(self, name: str) -> str:
        """Cost per image in words."""
        scene = self.scene(name)
        size = (int(scene.inputs.shape[2]), int(scene.inputs.shape[3]))
        return cost(METHODS.build(name).passes(size, scene.classifier), METHODS[name].traits.at_most)  # type: ignore[attr-defined]


def cost(passes: Passes, at_most: bool) -> str:
    """Passes in words."""
    if not passes.forward and not passes.backward:
        return "none"
    words = f"{passes.forward:,} forward" + (f" and {passes.backward:,} backward" if passes.backward else "")
    return f"at most {words}" if at_most else words


def needs(facts: Any) -> str:
    """What a method needs, in words."""
    if facts.control and not facts.needs:
        return "nothing: it is a control"
    return ", ".join(sorted(facts.needs)) or "logits only"


def page(name: str, stage: Stage) -> str:
    """All about one method."""
    plugin = METHODS[name]
    facts = plugin.traits  # type: ignore[attr-defined]
    lines = [f"# {name}", "", *paragraphs(plugin)]
    lines += [f"![{name} on two pictures](pictures/{name}.jpg)", "", stage.scene(name).caption, ""]
    lines += [
        f"- **passes** for that classifier and one image: {stage.passes(name)}",
        f"- **needs**: {needs(facts)}",
        f"- **traits**, tested on {facts.tested_on}: {facts.in_words}",
        f"- **defined in**: {CITATIONS.get(facts.cite, facts.cite)}",
        "",
    ]
    return "\n".join([*lines, *settings(plugin), *presets(facts), *failures(facts), *exemptions(name)])


def positive_page(name: str) -> str:
    """All about a positive control, which has no picture: it is the mask of whatever image."""
    plugin = METHODS[name]
    facts = plugin.traits  # type: ignore[attr-defined]
    lines = [f"# {name}", "", *paragraphs(plugin)]
    lines += [
        "A positive control: no method, never judged, without a card ([verdicts](../verdicts.md#positive-controls)).",
        "",
        "- **passes**: none",
        f"- **needs**: {needs(facts)}, a mask or box of every image of a run",
        f"- **after**: {CITATIONS[facts.cite]}",
        "",
    ]
    return "\n".join([*lines, *settings(plugin)])


def index(stage: Stage) -> str:
    """The list of all methods."""
    lines = [
        "# Saliency methods",
        "",
        "Generated by `make docs` from the decorators; edit those. Passes are for one image of 224×224 on the embedded",
        "classifier with the method's defaults, before sharing; each picture shows a photograph, its map and both together.",
        "",
    ]
    for title, control in (
        ("Methods", False),
        ("Controls: maps without information about the classifier, or with wrong positions", True),
    ):
        lines += [f"## {title}", "", "| method | what its number means | needs | passes |", "| --- | --- | --- | --- |"]
        for name in METHODS:
            facts = METHODS[name].traits  # type: ignore[attr-defined]
            if facts.control is control:
                lines.append(f"| [{name}]({name}.md) | {facts.summary} | {needs(facts)} | {stage.passes(name)} |")
        lines.append("")
    lines += [
        "## Positive controls: the masks of a run as maps, never judged",
        "",
        "| control | what its number means | needs | passes |",
        "| --- | --- | --- | --- |",
    ]
    for name in POSITIVE_CONTROLS:
        facts = METHODS[name].traits  # type: ignore[attr-defined]
        lines.append(f"| [{name}]({name}.md) | {facts.summary} | {needs(facts)} | none |")
    lines += ["", "## Pictures", ""]
    for name in METHODS:
        lines += [f"[{name}]({name}.md)", "", f"![{name}](pictures/{name}.jpg)", ""]
    return "\n".join(lines)


def main() -> None:
    """Writes what is missing, or says what is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--redraw", nargs="*", default=[])
    options = parser.parse_args()
    stage = Stage()
    pages = {f"{name}.md": page(name, stage) for name in METHODS} | {"README.md": index(stage)}
    pages |= {f"{name}.md": positive_page(name) for name in POSITIVE_CONTROLS}
    if options.check:
        stale = [name for name, text in pages.items() if not holds(FOLDER / name, text)]
        stale += [f"pictures/{name}.jpg" for name in METHODS if not (PICTURES / f"{name}.jpg").exists()]
        stale += [path.name for path in FOLDER.glob("*.md") if path.name not in pages]
        stale += [f"pictures/{path.name}" for path in PICTURES.glob("*") if path.stem not in METHODS]
        if stale:
            sys.exit(f"docs/methods is not up to date ({', '.join(stale[:5])}); run make docs")
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for old in PICTURES.glob("*.jpg"):
        if old.stem not in METHODS or old.stem in options.redraw:
            old.unlink()
    for name in METHODS:
        if not (path := PICTURES / f"{name}.jpg").exists():
            print(f"drawing {name}", flush=True)
            stage.scene(name).picture(name).save(path, quality=82, optimize=True)


if __name__ == "__main__":
    main()
