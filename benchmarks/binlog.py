"""Rows of a binlog of MariaDB decoded: by kernels, by the reference decoder, through Spark, and by other tools.

    python -m benchmarks.binlog [--rows 1000000] [--peers FOLDER] [--java FOLDER]

Two files of one server, with as many rows of 12 columns each: of one table, and of twenty. Peers are optional: in the one folder is what
`pip install --no-deps --target FOLDER mysql-replication` put there, in the other are the jars of `com.zendesk:mysql-binlog-connector-java`.
Ratios are those of rows in a processor second, except between one and two cores.
"""

import argparse
import importlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks._binlog_rows import scanned, target_of
from benchmarks._binlog_spark import on_cores
from benchmarks._harness import BENCH, DATABASE, report, running_server
from benchmarks._rates import Rate, measured
from benchmarks._rows import FILL, create
from cdc_ops.core.binlog.event_stream import EventStream
from cdc_ops.core.binlog.events import HEADER_SIZE, EventType
from cdc_ops.decode import warm_up
from cdc_ops.decode.compiler import Bytes
from cdc_ops.dev.databases import mariadb_binlog
from cdc_ops.events.binlog.decoder import BinlogFile, RowChange
from cdc_ops.events.fast_binlog.changes import TableChanges

TABLES: Final = 20
STATEMENT_ROWS: Final = {"one": 100_000, "twenty": 2_500}
SLOW_ROWS: Final = 50_000
"""Rows that slow decoders get; their rate does not depend on the number."""
JAVA: Final = """
import com.github.shyiko.mysql.binlog.*;
import com.github.shyiko.mysql.binlog.event.*;
import java.io.*;
import java.lang.management.*;

public class Peer {
    public static void main(String[] arguments) throws Exception {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (int turn = 0; turn < 4; turn++) {
            long rows = 0, wall = System.nanoTime(), used = system.getProcessCpuTime();
            try (var reader = new BinaryLogFileReader(new BufferedInputStream(new FileInputStream(arguments[0]), 1 << 20))) {
                for (Event event; (event = reader.readEvent()) != null; )
                    if (event.getData() instanceof WriteRowsEventData data) rows += data.getRows().size();
            }
            System.out.println(rows + " " + (System.nanoTime() - wall) / 1e9 + " " + (system.getProcessCpuTime() - used) / 1e9);
        }
    }
}
"""


def files(rows: int) -> dict[str, Path]:
    """Makes the files unless they are there: closed binlogs with inserts of one table, and of twenty in turn."""
    folder = BENCH / f"binlogs-{rows}"
    made = {"one": folder / "one.000001", "twenty": folder / "twenty.000001"}
    if all(path.exists() for path in made.values()):
        return made
    folder.mkdir(parents=True, exist_ok=True)
    with running_server() as server:
        for name, path in made.items():
            tables = ["orders"] if name == "one" else [f"orders_{number}" for number in range(TABLES)]
            server.execute(*(f"DROP TABLE IF EXISTS {table}" for table in tables), *map(create, tables), database=DATABASE)
            begun = server.execute("FLUSH BINARY LOGS", "SHOW BINARY LOGS")[-1][0]
            step = STATEMENT_ROWS[name]
            for first in range(1, rows // len(tables) + 1, step):
                numbers = f"seq_{first}_to_{first + step - 1}"
                server.execute(*(FILL.format(table=table, numbers=numbers) for table in tables), database=DATABASE)
            server.execute("FLUSH BINARY LOGS")
            path.write_bytes((server.data / str(begun)).read_bytes())
    return made


def kernels(file: BinlogFile, data: Bytes, table: str) -> int:
    changes = TableChanges(file.name, data, file.scan, target_of(table))
    return sum(change.rows.num_rows for change in changes.read(4, file.scan.complete_to))


def reference(file: BinlogFile) -> int:
    rows = (change for change in file.changes() if isinstance(change, RowChange))
    return sum(1 for _ in itertools.islice(rows, SLOW_ROWS))


def mysql_replication(file: BinlogFile) -> int:
    """Its wrapper of packets over the events of the file, as its own tests read files."""
    packet_of: Any = importlib.import_module("pymysql.connections").MysqlPacket
    event, row_event, packet = (importlib.import_module(f"pymysqlreplication.{name}") for name in ("event", "row_event", "packet"))

    class Connection:
        charset = "utf8"

        @staticmethod
        def _get_dbms() -> str:
            return "mariadb"

    kinds = (row_event.WriteRowsEvent, row_event.UpdateRowsEvent, row_event.DeleteRowsEvent, row_event.TableMapEvent, event.XidEvent)
    more: list[Any] = [True, frozenset(kinds), None, None, None, None, False, False, False, True, False]
    tables: dict[int, Any] = {}
    rows = 0
    for data in _packets(file):
        wrapper = packet.BinLogPacketWrapper(packet_of(data, "utf8"), tables, Connection, (5, 7, 0), *more)
        if isinstance(wrapper.event, row_event.TableMapEvent):
            tables[wrapper.event.table_id] = wrapper.event.get_table()
        elif isinstance(wrapper.event, row_event.RowsEvent):
            rows += len(wrapper.event.rows)
        if rows >= SLOW_ROWS:
            break
    return rows


def _packets(file: BinlogFile) -> Iterator[bytes]:
    with open(file.name, "rb") as raw:
        for event in EventStream(file.name, raw.read):
            if event.header.type in (EventType.TABLE_MAP, EventType.WRITE_ROWS_V1):
                yield b"\0" + event.data[:HEADER_SIZE] + event.body + b"\0\0\0\0"


def tool(file: BinlogFile, rows: int) -> int:
    subprocess.run([*mariadb_binlog.command(), "-v", file.name], stdout=subprocess.DEVNULL, check=True)
    return rows


def java(file: BinlogFile, jars: Path) -> Rate:
    """Its fastest turn in one JVM, which includes no start."""
    source = BENCH / "Peer.java"
    source.write_text(JAVA, "utf-8")
    command = ["java", "-cp", f"{jars}/*", str(source), file.name]
    turns = [line.split() for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]
    rates = [Rate("mysql-binlog-connector-java", int(rows), float(wall), float(used)) for rows, wall, used in turns]
    best = min(rates, key=lambda rate: rate.processor)
    print(best.line(), flush=True)
    return best


def whole(path: Path, table: str) -> int:
    """What a task and the plan before it do: the scan, and the decoding."""
    return kernels(*scanned(path), table)


def peers(file: BinlogFile, rows: int, chosen: argparse.Namespace) -> Iterator[Rate]:
    yield measured("reference decoder", lambda: reference(file))
    yield measured("mariadb-binlog -v > /dev/null", lambda: tool(file, rows))
    if chosen.java:
        yield java(file, chosen.java)
    if chosen.peers:
        sys.path.append(str(chosen.peers))
        yield measured("mysql-replication", lambda: mysql_replication(file), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--java", type=Path)
    chosen = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = files(chosen.rows)
    start = time.process_time()
    warm_up()
    print(f"kernels ready in {time.process_time() - start:.1f} processor seconds", flush=True)
    one, twenty = (scanned(path) for path in made.values())
    alone = measured("kernels, into Arrow", lambda: kernels(*one, "orders"))
    own = measured("scan and kernels", lambda: whole(made["one"], "orders"))
    assert alone.rows == own.rows == chosen.rows
    few = measured("one table of twenty, kernels", lambda: kernels(*twenty, "orders_7"))
    some = measured("one table of twenty, scan and kernels", lambda: whole(made["twenty"], "orders_7"))
    lines = [
        f"kernels / {peer.name}: {alone.per_processor_second / peer.per_processor_second:.1f}, with the scan"
        f" {own.per_processor_second / peer.per_processor_second:.1f}"
        for peer in peers(one[0], chosen.rows, chosen)
    ]
    lines.append(f"all tables / one of twenty: {alone.processor / few.processor:.1f}, with the scan {own.processor / some.processor:.1f}")
    (first, _), (second, ready) = (on_cores(made["one"], cores) for cores in (1, 2))
    lines.append(f"through Spark, two cores / one: {second.per_second / first.per_second:.2f} by the wall")
    lines.append(
        f"through Spark / the hand-over alone, two cores: {second.wall / ready.wall:.2f} by the wall,"
        f" {second.processor / ready.processor:.2f} by the processor"
    )
    report("Rows of a binlog, ratios of rows in a processor second", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
