"""An increment of a few changed rows of a large table: what it makes the source read, and its time beside the snapshot and a bare MERGE."""

import random
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import _rows
from benchmarks._harness import DATABASE, LOCAL, ROOT, Bench, Measured, Series, arguments, cpu_of, ensure_rows, report, running_server
from cdc_ops.dev.connect_server import ConnectServer
from cdc_ops.dev.processes import running_pid
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer


def rows_read(server: DatabaseServer, table: str) -> int:
    """Rows that the server has read so far, whoever asked: of the table (MariaDB) or of all its InnoDB tables (MySQL)."""
    if isinstance(server, MariaDBServer):
        statistics = (
            f"SELECT rows_read FROM information_schema.table_statistics WHERE table_schema = '{DATABASE}' AND table_name = '{table}'"
        )
        return int(server.execute(statistics)[0][0])
    return int(server.execute("SHOW GLOBAL STATUS LIKE 'Innodb_rows_read'")[0][1])


def change(server: DatabaseServer, table: str, rows: int, changed: int, seed: int) -> None:
    """Updates rows all over the table; their `updated_at` is set by the server."""
    keys = ", ".join(str(key) for key in random.Random(seed).sample(range(1, rows + 1), changed))
    server.execute(f"UPDATE {table} SET quantity = quantity + 1 WHERE id IN ({keys})", "DO SLEEP(1)", database=DATABASE)


class BareMerges:
    """Delta's documented MERGE of as many rows on the same server, into a copy of the table; the process lives on between them."""

    def __init__(self, address: str, server: int, lake: Path, changed: int, runs: int) -> None:
        table = next(folder.parent for folder in lake.rglob("_delta_log"))
        copy = lake.parent / "bare"
        subprocess.run(["rm", "-rf", str(copy)], check=True)
        subprocess.run(["cp", "--archive", "--link", str(table), str(copy)], check=True)
        command = [sys.executable, "-m", "benchmarks._bare_merge", address, str(copy), str(runs), str(changed)]
        self._server = server
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self) -> Measured:
        """Measures the next statement alone: its batch was written before."""
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stdout.readline() == "start\n"
        used = cpu_of(self._server)
        print(file=self._process.stdin, flush=True)
        wall, own = map(float, self._process.stdout.readline().split())
        return Measured(seconds=wall, cpu_seconds=own + cpu_of(self._server) - used, peak_bytes=0, output="")

    def close(self) -> None:
        """Waits for the end of the process, which comes after its last run."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Increments:
    """Increments of one table by `cdc-ops run`, each with other rows changed before.

    Args:
        server: The source.
        table: Its table.
        bench: The pipeline.
        rows: Rows of the table.
        changed: Rows that change before each run.
    """

    server: DatabaseServer
    table: str
    bench: Bench
    rows: int
    changed: int
    read: list[int] = field(default_factory=list)

    def run(self, series: Series, spark: int = 0) -> None:
        """Measures one; `spark` is the process of the Spark server that works for it, 0 = it has a JVM of its own."""
        change(self.server, self.table, self.rows, self.changed, len(self.read))
        before, used = rows_read(self.server, self.table), cpu_of(spark) if spark else 0.0
        measured, (line,) = self.bench.run()
        self.read.append(rows_read(self.server, self.table) - before)
        assert line["counts"]["updated"] == self.changed, line
        series.add(replace(measured, cpu_seconds=measured.cpu_seconds + cpu_of(spark) - used) if spark else measured, [line])


def main() -> None:
    options = arguments(__doc__, ("mariadb", "mysql"), rows=3_000_000, changed=1_000, runs=3, warmup=8)
    table = f"changing_{options.rows}"
    with running_server(options.server) as server:
        ensure_rows(server, table, options.rows, _rows.create(table), *_rows.fill(table, options.rows, options.server))
        bench = Bench(name="bench_increment", server=server, tables=(table,), defaults="{cursor: [updated_at, id], lookback: 0s}")
        bench.reset()
        increments = Increments(server=server, table=table, bench=bench, rows=options.rows, changed=options.changed)
        snapshot, first, cold = Series("snapshot"), Series("increment, first two on a machine"), Series("increment, JVM of its own")
        warming, warm, bare = (
            Series("warming, increments"),
            Series("increment, warm Spark server"),
            Series("Delta's documented MERGE, warm"),
        )
        if options.server == "mariadb":
            server.execute("SET GLOBAL userstat = 1")
        snapshot.add(*bench.run())
        for run in range(options.runs + 2):  # the second small job on a machine writes its archive of classes
            increments.run(first if run < 2 else cold)
        with ConnectServer(bench.folder / "server", jars=LOCAL / "jars", memory=bench.driver_memory) as spark:
            pid = running_pid(spark.folder)
            assert pid is not None
            started = cpu_of(pid)
            bench.use_spark(f"{{connect: '{spark.url}'}}")
            for _ in range(options.warmup):
                increments.run(warming, pid)
            merges = BareMerges(spark.url, pid, bench.lake, options.changed, options.warmup + options.runs)
            for _ in range(options.warmup):
                merges.run()
            for _ in range(options.runs):  # in turn, so that neither has the warmer machine
                increments.run(warm, pid)
                bare.add(merges.run())
            merges.close()
            bench.assert_equal()
    report(
        f"{options.changed:,} changed rows in {options.rows:,}, {server.name}",
        (
            snapshot.line(),
            snapshot.spans(),
            first.line(),
            cold.line(),
            cold.spans(),
            warming.line(),
            f"the first on a Spark server: {warming.seconds[0]:.2f} s, processor {warming.cpu[0]:.1f} s; its start {started:.1f} s",
            warm.line(),
            warm.spans(),
            bare.line(),
            f"rows that the server read for it, plan and all: {', '.join(f'{number:,}' for number in sorted(set(increments.read)))}",
            f"beside the snapshot: {cold.median / snapshot.median:.2f}x, warm {warm.median / snapshot.median:.2f}x",
            f"warm, beside the bare MERGE: {warm.median / bare.median:.2f}x wall, {warm.processor / bare.processor:.2f}x processor",
        ),
    )


if __name__ == "__main__":
    main()
