"""Records that were set aside, as people see them: cdc-ops quarantine list and show."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app

PIPELINE = """\
pipeline: shop
source: {{kind: mysql, connection: shop_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
archive:
  url: {folder}/archive
  format: debezium-mysql
  bad_records: quarantine
  settings:
    skipped.operations: none
    converter.replace.null.with.default: "false"
    event.converting.failure.handling.mode: fail
tables:
  shop.orders: {{method: log}}
"""


def row(line: int, raw: bytes = b'{"op"') -> dict[str, object]:
    return {
        "pipeline": "shop",
        "table": "shop.orders",
        "operation_id": "o",
        "run_id": "manual:1",
        "op_seq": 3,
        "file": "t/partition=0/t+0+0000000000.json",
        "line": line,
        "position": None,
        "reason": "the record is not JSON of this format",
        "raw": raw,
        "set_aside_at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    }


@pytest.fixture
def pipelines(tmp_path: Path) -> list[str]:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.yaml").write_text(PIPELINE.format(folder=tmp_path))
    return ["--pipelines", str(tmp_path / "pipelines")]


def test_nothing_in_quarantine_is_said(pipelines: list[str]) -> None:
    result = CliRunner().invoke(app, ["quarantine", "list", *pipelines])
    assert (result.exit_code, result.stdout.strip()) == (0, "The quarantine holds no records.")


def test_each_record_is_listed_once_with_place_and_reason_and_shown_as_it_came(tmp_path: Path, pipelines: list[str]) -> None:
    folder = tmp_path / "lake" / "_cdc_quarantine" / "shop" / "shop" / "orders"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row(1), row(7, b"\xff{")]), folder / "a.parquet")
    pq.write_table(pa.Table.from_pylist([row(1)]), folder / "b.parquet")  # a try that died before its commit
    result = CliRunner().invoke(app, ["quarantine", "list", *pipelines])
    place = "shop  shop.orders  operation 3  t/partition=0/t+0+0000000000.json"
    assert result.stdout.splitlines() == [f"{place} line {line}: the record is not JSON of this format" for line in (2, 8)]
    shown = CliRunner().invoke(app, ["quarantine", "show", row(1)["file"], "-p", "shop", "--line", "8", *pipelines])  # type: ignore[list-item]
    assert shown.stdout.splitlines()[1] == r"\xff{"
    data = json.loads(CliRunner().invoke(app, ["quarantine", "list", "--json", *pipelines]).stdout)
    assert [one["line"] for one in data] == [2, 8]
    nothing = CliRunner().invoke(app, ["quarantine", "show", "other", "-p", "shop", *pipelines])
    assert nothing.exit_code == 2
