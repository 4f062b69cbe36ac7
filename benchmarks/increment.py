"""An increment of a few changed rows of a large table: what it makes the source read, and its time beside that of the snapshot."""

import random
from dataclasses import replace

from benchmarks import _rows
from benchmarks._harness import DATABASE, LOCAL, Bench, Series, arguments, cpu_of, ensure_rows, report, running_server
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
            f"processor seconds of the Spark server's start {started:.1f}",
            f"rows that the server read for it, plan and all: {', '.join(f'{number:,}' for number in read)}",
            f"time ratio {increment.median / snapshot.median:.2f}, warm {warm.median / snapshot.median:.2f}",
        ),
    )


if __name__ == "__main__":
    main()
