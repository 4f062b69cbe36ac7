"""Random work on the tables of a case: transactions of sessions that differ, runs between them, and faults."""

from collections.abc import Iterator, Sequence
from typing import Final

from tests.torture.model import (
    AddColumn,
    Admin,
    Again,
    Change,
    Column,
    Copy,
    Delete,
    DropColumn,
    End,
    Finish,
    Insert,
    LoseLedger,
    Raw,
    Run,
    Step,
    Table,
    Transaction,
    Update,
    Values,
    What,
)
from tests.torture.schemas import KINDS, TURNED, Wish, literals

_SESSIONS: Final = {
    "postgres": (
        "SET timezone = 'Asia/Kolkata'",
        "SET timezone = 'America/New_York'",
        "SET default_transaction_isolation = 'serializable'",
        "SET default_transaction_isolation = 'repeatable read'",
        "SET datestyle = 'SQL, DMY'",
        "SET standard_conforming_strings = off",
    ),
    "mysql": (
        "SET time_zone = '+05:30'",
        "SET time_zone = '-11:00'",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'",
        "SET foreign_key_checks = 0",
    ),
}
_GLOBALS: Final = {
    "postgres": (
        "extra_float_digits = -15",
        "DateStyle = 'SQL, DMY'",
        "IntervalStyle = 'sql_standard'",
        "bytea_output = 'escape'",
        "TimeZone = 'Asia/Kathmandu'",
        "default_transaction_isolation = 'serializable'",
        "client_encoding = 'LATIN1'",
        "standard_conforming_strings = off",
        "search_path = 'pg_catalog'",
        "default_transaction_read_only = on",
        "array_nulls = off",
        "quote_all_identifiers = on",
        "lc_monetary = 'C'",
        "xmloption = 'document'",
    ),
    "mysql": (
        "sql_select_limit = 3",
        "transaction_isolation = 'READ-UNCOMMITTED'",
        "sql_mode = 'ANSI_QUOTES'",
        "sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
        "sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "time_zone = '+09:00'",
        "group_concat_max_len = 4",
        "lc_time_names = 'de_DE'",
        "div_precision_increment = 0",
        "autocommit = 0",
        "character_set_connection = 'latin1'",
        "completion_type = 'CHAIN'",
        "sql_mode = 'HIGH_NOT_PRECEDENCE'",
        "max_sort_length = 8",
    ),
}
_MARIADB_GLOBALS: Final = (
    "sql_select_limit = 3",
    "tx_isolation = 'READ-UNCOMMITTED'",
    "sql_mode = 'ORACLE'",
    "sql_mode = 'EMPTY_STRING_IS_NULL'",
)
_BYSTANDER: Final = (
    "CREATE TABLE IF NOT EXISTS bystander (id INT PRIMARY KEY) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
    "INSERT INTO bystander VALUES (1), (11)",
    "ALTER TABLE bystander TRUNCATE PARTITION p1",
)


class Work:
    """The work of one case. It keeps in mind which keys may be there; that some are not costs nothing."""

    def __init__(self, wish: Wish, tables: Sequence[Table]) -> None:
        self.wish, self.numbers, self.tables = wish, wish.numbers, tuple(tables)
        self.kinds = KINDS[wish.server]
        self.family = "postgres" if wish.server == "postgres" else "mysql"
        self.keys: dict[str, list[Values]] = {table.name: [] for table in tables}
        self.added: dict[str, list[Column]] = {table.name: [] for table in tables}
        self.bad_keys = {table.name: wish.has("bad keys", 0.12) for table in tables}
        self.opened = self.made = 0

    def steps(self) -> Iterator[Step]:
        """Yields all steps: rows, the first run, then rounds of work, faults and runs."""
        for table in self.tables:
            size = 60 if self.wish.has("many rows", 0.05) else self.numbers.choice((3, 6, 12, 40))
            yield Transaction(changes=tuple(self.insert(table) for _ in range(size)))
        if self.wish.has("busy start", 0.25):
            yield from (self.transaction() for _ in range(3))
        if self.wish.has("globals", 0.2):
            yield self.admin()
        yield from self._run_with_a_late_commit()
        for left in reversed(range(self.numbers.choices((1, 2, 3), (60, 30, 10))[0])):
            for _ in range(self.numbers.randint(2, 5)):
                yield self.transaction()
            if self.wish.has("small batch", 0.15):
                yield self._small_batch()
            yield from self._faults()
            if left or self.wish.has("run before the last", 0.3):  # each case ends with a run anyway
                yield from self._run_with_a_late_commit()

    def _run_with_a_late_commit(self) -> Iterator[Step]:
        opened = self._open() if self.wish.has("late commit", 0.25) else None
        if opened:
            yield opened
        yield self.run()
        if opened:
            yield self._finish(opened)

    def _faults(self) -> Iterator[Step]:
        if self.wish.has("lost ledger", 0.08):
            yield LoseLedger()
        if self.wish.has("again", 0.4):
            yield self._again()
        if self.wish.method == "log" and self.wish.has("early copy", 0.08):
            yield Copy(early=True)
            yield self.transaction()
        if self.wish.method == "log" and self.wish.has("binlog reset", 0.0):
            yield Copy(reset=True)
            yield self.transaction()

    def run(self) -> Run:
        """Returns a run; now and then a resync or reconcile, with locks beside it, or with a kill."""
        numbers, arguments = self.numbers, ("run",)
        beside, trap = tuple[str, ...](), tuple[str, ...]()
        table = numbers.choice(self.tables)
        if self.wish.has("reconcile", 0.08):
            arguments = ("reconcile",)
        if self.wish.has("locks", 0.15):
            beside = self._locks(table)
        if table.column(TURNED) and self.wish.has("type change", 0.5):
            trap = tuple(f'ALTER TABLE {{{table.name}}} ALTER "{TURNED}" TYPE {one}' for one in ("bigint", "double precision"))
        hold = numbers.choice((0.1, 0.4, 0.8))
        copy_kill = self._moment() if self.wish.has("archiver kill", 0.15) else 0.0
        return Run(arguments=arguments, beside=beside, trap=trap, kill=self._kill(), copy_kill=copy_kill, hold=hold)

    def _again(self) -> Again:
        """Returns a resync or backfill of one table."""
        numbers, table = self.numbers, self.numbers.choice(self.tables)
        what = numbers.choices(tuple(What), (40, 25, 15, 20))[0]
        what = next((one for one in What if f"{one} again" in self.wish.only), what)
        plain = [one.name for one in table.columns if one.name not in table.keys] or [table.columns[-1].name]
        columns = tuple(numbers.sample(plain, min(len(plain), numbers.randint(1, 2))))
        begin, end = sorted((numbers.uniform(-0.1, 1.0), numbers.uniform(0.1, 1.1)))
        kill = self._kill()
        return Again(table=table.name, what=what, keys=numbers.choice((1, 3, 8)), share=(begin, end), columns=columns, kill=kill)

    def _kill(self) -> float:
        return self._moment() if self.wish.has("kill", 0.04) else 0.0

    def _moment(self) -> float:
        return round(self.numbers.uniform(0.02, 0.95), 2)

    def _locks(self, table: Table) -> tuple[str, ...]:
        if self.family != "postgres":
            return (f"ALTER TABLE {{{table.name}}} FORCE",)
        choices = [
            "ALTER TABLE {0} SET UNLOGGED; ALTER TABLE {0} SET LOGGED",
            "ALTER TABLE {0} ALTER {1} TYPE bigint; ALTER TABLE {0} ALTER {1} TYPE integer",
            "LOCK TABLE {0}",
        ]
        chosen = self.numbers.choice(choices)
        if self.wish.has("rewrite", 0.0):
            chosen = choices[0]
        number = next((one.name for one in table.columns if one.kind == "int" and one.name not in table.keys), None)
        if "{1}" in chosen and number is None:
            chosen = choices[0]
        quoted = '"' + number.replace('"', '""') + '"' if number else ""
        return tuple(one.replace("{0}", f"{{{table.name}}}").replace("{1}", quoted) for one in chosen.split("; "))

    def admin(self) -> Admin:
        """Returns a setting of the whole server, at a value that hurts."""
        if self.family == "postgres":
            setting = self.numbers.choice(_GLOBALS["postgres"])
            return Admin(statements=(f"ALTER DATABASE {{database}} SET {setting}",))
        if self.wish.has("select limit", 0.2):
            return Admin(statements=(f"SET GLOBAL sql_select_limit = {self.numbers.choice((3, 30))}",))
        settings = [one for one in _GLOBALS["mysql"] if not (self.wish.server == "mariadb" and one.startswith("transaction_isolation"))]
        setting = self.numbers.choice([*settings, *(_MARIADB_GLOBALS if self.wish.server == "mariadb" else ())])
        return Admin(statements=(f"SET GLOBAL {setting}",))

    def transaction(self) -> Transaction:
        """Returns the work of one session."""
        numbers = self.numbers
        session = tuple(numbers.sample(_SESSIONS[self.family], 1)) if numbers.random() < 0.3 else ()
        table = numbers.choice(self.tables)
        if self.wish.method == "log" and self.wish.has("bystander", 0.06):
            return Transaction(changes=tuple(Raw(sql=one) for one in _BYSTANDER))
        if self.wish.has("ddl", 0.12):
            return Transaction(changes=(self._ddl(table),))
        changes = tuple(self.change(numbers.choice(self.tables) if numbers.random() < 0.3 else table) for _ in range(numbers.randint(1, 6)))
        ends = (End.AUTOCOMMIT, End.COMMIT, End.ROLLBACK, End.PREPARED, End.PREPARED_ROLLBACK)
        end = numbers.choices(ends, (40, 30, 12, 12, 6))[0]
        if self.wish.nodes > 1 and end in (End.PREPARED, End.PREPARED_ROLLBACK):
            end = End.COMMIT  # Galera has no XA
        if self.wish.events and self.family == "mysql" and end is End.PREPARED_ROLLBACK:
            end = End.ROLLBACK  # docs/limits.md: Debezium has written the rows when it was prepared
        if end is End.COMMIT and numbers.random() < 0.3:
            point = (Raw(sql="SAVEPOINT sp"), self.change(table), Raw(sql="ROLLBACK TO SAVEPOINT sp"))
            changes = (*changes, *point, self.change(table))
        return Transaction(changes=changes, end=end, session=session, node=self._node())

    def change(self, table: Table) -> Change:
        """Returns an insert, an update, a change of a key or a delete."""
        numbers, known = self.numbers, self.keys[table.name]
        what = numbers.choices(("insert", "update", "key", "delete"), (35, 40, 8, 17))[0]
        if what == "insert" or not known:
            return self.insert(table)
        key = numbers.choice(known)
        if what == "delete":
            return Delete(table=table.name, key=key)
        values = self._values([one for one in self._columns(table) if one.name not in table.keys], some=True)
        if what == "key":
            moved = self._key(table)
            known.append(moved)
            return Update(table=table.name, key=key, values=(*moved, *values))
        return Update(table=table.name, key=key, values=values) if values else Delete(table=table.name, key=key)

    def insert(self, table: Table) -> Insert:
        """Returns a new row, of a key that was not used if one is found."""
        key = next((key for key in (self._key(table) for _ in range(12)) if key not in self.keys[table.name]), self._key(table))
        self.keys[table.name].append(key)
        return Insert(table=table.name, values=(*key, *self._values([one for one in self._columns(table) if one.name not in table.keys])))

    def _small_batch(self) -> Transaction:
        """Returns an update of one of the rows that came first: of a file that has more rows, one is replaced."""
        table = self.numbers.choice(self.tables)
        columns = [one for one in table.columns if one.name not in table.keys and not one.generated and not one.parent]
        column, key = self.numbers.choice(columns), self.numbers.choice(self.keys[table.name][:3])
        value = self.numbers.choice(literals(self.kinds, column, bad="plain values" not in self.wish.only))
        return Transaction(changes=(Update(table=table.name, key=key, values=((column.name, value),)),))

    def _key(self, table: Table) -> Values:
        columns = [one for one in table.columns if one.name in table.keys]
        return tuple((one.name, self.numbers.choice(literals(self.kinds, one, bad=self.bad_keys[table.name]))) for one in columns)

    def _columns(self, table: Table) -> list[Column]:
        return [one for one in (*table.columns, *self.added[table.name]) if not one.generated]

    def _values(self, columns: Sequence[Column], *, some: bool = False) -> Values:
        chosen: list[tuple[str, str]] = []
        for column in columns:
            known = [key[0][1] for key in self.keys.get(column.parent, ())]
            empty, drawn = (
                self.numbers.random() < 0.2,
                self.numbers.choice(known or literals(self.kinds, column, bad="plain values" not in self.wish.only)),
            )
            left_out = self.numbers.random() < 0.5
            if not (some and left_out):
                chosen.append((column.name, "NULL" if empty and column.null else drawn))
        return tuple(chosen)

    def _ddl(self, table: Table) -> Change:
        numbers = self.numbers
        what = numbers.choices(("add", "drop", "truncate", "other", "again"), (40, 15, 15, 20, 10))[0]
        if what == "add" and "versioned" not in table.features:
            self.made += 1  # a name that was dropped and comes again has its old values in older rows: docs/statements.md
            column = Column(name=f"n{self.made}", kind=numbers.choice(sorted(self.wish.kinds)))
            self.added[table.name].append(column)
            return AddColumn(table=table.name, column=column)
        if what == "drop" and self.added[table.name]:
            return DropColumn(table=table.name, name=self.added[table.name].pop().name)
        if what == "truncate":
            return Raw(sql=f"TRUNCATE TABLE {{{table.name}}}", table=table.name)
        if self.family == "postgres":
            return Raw(
                sql=numbers.choice(("VACUUM FULL {0}", "COMMENT ON TABLE {0} IS 'x'", "CLUSTER {0}")).replace("{0}", f"{{{table.name}}}"),
                table=table.name,
            )
        return Raw(
            sql=numbers.choice(("ANALYZE TABLE {0}", "ALTER TABLE {0} COMMENT 'x'", "ALTER TABLE {0} FORCE")).replace(
                "{0}", f"{{{table.name}}}"
            )
        )

    def _open(self) -> Transaction:
        self.opened += 1
        table = self.numbers.choice(self.tables)
        changes = tuple(self.change(table) for _ in range(self.numbers.randint(1, 3)))
        return Transaction(changes=changes, end=End.OPEN, name=f"open{self.opened}", node=self._node())

    def _node(self) -> int:
        return self.numbers.randrange(self.wish.nodes) if self.wish.nodes > 1 else 0

    def _finish(self, opened: Transaction) -> Finish:
        return Finish(name=opened.name, end=self.numbers.choice((End.COMMIT, End.COMMIT, End.ROLLBACK)))
