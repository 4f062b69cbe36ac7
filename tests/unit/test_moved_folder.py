"""A folder of Delta tables gets another place: whole, once, and never over another's."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from cdc_ops.errors import TargetNotDeltaError
from cdc_ops.lake import moved_folder
from cdc_ops.lake.moved_folder import move_folder

FILES = {"part-1.parquet": b"1", "_delta_log/00000000000000000000.json": b"{}", "g1/_delta_log/00000000000000000000.json": b"{ }"}


@pytest.fixture(params=["disk", "store"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder on a disk, and one on a store, where files are copied."""
    yield str(tmp_path) if request.param == "disk" else f"memory://{tmp_path.name}"
    fsspec.filesystem("memory").store.clear()


def write(folder: str, files: dict[str, bytes]) -> None:
    filesystem, inner = fsspec.core.url_to_fs(folder)
    for name, content in files.items():
        filesystem.makedirs(f"{inner}/{name}".rpartition("/")[0], exist_ok=True)
        filesystem.pipe_file(f"{inner}/{name}", content)


def read(folder: str) -> dict[str, bytes]:
    filesystem, inner = fsspec.core.url_to_fs(folder)
    found = filesystem.find(inner) if filesystem.exists(inner) else []
    return {name[len(inner) + 1 :]: filesystem.cat_file(name) for name in found}


def test_all_files_are_at_the_new_place_and_none_at_the_old_one(root: str) -> None:
    write(f"{root}/old/orders", FILES)
    assert move_folder(f"{root}/old/orders", f"{root}/new/orders")
    assert (read(f"{root}/new/orders"), read(f"{root}/old/orders")) == (FILES, {})
    assert not move_folder(f"{root}/old/orders", f"{root}/new/orders")
    assert read(f"{root}/new/orders") == FILES


def test_what_is_at_the_new_place_stays_and_so_does_the_old_one(root: str) -> None:
    write(f"{root}/old", FILES)
    write(f"{root}/new", {"part-2.parquet": b"2"})
    with pytest.raises(TargetNotDeltaError, match="cannot be moved"):
        move_folder(f"{root}/old", f"{root}/new")
    assert (read(f"{root}/new"), read(f"{root}/old")) == ({"part-2.parquet": b"2"}, FILES)


@pytest.mark.parametrize("stop", range(5))
def test_a_move_that_is_broken_off_anywhere_is_completed_by_the_next(root: str, stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write(f"{root}/old", FILES)
    monkeypatch.setattr(moved_folder, "_rename", lambda *_: False)  # as on another disk
    filesystem = type(fsspec.core.url_to_fs(root)[0])
    calls = itertools.count()

    def failing(name: str) -> None:
        real = getattr(filesystem, name)

        def call(*arguments: object, **named: object) -> object:
            if next(calls) == stop:
                raise ConnectionError(name)
            return real(*arguments, **named)

        monkeypatch.setattr(filesystem, name, call)

    for name in ("cp_file", "rm", "rm_file"):
        failing(name)
    with pytest.raises(ConnectionError):
        move_folder(f"{root}/old", f"{root}/new")
    move_folder(f"{root}/old", f"{root}/new")
    assert (read(f"{root}/new"), read(f"{root}/old")) == (FILES, {})


def test_logs_are_copied_behind_the_files_that_they_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = f"memory://{tmp_path.name}"
    write(f"{root}/old", FILES)
    filesystem = type(fsspec.filesystem("memory"))
    real, copied = filesystem.cp_file, list[str]()
    monkeypatch.setattr(filesystem, "cp_file", lambda self, one, two: (copied.append(one), real(self, one, two))[1])
    move_folder(f"{root}/old", f"{root}/new")
    assert ["_delta_log" in name for name in copied] == [False, True, True]
