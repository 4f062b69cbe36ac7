"""Alerts in Airflow: the DAG that looks at the ledger while all others are paused, receivers of Airflow's own, and a run that fails."""

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from functools import partial
from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time.timeout import timeout

from cdc_ops.airflow.alerts.channels import find_channel
from cdc_ops.airflow.alerts.dag import ALERTS_DAG, problems_of
from cdc_ops.airflow.alerts.run_end import notify_after_run
from cdc_ops.airflow.dags import build_dags
from cdc_ops.alerts.host import Host
from cdc_ops.alerts.notify import Delivery, FindChannel, notify_receivers
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.pipeline.receivers import AlertKind, Receiver
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import ConfigError
from cdc_ops.state.base import StateStore
from cdc_ops.state.sql import SqlStateStore, open_reader, open_store
from cdc_ops.state.table_run import TableRunStatus
from tests.airflow.stage import FILE, LINES, SALES, Stage, close_log_pipes
from tests.alert_case import HOOK, Wrong, write_file
from tests.receivers import Hook, mail_server, webhook

NOTIFIER = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
CHAT = f"""\
  chat:
    notifier: {NOTIFIER}
    arguments:
      to: data@example.com
      from_email: cdc@example.com
      subject: "{{{{ alert.subject }}}}"
      html_content: "<pre>{{{{ alert.text | e }}}}</pre>"
      smtp_conn_id: mails
"""


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    with webhook() as served:
        monkeypatch.setenv("AIRFLOW_CONN_ON_CALL_HOOK", served.url)
        yield served


@pytest.fixture
def ledger(tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStateStore]:
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv("CDC_OPS_LEDGER", url)
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(tmp_path / "pipelines"))
    with open_store(url) as store:
        yield store


def look() -> str:
    """Runs the DAG that looks, and returns how the run ended."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    assert not bag.import_errors
    run = bag.dags[ALERTS_DAG].test()
    close_log_pipes()
    return str(run.state)


def content(mail: EmailMessage) -> str:
    body = mail.get_body(("plain", "html"))
    assert body is not None
    return str(body.get_content())


def pause(dag_id: str) -> None:
    """Makes Airflow know a DAG, and pauses it."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    with create_session() as session:
        session.merge(DagBundleModel(name="dags"))
        session.flush()
        sync_bag_to_db(bag, "dags", None, session=session)
        session.flush()
        model = session.get(DagModel, dag_id)
        model.is_paused = True
        assert not session.get(DagModel, ALERTS_DAG).is_paused, "the DAG that notices needs nobody who unpauses it"


def test_a_paused_dag_is_noticed_told_once_and_told_to_be_over(ledger: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    wrong = Wrong(ledger)
    wrong.make(AlertKind.LAG)
    pause("cdc_shop")
    assert [look(), look()] == ["success", "success"]
    [document] = hook.take()
    assert (document["change"], document["kind"]) == ("new", "lag")
    assert [alert["table"] for alert in document["alerts"]] == ["shop.lag"]
    assert "in Airflow see whether the DAG cdc_shop is paused" in document["text"]
    wrong.heal(AlertKind.LAG)
    assert look() == "success"
    assert [(document["change"], document["kind"]) for document in hook.take()] == [("over", "lag")]


def at_work(dag_id: str, run_id: str, state: str) -> None:
    """Lets Airflow have a run in a state."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType
    from sqlalchemy import select

    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if run is None:
            now = datetime.now(UTC)  # `dag.test()` of other tests would replace a run without a logical date
            run = DagRun(dag_id=dag_id, run_id=run_id, run_type=DagRunType.MANUAL, run_after=now, logical_date=now)
            session.add(run)
        run.state = state


def test_a_run_that_airflow_has_at_work_is_judged_when_it_has_ended(ledger: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    pause("cdc_shop")
    Wrong(ledger).run(TableName(schema="shop", name="orders"), TableRunStatus.FAILED, run_id="by_hand", message="The source is away.")
    at_work("cdc_shop", "by_hand", "running")
    assert (look(), hook.take()) == ("success", []), "a retry may heal it"
    at_work("cdc_shop", "by_hand", "failed")
    assert look() == "success"
    assert [document["subject"] for document in hook.take()] == ["shop: shop.orders failed"]


def test_a_question_that_waits_is_told_once_with_its_page_and_until_its_run_is_over(
    ledger: SqlStateStore, hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/prod/")
    write_file(tmp_path)
    pause("cdc_shop")
    wrong, orders = Wrong(ledger), TableName(schema="shop", name="orders")
    wrong.run(orders, TableRunStatus.FAILED, run_id="by:hand+1", message="900 deletes")
    wrong.ask(orders, "by:hand+1", users=("ann",))
    at_work("cdc_shop", "by:hand+1", "running")
    assert [look(), look()] == ["success", "success"]
    [document] = hook.take()
    assert (document["kind"], document["change"]) == ("approval", "new")
    [asked] = document["alerts"]
    assert "delete 900 of 1,000 rows?" in asked["what"]
    assert "https://airflow.example/prod/dags/cdc_shop/runs/by%3Ahand%2B1/required_actions" in asked["next"]
    assert asked["next"].endswith("May answer: ann.")
    at_work("cdc_shop", "by:hand+1", "failed")
    assert look() == "success"
    assert sorted((one["kind"], one["change"]) for one in hook.take()) == [("approval", "over"), ("failure", "new")]


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("cursor: updated_at", "cursr: updated_at", "shop.yaml:6:12: Unknown field 'cursr' in 'defaults'. Did you mean 'cursor'?"),
        ("  shop.*: {}", "  shop.*: {", "shop.yaml:9:1: Not valid YAML"),
        ("{kind: mysql, connection: shop_db}", "{kind: mysql, connection: shop_db", "Not valid YAML"),
    ],
)
def test_receivers_hear_of_a_pipeline_file_with_errors_once_and_that_it_is_right_again(
    right: str, wrong: str, says: str, ledger: SqlStateStore, hook: Hook, tmp_path: Path
) -> None:
    file = write_file(tmp_path) / "shop.yaml"
    text = file.read_text().lstrip()
    assert right in text
    file.write_text(text.replace(right, wrong))
    assert [look(), look()] == ["failed", "failed"], "nobody but the receivers of the file itself may be told"
    [document] = hook.take()
    assert (document["change"], document["kind"], document["subject"]) == ("new", "pipeline_file", "shop: the pipeline file has errors")
    [alert] = document["alerts"]
    assert says in alert["what"]
    assert "not updated" in alert["data"]
    assert "cdc-ops validate" in alert["next"]
    file.write_text(text)
    assert look() == "success"
    assert [(one["change"], one["subject"]) for one in hook.take()] == [("over", "shop: over: the pipeline file is right again")]


def test_a_file_whose_receivers_are_what_is_wrong_or_whose_name_another_one_has_tells_nobody(
    ledger: SqlStateStore, hook: Hook, tmp_path: Path
) -> None:
    folder = write_file(tmp_path)
    (folder / "copy.yaml").write_text((folder / "shop.yaml").read_text().replace("cursor:", "cursr:"))
    assert [look(), look()] == ["failed", "failed"]
    (folder / "copy.yaml").unlink()
    (folder / "shop.yaml").write_text((folder / "shop.yaml").read_text().replace("webhook:", "webhok:"))
    assert look() == "failed"
    assert hook.take() == []


def test_a_ledger_that_is_not_there_fails_the_task_an_hour_after_the_first_look_and_is_not_made(
    hook: Hook, tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path}/other.db")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(folder := write_file(tmp_path)))
    monkeypatch.setattr("cdc_ops.airflow.alerts.dag.FIRST_LOOKS", 10_000)
    assert look() == "success", "nothing has run yet: a new Airflow is not red"
    (folder / "other.yaml").write_text("pipeline: other\n")
    assert look() == "failed", "of a file that cannot be used it is told at once"
    (folder / "other.yaml").unlink()
    monkeypatch.setattr("cdc_ops.airflow.alerts.dag.FIRST_LOOKS", 0)
    assert look() == "failed"
    assert not (tmp_path / "other.db").exists()


def test_a_notifier_of_airflow_and_a_mail_are_sent_and_a_receiver_that_is_away_fails_the_task_but_keeps_none_from_being_told(
    ledger: SqlStateStore, hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mail = "  team: {mail: mails, to: [team@example.com], sender: cdc@example.com}"
    write_file(tmp_path, f"{HOOK}\n{CHAT}\n{mail}")
    Wrong(ledger).make(AlertKind.FAILURE)
    hook.status = 500
    with mail_server() as box:
        connection = '{{"conn_type": "smtp", "host": "127.0.0.1", "port": {}, "extra": {{"disable_ssl": "true", "disable_tls": "true"}}}}'
        monkeypatch.setenv("AIRFLOW_CONN_MAILS", connection.format(box.port))
        assert look() == "failed"
        assert {mail["To"] for mail in box.mails} == {"data@example.com", "team@example.com"}
        assert all("shop: shop.failure failed" in str(mail["Subject"]) for mail in box.mails)
        assert all("Correct the connection" in content(mail) for mail in box.mails)
        hook.status = 200
        assert look() == "success"
        assert len(box.mails) == 2
    assert len(hook.take()) == 1
    assert "SECRET" not in "".join(capfd.readouterr())


def test_a_pipeline_that_cannot_be_looked_at_keeps_no_other_from_it(
    ledger: SqlStateStore, hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_file(tmp_path)
    (folder / "crm.yaml").write_text((folder / "shop.yaml").read_text().replace("pipeline: shop", "pipeline: crm"))
    Wrong(ledger).make(AlertKind.FAILURE)

    def broken(pipeline: Pipeline, store: StateStore, find: FindChannel, host: Host) -> Delivery:
        if pipeline.name == "crm":
            raise LookupError("hunter2")
        return notify_receivers(pipeline, store, find, host)

    monkeypatch.setattr("cdc_ops.airflow.alerts.dag.notify_receivers", broken)
    assert list(problems_of(folder, ledger, lambda _: Host())) == ["pipeline crm: LookupError; the task's log has more."]
    assert len(hook.take()) == 1


@pytest.mark.parametrize(
    ("text", "url", "authorization"),
    [
        ("https://hooks.example/services/T/B/x", "https://hooks.example/services/T/B/x", ""),
        ("https://bot:p%40ss@hooks.example:8443/x?room=7", "https://hooks.example:8443/x?room=7", "Basic Ym90OnBAc3M="),
        ('{"conn_type": "http", "host": "https://hooks.example/services/T"}', "https://hooks.example/services/T", ""),
        ('{"conn_type": "http", "host": "hooks.example", "schema": "https", "port": 8443}', "https://hooks.example:8443", ""),
        ('{"conn_type": "slackwebhook", "password": "T/B/x"}', "https://hooks.slack.com/services/T/B/x", ""),
    ],
)
def test_a_webhook_is_any_connection_of_http_or_of_slack(text: str, url: str, authorization: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HOOK", text)
    channel = find_channel(Receiver(name="on_call", webhook="hook"))
    assert isinstance(channel, partial)
    assert (channel.args[1].url, channel.args[1].authorization) == (url, authorization)
    assert url not in repr(channel.args[1])


@pytest.mark.parametrize(
    ("receiver", "says"),
    [
        (Receiver(name="a", webhook="hook"), "has type 'mysql'"),
        (Receiver(name="a", mail="hook", to=("a@b",), sender="a@b"), "has type 'mysql'"),
        (Receiver(name="a", webhook="missing"), "Airflow has no connection 'missing'"),
        (Receiver(name="a", notifier="no.such.Module"), "cannot be made"),
        (Receiver(name="a", notifier=NOTIFIER, arguments=(("too", "a@b"),)), "cannot be made"),
        (Receiver(name="a", notifier="pathlib.Path"), "is no notifier of Airflow"),
    ],
)
def test_a_receiver_that_airflow_cannot_reach_is_an_error_that_says_why(
    receiver: Receiver, says: str, metadata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HOOK", "mysql://cdc:hunter2@db/shop")
    with pytest.raises(ConfigError) as caught:
        find_channel(receiver)
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_receiver_that_uses_up_the_time_of_the_task_fails_no_run_and_is_told_later(
    ledger: SqlStateStore, hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = load_pipeline(write_file(tmp_path) / "shop.yaml")
    Wrong(ledger).make(AlertKind.FAILURE)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AIRFLOW_CONN_ON_CALL_HOOK", f"http://127.0.0.1:{silent.getsockname()[1]}/x")
        with timeout(0.5):  # as Airflow limits a task
            notify_after_run(pipeline, ledger, Host())
    assert "were not told" in caplog.text
    assert ledger.notified_alerts("shop") == ()
    monkeypatch.setenv("AIRFLOW_CONN_ON_CALL_HOOK", hook.url)
    notify_after_run(pipeline, ledger, Host())
    assert len(hook.take()) == 1


def test_without_receivers_the_task_fails_while_something_is_wrong(ledger: SqlStateStore, tmp_path: Path) -> None:
    folder = write_file(tmp_path, "  {}")
    wrong = Wrong(ledger)
    wrong.make(AlertKind.LAG)
    assert look() == "failed"
    wrong.heal(AlertKind.LAG)
    assert look() == "success"
    (folder / "other.yaml").write_text("pipeline: other\n")
    assert look() == "failed", "a pipeline file that cannot be used has no tables that are behind"


def test_the_dag_is_there_only_where_somebody_is_told_or_a_table_has_a_limit(tmp_path: Path) -> None:
    found = {}
    for receivers, max_lag in (("  {}", "0s"), ("  {}", "1h"), (HOOK, "0s")):
        found[receivers, max_lag] = ALERTS_DAG in build_dags(write_file(tmp_path, receivers, max_lag=max_lag))
    assert list(found.values()) == [False, True, True]
    file = tmp_path / "pipelines" / "shop.yaml"
    file.write_text(file.read_text().replace("max_lag: 0s", "max_lag: soon"))
    assert ALERTS_DAG in build_dags(file.parent), "it is what says that the file cannot be used"


def test_each_folder_of_pipelines_can_have_a_dag_of_its_own_that_looks(tmp_path: Path) -> None:
    found: dict[str, DAG] = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        folder = write_file(tmp_path / name)
        file = (folder / "shop.yaml").rename(folder / f"{name}.yaml")
        file.write_text(file.read_text().replace("pipeline: shop", f"pipeline: {name}"))
        found |= build_dags(folder, alerts_dag_id=f"cdc-ops-alerts-{name}")
    assert sorted(found) == ["cdc-ops-alerts-one", "cdc-ops-alerts-two", "cdc_one", "cdc_two"]
    assert all(dag.dag_id == name for name, dag in found.items())


def test_a_run_that_fails_tells_at_its_end_and_the_one_that_heals_says_that_it_is_over(
    mariadb: MariaDBServer, hook: Hook, tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(server=mariadb, folder=tmp_path, patch=monkeypatch)
    stage.set_up()
    stage.use_stub()
    monkeypatch.setenv("CDC_OPS_JARS", "")
    text = FILE.format(folder=tmp_path, execution="separate", retries=0)
    (tmp_path / "pipelines" / "shop.yaml").write_text(f"{text}notify:\n{HOOK}\n")
    stage.plan({"merge": {SALES: "fatal"}})
    assert stage.run().state == "failed"
    [document] = hook.take()
    assert (document["kind"], [alert["table"] for alert in document["alerts"]]) == ("failure", [SALES])
    stage.plan({})
    hook.status = 500
    assert stage.run().state == "success", "a receiver that is away fails no run whose rows are committed"
    hook.status = 200
    stage.connection("SHOP_DB", conn_type="mysql", host="127.0.0.1", port=1, login="cdc", password="wrong", schema="shop")
    assert stage.run().state == "failed"
    over, failed = sorted(hook.take(), key=lambda one: one["change"], reverse=True)
    assert (over["change"], over["alerts"][0]["table"]) == ("over", SALES)
    assert (failed["change"], failed["alerts"][0]["table"]) == ("new", None)
    assert "the task 'discover' failed: " in failed["text"]
    assert "cannot reach the database server at 127.0.0.1:1" in failed["text"]
    found = open_reader(f"sqlite:///{tmp_path}/ledger.db").findings("shop")
    assert [one.subject.table for one in found if one.subject.kind is AlertKind.FAILURE] == [None]


def test_a_run_of_which_a_task_was_killed_tells_what_no_line_says(
    mariadb: MariaDBServer, hook: Hook, tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(server=mariadb, folder=tmp_path, patch=monkeypatch)
    stage.set_up()
    stage.use_stub()
    monkeypatch.setenv("CDC_OPS_JARS", "")
    file = tmp_path / "pipelines" / "shop.yaml"
    file.write_text(f"{file.read_text()}notify:\n{HOOK}\n")
    with monkeypatch.context() as patch:
        patch.setattr("cdc_ops.airflow.tasks.commit_group", None)
        killed = stage.run()
    assert (killed.state, killed.tasks["merge"], killed.tasks["commit"]) == ("failed", "success", "failed")
    assert stage.statuses(killed) == {SALES: "failed", LINES: "failed"}
    [document] = hook.take()
    assert (document["kind"], {alert["table"] for alert in document["alerts"]}) == ("failure", {SALES, LINES})
    assert "tables.commit_0" in document["text"]
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as store:
        for one in store.overview("shop"):
            assert one.lease is not None
            store.unlock(one.lease)  # the next run would wait until they expire
    stage.change()
    with monkeypatch.context() as patch:
        patch.setattr("cdc_ops.airflow.tasks.result_of", None)
        broken = stage.run()
    assert (broken.state, stage.statuses(broken)) == ("failed", {SALES: "committed", LINES: "committed"})
    failed, over = hook.take()
    assert (failed["change"], failed["alerts"][0]["table"], failed["subject"]) == ("new", None, "shop: a run failed")
    assert (over["change"], {alert["table"] for alert in over["alerts"]}) == ("over", {SALES, LINES})
    assert stage.run().state == "success"
    assert [document["subject"] for document in hook.take()] == ["shop: over: a run no longer failing"]
