"""The README's commands on a model of one's own, word for word, on photographs of different sizes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")

MODULE = """
from torch import nn

def load():
    return nn.Sequential(
        nn.Conv2d(3, 8, 16, stride=16), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )
"""


def blocks(heading: str) -> list[str]:
    """The indented or fenced code below a heading, one text per block."""
    section = README.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```(?:python)?\n(.*?)```", section, flags=re.DOTALL)


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with a package that loads a model, and photographs as different people take them."""
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "__init__.py").touch()
    (tmp_path / "mypackage" / "mymodule.py").write_text(MODULE)
    (tmp_path / "folder").mkdir()
    generator = np.random.default_rng(0)
    for name, height, width in (("wide.jpg", 240, 400), ("tall.png", 500, 300)):
        noise = generator.integers(0, 255, (5, 5, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC).save(tmp_path / "folder" / name)
    return tmp_path


def run(words: list[str], folder: Path) -> str:
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=280, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_command_for_a_model_and_images_of_ones_own(workplace: Path) -> None:
    commands = blocks("Your own model and images")[0].replace("\\\n", " ").splitlines()
    words = [shlex.split(command) for command in commands]
    (ours,) = [command[1:] for command in words if command[0] == "snellen"]
    printed = run([sys.executable, "-c", "from snellen.cli.main import main; main()", *ours], workplace)
    assert "report.html" in printed
    assert (workplace / "runs" / "mine" / "report.html").exists()


@pytest.mark.slow
def test_the_same_in_python(workplace: Path) -> None:
    text = blocks("Your own model and images")[1]
    script = f"import mypackage.mymodule\nmy_module = mypackage.mymodule.load()\n{text}"
    printed = run([sys.executable, "-c", script], workplace)
    assert "grad-cam" in printed
    assert (workplace / "report.html").exists()
    assert (workplace / "figure.pdf").read_bytes().startswith(b"%PDF")
