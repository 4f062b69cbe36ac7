"""Debian's Chromium without a window, driven over its DevTools protocol on a pipe: pages, cookies, colours, sizes, pictures."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from cdc_ops.dev.processes import run_tool

OPTIONS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe")
PATIENCE: Final = 240.0
"""Seconds after which what was waited for never comes."""

START: Final = """
import fcntl, os, sys
high = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Becomes the browser, with its two pipes under the numbers that it expects."""


def chromium() -> str | None:
    """Chromium's program; root installs it on Debian if it is missing. None where there is none."""
    if shutil.which("chromium") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing Chromium with apt-get ...", file=sys.stderr, flush=True)
        with suppress(Exception):  # without a mirror the tests are skipped, or fail in CI
            run_tool(["apt-get", "update"], what="reading the package lists")
            run_tool(["apt-get", "install", "-y", "--no-install-recommends", "chromium"], what="installing Chromium")
    return shutil.which("chromium")


@dataclass
class Tab:
    """One page of the browser."""

    writer: IO[bytes]
    reader: IO[bytes]
    session: str = ""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    console: list[str] = field(default_factory=list)
    """What the browser complained of: refused styles, scripts, forms."""
    loaded: int = 0

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method and returns its result."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": self.session} if self.session else {})
        self.writer.write(json.dumps(message).encode() + b"\0")
        self.writer.flush()
        while (answer := self._next()).get("id") != number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    def open(self, address: str) -> None:
        """Opens a page and waits until it is loaded, style sheets included."""
        before = self.loaded
        self.call("Page.navigate", url=address)
        self.wait(before)

    def wait(self, before: int) -> None:
        """Waits until another page has been loaded."""
        while self.loaded == before:
            self._next()

    def value(self, script: str) -> Any:
        """Returns the value of an expression, evaluated by the browser beside the page's own rules for scripts."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def look(self, *, width: int = 1300, height: int = 900, scheme: str = "light") -> None:
        """Sets the size of the window and the preferred colours."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, file: Path) -> None:
        """Writes what is to be seen as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self.reader.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        message: dict[str, Any] = json.loads(text)
        if message.get("method") == "Page.loadEventFired":
            self.loaded += 1
        elif message.get("method") == "Log.entryAdded":
            self.console.append(message["params"]["entry"]["text"])
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """Starts the browser with a profile in a folder, opens a tab, and ends the browser."""
    program = chromium()
    assert program is not None
    to_read, to_write = os.pipe(), os.pipe()  # the browser reads from 3 and writes to 4
    ends = (to_read[0], to_write[1])
    command = [sys.executable, "-c", START, *map(str, ends), program, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
    with (folder.parent / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, pass_fds=ends)
    os.close(to_read[0])
    os.close(to_write[1])
    with os.fdopen(to_read[1], "wb") as writer, os.fdopen(to_write[0], "rb") as reader:
        try:
            tab = Tab(writer, reader)
            target = tab.call("Target.createTarget", url="about:blank")["targetId"]
            tab.session = tab.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Log", "Network"):
                tab.call(f"{domain}.enable")
            yield tab
            tab.session = ""
            tab.call("Browser.close")
        finally:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until(tab: Tab, script: str) -> None:
    """Waits until an expression is true in the page; how fast a machine is decides nothing."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if tab.value(f"(() => {{ try {{ return Boolean({script}) }} catch (error) {{ return false }} }})()"):
            return
        time.sleep(0.1)
    raise AssertionError(f"never true: {script}; the page says {tab.value('document.body.innerText')!r}")


def followed(tab: Tab, selector: str, first: str = "") -> None:
    """Clicks what the page has by a selector, once it is there, and waits until another page has been loaded.

    A page that loads late may still tell of it after another has been asked for, so the element is waited for.

    Args:
        tab: The page.
        selector: Of what is clicked.
        first: A statement that is executed before the click.
    """
    element = f"document.querySelector({json.dumps(selector)})"
    until(tab, f"document.readyState === 'complete' && {element}")
    before = tab.loaded
    tab.value(f"{first}; {element}.click()")
    tab.wait(before)


def pressed(tab: Tab, text: str) -> None:
    """Presses the button of Airflow's page that says so."""
    button = f"[...document.querySelectorAll('button')].find(one => one.innerText.trim() === '{text}')"
    until(tab, f"{button} && !{button}.disabled")
    tab.value(f"{button}.focus()")  # a part that is folded opens only then
    tab.value(f"{button}.click()")


def typed(tab: Tab, selector: str, text: str, *, choose: bool = False) -> None:
    """Types into a field of Airflow's page, and chooses what is found there, as a person does."""
    field = f"document.querySelector('{selector}')"
    until(tab, f"({field}.focus(), document.activeElement === {field})")  # not as long as its part of the form is folded
    tab.call("Input.insertText", text=text)
    for kind in ("rawKeyDown", "keyUp") if choose else ():
        tab.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13)
