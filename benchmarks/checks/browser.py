"""A real browser for tests: Chromium over its debugging pipe, without a library in between.

The protocol is JSON, messages end in a zero byte; it is documented at
https://chromedevtools.github.io/devtools-protocol.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
PATIENCE_S = 120.0
"""How long one answer may take on a machine that has other work."""


class Page:
    """A tab without a network; what it complained of, and what it asked for."""

    def __init__(self, browser: Browser, width: int, height: int, *, dark: bool) -> None:
        self._browser = browser
        context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = browser.call("Target.attachToTarget", flatten=True, **target)
        self._session = attached["sessionId"]
        self.said: list[str] = []
        self.asked: list[str] = []
        self._loaded = False
        browser.listeners[self._session] = self._hear
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.call(
            "Network.emulateNetworkConditions",
            offline=True,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """An answer of the protocol."""
        return self._browser.call(method, self._session, **parameters)

    def _hear(self, method: str, told: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.said.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.said.append(told["entry"]["text"])

    def open(self, file: Path) -> None:
        """Go to a file and wait until it is loaded."""
        self._loaded = False
        self.call("Page.navigate", url=file.as_uri())
        while not self._loaded:
            self._browser.listen()

    def evaluate(self, script: str) -> Any:
        """The value of an expression; of a promise, what it comes to."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait for an expression to be true."""
        self.evaluate(f"""new Promise((done) => {{ const look = () => ({script}) ? done(true)
            : setTimeout(look, 20); look(); }})""")

    def write(self, text: str) -> None:
        """Type into what has the focus."""
        for letter in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=letter)

    def screenshot(self, file: Path, of: str | None = None) -> None:
        """What is in sight, or one element of the page, as PNG."""
        asked: dict[str, Any] = {}
        if of is not None:
            box = self.evaluate(f"""(() => {{ const {{x, y, width, height}} =
                document.querySelector({json.dumps(of)}).getBoundingClientRect();
                return {{x: x + scrollX, y: y + scrollY, width, height}}; }})()""")
            asked = {"clip": box | {"scale": 1}, "captureBeyondViewport": True}
        shot = self.call("Page.captureScreenshot", **asked)
        file.write_bytes(base64.b64decode(shot["data"]))


class Browser:
    """The process; see `browser`."""

    def __init__(self, profile: str) -> None:
        assert CHROMIUM is not None
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # The browser reads from 3 and writes to 4, which may be ends of these very pipes.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 64) for end in (to_read, to_write)]
        placed = "import os, sys; read, write, *rest = sys.argv[1:]; os.dup2(int(read), 3); "
        placed += "os.dup2(int(write), 4); os.execv(rest[0], rest)"
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                placed,
                *map(str, ends),
                CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--no-first-run",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
            ],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_read, to_write, *ends):
            os.close(end)
        self.listeners: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._rest = b""
        self._answers: dict[int, dict[str, Any]] = {}

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        number = next(self._numbers)
        asked = {"id": number, "method": method, "params": parameters}
        asked |= {"sessionId": session} if session else {}
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while number not in self._answers:
            self.listen()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def listen(self) -> None:
        """Take in one message at least."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], PATIENCE_S)
            assert ready, f"the browser has not answered for {PATIENCE_S} s"
            more = os.read(self._read, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        *messages, self._rest = self._rest.split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            elif message.get("sessionId") in self.listeners:
                self.listeners[message["sessionId"]](message["method"], message["params"])

    def page(self, width: int, height: int = 900, *, dark: bool = False) -> Page:
        """A new tab."""
        return Page(self, width, height, dark=dark)

    def close(self) -> None:
        """End the process."""
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        self._process.wait()


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser as long as it is needed."""
    with TemporaryDirectory() as profile:
        found = Browser(profile)
        try:
            yield found
        finally:
            found.close()
