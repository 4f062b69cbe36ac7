"""GTID sets of MySQL, positions of MariaDB, and the proof by what files say came before them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.archive.completeness import check_completeness
from cdc_ops.core.archive.gtids import GtidFile, GtidSet, mariadb_covers, parse_mariadb, parse_mysql, prove_gtids
from cdc_ops.core.archive.offsets import AcceptedGap
from cdc_ops.errors import RequestError

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def file(name: str, before: str, holds: str) -> GtidFile:
    return GtidFile(file=name, before=parse_mysql(before), holds=parse_mysql(holds))


def test_a_set_is_read_and_written_as_mysql_does() -> None:
    text = f"{A.upper()}:1-5:7:9-9,\n {B}:3"
    assert str(parse_mysql(text)) == f"{A}:1-5:7:9,{B}:3"
    assert str(parse_mysql(f"{A}:3:1-2:3-4")) == f"{A}:1-4"
    assert parse_mysql("") == GtidSet()


def test_a_tag_makes_a_sequence_of_its_own() -> None:
    assert str(parse_mysql(f"{A}:1-3:nightly:1-2:4")) == f"{A}:1-3,{A}:nightly:1-2:4"


@pytest.mark.parametrize("text", ["nonsense", f"{A}:", f"{A}:0-3", f"{A}:a", f"{A}:1-x", f":{A}"])
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="no GTID set"):
        parse_mysql(text)


SETS = st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 20), st.integers(0, 6)), max_size=5)


def build(parts: list[tuple[str, int, int]]) -> tuple[GtidSet, set[tuple[str, int]]]:
    text = ",".join(f"{name}:{low}-{low + length}" for name, low, length in parts)
    return parse_mysql(text), {(name, at) for name, low, length in parts for at in range(low, low + length + 1)}


@given(left=SETS, right=SETS)
def test_sets_behave_like_sets(left: list[tuple[str, int, int]], right: list[tuple[str, int, int]]) -> None:
    (one, plain_one), (other, plain_other) = build(left), build(right)

    def members(found: GtidSet) -> set[tuple[str, int]]:
        return {(name, at) for name, intervals in found.sources for low, high in intervals for at in range(low, high)}

    assert members(one | other) == plain_one | plain_other
    assert members(one - other) == plain_one - plain_other
    assert (one <= other) == (plain_one <= plain_other)
    assert parse_mysql(str(one)) == one


def test_files_follow_each_other_by_what_came_before_them() -> None:
    files = [file("b3", f"{A}:1-20", f"{A}:21-30"), file("b2", f"{A}:1-10", f"{A}:11-20")]
    proof = prove_gtids(parse_mysql(f"{A}:1-10"), files)
    assert (str(proof.to), proof.files, proof.gaps) == (f"{A}:1-30", ("b2", "b3"), ())


def test_a_missing_file_is_named_by_its_transactions_and_not_by_those_that_only_wait() -> None:
    files = [file("b3", f"{A}:1-20", f"{A}:21-30"), file("b4", f"{A}:1-30", f"{A}:31-40")]
    proof = prove_gtids(parse_mysql(f"{A}:1-10"), files)
    assert str(proof.to) == f"{A}:1-10"
    assert [(gap.stream, gap.low, gap.high, gap.before_file) for gap in proof.gaps] == [(A, (11,), (21,), "b3")]


def test_numbers_that_no_server_used_are_no_gap() -> None:
    files = [file("b2", f"{A}:1-10", f"{A}:15-20"), file("b3", f"{A}:1-10:15-20", f"{A}:21")]
    assert prove_gtids(parse_mysql(f"{A}:1-10"), files).gaps == ()


def test_a_failover_continues_with_the_other_servers_numbers() -> None:
    files = [file("new.000001", f"{A}:1-10", f"{A}:11,{B}:1-5")]
    assert str(prove_gtids(parse_mysql(f"{A}:1-10"), files).to) == f"{A}:1-11,{B}:1-5"


def test_an_accepted_range_lets_the_files_behind_it_follow() -> None:
    decision = AcceptedGap(stream=A, low=(11,), high=(21,), who="ops", at=NOON, why="lost")
    proof = prove_gtids(parse_mysql(f"{A}:1-10"), [file("b3", f"{A}:1-20", f"{A}:21-30")], accepted=(decision,))
    assert (str(proof.to), proof.gaps) == (f"{A}:1-30", ())


def test_files_that_wait_for_each_other_are_a_gap_too() -> None:
    files = [file("x", f"{A}:2", f"{A}:1"), file("y", f"{A}:1", f"{A}:2")]
    assert len(prove_gtids(GtidSet(), files).gaps) == 2


@given(cuts=st.lists(st.integers(1, 5), min_size=1, max_size=8), lost=st.sets(st.integers(0, 7)), data=st.data())
def test_order_and_duplicates_of_files_change_nothing_and_lost_files_are_never_passed(
    cuts: list[int], lost: set[int], data: st.DataObject
) -> None:
    files, at = [], 1
    for index, length in enumerate(cuts):
        before = f"{A}:1-{at - 1}" if at > 1 else ""
        files.append(file(f"b{index}", before, f"{A}:{at}-{at + length - 1}"))
        at += length
    left = [item for index, item in enumerate(files) if index not in lost]
    mixed = data.draw(st.permutations(left + data.draw(st.lists(st.sampled_from(left), max_size=4)) if left else []))
    proof = prove_gtids(GtidSet(), mixed)
    assert (proof.to, proof.gaps) == (prove_gtids(GtidSet(), left).to, prove_gtids(GtidSet(), left).gaps)
    whole = GtidSet()
    for index, item in enumerate(files):
        if index in lost:
            break
        whole = whole | item.holds
    assert proof.to == whole
    assert bool(proof.gaps) == any(index not in lost for index in range(min(lost, default=99), len(files)))


def test_mariadb_counts_per_domain_whichever_server_wrote() -> None:
    assert parse_mariadb("0-1-100, 0-2-99,1-1-7") == {0: 100, 1: 7}
    for wrong in ("0-1", "a-b-c"):
        with pytest.raises(RequestError, match="no GTID set"):
            parse_mariadb(wrong)


def test_mariadb_files_prove_each_domain_alone() -> None:
    covers = [*mariadb_covers("b2", "0-1-10,1-1-5", "0-2-20,1-1-5"), *mariadb_covers("b3", "0-2-20,1-1-8", "0-2-30,1-1-9")]
    zero, one = check_completeness("domain 0", (11,), covers), check_completeness("domain 1", (6,), covers)
    assert (zero.to, zero.gaps) == ((31,), ())
    assert [(gap.low, gap.high, gap.before_file) for gap in one.gaps] == [((6,), (9,), "b3")]
