"""The process that is the product: reads commands as JSON lines, runs cdc-ops's own command line, writes what it said.

It differs from the `cdc-ops` of a shell in one thing: the Spark session stays for the next command, because a cold JVM for each would
leave time for nothing else.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def serve(commands: TextIO, answers: TextIO, session: "SparkSession") -> None:
    """Answers one line with one line until there are no more."""
    keep(session)
    for line in commands:
        asked = json.loads(line)
        answers.write(json.dumps(answer(tuple(asked["arguments"]), asked["environment"])) + "\n")
        answers.flush()


def keep(session: "SparkSession") -> Callable[[], None]:
    """Gives the command line a session that outlives a command; what is returned takes that back."""
    from cdc_ops.cli.session import LocalSpark

    before = LocalSpark.session
    LocalSpark.session = lambda self, *, small=False: session  # type: ignore[method-assign]

    def back() -> None:
        LocalSpark.session = before  # type: ignore[method-assign]

    return back


def answer(arguments: tuple[str, ...], environment: dict[str, str]) -> dict[str, Any]:
    """Runs one command in this process."""
    from typer.testing import CliRunner

    from cdc_ops.cli import app

    before = dict(os.environ)
    os.environ.update(environment)
    try:
        result = CliRunner().invoke(app, list(arguments))
    finally:
        os.environ.clear()
        os.environ.update(before)
    unforeseen = "" if result.exception is None or isinstance(result.exception, SystemExit) else f"\nEXCEPTION {result.exception!r}"
    if unforeseen and result.exc_info:
        import traceback

        unforeseen += "\n" + "".join(traceback.format_exception(*result.exc_info)[-6:])
    return {"code": result.exit_code, "output": result.stdout, "errors": result.stderr + unforeseen}


def main() -> int:
    """Serves standard input and output; whatever else writes to standard output goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from cdc_ops.lake.spark import jars
    from cdc_ops.lake.spark.session import build_session
    from tests.conftest import LOCAL, SMALL_SPARK

    jars.fetch(LOCAL / "jars")
    session = build_session("cdc-ops torture", jars=jars.jar_list(LOCAL / "jars"), extra_conf=SMALL_SPARK)
    serve(sys.stdin, answers, session)
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
