"""Comparing by checksums: what differs is found, and too many deletes are stopped."""

import re

import pytest

from cdc_ops.core.operation.run_request import Accepts, AskedComparison, RunKind, RunRequest
from cdc_ops.core.reconcile.diff import CompareLevel, DeleteGuard, added, differing, parse_accepted
from cdc_ops.core.reconcile.key_buckets import Buckets
from cdc_ops.core.reconcile.row_text import spark_text
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.errors import DeletesRefusedError, RequestError
from cdc_ops.sources.checksums import DigestSql, PostgresDigestSql
from cdc_ops.sources.postgres.dialect import PostgresDialect
from cdc_ops.sources.sql.dialect import Dialect


def column(source_type: str, delta_type: str) -> Column:
    return Column(name="c", source_type=source_type, delta_type=delta_type, nullable=True, expression="`c`")


def test_a_bucket_differs_by_rows_by_checksum_or_by_being_on_one_side_only() -> None:
    buckets = Buckets(keys=("id",), count=9, low=0, width=1)
    source = added([(1, 2, 10), (2, 1, 5), (2, 1, 6), (3, 1, 7), (4, 2, 8)])
    lake = added([(1, 2, 10), (2, 2, 11), (3, 1, 8), (4, 1, 8), (5, 1, 1)])
    assert differing(buckets, source, lake).members == (3, 4, 5)


@pytest.mark.parametrize(
    ("guard", "deletes", "rows", "allowed"),
    [
        (DeleteGuard(), 100, 1_000, True),
        (DeleteGuard(), 101, 1_000, False),
        (DeleteGuard(), 9, 10, True),
        (DeleteGuard(), 10, 10, False),
        (DeleteGuard(max_rows=5), 6, 1_000, False),
        (DeleteGuard(max_rows=5, accepted=6), 6, 1_000, True),
        (DeleteGuard(accepted=6), 700, 1_000, False),
        (DeleteGuard(max_ratio=1.0), 1_000, 1_000, True),
        (DeleteGuard(accepted_ratio=0.3), 300, 1_000, True),
        (DeleteGuard(accepted_ratio=0.3), 301, 1_000, False),
        (DeleteGuard(max_rows=5, accepted_ratio=0.3), 300, 1_000, True),
        (DeleteGuard(accepted_ratio=1.0), 1_000, 1_000, True),
        (DeleteGuard(approved=500, approved_of=1_000_000), 500, 1_000_000, True),
        (DeleteGuard(approved=500, approved_of=1_000_000), 500, 600, False),
        (DeleteGuard(approved=70, approved_of=100), 70, 100, True),
        (DeleteGuard(approved=70, approved_of=100), 71, 200, False),
        (DeleteGuard(approved=70, approved_of=100), 70, 91, True),
        (DeleteGuard(approved=70, approved_of=100), 70, 90, False),
        (DeleteGuard(approved=100, approved_of=100), 60, 60, True),
        (DeleteGuard(accepted=500, approved=70, approved_of=100), 500, 600, True),
    ],
)
def test_deletes_are_allowed_up_to_the_limits_or_to_what_was_accepted(guard: DeleteGuard, deletes: int, rows: int, allowed: bool) -> None:
    assert guard.allows(deletes, rows) is allowed


def test_a_refusal_says_how_many_which_and_how_to_accept_them() -> None:
    with pytest.raises(DeletesRefusedError) as caught:
        DeleteGuard().check(2_000, 3_000, ["1", "2"], pipeline="shop", table="shop.orders")
    assert "2,000 of 3,000 rows of shop.orders" in str(caught.value)
    assert "1; 2" in str(caught.value)
    assert "cdc-ops reconcile --pipeline shop --table shop.orders --accept-deletes 74%" in caught.value.next
    assert not caught.value.retryable


def test_a_refusal_after_an_approval_says_what_was_approved_of_how_many_rows() -> None:
    with pytest.raises(DeletesRefusedError) as caught:
        DeleteGuard(approved=500, approved_of=1_000_000).check(500, 600, ["1"], pipeline="shop", table="shop.orders")
    assert "500 deletes of 1,000,000 rows were approved" in caught.value.why


@pytest.mark.parametrize(("deletes", "rows"), [(101, 1_000), (273, 1_000), (299, 1_000), (2_000, 3_000), (11, 11), (6, 1_000_000)])
def test_what_a_refusal_offers_is_enough_when_the_source_has_moved_on(deletes: int, rows: int) -> None:
    with pytest.raises(DeletesRefusedError) as caught:
        DeleteGuard(max_ratio=0.0, max_rows=5 if deletes > 5 else 0).check(deletes, rows, [], pipeline="p", table="s.t")
    found = re.search(r"--accept-deletes (\S+)", caught.value.next)
    assert found is not None
    number, ratio = parse_accepted(found[1])
    guard = DeleteGuard(max_ratio=0.0, max_rows=5, accepted=number, accepted_ratio=ratio)
    assert guard.allows(min(deletes + deletes // 20, rows), rows)


@pytest.mark.parametrize(
    ("text", "read"), [("", (0, 0.0)), ("0", (0, 0.0)), ("500", (500, 0.0)), ("30%", (0, 0.3)), (" 12.5 % ", (0, 0.125))]
)
def test_accepted_deletes_are_a_number_or_a_share(text: str, read: tuple[int, float]) -> None:
    assert parse_accepted(text) == read


@pytest.mark.parametrize("text", ["-1", "1e3", "0.3", "101%", "%", "30 percent", "all"])
def test_what_is_neither_a_number_nor_a_share_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="is not a number of deletes"):
        parse_accepted(text)


def test_floats_have_no_text_that_both_sides_share_on_any_server() -> None:
    schema = TableSchema(table=TableName(schema="s", name="t"), columns=(column("double", "double"),), primary_key=())
    assert spark_text(schema.columns[0]) is None
    assert DigestSql(Dialect()).undigestible(schema, ("c",)) == ("c",)
    assert PostgresDigestSql(PostgresDialect()).undigestible(schema, ("c",)) == ("c",)
    assert DigestSql(Dialect()).field(column("geometry", "binary")) is None


def test_a_bigint_is_summed_up_as_unsigned_only_while_the_source_declares_it_so() -> None:
    """A column that was unsigned when the table was loaded is stored as a decimal, also after it became signed at the source."""
    unsigned, signed = (DigestSql(Dialect()).field(column(declared, "decimal(20,0)")) or "" for declared in ("bigint unsigned", "bigint"))
    assert "AS UNSIGNED" in unsigned
    assert signed
    assert "AS UNSIGNED" not in signed


def test_a_reconcile_takes_no_range_and_accepts_deletes_of_one_table_only() -> None:
    def checked(kind: RunKind = RunKind.RECONCILE, tables: tuple[str, ...] = (), accept: int = 0, keys: bool = False) -> RunRequest:
        return RunRequest(
            run_id="r", trigger="t", holder="h", kind=kind, tables=tables, accepts=Accepts(deletes=accept), keys=(("1",),) if keys else ()
        ).checked()

    assert checked(tables=("s.t",), accept=5).accepts.deletes == 5
    for wrong in ({"accept": 5}, {"keys": True}, {"kind": RunKind.INCREMENT, "accept": 5}):
        with pytest.raises(RequestError):
            checked(**wrong)  # type: ignore[arg-type]
    with pytest.raises(RequestError):
        RunRequest(run_id="r", trigger="t", holder="h", compare=AskedComparison(strength=CompareLevel.ROWS)).checked()
