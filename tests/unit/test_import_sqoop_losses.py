"""What `import-sqoop` must not lose: tables and conditions, whichever way a script or a saved job writes them down."""

from pathlib import Path

import pytest

from cdc_ops.cli.sqoop.command_line import read_script
from cdc_ops.cli.sqoop.notes import Weight
from cdc_ops.cli.sqoop.row_filter import row_filter, simple_query
from cdc_ops.cli.sqoop.saved_job import read_saved_jobs
from cdc_ops.core.pipeline.pipeline import SourceKind
from cdc_ops.errors import RequestError

IMPORT = "sqoop import --connect jdbc:mysql://db/shop"


def tables(script: str) -> list[str]:
    return [one["table"] for one in read_script(script, Path()).imports]


def remarks(script: str) -> list[tuple[Weight, str]]:
    return [(note.weight, note.about) for note in read_script(script, Path()).notes]


def job(*properties: str, tool: str = "import") -> str:
    return "\n".join(("Job: daily", f"Tool: {tool}", "Options:", "-" * 28, "db.connect.string = jdbc:mysql://db/shop", *properties, ""))


def test_a_condition_of_several_lines_in_a_saved_job_is_read_to_its_end() -> None:
    lines = ("db.where.clause = region = 5", "   OR region = 6", "", "   OR", "   region = 7", "verbose = false", "db.table = orders")
    [found] = read_saved_jobs(job(*lines)).imports
    assert found["table"] == "orders"
    assert row_filter(found["where"], SourceKind.MYSQL).deletes == "NOT COALESCE(region = 5 OR region = 6 OR region = 7, FALSE)"


def test_a_query_of_several_lines_in_a_saved_job_is_read_to_its_end() -> None:
    [found] = read_saved_jobs(job("db.query = SELECT * FROM orders o", "  JOIN items i ON", "  i.id = o.id", "db.batch = false")).imports
    assert found["query"].endswith("i.id = o.id")
    assert simple_query(found["query"], SourceKind.MYSQL) is None


def test_what_stands_behind_the_dashes_of_a_saved_job_is_read() -> None:
    [found] = read_saved_jobs(job("db.table = orders", "tool.arguments.0 = --schema", "tool.arguments.1 = sales")).imports
    assert found.extra == ("--schema", "sales")


@pytest.mark.parametrize(
    "where", ["billing = shipping", "a in (b)", "a in (1, b)", "a between 1 and b", "a < -b", "a and b > 1", "1 = (a = b)"]
)
def test_a_condition_that_compares_columns_with_columns_is_not_carried_over(where: str) -> None:
    assert row_filter(where, SourceKind.MYSQL).certain is False


@pytest.mark.parametrize(
    "script",
    [
        f"{IMPORT} --table orders && {IMPORT} --table items",
        f"{IMPORT} --table orders&{IMPORT} --table items& wait",
        f"cd /tmp; {IMPORT} --table orders; {IMPORT} --table items",
        f"({IMPORT} --table orders) || exit 1\nif ! {IMPORT} --table items; then exit 1; fi",
        f"x=$({IMPORT} --table orders)\ny=`{IMPORT} --table items`",
        f"{IMPORT} \\\n  --table orders >>log 2>&1 || true\nnohup {IMPORT} --table items&>log",
        f"SQOOP=/opt/bin/sqoop\n{IMPORT} --table orders\n$SQOOP import --connect jdbc:mysql://db/shop --table items",
        f"{IMPORT} --table orders # of the day; it's && {IMPORT} --table no\n{IMPORT} --table items",
    ],
)
def test_every_call_on_a_line_is_read(script: str) -> None:
    assert tables(script) == ["orders", "items"]
    assert remarks(script) == []


def test_words_behind_a_redirection_still_belong_to_the_command() -> None:
    [found] = read_script(f"{IMPORT} 2> log --table orders", Path()).imports
    assert found["table"] == "orders"


@pytest.mark.parametrize(
    "hidden",
    [
        "bash -c 'sqoop import --table items --password hunter2'",
        'x="$(sqoop import --table items)"',
        "ssh edge sqoop-wrapper.sh import --table items",
        "CMD='sqoop -D a=b import --table items'; $CMD",
        'sqoop "$@"',
    ],
)
def test_a_call_that_cannot_be_read_is_named_first(hidden: str) -> None:
    script = f"{IMPORT} --table orders\n{hidden}"
    assert tables(script) == ["orders"]
    assert remarks(script) == [(Weight.LOSES, "line 2")]
    assert "hunter2" not in str(read_script(script, Path()).notes)


def test_a_hash_inside_a_word_begins_no_comment() -> None:
    [found] = read_script(f"{IMPORT} --password s3#cret --table a#b --where 'x # y' # --table no", Path()).imports
    assert (found["table"], found["where"]) == ("a#b", "x # y")


def test_a_quote_that_is_not_closed_is_refused_with_its_line() -> None:
    with pytest.raises(RequestError, match="line 2"):
        read_script(f"{IMPORT} --table a\n{IMPORT} --where 'b", Path())


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELECT * FROM f(5) WHERE $CONDITIONS", SourceKind.POSTGRES),
        ("SELECT * FROM t PARTITION (p0) WHERE $CONDITIONS", SourceKind.MYSQL),
        ("SELECT * FROM t TABLESAMPLE SYSTEM (5) WHERE $CONDITIONS", SourceKind.POSTGRES),
        ("SELECT * FROM ONLY t WHERE $CONDITIONS", SourceKind.POSTGRES),
        ("SELECT * FROM t WHERE $CONDITIONS OFFSET 2", SourceKind.POSTGRES),
        ("SELECT * FROM t AS x(a, b) WHERE $CONDITIONS", SourceKind.POSTGRES),
        ("WITH t AS (SELECT 1) SELECT * FROM t WHERE $CONDITIONS", SourceKind.MYSQL),
    ],
)
def test_a_query_that_reads_less_or_more_than_a_table_is_none(query: str, kind: SourceKind) -> None:
    assert simple_query(query, kind) is None
    assert simple_query("SELECT * FROM t WHERE $CONDITIONS ORDER BY id", kind) is not None
