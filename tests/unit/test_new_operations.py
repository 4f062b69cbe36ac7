"""What every new operation starts from: the watermark where it is, and the table's retention as Delta's property."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from cdc_ops.core.maintenance import MaintenancePolicy
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.reads import KeysRead
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.steps.planning.request import TableRequest, new_operation
from cdc_ops.steps.table.source_table import SourceTable
from tests.lake_case import CURSOR, SCHEMA, TABLE, watermark

NOW = datetime(2026, 2, 1, tzinfo=UTC)
NOTHING = KeysRead(slices=())
FILES = "delta.deletedFileRetentionDuration"


class Silent:
    """A source that has nothing to say of keys from before."""

    config = SourceConfig(kind=SourceKind.MYSQL, connection="db")


def order(**settings: Any) -> TableRequest:
    target = TargetConfig(root="/lake", staging="/staging")
    pipeline = Pipeline(name="shop", source=Silent.config, target=target, tables=())
    config = TableConfig(pipeline="shop", table=TABLE, settings=TableSettings.of(**settings), path="/lake/shop/orders")
    source_table = SourceTable(pipeline=pipeline, config=config, schema=SCHEMA, keys=("id",), cursor=CURSOR, warnings=())
    state = TableState(pipeline="shop", table=TABLE, op_seq=7, progress=TableProgress(watermark=watermark(5)))
    asked = RunRequest(run_id="r", trigger="t", holder="h", kind=RunKind.RESYNC)
    return TableRequest(source=cast(Any, Silent()), run=asked, source_table=source_table, state=state, ledger=cast(Any, None), tables=tuple)


@pytest.mark.parametrize("kind", [kind for kind in OperationKind if not kind.is_live])
def test_a_plan_that_reads_again_leaves_the_watermark_of_finished_work(kind: OperationKind) -> None:
    operation = new_operation(order(), kind, NOW, NOTHING)
    assert (operation.op_seq, operation.before.watermark, operation.after.watermark) == (8, watermark(5), watermark(5))


@pytest.mark.parametrize(
    ("retention", "interval"),
    [
        (timedelta(days=7), "interval 168 hours"),
        (timedelta(days=30), "interval 720 hours"),
        (timedelta(hours=5, minutes=59), "interval 5 hours"),
        (timedelta(minutes=5), "interval 1 hours"),
    ],
)
def test_the_retention_of_the_policy_is_deltas_property_of_removed_files(retention: timedelta, interval: str) -> None:
    found = new_operation(order(maintenance=MaintenancePolicy(retention=retention)), OperationKind.INCREMENT, NOW, NOTHING)
    assert dict(found.target.properties)[FILES] == interval


def test_a_property_in_the_pipeline_file_comes_before_the_retention_of_the_policy() -> None:
    found = new_operation(order(properties=((FILES, "interval 2 days"),)), OperationKind.INCREMENT, NOW, NOTHING)
    assert dict(found.target.properties)[FILES] == "interval 2 days"
