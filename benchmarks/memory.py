"""A snapshot of a large table through a small Spark driver, and how much memory its processes took.

Of both drivers that hold a whole result in memory unless they are told not to: MariaDB's and Postgres's.
"""

from benchmarks import _rows
from benchmarks._harness import Bench, Series, arguments, ensure_rows, report, running_server


def main() -> None:
    options = arguments(__doc__, ("mariadb", "postgres"), rows=10_000_000, mebibytes=2048)
    table = f"large_{options.rows}"
    with running_server(options.server) as server:
        create = _rows.create(table, options.server)
        ensure_rows(server, table, options.rows, create, *_rows.fill(table, options.rows, options.server))
        bench = Bench(name="bench_memory", server=server, tables=(table,), driver_memory=f"{options.mebibytes}m")
        bench.reset()
        snapshot = Series(f"snapshot, driver of {options.mebibytes:,} MiB")
        measured, (line,) = bench.run()
        snapshot.add(measured)
        assert (line["status"], line["counts"]["read"]) == ("committed", options.rows), line
        bench.assert_equal()
    report(f"{options.rows:,} rows x {len(_rows.COLUMNS)} columns, {server.name}", (snapshot.line(), "lake = source by 'cdc-ops verify'"))


if __name__ == "__main__":
    main()
