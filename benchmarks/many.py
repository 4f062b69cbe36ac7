"""A thousand tables of which none changed; and a hundred of which five changed, beside a pipeline of those five.

Only the first table is copied by a snapshot. The others have the same rows: their Delta tables are copies of its own, with their names in
the log, and `cdc-ops state rebuild` reads their states from there. Statements at the source are counted by the server itself.
"""

import shutil
from pathlib import Path

from benchmarks import _rows
from benchmarks._harness import DATABASE, Bench, Series, arguments, ensure_rows, report, running_server
from cdc_ops.dev.servers import DatabaseServer

COMMON = "{cursor: [updated_at, id]}"
FIRST = "wide_0001"


def fill(server: DatabaseServer, names: tuple[str, ...], rows: int) -> None:
    """Creates the first table, and the others like it."""
    ensure_rows(server, FIRST, rows, _rows.create(FIRST), *_rows.fill(FIRST, rows))
    there = {name for (name,) in server.execute("SHOW TABLES", database=DATABASE)}
    for name in names[1:]:
        if name not in there:
            server.execute(f"CREATE TABLE {name} LIKE {FIRST}", f"INSERT INTO {name} SELECT * FROM {FIRST}", database=DATABASE)


def copy_lake(bench: Bench) -> None:
    """Gives every table but the first a copy of the first one's Delta table, and the ledger their states."""
    first = bench.lake / bench.schema / FIRST
    for name in bench.tables:
        target = bench.lake / bench.schema / name
        if target == first:
            continue
        shutil.copytree(first, target)
        for commit in sorted((target / "_delta_log").glob("*.json")):
            _rename(commit, name)
        for checksum in (target / "_delta_log").glob("*.crc"):
            checksum.unlink()
        for checksum in target.rglob(".*.crc"):
            checksum.unlink()
    bench.cli("state", "rebuild", "--pipeline", bench.name)


def _rename(commit: Path, name: str) -> None:
    commit.write_text(commit.read_text("utf-8").replace(FIRST, name), "utf-8")


def begin(bench: Bench) -> None:
    """Copies all tables of a pipeline into the lake, and runs it once without news."""
    bench.reset()
    bench.cli("run", "--table", f"{bench.schema}.{FIRST}")
    copy_lake(bench)
    bench.run()


def questions(server: DatabaseServer) -> int:
    """Returns how many statements clients have sent to the server so far; those that ask for it here are among them."""
    return int(server.execute("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1])


def unchanged(server: DatabaseServer, names: tuple[str, ...], runs: int) -> None:
    """Runs a pipeline of which no table has news."""
    bench = Bench(name="bench_wide", server=server, tables=names, defaults=COMMON)
    begin(bench)
    series, counted = Series(f"{len(names):,} unchanged tables"), []
    for _ in range(runs):
        first, before = questions(server), questions(server)
        measured, lines = bench.run()
        counted.append(questions(server) - before - (before - first))
        assert [line["status"] for line in lines] == ["idle"] * len(names), lines[:3]
        assert "java" not in measured.commands, "Spark was started to learn that there is nothing to do"
        series.add(measured)
    said = f"statements at the source, counted by it: {min(counted)} .. {max(counted)}; no JVM was started"
    report(f"{len(names):,} tables, none changed", (series.line(), said))


def some_changed(server: DatabaseServer, names: tuple[str, ...], changed: int, runs: int) -> None:
    """Runs a pipeline of which a few tables have news, beside a pipeline of those few."""
    few = names[:changed]
    many = Bench(name="bench_some", server=server, tables=names, defaults=COMMON)
    alone = Bench(name="bench_few", server=server, tables=few, defaults=COMMON)
    for bench in (many, alone):
        begin(bench)
    all_tables, only_changed = Series(f"{len(names)} tables, {changed} changed"), Series(f"{changed} tables, all changed")
    for _ in range(runs):
        for table in few:
            server.execute(f"UPDATE {table} SET total = total + 1 WHERE id <= 10", database=DATABASE)
        for bench, series in ((alone, only_changed), (many, all_tables)):
            measured, lines = bench.run()
            read = [line["table"] for line in lines if line["counts"]["read"]]
            assert len(read) == changed, lines
            series.add(measured)
    for bench in (many, alone):
        bench.cli("verify", *(part for table in few for part in ("--table", f"{bench.schema}.{table}")))
    ratio = f"ratio {all_tables.median / only_changed.median:.2f}"
    report(
        f"{changed} of {len(names)} tables changed",
        (only_changed.line(), all_tables.line(), ratio, "lake = source in the changed tables, compared row by row"),
    )


def main() -> None:
    options = arguments(__doc__ or "", tables=1_000, rows=100, some=100, changed=5, runs=3)
    names = tuple(f"wide_{number:04}" for number in range(1, options.tables + 1))
    with running_server() as server:
        fill(server, names, options.rows)
        unchanged(server, names, options.runs)
        some_changed(server, names[: options.some], options.changed, options.runs)


if __name__ == "__main__":
    main()
