"""`cdc-ops ui`: the status page without Airflow, in a process of its own, as somebody at a terminal has it."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.testing.source_harness import wait_until
from cdc_ops.web.local import HOST, listen
from tests.status_case import fill_ledger

COMMAND = (sys.executable, "-m", "cdc_ops.cli", "ui")


class Page:
    """A running `cdc-ops ui`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.ledger, self.opened, browser = folder / "ledger.db", folder / "opened", folder / "browser"
        fill_ledger(self.ledger)
        browser.write_text(f'#!/bin/sh\necho "$1" > {self.opened}.part && mv {self.opened}.part {self.opened}\n')
        browser.chmod(0o755)
        known = os.environ | {"CDC_OPS_LEDGER": f"sqlite:///{self.ledger}", "BROWSER": f"{browser} %s"}
        self.process = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=known)
        assert self.process.stdout is not None
        self.told = self.process.stdout.readline()
        found = re.match(r"http://127\.0\.0\.1:(\d+)/ui  \(Ctrl-C ends it\)\n", self.told)
        assert found, (self.told, self.end())
        self.port = int(found[1])

    def get(self, path: str, host: str = "", method: str = "GET") -> tuple[int, str, dict[str, str]]:
        with closing(http.client.HTTPConnection(HOST, self.port, timeout=60)) as connection:
            connection.request(method, path, headers={"Host": host or f"{HOST}:{self.port}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())

    def end(self) -> tuple[int, str, str]:
        """Presses Ctrl-C; returns the exit code and what else was said."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    page = Page(tmp_path_factory.mktemp("local"), "--port", "0")
    yield page
    assert page.end() == (0, "", ""), "Ctrl-C ends the page well, and nothing was logged"
    assert not page.opened.exists(), "nobody has asked for a browser"


def test_the_page_is_served_whole_without_airflow_and_without_links_to_it(page: Page) -> None:
    status, text, headers = page.get("/ui")
    assert (status, "shop.orders" in text, headers.get("server")) == (200, True, None)
    status, text, _ = page.get("/table?pipeline=shop&name=shop.orders")
    assert (status, text.count("<figure"), "../dags" in text, 'target="_top"' in text) == (200, 6, False, False)
    assert page.get("/style.css")[0] == page.get("/page.js")[0] == 200
    status, _, headers = page.get("/")
    assert (status, headers["location"]) == (307, "ui")
    assert page.get("/docs")[0] == page.get("/openapi.json")[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "10.0.0.7:{port}", "localhost.evil", "[::1]"]
)
def test_a_page_of_another_name_gets_nothing(page: Page, host: str) -> None:
    status, text, _ = page.get("/ui", host.format(port=page.port))
    assert (status, "shop" in text) == (400, False)


def test_localhost_is_this_machine_too(page: Page) -> None:
    assert page.get("/ui", f"localhost:{page.port}")[0] == page.get("/ui", "localhost")[0] == 200


def test_other_addresses_of_this_machine_are_not_listened_to(page: Page) -> None:
    for address in ("127.0.0.2", *{found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {HOST}):
        with socket.socket() as probe:
            probe.settimeout(10)
            assert probe.connect_ex((str(address), page.port)) != 0, address


def test_nothing_can_be_changed(page: Page) -> None:
    before = page.ledger.read_bytes()
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert page.get("/ui", method=method)[0] == page.get("/table", method=method)[0] == 405
    assert page.ledger.read_bytes() == before


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{page.ledger}")
    done = CliRunner().invoke(app, ["ui", "--port", str(page.port)])
    told = " ".join(done.stderr.split())
    assert done.exit_code == 2, told
    assert f"cannot be served at port {page.port} of 127.0.0.1" in told
    assert "Address already in use" in told
    assert "--port 0" in told
    assert done.stdout == ""


def test_a_package_that_is_missing_is_an_error_that_says_what_to_install(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{page.ledger}")
    monkeypatch.delitem(sys.modules, "cdc_ops.web.local")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = CliRunner().invoke(app, ["ui", "--port", "0"])
    assert done.exit_code == 2
    assert "pip install fastapi uvicorn jinja2" in " ".join(done.stderr.split())


def test_a_port_that_has_just_been_left_can_be_taken_again() -> None:
    with listen(0) as first:
        port = first.getsockname()[1]
        assert first.getsockname()[0] == HOST
        with pytest.raises(EnvironmentSetupError):
            listen(port)
    listen(port).close()


def test_the_browser_is_opened_when_somebody_asks_for_it(tmp_path: Path) -> None:
    page = Page(tmp_path, "--port", "0", "--open")
    wait_until(page.opened.exists, what="the browser")
    assert page.opened.read_text() == f"http://{HOST}:{page.port}/ui\n"
    assert page.get("/ui")[0] == 200
    page.process.send_signal(signal.SIGTERM)
    page.process.communicate(timeout=60)
    assert page.process.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM), "only Ctrl-C is the ordinary end"


def test_a_page_whose_ledger_has_gone_says_so_and_goes_on(tmp_path: Path) -> None:
    page = Page(tmp_path, "--port", "0")
    assert page.get("/ui")[0] == 200
    page.ledger.write_bytes(b"this is no database" * 1000)
    status, text, _ = page.get("/ui")
    assert (status, "The ledger cannot be read" in text) == (503, True)
    assert page.end()[0] == 0
