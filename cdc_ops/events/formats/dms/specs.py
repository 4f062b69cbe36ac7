"""The declared properties of the formats of AWS DMS. Pure."""

from typing import Final

from cdc_ops.core.events.format_spec import (
    NO_CSV_SETTINGS,
    ColumnFilter,
    Container,
    CsvSettings,
    EventMarks,
    FileKind,
    FormatSpec,
    LossySetting,
    OrderField,
    RowImage,
)
from cdc_ops.core.formats.known_losses import FULL_ROW_IMAGE, NO_TRUNCATE
from cdc_ops.core.schema.logical_types import LogicalType

CSV_DELIMITER: Final = "CsvDelimiter"
CSV_NULL: Final = "CsvNullValue"
CSV_MISSING: Final = "CsvNoSupValue"
NONE: Final = "none"
CHANGE_SEQ: Final = "AR_H_CHANGE_SEQ"
BEFORE: Final = "add-before-image-columns"
PREFIX: Final = "column-prefix"
TIMESTAMP: Final = "TimestampColumnName"


_TEXTS: Final = (LogicalType.TEXT, LogicalType.PADDED_TEXT, LogicalType.ENUM, LogicalType.SET, LogicalType.OTHER)
_LARGE: Final = (
    *("tinytext", "text", "mediumtext", "longtext", "json", "jsonb", "xml", "citext", "bytea"),
    *("tinyblob", "blob", "mediumblob", "longblob"),
)
_LOSSES: Final = (
    LossySetting(
        name=CHANGE_SEQ,
        advised=CHANGE_SEQ,
        unsafe=(NONE,),
        default=NONE,
        loses="Without the sequence of the change, only the time in a file's name and the place in the file order the changes: those of a"
        " task that began again stand in later files than what came after them.",
        remedy="Add a transformation rule 'add-column' with the expression $AR_H_CHANGE_SEQ, and name the column here.",
    ),
    LossySetting(
        name=BEFORE,
        safe=("pk-only", "non-lob", "all"),
        default=NONE,
        loses="An update of a key has only the new key: the row of the old key stays in the lake.",
        remedy="Add a transformation rule 'add-before-image-columns' with the column-filter pk-only, and say so here.",
    ),
    LossySetting(
        name="CdcInsertsOnly",
        safe=("false",),
        default="false",
        loses="Updates and deletes are not written.",
        remedy="Set CdcInsertsOnly=false.",
    ),
    LossySetting(
        name="CdcInsertsAndUpdates",
        safe=("false",),
        default="false",
        loses="DMS does not write deletes.",
        remedy="Set CdcInsertsAndUpdates=false.",
    ),
    LossySetting(
        name="DataErrorPolicy",
        safe=("SUSPEND_TABLE", "STOP_TASK"),
        default="LOG_ERROR",
        loses="DMS skips rows that it cannot process; only the task's log shows it.",
        remedy="Set DataErrorPolicy=SUSPEND_TABLE in the task's ErrorBehavior.",
    ),
    LossySetting(
        name="DataTruncationErrorPolicy",
        safe=("SUSPEND_TABLE", "STOP_TASK"),
        default="LOG_ERROR",
        loses="DMS truncates values that are too long; only the task's log shows it.",
        remedy="Set DataTruncationErrorPolicy=SUSPEND_TABLE in the task's ErrorBehavior.",
    ),
    LossySetting(
        name="SupportLobs",
        safe=("true",),
        default="true",
        loses="DMS skips large texts and bytes.",
        remedy="Set SupportLobs=true in the task's TargetMetadata.",
        families=(*_TEXTS, LogicalType.JSON, LogicalType.BINARY),
        only=ColumnFilter(declared=_LARGE),
    ),
    LossySetting(
        name="LimitedSizeLobMode",
        safe=("false",),
        default="true",
        loses="DMS truncates large texts and bytes at LobMaxSize (default 32 KB) without a trace.",
        remedy="Set FullLobMode=true and LimitedSizeLobMode=false in the task's TargetMetadata.",
        families=(*_TEXTS, LogicalType.JSON, LogicalType.BINARY),
        only=ColumnFilter(declared=_LARGE),
    ),
    NO_TRUNCATE,
    FULL_ROW_IMAGE,
)
_CSV_LOSSES: Final = (
    LossySetting(
        name="AddColumnName",
        safe=("true",),
        default="false",
        loses="Files do not name their columns. cdc-ops reads the first row of each file as column names, so that all of its rows are bad.",
        remedy="Set AddColumnName=true.",
    ),
    LossySetting(
        name=CSV_NULL,
        advised="\\N",
        unsafe=("NULL", ""),
        default="NULL",
        loses="Such a text cannot be distinguished from NULL.",
        remedy="Set CsvNullValue to what no text is, such as \\N.",
        families=_TEXTS,
    ),
    LossySetting(
        name="Rfc4180",
        safe=("true",),
        default="true",
        loses="Quotes within values are not doubled, so the end of a value is ambiguous.",
        remedy="Set Rfc4180=true.",
    ),
)
_PARQUET_LOSSES: Final = (
    LossySetting(
        name="ParquetTimestampInMillisecond",
        safe=("false",),
        default="false",
        loses="DMS truncates times to milliseconds.",
        remedy="Set ParquetTimestampInMillisecond=false.",
        families=(LogicalType.WALL_CLOCK, LogicalType.INSTANT),
        only=ColumnFilter(only_fractions=True),
    ),
)
_CSV: Final = CsvSettings(
    delimiter=CSV_DELIMITER, null=CSV_NULL, missing=CSV_MISSING, columns=(CHANGE_SEQ, TIMESTAMP), no_column=(NONE, "")
)
_SETTINGS: Final = {TIMESTAMP: "", PREFIX: "BI_"}
_UNREADABLE: Final = {
    **dict.fromkeys((LogicalType.BIT, LogicalType.BIT_TEXT, LogicalType.VARBIT), "DMS writes bits as true or false, or as bytes."),
    **dict.fromkeys(
        (
            *(LogicalType.GEOMETRY, LogicalType.VECTOR, LogicalType.SHAPE, LogicalType.INTERVAL, LogicalType.MONEY, LogicalType.ARRAY),
            *(LogicalType.BENT_ARRAY, LogicalType.ZONED_TIME),
        ),
        "How DMS spells its values is not documented.",
    ),
}
_CSV_UNREADABLE: Final = {**_UNREADABLE, LogicalType.BINARY: "How DMS spells bytes in CSV is not documented; Parquet has them as they are."}


def _facts(name: str, container: Container) -> FormatSpec:
    csv = container is Container.CSV
    return FormatSpec(
        name=name,
        tool="AWS DMS",
        order=(
            OrderField(name="streamed", type="tinyint", meaning="0 for rows of the full load, which are older than all changes"),
            OrderField(name="change_seq", type="decimal(35,0)", meaning="AR_H_CHANGE_SEQ: sequence of the change; -1 without"),
            OrderField(name="file_time", type="decimal(23,0)", meaning="date and time in the file's name; -1 for files of the full load"),
            OrderField(name="row", type="bigint", meaning="place in the file"),
        ),
        images=RowImage.PARTIAL,
        marks=EventMarks(
            snapshot="files LOAD…",
            delete="Op D, of which only the key has to be there",
            key_change="an Op U with before-image columns of the key",
            truncate="not at all: DMS removes the table's files",
            ddl="not at all: only the columns of later files differ",
        ),
        lossy=(*_LOSSES, *(_CSV_LOSSES if csv else _PARQUET_LOSSES)),
        settings={**_SETTINGS, CSV_DELIMITER: ",", CSV_MISSING: ""} if csv else _SETTINGS,
        unreadable=_CSV_UNREADABLE if csv else _UNREADABLE,
        local_instants=True,
        names_table=False,
        files=FileKind(container=container, csv=_CSV if csv else NO_CSV_SETTINGS),
    )


DMS_CSV: Final = _facts("aws-dms-csv", Container.CSV)
DMS_PARQUET: Final = _facts("aws-dms-parquet", Container.PARQUET)
SPECS: Final = (DMS_CSV, DMS_PARQUET)
