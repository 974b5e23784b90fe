"""`import snellen` is fast: it imports no torch, and offers its public names when they are used."""

import subprocess
import sys

import pytest

import snellen


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


def test_importing_snellen_does_not_import_torch():
    assert run("import sys, snellen; print(snellen.__version__, 'torch' in sys.modules)") == f"{snellen.__version__} False"


def test_the_registry_imports_the_built_in_plugins():
    code = "from snellen.plugins.registry import FILLS, METHODS, METRICS, CONDITIONS\n"
    assert run(f"{code}print('rise' in METHODS, 'deletion' in METRICS, 'blur' in FILLS, 'crop' in CONDITIONS)") == (
        "True True True True"
    )


@pytest.mark.parametrize("name", snellen.__all__)
def test_public_names_are_there(name):
    assert getattr(snellen, name) is not None
    assert name in dir(snellen)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'snellen' has no attribute 'evaluat'"):
        snellen.evaluat  # noqa: B018
