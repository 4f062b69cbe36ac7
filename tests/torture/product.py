"""The product under a case: its commands with the case's connections, how long they take, and what of their answers no user should see."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.torture.documents import failures_of
from tests.torture.driver import Answer, Commands
from tests.torture.events import Engine
from tests.torture.grants import PASSWORD, USER

_JAVA: Final = ("Py4JJavaError", "PATH_NOT_FOUND", "EXCEPTION ", "UnforeseenJobError", "Traceback (most recent call last)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What the cases of a player share.

    Args:
        nodes: The source; of a cluster all its nodes, the first of which the product is given.
        driver: Runs commands.
        say: Receives one line for each step and command.
        took: Seconds that each command took last.
        engine: Starts Debezium, for cases whose changes come from it.
    """

    nodes: Sequence[Any]
    driver: Commands
    say: Callable[[str], None]
    took: dict[str, float] = field(default_factory=dict)
    engine: Engine | None = None


class Product:
    """Commands of cdc-ops for one case.

    Args:
        kit: What it works with.
        database: The case's database.
        folder: The case's folder.
        less: Whether the login is the one that may not read everything.
        broken: Receives what no user should see.
    """

    def __init__(self, kit: Kit, database: str, folder: Path, *, less: bool, broken: list[str]) -> None:
        self._kit, self._server, self._database, self._folder = kit, kit.nodes[0], database, folder
        self._less, self._broken = less, broken

    def call(self, *arguments: str, kill: float = 0.0) -> Answer:
        """Runs a command; with `kill` it is killed after such a share of the time that it took last."""
        begun, name = time.monotonic(), arguments[0]
        answer = self._kit.driver.call(arguments, self._environment(), kill_after=kill * self._kit.took.get(name, 8.0))
        seconds = time.monotonic() - begun
        if answer.code is not None:
            self._kit.took[name] = seconds
        self._kit.say(f"{' '.join(arguments)} -> {answer.code} in {seconds:.1f} s")
        return answer

    def failures(self, answer: Answer) -> dict[str, dict[str, str]]:
        """Returns the failures of a command by table, "" for all; what no user should see is noted."""
        if answer.code is None:
            if answer.text != "killed":
                self._broken.append(answer.text)
            return {}
        unforeseen = [text for text in _JAVA if text in answer.text]
        if answer.code == 1 or unforeseen or (answer.document is None and answer.code != 0):
            place = max(0, min((answer.text.find(one) for one in unforeseen), default=0) - 300)
            self._broken.append(f"{', '.join(unforeseen) or f'exit code {answer.code}'}\n{answer.text[place : place + 2500]}")
        return failures_of(answer.document)

    def _environment(self) -> dict[str, str]:
        scheme = "postgresql" if self._server.name.lower() == "postgres" else "mysql"
        address = f"{self._server.host}:{self._server.port}"
        login = (USER, PASSWORD) if self._less else (self._server.user, self._server.password)
        nodes = {
            f"CDC_OPS_CONN_TORTURE_NODE_{number}": f"{scheme}://{_login(*login)}@{one.host}:{one.port}/{self._database}"
            for number, one in enumerate(self._kit.nodes[1:], 1)
        }
        return {
            **nodes,
            "CDC_OPS_CONN_TORTURE_DB": f"{scheme}://{_login(*login)}@{address}/{self._database}",
            "CDC_OPS_CONN_TORTURE_LOG": f"{scheme}://{_login(self._server.admin, self._server.admin_password)}@{address}/",
            "CDC_OPS_LEDGER": f"sqlite:///{self._folder}/ledger.db",
            "CDC_OPS_PIPELINES": str(self._folder / "pipelines"),
            "CDC_OPS_HOME": str(self._folder / "home"),
            "CDC_OPS_CLASSES": "off",
        }


def _login(user: str, password: str) -> str:
    return f"{quote(user, safe='')}:{quote(password, safe='')}"
