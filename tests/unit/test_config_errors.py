"""Bad pipeline files: each gets one error that names file, line and column, shows the line, and says what is valid."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cdc_ops.config.fields.json_schema import json_schema
from cdc_ops.config.fields.model_fields import document_section
from cdc_ops.config.fields.renamed import RENAMED_FIELDS, RENAMED_VALUES
from cdc_ops.config.loading import load_pipeline, load_pipelines
from cdc_ops.config.reading.document import parse_document
from cdc_ops.errors import ConfigError, from_payload

ROOT = Path(__file__).resolve().parents[2]

GOOD = """\
pipeline: shop
schedule: "*/15 * * * *"
source: {kind: mysql, connection: shop_db}
target: {root: /lake, staging: /staging}
defaults:
  cursor: updated_at
  lookback: 30s
tables:
  shop.orders: {keys: [id]}
  shop.customers:
"""

# What is replaced by what in the good file, the line and column of the complaint, and what it has to say.
CASES = [
    ("pipeline: shop\n", "", 1, 1, ["'pipeline' is missing at the top level", "pipeline: shop"]),
    ("pipeline: shop", "name: shop", 1, 1, ["Unknown field 'name'", "Did you mean 'pipeline'?"]),
    ("pipeline: shop", "pipeline: Shop-DB", 1, 11, ["'Shop-DB'", "Did you mean 'shop_db'?"]),
    ("pipeline: shop", "pipeline: 12", 1, 11, ["needs text, not the number 12", 'Put it in quotes: "12"']),
    ("pipeline: shop", "pipeline:", 1, 1, ["'pipeline' is empty and needs"]),
    ('"*/15 * * * *"', '"*/15 * * *"', 2, 11, ["has 4 fields", "minute hour day month weekday"]),
    ('"*/15 * * * *"', '"61 * * * *"', 2, 11, ["not a valid cron expression", "out of range"]),
    ('"*/15 * * * *"', '"0 0 30 2 *"', 2, 11, ["has no next run"]),
    ('"*/15 * * * *"', "*/15 * * * *", 2, 12, ["quotes"]),
    ('"*/15 * * * *"', '"@dayly"', 2, 11, ["Did you mean '@daily'?"]),
    ('"*/15 * * * *"', "15", 2, 11, ["needs text", 'Put it in quotes: "15"']),
    ("schedule:", "cron:", 2, 1, ["Did you mean 'schedule'?"]),
    ("schedule:", "start_date: 2026-01-01T00:00:00\nschedule:", 2, 13, ["has no time zone", "2026-01-01T00:00:00Z"]),
    ("schedule:", "start_date: 2026-13-01\nschedule:", 2, 13, ["'2026-13-01' is not a date", "2026-01-31"]),
    ("kind: mysql", "kind: mysq", 3, 16, ["Did you mean 'mysql'?", "mysql, mariadb, postgres"]),
    ("kind: mysql", "kind: MySQL", 3, 16, ["Did you mean 'mysql'?"]),
    ("kind: mysql", "kind: postgres, jdbc_driver: mysql", 3, 26, ["Postgres has only one"]),
    ("kind: mysql", "kind: postgres, snapshot_connection: standby", 3, 26, ["replicas of MySQL and MariaDB"]),
    ("kind: mysql", "kind: postgres, writers: [other]", 3, 26, ["clusters of MySQL and MariaDB"]),
    ("shop_db}", "shop_db, writers: [other], snapshot_connection: r}", 3, 62, ["can be missing there", "Remove one of the two"]),
    ("shop_db}", "shop_db, snapshot_connection: shop_db}", 3, 65, ["the connection of the source itself"]),
    ("connection: shop_db", "conn_id: shop_db", 3, 23, ["Unknown field 'conn_id' in 'source'", "Did you mean 'connection'?"]),
    (", connection: shop_db", "", 3, 1, ["'connection' is missing in 'source'", "connection: shop_db"]),
    ("shop_db}", "shop_db, time_zone: Europe/Berln}", 3, 55, ["not a time zone", "Did you mean 'Europe/Berlin'?"]),
    ("shop_db}", "shop_db, jdbc_driver: maria}", 3, 57, ["Did you mean 'mariadb'?"]),
    ("root: /lake", "root: lake", 4, 16, ["neither an absolute folder nor a URI"]),
    ("root: /lake", "rot: /lake", 4, 10, ["Unknown field 'rot' in 'target'", "Did you mean 'root'?"]),
    ("staging: /staging", "staging: /lake/", 4, 32, ["same place", "separate folder for staging"]),
    ("defaults:", "lookback: 5s\ndefaults:", 5, 1, ["belongs in 'archive' or in 'defaults' or in a table's entry"]),
    ("defaults:", "tables_per_job: '20'\ndefaults:", 5, 17, ["needs a whole number", "Write 20 without quotes"]),
    ("defaults:", "tables_per_job: 020\ndefaults:", 5, 17, ["Write 20", "octal"]),
    ("defaults:", "tables_per_job: 1_0\ndefaults:", 5, 17, ["Write 10 without the _"]),
    ("defaults:", "tables_per_job: true\ndefaults:", 5, 17, ["needs a whole number, not the truth value true"]),
    ("defaults:", "tables_per_job: 0\ndefaults:", 5, 17, ["out of range", "at least 1"]),
    ("defaults:", "execution: fuse\ndefaults:", 5, 12, ["Did you mean 'fused'?", "fused, separate"]),
    ("defaults:", "spark: {driver_memory: 2GiB}\ndefaults:", 5, 24, ["Did you mean 2g?"]),
    ("defaults:", "spark: {conf: {spark.sql.shuffle.partitions: 8}}\ndefaults:", 5, 46, ['Put it in quotes: "8"']),
    ("defaults:", "spark: {conf: {fs.s3a.path: a}}\ndefaults:", 5, 16, ["Did you mean 'spark.hadoop.fs.s3a.path'?"]),
    ("defaults:", "default:", 5, 1, ["Did you mean 'defaults'?"]),
    (
        "lookback: 30s",
        "lokback: 30s",
        7,
        3,
        ["Unknown field 'lokback' in 'defaults'", "Did you mean 'lookback'?", "Valid in 'defaults': method, keys, cursor"],
    ),
    ("lookback: 30s", "lookback: 30", 7, 13, ["has no unit", "30s for seconds"]),
    ("lookback: 30s", "lookback: 1:30", 7, 13, ["not a duration", "1m30s"]),
    ("lookback: 30s", "lookback: -5s", 7, 13, ["not a duration"]),
    ("lookback: 30s", "lookback:", 7, 3, ["The value is empty"]),
    ("lookback: 30s", "retention: 7d", 7, 3, ["belongs in 'maintenance'"]),
    ("lookback: 30s", "exclude: true", 7, 3, ["belongs in a table's entry"]),
    ("lookback: 30s", "path: /lake/x", 7, 3, ["'defaults' applies to all tables", "table's entry"]),
    ("lookback: 30s", "maintenance: {target_file_bytes: 128M}", 7, 36, ["Did you mean 128MiB?"]),
    ("lookback: 30s", "maintenance: {retention: 1m}", 7, 28, ["too small", "at least 1h"]),
    ("lookback: 30s", "maintenance: {optimise_every: 1h}", 7, 17, ["Did you mean 'optimize_every'?"]),
    ("lookback: 30s", "maintenance: {enabled: yes}", 7, 26, ["needs true or false", "Write true", "YAML 1.2"]),
    ("lookback: 30s", "maintenance: {enabled: off}", 7, 26, ["Write false"]),
    ("lookback: 30s", "maintenance: {enabled: 'true'}", 7, 26, ["Write true without quotes"]),
    ("lookback: 30s", "properties: {delta.appendOnly: false}", 7, 34, ['Put it in quotes: "false"']),
    ("  cursor: updated_at\n", "", 8, 3, ["'shop.orders' has no cursor", "cursor: updated_at"]),
    ("cursor: updated_at", "cursor: 'updated_at, id'", 6, 11, ["Write a list: [updated_at, id]"]),
    ("cursor: updated_at", "cursor: [updated_at, Updated_At]", 6, 11, ["'Updated_At' appears twice"]),
    ("cursor: updated_at", "cursor: [updated_at, 7]", 6, 24, ["needs text, not the number 7"]),
    ("shop.orders:", "orders:", 9, 3, ["not of the form schema.table", "Did you mean 'shop.orders'"]),
    ("shop.orders:", "shop.a/../b:", 9, 3, ["not of the form schema.table"]),
    ("shop.orders:", "shop.${X}:", 9, 3, ["Names of tables are not interpolated"]),
    ("shop.orders:", '"shop.orders\\n":', 9, 3, ["not of the form schema.table"]),
    ("shop.orders:", '"*":', 9, 3, ["Did you mean 'shop.*'"]),
    ("shop.orders:", "*.orders:", 9, 4, ["begins with * has to be in quotes"]),
    ("shop.customers:", "shop.orders:", 10, 3, ["'shop.orders' appears twice", "line 9"]),
    ("{keys: [id]}", "{keys: [id], primary_key: id}", 9, 29, ["Did you mean 'keys'?"]),
    ("{keys: [id]}", "{columns: [a, updated_at], keys: [id]}", 9, 43, ["'id' of 'shop.orders' is in 'keys', but not in 'columns'"]),
    ("{keys: [id]}", "{except_column_list: updated_at}", 9, 3, ["'updated_at' of 'shop.orders' is in 'cursor'", "excludes it"]),
    ("{keys: [id]}", "{except_column_list: [old_id], previous_key: old_id}", 9, 47, ["is in 'previous_key', and", "excludes it"]),
    ("{keys: [id]}", "{columns: [a, id], cursor: ['COALESCE(a, b)']}", 9, 35, ["Column 'b' of 'shop.orders' is in 'cursor', but not"]),
    ("{keys: [id]}", "{exclude: true, keys: id}", 9, 32, ["has no effect with 'exclude: true'"]),
    ("{keys: [id]}", "{method: log}", 9, 3, ["'shop.orders' has 'method: log'", "no 'url' and no 'format'"]),
    ("defaults:", "notify: {a: {webhook: h, mail: m}}\ndefaults:", 5, 10, ["'a' has 'webhook' and 'mail'", "an entry of its own"]),
    ("defaults:", "notify: {a: {repeat: 1h}}\ndefaults:", 5, 10, ["'a' has no way to be told", "'webhook', 'mail', 'notifier'"]),
    ("defaults:", "notify: {a: {mail: m, to: b@c}}\ndefaults:", 5, 10, ["'sender' is missing in the entry 'a'"]),
    ("defaults:", "notify: {a: {mail: m, to: B <b@c>, sender: a@b}}\ndefaults:", 5, 27, ["not an address of mail"]),
    ("defaults:", "notify: {a: {webhook: h, to: b@c}}\ndefaults:", 5, 26, ["'to' belongs to 'mail'", "Remove the line"]),
    (
        "defaults:",
        "notify: {a: {webhook: h, events: [lagg]}}\ndefaults:",
        5,
        35,
        ["'lagg' is not a value of 'events'", "Did you mean 'lag'?"],
    ),
    ("defaults:", "notify: {a: {webhook: h, events: []}}\ndefaults:", 5, 34, ["'events' is empty", "never be told"]),
    ("defaults:", "notify: {a: {webhok: h}}\ndefaults:", 5, 14, ["Unknown field 'webhok' in the entry 'a'", "Did you mean 'webhook'?"]),
    ("defaults:", "notify: {A: {webhook: h}}\ndefaults:", 5, 10, ["'A' is not a receiver's name", "on_call"]),
    ("defaults:", "notify: {a: {notifier: Slack}}\ndefaults:", 5, 24, ["'Slack' is not an import path"]),
    (
        "defaults:",
        "notify: {a: {notifier: x.Y, arguments: {token: z}}}\ndefaults:",
        5,
        41,
        ["'token' looks like a secret", "Airflow connection"],
    ),
    ("lookback: 30s", "webhook: h", 7, 3, ["Unknown field 'webhook' in 'defaults'", "belongs in an entry of 'notify'"]),
    ("lookback: 30s", "max_lag: 60", 7, 12, ["has no unit", "60s for seconds"]),
    ("defaults:", "archive: {options: {endpoint_url: 'http://s:1', key: a}}\ndefaults:", 5, 49, ["'key' is a secret", "environment"]),
    ("defaults:", "archive: {options: {sas_token: a}}\ndefaults:", 5, 21, ["'sas_token' is a secret"]),
    ("defaults:", "archive: {url: /a, layout: binlog, copy: {flush: true}}\ndefaults:", 5, 36, ["The field 'connection' is missing"]),
    ("defaults:", "archive: {url: /a, copy: {connection: c}}\ndefaults:", 5, 20, ["'copy' writes binlogs", "layout: binlog"]),
    ("defaults:", "archive: {layout: binlog, copy: {connection: c}}\ndefaults:", 5, 1, ["The field 'url' is missing"]),
    ("defaults:", "archive: {url: '/{table}', layout: binlog, copy: {connection: c}}\ndefaults:", 5, 16, ["cannot depend on a table"]),
    ("defaults:", "archive: {url: /a, layout: binlog, copy: {connection: c, first_file: x}}\ndefaults:", 5, 70, ["SHOW BINARY LOGS"]),
    ("defaults:", "archive: {url: /a, layout: binlog, copy: {connection: c, server: a/b}}\ndefaults:", 5, 66, ["is not a folder's name"]),
    ("defaults:", "archive: {layout: binlog, format: maxwell}\ndefaults:", 5, 19, ["'maxwell' does not read them", "mysql-binlog"]),
    ("defaults:", "archive: {format: mysql-binlog}\ndefaults:", 5, 19, ["needs the numbers of its files", "layout: binlog"]),
    ("defaults:", "archive: {options: {anon: 'no'}}\ndefaults:", 5, 27, ["'anon' is 'no', which is not a truth value", "true"]),
    ("{keys: [id]}", "{path: /lake}", 9, 23, ["holds the target's root"]),
    ("{keys: [id]}", "{path: /lake/shop}", 9, 23, ["'shop.customers'", "are nested"]),
    ("shop.orders: {keys: [id]}", "shop.order_*: {path: /x}", 9, 18, ["a pattern may match several"]),
    ("tables:\n  shop.orders: {keys: [id]}\n  shop.customers:\n", "tables: [shop.orders]\n", 8, 9, ["Write each table as a field"]),
    ("  shop.orders: {keys: [id]}\n  shop.customers:\n", "  {}\n", 8, 1, ["'tables' has no entry", "shop.orders: {}"]),
    ("  lookback", "\tlookback", 7, 1, ["A tab", "spaces"]),
    ("lookback: 30s", "lookback 30s", 7, 3, ["':' is missing"]),
    ("lookback: 30s", "lookback: a: b", 7, 14, ["quotes"]),
    ("lookback: 30s", "lookback: @x", 7, 13, ["starts with '@'", "quotes"]),
    ("lookback: 30s", "lookback: !!python/name:os.system 1", 7, 13, ["Tags such as"]),
    ("lookback: 30s", "<<: {lookback: 30s}", 7, 3, ["Merge keys"]),
    ("lookback: 30s", "? [a]\n  : 30s", 7, 5, ["plain text"]),
    ("lookback: 30s", "parallelism: &a [*a]", 7, 16, ["contains itself"]),
    ("tables:", "---\ntables:", 8, 1, ["second document"]),
    ("lookback: 30s", "lookback: \x07", 7, 13, ["control character"]),
    ("root: /lake", "root: ${LAKE}", 4, 17, ["in quotes"]),
    ("root: /lake", 'root: "${LAKE}"', 4, 16, ["variable LAKE is not set", "${LAKE:-default}"]),
    ("root: /lake", 'root: "${CDC_OPS_LAK}"', 4, 16, ["Did you mean 'CDC_OPS_LAKE'?"]),
    ("root: /lake", 'root: "${EMPTY}"', 4, 16, ["variable EMPTY is empty"]),
    ("root: /lake", 'root: "${}/x"', 4, 16, ["not of the form ${NAME}"]),
    ("root: /lake", 'root: "/${DB_PASSWORD}"', 4, 16, ["looks like a secret"]),
    ("root: /lake", 'root: "/${AWS_ACCESS_KEY_ID:-x}"', 4, 16, ["looks like a secret"]),
    ("root: /lake", 'root: "${WITH_LOGIN}"', 4, 16, ["WITH_LOGIN holds a URL with a password"]),
]


def failure(path: Path, text: str | bytes) -> ConfigError:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    environ = {"CDC_OPS_LAKE": "/lake", "EMPTY": "", "WITH_LOGIN": "s3a://me:hunter2@bucket/lake", "DB_PASSWORD": "hunter2"}
    with pytest.raises(ConfigError) as caught:
        load_pipeline(path, environ)
    return caught.value


@pytest.mark.parametrize(("old", "new", "line", "column", "says"), CASES, ids=[f"{one[1].strip()[:40]!r}" for one in CASES])
def test_each_mistake_is_explained_at_its_place(tmp_path: Path, old: str, new: str, line: int, column: int, says: list[str]) -> None:
    assert old in GOOD
    path = tmp_path / "shop.yaml"
    error = failure(path, GOOD.replace(old, new, 1))
    problems = re.findall(rf"^{re.escape(str(path))}:(\d+):(\d+): ", str(error), flags=re.MULTILINE)
    assert str(error).startswith(f"{path}:")
    assert (str(line), str(column)) in problems
    for phrase in says:
        assert phrase in str(error)
    assert "hunter2" not in str(error)
    assert "pydantic" not in str(error)
    assert "watermark stays" in error.data
    assert error.__cause__ is None


IN_EDITORS = re.compile(r"Unknown field|wants|is missing (in|at)|duration|five|Did you mean '(mysql|fused|mariadb)'|no entry")


@pytest.mark.parametrize(("old", "new"), [one[:2] for one in CASES if IN_EDITORS.search(one[4][0])])
def test_editors_see_by_the_schema_what_can_be_seen_without_the_environment(old: str, new: str) -> None:
    validator = Draft202012Validator(json_schema())
    assert validator.is_valid(parse_document(GOOD.encode(), {}).data)
    assert not validator.is_valid(parse_document(GOOD.replace(old, new, 1).encode(), {}).data)


def sections_with(field: str) -> list[str]:
    """The sections of a file in which a field can stand; "" is the top level, and `defaults` stands for a table's entry too."""
    sections = {"": document_section(), **{name: shape.section for name, shape in document_section().fields.items() if shape.section}}
    return [name for name, section in sections.items() if name != "tables" and field in section.fields]


def with_field(section: str, line: str) -> str:
    """The good file with one more field in one of its sections."""
    match section:
        case "":
            return f"{GOOD}{line}\n"
        case "defaults":
            return GOOD.replace("  lookback: 30s", f"  {line}")
        case "source":
            return GOOD.replace("connection: shop_db}", f"connection: shop_db, {line}}}")
        case "target":
            return GOOD.replace("staging: /staging}", f"staging: /staging, {line}}}")
        case other:
            return f"{GOOD}{other}: {{{line}}}\n"


@pytest.mark.parametrize(("old", "new"), RENAMED_FIELDS.items())
def test_an_old_name_of_a_field_is_unknown_and_the_error_says_the_new_one(tmp_path: Path, old: str, new: str) -> None:
    section = sections_with(new)[-1]  # the archive has a `lookback` of its own
    assert not sections_with(old)
    error = str(failure(tmp_path / "shop.yaml", with_field(section, f"{old}: 1m")))
    assert f"Unknown field {old!r}" in error
    assert f"Did you mean {new!r}?" in error
    elsewhere = str(failure(tmp_path / "shop.yaml", with_field("target", f"{old}: 1m")))
    assert f"It is {new!r} now, and belongs" in elsewhere


@pytest.mark.parametrize(("field", "old", "new"), [(*names, new) for names, new in RENAMED_VALUES.items()])
def test_an_old_value_is_no_value_and_the_error_says_the_new_one(tmp_path: Path, field: str, old: str, new: str) -> None:
    [section] = sections_with(field)
    text = GOOD.replace("kind: mysql", "kind: declared") if field == "kind" else with_field(section, f"{field}: {old}")
    error = str(failure(tmp_path / "shop.yaml", text))
    assert f"{old!r} is not a value of {field!r}. Did you mean {new!r}?" in error


@pytest.mark.parametrize(("old", "new"), [("heal: query", "on_gap: reconcile"), ("heal: stop", "on_gap: fail")])
def test_an_old_field_with_an_old_value_is_told_both(tmp_path: Path, old: str, new: str) -> None:
    assert f"Unknown field 'heal' in 'archive'. Did you mean {new!r}?" in str(failure(tmp_path / "shop.yaml", with_field("archive", old)))


def test_the_good_file_is_good(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(GOOD)
    assert load_pipeline(tmp_path / "shop.yaml").name == "shop"


def test_the_line_is_shown_and_the_place_is_marked(tmp_path: Path) -> None:
    lines = str(failure(tmp_path / "shop.yaml", GOOD.replace("lookback", "lokback"))).splitlines()
    assert lines[1:3] == ["     7 |   lokback: 30s", "       |   ^^^^^^^"]


def test_all_problems_of_a_file_are_in_one_error_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        GOOD.replace("kind: mysql", "kind: mysq").replace("lookback", "lokback").replace("[id]}", "[id], path: /lake}").replace("/15", "/0")
    )
    error = failure(tmp_path / "shop.yaml", text + "  shop.orders: {}\nspark: {conf: {spark.hadoop.fs.s3a.secret.key: hunter2}}\n")
    assert re.findall(r"shop.yaml:(\d+):", str(error)) == ["2", "3", "7", "9", "11", "12"]
    assert error.why == "6 problems in this file."
    assert "hunter2" not in str(error)


def test_many_problems_stay_readable_and_none_is_left_out(tmp_path: Path) -> None:
    text = GOOD + "".join(f"  shop.t{number}: {{kees: id}}\n" for number in range(100))
    error = failure(tmp_path / "shop.yaml", text)
    assert error.what.count("Unknown field 'kees'") == 100
    assert len(error.what.splitlines()) < 150


def test_one_shortcoming_of_all_tables_is_one_problem(tmp_path: Path) -> None:
    text = GOOD.replace("  cursor: updated_at\n", "") + "".join(f"  shop.t{number}:\n" for number in range(100))
    assert "102 entries (shop.orders, shop.customers, shop.t0, ...) have no cursor" in str(failure(tmp_path / "shop.yaml", text))


@pytest.mark.parametrize("text", ["", "# nothing\n", "null\n"])
def test_an_empty_file_says_what_a_pipeline_begins_with(tmp_path: Path, text: str) -> None:
    error = failure(tmp_path / "shop.yaml", text)
    assert ":1:1: The file is" in str(error)
    assert "pipeline: <name>" in str(error)


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert ":1:1: The file is not a mapping" in str(failure(tmp_path / "shop.yaml", text))


def test_a_file_that_is_not_utf_8_names_the_place(tmp_path: Path) -> None:
    error = failure(tmp_path / "shop.yaml", b"pipeline: shop\ndescription: caf\xe9\n")
    assert ":2:17: The file is not UTF-8" in str(error)


def test_a_missing_file_and_a_missing_folder_are_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_pipeline(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="No such file"):
        load_pipelines(tmp_path / "none")


@pytest.mark.parametrize(
    "line",
    [
        "# mysql://app:hunter2@db/shop",
        "description: jdbc:mysql://db/shop?user=app&password=hunter2",
        "source: {kind: mysql, connection: 'mysql://app:hunter2@db:3306/shop'}",
        "description: s3a://key:hunter2/x@bucket/lake",
        "password: hunter2",
        "db_token: 'hunter2'",
        'api-key: "hunter2 hunter2"',
    ],
)
def test_a_secret_in_a_file_is_refused_and_never_repeated(tmp_path: Path, line: str) -> None:
    error = failure(tmp_path / "shop.yaml", f"{GOOD}{line}\n")
    assert re.search("must not contain secrets|This URL has a password|appears twice", str(error))
    assert ":11:" in str(error)
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    "line",
    [
        "notify: {a: {webhook: https://hooks.example/T0/hunter2}}",
        'notify: {a: {"webhook": "https://hooks.example/T0/hunter2"}}',
        "notify: {a: {webhook: h, arguments: {password: hunter2}}}",
        "notify: {a: {webhook: https://me:hunter2@hooks.example/}}",
    ],
)
def test_the_url_of_a_receiver_is_refused_and_never_repeated(tmp_path: Path, line: str) -> None:
    error = failure(tmp_path / "shop.yaml", f"{GOOD}{line}\n")
    assert re.search("Connections are named|belongs to 'notifier'|This URL has a password", str(error))
    assert ":11:" in str(error)
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    "name", ["fs.s3a.secret.key", "fs.s3a.access.key", "fs.oss.accessKeyId", "fs.azure.account.key.x.net", "x.authToken"]
)
def test_secrets_among_spark_settings_are_refused(tmp_path: Path, name: str) -> None:
    assert "is a secret" in str(failure(tmp_path / "shop.yaml", f"{GOOD}spark: {{conf: {{spark.hadoop.{name}: x}}}}\n"))


@pytest.mark.parametrize("name", ["spark.io.encryption.keySizeBits", "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.sql.keyspace"])
def test_spark_settings_that_only_sound_secret_are_taken(tmp_path: Path, name: str) -> None:
    (tmp_path / "shop.yaml").write_text(f"{GOOD}spark: {{conf: {{{name}: x}}}}\n")
    assert load_pipeline(tmp_path / "shop.yaml").spark.conf == ((name, "x"),)


def test_an_ordinary_url_with_a_port_is_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(GOOD + "description: see http://wiki:8080/page@2 and mail to data@example.com\n")
    assert "wiki:8080" in load_pipeline(path).info.description


@pytest.mark.parametrize("deep", ["[" * 300_000, "".join("  " * depth + "a:\n" for depth in range(30)), "{a: " * 100_000])
def test_a_bottomless_file_is_refused_and_does_not_take_the_process_with_it(tmp_path: Path, deep: str) -> None:
    assert "Nested more than" in str(failure(tmp_path / "shop.yaml", f"pipeline: shop\nspark:\n {deep}" if "\n" not in deep else deep))


def test_aliases_that_stand_for_billions_of_values_are_cut_off(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "with aliases followed" in str(failure(tmp_path / "shop.yaml", "\n".join(lines)))


def test_an_error_keeps_its_text_across_process_borders(tmp_path: Path) -> None:
    error = failure(tmp_path / "shop.yaml", GOOD.replace("lookback", "lokback"))
    again = from_payload(error.to_payload())
    assert type(again) is ConfigError
    assert str(again) == str(error)


TEMPLATE = (ROOT / "dags" / "pipelines" / "examples" / "warehouse.yaml").read_text()
SNIPPETS = st.text(max_size=6) | st.sampled_from(
    [*"{}[]:,&*!|>'\"%@`#\t\n -?$", "${", "<<: ", "null", "*a", "&a ", "!!int ", "---\n", ": ", "~"]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(TEMPLATE)), st.integers(0, 12), SNIPPETS), min_size=1, max_size=4))
def test_whatever_is_typed_into_a_file_it_loads_or_is_explained(tmp_path: Path, edits: list[tuple[int, int, str]]) -> None:
    text, path = TEMPLATE, tmp_path / "any.yaml"
    for start, length, snippet in edits:
        text = text[:start] + snippet + text[start + length :]
    path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    complaint = ""
    try:
        load_pipeline(path, {})
    except ConfigError as error:
        complaint = str(error)
    assert not complaint or re.match(rf"{re.escape(str(path))}:\d+:\d+: \S", complaint)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("retries: 3", "Unknown field 'retries' at the top level. It belongs in 'tasks' or 'spark_tasks' in 'airflow'."),
        ("airflow: {time_zone: '+02:00'}", "'+02:00' is not a time zone of a schedule."),
        ("airflow: {time_zone: Europe/Berln}", "Did you mean 'Europe/Berlin'"),
        ("airflow: {time_zone: Nowhere/X}", "'Nowhere/X' is not a time zone. Valid are IANA names such as 'Europe/Berlin'."),
        ("airflow: {on_failure_callback: page}", "'page' is not an import path."),
        ("airflow: {tasks: {retry_delay: 20m}}", "'retry_delay' is longer than 'max_retry_delay'."),
        ("airflow: {tasks: {max_retry_delay: 1h}, spark_tasks: {retry_delay: 2h}}", "'retry_delay' is longer than 'max_retry_delay'."),
        ("airflow: {run_timeout: 12h, approve: {decisions: [cost]}}", "runs that wait are ended by 'run_timeout' (12h)"),
        ("airflow: {run_timeout: 12h, approve: {decisions: [cost], timeout: 12h}}", "runs that wait are ended by 'run_timeout' (12h)"),
        ("run_retention: 1d\nairflow: {approve: {decisions: [cost]}}", "'run_retention' (1d) forgets the question"),
        ("airflow: {approve: {decisions: [gap], timeout: 91d}}", "'run_retention' (90d) forgets the question"),
        ("airflow: {owner_links: {somebody: 'mailto:x@example.com'}}", "'somebody' is not the pipeline's owner"),
        ("airflow: {owner_links: {cdc-ops: example.com}}", "'example.com' is not a link that Airflow takes."),
        ("airflow: {access_control: {analysts: can_read}}", "The role 'analysts' needs a list of actions"),
        (
            "airflow: {tasks: {executor_config: {pod_override: {spec: {containers: [{env: [{name: DB_PASSWORD, value: x}]}]}}}}}",
            "'DB_PASSWORD' is a secret.",
        ),
    ],
)
def test_what_is_wrong_with_the_block_of_airflow_is_said_with_its_remedy(tmp_path: Path, lines: str, message: str) -> None:
    assert message in said(tmp_path, lines)


def said(tmp_path: Path, lines: str) -> str:
    """What loading a pipeline file with some lines more says."""
    file = tmp_path / "shop.yaml"
    head = "pipeline: shop\nsource: {kind: mysql, connection: shop_db}\ntarget: {root: /lake, staging: /staging}\n"
    file.write_text(f"{head}tables: {{shop.orders: {{cursor: id}}}}\n{lines}\n")
    with pytest.raises(ConfigError) as raised:
        load_pipeline(file, {})
    return str(raised.value)
