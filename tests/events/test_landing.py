"""Scanned files are landed without a JVM: of the files before the first gap, from what finished tasks name, each key once."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.pipeline.tables.unknown_tables import KnownTables
from cdc_ops.core.schema.server_types.unsigned_bigints import too_large_column
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.errors import BinlogError, EnvironmentSetupError, TiedEventsError
from cdc_ops.events.binlog.decoder import Place
from cdc_ops.events.conversion.values import ValueTooLargeError
from cdc_ops.events.scan.binlog import SMALL, line_of
from cdc_ops.events.scan.facts import FileFacts
from cdc_ops.events.scan.merging import merged_facts
from cdc_ops.events.scan.request import FileTask, FileTasks, TableTask, UnknownWatch
from cdc_ops.events.scan.scan import scan_file
from cdc_ops.lake.data_files.writer import write_data_file
from cdc_ops.steps.log import land_folds, large_files, scanned_files
from cdc_ops.steps.log.land_folds import Landing, land_folded
from cdc_ops.steps.log.scanned_files import ScannedTable
from tests.events.scanned import DEBEZIUM, Scans, event, feed_of
from tests.events.test_scans import TRUNCATE, table
from tests.operations import with_fields
from tests.state_values import make_operation

ATTEMPT = "try-1"


@pytest.fixture
def scans(tmp_path: Path) -> Scans:
    return Scans(tmp_path, DEBEZIUM)


@pytest.fixture
def operation(tmp_path: Path) -> Operation:
    return with_fields(make_operation(), schema=table("a"), keys=("id",), staging=str(tmp_path / "landing"))


def scanned(task: TableTask, facts: Iterable[FileFacts]) -> ScannedTable:
    return ScannedTable(task=task, facts={one.path: one for one in facts})


def landed(operation: Operation, found: ScannedTable, merged: Sequence[str], check: Mock | None = None) -> tuple[Manifest, dict[int, Any]]:
    """Lands files; returns the manifest, and what the rows say of each key: None for one that is gone."""
    landing = Landing(scanned=found, merged=merged, check=check or Mock(), finish=lambda manifest, _: manifest)
    manifest = land_folded(Mock(), operation, ATTEMPT, landing)
    rows = [row for one in Path(operation.target.staging, ATTEMPT).glob("*.parquet") for row in pq.read_table(one).to_pylist()]
    keys = {row["id"]: None if row[DELETE_MARK] else row["c0"] for row in rows}
    assert len(keys) == len(rows), "a key has two rows"
    return manifest, keys


def test_only_files_that_a_finished_task_names_are_landed(scans: Scans, operation: Operation) -> None:
    name = scans.write("1.json", event("a", 1, 1, "one"), event("a", 2, 2, "two"))
    task = scans.task(table("a"))
    found = scanned(task, [scans.one(name, task)])
    folder = Path(operation.target.staging, ATTEMPT)
    folder.mkdir(parents=True)
    stray = write_data_file(str(folder), pa.table({"id": pa.array([1], pa.int32())}).to_batches(), (), "snappy")
    assert stray is not None
    manifest, rows = landed(operation, found, (name,))
    assert (manifest.landed.files, manifest.landed.rows, rows) == (1, 2, {1: "one", 2: "two"})


def test_different_events_of_a_key_at_one_place_end_the_operation(scans: Scans, operation: Operation) -> None:
    name = scans.write("1.json", event("a", 1, 1, "one"), event("a", 1, 1, "other"), event("a", 1, 1, "one"), event("a", 2, 2))
    task, check = scans.task(table("a")), Mock()
    with pytest.raises(TiedEventsError, match=r'key {"id":1} at '):
        landed(operation, scanned(task, [scans.one(name, task)]), (name,), check)
    check.assert_called_once_with()
    assert not list(Path(operation.target.staging).glob("*.json"))


def test_nothing_of_files_behind_a_gap_is_landed_or_set_aside(scans: Scans, operation: Operation, tmp_path: Path) -> None:
    names = [
        scans.write("1.json", event("a", 1, 1, "one"), "garbage"),
        scans.write("3.json", event("a", 30, 1, "behind"), event("a", 31, 3, "behind"), event("a", 32, 0, **TRUNCATE), "bad"),
    ]
    task = scans.task(table("a"), buckets=4)
    facts = [scans.one(name, task) for name in names]
    found = scanned(task, facts)
    again = scans.one(names[0], task)  # a task that ran twice
    _, rows = landed(operation, found, names[:1])
    assert rows == {1: "one"}
    kept = tmp_path / "feed"
    kept.mkdir()
    found.place_feed(str(kept), names[:1])
    assert [path.name for path in kept.iterdir()] == [part.name for part in facts[0].found.feed]
    assert again.found.feed
    found.remove()
    assert not Path(task.feed).exists()


def test_a_row_whose_key_moved_is_deleted_among_the_rows_of_its_old_key(scans: Scans, operation: Operation) -> None:
    count = 40
    lines = [event("a", 10 * number, number, "before") for number in range(1, count)]
    lines += [event("a", 1000 + number, 100 + number, "moved", op="u", before={"id": number, "c0": "before"}) for number in range(1, count)]
    task = scans.task(table("a"), buckets=8)
    name = scans.write("1.json", *lines)
    _, rows = landed(operation, scanned(task, [scans.one(name, task)]), (name,))
    assert rows == dict.fromkeys(range(1, count)) | {100 + number: "moved" for number in range(1, count)}


def test_parts_of_a_large_file_begin_with_their_own_lines(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [event("a", number, number) if number % 3 else f"bad {number}" for number in range(60)]
    name, small = scans.write("1.json", *lines), scans.write("2.json", lines[0])
    task = scans.task(table("a"))
    whole = scans.one(name, task)

    def counted(_: Any, of: TableTask, parts: Sequence[FileTasks]) -> list[int]:
        texts = [f"{number} {large_files.json_codec.dumps(part)}" for number, part in enumerate(parts)]
        batches = iter([pa.record_batch({"part": pa.array(texts)})])
        return [row["lines"] for batch in large_files._count_lines(batches, of) for row in batch.to_pylist()]

    monkeypatch.setattr(large_files, "_counted", counted)
    monkeypatch.setattr(large_files, "_LARGE", 700)
    sizes = {one: (scans.archive / one).stat().st_size for one in (name, small)}
    parts = large_files.split(Mock(), task, [FileTasks(files=(FileTask(path=one, size=size),)) for one, size in sizes.items()])
    assert [one.path for one in parts if not one.stop] == [small]
    assert len(parts) > 10
    found = [one for part in parts if part.path == name for one in scan_file((task,), part)]
    assert sum(one.lines for one in found) == len(lines)
    assert [(row["line"], row["raw"]) for row in feed_of(task, found)] == [(row["line"], row["raw"]) for row in feed_of(task, [whole])]
    assert [row["raw"] for row in feed_of(task, found)] == lines[::3]


def test_compiling_is_announced_where_binlogs_are_decoded_by_functions_that_this_machine_has_not_compiled(
    scans: Scans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_OPS_CACHE", str(tmp_path))
    small, large = (FileTasks(files=(FileTask(path=f"binlog.{size}", size=size),)) for size in (SMALL - 1, SMALL))
    others = scans.task(table("a"))
    binlogs = replace(others, archive=replace(others.archive, format=FormatOptions(name="mysql-binlog")))
    assert scanned_files.will_compile(binlogs, [small, large])
    assert not scanned_files.will_compile(binlogs, [small])
    assert not scanned_files.will_compile(others, [small, large])
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "scan").touch()
    assert not scanned_files.will_compile(binlogs, [small, large])


def test_a_table_that_has_some_of_a_files_records_gets_the_others_beside_one_that_has_none(scans: Scans) -> None:
    lines = [event(name, 10 * number, number) for number in range(6) for name in "ab"]
    name = scans.write("1.json", *lines, "garbage", event("c", 99, 1))
    size = (scans.archive / name).stat().st_size
    watch = UnknownWatch(known=KnownTables(entries=("shop.a", "shop.b")), url=str(scans.archive), keeps_raw=True)
    tasks = (scans.task(table("a"), watch=watch), scans.task(table("b")))
    for first, expected in ((8, (2, 6, 1, (("shop.c", 1),))), (14, (0, 6, 0, ()))):
        files = tuple(FileTask(path=name, size=size, table=number, first_line=(first, 0)[number]) for number in range(2))
        mine, others = (one.found for one in scan_file(tasks, FileTasks(files=files)))
        assert (mine.events, others.events, mine.bad, mine.unknown) == expected
        assert (others.bad, others.unknown) == (1, ())


def test_a_value_that_a_column_does_not_hold_stops_its_table_alone_and_names_the_column(scans: Scans) -> None:
    def numbers(name: str, stored: str) -> TableSchema:
        made = table(name, "bigint unsigned")
        return replace(made, columns=(made.columns[0], replace(made.columns[1], source_type="bigint unsigned", delta_type=stored)))

    lines = [event(name, 10 * number, number, after={"id": number, "c0": 2**63 - 2 + number}) for number in range(3) for name in "ab"]
    narrow, wide = scans.task(numbers("a", "bigint")), scans.task(numbers("b", "decimal(20,0)"))
    first, second = scans.read(scans.write("1.json", *lines), narrow, wide)
    assert (too_large_column(first.too_large), first.failure, second.too_large, second.failure) == ("c0", (), "", ())
    assert second.found.events == 3
    scanned(wide, [second]).check_columns((second.path,))
    with pytest.raises(ValueTooLargeError, match="VALUE_TOO_LARGE"):
        scanned(narrow, [first]).check_columns((first.path,))
    [both] = merged_facts([replace(second, table=0), first])
    assert both.too_large == first.too_large


def test_what_tasks_wrote_where_nobody_here_sees_it_is_refused(scans: Scans, operation: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    name = scans.write("1.json", event("a", 1, 1, "one"), "garbage")
    for folder in ("changes", "feed"):
        task = scans.task(table("a"))
        found = scanned(task, [scans.one(name, task)])
        scanned_files._check_seen(found)
        [part] = getattr(found.facts[name].found, folder)
        Path(getattr(task, folder), part.name).write_bytes(b"another one")
        with pytest.raises(EnvironmentSetupError, match=part.name):
            scanned_files._check_seen(found)
    found = scanned(task, [scans.one(name, task)])
    monkeypatch.setattr(land_folds, "write_data_file", lambda *rows: replace(write_data_file(*rows), name="part-elsewhere.parquet"))
    with pytest.raises(EnvironmentSetupError, match="cannot be seen by this process"):
        landed(operation, found, (name,))
    monkeypatch.setattr(land_folds, "write_data_file", lambda *rows: replace(write_data_file(*rows), size=1))
    folder = Path(operation.target.staging, ATTEMPT)
    before = set(folder.iterdir())
    with pytest.raises(EnvironmentSetupError, match=r"of 1 bytes there, which has .* bytes here"):
        landed(operation, found, (name,))
    assert len(set(folder.iterdir()) - before) == 1


def test_a_binlog_without_a_byte_is_refused_and_never_taken_for_one_without_changes(scans: Scans) -> None:
    (scans.archive / "binlog.000007").write_bytes(b"")
    task = scans.task(table("a"))
    task = replace(task, archive=replace(task.archive, format=FormatOptions(name="mysql-binlog")))
    with pytest.raises(BinlogError, match=r"binlog\.000007"):
        scanned_files.scan_tables(Mock(), (task,), [[FileTask(path="binlog.000007", size=0)]])


def test_other_files_without_a_byte_have_no_records(scans: Scans) -> None:
    (scans.archive / "1.json").write_bytes(b"")
    [found] = scanned_files.scan_tables(Mock(), (scans.task(table("a")),), [[FileTask(path="1.json", size=0)]])
    assert found.facts == {}


def test_a_file_of_which_no_task_says_anything_ends_the_operation(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [scans.write(f"{number}.json", event("a", number, number)) for number in range(2)]
    files = [FileTask(path=name, size=(scans.archive / name).stat().st_size) for name in names]
    genuine = scan_file
    monkeypatch.setattr(scanned_files, "scan_file", lambda tasks, one: [] if one.path == names[1] else genuine(tasks, one))
    with pytest.raises(RuntimeError, match=r"what 1\.json holds"):
        scanned_files.scan_tables(Mock(), (scans.task(table("a")),), [files])


def test_a_value_behind_a_gap_widens_no_column(scans: Scans) -> None:
    found = ScannedTable(task=scans.task(table("a")), facts={"1.json": FileFacts(path="1.json", too_large="any")})
    found.check_columns(("0.json",))
    with pytest.raises(ValueTooLargeError):
        found.check_columns(("1.json",))


def test_what_a_task_writes_after_the_feed_was_placed_is_read_by_nobody(scans: Scans, tmp_path: Path) -> None:
    name = scans.write("1.json", event("a", 1, 1), "no JSON")
    task, kept = scans.task(table("a")), tmp_path / "feed"
    found = scanned(task, [scans.one(name, task)])
    found.place_feed(str(kept), (name,))
    scans.one(name, task)  # the same task once more, which nobody waits for
    assert [path.name for path in kept.iterdir()] == [part.name for part in found.facts[name].found.feed]


def test_numbers_of_changes_within_compressed_transactions_are_their_own_and_fit_63_bits() -> None:
    places = [Place(offset, inner, row) for offset in (4, 900, 2**32 + 4) for inner in (0, 1, 2047, 2048, 10**6) for row in (0, 1, 2**20)]
    numbers = {line_of(place) for place in places}
    assert len(numbers) == len(places)
    assert all(0 <= number < 2**63 for number in numbers)
