"""The rows of a table that its source has, for those who read it: without old versions, without deleted rows. Runs in Spark, reads only."""

from typing import TYPE_CHECKING

from cdc_ops.core.stored_as import END, OWN_COLUMNS
from cdc_ops.core.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.lake.deltalog import DeltaLog
from cdc_ops.lake.living import LakeRows
from cdc_ops.lake.log import OWNER_PIPELINE, OWNER_TABLE, read_head

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def current(spark: "SparkSession", table: str) -> "DataFrame":
    """Returns the rows of a table as its source has them, or had them when it was last read, in the columns of the source.

    Of a table that keeps versions these are the ones that have not ended, of one with soft deletes the rows that are not marked.

    Args:
        spark: A session with Delta.
        table: Path or URI of the Delta table.

    Raises:
        RequestError: there is no Delta table of a pipeline.
    """
    log = DeltaLog(table)
    version = log.newest()
    state = None if version is None else log.state(version)
    if state is None or not state.property(OWNER_TABLE):
        raise RequestError(
            f"There is no Delta table of a pipeline at {table}.",
            data="Nothing was read.",
            next="Name the path of a table, as 'path' in the pipeline file, or below 'root' of its target, says.",
        )
    head = read_head(table, state.property(OWNER_PIPELINE), TableName.parse(state.property(OWNER_TABLE)))
    columns = {name.lower() for name, _ in head.columns} if head else set()
    marker = head.record.deleted_column if head and head.record else ""
    rows = LakeRows(path=table, deleted_column=marker, keeps_versions=END.lower() in columns).read(spark)
    return rows.drop(*OWN_COLUMNS, *([marker] if marker else []))
