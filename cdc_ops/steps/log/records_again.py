"""What was set aside before, read once more: the records of a quarantine, with the offsets that they have by their files' names."""

from collections.abc import Iterable

from cdc_ops.core.archive.file_names import KafkaName, parse_name
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.schema.declared_tables import next_step
from cdc_ops.errors import RequestError
from cdc_ops.events.record import Record
from cdc_ops.events.registry import spec_of
from cdc_ops.lake.quarantine.read import QuarantinedRecord, read_quarantine


def records_again(operation: Operation, log: LogBatch) -> dict[str, list[Record]]:
    """Returns the records of archives in a quarantine that could not be read since, by their file.

    Raises:
        RequestError: nobody could tell whether a record is older than its row.
    """
    if not spec_of(log.archive.format_options).one_order:
        raise RequestError(
            f"What is in quarantine of {operation.table} cannot be replayed: {log.archive.events.format} has an order within a"
            " partition only.",
            why="A record that was set aside may be older than its row, and would set it back.",
            data="Nothing was written; the watermark stays.",
            next=next_step(
                f"reconcile --pipeline {operation.pipeline} --table {operation.table}",
                "compares the table with its source",
                declared=bool(log.declared),
                first="The next event of the whole row brings it right.",
            ),
        )
    found: dict[str, list[Record]] = {}
    for one in _last(read_quarantine(log.quarantine), operation):
        name = parse_name(log.archive.files.layout, one.file, log.archive.files.template)
        partition, offset = (name.partition, name.start_offset + one.line) if isinstance(name, KafkaName) else (None, None)
        found.setdefault(one.file, []).append(Record(one.raw, one.file, one.line, partition, offset))
    return found


def _last(records: Iterable[QuarantinedRecord], operation: Operation) -> list[QuarantinedRecord]:
    """Returns each record once, as the last operation that met it set it aside; without the rows of queries, which have no file."""
    found: dict[tuple[str, int], QuarantinedRecord] = {}
    for one in records:
        if one.file.startswith(f"{operation.table}/operation-"):
            continue
        known = found.get((one.file, one.line))
        if known is None or one.op_seq >= known.op_seq:
            found[one.file, one.line] = one
    return list(found.values())
