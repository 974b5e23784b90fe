"""A real Chromium, driven through its own protocol over a pipe, so that no package is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


class Browser:
    """One window with one page; `errors` are what its console complained of, `asked` are the addresses that it fetched."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        program = next((executable for name in NAMES if (executable := shutil.which(name))), None)
        assert program, f"these tests need one of {', '.join(NAMES)} on the PATH"
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        hear, tell = os.pipe(), os.pipe()
        # Chromium reads from 3 and writes to 4; the copies are high, so that neither overwrites the other.
        ends = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 50) for descriptor in (tell[0], hear[1])]

        def place() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", f"--user-data-dir={self._home.name}",
             f"--window-size={width},{height}", "about:blank"],
            preexec_fn=place,  # noqa: PLW1509 (no thread runs in a test)
            pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for descriptor in (*ends, tell[0], hear[1]):
            os.close(descriptor)
        self._in, self._out = hear[0], tell[1]
        self._rest, self._count, self._session = b"", 0, None
        self.errors: list[str] = []
        self.requests: list[str] = []
        page = next(target for target in self("Target.getTargets")["targetInfos"] if target["type"] == "page")
        self._session = self("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")
        self.size(width, height)

    def __call__(self, verb: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": verb, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._hear(60)
            assert answer is not None, f"Chromium did not answer {verb}"
            if answer.get("id") == self._count:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def _hear(self, seconds: float) -> dict[str, Any] | None:
        end = time.monotonic() + seconds
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            part = os.read(self._in, 1 << 20)
            assert part, "Chromium closed the pipe"
            self._rest += part
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"][:200])
        return message

    def size(self, width: int, height: int = 900) -> None:
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)

    def open(self, path: Path, hash_: str = "") -> None:
        """Opens a file afresh; another hash of the same page alone would not load it again."""
        self("Page.navigate", url="about:blank")
        self("Page.navigate", url=path.resolve().as_uri() + hash_)
        end = time.monotonic() + 30
        while self.run("location.href === 'about:blank' || document.readyState !== 'complete'"):
            assert time.monotonic() < end, "the page did not load"
            time.sleep(0.02)
        self.rest(0.05)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        evaluation = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in evaluation, evaluation["exceptionDetails"]
        return evaluation["result"].get("value")

    def rest(self, seconds: float = 0.3) -> None:
        """Lets the page do what it put off, and hears what it has to say."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._hear(left)

    def press(self, key: str, *, shift: bool = False) -> None:
        """A key, as a person presses it."""
        facts = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": _KEYS[key],
                 "modifiers": 8 if shift else 0}  # fmt: skip
        text = {"text": "\r" if key == "Enter" else key} if key in ("Enter", " ") else {}
        self("Input.dispatchKeyEvent", type="keyDown", **facts, **text)
        self("Input.dispatchKeyEvent", type="keyUp", **facts)

    def picture(self, path: Path, *, whole: bool = False) -> Path:
        """A screenshot."""
        data = self("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
        return path

    def sheets(self) -> int:
        """How many sheets of A4 the page takes when it is printed, counted from the PDF."""
        facts = {"printBackground": True, "preferCSSPageSize": True, "paperWidth": 8.27, "paperHeight": 11.69}
        paper = base64.b64decode(self("Page.printToPDF", **facts)["data"])
        assert paper.startswith(b"%PDF")
        return len(re.findall(rb"/Type\s*/Page\b", paper))

    def close(self) -> None:
        try:
            self._session = None
            self("Browser.close")
        except (AssertionError, OSError):
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._home.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
