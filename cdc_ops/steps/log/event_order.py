"""Positions of events, file by file, for `core.events.event_order`: are they old events, or another server's?"""

from collections.abc import Mapping
from datetime import UTC, datetime

from cdc_ops.core.archive.file_names import BinlogName, KafkaName
from cdc_ops.core.archive.watermarks import LastEvent
from cdc_ops.core.events.event_order import FilePositions, check_positions_advance
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.events.scan.facts import TableFacts


def check_order(
    facts: Mapping[str, TableFacts], operation: Operation, log: LogBatch, names: Mapping[str, KafkaName | BinlogName]
) -> tuple[tuple[LastEvent, ...], int]:
    """Returns the newest change of each stream once the events are merged, and how many changes are older than what the table has.

    Args:
        facts: What each file showed, by path.
        operation: Whose, for messages.
        log: What was read.
        names: What the names of its files say.

    Raises:
        ArchiveOrderError: changes that are newer by the source's clock have smaller positions.
    """
    streams = {path: name.stream for path, name in names.items()}
    found = [
        FilePositions(
            file=path,
            stream=streams.get(path, ""),
            place=one.order.place,
            at=instant(one.order.at),
            behind=one.order.behind,
            behind_at=instant(one.order.behind_at),
        )
        for path, one in facts.items()
        if one.order.place
    ]
    starts = {path: name.start_offset if isinstance(name, KafkaName) else name.number for path, name in names.items()}
    found.sort(key=lambda one: (one.stream, starts.get(one.file, 0), one.file))
    newest = check_positions_advance(operation.pipeline, str(operation.table), found, log.before.newest, declared=bool(log.declared))
    return newest, sum(one.behind for one in found)


def instant(text: str) -> datetime | None:
    """Returns an instant from its text in UTC, None for ""."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None
