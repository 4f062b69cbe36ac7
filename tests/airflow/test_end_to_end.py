"""The whole way with nothing replaced: a real database, real Airflow runs, real Spark started by spark-submit."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_ops.airflow.lineage.events import done_lineage
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.operation.job import Step
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.lake.log.head import read_head
from tests.airflow.stage import LINES, SALES, Stage, asset_events, handed_on


def settings_of(log: Path) -> dict[str, str]:
    """The settings of an application, from Spark's log of its events."""
    with log.open(encoding="utf-8") as lines:
        return next(event["Spark Properties"] for line in lines if (event := json.loads(line))["Event"].endswith("EnvironmentUpdate"))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_snapshot_and_an_increment_arrive_in_delta(
    mariadb: MariaDBServer, jar_folder: Path, tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(server=mariadb, folder=tmp_path, patch=monkeypatch)
    stage.set_up(execution="fused")
    events = tmp_path / "events"
    events.mkdir()
    told = {"enabled": "true", "compress": "false", "rolling.enabled": "false", "dir": str(events)}
    chosen = {"spark.sql.session.timeZone": "Asia/Tokyo", **{f"spark.eventLog.{name}": value for name, value in told.items()}}
    file = tmp_path / "pipelines" / "shop.yaml"
    lines = "".join(f'    {name}: "{value}"\n' for name, value in chosen.items())
    history = "airflow: {spark_history_url: 'http://history.example.com', "
    file.write_text(file.read_text().replace("  conf:\n", f"  conf:\n{lines}").replace("airflow: {", history))
    monkeypatch.setenv("CDC_OPS_JARS", str(jar_folder))
    first = stage.run()
    assert (first.state, stage.statuses(first)) == ("success", {SALES: "committed", LINES: "committed"})
    links = {key: value for task, key, value in handed_on(first) if task == "sync" and key.startswith("_link_")}
    assert links["_link_TablesLink"] == "/cdc/ui"
    assert links["_link_SparkHistoryLink"].startswith("http://history.example.com/history/local-")
    before = stage.watermarks()
    applied = [settings_of(log) for log in events.iterdir() if not log.name.startswith(".")]
    assert {(one["spark.sql.shuffle.partitions"], one["spark.sql.session.timeZone"]) for one in applied} == {("2", "UTC")}

    before_second = set(events.iterdir())
    file.write_text(file.read_text().replace("execution: fused", "execution: separate"))
    stage.sql("UPDATE sales SET amount = 99 WHERE id = 7", "INSERT INTO sales (id, name, amount) VALUES (101, 'new', 1)")
    second = stage.run()
    assert (second.state, stage.statuses(second)) == ("success", {SALES: "committed", LINES: "idle"})
    options = [settings_of(log)["spark.driver.defaultJavaOptions"] for log in set(events.iterdir()) - before_second if log.suffix != ".crc"]
    assert options == ["-XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"] * 2, "extract and merge are small; the compiler was chosen"
    assert stage.watermarks()[SALES] > before[SALES]
    assert set(asset_events(second)) == {f"cdc/shop/{SALES}"}
    head = read_head(str(tmp_path / "lake" / "shop" / "sales"), "shop", TableName.parse(SALES))
    assert head is not None
    assert head.txn_version == 2
    read = [line.result.counts.read for line in stage.ledger.table_runs("shop", run_id=second.id) if str(line.table) == SALES]
    assert read == [2]
    [line] = [line for line in stage.ledger.table_runs("shop", run_id=second.id) if str(line.table) == SALES]
    phases = ["imports", "plan", "start of Spark", "source read", "landing", "merge", "statistics", "commit"]
    assert [item.phase.value for item in line.timing.phases] == phases
    assert all(item.seconds > 0 for item in line.timing.phases)

    instance: Any = SimpleNamespace(dag_id="cdc_shop", run_id=second.id, map_index=0, task_id="tables.merge")
    lineage = done_lineage(load_pipeline(file), Step.MERGE, instance)
    assert lineage is not None
    [output] = lineage.outputs
    assert [(field.name, field.type) for field in output.facets["schema"].fields] == list(head.columns)
    assert list(output.facets["columnLineage"].fields) == [name for name, _ in head.columns]
    assert output.facets["version"].datasetVersion == str(head.record_version)
    assert output.outputFacets["outputStatistics"].rowCount == 2
