"""A soak: writers that do all that loses rows elsewhere, increments every few seconds beside them, and a comparison at the end.

    python -m tests.soak --server mysql --seconds 300

Three tables, one for each kind of cursor: `stamped` (TIMESTAMP(6) ON UPDATE), `paired` (the same with the id, and a key of two columns)
and `counted` (AUTO_INCREMENT, rows are only inserted). The lookback is zero, so nothing but the safe bound keeps rows from getting lost:
with --unsafe the clock is taken as the bound instead, and then they do get lost.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.core.operation.run_request import RunKind
from cdc_ops.core.pipeline.pipeline import SourceConfig, TableRule
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, MySQLServer
from cdc_ops.sources.base import Source
from tests.soak_writers import CREATE, FIRST_ROWS, REGIONS, Journal, Writer
from tests.world import World

_CURSORS: Final = {"stamped": ("updated_at",), "paired": ("updated_at", "id"), "counted": ("id",)}
KEYS: Final = {"stamped": 1, "paired": 2, "counted": 1}
"""How many of the first columns are the key."""

_SOURCE_COLUMNS: Final = {
    "stamped": "id, v, note, DATE_FORMAT(updated_at, '%Y-%m-%d %H:%i:%s.%f')",
    "paired": "region, id, v, note, DATE_FORMAT(updated_at, '%Y-%m-%d %H:%i:%s.%f')",
    "counted": "id, v, note",
}
_LAKE_COLUMNS: Final = {
    name: columns.replace("DATE_FORMAT(updated_at, '%Y-%m-%d %H:%i:%s.%f')", "DATE_FORMAT(updated_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')")
    for name, columns in _SOURCE_COLUMNS.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a table of the lake differs from the source.

    Args:
        rows: Rows at the source.
        lost: Rows of the source that the lake has not, or has as they were before.
        doubled: Rows of the lake beyond the first of their key.
        gone: Keys of the lake that the source has no more.
        unexplained: Those of `gone` that nobody deleted or renamed.
        same_checksum: Whether counts and sums over all values are equal, each computed by its own side.
    """

    rows: int
    lost: int
    doubled: int
    gone: int
    unexplained: int
    same_checksum: bool

    @property
    def is_equal(self) -> bool:
        return not (self.lost or self.doubled or self.gone) and self.same_checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakResult:
    """What a soak showed: differences by table after the last increment and after reconcile."""

    increments: dict[str, Difference]
    reconciled: dict[str, Difference]
    writers: Counter[str]
    seconds: tuple[float, ...]
    held: int
    failures: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yields the report for people."""
        runs = f"{len(self.seconds)} increments, median {statistics.median(self.seconds):.1f} s, longest {max(self.seconds):.1f} s"
        yield f"{runs}; {self.held} bounds were held back by an open writer; {len(self.failures)} failures"
        yield "writers: " + ", ".join(f"{what} {count:,}" for what, count in sorted(self.writers.items()))
        for title, found in (("increments alone", self.increments), ("after reconcile", self.reconciled)):
            for table, one in found.items():
                yield (
                    f"{title}, {table}: {one.rows:,} rows, lost {one.lost}, doubled {one.doubled}, gone at the source {one.gone}"
                    f" ({one.unexplained} unexplained), checksum {'equal' if one.same_checksum else 'differs'}"
                )


@dataclass
class SoakWorld(World):
    """A world that counts how often an open writer held a bound back.

    Args:
        unsafe: Take the clock as the bound instead: proof that the soak can fail.
    """

    unsafe: bool = False
    held: int = 0

    def _connect(self, config: SourceConfig) -> Source:
        source = super()._connect(config)
        safe = source.safe_bound

        def bound(*asked: Any) -> SafeBound:
            found = safe(*asked)
            self.held += bool(found.held_by)
            return replace(found, value=found.clock) if self.unsafe else found

        source.safe_bound = bound  # type: ignore[method-assign]
        return source


def prepare(world: SoakWorld) -> None:
    """Makes the tables, each with its cursor, and takes their snapshots."""
    numbers = range(1, FIRST_ROWS + 1)
    stamped = ", ".join(f"({number}, 0, 'first')" for number in numbers)
    paired = ", ".join(f"({number % REGIONS}, {number}, 0, 'first')" for number in numbers)
    world.sql(
        *CREATE.values(),
        f"INSERT INTO stamped (id, v, note) VALUES {stamped}",
        f"INSERT INTO paired (region, id, v, note) VALUES {paired}",
        "INSERT INTO counted (v, note) VALUES (0, 'first')",
    )
    settings = TableSettings.of(lookback=timedelta(0), parallelism=1, max_delete_ratio=1.0)
    rules = (TableRule(pattern=f"{world.schema}.{name}", settings=settings.changed(cursor=_CURSORS[name])) for name in CREATE)
    world.pipeline = replace(world.pipeline, tables=tuple(rules))


@contextmanager
def writing(world: World, *, writers: int, patient: int, longest: float) -> Iterator[Journal]:
    """Lets writers write until the block ends, and waits for them.

    Args:
        world: Where the tables are.
        writers: How many.
        patient: How many of them hold their transactions open.
        longest: Seconds that a transaction is held open at most.
    """
    journal = Journal(longest=longest)
    clients = [Writer(world.server, world.database, journal, seed, patient=seed < patient) for seed in range(writers)]
    threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield journal
    finally:
        journal.stop.set()
        for thread in threads:
            thread.join(60)


def soak(world: SoakWorld, *, seconds: float, writers: int = 8, pause: float = 2.0, longest: float = 8.0) -> SoakResult:
    """Runs writers and increments beside each other, then compares.

    Args:
        world: A fresh world on a MariaDB or MySQL server.
        seconds: How long the writers write.
        writers: How many; two of them hold their transactions open.
        pause: Seconds between two increments.
        longest: Seconds that a transaction is held open at most.
    """
    prepare(world)
    times: list[float] = []
    failures: list[str] = []

    def increment() -> None:
        begun = time.monotonic()
        report = world.run()
        times.append(time.monotonic() - begun)
        failures.extend(str(failure.error) for failure in report.failures)

    increment()
    with writing(world, writers=writers, patient=2, longest=longest) as journal:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not journal.broken:
            increment()
            time.sleep(pause)
    failures.extend(repr(error) for error in journal.broken)
    for _ in range(3):  # until the second in which the last row was written is over
        time.sleep(1.2)
        increment()
    increments = {table: difference(world, table, journal) for table in CREATE}
    report = world.run(kind=RunKind.RECONCILE)
    failures.extend(str(failure.error) for failure in report.failures)
    return SoakResult(
        increments=increments,
        reconciled={table: difference(world, table, journal) for table in CREATE},
        writers=journal.counts,
        seconds=tuple(times),
        held=world.held,
        failures=tuple(failures),
    )


def increments_until_a_loss(world: SoakWorld, *, seconds: float, longest: float) -> int:
    """Runs increments beside eight writers that hold their transactions open, until a row is lost for certain.

    Args:
        world: A fresh world on a MariaDB or MySQL server.
        seconds: How long to try at most.
        longest: Seconds that a transaction is held open at most.

    Returns:
        The rows that are lost; 0 if the time is over.
    """
    prepare(world)
    assert not world.run().failures
    with writing(world, writers=8, patient=8, longest=longest) as journal:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not journal.broken:
            assert not world.run().failures
            if lost := passed_over(world, "stamped") + passed_over(world, "paired"):
                return lost
    assert not journal.broken
    return 0


def passed_over(world: World, table: str) -> int:
    """Returns how many rows below the watermark the lake does not have as they are: no later window begins there."""
    watermark = world.state(table).progress.watermark
    assert watermark is not None
    below = f"WHERE updated_at < '{watermark.parts[0]}'"
    return len(set(world.sql(f"SELECT {_SOURCE_COLUMNS[table]} FROM {table} {below}")) - set(world.lake(table, _LAKE_COLUMNS[table])))


def difference(world: World, table: str, journal: Journal) -> Difference:
    """Compares a table row by row and by checksum."""
    width = KEYS[table]
    source = {row[:width]: row for row in world.source(table, _SOURCE_COLUMNS[table])}
    shown = world.lake(table, _LAKE_COLUMNS[table])
    lake = {row[:width]: row for row in shown}
    gone = lake.keys() - source.keys()
    return Difference(
        rows=len(source),
        lost=sum(lake.get(key) != row for key, row in source.items()),
        doubled=len(shown) - len(lake),
        gone=len(gone),
        unexplained=len(gone - journal.removed[table]),
        same_checksum=_source_checksum(world, table) == _lake_checksum(world, table),
    )


def _source_checksum(world: World, table: str) -> tuple[int, int]:
    [(count, total)] = world.sql(f"SELECT COUNT(*), COALESCE(SUM(CRC32(CONCAT_WS('|', {_SOURCE_COLUMNS[table]}))), 0) FROM {table}")
    return int(count), int(total)


def _lake_checksum(world: World, table: str) -> tuple[int, int]:
    summed = f"COALESCE(SUM(CRC32(ENCODE(CONCAT_WS('|', {_LAKE_COLUMNS[table]}), 'UTF-8'))), 0)"
    row: Any = world.spark.sql(f"SELECT COUNT(*), {summed} FROM delta.`{world.path(table)}`").first()
    return int(row[0]), int(row[1])


def main() -> int:
    """Runs the soak on a server of its own; the exit code says whether the lake became equal."""
    from cdc_ops.lake.spark import jars
    from cdc_ops.lake.spark.session import build_session
    from tests.conftest import LOCAL, SMALL_SPARK

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=("mariadb", "mysql"), default="mariadb")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long the writers write (default 300)")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--unsafe", action="store_true", help="take the clock as the bound: rows get lost")
    options = parser.parse_args()
    jars.fetch(LOCAL / "jars")
    kind: type[DatabaseServer] = MySQLServer if options.server == "mysql" else MariaDBServer
    with tempfile.TemporaryDirectory(prefix="cdc-ops-soak-") as name, kind(Path(name) / "server") as server:
        spark = build_session("cdc-ops soak", jars=jars.jar_list(LOCAL / "jars"), extra_conf=SMALL_SPARK)
        world = SoakWorld(server, Path(name), spark, unsafe=options.unsafe)
        result = soak(world, seconds=options.seconds, writers=options.writers)
        spark.stop()
    print(f"soak on {server.name}, {options.seconds:.0f} s, {options.writers} writers{', UNSAFE' if options.unsafe else ''}")
    print("\n".join(result.lines()), *result.failures, sep="\n")
    safe = not any(one.lost or one.doubled or one.unexplained for one in result.increments.values())
    return 0 if safe and not result.failures and all(one.is_equal for one in result.reconciled.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
