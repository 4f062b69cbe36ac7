"""Random records of the other formats: the events of `random_debezium`, as other tools write them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping
from cdc_ops.core.schema.tables import Column, TableSchema
from tests.events.random_debezium import BYTES_SETTINGS, SETTINGS, TABLE, TEXT_SETTINGS, Records, table_of

_UNSAID: Final = ("schemas.enable=false",)


def _postgres_table(columns: dict[str, str]) -> TableSchema:
    found = []
    for name, declared in columns.items():
        mapping = postgres_mapping(declared)
        found.append(
            Column(name=name, source_type=declared, delta_type=mapping.delta_type, nullable=True, expression=name, lossy=mapping.lossy)
        )
    return replace(TABLE, columns=tuple(found))


class PostgresRecords(Records):
    """Events of Postgres as Debezium writes them."""

    columns: ClassVar[dict[str, str]] = {
        "id": "bigint",
        "code": "character varying(9)",
        "small": "smallint",
        "whole": "integer",
        "price": "numeric(10,2)",
        "wide": "numeric(38,6)",
        "rate": "double precision",
        "part": "real",
        "flag": "boolean",
        "day": "date",
        "local": "timestamp(3) without time zone",
        "fine": "timestamp without time zone",
        "seen": "timestamp with time zone",
        "took": "time without time zone",
        "doc": "jsonb",
        "uid": "uuid",
        "raw": "bytea",
        "padded": "character(4)",
        "mood": "public.mood",
        "host": "inet",
        "note": "text",
    }
    valid: ClassVar[dict[str, tuple[str, ...]]] = {
        **Records.valid,
        "small": ("0", "-32768", "32767"),
        "took": ("0", "86399999999", "3600000000", "1500000", "1", "86400000000"),
        "uid": ('"6f1c1c3e-0000-0000-0000-000000000001"',),
        "mood": ('"happy"', '"{}"', '"{\\"a\\":1}"', '"x\\"y"'),
        "host": ("null", "null", "null", "null", "null", "null", '"10.0.0.1"'),
        "padded": ('"ab  "', '"    "', '"abcd"', '" b"', '"\\u0020b\\u0020"'),
    }

    def _record(self, operation: str, number: int, images: dict[str, Any]) -> dict[str, Any]:
        record, pick = super()._record(operation, number, images), self._random
        source = {name: record["source"][name] for name in ("version", "ts_ms", "snapshot", "table")}
        sequence = pick.choice((f'["{number}","{number + 5}"]', f'[null,"{number}"]', "[null,null]", None, f'["{number}",null]'))
        if pick.random() < 0.1:
            sequence = pick.choice((f"[{number}]", '["x"]', "[", '["12', '["1234567890123456789012"]', "[]", f'[ "{number}"]'))
        added = {"connector": '"postgresql"', "db": '"other"', "schema": pick.choice(('"shop"',) * 30 + ('"public"', "null"))}
        places = {"txId": str(number), "lsn": pick.choice((str(number + 3),) * 20 + ("null",)), "sequence": json.dumps(sequence)}
        return {**record, "source": {**source, **added, **places}}


def _flattened(records: Records, record: dict[str, Any], fields: dict[str, str]) -> dict[str, Any]:
    """The record that ExtractNewRecordState makes of one, with the fields of its source by their new names."""
    pick = records._random
    deleted = record["after"] is None
    whole = {**(record["before"] if deleted else record["after"])}
    added = {ours: record["source"].get(theirs, "null") for ours, theirs in fields.items()}
    order = "null" if record["transaction"] == "null" else record["transaction"]["total_order"]
    flags = (f'"{str(deleted).lower()}"', f'"{str(deleted).lower()}"', str(deleted).lower(), '"true"' if pick.random() < 0.1 else '"false"')
    return {**whole, "__deleted": pick.choice(flags), "__op": record["op"], **added, "__transaction_total_order": order}


class FlatRecords(Records):
    """Flat records of MySQL."""

    extra: ClassVar[tuple[str, ...]] = ("__deleted", "__op", "op", "ts_ms", "status", "schema", "payload", "__cdc_ops_end")
    fields: ClassVar[dict[str, str]] = {
        **{f"__{name}": name for name in ("table", "file", "pos", "row", "gtid", "connector")},
        **{"__source_ts_ms": "ts_ms", "__source_db": "db", "__version": "version"},
    }

    def _record(self, operation: str, number: int, images: dict[str, Any]) -> dict[str, Any]:
        return _flattened(self, super()._record(operation, number, images), self.fields)


class FlatPostgresRecords(PostgresRecords):
    """Flat records of Postgres."""

    extra: ClassVar[tuple[str, ...]] = FlatRecords.extra
    fields: ClassVar[dict[str, str]] = {"__lsn": "lsn", "__sequence": "sequence", "__source_ts_ms": "ts_ms"}

    def _record(self, operation: str, number: int, images: dict[str, Any]) -> dict[str, Any]:
        return _flattened(self, super()._record(operation, number, images), self.fields)


_FLAT: Final = {"replace.null.with.default": "false", "delete.tombstone.handling.mode": "rewrite"}
_FLAT_MYSQL: Final = "op,table,file,pos,row,gtid,connector,source.ts_ms,source.db,version,transaction.total_order"
_FLAT_POSTGRES: Final = "op,lsn,sequence,source.ts_ms,transaction.total_order"


_AS_TEXT: Final[dict[str, tuple[str, ...]]] = {
    "price": ("12.50", "-0.01", "99999999.99", "7", '"12.5"', "0.00"),
    "wide": ("0.000001", "12345678901234567890123456789012.123456", '"1.5"'),
    "rate": ("0.1", "12", "1.7976931348623157e308", '"0.5"', "1.5E3"),
    "day": ('"2024-02-29"', '"0001-01-01"', '"9999-12-31"'),
    "local": ('"2024-02-29 12:00:00.123"', '"2024-02-29 12:00:00"'),
    "fine": ('"2024-02-29 12:00:00.123456"', '"1969-12-31T23:59:59.5"'),
    "seen": ('"2024-02-29 12:00:00.123456"', '"1970-01-01 08:00:01"'),
    "took": ('"12:34:56.789"', '"-838:59:59.000"', '"00:00:00.500"'),
    "bits": ("3", "513", '"7"'),
    "flag": ("true", "false", "1", "0", '"1"'),
}
STRANGE: Final = (
    *('"2024-02-30"', '"0000-00-00"', '"2024-2-3"', '"2024-02-29T1:00:00"', '"0001-01-01 00:00:00"', '"9999-12-31 23:59:59.999999"'),
    *(
        '"1:02:03.004"',
        '"12:34:56"',
        '"12:34:56.7890"',
        '"99:99:99.999"',
        '"123:00:00.000"',
        '"1234:00:00.000"',
        '"-1:00:00.000"',
        '"12:34:5"',
    ),
    *('"gift"', '"late,gift"', '"new,paid"', '"late,"', '",gift"', '"other"', '"é\\u0000"', '"é"', '"ÿ"', '"€"', '"Ā"'),
    *("-0.0", '"-0.0"', "0.0", "-0.00", "1e400", "1e-400", '"1E+2"', "0.1000000000000000055511151231257827021181583404541015625", '"07"'),
    *("-0", '"-0"', '" 1"', '"1.0"', "1.0", "2", '"2"', '"t"', '"yes"', "99999999999999999999999999999999999999.5"),
)


class ToolRecords(Records):
    """Events whose values are as the server prints them."""

    columns: ClassVar[dict[str, str]] = {**Records.columns, "labels": "set('gift','late')"}
    valid: ClassVar[dict[str, tuple[str, ...]]] = {**Records.valid, **_AS_TEXT, "labels": ("null",)}
    tokens: ClassVar[tuple[str, ...]] = (*Records.tokens, *STRANGE)
    extra: ClassVar[tuple[str, ...]] = ("sql", "gtid", "xid", "old", "data", "_tidb", "isDdl", "commit", "es", "__cdc_ops_end", "xoffset")

    def _old(self, images: dict[str, Any]) -> Any:
        """What an update has changed: some of the columns of the row before, now and then one of the key."""
        pick = self._random
        before = images["before"] or images["after"]
        names = [name for name in before if name not in ("id", "code") or pick.random() < 0.03]
        return {name: before[name] for name in names if pick.random() < 0.3}


class MaxwellRecords(ToolRecords):
    """Events as Maxwell writes them."""

    def _record(self, operation: str, number: int, images: dict[str, Any]) -> dict[str, Any]:
        pick = self._random
        kinds = {"c": "insert", "u": "update", "d": "delete", "r": "bootstrap-insert"}
        last = {"commit": "true"} if number % 3 == 0 else {"xoffset": str(number % 3)}
        record = {
            "database": '"shop"',
            "table": '"orders"' if pick.random() < 0.97 else '"others"',
            "type": f'"{kinds[operation]}"',
            "ts": pick.choice((str(1709283600 + number),) * 20 + ("null", "253402300799", "253402300800", "-1")),
            "xid": str(number),
            **last,
            "position": pick.choice((f'"mysql-bin.000003:{number}"',) * 20 + ("null", '"x"', '":7"', '"bin3:"', '"3:4:5"', '"a3:4x"')),
            "data": images["after"] or images["before"],
        }
        return {**record, "old": self._old(images)} if operation == "u" and pick.random() < 0.95 else record


class CanalRecords(ToolRecords):
    """Messages as Canal and TiCDC write them: values are strings."""

    valid: ClassVar[dict[str, tuple[str, ...]]] = {
        name: tuple(one if one[0] == '"' or one in ("true", "false") else f'"{one}"' for one in found)
        for name, found in ToolRecords.valid.items()
    } | {"labels": ('"gift"', '"late,gift"', '""'), "raw": ('"é\\u0000"', '"ab"', '""'), "padded": ('"é"', '"abcd"')}

    def _record(self, operation: str, number: int, images: dict[str, Any]) -> dict[str, Any]:
        pick = self._random
        kinds = {"c": "INSERT", "u": "UPDATE", "d": "DELETE", "r": "INSERT"}
        row = images["after"] or images["before"]
        rows = [row, {**row}] if pick.random() < 0.05 else [] if pick.random() < 0.02 else [row]
        tidb = {"commitTs": pick.choice((str(417318403368288256 + number),) * 20 + ("null", '"7"')), "watermarkTs": "null"}
        if pick.random() < 0.05:
            tidb |= pick.choice(
                ({"onlyHandleKey": "true"}, {"onlyHandleKey": "false"}, {"claimCheckLocation": pick.choice(('""', '"s3://x"'))})
            )
        return {
            "id": "0",
            "database": '"shop"',
            "table": '"orders"' if pick.random() < 0.97 else '"others"',
            "pkNames": '["id"]',
            "isDdl": pick.choice(("false",) * 20 + ("null", "true")),
            "type": f'"{kinds[operation]}"',
            "es": str(1709283600000 + number),
            "sql": '""',
            "data": rows,
            "old": [self._old(images)] * pick.choice((1,) * 20 + (2,)) if operation == "u" else "null",
            "gtid": '"24bc7850-2c16-11e6-a073-0242ac110002:77"',
            "_tidb": tidb,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatCase:
    """A format with a table, its options, and records of it.

    Args:
        format: The options.
        table: The table.
        records: Makes records for a seed.
        share: At least so much of the records is changes that can be read.
    """

    format: FormatOptions
    table: TableSchema
    records: Callable[[int], Records]
    share: float = 0.3


def _options(name: str, settings: dict[str, str], *losses: str) -> FormatOptions:
    return FormatOptions(name=name, settings=settings, accept_losses=(*_UNSAID, *losses))


_OF_POSTGRES: Final = {name: value for name, value in SETTINGS.items() if name not in ("enable.time.adjuster", "snapshot.mode")}
_POSTGRES_TEXT: Final = {**_OF_POSTGRES, "decimal.handling.mode": "string"}
_POSTGRES_BYTES: Final = {**_OF_POSTGRES, "decimal.handling.mode": "precise"}
_POSTGRES: Final = _postgres_table(PostgresRecords.columns)


def _unskipped(settings: dict[str, str], fields: str) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name != "skipped.operations"} | _FLAT | {"add.fields": fields}


_MAXWELL: Final = {"output_binlog_position": "true", "output_xoffset": "true", "ignore_producer_error": "false"}
_CUT: Final = ("fractions=cut", "enum_errors=null")
_TOOL: Final = table_of(ToolRecords.columns, ("id", "code"))

CASES: Final = {
    "debezium-mysql, decimals as text": FormatCase(
        format=_options("debezium-mysql", TEXT_SETTINGS), table=TABLE, records=lambda seed: Records(seed, "string")
    ),
    "debezium-mysql, decimals as bytes": FormatCase(
        format=_options("debezium-mysql", BYTES_SETTINGS), table=TABLE, records=lambda seed: Records(seed, "precise")
    ),
    "debezium-postgres, decimals as text": FormatCase(
        format=_options("debezium-postgres", _POSTGRES_TEXT),
        table=_POSTGRES,
        records=lambda seed: PostgresRecords(seed, "string"),
    ),
    "debezium-postgres, decimals as bytes": FormatCase(
        format=_options("debezium-postgres", _POSTGRES_BYTES),
        table=_POSTGRES,
        records=lambda seed: PostgresRecords(seed, "precise"),
    ),
    "debezium-mysql-unwrapped": FormatCase(
        format=_options("debezium-mysql-unwrapped", _unskipped(TEXT_SETTINGS, _FLAT_MYSQL), "truncate=dropped"),
        table=TABLE,
        records=FlatRecords,
    ),
    "debezium-postgres-unwrapped": FormatCase(
        format=_options("debezium-postgres-unwrapped", _unskipped(_POSTGRES_TEXT, _FLAT_POSTGRES), "truncate=dropped"),
        table=_POSTGRES,
        records=FlatPostgresRecords,
    ),
    "maxwell": FormatCase(
        format=FormatOptions(name="maxwell", settings=_MAXWELL, accept_losses=("truncate=dropped", *_CUT), time_zone="+08:00"),
        table=_TOOL,
        records=MaxwellRecords,
    ),
    "canal": FormatCase(format=FormatOptions(name="canal", time_zone="UTC"), table=_TOOL, records=CanalRecords),
    "ticdc-canal": FormatCase(format=FormatOptions(name="ticdc-canal", time_zone="-03:30"), table=_TOOL, records=CanalRecords),
}
