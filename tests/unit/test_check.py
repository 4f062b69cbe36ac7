"""`cdc-ops check` without any server: each thing is tried, whatever else fails, and nothing of it stays behind."""

import json
import zipfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.findings import Verdict
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.pipeline.tables.dropped_tables import DroppedTables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import EnvironmentSetupError, LakeError, SourceAccessError, SourceError
from cdc_ops.lake.spark.jars import DEFAULT
from cdc_ops.lake.spark.probes import broken_jars, java_version, probe_folder
from cdc_ops.sources.access import SourceAccess
from cdc_ops.sources.base import Source
from cdc_ops.state.health import ledger_health
from cdc_ops.state.sql import open_store
from cdc_ops.steps.check import Surroundings, check_pipeline

PASSWORD = "s3cret-word"
GONE = TableName.parse("shop.orders")
PIPELINE = """
pipeline: shop
source: {{kind: mysql, connection: shop_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
tables:
  shop.orders: {{cursor: updated_at}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path / 'home' / 'ledger.db'}")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(tmp_path))
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", f"mysql://cdc:{PASSWORD}@127.0.0.1:1/shop")
    monkeypatch.delenv("CDC_OPS_JARS", raising=False)
    (tmp_path / "shop.yaml").write_text(PIPELINE.format(folder=tmp_path))
    return tmp_path


def check(*arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    result = CliRunner().invoke(app, ["check", "--json", *arguments])
    assert PASSWORD not in result.output
    found = json.loads(result.stdout)
    assert len(found) >= 7
    return result.exit_code, {one["what"]: one for one in found}


def test_a_source_that_does_not_answer_leaves_the_rest_to_be_checked_and_decides_the_exit_code(folder: Path) -> None:
    before = set(folder.rglob("*"))
    code, found = check("shop")
    assert code == found["source"]["code"] == 6
    verdicts = {what: one["verdict"] for what, one in found.items()}
    assert verdicts == {
        "ledger": "ok", "Java": "ok", "PySpark": "ok", "source": "failed", "jars": "warning", "target": "ok", "staging": "ok",
    }  # fmt: skip
    assert found["source"]["error"] == "SourceUnreachableError"
    assert set(folder.rglob("*")) == before


def test_people_get_a_table_with_what_to_do(folder: Path) -> None:
    result = CliRunner().invoke(app, ["check"])
    assert result.exit_code == 6
    text = " ".join(result.stdout.split())
    assert "Check of shop" in text
    assert "CDC_OPS_JARS" in text
    assert "5 ok, 1 warning, 1 failed" in text
    assert PASSWORD not in result.output


def test_a_wrong_variable_and_an_unwritable_target_are_told_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDC_OPS_CONN_SHOP_DB")
    (folder / "lake").write_text("a file, where the lake should be")
    code, found = check()
    assert code == 2
    assert (found["source"]["error"], found["target"]["error"]) == ("ConfigError", "LakeError")
    assert found["staging"]["verdict"] == "ok"


def test_a_folder_that_nobody_has_filled_is_filled_by_the_first_run_and_no_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OPS_JARS", str(folder / "data/jars"))
    told = check()[1]["jars"]
    assert (told["verdict"], "'cdc-ops run' fills it once, 31 MB" in told["seen"]) == ("warning", True)
    assert told["next"] == f"At once: python -m cdc_ops.lake.spark.jars {folder / 'data/jars'}"
    assert not (folder / "data").exists()


def test_jars_that_are_missing_or_cut_off_fail_the_check(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = folder / "jars"
    jars.mkdir()
    for one in DEFAULT:
        with zipfile.ZipFile(jars / one.file_name, "w") as jar:
            jar.writestr("x", "y")
    monkeypatch.setenv("CDC_OPS_JARS", str(jars))
    assert check()[1]["jars"]["verdict"] == "ok"
    whole = (jars / DEFAULT[0].file_name).read_bytes()
    (jars / DEFAULT[0].file_name).write_bytes(whole[: len(whole) // 2])
    (jars / DEFAULT[1].file_name).unlink()
    assert broken_jars(jars, DEFAULT) == (DEFAULT[0].file_name, DEFAULT[1].file_name)
    found = check()[1]["jars"]
    assert (found["verdict"], found["next"]) == ("failed", f"python -m cdc_ops.lake.spark.jars {jars}")


def test_a_probe_leaves_nothing_in_a_folder_and_no_folder_that_was_not_there(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    probe_folder(str(tmp_path / "kept"))
    probe_folder(f"{tmp_path}/made/for/it")
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]
    (tmp_path / "file").write_text("")
    with pytest.raises(LakeError, match="cannot write to"):
        probe_folder(str(tmp_path / "file" / "below"))


def test_java_tells_its_version_and_what_is_no_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, number = java_version()
    assert text.startswith(str(number))
    assert number >= 17
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho nothing like it\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match="does not print its version"):
        java_version()


def test_the_health_of_a_ledger_is_asked_without_making_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    assert ledger_health(url).version is None
    assert not (tmp_path / "ledger.db").exists()
    open_store(url).close()
    health = ledger_health(url)
    assert (health.current, health.version is None) == (True, False)


def test_a_password_in_what_a_server_says_does_not_get_into_a_finding(folder: Path) -> None:
    def refused(_: Pipeline) -> Source:
        raise SourceAccessError("refused", why=f"bad password '{PASSWORD}'", next=f"not {PASSWORD}")

    environ = {"CDC_OPS_CONN_SHOP_DB": f"mysql://cdc:{PASSWORD}@127.0.0.1:1/shop"}
    around = Surroundings(ledger=f"sqlite:///{folder / 'l.db'}", jars=None, connect=refused, code=lambda _: 3, environ=environ)
    first = next(check_pipeline(around, load_pipeline(folder / "shop.yaml")))
    assert (first.verdict, first.seen, first.next) == (Verdict.FAILED, "refused: bad password '***'", "not ***")


@pytest.mark.parametrize("entry", ["shop.orders", '"shop.*"'], ids=["name", "pattern"])
@pytest.mark.parametrize("policy", list(DroppedTables))
def test_a_table_that_was_copied_and_is_gone_is_named_by_its_policy(folder: Path, policy: DroppedTables, entry: str) -> None:
    file, ledger, kept = folder / "shop.yaml", f"sqlite:///{folder / 'l.db'}", TableName.parse("shop.kept")
    text = file.read_text().replace("  shop.orders: {cursor: updated_at}", f"  shop.kept: {{cursor: []}}\n  {entry}: {{cursor: []}}")
    file.write_text(f"{text}defaults: {{dropped_tables: {policy}}}\n")
    with closing(open_store(ledger)) as store:
        lease = store.acquire("shop", GONE, "test", ttl=timedelta(minutes=1), live=True)
        store.replace_state(lease, TableState(pipeline="shop", table=GONE, op_seq=1, committed_op_seq=1, operation_id="x"))
    source = Mock()
    source.access.return_value = SourceAccess(place="h:1", version="v", account="cdc", missing_grant="", replica="")
    source.now.side_effect = lambda: datetime.now(UTC)
    source.tables.return_value = (kept,)
    source.schema.side_effect = SourceError("not looked at")
    around = Surroundings(ledger=ledger, jars=None, connect=lambda _: source, code=lambda _: 3, environ={})
    found = [one for one in check_pipeline(around, load_pipeline(file)) if one.what == str(GONE)]
    wanted = {DroppedTables.ALERT: Verdict.WARNING, DroppedTables.FAIL: Verdict.FAILED, DroppedTables.IGNORE: Verdict.OK}
    assert [one.verdict for one in found] == [wanted[policy]]
    assert "no longer at the source" in found[0].seen  # and `what` names the table
    assert found[0].code == (3 if policy is DroppedTables.FAIL else 0)
    assert ("remove or exclude" in found[0].next) == (policy is not DroppedTables.IGNORE)


@pytest.mark.parametrize(("ahead", "verdict"), [(0, Verdict.OK), (60, Verdict.WARNING), (-60, Verdict.WARNING)])
def test_clocks_that_are_apart_are_a_warning_that_says_by_how_much(folder: Path, ahead: int, verdict: Verdict) -> None:
    source = Mock()
    source.access.return_value = SourceAccess(place="h:1", version="v", account="cdc", missing_grant="", replica="")
    source.now.side_effect = lambda: datetime.now(UTC) + timedelta(seconds=ahead)
    source.tables.side_effect = SourceError("no tables")
    around = Surroundings(ledger=f"sqlite:///{folder / 'l.db'}", jars=None, connect=lambda _: source, code=lambda _: 3, environ={})
    found = {one.what: one for one in check_pipeline(around, load_pipeline(folder / "shop.yaml"))}
    assert found["clock"].verdict is verdict
    if ahead:
        assert ("ahead of" if ahead > 0 else "behind") in found["clock"].seen
    assert (found["tables"].verdict, found["staging"].verdict) == (Verdict.FAILED, Verdict.OK)
    assert source.close.called


def test_a_lake_at_s3_as_others_write_it_is_a_warning_with_the_url_that_spark_knows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps without Spark find it there, so the probe succeeds; the run would fail."""
    monkeypatch.setattr("cdc_ops.steps.check.probe_folder", lambda path, options=None: None)
    text = (folder / "shop.yaml").read_text().replace(f"root: {folder}/lake", 'root: "s3://bucket/lake"')
    (folder / "shop.yaml").write_text(text)
    found = check()[1]
    assert (found["target"]["verdict"], found["target"]["next"]) == ("warning", "Write s3a://bucket/lake.")
    assert found["staging"]["verdict"] == "ok"
