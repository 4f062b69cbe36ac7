"""A table without cursor that has not changed, compared by checksums, beside reading it whole; then with a few changed rows."""

import json

from benchmarks import _rows
from benchmarks._harness import DATABASE, Bench, Measured, Series, arguments, ensure_rows, report, running_server
from cdc_ops.dev.databases.mariadb import MariaDBServer

CHANGED = 100


def sent(server: MariaDBServer) -> int:
    """Bytes that the server has sent to clients since it started."""
    return int(server.execute("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")[0][1])


def full_read(bench: Bench) -> Measured:
    return bench.cli("resync", "--pipeline", bench.name, "--mode", "full")


def main() -> None:
    options = arguments(__doc__, rows=3_000_000, runs=2)
    table = f"exact_{options.rows}"
    # A DOUBLE has no text that two programs share, and would make the comparison read the whole table.
    create = _rows.create(table).replace("weight DOUBLE", "weight DECIMAL(12, 3)")
    with running_server() as server:
        ensure_rows(server, table, options.rows, create, *_rows.fill(table, options.rows))
        bench = Bench(name="bench_compare", server=server, tables=(table,), defaults="{cursor: []}")
        bench.reset()
        bench.run()
        compared, whole = Series("compared, unchanged"), Series("read whole (full resync)")
        quiet, loud = 0, 0
        for _ in range(options.runs):
            before = sent(server)
            measured, (line,) = bench.run()
            quiet = sent(server) - before
            assert (line["status"], line["counts"]["read"]) == ("idle", 0), line
            compared.add(measured)
            before = sent(server)
            whole.add(full_read(bench))
            loud = sent(server) - before
        step = options.rows // CHANGED
        server.execute(f"UPDATE {table} SET quantity = quantity + 1 WHERE id % {step} = 1", database=DATABASE)
        _, (line,) = bench.run()
        assert line["counts"]["updated"] == CHANGED, line
        assert json.loads(bench.cli("verify").output)[0]["equal"]
    report(
        f"{options.rows:,} rows without cursor",
        (
            compared.line(),
            whole.line(),
            f"unchanged: 0 rows landed, {quiet:,} bytes sent by the server; read whole: {loud:,} bytes, ratio {quiet / loud:.5f}",
            f"time ratio {compared.median / whole.median:.2f}",
            f"{CHANGED} changed rows, spread evenly: {line['counts']['read']:,} rows read, {line['counts']['updated']:,} merged",
        ),
    )


if __name__ == "__main__":
    main()
