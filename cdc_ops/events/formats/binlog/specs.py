"""The declared properties of `mysql-binlog`: binlogs of MySQL and MariaDB as their servers write them. Pure."""

from dataclasses import replace
from typing import Final

from cdc_ops.core.events.format_spec import MYSQL, Container, EventMarks, FileKind, FormatSpec, OrderField, RowImage
from cdc_ops.core.formats.known_losses import FULL_ROW_IMAGE

MYSQL_BINLOG: Final = FormatSpec(
    name="mysql-binlog",
    tool="MySQL or MariaDB",
    order=(
        OrderField(name="file_no", type="bigint", meaning="number at the end of the file's name"),
        OrderField(name="pos", type="bigint", meaning="offset of the event in the file; of a compressed transaction that of its payload"),
        OrderField(name="inner", type="int", meaning="number of the event in a compressed transaction, from 1; 0 outside"),
        OrderField(name="row", type="int", meaning="number of the row in the event"),
    ),
    images=RowImage.FULL,
    marks=EventMarks(
        snapshot="not at all",
        delete="a row event with the row before alone",
        key_change="an update whose row before has another key",
        truncate="the statement",
        ddl="the statement",
        statements=MYSQL,
    ),
    lossy=(replace(FULL_ROW_IMAGE, seen=True),),
    files=FileKind(container=Container.BINLOG),
)
"""`binlog_row_metadata` and `binlog_format` are not among its settings: rows and statements that lack what they need are refused."""

SPECS: Final = (MYSQL_BINLOG,)
