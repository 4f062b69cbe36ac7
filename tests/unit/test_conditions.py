"""Conditions in pipeline files: what is let through to Spark, and what is refused before."""

import pytest

from cdc_ops.config.expressions.spark_conditions import check_condition, named_columns
from cdc_ops.errors import ConfigError

COLUMNS = ("id", "is_deleted", "Status", "deleted_at", "date", "we`ird", "操作", "net price", "a.b", "user", "values", "comment")


@pytest.mark.parametrize(
    "text",
    [
        "is_deleted = 1",
        "`is_deleted` = 1 OR status IN ('gone', 'it''s \\' over')",
        "deleted_at IS NOT NULL AND deleted_at > TIMESTAMP '2020-01-01 00:00:00'",
        "lower(trim(status)) LIKE 'del%'",
        "CAST(is_deleted AS STRING) = '1'",
        "date < date '2020-01-01'",
        "`we``ird` <=> 1.5e3",
        "CASE WHEN is_deleted > 0 THEN true ELSE false END",
        "deleted_at < timestamp_ntz'2020-01-01' + INTERVAL 3 DAYS",
        "`操作` = '删除' OR `net price` < 0 OR `a.b` <=> NULL",
        "status RLIKE '^[(]' OR status = ';' OR concat(status, '--', \"/*\") = ':x'",
        "exists(split(status, ','), word -> word = 'gone')",
        "timestampdiff(DAY, deleted_at, date) > 30 AND extract(YEAR FROM date) = 2020",
        "user = 'robot' OR comment = '' OR `values` = 1",
        "status = r'\\d' OR hex(id) = X'1F' OR id IN (1L, 2S, 1.5BD)",
        "TRY_CAST(status AS decimal(38, 10)) IS NOT DISTINCT FROM 1",
    ],
)
def test_conditions_over_columns_pass(text: str) -> None:
    check_condition("apply_as_deletes", text, COLUMNS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("is_delted = 1", "Did you mean 'is_deleted'?"),
        ("`is_delted` = 1", "Did you mean 'is_deleted'?"),
        ("s.is_deleted = 1", "no column 's'"),
        ("is_deleted = 1; DROP TABLE t", "';'"),
        ("is_deleted = 1 -- for now", "'--'"),
        ("is_deleted = (SELECT 1)", "'SELECT'"),
        ("(is_deleted = 1", "not closed"),
        ("is_deleted = 1)", "')'"),
        ("1 = 1", "does not name a column"),
        ("is_deleted = :one", "':'"),
        ("deleted_at < now()", "another value each time"),
        ("deleted_at < current_timestamp", "current_timestamp"),
        ("status = 'open", '"\'"'),
        ("status = `open", "'`' opens a text or a name that does not end"),
        ("is_deleted = 1 /* for now */", "a comment"),
        ("is_deleted = 1 /* for now", "A comment does not end"),
        ("CAST(is_deleted AS int", "not closed"),
        ("is_deleted =", "It ends too early, behind 'is_deleted ='"),
        ("is_deleted = 1 gone", "cannot contain 'gone' behind 'is_deleted = 1 '"),
        ("(is_deleted AS gone) = 1", "'AS'"),
        ("values = 1", "cannot contain 'values' at the start. A column whose name is a word of SQL stands in back-quotes"),
        ("if = 1", "stands in back-quotes"),
        ("is_deleted = ${gone}", "'$'"),
        ("is_deleted = {gone}", "'{'"),
        ("is_deleted = ?", "'?'"),
        ("is_deleted::int = 1", "':'"),
        ("count(*) > is_deleted", "'*'"),
        ("(FROM t) = is_deleted", "'SELECT'"),
        ("sum(is_deleted) OVER () > 1", "'OVER'"),
        ("unix_timestamp() > id", "another value each time"),
        ("f.gone(id)", "no column 'f'"),
        ("操作 = '删除'", "in back-quotes only: `操作`"),
        ("(" * 2000 + "id" + ")" * 2000, "nested too deeply"),
        ("  ", "It is empty"),
    ],
)
def test_what_is_no_condition_on_the_columns_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_condition("apply_as_deletes", text, COLUMNS)
    assert why in str(caught.value)


def test_the_columns_of_conditions_are_those_that_they_name_in_the_order_of_the_table() -> None:
    texts = ("`STATUS` = 'id' AND date(`we``ird`) > now()", "", "deleted_at =", "lower(`操作`) IN (`a.b`)")
    assert named_columns(texts, COLUMNS) == ("Status", "we`ird", "操作", "a.b")
