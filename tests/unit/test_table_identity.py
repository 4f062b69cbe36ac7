"""Another table under the name of the one that was copied, another server behind its address: what counts as one, and what settles it."""

from dataclasses import replace
from typing import Any, cast

import pytest

from cdc_ops.core import json_codec
from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.commit_record import CommitRecord, commit_record
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress, TableProgress
from cdc_ops.core.operation.protocol.table_state import TableState, adopted, committed, projected, rebuilt, unchanged
from cdc_ops.core.operation.reads import CompareRead, KeysRead, Read
from cdc_ops.core.operation.run_request import Accepts, ResyncMode, RunKind, RunRequest
from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec, DeleteGuard
from cdc_ops.core.reconcile.key_buckets import BucketSelection
from cdc_ops.core.schema.table_identity import NO_IDENTITY, Sameness, TableIdentity, compare_identity, has_moved, identity_after
from cdc_ops.errors import RequestError, SourceServerChangedError, TableReplacedError
from cdc_ops.steps.plan import TablePlan, observed_state
from cdc_ops.steps.planning.request import Draft, new_operation
from cdc_ops.steps.table.identity import check_identity, settled_identity, unsettled_warnings
from tests.lake_case import Case, watermark
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
    return check_identity(wanted.source, table, state, replace(wanted.run, kind=kind))


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
    assert check_identity(order().source, table, rebuilt(record, 1), request) == ()


def server(origin: str, *, server: str = "", made: str = "") -> TableIdentity:
    return TableIdentity(origin=origin, server=server, made=made)


ONE = server("server_id 1", server="a/1", made="2026-01-01 00:00:00")


@pytest.mark.parametrize(
    ("recorded", "present", "expected"),
    [
        (server("uuid-a"), server("uuid-b"), True),
        (server("uuid-a"), server("uuid-a"), False),
        (server(""), server("uuid-b"), False),  # the first run after an upgrade only records it
        (server("uuid-a"), server(""), False),
        (server("7/1", made="16384"), server("7/2", made="16384"), True),
        (server("uuid-a", server="a/1", made="x"), server("uuid-a", server="b/1", made="y"), False),
        (ONE, replace(ONE, server="b/1"), False),  # the same data in another container
        (ONE, replace(ONE, made="2026-02-01 00:00:00"), False),  # altered
        (ONE, replace(ONE, server="b/1", made="2026-02-01 00:00:00"), True),
        (ONE, replace(ONE, server="b/1", made=""), False),
        (replace(ONE, server="r/2"), replace(ONE, server="s/3", made="2026-02-01 00:00:00"), False),  # two replicas of the same server
    ],
)
def test_another_server_is_one_that_says_of_itself_that_it_is(recorded: TableIdentity, present: TableIdentity, expected: bool) -> None:
    assert has_moved(recorded, present) is expected


@pytest.mark.parametrize(
    ("recorded", "present", "settles"),
    [
        (server("a"), server("b"), ("whole", "accepted")),
        (replace(OID, origin="a"), replace(OTHER_OID, origin="b"), ("whole",)),
        (server("a"), server(""), ()),
    ],
)
def test_the_lake_is_of_the_new_server_once_all_is_compared_or_accepted(
    recorded: TableIdentity, present: TableIdentity, settles: tuple[str, ...]
) -> None:
    assert identity_after(recorded, present, whole=False) == recorded
    for how in ("whole", "accepted"):
        after = identity_after(recorded, present, **{"whole": False, "accepted": False} | {how: True})
        assert (after == present) is (how in settles)
        assert after.origin == (present.origin or recorded.origin)


def test_what_is_accepted_of_a_server_leaves_the_suspicion_of_another_table() -> None:
    suspected = replace(REBUILT, origin="b")
    assert identity_after(replace(MADE, origin="a"), suspected, whole=False, accepted=True) == replace(MADE, origin="b")


class Answering:
    """A source whose bound is so many seconds into the day of the watermark of `order`."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def safe_bound(self, schema: Any, cursor: Any, lookback: Any, since: Any) -> SafeBound:
        assert since is None, "a counter that has not moved would answer with the watermark"
        return SafeBound(value=watermark(self.seconds), clock=watermark(self.seconds), method="", observed_at=NOW)


def met(bound: int, *, accepted: bool = False, progress: TableProgress | None = None) -> tuple[str, ...]:
    wanted = order()
    table = replace(wanted.source_table, identity=server("b"))
    state = replace(wanted.state, identity=server("a"), progress=progress or wanted.state.progress)
    run = replace(wanted.run, kind=RunKind.INCREMENT, accepts=Accepts(server=accepted))
    return check_identity(cast(Any, Answering(bound)), table, state, run)


def test_an_increment_from_another_server_is_refused_unless_it_is_accepted_and_has_reached_the_watermark() -> None:
    with pytest.raises(SourceServerChangedError, match=r"it is b; it was a\.") as caught:
        met(9)
    assert "cdc-ops reconcile --pipeline shop --table shop.orders " in caught.value.next
    assert "--accept-server" in caught.value.next
    with pytest.raises(SourceServerChangedError, match="has not reached the watermark"):
        met(4, accepted=True)
    assert met(5, accepted=True) == ()
    first = SnapshotProgress(bound=watermark(5), done=1, total=2)
    assert met(9, progress=TableProgress(snapshot=first)) == (), "a snapshot goes on, and the first increment after it is refused"


@pytest.mark.parametrize(("bound", "settled"), [(4, False), (5, True)])
def test_a_comparison_settles_nothing_before_the_new_server_has_reached_the_watermark(bound: int, settled: bool) -> None:
    wanted, recorded, present = order(), server("a"), server("b")
    table, state = replace(wanted.source_table, identity=present), replace(wanted.state, identity=recorded)
    found = settled_identity(cast(Any, Answering(bound)), table, state, wanted.run, whole=True)
    assert found == (present if settled else recorded)
    assert bool(unsettled_warnings(table, (operation(1, found),))) is not settled
    assert unsettled_warnings(table, ()) == ()


def test_only_increments_take_a_server_for_granted() -> None:
    with pytest.raises(RequestError, match="Only an increment"):
        replace(order().run, kind=RunKind.RECONCILE, accepts=Accepts(server=True)).checked()


def test_a_table_that_has_nothing_new_records_its_server_all_the_same() -> None:
    state, found = order().state, server("a")
    bound = SafeBound(value=watermark(5), clock=watermark(5), method="", observed_at=NOW)
    plan = TablePlan(config=order().source_table.config, state=state, new=Draft(idle="nothing new", bound=bound), identity=found)
    assert observed_state(state, plan).identity == found
    assert observed_state(replace(state, identity=found), replace(plan, identity=None)).identity == found
    assert observed_state(state, replace(plan, unfinished=(operation(8, found),))).identity == NO_IDENTITY, "its commit does"
