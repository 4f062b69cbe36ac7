"""The kinds of DTS's records, which both of its formats name alike."""

from typing import Final

from cdc_ops.core.events.format_spec import EventOperation, RecordKind
from cdc_ops.events.record import Envelope
from cdc_ops.events.said import is_truncate

OPERATIONS: Final[dict[str | None, EventOperation]] = {
    "INIT": EventOperation.READ,
    "INSERT": EventOperation.CREATE,
    "UPDATE": EventOperation.UPDATE,
    "DELETE": EventOperation.DELETE,
}
_CONTROL: Final = ("BEGIN", "COMMIT", "ROLLBACK", "ABORT", "HEARTBEAT", "CHECKPOINT", "NOOP")


def envelope_of(member: str, kind: str | None, statement: str | None, number: int | None) -> Envelope:
    """Returns what a record of a kind is, without its table and its images.

    Args:
        member: The name of the member that has the kind.
        kind: The kind.
        statement: What stands where a record of the kind DDL has its statement.
        number: Of the record in the stream.
    """
    ddl = statement if kind == "DDL" else None
    truncates = is_truncate(ddl)
    op = EventOperation.TRUNCATE if truncates else OPERATIONS.get(kind)
    envelope = Envelope(
        kind=RecordKind.CHANGE,
        op=op,
        snapshot=kind == "INIT",
        ddl=None if truncates else ddl,
        position=(None if kind is None else int(kind != "INIT"), number),
    )
    if op is None and ddl is not None:
        envelope.kind = RecordKind.DDL
    elif op is None and kind in _CONTROL:
        envelope.kind = RecordKind.CONTROL
    elif op is None:
        envelope.kind, envelope.reason = RecordKind.BAD, f"unknown {member} {'NULL' if kind is None else kind}"
    return envelope
