"""Twenty tables with changed rows in one run of a pipeline, beside one such table in a run of its own."""

from benchmarks import _rows
from benchmarks._harness import DATABASE, Bench, Series, arguments, ensure_rows, report, running_server


def change(bench: Bench, rows: int, changes: int) -> None:
    """Changes rows that lie far apart in each table."""
    step = max(rows // changes, 1)
    for table in bench.tables:
        bench.server.execute(f"UPDATE {table} JOIN seq_1_to_{changes} ON id = seq * {step} SET total = total + 1", database=DATABASE)


def main() -> None:
    options = arguments(__doc__, tables=20, rows=20_000, changes=1_000, runs=3)
    names = tuple(f"many_{number:02}" for number in range(1, options.tables + 1))
    with running_server() as server:
        for table in (*names, "single"):
            ensure_rows(server, table, options.rows, _rows.create(table), *_rows.fill(table, options.rows))
        many = Bench(name="bench_many", server=server, tables=names)
        one = Bench(name="bench_one", server=server, tables=("single",))
        for bench in (many, one):
            bench.reset()
            bench.run()
        together, alone = Series(f"{options.tables} tables in one run"), Series("one table in a run")
        for _ in range(options.runs):
            for bench, series in ((one, alone), (many, together)):
                change(bench, options.rows, options.changes)
                measured, lines = bench.run()
                read = [line["counts"]["read"] for line in lines]
                assert read == [options.changes] * len(bench.tables), lines
                series.add(measured)
        for bench in (one, many):
            bench.assert_equal()
    pairs = [theirs / ours for ours, theirs in zip(alone.seconds, together.seconds, strict=True)]
    report(
        f"{options.tables} tables x {options.changes:,} changed rows (of {options.rows:,} each)",
        (
            alone.line(),
            together.line(),
            f"ratio {together.median / alone.median:.2f}   (pair by pair {min(pairs):.2f} .. {max(pairs):.2f})",
            "lake = source in all tables, compared row by row",
        ),
    )


if __name__ == "__main__":
    main()
