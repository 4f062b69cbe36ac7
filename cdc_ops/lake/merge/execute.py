"""Runs the one statement of an operation, in a session of its own that carries transaction id and commit record."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import MergePlan
from cdc_ops.core.operation.merging.statement import (
    KEYS_OF_A_GROUP,
    MOST_LITERALS,
    Statement,
    StoredTable,
    can_use_literals,
    choose_statement,
    key_condition,
)
from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.core.schema.value_policies import NOTHING_NULLIFIED, NullifiedValues
from cdc_ops.core.text import quoted
from cdc_ops.lake.data_files.checked_write import COUNTED, CheckedWrite, SeenVersion
from cdc_ops.lake.data_files.commit import can_commit, commit_files, why_not_plain
from cdc_ops.lake.data_files.key_search import NotSearchedError
from cdc_ops.lake.data_files.task_files import NotWrittenError, TaskFiles
from cdc_ops.lake.data_files.writer import remove_data_files
from cdc_ops.lake.log.delta_log import DeltaLog, LogVersion
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.merge.replace_by_tasks import replace_by_tasks, replacement_of
from cdc_ops.lake.merge.sql import inserted_rows, merge_statement, replace_condition, versions_statement
from cdc_ops.lake.spark.conf import USER_METADATA
from cdc_ops.lake.spark.session import idempotent_write, materialized, private_session, shared_view
from cdc_ops.lake.sql_text import path_name
from cdc_ops.lake.staging.null_counts import mark_names, observe_marks

_LAST_COMMIT: Final = "spark.databricks.delta.lastCommitVersionInSession"
_DELTA: Final = "spark.databricks.delta"
_COMPUTED: Final = {
    f"{_DELTA}.merge.materializeSource": "none",
    f"{_DELTA}.merge.failSourceCachedAfterMaterialization": "false",
    f"{_DELTA}.insertReplaceOnOrUsing.materializeSource": "none",
}
"""A source that cdc-ops stores, computed from data that does not change: a second computation would give the same rows."""
_FILTER: Final = "spark.sql.optimizer.runtime.bloomFilter"
_LOOKED_UP: Final = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
    f"{_FILTER}.enabled": "true",
    f"{_FILTER}.applicationSideScanSizeThreshold": "1b",
}
"""What makes Spark filter the table's keys by a bloom filter of the batch's, before it shuffles them, in each of a MERGE's joins.

Spark makes none where it expects to broadcast: hence the first. A join is broadcast all the same once the small side is known (second).
"""
_PUSHED: Final = {
    "spark.sql.parquet.pushdown.inFilterThreshold": str(KEYS_OF_A_GROUP),
    f"{_DELTA}.replaceWhere.dataColumns.enabled": "true",
    f"{_DELTA}.replaceWhere.constraintCheck.enabled": "true",
}
"""Parquet gets each group of keys as they are, and reads the pages that may have one; of a longer list it would get the two ends.

Delta refuses a row to be inserted whose key is not among them.
"""
_AS_READ: Final = {f"{_DELTA}.merge.repartitionBeforeWrite.enabled": "false"}
"""MERGE puts the rows of a partition into one task by the partition's name, which it does not quote: a dot in it would be a field."""
_BITS_OF_A_KEY: Final = 24
"""At so many one key in 100,000 passes the filter that is not in the batch."""
_ROWS_OF_A_FILE: Final = 50_000
"""Rows of a kept batch that one task writes: fewer are not worth another file, more keep cores waiting."""
_HERE: Final = "__cdc_here"
"""A column that is 1 in each row of a batch. Spark makes a bloom filter only of what a condition has thinned out."""
_TABLE: Final = "__cdc_table"
_SOURCE: Final = "__cdc_source"
"""Aliases of a REPLACE: to Delta a column with the name of one would be it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What a statement did.

    Args:
        version: That it committed, None if it was skipped because the table has its number already.
        nulled: The values that became NULL by it.
        not_by_tasks: Why tasks, which were to write the rows, could not, so that Spark read them once more; "" if nothing was so.
    """

    version: int | None = None
    nulled: NullifiedValues = NOTHING_NULLIFIED
    not_by_tasks: str = ""


def execute(spark: SparkSession, operation: Operation, batch: Batch, record: str) -> Executed:
    """Runs the statement of a batch.

    Args:
        spark: The session of the batch's rows.
        operation: The frozen operation, whose table exists.
        batch: The batch, prepared.
        record: The commit record, as the text that the commit carries.
    """
    now = DeltaLog(operation.target.path).now() if batch.plan.mode is ApplyMode.MERGE else None
    stored = _stored_table(now) if now else None
    known = batch.manifest.landed.rows if batch.manifest else None
    literals = stored is not None and known is not None and can_use_literals(batch.plan, stored, known)
    tasks = replacement_of(batch, now, literals=literals) if now else None
    statement, why = _statement(batch, stored, appends=can_commit(spark), by_tasks=tasks is not None), ""
    try:
        if files := appendable_files(operation, batch):
            version = append_files(spark, operation, files, record)
            return Executed(version=version, nulled=NullifiedValues(counted=version is not None or not mark_names(batch.rows)))
        if tasks and statement is Statement.REPLACE:
            return Executed(version=replace_by_tasks(spark, operation, tasks, record), nulled=NullifiedValues())
    except (NotWrittenError, NotSearchedError) as error:  # nothing of them is in the table
        why = str(error)
        statement = _statement(batch, stored, appends=can_commit(spark), by_tasks=False)
    if now and statement is Statement.INSERT:
        done = _insert(spark, operation, batch, record, now) or execute(spark, operation, batch, record)  # looks what the table is now
        return replace(done, not_by_tasks=why) if why else done
    return replace(_execute_by_spark(spark, operation, batch, record, stored, statement), not_by_tasks=why)


def _statement(batch: Batch, stored: StoredTable | None, *, appends: bool, by_tasks: bool) -> Statement:
    if stored is None:
        return Statement.MERGE
    return choose_statement(
        batch.plan,
        stored,
        one_row_per_key=batch.latest is not None,
        rows=batch.manifest.landed.rows if batch.manifest else None,
        appends=appends and _counts_appended(batch),
        by_tasks=by_tasks,
    )[0]


def _counts_appended(batch: Batch) -> bool:
    """True if the rows that an append writes are counted as those of a MERGE would be: which rows were read, it does not tell."""
    return batch.check is None and (batch.read_rows is not None or not batch.plan.deleted_flag)


def _insert(spark: SparkSession, operation: Operation, batch: Batch, record: str, now: LogVersion) -> Executed | None:
    """Appends the rows that a MERGE would insert to a table that has none; None if it has been changed meanwhile."""
    application = app_id(operation.pipeline, operation.table)
    if now.state.transactions.get(application, -1) >= operation.op_seq:
        return Executed(nulled=NullifiedValues(counted=not mark_names(batch.rows)))
    values, wanted = inserted_rows(batch.plan)
    kinds = {name.lower(): kind for name, kind in now.state.columns()}
    columns = [F.expr(value).cast(kinds[name.lower()]).alias(name) for name, value in values.items()]
    rows = batch.rows.alias("s").where(wanted).select(*columns)
    conf = {**idempotent_write(application, operation.op_seq), USER_METADATA: record, **COUNTED}
    with shared_view(rows) as view, private_session(spark, conf) as session:
        write = CheckedWrite(
            rows=session.table(view),
            folder=operation.target.path,
            overwrites=False,
            partition_by=None,
            check=lambda _: None,
            at=SeenVersion(version=now.version, application=application),
        )
        if not write.run():
            return None
        return Executed(version=int(str(session.conf.get(_LAST_COMMIT))))


def _execute_by_spark(
    spark: SparkSession, operation: Operation, batch: Batch, record: str, stored: StoredTable | None, statement: Statement
) -> Executed:
    """Runs the statement of a batch, whose rows Spark reads and writes."""
    plan, rows = batch.plan, batch.rows
    names = (*plan.batch_columns, *(() if plan.deleted_flag or plan.versions else mark_names(rows)))
    rows = rows.select(*(quoted(name) for name in names))
    conf = {**idempotent_write(app_id(operation.pipeline, operation.table), operation.op_seq), USER_METADATA: record}
    conf |= COUNTED if batch.check else {}
    conf |= _AS_READ if stored and any("." in name for name in stored.partition_by) else {}
    nulled: Callable[[], NullifiedValues] = NullifiedValues
    with (
        _source(rows, plan, statement) as (source, settings),
        shared_view(source) as view,
        private_session(spark, {**conf, **settings}) as session,
    ):
        if stored and statement is Statement.REPLACE:
            _replace(session, operation, batch, view, stored)
        elif plan.mode is ApplyMode.MERGE:
            text = versions_statement if plan.versions else merge_statement
            session.sql(text(path_name(operation.target.path), view, plan)).collect()
        else:
            written, nulled = observe_marks(session.table(view), operation.source.schema)
            _write(operation, batch, written)
        committed = session.conf.get(_LAST_COMMIT, None)
        if committed is None:  # skipped: nobody counted
            return Executed(nulled=NullifiedValues(counted=not mark_names(rows)))
        return Executed(version=int(committed), nulled=nulled())


def _write(operation: Operation, batch: Batch, rows: DataFrame) -> None:
    """Appends rows, or overwrites the table with them; what has to be checked is checked before the commit, where that can be seen."""
    plan, folder, session = batch.plan, operation.target.path, rows.sparkSession
    # The writer says what a replaced table is partitioned by.
    partition_by = operation.target.partition_by if operation.apply.replaces_schema else None
    if batch.check and can_commit(session):
        overwrites = plan.mode is ApplyMode.OVERWRITE
        CheckedWrite(rows=rows, folder=folder, overwrites=overwrites, partition_by=partition_by, check=batch.check).run()
        return
    writer = rows.write.format("delta").mode(plan.mode.value)
    if partition_by is not None:
        writer = writer.partitionBy(*partition_by)
    writer.option("overwriteSchema", str(partition_by is not None).lower()).save(folder)


def appendable_files(operation: Operation, batch: Batch) -> TaskFiles | None:
    """Returns how tasks write a batch that is as it was read, is only added, and whose table asks no more of a data file; else None."""
    files, plan = batch.files, batch.plan
    if files is None or files.rows is not batch.rows or plan.mode is not ApplyMode.APPEND or plan.batch_columns != files.columns:
        return None
    log = DeltaLog(operation.target.path)
    state = log.state(log.newest() or 0)
    return files if can_commit(batch.rows.sparkSession) and not why_not_plain(state) else None


def append_files(spark: SparkSession, operation: Operation, files: TaskFiles, record: str) -> int | None:
    """Has tasks write the rows of a batch, and commits their files."""
    found = files.write()
    version = commit_files(spark, operation, found, record)
    if version is None:
        remove_data_files(files.folder, [file.name for file in found])
    return version


@contextmanager
def _source(rows: DataFrame, plan: MergePlan, statement: Statement) -> Iterator[tuple[DataFrame, dict[str, str]]]:
    """Yields the rows as the statement reads them, and the settings that it runs with; what is only written is not kept."""
    if plan.mode is not ApplyMode.MERGE:
        yield rows, {}
    elif statement is Statement.REPLACE:
        with materialized(rows) as (kept, count):
            yield kept.coalesce(-(-count // _ROWS_OF_A_FILE) or 1), {**_COMPUTED, **COUNTED, **_PUSHED}
    else:  # in the parts that it has: behind a change of them Spark makes no bloom filter
        with materialized(rows.withColumn(_HERE, F.lit(1))) as (kept, count):
            yield kept.where(F.col(_HERE) == 1), {**_COMPUTED, **_LOOKED_UP, **_filter_size(count)}


def _filter_size(rows: int) -> dict[str, str]:
    """Returns the size of the bloom filter of a batch: without it Spark's is made for a million keys, and does not fit a core's cache."""
    keys = max(rows, 1_000)
    return {f"{_FILTER}.expectedNumItems": str(keys), f"{_FILTER}.numBits": str(keys * _BITS_OF_A_KEY)}


def _replace(session: SparkSession, operation: Operation, batch: Batch, view: str, stored: StoredTable) -> None:
    """Deletes the rows with a key of the batch and inserts the batch's rows, in one commit."""
    kinds = {name.lower(): kind for name, kind in stored.columns}
    # As a MERGE does it; a column of the table may be wider than the source's.
    columns = [F.col(quoted(name)).cast(kinds[name.lower()]).alias(name) for name in batch.plan.columns]
    source = session.table(view).select(*columns)
    condition = _keys_as_literals(source, batch.plan, stored)
    writer = source.alias(_SOURCE).write.format("delta").mode("overwrite").option("targetAlias", _TABLE)
    if condition:
        writer.option("replaceWhere", condition).save(operation.target.path)
    else:
        writer.option("replaceOn", replace_condition(_TABLE, _SOURCE, batch.plan)).save(operation.target.path)


def _keys_as_literals(source: DataFrame, plan: MergePlan, stored: StoredTable) -> str:
    """Returns the condition of the rows to be replaced by literals, "" if they are found by a join. The batch is kept: asking is cheap."""
    if not can_use_literals(plan, stored, 1):
        return ""
    [key] = plan.keys
    found = [row[0] for row in source.select(quoted(key)).limit(MOST_LITERALS + 1).collect()]
    if None in found or not can_use_literals(plan, stored, len(found)):
        return ""
    kind = next(kind for name, kind in stored.columns if name.lower() == key.lower())
    return key_condition(f"{_TABLE}.{quoted(key)}", kind, found)


def _stored_table(now: LogVersion) -> StoredTable:
    def is_on(name: str) -> bool:
        return now.state.property(name).lower() == "true"

    return StoredTable(
        columns=now.state.columns(),
        deletion_vectors=is_on("delta.enableDeletionVectors"),
        change_feed=is_on("delta.enableChangeDataFeed"),
        row_tracking=is_on("delta.enableRowTracking"),
        partition_by=now.state.partition_by(),
        files=now.size[0] if now.size else None,
    )
