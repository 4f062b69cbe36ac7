"""Snapshot of a table into Delta by cdc-ops, beside ConnectorX with delta-rs and dlt, each in a process that has done it once before.

A peer is installed into an environment of its own below .local/bench, never into the project's.
"""

import os
import statistics
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from benchmarks import _rows
from benchmarks._harness import BENCH, DATABASE, ROOT, Bench, arguments, ensure_rows, report, run, running_server
from cdc_ops.dev.servers import DatabaseServer

PEERS = {
    "connectorx": ("connectorx==0.4.6", "deltalake==1.6.6", "pyarrow==26.0.1"),
    "dlt": ("dlt[deltalake,sql-database]==1.31.0", "pymysql==1.2.4", "pyarrow==26.0.1"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A way to do the same without cdc-ops.

    Args:
        name: As the report shows it.
        script: Module beside this one that does it.
        scheme: Of the URL that it takes.
        options: What the script takes after table, folder and number of runs.
    """

    name: str
    script: str
    scheme: str
    options: tuple[str, ...] = ()


ALL = (
    Peer(name="ConnectorX + delta-rs", script="connectorx", scheme="mysql"),
    Peer(name="dlt sql_database, default backend", script="dlt", scheme="mysql+pymysql", options=("sqlalchemy",)),
    Peer(name="dlt sql_database, pyarrow", script="dlt", scheme="mysql+pymysql", options=("pyarrow",)),
)


def peer_python(script: str) -> Path:
    """Returns the interpreter of a peer's environment, made at the first use."""
    folder = BENCH / f"peer-{script}"
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"installing {PEERS[script][0]} into an environment of its own ...", flush=True)
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEERS[script]], check=True)
    return python


def peer_seconds(peer: Peer, server: DatabaseServer, table: str, runs: int) -> tuple[list[float], str]:
    """Returns the seconds of each run after the first, and the types that arrived."""
    login = f"{server.user}:{quote(server.password, safe='')}@{server.host}:{server.port}"
    folder = BENCH / "work" / f"peer-{peer.script}"
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(peer_python(peer.script)), str(ROOT / "benchmarks" / f"_{peer.script}.py"), table, str(folder / "table"), str(runs + 1)]
    environment = {**os.environ, "PEER_URL": f"{peer.scheme}://{login}/{DATABASE}", "RUNTIME__DLTHUB_TELEMETRY": "false"}
    *lines, types = run([*command, *peer.options], environment, folder).output.splitlines()
    return [float(line.split()[0]) for line in lines[1:]], types


def our_seconds(bench: Bench, table: str, runs: int, reader: str) -> list[float]:
    """Returns the seconds of each operation after the first in one Spark session."""
    command = [sys.executable, "-m", "benchmarks._operation", table, str(bench.folder / "operation"), str(runs + 1), reader]
    lines = run(command, {**bench.environment(), "PYTHONPATH": str(ROOT)}, bench.folder).output.splitlines()
    return [float(line.split()[0]) for line in lines[-runs - 1 : -1]]


def main() -> None:
    options = arguments(__doc__, rows=3_000_000, runs=3)
    table = f"rows_{options.rows}"
    lines = []
    with running_server() as server:
        ensure_rows(server, table, options.rows, _rows.create(table), *_rows.fill(table, options.rows))
        bench = Bench(name="bench_peers", server=server, tables=(table,))
        bench.reset()
        ours = {reader: our_seconds(bench, table, options.runs, reader) for reader in ("jdbc", "native")}
        print(f"  cdc-ops: {ours}", flush=True)
        for peer in ALL:
            theirs, types = peer_seconds(peer, server, table, options.runs)
            print(f"  {peer.name}: {theirs}", flush=True)
            median = statistics.median(theirs)
            spread = f"{min(theirs):.2f} .. {max(theirs):.2f}, n={len(theirs)}"
            ratios = ", ".join(f"{reader} {statistics.median(seconds) / median:.2f}" for reader, seconds in ours.items())
            lines += [f"{peer.name:<34} median {median:7.2f} s   ({spread})   ratios: {ratios}", f"  its types: {types}"]
    own = [
        f"cdc-ops, one operation, {reader:<10} median {statistics.median(one):7.2f} s   ({min(one):.2f} .. {max(one):.2f}, n={len(one)})"
        for reader, one in ours.items()
    ]
    report(
        f"Snapshot of {options.rows:,} rows x {len(_rows.COLUMNS)} columns into Delta, in processes that have done it once before",
        (*own, *lines),
    )


if __name__ == "__main__":
    main()
