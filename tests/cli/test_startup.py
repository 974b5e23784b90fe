"""How fast the command line starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from snellen.cli.main import main
try:
    main()
except SystemExit:
    print(sorted({"torch", "pandas", "scipy"} & set(sys.modules)))
"""


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["study", "simulate", "--help"], ["--version"]])
def test_help_imports_no_large_package(words):
    """Torch, pandas and scipy take seconds to import."""
    done = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
