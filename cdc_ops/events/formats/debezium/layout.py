"""What Debezium's records have for members, and how they are parsed; all relational connectors share one layout.

Nearly all records have texts where texts belong. A record with something else there, such as `"snapshot": false`, is parsed a second time,
and a text is then the JSON that stands there, as `json_text.text_of` has it. Another type than a number for a number makes the record bad.
"""

from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.said import Bigint

T = TypeVar("T")
NO_JSON: Final = Raw()
"""Stands for a member that is not there."""
_NOTHING: Final[Any] = None
"""Stands for a text that is not there; a text is `str | None`, and `Raw` where anything may be one."""


class Source(Struct, Generic[T], gc=False, rename={"tx_id": "txId", "tx_seq": "txSeq"}):
    """Where a change comes from."""

    connector: T = _NOTHING
    db: T = _NOTHING
    schema: T = _NOTHING
    table: T = _NOTHING
    file: T = _NOTHING
    pos: Bigint | None = None
    row: Bigint | None = None
    gtid: T = _NOTHING
    ts_ms: Bigint | None = None
    snapshot: T = _NOTHING
    sequence: T = _NOTHING
    lsn: Bigint | None = None
    tx_id: T = _NOTHING
    commit_lsn: T = _NOTHING
    change_lsn: T = _NOTHING
    event_serial_no: Bigint | None = None
    scn: T = _NOTHING
    commit_scn: T = _NOTHING
    tx_seq: Bigint | None = None


class Transaction(Struct, Generic[T], gc=False):
    """The transaction of a change, from `provide.transaction.metadata`."""

    id: T = _NOTHING
    total_order: Bigint | None = None


class Body(Struct, Generic[T], gc=False, rename={"database": "databaseName"}):
    """An event, a statement, a border of a transaction or a heartbeat."""

    op: T = _NOTHING
    before: Raw = NO_JSON
    after: Raw = NO_JSON
    source: Source[T] | None = None
    ts_ms: Bigint | None = None
    ddl: T = _NOTHING
    database: T = _NOTHING
    status: T = _NOTHING
    transaction: Transaction[T] | None = None


class Document(Body[T], Generic[T], gc=False, rename={"types": "schema", "database": "databaseName"}):
    """A record: a body, or a body with the schema of its members around it."""

    types: Raw = NO_JSON
    payload: Body[T] | None = None


_Texts: TypeAlias = str | None
Parsed: TypeAlias = Document[_Texts]
_PLAIN: Final = msgspec.json.Decoder(Document[_Texts])
_ANY: Final = msgspec.json.Decoder(Document[Raw])


def parsed(value: bytes) -> Parsed:
    """Returns the members of a record; of texts that are no texts, their JSON.

    Raises:
        msgspec.DecodeError: it is no JSON, or no record of this layout.
    """
    try:
        return _PLAIN.decode(value)
    except msgspec.ValidationError:
        found: Any = _ANY.decode(value)
        for part in (found, found.source, found.transaction):
            _read_texts(part)
        if found.payload is not None:
            for part in (found.payload, found.payload.source, found.payload.transaction):
                _read_texts(part)
        return found  # type: ignore[no-any-return]


def _read_texts(part: Any) -> None:
    if part is None:
        return
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, Raw) and name not in _KEPT_AS_JSON:
            setattr(part, name, text_of(value))


_KEPT_AS_JSON: Final = frozenset({"before", "after", "types"})
