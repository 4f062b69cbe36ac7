"""What a case is: plain values, so that it can be printed, played again and made smaller."""

import enum
from dataclasses import dataclass, replace


class Canon(enum.StrEnum):
    """In what form values of a type are compared."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TEXT = "text"
    BYTES = "bytes"
    DAYS = "days"
    MICROS = "micros"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type of a server, with values that are hard to keep.

    Args:
        declared: As in CREATE TABLE.
        values: Literals in SQL.
        shown: The server's own text of `{}`; NULL where docs/types.md says that no stored type holds the value.
        canon: In what form it is compared.
        stored: The types that the lake may have for it.
        raw: The server's own text without the NULLs of `shown`, for policies that store text; "" if there is no such policy.
        key: Whether it may be in a key.
        folder: Whether the table may be partitioned by it.
    """

    declared: str
    values: tuple[str, ...]
    shown: str
    canon: Canon
    stored: tuple[str, ...]
    raw: str = ""
    key: bool = True
    folder: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: `generated` is an expression, `default` a literal or expression, `parent` the table whose keys it refers to, "" without."""

    name: str
    kind: str
    null: bool = True
    generated: str = ""
    default: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table and how it is kept.

    Args:
        name: Its name.
        columns: Without the cursor's column.
        keys: Names of the key's columns.
        cursor: The declaration of the cursor's column `updated_at`, "" without a column.
        settings: Settings of its entry in the pipeline file, as YAML values.
        tail: What follows the columns in CREATE TABLE.
        after: Statements after it, with `{}` for the table's name.
        features: Words for what is special about it, for the statistics.
    """

    name: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    cursor: str = ""
    settings: tuple[tuple[str, object], ...] = ()
    tail: str = ""
    after: tuple[str, ...] = ()
    features: tuple[str, ...] = ()

    def setting(self, name: str, default: object = None) -> object:
        return dict(self.settings).get(name, default)

    def column(self, name: str) -> Column | None:
        return next((one for one in self.columns if one.name == name), None)


Values = tuple[tuple[str, str], ...]
"""Literals by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    table: str
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Sets values in the row of a key; `touch` sets the cursor too, where the server does not do it itself."""

    table: str
    key: Values
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    table: str
    key: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Any statement; `{table}` names without schema are written as they are."""

    sql: str
    table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    table: str
    column: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    table: str
    name: str


Change = Insert | Update | Delete | Raw | AddColumn | DropColumn


class End(enum.StrEnum):
    COMMIT = "commit"
    ROLLBACK = "rollback"
    PREPARED = "prepared"  # XA, two phases; committed
    PREPARED_ROLLBACK = "prepared rollback"
    AUTOCOMMIT = "autocommit"
    OPEN = "open"  # stays open until a step Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Changes of one session. `session` are statements before it; `name` is needed if it stays open; `node` is the one that it works on."""

    changes: tuple[Change, ...]
    end: End = End.AUTOCOMMIT
    session: tuple[str, ...] = ()
    name: str = ""
    node: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Ends a transaction that was left open."""

    name: str
    end: End


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """Statements of an administrator that change the server for all sessions; what SET GLOBAL changes is set back in the end."""

    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A command of cdc-ops; `beside` are statements that another session repeats while it runs, each round in one transaction.

    Args:
        arguments: The command and its options.
        beside: Statements.
        trap: A statement that another session holds open until a reader of rows waits behind it, and the one that takes it back after
            the command.
        hold: Seconds that each round stays open.
        kill: When the process gets SIGKILL, as a share of the time that the command took last; 0 = it is left alone.
        copy_kill: The same of the archiver that goes before the command; the archiver is then called again.
    """

    arguments: tuple[str, ...] = ("run",)
    beside: tuple[str, ...] = ()
    trap: tuple[str, ...] = ()
    hold: float = 0.2
    kill: float = 0.0
    copy_kill: float = 0.0


class What(enum.StrEnum):
    """What of a table is read again."""

    KEYS = "keys"
    RANGE = "range"
    COLUMNS = "columns"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A resync or backfill of one table. What it reads again has to be equal at once, whatever the increments have not read.

    Args:
        table: Its name.
        what: What is read again.
        keys: How many keys that the source has, or has had, are drawn when it is played.
        share: Begin and end of a range of time, as shares of the time since the case began.
        columns: The columns of a backfill of columns.
        kill: As in `Run`; then nothing is compared.
    """

    table: str
    what: What
    keys: int = 3
    share: tuple[float, float] = (0.0, 1.0)
    columns: tuple[str, ...] = ()
    kill: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseLedger:
    """The ledger's file is deleted and rebuilt from the lake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A script copies binlogs: the newest as it is (`early`), or after a reset over those of the same names (`reset`)."""

    early: bool = False
    reset: bool = False


Step = Transaction | Finish | Admin | Run | Again | LoseLedger | Copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case; `pipeline` are settings of the pipeline file's sections. `reconcile`: it ends with one, and deletes are judged."""

    seed: int
    server: str
    method: str
    tables: tuple[Table, ...]
    steps: tuple[Step, ...]
    pipeline: tuple[tuple[str, tuple[tuple[str, object], ...]], ...] = ()
    prelude: tuple[str, ...] = ()
    reconcile: bool = False
    nodes: int = 1

    @property
    def archiver(self) -> bool:
        """Whether the product's own archiver copies the binlogs."""
        return any(name == "copy" for section, values in self.pipeline if section == "archive" for name, _ in values)

    def table(self, name: str) -> Table | None:
        return next((one for one in self.tables if one.name == name), None)

    def with_table(self, table: Table) -> "Case":
        return replace(self, tables=tuple(table if one.name == table.name else one for one in self.tables))
