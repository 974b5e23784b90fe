"""Prints the oldest versions that pyproject.toml allows, as constraints: `make test-oldest` installs them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("demo", "charts", "medical", "tiff", "datasets")
"""Those of the tests that `make test-oldest` runs."""

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for requirement in [*project["dependencies"], *(item for extra in EXTRAS for item in extras[extra])]:
    name, bound = re.fullmatch(r"([\w-]+)\s*(?:>=|==)\s*([\d.]+)", requirement).groups()
    if name != "torch":  # its wheels for one processor type are not to be had of every old version
        print(f"{name}=={bound}")
