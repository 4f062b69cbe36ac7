"""A process that keeps changing orders in small transactions; before the data path.

    python -m cdc_ops.demo.writer FOLDER PER_SECOND DELETES      with FOLDER = the writer's folder, next to the database server's

It makes PER_SECOND transactions a second, and each inserts, updates, and deletes DELETES orders. It ends by SIGTERM, after `LIFETIME` at
the latest, or with the server. A file `pause` in its folder makes it finish its transaction and wait; `status.json` has the number of its
changes.
"""

import json
import random
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy

from cdc_ops.demo.layout import DATABASE
from cdc_ops.dev.databases.mariadb import MariaDBServer
from cdc_ops.dev.processes import ServerProcess, wait_until

LIFETIME = 4 * 3600.0
INSERTS, UPDATES = 5, 15
MOST_INSERTS = 300_000
"""The number of new orders after which the process only updates, so that a forgotten demo does not fill the disk."""

PAUSE_FILE, STATUS_FILE = "pause", "status.json"

INSERT = sqlalchemy.text(
    "INSERT INTO orders (customer_id, total, details, ordered_on, note) VALUES (:customer, :total, :details, CURRENT_DATE, :note)"
)
UPDATE = sqlalchemy.text(
    "UPDATE orders SET status = ELT(1 + :step, 'new', 'paid', 'shipped', 'delivered', 'returned'), total = total + :more WHERE id = :id"
)
DELETE = sqlalchemy.text("DELETE FROM orders WHERE id = :id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the writer works.

    Args:
        per_second: Number of transactions.
        deletes: Number of orders that each of them deletes.
    """

    per_second: int
    deletes: int


WITHOUT_DELETES = Pace(per_second=20, deletes=0)
"""Where a cursor is shown, which does not find deletes."""
WITH_DELETES = Pace(per_second=5, deletes=2)
"""Where binlogs are shown: it goes on during whole runs, and all that it writes in one is read by the next."""


@dataclass(slots=True)
class Work:
    """The numbers of the writer's changes."""

    state: str = "working"
    transactions: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def since(self, before: "Work") -> str:
        """Returns what was done after `before`, as text."""
        inserted, updated, deleted = self.inserted - before.inserted, self.updated - before.updated, self.deleted - before.deleted
        deletes = f", {deleted:,} deletes" if deleted else ""
        return f"{inserted:,} inserts, {updated:,} updates{deletes}, {self.transactions - before.transactions:,} commits"


class WriterProcess:
    """Controls the writer process: start, resume, pause, stop.

    Args:
        folder: The writer's folder.
        pace: How fast it works.
        outlive: True if the process keeps running after the one that started it.
    """

    def __init__(self, folder: Path, pace: Pace, *, outlive: bool = False) -> None:
        self._folder = folder
        self._pace = pace
        self._process = ServerProcess("the writer", folder, outlive=outlive)

    def start(self) -> None:
        """Starts the process, paused."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / PAUSE_FILE).touch()
        pace = (str(self._pace.per_second), str(self._pace.deletes))
        self._process.start([sys.executable, "-m", "cdc_ops.demo.writer", str(self._folder.resolve()), *pace])

    def resume(self) -> None:
        """Lets the process make changes."""
        (self._folder / PAUSE_FILE).unlink(missing_ok=True)

    def pause(self, timeout: float = 20.0) -> Work:
        """Makes the process wait after its transaction, and returns its changes so far.

        Raises:
            TimeoutError: the process does not pause, or has ended.
        """
        (self._folder / PAUSE_FILE).touch()
        if not wait_until(lambda: self.work().state == "paused", timeout, hopeless=lambda: self._process.exit_code() is not None):
            raise TimeoutError(f"the writer does not pause\n{self._process.log_tail(5)}")
        return self.work()

    def work(self) -> Work:
        """Returns the process's changes so far."""
        return read_status(self._folder)

    def stop(self) -> None:
        """Stops the process."""
        self._process.stop()


def read_status(folder: Path) -> Work:
    """Returns the changes so far of the writer in this folder."""
    path = folder / STATUS_FILE
    return Work(**json.loads(path.read_text("ascii"))) if path.exists() else Work(state="starting")


def main(arguments: list[str]) -> int:
    """Makes changes until SIGTERM, and waits while the pause file exists."""
    folder, pace = Path(arguments[0]), Pace(per_second=int(arguments[1]), deletes=int(arguments[2]))
    server = MariaDBServer.attach(folder.parent / "mariadb")
    if server is None:
        print("the database server does not run", file=sys.stderr)
        return 1
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.append(1))
    engine = sqlalchemy.create_engine(server.url(DATABASE))
    try:
        with engine.connect() as connection:
            return _work(connection, folder, pace, ended)
    except sqlalchemy.exc.OperationalError as error:
        print(f"the database server ended: {error.orig}", file=sys.stderr)
        return 1
    finally:
        engine.dispose()


def _work(connection: sqlalchemy.Connection, folder: Path, pace: Pace, ended: list[int]) -> int:
    work, chance, deadline = Work(), random.Random(7), time.monotonic() + LIFETIME
    known = int(connection.execute(sqlalchemy.text("SELECT MAX(id) FROM orders")).scalar_one())
    connection.rollback()
    while not ended and time.monotonic() < deadline:
        started = time.monotonic()
        if (folder / PAUSE_FILE).exists():
            work.state = "paused"
        else:
            work.state = "working"
            inserts = INSERTS if work.inserted < MOST_INSERTS else 0
            updated, deleted = _transact(connection, chance, known, inserts, pace.deletes)
            work.transactions, work.inserted = work.transactions + 1, work.inserted + inserts
            work.updated, work.deleted = work.updated + updated, work.deleted + deleted
        _write_status(folder, work)
        time.sleep(max(0.0, 1 / pace.per_second - (time.monotonic() - started)))
    return 0


def _transact(connection: sqlalchemy.Connection, chance: random.Random, known: int, inserts: int, deletes: int) -> tuple[int, int]:
    """Makes one transaction; returns how many orders it updated and deleted: a chosen one may have been deleted before."""
    if inserts:
        connection.execute(INSERT, [_order(chance) for _ in range(inserts)])
    ids = chance.sample(range(1, known + 1), UPDATES + deletes)
    changes = [{"step": chance.randrange(5), "more": chance.randrange(1, 99) / 100, "id": one} for one in sorted(ids[:UPDATES])]
    updated = connection.execute(UPDATE, changes).rowcount
    deleted = connection.execute(DELETE, [{"id": one} for one in sorted(ids[UPDATES:])]).rowcount if deletes else 0
    connection.commit()
    return updated, deleted


def _order(chance: random.Random) -> dict[str, Any]:
    return {
        "customer": chance.randrange(1, 20_000),
        "total": chance.randrange(500, 50_000) / 100,
        "details": json.dumps({"items": chance.randrange(1, 8), "sku": f"{chance.getrandbits(32):08x}", "gift": False}),
        "note": None if chance.random() < 0.7 else "leave it with the neighbours, danke 🎁",
    }


def _write_status(folder: Path, work: Work) -> None:
    fresh = folder / f"{STATUS_FILE}.new"
    fresh.write_text(json.dumps(asdict(work)), "ascii")
    fresh.replace(folder / STATUS_FILE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
