"""Snapshot of a table into Delta by `cdc-ops run`, beside the raw client that reads the same rows and throws them away."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import _rows
from benchmarks._harness import BENCH, DATABASE, ROOT, Bench, Series, arguments, ensure_rows, report, run, running_server
from cdc_ops.testing.mariadb import MariaDBServer


def raw_client(server: MariaDBServer) -> tuple[list[str], dict[str, str]]:
    """Returns the client's command without its query; the password is in the environment."""
    places = os.pathsep.join((os.environ.get("PATH", ""), str(server.program.parent)))
    found = next(path for name in ("mariadb", "mysql") if (path := shutil.which(name, path=places)))
    login = ["--no-defaults", "--protocol=tcp", "--skip-ssl", f"--host={server.host}", f"--port={server.port}", f"--user={server.user}"]
    return [found, *login, "--quick", "--batch", "--skip-column-names", DATABASE], {**os.environ, "MYSQL_PWD": server.password}


def text_bytes(command: list[str], environment: dict[str, str]) -> int:
    """Returns how many bytes the client prints."""
    total = 0
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        while block := client.stdout.read(1 << 20):
            total += len(block)
    assert client.returncode == 0
    return total


def lake_checksum(bench: Bench, table: str) -> tuple[int, int]:
    """Reads the lake in a process of its own."""
    command = [sys.executable, "-m", "benchmarks._checksum", str(bench.lake / DATABASE / table)]
    count, total = run(command, {**bench.environment(), "PYTHONPATH": str(ROOT)}, bench.folder).output.split()[-2:]
    return int(count), int(total)


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def main() -> None:
    options = arguments(__doc__, rows=3_000_000, runs=3)
    table = f"rows_{options.rows}"
    with running_server() as server:
        ensure_rows(server, table, options.rows, _rows.create(table), _rows.fill(table, options.rows))
        (version,) = server.execute("SELECT VERSION()")[0]
        client, environment = raw_client(server)
        query = [*client, "--execute", f"SELECT * FROM {table}"]
        size = text_bytes(query, environment)  # and both sides find the rows in memory
        (source,) = server.execute(f"SELECT COUNT(*), SUM(CRC32({_rows.SOURCE_TEXT})) FROM {table}", database=DATABASE)
        bench = Bench(name="bench_snapshot", server=server, tables=(table,))
        raw, snapshot = Series("mariadb --quick > /dev/null"), Series("cdc-ops run, snapshot into Delta")
        for _ in range(options.runs):
            raw.add(run(query, environment, BENCH, to_nowhere=True))
            bench.reset()
            measured, (line,) = bench.run()
            assert line["status"] == "committed"
            snapshot.add(measured)
        count, total = lake_checksum(bench, table)
        assert (count, total) == (int(source[0]), int(source[1])), f"lake {count}, {total}; source {source}"
    pairs = [theirs / ours for ours, theirs in zip(raw.seconds, snapshot.seconds, strict=True)]
    rate = f"{options.rows / snapshot.median:,.0f} rows/s, {size / snapshot.median / 1e6:.1f} MB/s of the client's text"
    report(
        f"Snapshot of {options.rows:,} rows x {len(_rows.COLUMNS)} columns, MariaDB {version}, {size / 1e6:,.0f} MB as text",
        (
            raw.line(),
            snapshot.line(),
            f"ratio {snapshot.median / raw.median:.2f}   (pair by pair {min(pairs):.2f} .. {max(pairs):.2f})",
            f"{rate}; {folder_bytes(bench.lake) / 1e6:,.0f} MB of Parquet",
            f"lake = source: {count:,} rows, checksum {total}",
        ),
    )


if __name__ == "__main__":
    main()
