"""Snapshot of a table into Delta by `cdc-ops run`, beside the raw client that reads the same rows and throws them away.

Two times are measured: that of the whole process, and that of the operation in a Spark session that has done some before, with each reader.
Both sides send the rows alike: without TLS, or both with TLS (`--tls 1`, MySQL only).
"""

import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks import _rows
from benchmarks._harness import BENCH, DATABASE, ROOT, Bench, Series, arguments, ensure_rows, report, run, running_server
from cdc_ops.dev.databases import debian
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, MySQLServer, PostgresServer


def raw_client(server: DatabaseServer, *, tls: bool = False) -> tuple[list[str], dict[str, str]]:
    """Returns the start of the client's command, without its query; the password is in the environment."""
    if isinstance(server, PostgresServer):
        login = [f"--host={server.host}", f"--port={server.port}", f"--username={server.user}", f"--dbname={DATABASE}"]
        return [postgres_client(), "--no-psqlrc", *login], {**os.environ, "PGPASSWORD": server.password}
    login = [f"--host={server.host}", f"--port={server.port}", f"--user={server.user}", "--protocol=tcp"]
    environment = {**os.environ, "MYSQL_PWD": server.password}
    if isinstance(server, MySQLServer):
        program, plain = [*mysql_client(), "--no-defaults"], f"--ssl-mode={'REQUIRED' if tls else 'DISABLED'}"
        # A password travels without TLS only once the server has seen it with TLS.
        subprocess.run([*program, *login, "--execute", "SELECT 1"], env=environment, check=True, stdout=subprocess.DEVNULL)
    else:
        program, plain = [mariadb_client(), "--no-defaults"], "--skip-ssl"
    return [*program, *login, plain, "--quick", "--batch", "--skip-column-names", DATABASE], environment


def mariadb_client() -> str:
    """Returns MariaDB's own client: the installed one, or that beside the server."""
    places = os.pathsep.join((os.environ.get("PATH", ""), str(MariaDBServer.ensure_installed().parent)))
    return next(path for name in ("mariadb", "mysql") if (path := shutil.which(name, path=places)))


def postgres_client() -> str:
    """Returns psql: the installed one, or that beside the server."""
    places = os.pathsep.join((os.environ.get("PATH", ""), str(PostgresServer.ensure_installed())))
    found = shutil.which("psql", path=places)
    assert found is not None
    return found


def mysql_client() -> list[str]:
    """Returns MySQL's own client: the installed one, or one that is fetched once beside the server."""
    if found := shutil.which("mysql"):
        return [found]
    kept = BENCH / "mysql-client"
    root = kept if kept.exists() else debian.unpack("mysql-client-core", lambda _: kept, lambda package: package.startswith("lib"))
    return debian.linked_command(root, "usr/bin/mysql")


def text_bytes(command: list[str], environment: dict[str, str]) -> int:
    """Returns how many bytes the client prints."""
    total = 0
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        while block := client.stdout.read(1 << 20):
            total += len(block)
    assert client.returncode == 0
    return total


def lake_checksum(bench: Bench, path: Path) -> tuple[int, int]:
    """Reads a Delta table in a process of its own."""
    command = [sys.executable, "-m", "benchmarks._checksum", str(path), bench.kind]
    count, total = run(command, {**bench.environment(), "PYTHONPATH": str(ROOT)}, bench.folder).output.split()[-2:]
    return int(count), int(total)


READERS = ("jdbc", "native")


class Operation(NamedTuple):
    """What one operation took: seconds by the wall and of the processors; MiB of the largest Python worker, and of all of them."""

    wall: float
    processor: float
    largest: float
    workers: float


def warm_operation(bench: Bench, table: str, reader: str) -> Operation:
    """Returns what the last of four equal operations in one Spark session took.

    Java compiles for three of them, as a server that lives on does for its first ones.

    Not in it, and in the whole process: the interpreter, the start of Spark, its first compilation, the plan and the ledger.
    """
    folder = bench.folder / "operation"
    command = [sys.executable, "-m", "benchmarks._operation", table, str(folder), "4", reader, bench.schema]
    return Operation(*map(float, run(command, {**bench.environment(), "PYTHONPATH": str(ROOT)}, bench.folder).output.split()[-4:]))


def operation_line(reader: str, runs: list[Operation], raw: float) -> str:
    """Returns what is said of the operations with one reader."""
    walls, processor = [one.wall for one in runs], statistics.median(one.processor for one in runs)
    largest, workers = max(one.largest for one in runs), max(one.workers for one in runs)
    memory = f"   Python workers at most {largest:,.0f} MiB each, {workers:,.0f} MiB together" if workers else ""
    median, spread = statistics.median(walls), f"({min(walls):.2f} .. {max(walls):.2f}, n={len(runs)})"
    name = f"the operation alone, warm, {reader}"
    return f"{name:<34} median {median:7.2f} s   {spread}   processor {processor:6.1f} s   ratio {median / raw:.2f}{memory}"


def assert_equal(bench: Bench, path: Path, source: tuple[int, int]) -> tuple[int, int]:
    """Compares a Delta table with the source's count and checksum, and returns them."""
    count, total = lake_checksum(bench, path)
    assert (count, total) == (int(source[0]), int(source[1])), f"{path} {count}, {total}; source {source}"
    return count, total


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def main() -> None:
    options = arguments(__doc__, ("mariadb", "mysql", "postgres"), rows=3_000_000, runs=3, tls=0)
    table = f"rows_{options.rows}"
    with running_server(options.server) as server:
        ensure_rows(server, table, options.rows, _rows.create(table, options.server), *_rows.fill(table, options.rows, options.server))
        (version,) = server.execute("SELECT VERSION()")[0]
        client, environment = raw_client(server, tls=bool(options.tls))
        text = f"COPY (SELECT * FROM {table}) TO STDOUT (FORMAT binary)" if options.server == "postgres" else f"SELECT * FROM {table}"
        query = [*client, "--command" if options.server == "postgres" else "--execute", text]
        size = text_bytes(query, environment)  # and both sides find the rows in memory
        (source,) = server.execute(f"SELECT COUNT(*), {_rows.CHECKSUMS[options.server]} FROM {table}", database=DATABASE)
        mode = f"?ssl_mode={'required' if options.tls else 'disabled'}" if options.server == "mysql" else ""  # the drivers' defaults differ
        bench = Bench(name="bench_snapshot", server=server, tables=(table,), url_options=mode)
        raw, snapshot = Series("raw client > /dev/null"), Series("cdc-ops run, snapshot into Delta")
        operations: dict[str, list[Operation]] = {reader: [] for reader in READERS}
        for _ in range(options.runs):
            raw.add(run(query, environment, BENCH, to_nowhere=True))
            bench.reset()
            measured, (line,) = bench.run()
            assert line["status"] == "committed"
            snapshot.add(measured)
            for reader in READERS:
                operations[reader].append(warm_operation(bench, table, reader))
                print(
                    "  the operation in a session that runs, {}: {:.2f} s ({:.1f} s of processor time)".format(
                        reader, *operations[reader][-1][:2]
                    )
                )
                assert_equal(bench, bench.folder / "operation" / "table", source)
        count, total = assert_equal(bench, bench.lake / bench.schema / table, source)
    pairs = [theirs / ours for ours, theirs in zip(raw.seconds, snapshot.seconds, strict=True)]
    rate = f"{options.rows / snapshot.median:,.0f} rows/s, {size / snapshot.median / 1e6:.1f} MB/s of the client's text"
    report(
        f"Snapshot of {options.rows:,} rows x {len(_rows.COLUMNS)} columns, {server.name} {version}, {size / 1e6:,.0f} MB as text",
        (
            raw.line(),
            snapshot.line(),
            *(operation_line(reader, runs, raw.median) for reader, runs in operations.items()),
            "  (the last of four in one session: read, write, commit; without the starts of Python and Spark, the plan and the ledger)",
            f"whole process: ratio {snapshot.median / raw.median:.2f}   (pair by pair {min(pairs):.2f} .. {max(pairs):.2f})",
            f"{rate}; {folder_bytes(bench.lake) / 1e6:,.0f} MB of Parquet",
            f"lake = source: {count:,} rows, checksum {total}",
        ),
    )


if __name__ == "__main__":
    main()
