"""How much memory the largest picture takes that is still read, for each way in which a picture file can be stored.

python benchmarks/picture_memory.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from snellen.images.decoding import MOST_PIXELS, decode
from snellen.images.geometry import Geometry

SIDE = int(MOST_PIXELS**0.5)


def pictures() -> dict[str, Image.Image]:
    palette = Image.new("P", (SIDE, SIDE), 1)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    palette.info["transparency"] = 1
    return {
        "grey, 8 bits": Image.new("L", (SIDE, SIDE), 1),
        "grey, 16 bits": Image.fromarray(np.zeros((SIDE, SIDE), np.uint16)),
        "colour": Image.new("RGB", (SIDE, SIDE), (1, 2, 3)),
        "colour with transparency": Image.new("RGBA", (SIDE, SIDE), (1, 2, 3, 4)),
        "palette with transparency": palette,
    }


def peak() -> float:
    """The largest memory of this process so far, in megabytes; unlike `ru_maxrss` it does not begin with the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    if len(sys.argv) > 1:
        before = peak()
        Geometry().picture(decode(sys.argv[1]).image, 3)
        print(f"{peak() - before:.0f}")
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, picture in pictures().items():
            path = Path(folder) / "largest.png"
            picture.save(path)
            taken = subprocess.run([sys.executable, __file__, str(path)], capture_output=True, text=True, check=True)
            size = path.stat().st_size / 1000
            print(f"{name:26} {SIDE}×{SIDE}  file {size:6.0f} kB  peak {int(taken.stdout):5d} MB")


if __name__ == "__main__":
    main()
