"""A process that has imported what most tests import, and is forked for each run of tests: imports are most of what a unit test costs.

Nothing of cdc_ops is imported before the fork, so each run sees the files as they are then. It reads a run per line of standard input, as
JSON, and answers each with a line.
"""

import atexit
import importlib
import json
import os
import signal
import sys
import time
from typing import Any, Final, NoReturn

_IMPORTED: Final = (
    "hypothesis",
    "hypothesis.stateful",
    "pydantic",
    "sqlalchemy",
    "alembic",
    "fsspec",
    "typer",
    "rich.table",
    "sqlglot",
    "pyarrow",
)
_LOOK_AGAIN: Final = 0.05


def serve() -> None:
    """Runs what it is told until standard input ends."""
    for name in ("pytest", *_IMPORTED):
        importlib.import_module(name)
    if any(name.partition(".")[0] == "cdc_ops" for name in sys.modules):
        raise RuntimeError("the package is imported before anything is broken in it")
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _run(order)
        print(_ended(child, order["seconds"]), flush=True)


def _run(order: dict[str, Any]) -> NoReturn:
    import pytest

    sink = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (sink, 1), (sink, 2)):
        os.dup2(source, target)
    importlib.invalidate_caches()
    code = 3
    try:
        # What is imported already cannot be rewritten by pytest, and need not be: it has no assertions of ours.
        code = int(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *order["arguments"]]))
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)


def _ended(child: int, seconds: float) -> int:
    """Returns the exit status of a run; ends one that takes too long."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN)


if __name__ == "__main__":
    serve()
