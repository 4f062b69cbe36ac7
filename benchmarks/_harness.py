"""What the measurements share: a server that keeps its data, pipelines in folders of their own, processes with wall time and memory."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, MySQLServer, PostgresServer

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ROOT / ".local"
BENCH = LOCAL / "bench"
DATABASE = "bench"
CONNECTION = "bench_db"
_NOT_OURS = frozenset({"SPARK_HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"})
"""Variables that a run does not inherit: an installed package has its modules compiled, whatever this process does with its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One process with its children: how long it took by the wall, its processor time, its largest resident memory, what it printed."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str
    commands: frozenset[str] = frozenset()


@dataclass(slots=True)
class Series:
    """Equal runs of one thing."""

    name: str
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    phases: list[dict[str, float]] = field(default_factory=list)

    def add(self, run: Measured, lines: Iterable[dict[str, Any]] = ()) -> None:
        """Adds a run; of a run of `cdc-ops` also the phases of its tables, of which those of one table say the most."""
        self.seconds.append(run.seconds)
        self.cpu.append(run.cpu_seconds)
        self.peaks.append(run.peak_bytes)
        for line in lines:
            known = {item["phase"]: item["seconds"] for item in line["phases"]}
            self.phases.append({**known, "other": run.seconds - sum(known.values())})
        load = os.getloadavg()[0]
        print(f"  {self.name}: {run.seconds:.2f} s ({run.cpu_seconds:.1f} s of processor time), machine load {load:.1f}", flush=True)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def processor(self) -> float:
        """Median processor seconds."""
        return statistics.median(self.cpu)

    def spans(self) -> str:
        """Returns the median seconds of each phase; `other` is what of the process belongs to none."""
        names = dict.fromkeys(name for phases in self.phases for name in phases)
        seconds = {name: statistics.median(phases.get(name, 0.0) for phases in self.phases) for name in names}
        return f"{self.name}: " + ", ".join(f"{name} {seconds[name]:.1f} s" for name in names)

    def line(self) -> str:
        spread = f"{min(self.seconds):.2f} .. {max(self.seconds):.2f}"
        use = f"processor {statistics.median(self.cpu):6.1f} s   peak {max(self.peaks) / 2**20:6,.0f} MiB"
        return f"{self.name:<34} median {self.median:7.2f} s   ({spread}, n={len(self.seconds)})   {use}"


KINDS: dict[str, type[DatabaseServer]] = {"mariadb": MariaDBServer, "mysql": MySQLServer, "postgres": PostgresServer}
# Rows that are read should come from memory on both sides of a comparison.
OPTIONS = {
    "mariadb": ("--innodb-buffer-pool-size=2560M", "--innodb-log-file-size=512M"),
    "mysql": ("--innodb-buffer-pool-size=2560M", "--innodb-redo-log-capacity=1G"),
    "postgres": ("-c", "shared_buffers=1GB", "-c", "max_wal_size=4GB"),
}


@contextmanager
def running_server(kind: str = "mariadb") -> Iterator[DatabaseServer]:
    """Yields the server of the measurements, of one of KINDS; what was filled once stays below .local/bench."""
    os.environ.setdefault("CDC_OPS_CACHE", str(LOCAL / "cache"))
    server = KINDS[kind](BENCH / kind, options=OPTIONS[kind])
    with server:
        server.create_database(DATABASE)
        yield server


def ensure_rows(server: DatabaseServer, table: str, rows: int, create: str, *fill: str) -> None:
    """Creates and fills a table unless it is there with that many rows."""
    if (server.folder / f"{table}.filled").exists():
        return
    print(f"filling {DATABASE}.{table} with {rows:,} rows ...", flush=True)
    postgres = isinstance(server, PostgresServer)
    quiet = () if postgres else ("SET SESSION sql_log_bin = 0", "SET SESSION unique_checks = 0")
    analyze = f"ANALYZE {table}" if postgres else f"ANALYZE TABLE {table}"
    server.execute(*quiet, f"DROP TABLE IF EXISTS {table}", create, *fill, analyze, database=DATABASE)
    assert server.execute(f"SELECT COUNT(*) FROM {table}", database=DATABASE)[0][0] == rows
    (server.folder / f"{table}.filled").touch()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One pipeline with its own ledger, lake and staging area, run by the command line in processes of their own.

    Args:
        name: Of the pipeline and its folder.
        server: The source.
        tables: Table names in the database of the measurements.
        defaults: Settings of all tables, as YAML.
        driver_memory: Of Spark.
        url_options: Of the connection, e.g. `?ssl_mode=disabled`.
    """

    name: str
    server: DatabaseServer
    tables: tuple[str, ...]
    defaults: str = "{cursor: [updated_at, id]}"
    driver_memory: str = "2g"
    url_options: str = ""

    @property
    def kind(self) -> str:
        """The source's kind."""
        return next(kind for kind, server in KINDS.items() if type(self.server) is server)

    @property
    def schema(self) -> str:
        """The schema of the tables, as the pipeline names it."""
        return "public" if self.kind == "postgres" else DATABASE

    @property
    def folder(self) -> Path:
        return BENCH / "work" / self.name

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def reset(self) -> None:
        """Removes ledger and lake."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "pipelines").mkdir(parents=True)
        self.use_spark(f"{{driver_memory: {self.driver_memory}}}")

    def use_spark(self, settings: str) -> None:
        """Writes the pipeline file; `settings` are those of Spark, as YAML."""
        entries = "".join(f"  {self.schema}.{table}: {{}}\n" for table in self.tables)
        (self.folder / "pipelines" / f"{self.name}.yaml").write_text(
            f"pipeline: {self.name}\n"
            f"source: {{kind: {self.kind}, connection: {CONNECTION}, time_zone: UTC}}\n"
            f"spark: {settings}\n"
            f"target: {{root: {self.lake}, staging: {self.folder / 'staging'}}}\n"
            f"defaults: {self.defaults}\n"
            f"tables:\n{entries}",
            "utf-8",
        )

    def environment(self) -> dict[str, str]:
        server = self.server
        url = ConnectionUrl.from_parts(self.kind, server.host, server.port, server.user, server.password, DATABASE)
        return {
            **inherited(),
            "CDC_OPS_HOME": str(self.folder),
            "CDC_OPS_LEDGER": f"sqlite:///{self.folder / 'ledger.db'}",
            "CDC_OPS_JARS": str(LOCAL / "jars"),
            "CDC_OPS_CLASSES": os.environ.get("CDC_OPS_CLASSES") or str(BENCH / "classes"),  # `off` measures without
            "CDC_OPS_PIPELINES": str(self.folder / "pipelines"),
            f"CDC_OPS_CONN_{CONNECTION.upper()}": url.render() + self.url_options,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def cli(self, *arguments: str) -> Measured:
        """Runs `cdc-ops` and returns when it has ended well."""
        return run([str(ROOT / ".local/venv/bin/cdc-ops"), *arguments, "--json"], self.environment(), self.folder)

    def run(self) -> tuple[Measured, list[dict[str, Any]]]:
        """Runs the pipeline and returns the lines of its tables."""
        measured = self.cli("run")
        return measured, tables_of(measured.output)

    def assert_equal(self) -> None:
        """Compares source and lake row by row with `cdc-ops verify`, which ends badly if they differ."""
        found = json.loads(self.cli("verify").output)
        assert len(found) == len(self.tables)
        assert all(table["equal"] for table in found)


def inherited() -> dict[str, str]:
    """Returns the variables that a run inherits."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_OURS}


def tables_of(output: str) -> list[dict[str, Any]]:
    """Returns the tables' lines in what `cdc-ops run --json` prints."""
    reports = json.loads(output).values()
    assert not [failure for report in reports for failure in report["failures"]], output
    return [table for report in reports for table in report["tables"]]


def run(command: Sequence[str], environment: dict[str, str], folder: Path, *, to_nowhere: bool = False) -> Measured:
    """Runs a process to its end and watches its memory.

    Raises:
        RuntimeError: it ended badly; the text has what it said.
    """
    log = folder / "stderr.log"
    with log.open("wb") as errors:
        started = time.monotonic()
        output = subprocess.DEVNULL if to_nowhere else subprocess.PIPE
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=errors, text=True)
        watch = _Watch(process.pid)
        text, _ = process.communicate()
        seconds = time.monotonic() - started
    watch.stop()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}\n{text or ''}\n{log.read_text('utf-8', 'replace')[-4000:]}")
    return Measured(
        seconds=seconds, cpu_seconds=watch.cpu_seconds, peak_bytes=watch.peak, output=text or "", commands=frozenset(watch.commands)
    )


def cpu_of(pid: int) -> float:
    """Returns the processor seconds that a process has used so far, without its children."""
    return sum(int(number) for number in _stat(pid)[11:13]) / os.sysconf("SC_CLK_TCK")


def cpu_of_family(root: int) -> float:
    """Returns the processor seconds that a process and its children that live have used so far."""
    return sum(cpu_of(pid) for pid in family(root))


class _Watch:
    """Adds up memory and processor time of a process and its children, five times a second; a child's last moments are not seen."""

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._ticks: dict[int, int] = {}
        self.commands: set[str] = set()
        self._root = pid
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    @property
    def cpu_seconds(self) -> float:
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _look(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while True:
            total = 0
            for pid in family(self._root):
                try:
                    total += int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * page
                    self._ticks[pid] = sum(int(number) for number in _stat(pid)[11:13])
                    self.commands.add(Path(f"/proc/{pid}/comm").read_text("ascii").strip())
                except (OSError, IndexError):
                    continue  # it has just ended
            self.peak = max(self.peak, total)
            if self._end.wait(0.2):
                return


def _stat(pid: int) -> list[str]:
    """Returns the fields of /proc/<pid>/stat from the state on: [1] is the parent, [11:13] the processor time in user and kernel."""
    return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()


def family(root: int) -> Iterable[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int(_stat(int(entry.name))[1])
        except (OSError, IndexError):
            continue
        parents.setdefault(parent, []).append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += parents.get(pid, [])


def arguments(description: str, servers: Sequence[str] = (), **defaults: int) -> argparse.Namespace:
    """Reads the options of a measurement: one whole number each, and which server where there is a choice."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default, help="a whole number")
    if servers:
        parser.add_argument("--server", choices=servers, default=servers[0])
    return parser.parse_args()


def report(title: str, lines: Iterable[str]) -> None:
    """Prints the result, after the machine that it was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(f"\n{title}\n  {os.cpu_count()} cores, {memory:.0f} GiB, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    for line in lines:
        print(f"  {line}")
    print(flush=True)
