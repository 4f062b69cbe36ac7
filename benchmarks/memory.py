"""A snapshot of a large table through a small Spark driver, and how much memory its processes took.

Of both drivers that hold a whole result in memory unless they are told not to: MariaDB's and Postgres's.
"""

from benchmarks import _rows
from benchmarks._harness import Bench, Series, arguments, ensure_rows, report, running_server

POSTGRES = """
CREATE TABLE {table} (
  id BIGINT PRIMARY KEY,
  customer_id INTEGER NOT NULL,
  status VARCHAR(12) NOT NULL,
  total NUMERIC(12, 2) NOT NULL,
  currency CHAR(3) NOT NULL,
  quantity SMALLINT NOT NULL,
  weight DOUBLE PRECISION NOT NULL,
  note VARCHAR(80),
  express BOOLEAN NOT NULL,
  ordered_on DATE NOT NULL,
  created_at TIMESTAMP(0) NOT NULL,
  updated_at TIMESTAMP(6) NOT NULL
)"""
POSTGRES_FILL = """
INSERT INTO {table}
SELECT i,
       i % 200000,
       (ARRAY['new', 'paid', 'shipped', 'delivered', 'returned'])[1 + i % 5],
       5 + i % 50000 / 100.0,
       'EUR',
       i % 100,
       (i % 4000) / 8.0,
       CASE WHEN i % 4 > 0 THEN 'parcel ' || i || ', ring twice, leave at the Tür: ' || md5(i::text) END,
       i % 10 = 0,
       DATE '2026-01-01' + (i % 200)::int,
       TIMESTAMP '2026-01-01' + i * INTERVAL '1 second',
       TIMESTAMP '2026-01-01' + i * INTERVAL '4.000001 seconds'
FROM generate_series(1, {rows}) i"""


def main() -> None:
    options = arguments(__doc__, ("mariadb", "postgres"), rows=10_000_000, mebibytes=2048)
    table = f"large_{options.rows}"
    if options.server == "postgres":
        create, fill = POSTGRES.format(table=table), (POSTGRES_FILL.format(table=table, rows=options.rows),)
        more = (f"CREATE INDEX ON {table} (updated_at, id)",)
    else:
        create, fill, more = _rows.create(table), _rows.fill(table, options.rows), ()
    with running_server(options.server) as server:
        ensure_rows(server, table, options.rows, create, *fill, *more)
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
