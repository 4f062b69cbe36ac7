"""Which jobs are small: only what is known to be."""

from dataclasses import replace

import pytest

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.maintenance import MaintenancePlan, TableStats
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.core.operation.job_size import SMALL_ROWS, SMALL_TABLES, SMALL_UPKEEP, is_small, is_small_maintenance
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.reads import ChunkRead, WindowRead
from cdc_ops.core.schema.tables import TableName
from tests.state_values import ORDERS, make_operation

OTHER = TableName(schema="shop", name="other")


def stats(size: int) -> TableStats:
    return TableStats(delta_version=1, files=1, size_bytes=size)


def increment(rows: int, table: TableName = ORDERS) -> Operation:
    operation = make_operation(1, table=table)
    assert isinstance(operation.read, WindowRead)
    return replace(operation, read=replace(operation.read, expected_rows=rows))


def load(rows: int) -> Operation:
    operation = make_operation(1, OperationKind.SNAPSHOT_CHUNK)
    return replace(operation, apply=replace(operation.apply, mode=ApplyMode.OVERWRITE), read=ChunkRead(slices=(), expected_rows=rows))


def test_a_few_rows_into_a_table_of_moderate_size_are_a_small_job() -> None:
    assert is_small([increment(SMALL_ROWS)], {ORDERS: stats(SMALL_TABLES)})


@pytest.mark.parametrize("size", [None, stats(SMALL_TABLES + 1)])
def test_a_merge_into_a_large_or_an_unknown_table_is_none(size: TableStats | None) -> None:
    assert not is_small([increment(1)], {ORDERS: size})


def test_rows_and_tables_of_a_job_are_added_up() -> None:
    both = {ORDERS: stats(1), OTHER: stats(1)}
    assert is_small([increment(SMALL_ROWS), increment(0, OTHER)], both)
    assert not is_small([increment(SMALL_ROWS), increment(1, OTHER)], both)
    assert not is_small([increment(1), increment(1, OTHER)], {ORDERS: stats(1), OTHER: stats(SMALL_TABLES)})


def test_a_first_load_is_as_large_as_the_source_says_and_large_if_it_does_not_say() -> None:
    assert [is_small([load(rows)], {}) for rows in (1, SMALL_ROWS, SMALL_ROWS + 1, 0)] == [True, True, False, False]


def test_upkeep_is_as_large_as_its_tables() -> None:
    def task(size: int) -> MaintenanceTask:
        return MaintenanceTask(table=ORDERS, path="/lake/orders", plan=MaintenancePlan(optimize=True), stats=stats(size))

    assert is_small_maintenance([task(SMALL_UPKEEP)])
    assert not is_small_maintenance([task(SMALL_UPKEEP), task(1)])
