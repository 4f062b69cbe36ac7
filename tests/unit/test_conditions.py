"""Conditions in pipeline files: what is let through to Spark, and what is refused before."""

import pytest

from cdc_ops.core.schema.sql_conditions import check_condition
from cdc_ops.errors import ConfigError

COLUMNS = ("id", "is_deleted", "Status", "deleted_at", "date", "we`ird")


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
    ],
)
def test_what_is_no_condition_on_the_columns_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_condition("apply_as_deletes", text, COLUMNS)
    assert why in str(caught.value)
