"""Values of partition columns that a Delta table would not give back: the statement ends at the first one and names its row. Runs in Spark.

Delta keeps the value of a partition column as text, in its log and as the name of a folder. Not every value survives that, and what does
not is NULL or another value afterwards, without a word: as a key it is never found again, and each change of its row adds a row. Tried with
Spark 4.2 and Delta 4.4: whole numbers, decimals, floats (-0.0, NaN), dates, and times without a zone, of all years, come back as they were.
"""

import json
import re
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, TimestampType

from cdc_ops.core.operation.merging.merge_plan import GONE
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.text import quoted
from cdc_ops.errors import UnstorableValueError
from cdc_ops.lake.merge.batch import Batch

_MARK: Final = "CDC_OPS_PARTITION:"
_FOUND: Final = re.compile(re.escape(_MARK) + r"([0-9A-F]+)")
_NULLS: Final = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that Spark writes as it writes NULL."""
_ESCAPED: Final = r"""[\x01-\x1F"#%'*/:=?\\\x7F{\[\]^]"""
"""Characters that take three bytes in the name of a folder."""
_LONGEST: Final = 255
_UNLIMITED: Final = frozenset(("s3", "s3a", "gs"))
"""Stores that have no folders, so that no part of a path has a limit of its own."""


def check_partition_values(operation: Operation, batch: Batch, partition_by: tuple[str, ...]) -> Batch:
    """Returns a batch whose rows fail at a value that their partition would change; it is the batch itself if nothing can be lost."""
    if not partition_by:
        return batch
    kinds = {field.name.lower(): (field.name, field.dataType) for field in batch.rows.schema.fields}
    checked = {}
    for name in partition_by:
        found, kind = kinds.get(name.lower(), ("", None))
        if isinstance(kind, StringType | TimestampType):
            lost = _lost_text(operation, found) if isinstance(kind, StringType) else _is_before_year_one(found)
            fails = F.raise_error(_facts(operation, batch, found)).cast(kind)
            checked[found] = F.when(~_only_deletes(batch) & lost, fails).otherwise(F.col(quoted(found)))
    return replace(batch, rows=batch.rows.withColumns(checked)) if checked else batch


def unstorable_partition(operation: Operation, failure: str) -> UnstorableValueError | None:
    """Returns the error that names column, value and key, if the text of a failure is that of such a row."""
    found = _FOUND.search(failure)
    if found is None:
        return None
    facts = json.loads(bytes.fromhex(found[1]).decode())
    key = ", ".join(f"{name} = {value}" for name, value in zip(facts["names"], facts["key"], strict=True))
    shown = facts["value"] if len(facts["value"]) <= 60 else facts["value"][:60] + "..."
    return UnstorableValueError(
        f"Column {facts['column']!r} of {operation.table} has the value {shown!r}, which no partition of a Delta table can hold,"
        f" in the row with {key or 'no known key'}.",
        why="Delta keeps the values of partition columns as text, as names of folders. There, an empty text and"
        " '__HIVE_DEFAULT_PARTITION__' become NULL, a zero byte and a name of more than 255 bytes cannot be written, and times before the"
        " year 1 change. As a key, such a value would never be found again.",
        data="Nothing of this batch was written; the watermark stays.",
        next=f"Remove {facts['column']!r} from 'partition_by' ('cluster_by' takes any text); if the table has rows, then:"
        f" cdc-ops resync --pipeline {operation.pipeline} --table {operation.table} --mode full. Or repair the row at the source.",
    )


def _lost_text(operation: Operation, name: str) -> Column:
    text = F.col(quoted(name))
    lost = text.isin(*_NULLS) | text.contains("\0")
    if urlsplit(operation.target.path).scheme in _UNLIMITED:
        return lost
    folder = F.octet_length(F.regexp_replace(text, _ESCAPED, "%00")) + len(name.encode()) + 1
    return lost | (folder > _LONGEST)


def _is_before_year_one(name: str) -> Column:
    return F.col(quoted(name)) < F.expr("TIMESTAMP '0001-01-01 00:00:00Z'")


def _only_deletes(batch: Batch) -> Column:
    """True for rows of a batch that are not written: they say what is to be deleted, of a table with versions which version."""
    mark = GONE if batch.plan.versions else batch.plan.deleted_flag
    return F.coalesce(F.col(quoted(mark)), F.lit(False)) if mark in batch.rows.columns else F.lit(False)


def _facts(operation: Operation, batch: Batch, column: str) -> Column:
    present = {name.lower() for name in batch.rows.columns}
    keys = operation.source_keys if all(key.lower() in present for key in operation.source_keys) else operation.apply.keys
    facts = F.struct(
        F.lit(column).alias("column"),
        F.col(quoted(column)).cast("string").alias("value"),
        F.array(*map(F.lit, keys)).cast("array<string>").alias("names"),
        F.array(*(F.col(quoted(key)).cast("string") for key in keys)).cast("array<string>").alias("key"),
    )
    return F.concat(F.lit(_MARK), F.hex(F.to_json(facts, {"ignoreNullFields": "false"})))
