"""The archive of classes: who writes it, who reads it, and what becomes of what nobody needs."""

import os
from pathlib import Path

import pytest

from cdc_ops.lake.spark.jvm.class_archive import KEPT, NOTHING, ArchiveUse, archive_use


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A Java and a Spark, as far as the name of an archive depends on them."""
    for name, text in (("java/bin/java", "program"), ("java/release", 'JAVA_VERSION="17"'), ("spark/jars/spark.jar", "classes")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "java/bin/java").chmod(0o755)
    return {"JAVA_HOME": str(tmp_path / "java"), "SPARK_HOME": str(tmp_path / "spark")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "classes"


def use(folder: Path, machine: dict[str, str], *, writes: bool = True) -> ArchiveUse:
    return archive_use(folder, (), machine, writes=writes)


def written(one: ArchiveUse) -> Path:
    """What a JVM does at its end."""
    assert one.writes is not None
    assert one.path is not None
    one.writes.write_text("classes")
    one.keep(ended_well=True)
    return one.path.with_suffix(".7.jsa")


def test_the_second_small_job_writes_it_and_later_ones_of_any_size_read_it(folder: Path, machine: dict[str, str]) -> None:
    assert use(folder, machine) == NOTHING, "in a container that ends with its job nobody would read it"
    second = use(folder, machine)
    assert second.writes is not None
    assert f"-XX:ArchiveClassesAtExit={second.writes} " in second.options
    path = written(second)
    for writes in (True, False):
        third = use(folder, machine, writes=writes)
        assert third.options.startswith(f"-XX:SharedArchiveFile={path} ")
        assert third.writes is None
    assert sorted(file.name for file in folder.iterdir()) == [path.name, path.name.replace("7.jsa", "seen")]


def test_an_archive_that_was_cut_off_is_removed_before_a_jvm_dies_of_it_and_written_again(folder: Path, machine: dict[str, str]) -> None:
    use(folder, machine)
    path = written(use(folder, machine))
    path.write_text("class")
    again = use(folder, machine)
    assert "SharedArchiveFile" not in again.options
    assert not path.exists()
    assert written(again).read_text() == "classes"


def test_a_large_job_leaves_no_trace(folder: Path, machine: dict[str, str]) -> None:
    assert use(folder, machine, writes=False) == NOTHING
    assert not folder.exists()


def test_one_jvm_writes_it_and_if_it_was_killed_another_one(folder: Path, machine: dict[str, str]) -> None:
    use(folder, machine)
    first = use(folder, machine)
    assert use(folder, machine) == NOTHING
    first.keep(ended_well=False)
    second = use(folder, machine)
    assert second.writes is not None
    assert second.writes != first.writes
    os.utime(second.writes, (0, 0))
    third = use(folder, machine)
    assert third.writes is not None
    assert list(folder.glob("*.part")) == [third.writes], "what was abandoned is gone"


def test_a_jvm_that_could_not_write_it_is_the_last_one_that_tries(folder: Path, machine: dict[str, str]) -> None:
    use(folder, machine)
    use(folder, machine).keep(ended_well=True)
    assert use(folder, machine) == NOTHING
    assert [file.suffix for file in sorted(folder.iterdir())] == [".failed", ".seen"]


def test_another_java_another_spark_and_other_jars_have_their_own_and_the_oldest_ones_go(
    folder: Path, machine: dict[str, str], tmp_path: Path
) -> None:
    release, jar, own = tmp_path / "java/release", tmp_path / "spark/jars/spark.jar", tmp_path / "own.jar"
    own.touch()
    paths = []
    for number, change in enumerate(
        (lambda: None, lambda: release.write_text("21"), lambda: jar.write_text("other classes"), lambda: own.write_text("x"))
    ):
        change()
        archive_use(folder, (str(own),), machine, writes=True)
        paths.append(written(archive_use(folder, (str(own),), machine, writes=True)))
        os.utime(paths[-1], (number, number))
    assert len(set(paths)) == 4
    assert sorted(folder.glob("*.jsa")) == sorted(paths[-KEPT:])


@pytest.mark.parametrize("name", ["with space", "with,comma", "with'quote"])
def test_a_folder_that_an_option_cannot_name_and_none_at_all_are_done_without(tmp_path: Path, machine: dict[str, str], name: str) -> None:
    for folder in (tmp_path / name, None):
        assert archive_use(folder, (), machine, writes=True) == NOTHING
        assert archive_use(folder, (), machine, writes=True) == NOTHING


def test_a_folder_that_cannot_be_made_and_a_java_that_is_not_there_are_done_without(tmp_path: Path, machine: dict[str, str]) -> None:
    (tmp_path / "file").touch()
    assert [use(tmp_path / "file" / "classes", machine) for _ in range(2)] == [NOTHING] * 2
    assert [use(tmp_path / "classes", machine | {"JAVA_HOME": str(tmp_path)}) for _ in range(2)] == [NOTHING] * 2


def test_the_folder_is_its_owners_alone(folder: Path, machine: dict[str, str]) -> None:
    use(folder, machine)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_not_used_because_a_jvm_executes_what_is_in_it(
    folder: Path, machine: dict[str, str], mode: int
) -> None:
    use(folder, machine)
    written(use(folder, machine))
    folder.chmod(mode)
    assert use(folder, machine) == NOTHING
    folder.chmod(0o755)
    assert "SharedArchiveFile" in use(folder, machine).options
