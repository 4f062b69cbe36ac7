"""AWS DMS on S3, as CSV or as Parquet; inside Spark.

    shop/orders/LOAD00000001.csv                    id,name,AR_H_CHANGE_SEQ
                                                    1,Lee,
    shop/orders/2024/03/01/20240301-090000123.csv   Op,id,name,AR_H_CHANGE_SEQ,BI_id
                                                    U,1,Ann,20240301090000000000000000000000017,1

A format is given each row as a JSON object. Rows do not name their table; their file's folders do, if it lies in folders of the archive.
Field layouts: AWS DMS user guide, Amazon S3 as a target, and transformation rules.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.event_values import ValueFamily, family_of
from cdc_ops.core.events import (
    Container,
    EventFormat,
    FormatFacts,
    Images,
    LossySetting,
    Operation,
    OrderField,
    RecordKind,
    setting,
)
from cdc_ops.core.feeds import LANDED_NUMBER
from cdc_ops.core.tables import Column
from cdc_ops.formats import values
from cdc_ops.formats.base import Format, Reading
from cdc_ops.formats.containers import CSV_DELIMITER, CSV_MISSING, CSV_NULL
from cdc_ops.formats.losses import FULL_ROW_IMAGE, NO_TRUNCATE
from cdc_ops.formats.records import completed, envelopes, name_of, parsed_members

NONE: Final = "none"
CHANGE_SEQ: Final = "AR_H_CHANGE_SEQ"
BEFORE: Final = "add-before-image-columns"
PREFIX: Final = "column-prefix"
TIMESTAMP: Final = "TimestampColumnName"

_OP: Final = "Op"
_OPERATIONS: Final = {"I": Operation.CREATE, "U": Operation.UPDATE, "D": Operation.DELETE}
_LOAD: Final = r"(?:^|/)LOAD[0-9A-Fa-f]{5,}\.[^/]*$"
_CDC: Final = r"(?:^|/)(\d{8})-(\d{6})(\d{0,9})\.[^/]*$"
_FOLDERS: Final = r"(?:^|/)(?![0-9_-]+/)([^/]+)/(?![0-9_-]+/)([^/]+)/(?:[0-9_-]+/)*[^/]+$"
"""Schema and table; folders of digits are those of dates."""

_TEXTS: Final = (ValueFamily.TEXT, ValueFamily.PADDED_TEXT, ValueFamily.ENUM, ValueFamily.SET, ValueFamily.OTHER)
_LARGE: Final = (
    *("tinytext", "text", "mediumtext", "longtext", "json", "jsonb", "xml", "citext", "bytea"),
    *("tinyblob", "blob", "mediumblob", "longblob"),
)
_LOSSES: Final = (
    LossySetting(
        name=CHANGE_SEQ,
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
        loses="An update of a key names the new one only: the row of the old key stays in the lake.",
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
        loses="Deletes are not written.",
        remedy="Set CdcInsertsAndUpdates=false.",
    ),
    LossySetting(
        name="LimitedSizeLobMode",
        safe=("false",),
        default="true",
        loses="Large texts and bytes are cut at LobMaxSize (32 KB unless it is set), and nothing shows it.",
        remedy="Set FullLobMode=true and LimitedSizeLobMode=false in the task's TargetMetadata.",
        families=(*_TEXTS, ValueFamily.JSON, ValueFamily.BINARY),
        declared=_LARGE,
    ),
    NO_TRUNCATE,
    FULL_ROW_IMAGE,
)
_CSV_LOSSES: Final = (
    LossySetting(
        name="AddColumnName",
        safe=("true",),
        default="false",
        loses="Files do not name their columns: nobody can tell which value is whose. The first row of each is taken for names that it does"
        " not have, so that all of its rows are bad.",
        remedy="Set AddColumnName=true.",
    ),
    LossySetting(
        name=CSV_NULL,
        unsafe=("NULL", ""),
        default="NULL",
        loses="A text that reads so cannot be told from NULL.",
        remedy="Set CsvNullValue to what no text is, such as \\N.",
        families=_TEXTS,
    ),
    LossySetting(
        name="Rfc4180",
        safe=("true",),
        default="true",
        loses="Quotes within values are not doubled, so that their ends cannot be told.",
        remedy="Set Rfc4180=true.",
    ),
)
_PARQUET_LOSSES: Final = (
    LossySetting(
        name="ParquetTimestampInMillisecond",
        safe=("false",),
        default="false",
        loses="Times are cut to milliseconds.",
        remedy="Set ParquetTimestampInMillisecond=false.",
        families=(ValueFamily.WALL_CLOCK, ValueFamily.INSTANT),
        only_fractions=True,
    ),
)
_SETTINGS: Final = {TIMESTAMP: "", PREFIX: "BI_"}
_UNREADABLE: Final = {
    **dict.fromkeys((ValueFamily.BIT, ValueFamily.BIT_TEXT, ValueFamily.VARBIT), "DMS writes bits as true or false, or as bytes."),
    **dict.fromkeys(
        (
            *(ValueFamily.GEOMETRY, ValueFamily.VECTOR, ValueFamily.SHAPE, ValueFamily.INTERVAL, ValueFamily.MONEY, ValueFamily.ARRAY),
            *(ValueFamily.BENT_ARRAY, ValueFamily.ZONED_TIME),
        ),
        "How DMS spells its values is not documented.",
    ),
}
_CSV_UNREADABLE: Final = {**_UNREADABLE, ValueFamily.BINARY: "How DMS spells bytes in CSV is not documented; Parquet has them as they are."}


def _facts(name: str, container: Container) -> FormatFacts:
    csv = container is Container.CSV
    return FormatFacts(
        name=name,
        tool="AWS DMS",
        order=(
            OrderField(name="streamed", type="tinyint", meaning="0 for rows of the full load, which are older than all changes"),
            OrderField(name="change_seq", type="decimal(35,0)", meaning="AR_H_CHANGE_SEQ: sequence of the change; -1 without"),
            OrderField(name="file_time", type="decimal(23,0)", meaning="date and time in the file's name; -1 for files of the full load"),
            OrderField(name="row", type="bigint", meaning="place in the file"),
        ),
        images=Images.PARTIAL,
        snapshot="files LOAD…",
        delete="Op D, of which only the key has to be there",
        key_change="an Op U with before-image columns of the key",
        truncate="not at all: DMS removes the table's files",
        ddl="not at all: only the columns of later files differ",
        lossy=(*_LOSSES, *(_CSV_LOSSES if csv else _PARQUET_LOSSES)),
        settings={**_SETTINGS, CSV_DELIMITER: ",", CSV_MISSING: ""} if csv else _SETTINGS,
        unreadable=_CSV_UNREADABLE if csv else _UNREADABLE,
        local_instants=True,
        names_table=False,
        container=container,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dms:
    """The formats `aws-dms-csv` and `aws-dms-parquet`."""

    facts: FormatFacts

    def envelopes(self, records: DataFrame, chosen: EventFormat) -> DataFrame:
        """See `Format`."""
        frame = parsed_members(records, lower=False).withColumn("r", F.when(F.col("m").isNotNull(), F.struct("m")))
        row, load = F.col("m"), F.col("file").rlike(_LOAD)
        letter, moment = F.try_element_at(row, F.lit(_OP)), F.try_element_at(row, F.lit(setting(self.facts, chosen, TIMESTAMP)))
        op = F.when(load & F.coalesce(letter == "I", F.lit(True)), Operation.READ.value)
        for theirs, ours in _OPERATIONS.items():
            op = op.when(~load & (letter == theirs), ours.value)
        image, before = self._images(row, chosen)
        blind = (op == Operation.UPDATE) & (F.size(before) == 0) if setting(self.facts, chosen, BEFORE) != NONE else F.lit(False)
        known = op.isNotNull() & ~blind
        return envelopes(
            frame,
            self.facts,
            {
                "kind": F.when(known, RecordKind.CHANGE.value).otherwise(RecordKind.BAD.value),
                "reason": F.when(blind, "it has no before-image columns").otherwise(
                    F.concat(F.lit("unknown Op "), F.coalesce(letter, F.lit("NULL")))
                ),
                "op": op,
                "snapshot": load,
                "table": name_of(*(F.nullif(F.regexp_extract("file", _FOLDERS, group), F.lit("")) for group in (1, 2))),
                "before": F.when(op == Operation.DELETE, image).when(
                    (op == Operation.UPDATE) & (F.size(before) > 0), completed(image, before)
                ),
                "after": F.when(op != Operation.DELETE, image),
                "source_time": F.when(~load, values.instant(moment, chosen.time_zone or "UTC").value),
                "position": self._position(row, load, chosen),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, chosen: EventFormat) -> Reading:
        """See `Format`."""
        if family_of(column) is ValueFamily.BINARY:
            return values.base64(column, text)
        return values.from_text(column, text, chosen.time_zone)

    def _images(self, row: Expr, chosen: EventFormat) -> tuple[Expr, Expr]:
        """Returns the row, and what before-image columns say of the one before."""
        own = (_OP, *(setting(self.facts, chosen, name) for name in (CHANGE_SEQ, TIMESTAMP)))
        image = F.map_filter(row, lambda name, _: ~name.isin(*own))
        if setting(self.facts, chosen, BEFORE) == NONE:
            return image, F.lit(None).cast("map<string, string>")
        prefix = setting(self.facts, chosen, PREFIX)
        marked = F.map_filter(image, lambda name, _: name.startswith(prefix))
        before = F.transform_keys(marked, lambda name, _: F.substring(name, F.lit(len(prefix) + 1), F.length(name)))
        return F.map_filter(image, lambda name, _: ~name.startswith(prefix)), before

    def _position(self, row: Expr, load: Expr, chosen: EventFormat) -> Expr:
        sequence, none = setting(self.facts, chosen, CHANGE_SEQ), F.lit(LANDED_NUMBER).cast("decimal(35,0)")
        number = none if sequence == NONE else F.try_element_at(row, F.lit(sequence)).try_cast("decimal(35,0)")
        day, time, fraction = (F.regexp_extract("file", _CDC, group) for group in (1, 2, 3))
        written = F.concat(day, time, F.rpad(fraction, 9, "0")).try_cast("decimal(23,0)")
        return F.struct(
            (~load).cast("tinyint").alias("streamed"),
            F.when(load, none).otherwise(number).alias("change_seq"),
            F.when(load, F.lit(LANDED_NUMBER).cast("decimal(23,0)")).otherwise(written).alias("file_time"),
            F.col("line").cast("bigint").alias("row"),
        )


def aws_dms_csv() -> Format:
    """The format `aws-dms-csv`."""
    return Dms(facts=_facts("aws-dms-csv", Container.CSV))


def aws_dms_parquet() -> Format:
    """The format `aws-dms-parquet`."""
    return Dms(facts=_facts("aws-dms-parquet", Container.PARQUET))
