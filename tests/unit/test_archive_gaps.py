"""The proof that nothing is missing: the same answer in any order, and never a watermark beyond a missing position."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core import json_codec
from cdc_ops.core.archive.completeness import GapRecord, GapStatus, check_completeness, covers_of, gap_error, origin
from cdc_ops.core.archive.file_names import Layout, Parsed, parse_name
from cdc_ops.core.archive.watermarks import (
    AcceptedGap,
    ArchiveWatermark,
    Gap,
    OffsetRange,
    PartitionWatermark,
    Position,
    advanced,
    format_position,
    parse_position,
)
from cdc_ops.core.schema.tables import TableName

STREAM = "orders/0"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def cover(low: int, high: int | None, file: str = "") -> OffsetRange:
    return OffsetRange(file=file or f"f{low}-{high}", stream=STREAM, low=(low,), high=None if high is None else (high,))


def accepted(low: int, high: int) -> AcceptedGap:
    return AcceptedGap(stream=STREAM, low=(low,), high=(high,), who="ops", at=NOON, why="the topic had expired")


def missing(
    *covers: OffsetRange, watermark: int | None = 0, decisions: tuple[AcceptedGap, ...] = (), max_offset_gap: int = 0
) -> tuple[object, ...]:
    proof = check_completeness(
        STREAM, None if watermark is None else (watermark,), covers, accepted=decisions, max_offset_gap=max_offset_gap
    )
    return (proof.to[0], [(gap.low[0], gap.high[0]) for gap in proof.gaps])


def test_files_that_touch_are_complete_to_the_end_of_the_last() -> None:
    assert missing(cover(0, 100), cover(100, 150), cover(150, 151)) == (151, [])


def test_a_gap_says_exactly_what_is_missing_and_between_which_files() -> None:
    proof = check_completeness(STREAM, (0,), [cover(0, 100, "a"), cover(120, 150, "b"), cover(160, 170, "c")])
    assert proof.to == (100,)
    assert proof.gaps == (
        Gap(stream=STREAM, low=(100,), high=(120,), after_file="a", before_file="b"),
        Gap(stream=STREAM, low=(150,), high=(160,), after_file="b", before_file="c"),
    )
    assert str(proof.gaps[0]) == "orders/0: 100 up to, not including, 120 (after a, before b)"
    error = gap_error("shop.orders", proof.gaps, (proof.reached,))
    assert "100 up to, not including, 120" in str(error)
    assert "complete up to orders/0 100" in str(error)


def test_a_gap_right_behind_the_watermark_is_one() -> None:
    assert missing(cover(60, 100), watermark=50) == (50, [(50, 60)])


def test_overlaps_and_duplicates_of_a_rotated_sink_are_no_gap() -> None:
    assert missing(cover(0, 100), cover(50, 150), cover(50, 150, "again"), cover(100, 120)) == (150, [])


def test_files_below_the_watermark_prove_nothing_and_break_nothing() -> None:
    assert missing(cover(0, 10), cover(20, 30), watermark=50) == (50, [])


def test_a_file_in_which_the_watermark_lies_is_enough() -> None:
    assert missing(cover(40, 60), watermark=50) == (60, [])


def test_an_empty_file_says_where_it_begins_and_holds_nothing() -> None:
    assert missing(cover(0, 10), cover(10, 10)) == (10, [])
    assert missing(cover(0, 10), cover(12, 12)) == (10, [(10, 12)])


def test_an_unread_file_may_hold_what_is_missing_behind_it_and_nothing_before_it() -> None:
    assert missing(cover(0, 10), cover(10, None), cover(50, 60)) == (10, [])
    assert missing(cover(0, 10), cover(20, None), cover(50, 60)) == (10, [(10, 20)])
    proof = check_completeness(STREAM, (0,), [cover(0, 10), cover(10, None, "u"), cover(50, 60)])
    assert proof.unread == ("u",)


def test_what_is_known_moves_the_watermark_although_an_old_file_is_unread() -> None:
    assert missing(cover(3, None), cover(0, 10), cover(10, 20)) == (20, [])


def test_without_a_watermark_a_stream_begins_with_its_first_file() -> None:
    assert missing(cover(500, 510), cover(510, 520), watermark=None) == (520, [])


def test_holes_by_nature_are_passed_only_up_to_the_size_that_was_allowed() -> None:
    assert missing(cover(0, 10), cover(12, 20)) == (10, [(10, 12)])
    assert missing(cover(0, 10), cover(12, 20), max_offset_gap=2) == (20, [])
    assert missing(cover(0, 10), cover(13, 20), max_offset_gap=2) == (10, [(10, 13)])
    proof = check_completeness(STREAM, (0,), [cover(0, 10, "a"), cover(12, 20, "b")], max_offset_gap=2)
    assert proof.holes == (Gap(stream=STREAM, low=(10,), high=(12,), after_file="a", before_file="b"),)


def test_a_decision_gives_up_its_range_and_nothing_else() -> None:
    files = (cover(0, 10), cover(20, 30))
    assert missing(*files, decisions=(accepted(10, 20),)) == (30, [])
    assert missing(*files, decisions=(accepted(5, 40),)) == (30, [])
    assert missing(*files, decisions=(accepted(12, 20),)) == (10, [(10, 12)])
    assert missing(*files, decisions=(accepted(10, 13), accepted(15, 20))) == (13, [(13, 15)])
    other = AcceptedGap(stream="orders/1", low=(10,), high=(20,), who="ops", at=NOON, why="x")
    assert missing(*files, decisions=(other,)) == (10, [(10, 20)])


def test_a_decision_alone_moves_no_watermark() -> None:
    assert missing(cover(0, 10), decisions=(accepted(10, 20),)) == (10, [])


def test_a_decision_that_was_relied_on_travels_in_the_watermark_and_survives_the_wire() -> None:
    proof = check_completeness(STREAM, (0,), [cover(0, 10), cover(20, 30)], accepted=(accepted(10, 20), accepted(90, 95)))
    assert proof.used == (accepted(10, 20),)
    before = ArchiveWatermark(streams=(PartitionWatermark(stream="orders/1", to=(7,)),), accepted=(accepted(1, 2),))
    after = advanced(before, (proof.reached,), proof.used)
    assert after.streams == (PartitionWatermark(stream="orders/0", to=(30,)), PartitionWatermark(stream="orders/1", to=(7,)))
    assert after.accepted == (accepted(1, 2), accepted(10, 20))
    assert json_codec.loads(ArchiveWatermark, json_codec.dumps(after)) == after
    assert advanced(after, (PartitionWatermark(stream=STREAM, to=(5,)),)) == after


# ---------------------------------------------------------------------------------------------- names


def parsed(*paths: str, layout: Layout = Layout.BINLOG) -> list[Parsed]:
    return [parse_name(layout, path) for path in paths]


def binlog_proof(*paths: str, watermark: tuple[int, int], ended: frozenset[str] = frozenset()) -> tuple[object, ...]:
    proof = check_completeness("mysql-bin", watermark, covers_of(parsed(*paths), {}, ended))  # type: ignore[arg-type]
    return (proof.to, [(gap.low, gap.high) for gap in proof.gaps], proof.unread)


def test_binlogs_follow_by_number_across_the_number_of_digits() -> None:
    answer = binlog_proof("mysql-bin.1000000", "mysql-bin.999999", "mysql-bin.999998", watermark=(999998, 4711))
    assert answer == ((1000000, 0), [], ("mysql-bin.1000000",))


def test_a_binlog_is_whole_if_it_was_closed_or_the_next_one_is_there() -> None:
    assert binlog_proof("mysql-bin.000001", watermark=(1, 4))[0] == (1, 4)
    assert binlog_proof("mysql-bin.000001", watermark=(1, 4), ended=frozenset({"mysql-bin.000001"}))[0] == (2, 0)


def test_a_binlog_that_is_missing_is_a_gap_also_the_rest_of_the_one_that_was_being_read() -> None:
    assert binlog_proof("mysql-bin.000001", "mysql-bin.000003", watermark=(1, 4))[:2] == ((2, 0), [((2, 0), (3, 0))])
    assert binlog_proof("mysql-bin.000003", watermark=(2, 900))[:2] == ((2, 900), [((2, 900), (3, 0))])


def test_no_hole_is_natural_in_binlogs() -> None:
    covers = covers_of(parsed("mysql-bin.000001", "mysql-bin.000003"), {}, frozenset({"mysql-bin.000001"}))  # type: ignore[arg-type]
    assert check_completeness("mysql-bin", (1, 0), covers, max_offset_gap=1000).gaps


def test_the_name_of_a_sinks_file_does_not_say_where_it_ends_and_its_contents_do() -> None:
    names = parsed("orders+0+0000000000.json", "orders+0+0000000100.json", layout=Layout.KAFKA_CONNECT)
    assert [item.high for item in covers_of(names, {})] == [None, None]  # type: ignore[arg-type]
    first = cover(0, 97, "orders+0+0000000000.json")
    covers = covers_of(names, {first.file: (first,)})  # type: ignore[arg-type]
    assert [(gap.low, gap.high) for gap in check_completeness(STREAM, (0,), covers).gaps] == [((97,), (100,))]


def test_a_partition_that_appears_later_begins_with_its_first_offset() -> None:
    name = parsed("orders/partition=1/orders+1+0000000050.json", layout=Layout.KAFKA_CONNECT)[0]
    begun = ArchiveWatermark(streams=(PartitionWatermark(stream="orders/0", to=(5,)),))
    assert origin(name, begun) == (0,)  # type: ignore[arg-type]
    assert origin(name, ArchiveWatermark()) is None  # type: ignore[arg-type]


def test_a_gap_has_the_same_name_wherever_it_is_found() -> None:
    gap = Gap(stream=STREAM, low=(10,), high=(20,), before_file="b")
    one, other = (
        GapRecord(pipeline="p", table=TableName(schema="s", name="t"), gap=item, status=GapStatus.OPEN, found_at=NOON)
        for item in (gap, Gap(stream=STREAM, low=(10,), high=(20,), before_file="another"))
    )
    assert one.gap_id == other.gap_id
    assert json_codec.loads(GapRecord, json_codec.dumps(one)) == one


@pytest.mark.parametrize("text", ["", "x", "1:", "-1", "1:-2"])
def test_a_position_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal|is negative"):
        parse_position(text)


def test_positions_are_written_the_way_they_are_read() -> None:
    assert [parse_position(format_position(position)) for position in ((5,), (123, 4))] == [(5,), (123, 4)]


# ---------------------------------------------------------------------------------------------- properties

SPANS = st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda pair: cover(pair[0], pair[0] + pair[1]))
UNREAD = st.integers(0, 40).map(lambda low: cover(low, None))
DECISIONS = st.tuples(st.integers(0, 40), st.integers(1, 8)).map(lambda pair: accepted(pair[0], pair[0] + pair[1]))


@given(files=st.lists(SPANS | UNREAD, max_size=12), decisions=st.lists(DECISIONS, max_size=3), watermark=st.integers(0, 40), data=st.data())
def test_the_answer_does_not_depend_on_order_or_duplicates(
    files: list[OffsetRange], decisions: list[AcceptedGap], watermark: int, data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(files), max_size=8)) if files else []
    mixed = data.draw(st.permutations(files + again))
    turned = data.draw(st.permutations(decisions))
    assert check_completeness(STREAM, (watermark,), mixed, accepted=turned) == check_completeness(
        STREAM, (watermark,), files, accepted=decisions
    )


@given(files=st.lists(SPANS | UNREAD, max_size=12), decisions=st.lists(DECISIONS, max_size=3), watermark=st.integers(0, 40))
def test_the_watermark_never_passes_a_position_that_no_file_covers(
    files: list[OffsetRange], decisions: list[AcceptedGap], watermark: int
) -> None:
    proof = check_completeness(STREAM, (watermark,), files, accepted=decisions)
    held = {at for item in files if item.high is not None for at in range(item.low[0], item.high[0])}
    given_up = {at for item in decisions for at in range(item.low[0], item.high[0])}
    assert all(at in held or at in given_up for at in range(watermark, proof.to[0]))
    assert proof.to >= proof.start


@given(files=st.lists(SPANS, min_size=1, max_size=12), watermark=st.integers(0, 40))
def test_gaps_are_exactly_what_no_file_covers_before_the_last_one(files: list[OffsetRange], watermark: int) -> None:
    proof = check_completeness(STREAM, (watermark,), files)
    held = {at for item in files if item.high is not None for at in range(item.low[0], item.high[0])}
    last = max((max(item.low[0], (item.high or item.low)[0]) for item in files), default=0)
    assert [at for gap in proof.gaps for at in range(gap.low[0], gap.high[0])] == [at for at in range(watermark, last) if at not in held]


@given(ends=st.lists(st.integers(1, 9), min_size=1, max_size=10), data=st.data())
def test_any_cut_of_a_history_into_batches_ends_at_the_same_watermark(ends: list[int], data: st.DataObject) -> None:
    files, at = [], 0
    for length in ends:
        files.append(cover(at, at + length))
        at += length
    position: Position = (0,)
    left = data.draw(st.permutations(files))
    arrived: list[OffsetRange] = []
    while left:
        count = data.draw(st.integers(1, len(left)))
        arrived, left = [*arrived, *left[:count]], left[count:]
        position = check_completeness(STREAM, position, arrived).to
    assert position == (at,)


def test_an_accepted_gap_before_a_later_open_one_is_passed_and_the_open_one_stops() -> None:
    files = [cover(0, 10), cover(20, 30), cover(40, 50), cover(60, 70)]
    decisions = (accepted(50, 60), accepted(10, 20), accepted(1, 3))
    proof = check_completeness(STREAM, (5,), files, accepted=decisions)
    assert (proof.to, [(gap.low, gap.high) for gap in proof.gaps]) == ((30,), [((30,), (40,))])
    assert proof.used == (accepted(10, 20),), "neither what lies before the watermark nor what lies behind the open gap was relied on"
    assert missing(*files, decisions=(accepted(30, 40),), watermark=5) == (10, [(10, 20), (50, 60)])
    assert missing(*files, decisions=(accepted(10, 20), accepted(30, 40)), watermark=5) == (50, [(50, 60)])
