"""An increment of a few changed rows of a large table: what it makes the source read, and its time beside the snapshot and a bare MERGE."""

import random
import subprocess
import sys
from dataclasses import replace
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


def bare_merges(address: str, server: int, lake: Path, changed: int, runs: int) -> Series:
    """Runs Delta's documented MERGE of as many rows on the same warm server, into a copy of the table; the first run is not counted."""
    table = next(folder.parent for folder in lake.rglob("_delta_log"))
    copy = lake.parent / "bare"
    subprocess.run(["rm", "-rf", str(copy)], check=True)
    subprocess.run(["cp", "--archive", "--link", str(table), str(copy)], check=True)
    command = [sys.executable, "-m", "benchmarks._bare_merge", address, str(copy), str(runs + 1), str(changed)]
    series = Series("Delta's documented MERGE, bare, warm")
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        for run in range(runs + 1):
            assert process.stdout.readline() == "start\n"
            used = cpu_of(server)
            print(file=process.stdin, flush=True)
            wall, own = map(float, process.stdout.readline().split())
            if run:
                series.add(Measured(seconds=wall, cpu_seconds=own + cpu_of(server) - used, peak_bytes=0, output=""))
    return series


def main() -> None:
    options = arguments(__doc__, ("mariadb", "mysql"), rows=3_000_000, changed=1_000, runs=3)
    table = f"changing_{options.rows}"
    with running_server(options.server) as server:
        ensure_rows(server, table, options.rows, _rows.create(table), *_rows.fill(table, options.rows, options.server))
        bench = Bench(name="bench_increment", server=server, tables=(table,), defaults="{cursor: [updated_at, id], lookback: 0s}")
        bench.reset()
        snapshot, increment = Series("snapshot"), Series(f"increment of {options.changed:,} rows")
        first, warm = Series("the same, first on a Spark server"), Series("the same, on a warm Spark server")
        if options.server == "mariadb":
            server.execute("SET GLOBAL userstat = 1")
        snapshot.add(*bench.run())
        read = []
        for seed in range(options.runs):
            change(server, table, options.rows, options.changed, seed)
            before = rows_read(server, table)
            measured, (line,) = bench.run()
            read.append(rows_read(server, table) - before)
            assert line["counts"]["updated"] == options.changed, line
            increment.add(measured, [line])
        with ConnectServer(bench.folder / "server", jars=LOCAL / "jars", memory=bench.driver_memory) as spark:
            pid = running_pid(spark.folder)
            assert pid is not None
            started = cpu_of(pid)
            bench.use_spark(f"{{connect: '{spark.url}'}}")
            for seed in range(options.runs, 2 * options.runs + 1):
                change(server, table, options.rows, options.changed, seed)
                used = cpu_of(pid)
                measured, (line,) = bench.run()
                measured = replace(measured, cpu_seconds=measured.cpu_seconds + cpu_of(pid) - used)
                assert line["counts"]["updated"] == options.changed, line
                (first if seed == options.runs else warm).add(measured, [line])
            bare = bare_merges(spark.url, pid, bench.lake, options.changed, options.runs)
            bench.assert_equal()
    report(
        f"{options.changed:,} changed rows in {options.rows:,}, {server.name}",
        (
            snapshot.line(),
            snapshot.spans(),
            increment.line(),
            increment.spans(),
            first.line(),
            warm.line(),
            warm.spans(),
            bare.line(),
            f"processor seconds of the Spark server's start {started:.1f}",
            f"rows that the server read for it, plan and all: {', '.join(f'{number:,}' for number in read)}",
            f"beside the snapshot: {increment.median / snapshot.median:.2f}x, warm {warm.median / snapshot.median:.2f}x",
            f"warm, beside the bare MERGE: {warm.median / bare.median:.2f}x wall, {warm.processor / bare.processor:.2f}x processor",
        ),
    )


if __name__ == "__main__":
    main()
