"""Alerts, from records in a real ledger to receivers on loopback: what is told, to whom, in which words, how often, and when it is over."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cdc_ops.alerts.addresses import webhook_address
from cdc_ops.alerts.channels import post_message
from cdc_ops.alerts.conditions import NEWS, read_conditions
from cdc_ops.alerts.due import Change, due
from cdc_ops.alerts.messages import IN_FULL, Message, messages_of
from cdc_ops.alerts.notify import notify_receivers
from cdc_ops.alerts.words import error_parts
from cdc_ops.cli import app
from cdc_ops.cli.commands.alerts import find_channel
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.pipeline.receivers import URGENT, AlertKind, Receiver
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import DeletesRefusedError
from cdc_ops.state.notices.alerts import Finding, Subject
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import TableRunStatus
from tests.alert_case import ALL, HOOK, OF_TABLES, REFUSED, TABLES, Wrong, write_file
from tests.receivers import Hook, mail_server, webhook

LASTING = [kind for kind in OF_TABLES if kind.lasts]
MAIL = "  team: {mail: mail_server, to: [data@example.com, lake@example.com], sender: cdc@example.com}"


@pytest.fixture(scope="module")
def server() -> Iterator[Hook]:
    with webhook() as hook:
        yield hook


@pytest.fixture
def hook(server: Hook, monkeypatch: pytest.MonkeyPatch) -> Hook:
    server.take()
    server.status = 200
    monkeypatch.setenv("CDC_OPS_CONN_ON_CALL_HOOK", server.url)
    return server


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStateStore]:
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv("CDC_OPS_LEDGER", url)
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(tmp_path / "pipelines"))
    with open_store(url) as opened:
        yield opened


def shop(folder: Path, receivers: str = HOOK, **settings: str) -> Pipeline:
    return load_pipeline(write_file(folder, receivers, **settings) / "shop.yaml")


def command(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["alerts", *arguments])


WORDS = {
    AlertKind.FAILURE: [
        "shop: shop.failure failed", "refuses the login of 'cdc'", "why:   Access denied", "next:  Correct the connection", "run:   run-1",
    ],
    AlertKind.LAG: [
        "shop: shop.lag behind max_lag", "3 h behind its source; its max_lag is 1 h", "DAG may be paused",
        "cdc-ops run --pipeline shop --table shop.lag",
    ],
    AlertKind.GAP: ["shop.gap waiting at a gap", "shop.gap-0", "complete up to the gap", "cdc-ops gap list --pipeline shop"],
    AlertKind.APPROVAL: [
        "shop: somebody has to decide about shop.approval", "delete 900 of 1,000 rows?", "More than the guard allows.",
        "May answer: everybody", "Required Actions", "it is refused",
    ],
    AlertKind.DELETES: [
        "deletes over the guard in shop.deletes", "would delete 900 of 1,000 rows", "data:  Nothing was written.", "--accept-deletes",
    ],
    AlertKind.VERIFICATION: [
        "found differences in shop.verification", "3 missing in the lake",
        "cdc-ops verify --pipeline shop --table shop.verification --repair",
    ],
    AlertKind.RUN_ALERT: ["alert about shop.run_alert", "held back for 2:05:00 by transaction 7", "cdc-ops status --pipeline shop"],
    AlertKind.CATALOG: ["shop.catalog not registered in the catalog", "has lake.catalog already", "another 'catalog_name'"],
    AlertKind.LATE_ROWS: ["late rows in shop.late_rows", "set lookback to 5m", "late rows are merged"],
    AlertKind.SCHEMA_CHANGE: ["columns changed in shop.schema_change", "column price added", "schema_changes"],
}  # fmt: skip


@pytest.mark.parametrize("kind", OF_TABLES)
def test_each_kind_reaches_a_webhook_and_says_what_where_what_of_the_data_and_what_next(
    kind: AlertKind, store: SqlStateStore, hook: Hook, tmp_path: Path
) -> None:
    write_file(tmp_path, f"  on_call: {{webhook: on_call_hook, events: {ALL}}}")
    Wrong(store).make(kind)
    assert command("--notify").exit_code == (5 if kind.lasts else 0)
    [document] = hook.take()
    assert (document["pipeline"], document["kind"], document["change"]) == ("shop", kind.value, "new")
    [alert] = document["alerts"]
    assert alert["table"] == str(TABLES[kind])
    assert alert["next"]
    assert all(part in document["text"] for part in WORDS[kind]), document["text"]
    assert "  data:  " in document["text"]
    assert document["text"].startswith(document["subject"])


@pytest.mark.parametrize("kind", LASTING)
def test_what_lasts_is_told_once_and_that_it_is_over_is_told_too(kind: AlertKind, store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    wrong = Wrong(store)
    wrong.make(kind)
    assert [command("--notify").exit_code for _ in range(3)] == [5, 5, 5]
    assert len(hook.take()) == 1, "the same condition is not told each time"
    wrong.heal(kind)
    assert [command("--notify").exit_code for _ in range(2)] == [0, 0]
    [document] = hook.take()
    assert (document["kind"], document["change"]) == (kind.value, "over")
    assert "over: " in document["subject"]
    assert [alert["table"] for alert in document["alerts"]] == [str(TABLES[kind])]
    wrong.make(kind)
    command("--notify")
    assert [document["change"] for document in hook.take()] == ["new"], "what comes back is new"


def test_unless_told_otherwise_a_receiver_hears_only_what_somebody_has_to_act_on(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    for kind in OF_TABLES:
        Wrong(store).make(kind)
    command("--notify")
    assert [document["kind"] for document in hook.take()] == [kind.value for kind in URGENT if kind in OF_TABLES]


def test_what_still_holds_is_told_again_after_the_time_that_the_receiver_sets(store: SqlStateStore, tmp_path: Path) -> None:
    pipeline = shop(tmp_path, HOOK.replace("repeat: 4h", f"repeat: 4h, events: {ALL}"))
    wrong = Wrong(store)
    for kind in OF_TABLES:
        wrong.make(kind)
    [receiver], now = pipeline.notify, store.now()
    conditions, remembered = read_conditions(store, pipeline), remember(pipeline, store)
    assert due(receiver, conditions, remembered, now + timedelta(hours=3)).still == ()
    again = due(receiver, conditions, remembered, now + timedelta(hours=5)).still
    repeated = {*LASTING} - {AlertKind.APPROVAL}
    assert {one.subject.kind for one in again} == repeated, "what happened in one run is told once, and so is a question"
    [first, *_] = messages_of("shop", due(receiver, conditions, remembered, now + timedelta(hours=5)))
    assert first.subject == "shop: still: shop.failure failed"
    assert due(replace(receiver, repeat=timedelta(0)), conditions, remembered, now + timedelta(days=900)).still == ()
    wrong.run(TABLES[AlertKind.LATE_ROWS], late_rows=5, advice="5 late rows")
    wrong.run(TABLES[AlertKind.SCHEMA_CHANGE], schema_changes=("column price added",))
    later = due(receiver, read_conditions(store, pipeline), remembered, now + timedelta(hours=5)).still
    assert {one.subject.kind for one in later} == {*repeated, AlertKind.LATE_ROWS}, "a frozen change is in every run"


def remember(pipeline: Pipeline, store: SqlStateStore) -> tuple:  # type: ignore[type-arg]
    """Tells everything to a receiver that takes it, and returns what it was told."""
    done = notify_receivers(pipeline, store, lambda _: lambda message: None)
    assert done.notified
    return store.notified_alerts("shop")


def test_news_that_are_old_are_neither_told_nor_remembered(store: SqlStateStore, tmp_path: Path) -> None:
    pipeline = shop(tmp_path, HOOK.replace("repeat: 4h", f"events: {ALL}"))
    Wrong(store).make(AlertKind.SCHEMA_CHANGE)
    remembered = remember(pipeline, store)
    [finding] = store.findings("shop")
    store.put_finding(replace(finding, found_at=finding.found_at - NEWS - timedelta(hours=1)))
    assert read_conditions(store, pipeline) == ()
    assert due(pipeline.notify[0], (), remembered, store.now()).forgotten == remembered
    assert notify_receivers(pipeline, store, find_channel).notified == ()
    assert store.notified_alerts("shop") == ()


def test_a_run_that_works_ends_no_alert_of_the_run_before(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    wrong = Wrong(store)
    table = wrong.make(AlertKind.FAILURE)
    command("--notify")
    wrong.run(table, TableRunStatus.PLANNED, finished_at=None)
    assert command("--notify").exit_code == 5
    assert [document["change"] for document in hook.take()] == ["new"]


def test_an_increment_ends_no_alert_of_refused_deletes(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    wrong = Wrong(store)
    table = wrong.make(AlertKind.DELETES)
    wrong.run(table)
    assert command("--notify").exit_code == 5
    assert [document["kind"] for document in hook.take()] == ["deletes"], "nobody has decided yet"


def test_a_receiver_that_was_away_is_told_when_it_is_back(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    Wrong(store).make(AlertKind.FAILURE)
    for status in (500, 404, 302):
        hook.status = status
        result = command("--notify")
        assert result.exit_code == 5
        assert f"answered {status}" in re.sub(r"\s+", " ", result.output)
        assert "T0SECRET" not in result.output
    assert store.notified_alerts("shop") == ()
    hook.status = 200
    assert command("--notify").exit_code == 5
    assert len(hook.take()) == 1


def test_one_receiver_that_is_away_keeps_no_other_from_being_told(
    store: SqlStateStore, hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_OPS_CONN_GONE", "http://127.0.0.1:9/services/T0SECRET")
    write_file(tmp_path, f"  first: {{webhook: gone}}\n{HOOK}\n  last: {{webhook: never_set}}")
    Wrong(store).make(AlertKind.FAILURE)
    result = command("--notify", "--json")
    assert len(hook.take()) == 1
    [document] = json.loads(result.output)
    assert [error["error"] for error in document["errors"]] == ["NotDeliveredError", "ConfigError"]
    assert "CDC_OPS_CONN_NEVER_SET" in document["errors"][1]["what"]
    assert "T0SECRET" not in result.output
    assert {one.receiver for one in store.notified_alerts("shop")} == {"on_call"}


def test_only_what_is_over_and_cannot_be_told_ends_with_try_again(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    wrong = Wrong(store)
    wrong.make(AlertKind.FAILURE)
    command("--notify")
    wrong.heal(AlertKind.FAILURE)
    hook.status = 503
    assert command("--notify").exit_code == 6
    hook.status = 200
    assert command("--notify").exit_code == 0
    assert [document["change"] for document in hook.take()] == ["new", "over"]


def test_a_receiver_that_is_not_in_the_file_any_more_is_forgotten(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    Wrong(store).make(AlertKind.FAILURE)
    command("--notify")
    assert len(store.notified_alerts("shop")) == 1
    write_file(tmp_path, HOOK.replace("on_call:", "others:"))
    command("--notify")
    assert [one.receiver for one in store.notified_alerts("shop")] == ["others"]


def test_without_notify_the_command_looks_and_tells_nobody(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    assert command().exit_code == 0
    assert "nothing is wrong" in command().output
    Wrong(store).make(AlertKind.LAG)
    result = command()
    assert result.exit_code == 5
    assert "shop.lag is 3 h behind its source" in re.sub(r"\s+", " ", result.output)
    assert hook.take() == []
    assert store.notified_alerts("shop") == ()


def test_in_slack_a_text_from_the_source_mentions_nobody(store: SqlStateStore, tmp_path: Path) -> None:
    pipeline = shop(tmp_path)
    Wrong(store).run(TABLES[AlertKind.FAILURE], TableRunStatus.FAILED, message="<!channel> a & b")
    told: list[Message] = []
    notify_receivers(pipeline, store, lambda _: told.append)
    [message] = told
    assert "<!channel> a & b" in message.payload()["text"]
    assert "&lt;!channel&gt; a &amp; b" in message.payload(escaped=True)["text"]
    assert webhook_address("hook", "https://hooks.slack.com/services/T").is_slack
    assert not webhook_address("hook", "https://chat.example/hooks.slack.com").is_slack


def test_the_text_of_an_error_is_read_back_as_its_parts() -> None:
    for error in (REFUSED, DeletesRefusedError("two\nlines", why="a: b\n  c", next="x"), DeletesRefusedError("next: none")):
        assert error_parts(str(error)) == {name: text for name, text in error.to_payload().items() if name != "error"}


def test_many_tables_with_the_same_wrong_are_one_message(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    wrong = Wrong(store)
    names = [f"t{number:02}" for number in range(40)]
    for name in names:
        wrong.run(TableName(schema="shop", name=name), TableRunStatus.FAILED, message="No space left.")
    command("--notify")
    [document] = hook.take()
    assert document["subject"] == "shop: 40 tables failed"
    assert len(document["alerts"]) == 40
    assert document["text"].count("No space left.") == IN_FULL
    assert "The same with shop.t05, shop.t06" in document["text"]
    assert "and 5 more" in document["text"]


def test_a_table_has_the_limit_of_the_file_as_it_is_now_and_one_that_was_never_complete_has_none(
    store: SqlStateStore, hook: Hook, tmp_path: Path
) -> None:
    wrong = Wrong(store)
    wrong.make(AlertKind.LAG)
    wrong.run(TableName(schema="shop", name="never"), TableRunStatus.IDLE)
    codes = []
    for max_lag in ("4h", "2h", "0s"):
        write_file(tmp_path, max_lag=max_lag)
        codes.append(command("--notify").exit_code)
    assert codes == [0, 5, 0]
    assert [(document["change"], document["kind"]) for document in hook.take()] == [("new", "lag"), ("over", "lag")]


def test_a_table_that_the_file_does_not_name_or_takes_out_is_nobody_s_matter(store: SqlStateStore, tmp_path: Path) -> None:
    pipeline = shop(tmp_path)
    wrong = Wrong(store)
    for kind in (AlertKind.LAG, AlertKind.VERIFICATION):
        wrong.make(kind)
    assert len(read_conditions(store, pipeline)) == 2
    [rule] = pipeline.tables
    for rules in ((replace(rule, pattern="shop.other"),), (rule, replace(rule, pattern="shop.*a*", exclude=True))):
        assert read_conditions(store, replace(pipeline, tables=rules)) == ()
    own = (rule, replace(rule, pattern="shop.*", exclude=True), replace(rule, pattern="shop.lag"))
    assert [condition.subject.kind for condition in read_conditions(store, replace(pipeline, tables=own))] == [AlertKind.LAG]


def test_a_run_that_came_to_no_table_is_told_until_the_command_line_comes_to_one(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path)
    wrong = Wrong(store)
    lag = wrong.make(AlertKind.VERIFICATION)
    subject = Subject(pipeline="shop", table=None, kind=AlertKind.FAILURE)
    store.put_finding(Finding(subject=subject, text="No table was read: the task 'discover' failed.", found_at=store.now(), run_id="r"))
    command("--notify")
    failed, _ = hook.take()
    assert failed["subject"] == "shop: a run failed"
    assert "cdc-ops check --pipeline shop" in failed["text"]
    wrong.run(lag, started_at=store.now() + timedelta(seconds=1), trigger="cli")
    command("--notify")
    assert [document["subject"] for document in hook.take()] == ["shop: over: a run no longer failing"]


def test_a_mail_has_the_first_line_as_its_subject_and_the_rest_as_plain_text(
    store: SqlStateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path, MAIL)
    Wrong(store).make(AlertKind.FAILURE)
    with mail_server() as box:
        monkeypatch.setenv("CDC_OPS_CONN_MAIL_SERVER", f"smtp://127.0.0.1:{box.port}")
        assert command("--notify").exit_code == 5
        assert command("--notify").exit_code == 5
    [mail] = box.mails
    assert mail["Subject"] == "[cdc-ops] shop: shop.failure failed"
    assert (mail["From"], mail["To"]) == ("cdc@example.com", "data@example.com, lake@example.com")
    assert mail.get_content_type() == "text/plain"
    assert all(part in mail.get_content() for part in WORDS[AlertKind.FAILURE])
    assert [command for command in box.commands if command.startswith("rcpt")] == [
        "rcpt TO:<data@example.com>",
        "rcpt TO:<lake@example.com>",
    ]


def test_a_long_subject_of_a_mail_begins_on_the_line_of_its_header(
    store: SqlStateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fits on a line, but not behind the name of its header, would arrive with a blank before it."""
    write_file(tmp_path, MAIL)
    table = TableName(schema="shop", name="t" * 45)
    Wrong(store).run(table, TableRunStatus.FAILED, message="No such table.")
    with mail_server() as box:
        monkeypatch.setenv("CDC_OPS_CONN_MAIL_SERVER", f"smtp://127.0.0.1:{box.port}")
        assert command("--notify").exit_code == 5
    [mail] = box.mails
    assert mail["Subject"] == f"[cdc-ops] shop: {table} failed"


def test_a_password_is_not_sent_to_a_mail_server_without_encryption(
    store: SqlStateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path, MAIL)
    Wrong(store).make(AlertKind.FAILURE)
    with mail_server() as box:
        monkeypatch.setenv("CDC_OPS_CONN_MAIL_SERVER", f"smtp://cdc:hunter2@127.0.0.1:{box.port}")
        result = command("--notify")
    assert "offers no encryption" in re.sub(r"\s+", " ", result.output)
    assert "hunter2" not in result.output
    assert box.mails == []
    assert not [command for command in box.commands if command.upper().startswith("AUTH")]


def test_a_login_in_a_webhook_becomes_a_header(hook: Hook) -> None:
    address = webhook_address("on_call_hook", "https://bot:p%40ss@hooks.example/x")
    assert (address.url, address.authorization) == ("https://hooks.example/x", "Basic Ym90OnBAc3M=")
    message = Message(pipeline="shop", kind=AlertKind.FAILURE, change=Change.NEW, subject="s", text="s")
    post_message(Receiver(name="on_call", webhook="on_call_hook"), replace(address, url=hook.url), message)
    assert len(hook.take()) == 1
    assert hook.headers[-1]["Authorization"] == address.authorization


@pytest.mark.parametrize("login", ["bot:hunter2", "bot", ":hunter2"])
def test_a_login_is_sent_to_no_webhook_without_encryption(
    login: str, store: SqlStateStore, hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_OPS_CONN_ON_CALL_HOOK", hook.url.replace("://", f"://{login}@"))
    write_file(tmp_path)
    Wrong(store).make(AlertKind.FAILURE)
    result = command("--notify")
    assert result.exit_code == 5
    assert "would send the login of its webhook without encryption" in re.sub(r"\s+", " ", result.output)
    assert "hunter2" not in result.output
    assert hook.take() == []


@pytest.mark.parametrize("url", ["mysql://cdc:hunter2@db/shop", "hunter2", "https://", "http://host:hunter2/x", "https://ho st/hunter2"])
def test_a_connection_that_is_no_webhook_is_refused_without_showing_it(
    url: str, store: SqlStateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_OPS_CONN_ON_CALL_HOOK", url)
    write_file(tmp_path)
    Wrong(store).make(AlertKind.FAILURE)
    result = command("--notify")
    assert "'on_call_hook' is no webhook" in re.sub(r"\s+", " ", result.output)
    assert "hunter2" not in result.output


def test_the_check_says_which_receivers_have_no_connection_and_sends_nothing(store: SqlStateStore, hook: Hook, tmp_path: Path) -> None:
    write_file(tmp_path, f"{HOOK}\n  team: {{webhook: never_set}}\n  chat: {{notifier: some.Notifier}}")
    found = {one["what"]: one for one in json.loads(CliRunner().invoke(app, ["check", "--json"]).stdout)}
    told = {name: found[f"receiver {name}"] for name in ("on_call", "team", "chat")}
    assert {name: one["verdict"] for name, one in told.items()} == {"on_call": "ok", "team": "warning", "chat": "ok"}
    assert "CDC_OPS_CONN_NEVER_SET" in told["team"]["seen"]
    assert "only Airflow" in told["chat"]["seen"]
    assert hook.take() == []


def test_the_command_line_says_that_it_cannot_use_a_notifier_of_airflow(store: SqlStateStore, tmp_path: Path) -> None:
    write_file(tmp_path, "  chat: {notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier, arguments: {to: a@example.com}}")
    assert "nothing is wrong" in command("--notify").output
    Wrong(store).make(AlertKind.FAILURE)
    result = command("--notify")
    assert result.exit_code == 5
    assert "is a notifier of Airflow, which the command line cannot use" in re.sub(r"\s+", " ", result.output)
    assert store.notified_alerts("shop") == ()
