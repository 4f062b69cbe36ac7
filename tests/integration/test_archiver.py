"""The archiver on a real MariaDB and MySQL: copies are the servers' files, whatever kills it; gaps, resets and missing grants are told."""

import gzip
import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow
import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.core.archive.binlogs.binlog_check import BinlogEnd
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, CopyCompression, CopySettings
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TargetConfig
from cdc_ops.dev.object_store import ObjectStore
from cdc_ops.dev.processes import running_pid
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer
from cdc_ops.errors import BinlogsReplacedError, LeaseHeldError, SourceAccessError
from cdc_ops.sources.mysql.binlogs.server import BinlogServer
from cdc_ops.steps.archive.copy_binlogs import CopyReport, _lock_name, archive_binlogs

DB = "archived"
LARGE = 17_000_000
"""Bytes of a value whose event needs two packets."""


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    found: DatabaseServer = request.getfixturevalue(request.param)
    found.create_database(DB)
    found.execute(
        f"CREATE TABLE {DB}.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT)",
        "SET GLOBAL max_allowed_packet = 67108864",
    )
    yield found
    found.execute(f"DROP DATABASE {DB}")


@pytest.fixture
def folder(tmp_path: Path, server: DatabaseServer) -> Path:
    """An empty archive, and a server with nothing but its newest binlog."""
    server.execute("FLUSH BINARY LOGS")
    purge(server, newest(server))
    return tmp_path


def newest(server: DatabaseServer) -> str:
    return str(server.execute("SHOW BINARY LOGS")[-1][0])


def purge(server: DatabaseServer, first: str) -> None:
    """Has the server forget what comes before a binlog; it keeps files that it still sends to somebody who has gone."""
    deadline = time.monotonic() + 20
    while server.execute("SHOW BINARY LOGS")[0][0] != first:
        assert time.monotonic() < deadline
        server.execute(f"PURGE BINARY LOGS TO '{first}'")


def write(server: DatabaseServer, *sizes: int) -> None:
    """Writes a binlog with rows of these sizes, and closes it."""
    for size in sizes:
        server.execute(f"INSERT INTO {DB}.t (v) VALUES (REPEAT('x', {size}))")
    server.execute("FLUSH BINARY LOGS")


def url(server: DatabaseServer, user: str = "", password: str = "", options: str = "") -> str:
    login = (user or server.user, password or server.password)
    return ConnectionUrl.from_parts("mysql", server.host, server.port, *login, "").render() + options


def pipeline(place: Path | str, options: dict[str, str] | None = None, **settings: object) -> Pipeline:
    copy = CopySettings(connection="db", server="db1", **settings)  # type: ignore[arg-type]
    return Pipeline(
        name="shop",
        source=SourceConfig(kind=SourceKind.MARIADB, connection="db"),
        target=TargetConfig(root="/lake", staging="/staging"),
        tables=(),
        archive=ArchiveConfig(url=str(place), copy=copy, options=tuple((options or {}).items())),
    )


def run(server: DatabaseServer, place: Path | str, *, flush: bool = False, **settings: object) -> CopyReport:
    return archive_binlogs(pipeline(place, **settings), url(server), flush=flush)  # type: ignore[arg-type]


def closed(server: DatabaseServer) -> list[str]:
    return [str(row[0]) for row in server.execute("SHOW BINARY LOGS")[:-1]]


def assert_equal(server: DatabaseServer, folder: Path, names: list[str]) -> None:
    assert names
    assert sorted(path.name for path in (folder / "db1").iterdir()) == sorted(names)
    for name in names:
        assert (folder / "db1" / name).read_bytes() == (server.data / name).read_bytes(), name


def test_copies_are_byte_for_byte_the_servers_files_and_each_is_made_once(server: DatabaseServer, folder: Path) -> None:
    write(server, 10, LARGE, 10)
    server.execute("SET GLOBAL binlog_checksum = NONE", f"INSERT INTO {DB}.t (v) VALUES ('without checksum')")
    server.execute("SET GLOBAL binlog_checksum = CRC32", f"INSERT INTO {DB}.t (v) VALUES ('last')")
    names = closed(server)
    assert len(names) >= 3
    looked = archive_binlogs(pipeline(folder), url(server), dry_run=True)
    assert [file.name for file in looked.pending] == names
    assert not (folder / "db1").exists()
    options = "?ssl_mode=required" if server.name == "MySQL" else ""  # MariaDB's test server has no TLS
    report = archive_binlogs(pipeline(folder), url(server, options=options))
    assert [Path(item.path).name for item in report.copied] == names
    assert {item.summary.end for item in report.copied} == {BinlogEnd.ROTATE}
    assert_equal(server, folder, names)
    assert not run(server, folder).copied
    assert [Path(item.path).name for item in run(server, folder, flush=True).copied] == [closed(server)[-1]]
    assert not run(server, folder, flush=True).copied  # nothing has changed, so nothing was flushed
    assert_equal(server, folder, closed(server))


@pytest.mark.parametrize("compress", [CopyCompression.GZIP, CopyCompression.ZSTD])
def test_compressed_copies_hold_the_same_bytes(server: DatabaseServer, folder: Path, compress: CopyCompression) -> None:
    write(server, 100_000)
    run(server, folder, compress=compress)
    write(server, 10)
    run(server, folder, compress=compress)
    names = closed(server)
    assert names
    for name in names:
        packed = (folder / "db1" / f"{name}{compress.suffix}").read_bytes()
        if compress is CopyCompression.GZIP:
            content = gzip.decompress(packed)
        else:
            content = pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd").read()
        assert content == (server.data / name).read_bytes()


def killed_after(seconds: float, server: DatabaseServer, rules: Pipeline) -> bool:
    """Runs the archiver in a process of its own and kills it; True if it was killed before its end."""
    process = multiprocessing.get_context("fork").Process(target=archive_binlogs, args=(rules, url(server)))
    process.start()
    process.join(seconds)
    if process.pid and process.exitcode is None:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode == -signal.SIGKILL


def archive_when_free(rules: Pipeline, server: DatabaseServer) -> None:
    """Runs the archiver once the server has noticed that a killed one is gone."""
    deadline = time.monotonic() + 20
    while True:
        try:
            archive_binlogs(rules, url(server))
            return
        except LeaseHeldError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_killed_archiver_leaves_whole_files_only_and_the_next_run_completes(server: DatabaseServer, folder: Path) -> None:
    for _ in range(6):
        write(server, 3_000_000, 3_000_000)
    names, moments, killed = closed(server), random.Random(20), 0
    for _ in range(20):
        killed += killed_after(moments.uniform(0.01, 0.12), server, pipeline(folder))
        copies = sorted(path for path in (folder / "db1").glob("[!.]*"))
        assert [path.name for path in copies] == names[: len(copies)]
        assert all(path.read_bytes() == (server.data / path.name).read_bytes() for path in copies)
        if len(copies) == len(names):
            copies[-1].unlink()
    assert killed
    archive_when_free(pipeline(folder), server)
    assert_equal(server, folder, names)


def test_copies_on_s3_are_uploaded_whole_or_not_at_all(server: DatabaseServer, folder: Path, object_store: ObjectStore) -> None:
    for _ in range(3):
        write(server, 2_000_000)
    place = f"s3://{object_store.bucket}/binlogs/{folder.name}"
    options = {"endpoint_url": object_store.endpoint}
    rules, names = pipeline(place, options), closed(server)
    archive_binlogs(rules, url(server))
    import fsspec

    store = fsspec.filesystem("s3", use_listings_cache=False, skip_instance_cache=True, **options)
    assert sorted(Path(path).name for path in store.ls(f"{place}/db1")) == names
    assert all(store.cat(f"{place}/db1/{name}") == (server.data / name).read_bytes() for name in names)
    store.rm(f"{place}/db1", recursive=True)
    moments = random.Random(3)
    for _ in range(4):
        killed_after(moments.uniform(0.1, 0.3), server, rules)
        there = [Path(path).name for path in store.find(f"{place}/db1")]
        assert there == names[: len(there)]
        assert all(store.cat(f"{place}/db1/{name}") == (server.data / name).read_bytes() for name in there)
    archive_when_free(rules, server)
    assert [Path(path).name for path in store.find(f"{place}/db1")] == names
    store.rm(f"{place}/db1/{names[-1]}")
    assert len(archive_binlogs(rules, url(server)).copied) == 1
    assert not archive_binlogs(rules, url(server)).copied


def test_binlogs_that_were_purged_before_they_were_copied_are_named_until_somebody_accepts_it(server: DatabaseServer, folder: Path) -> None:
    write(server, 10)
    run(server, folder)
    write(server, 10)
    lost = closed(server)[-1]
    write(server, 10)
    purge(server, closed(server)[-1])
    report = run(server, folder)
    assert [Path(item.path).name for item in report.copied] == closed(server)
    assert report.gap is not None
    assert f"lacks {lost}, and the server no longer has" in report.gap.what
    assert run(server, folder).gap is not None
    assert run(server, folder, first_file=closed(server)[-1]).gap is None


def test_a_server_that_was_reset_is_refused_and_its_copies_stay(server: DatabaseServer, folder: Path) -> None:
    write(server, 10)
    run(server, folder)
    before = {path.name: path.read_bytes() for path in (folder / "db1").iterdir()}
    server.execute("RESET MASTER" if server.name == "MariaDB" else "RESET BINARY LOGS AND GTIDS")
    with pytest.raises(BinlogsReplacedError, match="are not those that the archive has in db1/"):
        run(server, folder)
    last = max(int(name.rpartition(".")[2]) for name in before)
    while int(newest(server).rpartition(".")[2]) <= last:
        server.execute("FLUSH BINARY LOGS")
    with pytest.raises(BinlogsReplacedError):
        run(server, folder)
    purge(server, newest(server))
    write(server, 10)
    with pytest.raises(BinlogsReplacedError, match="are not those"):
        run(server, folder)
    assert before == {path.name: path.read_bytes() for path in (folder / "db1").iterdir()}


def test_each_missing_grant_is_named_with_the_statement_that_gives_it(server: DatabaseServer, folder: Path) -> None:
    mariadb = server.name == "MariaDB"
    monitor = "BINLOG MONITOR" if mariadb else "REPLICATION CLIENT"
    server.execute("DROP USER IF EXISTS copier@'127.0.0.1'", "CREATE USER copier@'127.0.0.1' IDENTIFIED BY 'pw'")
    write(server, 10)
    server.execute(f"INSERT INTO {DB}.t (v) VALUES ('new')")
    login, names = url(server, "copier", "pw"), []
    for privilege in (monitor, "REPLICATION SLAVE", "RELOAD"):
        with pytest.raises(SourceAccessError) as refused:
            archive_binlogs(pipeline(folder), login, flush=True)
        with closing(BinlogServer(login)) as asked, pytest.raises(SourceAccessError) as beforehand:
            asked.may_be_copied(flush=True)
        grant = f"GRANT {privilege} ON *.* TO 'copier'@'127.0.0.1'"
        assert refused.value.next == beforehand.value.next == f"{grant};"
        names.append(newest(server))
        server.execute(grant)
    with closing(BinlogServer(login)) as asked:
        assert asked.may_be_copied(flush=True).is_mariadb == mariadb
    assert {*names, newest(server)} == {names[0]}, "to ask closes no binlog"
    assert len(archive_binlogs(pipeline(folder), login, flush=True).copied) == 2


def test_the_check_tries_login_grants_and_place_of_the_archiver_and_leaves_nothing(
    server: DatabaseServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "p").mkdir()
    (folder / "p" / "shop.yaml").write_text(
        f"pipeline: shop\nsource: {{kind: {server.name.lower()}, connection: db}}\n"
        f"target: {{root: {folder}/lake, staging: {folder}/staging}}\n"
        f"archive: {{url: {folder}/a, layout: binlog, copy: {{connection: copier, flush: true}}}}\n"
        f"tables: {{{DB}.t: {{cursor: id}}}}\n"
    )
    monkeypatch.setenv("CDC_OPS_CONN_DB", url(server))
    monkeypatch.setenv("CDC_OPS_CONN_COPIER", url(server, "looker", "hush-hush"))
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{folder}/ledger.db")

    def check() -> list[tuple[str, str]]:
        result = CliRunner().invoke(app, ["check", "--json", "--pipelines", str(folder / "p")])
        assert "hush-hush" not in result.output
        assert not (folder / "a").is_dir()
        return [(one["verdict"], one["seen"] + one["next"]) for one in json.loads(result.stdout) if one["what"] == "archiver"]

    monitor = "BINLOG MONITOR" if server.name == "MariaDB" else "REPLICATION CLIENT"
    default = "looker@'127.0.0.1'" if server.name == "MySQL" else None
    server.execute(
        *("DROP USER IF EXISTS looker@'127.0.0.1'", "CREATE USER looker@'127.0.0.1' IDENTIFIED BY 'hush-hush'"),
        *("DROP ROLE IF EXISTS flusher", "CREATE ROLE flusher", "GRANT flusher TO looker@'127.0.0.1'"),
        f"GRANT {monitor}, REPLICATION SLAVE ON *.* TO looker@'127.0.0.1'",
        f"SET DEFAULT ROLE flusher {'TO' if default else 'FOR'} looker@'127.0.0.1'",
    )
    [(verdict, text)] = check()
    assert (verdict, "GRANT RELOAD ON" in text) == ("failed", True)
    server.execute("GRANT RELOAD ON *.* TO flusher")
    assert [verdict for verdict, _ in check()] == ["ok", "ok"]
    (folder / "a").write_text("a file where a folder should be")
    [(_, login), (verdict, text)] = check()
    assert "close the newest" in login
    assert (verdict, f"cannot write to {folder}/a" in text) == ("failed", True)


def test_only_one_archiver_works_on_a_servers_folder(server: DatabaseServer, folder: Path) -> None:
    other, rules = BinlogServer(url(server)), pipeline(folder)
    with other.only_one(_lock_name(rules, "db1")), pytest.raises(LeaseHeldError, match="Another process copies the binlogs"):
        archive_binlogs(rules, url(server))
    archive_binlogs(rules, url(server))


def test_the_command_shows_what_it_copied_and_says_a_gap_with_its_exit_code(
    server: DatabaseServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "p").mkdir()
    (folder / "a").mkdir()
    (folder / "p" / "shop.yaml").write_text(
        "pipeline: shop\nschedule: '0 * * * *'\n"
        f"source: {{kind: {server.name.lower()}, connection: db}}\n"
        "target: {root: /lake, staging: /staging}\n"
        f"archive: {{url: {folder}/a, layout: binlog, copy: {{connection: db, server: db1, flush: true}}}}\n"
        "defaults: {cursor: id}\ntables: {shop.orders: {}}\n"
    )
    monkeypatch.setenv("CDC_OPS_CONN_DB", url(server))
    command = ["archive", "--pipeline", "shop", "--pipelines", str(folder / "p")]
    write(server, 10)
    server.execute(f"INSERT INTO {DB}.t (v) VALUES ('new')")
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "2 binlogs copied; the archive has 2 binlogs" in shown.output
    write(server, 10)
    write(server, 10)
    purge(server, closed(server)[-1])
    document = CliRunner().invoke(app, [*command, "--json"])
    assert document.exit_code == 7
    answer = json.loads(document.stdout)
    assert (len(answer["copied"]), answer["gap"]["error"]) == (1, "ArchiveGapError")


def test_a_binlog_that_a_crash_left_open_is_archived_and_told(tmp_path: Path) -> None:
    """MariaDB leaves the mark of an open file in it, and sends the file without: the only byte that may differ."""
    crashing = MariaDBServer(tmp_path / "server")
    crashing.start()
    crashing.execute(f"CREATE DATABASE {DB}", f"CREATE TABLE {DB}.t (id INT PRIMARY KEY)", f"INSERT INTO {DB}.t VALUES (1)")
    pid = running_pid(crashing.folder)
    assert pid
    os.kill(pid, signal.SIGKILL)
    crashing.stop()
    with crashing:
        (tmp_path / "a").mkdir()
        report = archive_binlogs(pipeline(tmp_path / "a"), url(crashing))
        [item] = report.copied
        assert item.summary.end is BinlogEnd.CRASH
        assert "the server ended without closing it" in report.warnings[-1]
        copy, file = ((folder / item.path).read_bytes() for folder in (tmp_path / "a",)), crashing.data / Path(item.path).name
        mine, theirs = next(copy), file.read_bytes()
        assert [at for at, (one, other) in enumerate(zip(mine, theirs, strict=True)) if one != other] in ([], [21])
