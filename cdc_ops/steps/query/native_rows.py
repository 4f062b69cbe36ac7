"""Reading a source without JDBC: Python in Spark's tasks reads the server's own protocol, and hands Arrow batches to Spark.

One task a slice, one connection a task, as with JDBC, and the same values in the same types; what follows does not see a difference. The
plan carries statements and a token for the login (`steps.query.logins`), never the login.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from cdc_ops.errors import CdcError, UnforeseenJobError, from_payload
from cdc_ops.lake.spark.error_text import failure_of_task
from cdc_ops.sources.base import NativeColumn, NativeRead
from cdc_ops.steps.query.logins import Token, exchange, issue
from cdc_ops.steps.query.pulse import counted, pulse_folder

_MARK: Final = "CDC_OPS_TASK_FAILED:"
_END: Final = ":CDC_OPS_END"


def read_native(spark: SparkSession, read: NativeRead) -> DataFrame:
    """Returns what a read's statements yield, as it travels; one partition per slice."""
    count = len(read.statements)
    schema = ", ".join(f"{column.name} {column.carried}" for column in read.columns)
    return spark.range(0, count, 1, count).mapInArrow(task_of(read), schema)


def task_of(read: NativeRead) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Returns what a task does that hands a read's rows over."""
    return _Task(reading=reading_of(read))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a task needs to read slices: all but the login, for which it has a token; and where it counts rows, "" for nowhere."""

    reader: str
    statements: tuple[str, ...]
    columns: tuple[NativeColumn, ...]
    token: Token
    pulse: str = ""

    def batches(self, number: int) -> Iterator[Any]:
        """Yields the rows of the slice of that number, as they travel."""
        module, _, name = self.reader.partition(":")
        read_batches = getattr(import_module(module), name)
        yield from counted(read_batches(exchange(self.token), self.statements[number], self.columns), self.pulse, number)


def reading_of(read: NativeRead) -> Reading:
    """Returns what the plan carries of a read."""
    return Reading(reader=read.reader, statements=read.statements, columns=read.columns, token=issue(read.url), pulse=pulse_folder())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What a task does: it hands over the slices whose numbers it is given."""

    reading: Reading

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from self.reading.batches(number)
        except CdcError as error:
            carried = json.dumps(error.to_payload()).encode().hex()  # of letters and digits: no log and no message changes them
            raise RuntimeError(f"{error.what} {error.why} {_MARK}{carried}{_END}") from None


def failed_task(failure: str) -> CdcError | None:
    """Returns the error with which a task of the native reader ended, if the text of a failure is that of one."""
    _, mark, rest = failure.partition(_MARK)
    text, _, _ = rest.partition(_END)
    if not mark:
        return None
    try:
        return from_payload(json.loads(bytes.fromhex(text)))
    except ValueError:
        return UnforeseenJobError("A task of the native reader failed.", why=failure[:400])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What a task does to find out whether it could read; it yields why not, "" if it could."""

    token: Token

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from cdc_ops import decode

        for _ in batches:
            why = decode.why_unavailable()
            if not why:
                decode.warm_up()
                try:
                    exchange(self.token)
                except CdcError as error:
                    why = f"{error.what} {error.why}"
            yield pa.RecordBatch.from_pydict({"why": [why]})


def why_not_native(spark: SparkSession, url: str) -> str:
    """Returns why tasks of this session cannot read natively, "" if they can; starts a small job, and compiles what is not compiled yet."""
    try:
        [row] = spark.range(0, 1, 1, 1).mapInArrow(_Trial(token=issue(url)), "why string").collect()
        return str(row["why"])
    except Exception as error:  # whatever keeps Python from working there: JDBC does without
        return failure_of_task(error)
