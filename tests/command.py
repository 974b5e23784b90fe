"""The command `snellen` in a process of its own, forked from one that has imported everything and done nothing yet.

Importing torch takes seconds; a fork of a process that has only imported it takes milliseconds and behaves as a fresh one.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

_SERVER = """
import json, os, sys, traceback
import snellen.charts, snellen.cli.main, snellen.methods, snellen.metrics, snellen.report, snellen.runs.evaluate, snellen.zoo
try:
    from tests.torchvision_kernels import import_torchvision
    import_torchvision()  # transformers imports it
except ImportError:
    pass
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(request[name], os.O_WRONLY), number)
            os.chdir(request["cwd"])
            os.environ.clear()
            os.environ.update(request["env"])
            sys.argv = ["snellen", *request["words"]]
            sys.path[:0] = [request["cwd"], *filter(None, request["env"].get("PYTHONPATH", "").split(os.pathsep))]
            try:
                snellen.cli.main.main()
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@functools.cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    atexit.register(server.communicate)  # closes its standard input, which ends it
    return server


def snellen(*words: object, cwd: Path, env: Mapping[str, str] = os.environ) -> subprocess.CompletedProcess[str]:
    """Runs `snellen WORDS` in this folder and returns its exit code and all that it printed."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / name for name in ("stdout", "stderr")}
        for path in paths.values():
            path.touch()
        request = {"words": [str(word) for word in words], "cwd": str(cwd), "env": dict(env)}
        server.stdin.write(json.dumps(request | {name: str(path) for name, path in paths.items()}) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        output = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in paths.items()}
    return subprocess.CompletedProcess(["snellen", *request["words"]], code, **output)
