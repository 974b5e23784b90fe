"""Peak memory of `snellen run` at 200 and at 2,000 small images: it is bounded by the shard, not by the number of images.

    python benchmarks/memory.py [--few 200] [--many 2000] [--light] [--markdown FILE]
    python benchmarks/memory.py --photographs FOLDER [--many 1000] [--methods NAMES] [--markdown FILE]

`--light` runs two methods and a metric, so that 20,000 images take minutes. With `--photographs` there is one run of
EfficientNet-Lite0 over photographs of that folder, by every method that can explain this network, each with few passes.
Where the folder holds fewer than `--many`, they are shown several times under other names. score-cam and sis-removal need
hundreds of passes per photograph whatever their settings; name them with `--methods`, and fewer photographs.

Each run is a process of its own; its peak is what the operating system says of it after its end (ru_maxrss).
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 32
METHODS = "gradient,integrated-gradients(steps=8),smoothgrad(samples=4),grad-cam,rise(masks=64),occlusion,random"
METRICS = (
    "deletion(steps=8),insertion(steps=8),average-drop,complexity,sparseness,"
    "max-sensitivity(samples=2),avg-sensitivity(samples=2)"
)
LIGHT_METHODS, LIGHT_METRICS = "gradient,random", "complexity"
AIM = 1.2
PHOTOGRAPH_METRICS = "deletion(steps=2),complexity,average-drop"
PHOTOGRAPH_METHODS = (
    "ablation-cam,blur-ig(steps=3),blurred,cam,centre,constant,deconvnet,deep-taylor,deeplift-rescale,deeplift-reveal-cancel,"
    "deepshap(backgrounds=2),edge,eigen-cam,extremal-perturbation(steps=3),fake-cam,grad-cam,grad-cam++,gradient,"
    "gradient-shap(samples=3),guided-backprop,guided-grad-cam,guided-ig(steps=3),hires-cam,iba(steps=2,samples=2),"
    "input-x-gradient,integrated-gradients(steps=3),kernel-shap(samples=16),layer-cam,lime(samples=16),lime-lasso(samples=16),"
    "lrp-alpha1-beta0,lrp-alpha2-beta1,lrp-epsilon,lrp-z,meaningful-perturbation(steps=3),occlusion(cells=2),random,"
    "rise(masks=16),shuffled,sis(per_step=25088),smoothgrad(samples=3),smoothgrad-squared(samples=3),vargrad(samples=3),"
    "xgrad-cam,xrai(steps=2)"
)
MOST_MEBIBYTES = 2048


@dataclass(frozen=True)
class Peak:
    """One run."""

    images: int
    mebibytes: float
    seconds: float


def write_images(folder: Path, count: int) -> Path:
    """Smooth coloured blobs, each another, as PNG files."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for place in range(count):
        coarse = generator.integers(0, 255, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / f"{place:05d}.png")
    return folder


def link_photographs(folder: Path, source: Path, count: int) -> tuple[Path, int]:
    """Links to so many photographs of a folder, in turn, each under another name; and how many different ones there are."""
    files = sorted(path for path in source.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if not files:
        raise SystemExit(f"there are no photographs in {source}")
    folder.mkdir(parents=True)
    for place in range(count):
        file = files[place % len(files)]
        (folder / f"{place:05d}{file.suffix.lower()}").symlink_to(file.resolve())
    return folder, min(count, len(files))


def measure(folder: Path, count: int, arguments: list[str]) -> Peak:
    """Runs the command and waits for it; peak of the process and of whatever it started."""
    command = [
        sys.executable, "-c", "from snellen.cli.main import main; main()", "run", "--out", str(folder / f"run-{count}"),
        "--engine", "eager",  # a compiler in memory is a fixed price that only the longer plan would pay
        *arguments,
    ]  # fmt: skip
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    started = time.perf_counter()
    with (folder / f"run-{count}.log").open("w") as log:
        process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"snellen run ended with code {process.returncode}:\n{(folder / f'run-{count}.log').read_text()}")
    scale = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss is in bytes there and in kibibytes elsewhere
    return Peak(count, usage.ru_maxrss / scale, time.perf_counter() - started)


def report(peaks: list[Peak], work: str, conclusion: str, command: str) -> list[str]:
    """Markdown lines that also read well in a terminal."""
    # Only now: a child's peak counts from its parent's size at the fork, so the parent stays small while there are runs.
    from snellen.runs.machine import machine

    where = machine()
    return [
        "## Peak memory of a run",
        "",
        f"- command: `{command}`",
        f"- date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        f"- machine: {where['processor']}, {where['cores']} cores, {where['memory_gib']} GiB; "
        f"Python {where['python']}, torch {where['torch']}",
        f"- work: {work}",
        "",
        "| images | peak MiB | seconds |",
        "| -----: | -------: | ------: |",
        *(
            f"| {measurement.images:6,} | {measurement.mebibytes:8.0f} | {measurement.seconds:7.0f} |"
            for measurement in peaks
        ),
        "",
        conclusion,
    ]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Peak memory of a run at few and at many images.")
    parser.add_argument("--few", type=int, default=200)
    parser.add_argument("--many", type=int, help="2,000 small images, or 1,000 photographs, unless stated")
    parser.add_argument("--light", action="store_true", help=f"only {LIGHT_METHODS} and {LIGHT_METRICS}")
    parser.add_argument("--photographs", type=Path, help="a folder of photographs, for one run over them by every method")
    parser.add_argument("--methods", default=PHOTOGRAPH_METHODS, help="methods of the run over photographs")
    parser.add_argument("--shard", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    chosen = parser.parse_args(arguments)
    common = ["--shard", str(chosen.shard), "--threads", str(chosen.threads)]
    with tempfile.TemporaryDirectory(prefix="snellen-memory-") as name:
        folder = Path(name)
        if chosen.photographs:
            count = chosen.many or 1000
            images, different = link_photographs(folder / "photographs", chosen.photographs, count)
            of = ["--methods", chosen.methods, "--metrics", PHOTOGRAPH_METRICS]
            peaks = [measure(folder, count, ["--images", str(images), *of, *common])]
            work = (
                f"EfficientNet-Lite0, {count} photographs ({different} different ones) in shards of {chosen.shard}; "
                f"{chosen.methods}; {PHOTOGRAPH_METRICS}"
            )
            conclusion = f"peak {peaks[0].mebibytes:.0f} MiB (aim: below {MOST_MEBIBYTES})"
        else:
            methods, metrics = (LIGHT_METHODS, LIGHT_METRICS) if chosen.light else (METHODS, METRICS)
            of = ["--model", "small:load", "--methods", methods, "--metrics", metrics, *common]
            peaks = [
                measure(folder, count, ["--images", str(write_images(folder / f"images-{count}", count)), *of])
                for count in (chosen.few, chosen.many or 2000)
            ]
            work = f"{SIDE}×{SIDE} images in shards of {chosen.shard}; {methods}; {metrics}"
            conclusion = f"ratio {peaks[1].mebibytes / peaks[0].mebibytes:.2f} (aim: at most {AIM})"
    text = "\n".join(report(peaks, work, conclusion, " ".join(["python benchmarks/memory.py", *arguments])))
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
