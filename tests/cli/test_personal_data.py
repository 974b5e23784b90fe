"""What DICOM headers say about people stays out of everything that is written or printed."""

from __future__ import annotations

import base64
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.command import snellen
from tests.images.dicom_files import DATE_MARK, MARK, NUMBER_MARK, UID_MARK, write

FINDINGS = [f"finding{place}" for place in range(14)]

MODEL = """
import torch
from torch import nn

class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(1, 14, 3, padding=1)
        torch.manual_seed(0)
        nn.init.normal_(self.body.weight)
    def forward(self, images):
        return self.body(images).amax(dim=(2, 3))

def load():
    return Heads()

def load_broken():
    from snellen.images.geometry import Geometry
    def pictures(self, planes, channels):
        raise RuntimeError("planned")
    Geometry.pictures = pictures
    return Heads()
"""


def forms(mark: str) -> list[bytes]:
    """How a text may stand in a file: as it is, in UTF-16, or in base64 at any of its three offsets."""
    text = mark.encode()
    shifted = [base64.b64encode(b"\0" * offset + text)[4:-4] for offset in range(3)]
    return [text, mark.encode("utf-16-le"), *shifted]


MARKS = [form for mark in (MARK, UID_MARK, DATE_MARK, NUMBER_MARK) for form in forms(mark)]


def found_in(content: bytes) -> list[bytes]:
    return [mark for mark in MARKS if mark in content]


@pytest.fixture
def images(tmp_path) -> Path:
    generator = np.random.default_rng(0)
    for place in range(3):
        values = generator.integers(0, 4096, (32, 32), dtype=np.uint16)
        window = {"WindowCenter": 2048, "WindowWidth": 4096} if place else {}
        write(tmp_path / "images" / f"{place}.dcm", values, BitsStored=12, HighBit=11, **window)
    damaged = write(tmp_path / "images" / "damaged.dcm", values, PatientWeight=NUMBER_MARK)
    damaged.write_bytes(damaged.read_bytes().replace(b"MONOCHROME2 ", MARK.encode().ljust(12)))
    return tmp_path / "images"


def test_the_marks_are_in_the_files_and_the_search_finds_them(images):
    for path in images.iterdir():
        assert {MARK.encode(), UID_MARK.encode(), DATE_MARK.encode(), NUMBER_MARK.encode()} <= set(
            found_in(path.read_bytes())
        )
    content = (images / "0.dcm").read_bytes()
    for offset in range(3):
        assert len(found_in(base64.b64encode(b"x" * offset + content))) >= 4


@pytest.mark.slow
def test_no_byte_of_a_run_its_report_its_card_or_a_log_holds_what_the_header_says_about_people(tmp_path, images):
    work = tmp_path / "work"
    work.mkdir()
    (work / "heads.py").write_text(MODEL)
    (work / "names.txt").write_text("\n".join(FINDINGS))
    rows = [f"{path.name},{','.join('1' if place % 5 == number else '0' for place in range(14))}" for number, path in
            enumerate(sorted(images.iterdir()))]  # fmt: skip
    (work / "labels.csv").write_text("\n".join([f"file,{','.join(FINDINGS)}", *rows]))
    env = os.environ | {"SNELLEN_HOME": str(work / "home"), "PYTHONPATH": str(work)}
    model = ("--model", "heads:load", "--heads", "independent-labels", "--size", 32)
    data = ("--images", images, "--labels", "labels.csv", "--classes", "names.txt", "--out", "run")
    plan = ("--methods", "gradient,random", "--metrics", "deletion", "--target", "every-label")
    broken = ("--model", "heads:load_broken", "--heads", "independent-labels", "--size", 32)
    printed = []
    for code, words in (
        (2, ("run", *model, *data, *plan)),
        (0, ("run", *model, *data, *plan, "--unreadable", "skip")),
        (0, ("resume", "run")),
        (0, ("report", "run")),
        (0, ("card", "gradient", "--run", "run")),
        (0, ("explain", images / "1.dcm", *model, "--methods", "gradient", "--target", 0, "--out", "maps.png")),
        (2, ("explain", images / "damaged.dcm", *model, "--methods", "gradient")),
        (1, ("run", *broken, *data[:6], *plan, "--out", "broken")),
    ):
        done = snellen(*words, cwd=work, env=env)
        printed.append(done.stdout + done.stderr)
        assert done.returncode == code, printed[-1]
    log = Path(re.search(r"its traceback is in '(.*\.log)'", printed[-1])[1])
    log = Path(shutil.move(log, work))  # where all other files are
    assert "planned" in log.read_text()
    assert not found_in("".join(printed).encode())
    files = [path for path in work.rglob("*") if path.is_file()]
    assert {"run.json", "report.html"} <= {path.name for path in files}
    assert {str(path): found_in(path.read_bytes()) for path in files if found_in(path.read_bytes())} == {}
    assert not [path for path in work.rglob("*") if found_in(os.fsencode(path.name))]
