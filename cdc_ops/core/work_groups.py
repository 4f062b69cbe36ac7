"""Which tables of a run share one Spark application. Pure.

The tables of an application are committed in the ledger when all of them are done. A table that takes long would hold the others' commits,
so it gets an application of its own, behind the others; what starting that costs is little beside its work.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.tables import TableName

LONG_SECONDS: Final = 300.0
"""Work on one table from which on it has an application of its own."""


def work_groups(tables: Sequence[TableConfig], per_job: int, seconds: Mapping[TableName, float]) -> tuple[tuple[TableConfig, ...], ...]:
    """Cuts tables into the groups that share one Spark application.

    Args:
        tables: The tables of a run.
        per_job: Largest number of tables of a group (`tables_per_job`).
        seconds: What tables are expected to take, as far as earlier runs tell.

    Returns:
        The groups, those of the long tables last, the longest at the end; each table is in one of them.
    """
    long = sorted((one for one in tables if seconds.get(one.table, 0.0) >= LONG_SECONDS), key=lambda one: seconds[one.table])
    if not long:
        return _cut(tables, per_job)
    alone = {one.table for one in long}
    return (*_cut([one for one in tables if one.table not in alone], per_job), *((one,) for one in long))


def _cut(tables: Sequence[TableConfig], per_job: int) -> tuple[tuple[TableConfig, ...], ...]:
    return tuple(tuple(tables[start : start + per_job]) for start in range(0, len(tables), per_job))
