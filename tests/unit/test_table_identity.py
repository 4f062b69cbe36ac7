"""Another table under the name of the one that was copied: what counts as one, and what ends the suspicion."""

from dataclasses import replace
from typing import Any, cast

import pytest

from cdc_ops.core import json_codec
from cdc_ops.core.operation.commit_record import CommitRecord, commit_record
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.reads import CompareRead, KeysRead, Read
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.operation.table_state import TableState, adopted, committed, projected, rebuilt, unchanged
from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec, DeleteGuard
from cdc_ops.core.reconcile.key_buckets import BucketSelection
from cdc_ops.core.schema.table_identity import NO_IDENTITY, Sameness, TableIdentity, compare_identity
from cdc_ops.errors import TableReplacedError
from cdc_ops.steps.planning.request import new_operation
from cdc_ops.steps.table.identity import check_identity
from tests.lake_case import Case
from tests.unit.test_new_operations import NOW, order

OID, OTHER_OID = TableIdentity(made="16384", exact=True), TableIdentity(made="16402", exact=True)
MADE, REBUILT = TableIdentity(made="2026-01-01 00:00:00", server="a/1"), TableIdentity(made="2026-02-01 00:00:00", server="a/1")
ELSEWHERE = replace(REBUILT, server="b/2")


@pytest.mark.parametrize(
    ("recorded", "present", "expected"),
    [
        (OID, OID, Sameness.SAME),
        (OID, OTHER_OID, Sameness.OTHER),
        (MADE, MADE, Sameness.SAME),
        (MADE, replace(MADE, server="b/2"), Sameness.SAME),
        (MADE, REBUILT, Sameness.UNSURE),
        (replace(MADE, number="7"), replace(REBUILT, number="7"), Sameness.SAME),
        (replace(MADE, number="7"), replace(REBUILT, number="8"), Sameness.UNSURE),
        (replace(MADE, number="7"), replace(ELSEWHERE, number="7"), Sameness.UNKNOWN),
        (MADE, ELSEWHERE, Sameness.UNKNOWN),
        (OID, REBUILT, Sameness.UNKNOWN),
        (NO_IDENTITY, OID, Sameness.UNKNOWN),
        (MADE, NO_IDENTITY, Sameness.UNKNOWN),
    ],
)
def test_a_catalog_tells_tables_apart_only_by_what_it_knows(recorded: TableIdentity, present: TableIdentity, expected: Sameness) -> None:
    assert compare_identity(recorded, present) is expected


def asked(kind: RunKind, recorded: TableIdentity, present: TableIdentity) -> tuple[str, ...]:
    wanted = order()
    table, state = replace(wanted.source_table, identity=present), replace(wanted.state, identity=recorded)
    return check_identity(table, state, replace(wanted.run, kind=kind))


def test_an_increment_of_another_table_is_refused_and_what_reads_on_purpose_is_not() -> None:
    with pytest.raises(TableReplacedError) as caught:
        asked(RunKind.INCREMENT, OID, OTHER_OID)
    error = caught.value
    assert error.what.startswith("shop.orders is another table than the one that was copied: its oid is 16402; it was 16384.")
    assert all((error.why, error.data, error.next))
    for kind in RunKind:
        if kind is not RunKind.INCREMENT:
            assert asked(kind, OID, OTHER_OID) == asked(kind, MADE, REBUILT) == ()


def test_an_increment_of_what_may_be_another_table_goes_on_and_says_what_tells_it() -> None:
    [text] = asked(RunKind.INCREMENT, MADE, REBUILT)
    assert "was made anew or rebuilt on 2026-02-01 00:00:00 UTC" in text
    assert "cdc-ops reconcile --pipeline shop --table shop.orders --rows" in text
    for recorded, present in ((MADE, MADE), (MADE, ELSEWHERE), (NO_IDENTITY, OID), (OID, OID)):
        assert asked(RunKind.INCREMENT, recorded, present) == ()


def compared(strength: CompareLevel, scope: BucketSelection | None = None) -> CompareRead:
    guard = DeleteGuard(max_ratio=0.1, max_rows=10)
    compare = CompareSpec(strength=strength, buckets=None, readers=1, guard=guard, why="", scope=scope)
    return CompareRead(compare=compare, slices=())


def planned(read: Read, recorded: TableIdentity, present: TableIdentity, **run: Any) -> TableIdentity:
    wanted = order()
    request = replace(
        wanted,
        source_table=replace(wanted.source_table, identity=present),
        state=replace(wanted.state, identity=recorded),
        run=replace(wanted.run, **run),
    )
    return new_operation(request, OperationKind.RESYNC, NOW, read).source.identity


@pytest.mark.parametrize(("recorded", "present"), [(OID, OTHER_OID), (MADE, REBUILT)])
def test_only_what_reads_all_rows_or_compares_all_values_makes_the_lake_the_new_tables(
    recorded: TableIdentity, present: TableIdentity
) -> None:
    part, keys = cast(BucketSelection, object()), KeysRead(slices=())
    assert planned(keys, recorded, present) == recorded
    assert planned(compared(CompareLevel.KEYS), recorded, present) == recorded
    assert planned(compared(CompareLevel.ROWS, part), recorded, present) == recorded
    assert planned(compared(CompareLevel.ROWS), recorded, present) == present
    assert planned(compared(CompareLevel.WHOLE), recorded, present) == present
    assert planned(keys, recorded, present, mode=ResyncMode.FULL) == present


def test_what_cannot_be_compared_is_recorded_with_the_next_commit() -> None:
    keys = KeysRead(slices=())
    assert planned(keys, NO_IDENTITY, OID) == OID
    assert planned(keys, MADE, ELSEWHERE) == ELSEWHERE


def operation(number: int, identity: TableIdentity, read: Read | None = None) -> Operation:
    found = Case(root="/r").operation(number)
    return replace(found, source=replace(found.source, identity=identity), read=read or found.read)


def test_ledger_and_commits_carry_of_which_table_the_rows_are() -> None:
    state = TableState(pipeline="p", table=operation(1, OID).table)
    first, second = operation(1, OID), operation(2, OTHER_OID)
    assert committed(state, first, 1).identity == OID
    assert projected(state, (first, second)).identity == OTHER_OID
    record = commit_record(first, rows=1, package_version="1")
    assert rebuilt(json_codec.loads(CommitRecord, json_codec.dumps(record)), 1).identity == OID
    assert adopted(state, record, 1).identity == OID
    equal = operation(1, OTHER_OID, compared(CompareLevel.ROWS))
    assert unchanged(replace(state, identity=OID), equal).identity == OTHER_OID, "a comparison that finds nothing commits nothing"


def test_records_from_before_say_nothing_of_it() -> None:
    data = json_codec.to_data(commit_record(operation(1, OID), rows=1, package_version="1"))
    del data["identity"]
    record = json_codec.from_data(CommitRecord, data)
    assert record.columns.identity == NO_IDENTITY
    request = RunRequest(run_id="r", trigger="t", holder="h")
    table = replace(order().source_table, identity=OTHER_OID)
    assert check_identity(table, rebuilt(record, 1), request) == ()
