"""Files of an archive that are not read now: a run says which one waits, since when and why. And files that only look changed."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdc_ops.core.archive.files import FileStatus, FileStatusChange
from cdc_ops.state.table_run import TableRunStatus
from tests.declared_world import DeclaredWorld

HALF = b'{"id": 1}\n{"id": '
LONG_AGO = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def world(tmp_path: Path) -> DeclaredWorld:
    return DeclaredWorld(tmp_path)


def half_written(world: DeclaredWorld, offset: int) -> str:
    path = world.archive(offset)
    path.write_bytes(HALF)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return str(path.relative_to(world.folder / "archive"))


def test_an_idle_run_names_the_half_written_file_since_when_it_waits_and_why(world: DeclaredWorld) -> None:
    world.correct("min_file_age: 0s", "min_file_age: 0s, check_file_footers: true")
    name = half_written(world, 0)
    idle = world.plan().new.idle
    assert f"no complete file in {world.folder}/archive" in idle
    assert f"{name} waits since 2026-01-31 12:00:00 UTC: it ends in the middle of a record, or its writer has not closed it" in idle
    assert world.plan(freeze=False).new.idle == idle  # 'cdc-ops plan' says the same


def test_a_file_that_was_just_written_waits_for_settle_and_holds_back_those_behind_it(world: DeclaredWorld) -> None:
    world.correct("min_file_age: 0s", "min_file_age: 1h")
    first, second = world.archive(0), world.archive(1)
    os.utime(second, (LONG_AGO, LONG_AGO))
    idle = world.plan().new.idle
    written = datetime.fromtimestamp(first.stat().st_mtime, UTC)
    assert f"t+0+0000000000.json waits since {written:%Y-%m-%d %H:%M:%S} UTC: it was written less than 1h ago ('min_file_age')" in idle
    assert "1 file behind what waits is held back" in idle


def test_a_plan_that_reads_files_says_which_ones_wait_besides(world: DeclaredWorld) -> None:
    world.correct("min_file_age: 0s", "min_file_age: 0s, check_file_footers: true")
    world.archive(0)
    name = half_written(world, 1)
    plan = world.plan(freeze=False)
    assert len(plan.new.operations) == 1
    assert name in plan.new.how


def test_without_a_file_that_waits_there_is_no_new_file(world: DeclaredWorld) -> None:
    (world.folder / "archive").mkdir()
    assert world.plan().new.idle == f"no new file in {world.folder}/archive"


def test_a_file_whose_bytes_are_what_they_were_is_no_changed_file_whatever_its_time_says(world: DeclaredWorld) -> None:
    path = world.archive(0, '{"id": 1}\n')
    assert world.run().status is TableRunStatus.COMMITTED
    path.write_text('{"id": 1}\n')  # the same bytes, written again
    os.utime(path, (LONG_AGO, LONG_AGO))
    for _ in range(2):
        plan = world.plan()
        assert (plan.new.idle, plan.new.operations, plan.warnings) == (f"no new file in {world.folder}/archive", (), ())
        os.utime(path)  # touched
    assert plan.new.scan is not None
    assert plan.new.scan.stock.same == 1


def test_a_file_of_the_same_size_with_other_bytes_is_read_again_and_said(world: DeclaredWorld) -> None:
    path = world.archive(0, '{"id": 1}\n')
    world.run()
    path.write_text('{"id": 2}\n')
    os.utime(path, (LONG_AGO, LONG_AGO))
    plan = world.plan()
    assert plan.new.scan is not None
    assert len(plan.new.scan.stock.with_status(FileStatusChange.REPLACED)) == 1
    assert any("same size and other contents" in text for text in plan.warnings)


def test_the_hash_of_what_was_read_is_kept_with_the_file_and_the_time_of_now(world: DeclaredWorld) -> None:
    path = world.archive(0, '{"id": 1}\n')
    run = world.run()
    os.utime(path, (LONG_AGO, LONG_AGO))
    world.plan()
    with world.store() as store:
        (record,) = store.archive_files("shop", run.table).values()
    assert record.status is FileStatus.CONSUMED
    assert record.file.etag.startswith("blake2b:")
    assert record.file.modified == datetime.fromtimestamp(LONG_AGO, UTC)  # so that it is not hashed again and again
