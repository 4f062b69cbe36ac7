"""Code is executed from folders that this user alone can write: others may take a name first, or put a link in its place."""

import logging
import os
from pathlib import Path

import pytest

from cdc_ops.decode import compiler
from cdc_ops.decode.private_folder import private_folder
from cdc_ops.lake.spark.jvm.class_archive import NOTHING, archive_use

OTHER = 65534
"""Another user. Who runs the tests may give nothing away unless they are root: then another user's folder is one that all can write."""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def give_away(path: Path) -> None:
    """Makes another user the owner, as if they had come first."""
    if os.geteuid() == 0:
        os.chown(path, OTHER, OTHER, follow_symlinks=False)
    elif not path.is_symlink():
        path.chmod(0o777)


def test_folders_that_are_not_there_are_made_for_this_user_alone(shared: Path) -> None:
    wanted = shared / "cdc-ops-1000" / "kernels"
    assert private_folder(wanted, make=False) is None
    assert private_folder(wanted, make=True) == wanted == private_folder(wanted, make=False)
    assert [path.stat().st_mode & 0o777 for path in (wanted, wanted.parent)] == [0o700, 0o700]


def test_a_folder_below_that_of_somebody_else_is_not_used(shared: Path) -> None:
    theirs = shared / "cdc-ops-1000"
    theirs.mkdir()
    give_away(theirs)
    assert private_folder(theirs / "kernels", make=True) is None
    assert not (theirs / "kernels").exists(), "nothing is put there"
    (theirs / "kernels").mkdir(mode=0o700)
    assert private_folder(theirs / "kernels", make=True) is None


@pytest.mark.parametrize("linked", ["cdc-ops-1000", "cdc-ops-1000/kernels"])
def test_no_link_is_followed_in_a_folder_that_all_can_write(shared: Path, tmp_path: Path, linked: str) -> None:
    own = tmp_path / "own"
    (own / "kernels").mkdir(parents=True, mode=0o700)
    link = shared / linked
    link.parent.mkdir(mode=0o700, exist_ok=True)
    link.symlink_to(own)
    assert private_folder(shared / "cdc-ops-1000" / "kernels", make=True) is None
    assert sorted(own.iterdir()) == [own / "kernels"]


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_can_write_is_none(shared: Path, mode: int) -> None:
    folder = shared / "cdc-ops-1000"
    folder.mkdir()
    folder.chmod(mode)
    assert private_folder(folder, make=True) is None
    assert private_folder(folder / "kernels", make=True) is None
    assert private_folder(shared, make=True) is None


def test_what_stands_in_a_folder_that_all_can_change_is_nobodys(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)  # without the sticky bit: names in it can be moved by all
    assert private_folder(open_to_all / "mine", make=True, named=False) is None
    assert private_folder(open_to_all / "mine", make=True) is None, "it stands below the temporary folder, whoever named it"


def test_links_of_the_system_are_followed_to_their_true_name() -> None:
    assert private_folder(Path("/bin"), make=False) == Path("/bin").resolve()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert private_folder(tmp_path / "file", make=True) is None
    assert private_folder(tmp_path / "file" / "kernels", make=True) is None


def test_machine_code_is_kept_nowhere_rather_than_in_a_folder_of_somebody_else_and_it_is_said(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "own"
    for number in range(12):
        (own / f"{number:016x}").mkdir(parents=True)
    taken = shared / f"cdc-ops-{os.getuid()}"
    taken.mkdir()
    (taken / "kernels").symlink_to(own)
    give_away(taken)
    for name in ("CDC_OPS_CACHE", "CDC_OPS_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(shared))
    with caplog.at_level(logging.WARNING):
        assert compiler.cache_folder.__wrapped__() is None
    assert "set CDC_OPS_CACHE" in caplog.text
    assert len(list(own.iterdir())) == 12


def test_old_machine_code_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:016x}").mkdir()
    for name in ("projects", "0123", ".ssh"):
        (tmp_path / name).mkdir()
    compiler._remove_old(tmp_path, "f" * 16)
    left = {path.name for path in tmp_path.iterdir()}
    assert {"projects", "0123", ".ssh"} < left
    assert len(left) == 3 + 8


def test_an_archive_of_classes_is_not_taken_from_below_a_folder_of_somebody_else(shared: Path) -> None:
    theirs = shared / "home"
    (theirs / "classes").mkdir(parents=True, mode=0o700)

    def uses() -> bool:
        return any(archive_use(theirs / "classes", (), os.environ, writes=True) != NOTHING for _ in range(2))

    assert uses(), "the first job only leaves a mark"
    give_away(theirs)
    assert not uses()
