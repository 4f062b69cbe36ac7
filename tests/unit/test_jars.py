"""The pure parts of fetching jars, and its errors that need no network."""

import importlib.util
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.lake.spark import jars


def test_a_coordinate_reads_back_as_it_was_written() -> None:
    one = jars.Coordinate.parse("org.postgresql:postgresql:42.7.14")
    assert (one.organisation, one.name, one.revision) == ("org.postgresql", "postgresql", "42.7.14")
    assert str(one) == "org.postgresql:postgresql:42.7.14"
    assert one.file_name == "postgresql-42.7.14.jar"


@pytest.mark.parametrize("text", ["", "a:b", "a:b:c:d", "a::c", 'a:b:1"/><x'])
def test_what_is_no_coordinate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(EnvironmentSetupError, match="organisation:name:revision"):
        jars.Coordinate.parse(text)


def test_no_jar_is_listed_twice_in_two_revisions() -> None:
    names = [(one.organisation, one.name) for one in jars.DEFAULT]
    assert len(names) == len(set(names))


def test_hadoop_aws_has_the_revision_of_the_hadoop_that_spark_bundles() -> None:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    [bundled] = Path(spec.submodule_search_locations[0], "jars").glob("hadoop-client-api-*.jar")
    [ours] = [one for one in jars.S3A if one.name == "hadoop-aws"]
    assert bundled.name == f"hadoop-client-api-{ours.revision}.jar"


def test_no_coordinate_that_spark_resolves_itself_leads_to_the_bundle_of_the_sdk() -> None:
    assert set(jars.RESOLVED) < set(jars.DEFAULT)
    assert not [one for one in jars.RESOLVED if one.name == "hadoop-aws"]
    assert not [one for one in jars.DEFAULT if one.name == "bundle"]


def test_the_ivy_file_asks_for_each_jar_alone() -> None:
    dependencies = ET.fromstring(jars.ivy_file(jars.DEFAULT)).findall("dependencies/dependency")
    assert [one.attrib["name"] for one in dependencies] == [one.name for one in jars.DEFAULT]
    assert {one.attrib["transitive"] for one in dependencies} == {"false"}


def test_the_jar_list_is_absolute_sorted_and_without_other_files(tmp_path: Path) -> None:
    for name in ("b-1.jar", "a-1.jar", "notes.txt"):
        (tmp_path / name).touch()
    assert jars.jar_list(tmp_path) == f"{tmp_path}/a-1.jar,{tmp_path}/b-1.jar"


def test_an_empty_folder_names_the_command_that_fills_it(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentSetupError, match=r"python -m cdc_ops\.lake\.spark\.jars"):
        jars.jar_list(tmp_path)


def test_a_complete_folder_needs_neither_java_nor_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for one in jars.DEFAULT:
        (tmp_path / one.file_name).touch()
    assert jars.fetch(tmp_path) == [tmp_path / one.file_name for one in jars.DEFAULT]


def test_another_revision_of_a_jar_goes_and_its_namesakes_stay(tmp_path: Path) -> None:
    wanted = jars.Coordinate.parse("org.example:driver:2.0")
    for name in ("driver-2.0.jar", "driver-1.9.jar", "driver-extras-1.0.jar", "other-1.9.jar"):
        (tmp_path / name).touch()
    jars.fetch(tmp_path, [wanted])
    assert {path.name for path in tmp_path.glob("*.jar")} == {"driver-2.0.jar", "driver-extras-1.0.jar", "other-1.9.jar"}


def test_a_machine_without_java_gets_the_command_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EnvironmentSetupError, match="openjdk-17"):
        jars.fetch(tmp_path)
    assert not list(tmp_path.glob("*.jar"))


def test_an_ivy_that_cannot_reach_the_repository_gives_a_clear_error_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "java"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'Host maven.example not found. url=https://maven.example/x'\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match="this machine has no network") as caught:
        jars.fetch(tmp_path / "jars", [jars.Coordinate.parse("org.example:driver:2.0")])
    assert "maven.example" not in str(caught.value)
    assert not list((tmp_path / "jars").glob("*.jar"))


def test_the_module_can_be_imported_without_spark() -> None:
    code = "import sys, cdc_ops.lake.spark.jars; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False).returncode == 0
