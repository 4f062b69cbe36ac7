"""Places of events that turn back while the source's clock goes on: another server writes the log."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_ops.core.archive.file_names import KafkaName
from cdc_ops.core.archive.watermarks import ArchiveWatermark, LastEvent, PartitionWatermark, advanced
from cdc_ops.core.events.event_order import FilePositions, check_positions_advance
from cdc_ops.errors import ArchiveOrderError
from cdc_ops.events.scan.facts import Order, TableFacts
from cdc_ops.steps.log.event_order import check_order
from tests.lake_case import Case

BEFORE = (LastEvent(stream="t/0", place=(7, 500), at=datetime(2026, 1, 1, 12, 10, tzinfo=UTC)),)


def minute(number: int | None) -> datetime | None:
    return None if number is None else datetime(2026, 1, 1, 12, number, tzinfo=UTC)


def changes(file: str, place: tuple[int, ...], at: int | None, behind: int | None = None, stream: str = "t/0") -> FilePositions:
    return FilePositions(file=file, stream=stream, place=place, at=minute(at), behind_at=minute(behind))


def test_events_that_go_on_move_the_newest_change_of_their_stream() -> None:
    found = check_positions_advance(
        "shop", "s.t", [changes("a", (7, 900), 12), changes("b", (8, 4), 11), changes("c", (1, 1), 1, stream="t/1")], BEFORE
    )
    assert found == (
        LastEvent(stream="t/0", place=(8, 4), at=minute(12)),
        LastEvent(stream="t/1", place=(1, 1), at=minute(1)),
    )


def test_old_events_that_are_delivered_again_are_no_other_server() -> None:
    assert (
        check_positions_advance("shop", "s.t", [changes("a", (7, 300), 9, behind=9), changes("b", (7, 500), 10, behind=10)], BEFORE)
        == BEFORE
    )
    assert check_positions_advance("shop", "s.t", [changes("a", (7, 300), 9, behind=9)], BEFORE) == BEFORE


@pytest.mark.parametrize(
    "files",
    [
        [changes("a", (3, 40), 11, behind=11)],  # the whole file comes from it
        [changes("a", (7, 600), 12, behind=11)],  # it took over in the middle of the file
        [changes("a", (9, 4), 12), changes("b", (8, 700), 13)],  # it took over between two files of one batch
    ],
)
def test_a_server_that_counts_from_elsewhere_is_found_out(files: list[FilePositions]) -> None:
    with pytest.raises(ArchiveOrderError, match=r"Event positions of s\.t went backwards") as caught:
        check_positions_advance("shop", "s.t", files, BEFORE)
    assert "resync --pipeline shop --table s.t --mode full" in caught.value.next
    with pytest.raises(ArchiveOrderError) as caught:
        check_positions_advance("shop", "s.t", files, BEFORE, declared=True)
    assert "resync" not in caught.value.next, "there is no database to read from"


def test_without_times_nothing_can_be_told() -> None:
    assert check_positions_advance("shop", "s.t", [changes("a", (3, 40), None)], BEFORE)[0].place == (7, 500)


def test_the_newest_changes_stay_in_the_watermark_until_a_batch_moves_them() -> None:
    before = ArchiveWatermark(newest=BEFORE)
    assert advanced(before, (PartitionWatermark(stream="t/0", to=(9,)),)).newest == BEFORE


def test_files_are_looked_at_in_the_order_of_their_offsets_whatever_their_names_sort_by() -> None:
    """`check_order` finds the stream and the offset of each in its name."""
    offsets = {"t+0+9": 9, "t+0+10": 10, "t+0+8": 8}
    names = {path: KafkaName(path=path, topic="t", partition=0, start_offset=offset, digits=1) for path, offset in offsets.items()}
    log, operation = cast(Any, SimpleNamespace(before=ArchiveWatermark(), declared=())), Case(root="/r").operation(1)

    def facts(places: dict[str, int]) -> dict[str, TableFacts]:
        at = {"t+0+8": 1, "t+0+9": 2, "t+0+10": 3}
        return {
            path: TableFacts(order=Order(place=(place,), at=f"2026-01-01T12:{at[path]:02}:00", behind=place))
            for path, place in places.items()
        }

    newest, behind = check_order(facts({"t+0+8": 100, "t+0+10": 300, "t+0+9": 200}), operation, log, names)
    assert newest == (LastEvent(stream="t/0", place=(300,), at=minute(3)),)
    assert behind == 600
    with pytest.raises(ArchiveOrderError, match=r"t\+0\+10 has changes"):  # the last file of them, and the first by name
        check_order(facts({"t+0+8": 100, "t+0+10": 5, "t+0+9": 200}), operation, log, names)
