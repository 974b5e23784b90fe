"""Peak memory of every method: one photograph of 224×224 with default settings, and a run over many images.

    python benchmarks/method_memory.py [--images 48] [--only NAME ...] [--markdown FILE]

Each measurement is a process of its own; its peak is what the operating system says of it after its end (ru_maxrss).
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

AIM = 2048
ONE = """
import sys
import torch
from snellen import fit, zoo
from snellen.classifier import arithmetic
from snellen.plugins.registry import METHODS
from snellen.runs import requirements
from snellen.runs.progress import Silent
from snellen.types import Rng

arithmetic.reuse_memory()
classifier = zoo.load_classifier(zoo.EMBEDDED)
method = METHODS.build(sys.argv[1])
inputs = classifier.to_inputs(zoo.photographs(classifier.geometry)[0].image[None])
requirements.check_needs(classifier, [method], inputs)
fit(classifier, zoo.photographs(classifier.geometry), methods=[method], observer=Silent())
with torch.no_grad():
    method(classifier, inputs, classifier.logits(inputs).argmax(dim=1), rng=Rng(0, ("photo",)))
"""


def peak(command: list[str], log: Path) -> tuple[float, float, str | None]:
    """Mebibytes, seconds, and the last line of what went wrong."""
    started = time.perf_counter()
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    scale = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss is in bytes there and in kibibytes elsewhere
    problem = log.read_text().strip().splitlines()[-1] if process.returncode else None
    return usage.ru_maxrss / scale, time.perf_counter() - started, problem


def write_images(folder: Path, count: int) -> Path:
    """Smooth coloured blobs, each another, as PNG files of 224×224."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for place in range(count):
        coarse = generator.integers(0, 255, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((224, 224), Image.Resampling.BICUBIC).save(folder / f"{place:05d}.png")
    return folder


def names(only: list[str]) -> list[str]:
    """All methods, asked of a process of its own: a child's peak counts from its parent's size at the fork."""
    listed = subprocess.run(
        [sys.executable, "-c", "import snellen\nfrom snellen.plugins.registry import METHODS\nprint('\\n'.join(METHODS))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [name for name in listed if not only or name in only]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", default="", help="methods of one long run, as `snellen run --methods` takes them")
    parser.add_argument("--images", type=int, default=1000, help="images of that run")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    lines = ["| method | peak MiB | seconds |", "| --- | ---: | ---: |"]
    with tempfile.TemporaryDirectory(prefix="snellen-memory-") as name:
        folder = Path(name)
        for method in names(options.only):
            mebibytes, seconds, problem = peak([sys.executable, "-c", ONE, method], folder / "log")
            lines.append(f"| {method} | {problem or f'{mebibytes:.0f}'} | {seconds:.0f} |")
            print(lines[-1], file=sys.stderr, flush=True)
        if options.run:
            images = write_images(folder / "images", options.images)
            command = [
                sys.executable, "-c", "from snellen.cli.main import main; main()", "run", "--images", str(images),
                "--out", str(folder / "run"), "--methods", options.run, "--metrics", "sparseness", "--engine", "eager",
            ]  # fmt: skip
            mebibytes, seconds, problem = peak(command, folder / "log")
            lines.append(
                f"| a run over {options.images} images: {options.run} | {problem or f'{mebibytes:.0f}'} | {seconds:.0f} |"
            )
    text = "\n".join(
        [
            f"{datetime.date.today()}; one photograph of 224×224, EfficientNet-Lite0, defaults; aim: below {AIM} MiB.",
            "",
            *lines,
        ]
    )
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
