"""`cdc-ops import-sqoop`: what Sqoop has becomes a pipeline file that loads; what is not in it is said; no secret is written."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cdc_ops.cli import app
from cdc_ops.cli.sqoop.options import CARRIED, KNOWN, LEFT_OUT, SECRET
from cdc_ops.cli.sqoop.row_filter import row_filter, simple_query
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceKind

CONNECT = ("--connect", "jdbc:mysql://db.example.com:3307/shop")
LASTMODIFIED = ("--incremental", "lastmodified", "--check-column", "updated_at")
SCRIPT = r"""#!/bin/bash
# the nightly copy; sqoop import --table not_this_one
set -e
/opt/sqoop/bin/sqoop import -Dhadoop.security.credential.provider.path=jceks://hunter1 \
  --connect "jdbc:mysql://db.example.com:3306/shop?user=root&password=hunter2&useSSL=true&trustCertificateKeyStorePassword=hunter3" \
  --username etl --password 'hunter4' --table orders --incremental lastmodified --check-column updated_at \
  --last-value '2026-01-01 00:00:00' --merge-key id --columns "id,customer" --where "id > 400 AND amount IS NOT NULL" -m 8 \
  --split-by id --fields-terminated-by '|' --hive-import --hive-table dw.orders --target-dir s3n://lake/raw/orders \
  --map-column-java id=String --bogus hunter5 && echo done
sqoop-import --connect jdbc:mysql://db.example.com:3306/shop -P -e "
    SELECT id, note FROM notes
    WHERE kind = 'x' AND \$CONDITIONS" --incremental append --check-column id --target-dir /raw/notes | tee log
"""
JOB = """\
 Job: orders
 Tool: import
 Options:
 ----------------------------
 verbose = false
 db.connect.string = jdbc:postgresql://pg.example.com/shop?sslmode=verify-full&password=hunter1
 db.username = etl
 db.password = hunter2
 codegen.input.delimiters.record = 0
 hdfs.append.dir = false
 incremental.last.value = 2026-01-01 00:00:00.0
 hive.import = true
 mapreduce.num.mappers = 1
 map.column.java.amount = hunter3
 merge.key.col = id
 incremental.col = updated_at
 incremental.mode = DateLastModified
 db.table = orders
 db.where.clause = null
"""


def imported(folder: Path, *words: str, file: str = "", options: tuple[str, ...] = ()) -> Result:
    named = ["--file", file] if file else ["--", *words]
    result = CliRunner().invoke(app, ["import-sqoop", "--pipelines", str(folder), *options, *named])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def loaded(folder: Path, *words: str, file: str = "", options: tuple[str, ...] = ()) -> tuple[Pipeline, str, str]:
    """The pipeline, its text, and what the terminal shows."""
    result = imported(folder, *words, file=file, options=options)
    assert result.exit_code == 0, result.output
    [path] = folder.glob("*.yaml")
    checked = CliRunner().invoke(app, ["validate", "--pipelines", str(folder)])
    assert checked.exit_code == 0, checked.output
    return load_pipeline(path), path.read_text("utf-8"), result.output


def entries(pipeline: Pipeline) -> dict[str, dict[str, Any]]:
    """What differs from the defaults, by table."""
    shown = {}
    for rule in pipeline.tables:
        load, apply = rule.settings.load, rule.settings.apply
        parts: dict[str, Any] = {
            "keys": rule.settings.keys,
            "cursor": load.cursor,
            "columns": load.columns,
            "deletes": apply.apply_as_deletes,
        }
        shown[rule.pattern] = {**{name: value for name, value in parts.items() if value}, "parallelism": load.parallelism}
    return shown


def test_a_script_becomes_one_pipeline_with_an_entry_for_each_import(tmp_path: Path) -> None:
    script = tmp_path / "nightly.sh"
    script.write_text(SCRIPT)
    pipeline, text, said = loaded(tmp_path / "pipelines", file=str(script))
    assert (pipeline.name, pipeline.source.kind, pipeline.source.connection) == ("shop", SourceKind.MYSQL, "shop_db")
    assert (pipeline.target.root, pipeline.target.staging) == ("s3a://lake/raw/delta", "s3a://lake/raw/delta-staging")
    assert entries(pipeline) == {
        "shop.orders": {
            "keys": ("id",),
            "cursor": ("updated_at",),
            "columns": ("id", "customer", "updated_at", "amount"),
            "deletes": "NOT COALESCE(id > 400 AND NOT amount IS NULL, FALSE)",
            "parallelism": 8,
        },
        "shop.notes": {"cursor": ("id",), "columns": ("id", "note"), "parallelism": 4},
    }
    assert "# apply_as_deletes: \"NOT COALESCE(kind = 'x', FALSE)\"" in text
    for remark in ("--last-value", "--split-by", "--fields-terminated-by", "--hive-import", "--map-column-java", "--bogus", "--target-dir"):
        assert f"{remark}: " in said, remark
        assert f"{remark}: " in text, remark
    assert "export CDC_OPS_CONN_SHOP_DB='mysql://etl:PASSWORD@db.example.com:3306/shop?ssl_mode=required'" in said


def test_no_secret_of_a_command_or_a_saved_job_is_written_or_shown(tmp_path: Path) -> None:
    for name, source in (("script", SCRIPT), ("job", JOB)):
        file = tmp_path / name
        file.write_text(source)
        assert "hunter2" in source
        _, text, said = loaded(tmp_path / f"of_{name}", file=str(file))
        assert "hunter" not in text + said
        broken = tmp_path / f"broken_{name}"
        broken.write_text(source.replace("jdbc:mysql", "jdbc:oracle").replace("jdbc:postgresql", "jdbc:oracle"))
        refused = imported(tmp_path / f"of_{name}", file=str(broken))
        assert refused.exit_code == 2
        assert "'oracle'" in refused.output
        assert "hunter" not in refused.output


def test_a_saved_job_is_read_as_sqoop_shows_it(tmp_path: Path) -> None:
    job = tmp_path / "job.txt"
    job.write_text(JOB)
    pipeline, text, said = loaded(tmp_path / "pipelines", file=str(job))
    assert pipeline.source.kind is SourceKind.POSTGRES
    assert entries(pipeline) == {"public.orders": {"keys": ("id",), "cursor": ("updated_at",), "parallelism": 1}}
    assert "${CDC_OPS_LAKE:-/data/lake}" in text
    assert "'postgresql://etl:PASSWORD@pg.example.com/shop?sslmode=verify-full'" in said


def test_an_options_file_stands_for_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["# of the team", "import", "", "--connect", '"jdbc:mariadb://db/shop"', "--password", "hunter2", "--where", "id \\", "< 7"]
    (tmp_path / "options.txt").write_text("\n".join(lines))
    pipeline, text, _ = loaded(tmp_path / "pipelines", "--options-file", "options.txt", "--table", "orders", *LASTMODIFIED)
    assert entries(pipeline)["shop.orders"]["deletes"] == "NOT COALESCE(id < 7, FALSE)"
    assert pipeline.source.kind is SourceKind.MARIADB
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        (("--incremental", "append", "--check-column", "id"), "updates and deletes of rows that were copied are not seen"),
        (LASTMODIFIED, "a cursor does not show rows that were deleted at the source"),
    ],
)
def test_what_a_mode_never_sees_stands_first_in_the_file_and_on_the_terminal(tmp_path: Path, words: tuple[str, ...], lost: str) -> None:
    _, text, said = loaded(tmp_path, "import", *CONNECT, "--table", "orders", *words)
    assert said.startswith("loses    shop.orders")
    assert lost in said
    assert lost in " ".join(text.replace("#  ", "").split())


def test_an_import_without_increments_compares_the_whole_table_and_all_tables_are_a_pattern(tmp_path: Path) -> None:
    pipeline, text, _ = loaded(tmp_path, "import-all-tables", *CONNECT, "--exclude-tables", "log,tmp")
    assert [(rule.pattern, rule.exclude) for rule in pipeline.tables] == [("shop.*", False), ("shop.log", True), ("shop.tmp", True)]
    assert "cursor: []" in text


def test_the_command_that_makes_a_saved_job_is_read_too(tmp_path: Path) -> None:
    pipeline, _, _ = loaded(tmp_path, "sqoop", "job", "--create", "daily", "--", "import", *CONNECT, "--table", "orders", *LASTMODIFIED)
    assert entries(pipeline) == {"shop.orders": {"cursor": ("updated_at",), "parallelism": 4}}


def test_the_check_column_of_a_query_may_name_its_table(tmp_path: Path) -> None:
    query = ("--query", "SELECT * FROM orders o WHERE o.id > 1 AND $CONDITIONS", "--incremental", "lastmodified")
    pipeline, _, _ = loaded(tmp_path, "import", *CONNECT, *query, "--check-column", "o.`updated_at`", "--merge-key", "id")
    assert entries(pipeline)["shop.orders"]["cursor"] == ("updated_at",)


def test_values_that_yaml_or_variables_would_take_for_something_else_stay_as_they_are(tmp_path: Path) -> None:
    pipeline, _, _ = loaded(
        *(tmp_path, "import", *CONNECT, "--table", "größe 1", "--merge-key", "null,12:30,${HOME}", *LASTMODIFIED),
        options=("--name", "other", "--connection", "shop-replica", "--root", "/lake of/x", "--staging", "/tmp/staging"),
    )
    [(pattern, found)] = entries(pipeline).items()
    assert (pattern, found["keys"]) == ("shop.größe 1", ("null", "12:30", "${HOME}"))
    assert (pipeline.name, pipeline.source.connection, pipeline.target.root) == ("other", "shop-replica", "/lake of/x")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("export", *CONNECT, "--table", "orders"), "It does not begin with import"),
        (("sqoop", "job", "--exec", "daily"), "It calls a saved job"),
        (("import", *CONNECT), "names no table"),
        (("import", *CONNECT, "--query", "SELECT * FROM a JOIN b USING (id) WHERE $CONDITIONS"), "joins, computes or groups"),
        (("import", *CONNECT, "--table"), "--table has no value"),
        (("import", *CONNECT, "--table", "a", "b"), "A value stands where an option is expected"),
        (("import", *CONNECT, "--table", "a[1]"), "signs of patterns"),
        (("import", *CONNECT, "--table", "a", "--incremental", "append"), "--check-column is missing"),
        (("import", *CONNECT, "--table", "a", "-m", "four"), "It is not a number"),
        (("import", "--connect", "jdbc:mysql://db", "--table", "a"), "jdbc:mysql://host:port/database"),
        (("import", "--options-file", "not-there", *CONNECT), "'not-there' cannot be read"),
        (("import", *CONNECT, "--table", "$t"), "--table has a variable of the shell"),
        (("import", "--connect", "jdbc:mysql://db/${DB}", "--table", "a"), "--connect has a variable of the shell"),
        (("import", *CONNECT, "--table", "a", *LASTMODIFIED[:2], "--check-column", "$(col)"), "--check-column has a variable of the shell"),
        (("import", *CONNECT, "--query", "SELECT * FROM shop.$t WHERE $CONDITIONS"), "The table in --query has a variable of the shell"),
        (("import", *CONNECT, "--table", "a", "--", "--schema", "$S"), "A word behind -- has a variable of the shell"),
        ((), "It is not said which import"),
    ],
)
def test_what_cannot_become_a_pipeline_is_refused_with_the_reason(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    result = imported(tmp_path, *words)
    assert result.exit_code == 2
    assert why in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_exists_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("mine")
    result = imported(tmp_path, "import", *CONNECT, "--table", "orders", *LASTMODIFIED)
    assert result.exit_code == 2
    assert (tmp_path / "shop.yaml").read_text() == "mine"


def test_machines_get_the_remarks_as_json(tmp_path: Path) -> None:
    result = imported(tmp_path, "import", *CONNECT, "--table", "orders", *LASTMODIFIED, "--last-value", "7", options=("--json",))
    document = json.loads(result.stdout)
    assert document["connection"] == "shop_db"
    assert {note["weight"] for note in document["notes"]} == {"loses", "differs", "left out"}


@pytest.mark.parametrize(
    ("where", "certain"),
    [
        ("id > 400 and id <= 4e3 or not (amount is null)", True),
        ("id IN (1, 2) AND id BETWEEN -1 AND 9", True),
        ("status = 'x'", False),
        ("created > 20260101 AND LENGTH(note) > 3", False),
        ("paid = TRUE", False),
    ],
)
def test_a_condition_is_carried_over_only_where_spark_decides_as_the_source_does(where: str, certain: bool) -> None:
    assert row_filter(where, SourceKind.MYSQL).certain is certain


def test_a_query_of_one_table_is_that_table() -> None:
    found = simple_query("SELECT t.id, t.`a b` FROM shop.orders t WHERE (t.id > 7) AND ($CONDITIONS) AND t.id < 9", SourceKind.MYSQL)
    assert found is not None
    assert (found.schema, found.table, found.columns) == ("shop", "orders", ("id", "a b"))
    assert row_filter(found.where, SourceKind.MYSQL).deletes == "NOT COALESCE(id > 7 AND id < 9, FALSE)"
    refused = (
        *(
            "SELECT id + 1 FROM a WHERE $CONDITIONS",
            "SELECT id AS key FROM a WHERE $CONDITIONS",
            "SELECT DISTINCT id FROM a WHERE $CONDITIONS",
        ),
        *("SELECT id FROM a WHERE id > 7 OR $CONDITIONS", "SELECT id FROM a WHERE id IN (SELECT id FROM b) AND $CONDITIONS", "SELECT 1"),
        *("SELECT id FROM a WHERE $CONDITIONS UNION SELECT id FROM b", "SELECT id FROM a, b WHERE $CONDITIONS", "SELECT FROM WHERE"),
    )
    for query in refused:
        assert simple_query(query, SourceKind.MYSQL) is None, query


def test_the_word_sqoop_as_a_login_or_in_a_path_calls_nothing(tmp_path: Path) -> None:
    words = ("--username", "sqoop", "--target-dir", "/user/sqoop", "--table", "orders")
    assert set(entries(loaded(tmp_path / "words", "import", *CONNECT, *words)[0])) == {"shop.orders"}
    script = tmp_path / "nightly.sh"
    lines = ("SQOOP_HOME=/usr/lib/sqoop", "hdfs dfs -rm -r /raw/sqoop-import", f"$SQOOP_HOME/bin/sqoop list-tables {' '.join(CONNECT)}")
    script.write_text("\n".join((*lines, f"sqoop import {' '.join((*CONNECT, *words))}")))
    pipeline, text, _ = loaded(tmp_path / "script", file=str(script))
    assert set(entries(pipeline)) == {"shop.orders"}
    assert "line 3: 'sqoop list-tables' is no import" in text


def test_saved_jobs_that_are_no_imports_are_passed_over_and_named(tmp_path: Path) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(JOB + JOB.replace("Job: orders", "Job: back").replace("Tool: import", "Tool: export"))
    pipeline, text, _ = loaded(tmp_path / "pipelines", file=str(file))
    assert set(entries(pipeline)) == {"public.orders"}
    assert "job back: 'sqoop export' is no import" in text
    file.write_text(JOB.replace("Tool: import", "Tool: export"))
    refused = imported(tmp_path / "none", file=str(file))
    assert refused.exit_code == 2
    assert "job orders: 'sqoop export' is no import" in " ".join(refused.output.split())


def test_a_table_that_is_left_out_of_all_and_imported_by_itself_has_one_entry(tmp_path: Path) -> None:
    script = tmp_path / "nightly.sh"
    lines = ("import --table orders --incremental append --check-column id", "import-all-tables --exclude-tables orders,log")
    script.write_text("\n".join(f"sqoop {line} {' '.join(CONNECT)}" for line in lines))
    pipeline, _, _ = loaded(tmp_path / "pipelines", file=str(script))
    found = {rule.pattern: (rule.exclude, rule.settings.load.cursor) for rule in pipeline.tables}
    assert found == {"shop.orders": (False, ("id",)), "shop.*": (False, ()), "shop.log": (True, ())}


def test_a_dollar_that_the_shell_leaves_alone_is_a_part_of_a_name(tmp_path: Path) -> None:
    script = tmp_path / "nightly.sh"
    script.write_text(f"sqoop import {' '.join(CONNECT)}?password=$PASSWORD --table 'a$b' --last-value $LAST")
    assert set(entries(loaded(tmp_path / "pipelines", file=str(script))[0])) == {"shop.a$b"}


def test_a_condition_with_a_variable_of_the_shell_is_not_translated() -> None:
    for kind in (SourceKind.MYSQL, SourceKind.POSTGRES):
        assert row_filter("id > 7 AND $COLUMN = 5", kind).deletes == ""


def test_columns_without_a_merge_key_come_with_a_remark_on_the_primary_key(tmp_path: Path) -> None:
    words = ("import", *CONNECT, "--table", "orders", "--columns", "name,amount")
    assert "Its columns must be among them" in loaded(tmp_path / "without", *words)[2]
    assert "must be among them" not in loaded(tmp_path / "with", *words, "--merge-key", "id")[2]


def test_postgres_folds_the_names_of_a_query_unless_they_are_quoted() -> None:
    found = simple_query('SELECT ID, "Name" FROM Sales.Orders WHERE $CONDITIONS', SourceKind.POSTGRES)
    assert found is not None
    assert (found.schema, found.table, found.columns) == ("sales", "orders", ("id", "Name"))


def test_a_comment_in_a_condition_is_not_carried_over(tmp_path: Path) -> None:
    pipeline, _, _ = loaded(tmp_path, "import", *CONNECT, "--table", "orders", "--where", "a = 1 /* one */ -- x")
    assert entries(pipeline)["shop.orders"]["deletes"] == "NOT COALESCE(a = 1, FALSE)"
    query = simple_query("SELECT * FROM a WHERE id > 7 /* x */ AND $CONDITIONS -- y", SourceKind.MYSQL)
    assert query is not None
    assert query.where == "id > 7"


@pytest.mark.parametrize("name", ["target-dir", "warehouse-dir"])
def test_the_login_of_a_folder_is_forgotten(tmp_path: Path, name: str) -> None:
    folder = "s3n://hunter1:hunt/er2@lake/raw/orders"
    _, text, said = loaded(tmp_path / "words", "import", *CONNECT, "--table", "orders", f"--{name}", folder)
    job = tmp_path / "job.txt"
    job.write_text(JOB + f"hdfs.{name.replace('-', '.')} = {folder}\n")
    _, of_job, said_of_job = loaded(tmp_path / "job", file=str(job))
    for one in (text, of_job):
        assert 'root: "s3a://lake/raw' in one
    assert "hunt" not in text + said + of_job + said_of_job


def test_a_file_that_would_not_load_is_named_as_it_would_have_been(tmp_path: Path) -> None:
    for index, problem in enumerate((("--name", "2024"), ("--root", "s3n://lake/x:KEY@y/hunter2", "--connection", "no id"))):
        refused = imported(tmp_path / "new", "import", *CONNECT, "--table", "orders", options=problem)
        assert refused.exit_code == 2
        assert str(tmp_path / "new" / ("2024.yaml" if index == 0 else "shop.yaml")) in refused.output.replace("\n", "")
        assert "cdc-ops-" not in refused.output
    assert not (tmp_path / "new").exists()


def test_of_an_unknown_word_with_one_hyphen_only_the_letter_is_shown(tmp_path: Path) -> None:
    _, text, said = loaded(tmp_path, "import", *CONNECT, "--table", "orders", "-phunter2", *LASTMODIFIED)
    assert "hunter" not in text + said
    assert "-p: Sqoop's import has no such option" in text


@pytest.mark.parametrize("login", ["etl:hunter@2@", "etl:hun,ter@", "etl:@hunter:2@"])
def test_a_password_in_the_url_with_signs_of_urls_is_not_shown(tmp_path: Path, login: str) -> None:
    result = imported(tmp_path, "import", "--connect", f"jdbc:mysql://{login}h:3307/shop", "--table", "orders")
    assert all(part not in result.output for part in ("hunter", "2@", "hun", "ter@"))
    assert result.exit_code == 2 or "mysql://USER:PASSWORD@h:3307/shop" in result.output


def test_every_option_is_either_carried_over_or_left_out_with_a_reason() -> None:
    assert CARRIED.isdisjoint(LEFT_OUT)
    assert SECRET - {"D"} < KNOWN
    assert all(reason.endswith(".") for reason in LEFT_OUT.values())
