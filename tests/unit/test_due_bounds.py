"""A table whose log may have wrong bounds of decimals is due for maintenance at once, and only until somebody has looked."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_ops.core.maintenance import MaintenancePolicy, TableStats, Upkeep
from cdc_ops.core.operation.protocol.ledger_and_lake import LedgerStatus
from cdc_ops.core.operation.protocol.table_state import Phase
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.tables import TableName
from cdc_ops.lake.log.bounds import EXACT_BOUNDS, corrected_entries, has_exact_bounds, uncertain_files
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.steps import maintain as module
from cdc_ops.steps.maintain import due_maintenance
from cdc_ops.steps.runs import idle_search

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATS = TableStats(delta_version=0, files=1, size_bytes=1, upkeep=Upkeep(vacuumed_at=NOW))


def table(path: Path, kind: str, **properties: str) -> str:
    fields = [{"name": "k", "type": kind, "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = {"id": "x", "schemaString": schema, "partitionColumns": [], "configuration": properties, "format": {"provider": "parquet"}}
    (path / "_delta_log").mkdir()
    (path / "_delta_log" / f"{0:020d}.json").write_text(json.dumps({"metaData": metadata}) + "\n")
    return str(path)


def due(path: str, monkeypatch: pytest.MonkeyPatch, stats: TableStats = STATS, policy: MaintenancePolicy | None = None) -> list[str]:
    monkeypatch.setattr(module, "event_history", lambda *_: None)
    store = SimpleNamespace(now=lambda: NOW, stats=lambda *_: stats, table_state=lambda *_: SimpleNamespace(generation=1))
    settings = SimpleNamespace(storage=SimpleNamespace(maintenance=policy or MaintenancePolicy()))
    config = SimpleNamespace(pipeline="shop", table=TableName(schema="shop", name="orders"), path=path, settings=settings)
    context = SimpleNamespace(store=store, pipeline=SimpleNamespace(name="shop"))
    return [
        reason for task in due_maintenance(cast(Any, context), (cast(Any, config),)) for reason in task.plan.reasons if task.plan.bounds
    ]


@pytest.mark.parametrize(
    ("kind", "exact"),
    [
        ("decimal(38,18)", False),
        ("decimal(16,1)", False),
        ("decimal(15,4)", True),
        ("decimal(38,0)", True),
        ("double", True),
        ("long", True),
    ],
)
def test_decimals_of_more_than_15_digits_may_have_been_written_wrong(tmp_path: Path, kind: str, exact: bool) -> None:
    assert has_exact_bounds(DeltaLog(table(tmp_path, kind)).now().state) is exact


def test_upkeep_is_due_until_somebody_has_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, "decimal(38,18)")
    assert due(path, monkeypatch) == ["an earlier version may have written wrong bounds of decimals"]
    assert not due(path, monkeypatch, replace(STATS, exact_bounds=True))
    assert not due(path, monkeypatch, policy=MaintenancePolicy(enabled=False))
    assert not due(str(tmp_path / "none"), monkeypatch)


def test_a_table_that_says_that_they_are_exact_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not due(table(tmp_path, "decimal(38,18)", **dict([EXACT_BOUNDS])), monkeypatch)


def test_of_files_with_deleted_rows_the_footer_tells_the_bounds_and_what_none_tells_is_left_out(tmp_path: Path) -> None:
    path = table(tmp_path, "decimal(38,18)")
    state = DeltaLog(path).now().state
    stats = '{"numRecords":3,"minValues":{"k":0.12,"n":1},"maxValues":{"k":5.0,"n":1},"nullCount":{"k":1},"tightBounds":false}'
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    values = pa.array([Decimal("0.123456789012345678"), None, Decimal(5)], pa.decimal128(38, 18))
    pq.write_table(pa.table({"k": values}), tmp_path / "a b.parquet", row_group_size=1)
    adds: list[dict[str, Any]] = [
        {"path": "plain.parquet", "stats": stats},
        {"path": "a%20b.parquet", "stats": stats, "deletionVector": vector, "dataChange": True},
        {"path": "a%20b.parquet", "stats": None, "deletionVector": vector},
        {"path": "gone.parquet", "stats": stats, "deletionVector": vector},
        {"path": "gone.parquet", "stats": None, "deletionVector": vector},
    ]
    files = uncertain_files(state, adds)
    assert files == adds[1:]
    told, untold, gone = corrected_entries(path, state, files)
    assert told["stats"] == stats.replace("0.12", "0.123456789012345678"), "5.0 is right, and stays as it is written"
    assert untold["stats"] == '{"numRecords":3,"tightBounds":false}'
    assert gone["stats"] == '{"numRecords":3,"minValues":{"n":1},"maxValues":{"n":1},"nullCount":{"k":1},"tightBounds":false}'
    assert [entry["dataChange"] for entry in (told, untold, gone)] == [False, False, False]
    assert corrected_entries(path, state, [told]) == []


@pytest.mark.parametrize(("exact", "enabled", "settled"), [(True, True, True), (False, True, False), (False, False, True)])
def test_a_table_without_news_is_not_settled_by_a_look_while_its_bounds_are_due(
    monkeypatch: pytest.MonkeyPatch, exact: bool, enabled: bool, settled: bool
) -> None:
    name = TableName(schema="shop", name="orders")
    seen = SimpleNamespace(state=SimpleNamespace(table=name, phase=Phase.READY, missing_since=None), last_run=None, stats=STATS)
    upkeep = SimpleNamespace(maintenance=MaintenancePolicy(enabled=enabled))
    settings = SimpleNamespace(storage=upkeep, method=Method.QUERY, load=SimpleNamespace(cursor="updated_at"))
    config = SimpleNamespace(pipeline="shop", table=name, path="/lake/orders", settings=settings)
    store = SimpleNamespace(now=lambda: NOW, free_tables=lambda *_: [seen])
    context = SimpleNamespace(store=store, pipeline=SimpleNamespace(name="shop"), shows=lambda *_: True)
    monkeypatch.setattr(idle_search, "read_head", lambda *_: SimpleNamespace(exact_bounds=exact))
    monkeypatch.setattr(idle_search, "compare", lambda *_: LedgerStatus.EQUAL)
    search = idle_search._IdleSearch(context=cast(Any, context), source=cast(Any, None), request=cast(Any, None))
    assert bool(search._candidates((cast(Any, config),))) is settled
