from __future__ import annotations

import atexit
import importlib
import os
import shutil
import sys
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest
import torch
from tests.torchvision_kernels import import_torchvision

if TYPE_CHECKING:
    from tests.s3_server import S3Server

# The fast tests try the same examples every time, so that no change fails by luck;
# `make test-exhaustive` searches for new ones.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", max_examples=3000, deadline=None)
hypothesis.settings.load_profile("steady")

# Keys and what is said once belong to a user of their own, also in the processes that tests start.
os.environ["SNELLEN_HOME"] = tempfile.mkdtemp(prefix="snellen-home-")
atexit.register(shutil.rmtree, os.environ["SNELLEN_HOME"], ignore_errors=True)

# Tests run side by side (pytest -n), and the networks are tiny: more threads would only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _warned() -> None:
    """What a user is told once, that models are code, has been told: which test comes first must not matter."""
    from snellen.files.seals import first_time

    first_time("models-are-code")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A server of the S3 protocol, and the settings of its clients, which processes of tests inherit."""
    from tests.s3_server import S3Server

    with pytest.MonkeyPatch.context() as patch:
        server = S3Server()
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        yield server
        server.stop()


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """The URL of a new, empty bucket."""
    from snellen.files.remote import store_of

    url = f"s3://bucket-{uuid.uuid4().hex[:12]}"
    store_of(url).mkdir(url)
    return url


@pytest.fixture(scope="session")
def torchvision() -> object:
    """The torchvision package, also where its compiled kernels are missing."""
    return import_torchvision()


@pytest.fixture
def quantus(torchvision: object, monkeypatch: pytest.MonkeyPatch) -> object:
    """The quantus package; it imports zennit, which imports torchvision."""
    monkeypatch.setattr(np, "trapz", np.trapezoid, raising=False)  # gone from NumPy, still imported there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("quantus")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many inputs with mistakes were tried at each boundary, and what came of them."""
    counts = getattr(sys.modules.get("mutations"), "COUNTS", {})
    if counts:
        terminalreporter.section("inputs with mistakes: read, or refused in one sentence")
    for boundary in sorted({name for name, _ in counts}):
        read, refused = (counts[boundary, word] for word in ("read", "refused"))
        terminalreporter.line(f"{boundary:28} {read + refused:7,} tried {read:7,} read {refused:7,} refused")
