"""The writers of the soak: transactions that hold, roll back, prepare, delete, replace and change keys, on three tables."""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pymysql
import pymysql.cursors

from cdc_ops.dev.servers import DatabaseServer

REGIONS: Final = 4
FIRST_ROWS: Final = 400
_STAMP: Final = "updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
CREATE: Final = {
    "stamped": f"CREATE TABLE stamped (id BIGINT PRIMARY KEY, v INT NOT NULL, note VARCHAR(40) NOT NULL, {_STAMP}, KEY (updated_at))",
    "paired": "CREATE TABLE paired (region INT NOT NULL, id BIGINT NOT NULL, v INT NOT NULL, note VARCHAR(40) NOT NULL,"
    f" {_STAMP}, PRIMARY KEY (region, id), KEY (updated_at, id))",
    "counted": "CREATE TABLE counted (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL, note VARCHAR(40) NOT NULL)",
}


@dataclass
class Journal:
    """What the writers did, from all threads.

    Args:
        longest: Seconds that a transaction is held open at most.
    """

    longest: float
    counts: Counter[str] = field(default_factory=Counter)
    removed: dict[str, set[tuple[int, ...]]] = field(default_factory=lambda: {name: set() for name in CREATE})
    broken: list[BaseException] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(FIRST_ROWS + 1))
    newest: int = FIRST_ROWS
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1

    def remove(self, table: str, *key: int) -> None:
        with self.lock:
            self.removed[table].add(key)

    def new_number(self) -> int:
        with self.lock:
            self.newest = next(self.numbers)
            return self.newest


class Writer:
    """One application on the source: short transactions of several statements, now and then a long one, some given up.

    Args:
        server: Where it writes.
        database: The database.
        journal: What all writers share.
        seed: Of its random choices; the timing is the machine's all the same.
        patient: True for one that holds its transactions open, and prepares some of them.
    """

    def __init__(self, server: DatabaseServer, database: str, journal: Journal, seed: int, *, patient: bool) -> None:
        self.journal, self.patient, self.seed = journal, patient, seed
        self.random = random.Random(seed)
        self.connection: pymysql.Connection[pymysql.cursors.Cursor] = pymysql.connect(
            host=server.host, port=server.port, user=server.user, password=server.password, database=database, autocommit=True
        )

    def run(self) -> None:
        try:
            self._execute("SET SESSION innodb_lock_wait_timeout = 2")
            while not self.journal.stop.is_set():
                self._transaction()
                self.journal.stop.wait(self.random.expovariate(8))
        except BaseException as error:
            self.journal.broken.append(error)
        finally:
            self.connection.close()

    def _transaction(self) -> None:
        prepared = f"'{self.seed}-{self.journal.new_number()}'" if self.patient and self.random.random() < 0.3 else ""
        try:
            self._execute(f"XA START {prepared}" if prepared else "BEGIN")
            for _ in range(self.random.randint(1, 5)):
                self._statement()
                self.journal.stop.wait(self.random.expovariate(200))
            if prepared:
                self._execute(f"XA END {prepared}", f"XA PREPARE {prepared}")
            if self.patient:
                self.journal.stop.wait(self.random.uniform(0.5, self.journal.longest))
            ending = "ROLLBACK" if self.random.random() < 0.15 else "COMMIT"
            self._execute(f"XA {ending} {prepared}" if prepared else ending)
            self.journal.count(f"{'prepared' if prepared else 'long' if self.patient else 'short'} {ending.lower()}")
        except pymysql.MySQLError as error:
            if error.args[0] not in (1205, 1213, 1062, 1402, 1613, 1614):  # lock wait, deadlock, a key that is taken
                raise
            self.journal.count(f"error {error.args[0]}")
            self._give_up(prepared)

    def _give_up(self, prepared: str) -> None:
        if not prepared:
            return self._execute("ROLLBACK")
        for statement in (f"XA END {prepared}", f"XA ROLLBACK {prepared}"):
            try:
                self._execute(statement)
            except pymysql.MySQLError as error:
                if error.args[0] not in (1397, 1399, 1402, 1613, 1614):  # the server has given it up already
                    raise
        return None

    def _statement(self) -> None:
        choices: tuple[tuple[Callable[[], None], int], ...] = (
            (self._insert, 4),
            (self._count_up, 4),
            (self._update, 5),
            (self._replace, 2),
            (self._delete, 1),
            (self._change_key, 2),
        )
        [chosen] = self.random.choices([action for action, _ in choices], [weight for _, weight in choices])
        chosen()
        self.journal.count(chosen.__name__.strip("_"))

    def _insert(self) -> None:
        number = self.journal.new_number()
        if self.random.random() < 0.5:
            self._execute(f"INSERT INTO stamped (id, v, note) VALUES ({number}, {self._value()}, 'inserted')")
        else:
            self._execute(f"INSERT INTO paired (region, id, v, note) VALUES ({number % REGIONS}, {number}, {self._value()}, 'inserted')")

    def _count_up(self) -> None:
        rows = ", ".join(f"({self._value()}, 'counted')" for _ in range(self.random.randint(1, 3)))
        self._execute(f"INSERT INTO counted (v, note) VALUES {rows}")

    def _update(self) -> None:
        table, number = self.random.choice(("stamped", "paired")), self._some()
        self._execute(f"UPDATE {table} SET v = v + 1, note = 'updated' WHERE {_where(table, number)}")

    def _replace(self) -> None:
        number = self._some()
        if self.random.random() < 0.5:
            self._execute(f"REPLACE INTO stamped (id, v, note) VALUES ({number}, {self._value()}, 'replaced')")
        else:
            self._execute(f"REPLACE INTO paired (region, id, v, note) VALUES ({number % REGIONS}, {number}, {self._value()}, 'replaced')")

    def _delete(self) -> None:
        table, number = self.random.choice(("stamped", "paired")), self._some()
        self.journal.remove(table, *_key(table, number))
        self._execute(f"DELETE FROM {table} WHERE {_where(table, number)}")

    def _change_key(self) -> None:
        table, number, new = self.random.choice(("stamped", "paired")), self._some(), self.journal.new_number()
        self.journal.remove(table, *_key(table, number))
        region = f"region = {new % REGIONS}, " if table == "paired" else ""
        self._execute(f"UPDATE {table} SET {region}id = {new} WHERE {_where(table, number)}")

    def _some(self) -> int:
        return self.random.randint(max(1, self.journal.newest - 2000), self.journal.newest)

    def _value(self) -> int:
        return self.random.randint(0, 999_999)

    def _execute(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def _key(table: str, number: int) -> tuple[int, ...]:
    return (number % REGIONS, number) if table == "paired" else (number,)


def _where(table: str, number: int) -> str:
    return f"region = {number % REGIONS} AND id = {number}" if table == "paired" else f"id = {number}"
