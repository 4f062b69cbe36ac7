"""Change events of Debezium, as a case has them in its archive: JSON files, one topic for each table."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Final

from tests.torture.model import Case

Engine = Callable[[Any, list[str], Path, bool, dict[str, str]], AbstractContextManager[Callable[[], None]]]
"""Starts Debezium beside a server, for tables, below a folder, with a snapshot of its own or not, with settings; gives what waits for all
events."""

SETTINGS: Final = {
    "event.converting.failure.handling.mode": "fail",
    "converter.replace.null.with.default": "false",
    "skipped.operations": "none",
}
"""What the engine is set to and the pipeline file says of it."""
NEVER: Final = ("archiver", "archiver kill", "early copy", "binlog reset", "bystander", "cascade", "globals", "versioned", "bad keys")
"""What is about binlogs that somebody copies, or would stop the engine's own sessions."""
ONLY: Final = ("plain values",)
"""The engine ends at NaN in a column of decimals, as it is told to end at what it cannot write."""


def section_of(case: Case, folder: str) -> dict[str, Any]:
    """Returns the section `archive` of a pipeline file."""
    kind = "debezium-postgres" if case.server == "postgres" else "debezium-mysql"
    settings = SETTINGS
    if case.server != "postgres":
        settings = {**settings, "enable.time.adjuster": "false", **({} if _is_whole(case) else {"snapshot.mode": "no_data"})}
    return {"url": f"{folder}/events", "format": kind, "settings": settings}


class DebeziumEvents:
    """The events of one case.

    Args:
        engine: Starts Debezium.
        server: The server.
        case: The case.
        database: Its database.
        folder: The case's folder.
    """

    def __init__(self, engine: Engine, server: Any, case: Case, database: str, folder: Path) -> None:
        self._stack, self.refusal = ExitStack(), dict[str, str]()
        tables = [f"{database}.{table.name}" for table in case.tables]
        self._catch_up = self._stack.enter_context(engine(server, tables, folder, _is_whole(case), _more_settings(case)))

    def copy(self) -> None:
        """Waits until the archive has all that was committed; a tool that gives up is no error of the product."""
        if self.refusal:
            return
        try:
            self._catch_up()
        except Exception as error:  # the engine's own error
            self.refusal = {"error": "DebeziumEnded", "what": str(error)[:300]}

    def close(self) -> None:
        """Ends the engine."""
        self._stack.close()


def _more_settings(case: Case) -> dict[str, str]:
    """Settings of the engine alone. Without the root's name on their changes, tables with partitions have to be refused."""
    if case.server != "postgres":
        return {}
    return {"slot.drop.on.stop": "true", "publish.via.partition.root": str(case.seed % 5 != 0).lower()}


def _is_whole(case: Case) -> bool:
    """Whether the events begin with a snapshot of their own."""
    return dict(dict(case.pipeline)["archive"]).get("initial_load") == "archive"
