"""Snapshot of a table into Delta by cdc-ops, beside ConnectorX with delta-rs: both in a process that has done it once before.

The peer is installed into an environment of its own below .local/bench, never into the project's.
"""

import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks import _rows
from benchmarks._harness import BENCH, DATABASE, ROOT, Bench, arguments, ensure_rows, report, run, running_server
from cdc_ops.core.connections import ConnectionUrl
from cdc_ops.testing.mariadb import MariaDBServer

PEERS = ("connectorx==0.4.6", "deltalake==1.6.6", "pyarrow==26.0.1")


def peer_python() -> Path:
    """Returns the interpreter of the peers' environment, made at the first use."""
    folder = BENCH / "peers"
    python = folder / "bin" / "python"
    if not python.exists():
        print("installing connectorx and deltalake into an environment of their own ...", flush=True)
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEERS], check=True)
    return python


def peer_seconds(python: Path, server: MariaDBServer, table: str, runs: int) -> tuple[list[tuple[float, float]], str]:
    """Returns the seconds of reading and of writing for each run after the first, and the types that arrived."""
    url = ConnectionUrl.from_parts("mysql", server.host, server.port, server.user, server.password, DATABASE).render()
    folder = BENCH / "work" / "peer"
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(python), str(ROOT / "benchmarks" / "_connectorx.py"), table, str(folder / "table"), str(runs + 1)]
    *lines, types = run(command, {**os.environ, "PEER_URL": url}, folder).output.splitlines()
    pairs = [(float(read), float(write)) for read, write, _ in (line.split() for line in lines)]
    return pairs[1:], types


def our_seconds(bench: Bench, table: str, runs: int) -> list[float]:
    """Returns the seconds of each operation after the first in one Spark session."""
    command = [sys.executable, "-m", "benchmarks._operation", table, str(bench.folder / "operation"), str(runs + 1)]
    lines = run(command, {**bench.environment(), "PYTHONPATH": str(ROOT)}, bench.folder).output.split()
    return [float(line) for line in lines[-runs:]]


def main() -> None:
    options = arguments(__doc__, rows=3_000_000, runs=3)
    table = f"rows_{options.rows}"
    python = peer_python()
    with running_server() as server:
        ensure_rows(server, table, options.rows, _rows.create(table), *_rows.fill(table, options.rows))
        bench = Bench(name="bench_peers", server=server, tables=(table,))
        bench.reset()
        theirs, types = peer_seconds(python, server, table, options.runs)
        ours = our_seconds(bench, table, options.runs)
    peer = statistics.median(read + write for read, write in theirs)
    own = statistics.median(ours)
    report(
        f"Snapshot of {options.rows:,} rows x {len(_rows.COLUMNS)} columns into Delta, process warm, against ConnectorX + delta-rs",
        (
            f"cdc-ops, one operation      median {own:6.2f} s   ({min(ours):.2f} .. {max(ours):.2f}, n={len(ours)})",
            f"ConnectorX read + delta-rs  median {peer:6.2f} s   (read {statistics.median(read for read, _ in theirs):.2f},"
            f" write {statistics.median(write for _, write in theirs):.2f}, n={len(theirs)})",
            f"ratio {own / peer:.2f}",
            f"the peer's types: {types}",
        ),
    )


if __name__ == "__main__":
    main()
