"""Random tables and how they are kept: pure, from a source of random numbers alone."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tests.torture import kinds_mysql, kinds_postgres
from tests.torture.model import Column, Kind, Table

KINDS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "postgres": kinds_postgres.KINDS,
    "mysql": kinds_mysql.MYSQL,
    "mariadb": kinds_mysql.MARIADB,
}
BAD_VALUES: Final = ("infinity", "0000-00-00", "NaN", "2024-00-15", "2024-05-00", "2024-02-31", "2023-02-29")
"""What marks a literal that no stored type holds."""

TURNED: Final = "turned"
"""The name of a column of doubles that all are whole numbers, so that its type can be changed to that of numbers and back."""

_NAMES: Final = (
    "a",
    "value",
    "Order",
    "select",
    "sp ace",
    "ümlaut",
    "dot.ted",
    "per%cent",
    "q'uote",
    'q"uote',
    "back`tick",
    "x,y",
    "brace{0}",
    "_op",
    "A",
)
_MYSQL_CURSORS: Final = (
    "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
    "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
)
_BAD_CURSORS: Final = {
    "postgres": ("timestamptz DEFAULT '-infinity'", "timestamp DEFAULT 'infinity'"),
    "mysql": ("TIMESTAMP NULL DEFAULT '0000-00-00 00:00:00' ON UPDATE CURRENT_TIMESTAMP",),
}
_HISTORIES: Final = (("soft", 0.25, "deletes", "soft"), ("scd2", 0.12, "stored_as_scd_type", 2), ("ignore", 0.08, "deletes", "ignore"))

_NOT_IN_BINLOGS: Final = ("inet6",)
"""Kinds that docs/formats/mysql-binlog.md says cannot be read."""
_NOT_BY_DEBEZIUM: Final = {"postgres": ("interval", "timetz", "money", "point"), "mysql": (), "mariadb": ("uuid", "inet6")}
"""Kinds whose tables docs/formats/debezium.md says are refused."""

_MORE: Final = {
    "dec38": tuple(f"{number * 12345678901234}.{number * 987654321987654:018}" for number in range(1, 20)),
    "dec18": tuple(f"{number * 5123456789012}.{number * 397:04}" for number in range(1, 20)),
}
"""More values of kinds that make keys: with too few of them most rows are refused as there already."""


@dataclass
class Wish:
    """What is asked of the tables of a case; a feature in `only` is in each of them, the others by chance."""

    server: str
    method: str
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    nodes: int = 1
    events: bool = False
    numbers: random.Random = field(default_factory=random.Random)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds that columns may have: those that the method can read."""
        left_out = _NOT_BY_DEBEZIUM[self.server] if self.events else _NOT_IN_BINLOGS if self.method == "log" else ()
        return {name: kind for name, kind in KINDS[self.server].items() if name not in left_out}

    def has(self, feature: str, chance: float) -> bool:
        """Draws whether something is there; the draw is made in any case, so that wishes do not shift what follows."""
        drawn = self.numbers.random() < chance
        return feature not in self.never and (feature in self.only or drawn)


def random_table(wish: Wish, number: int) -> Table:
    """Returns a table with columns, key, cursor, policy, and special features."""
    numbers = wish.numbers
    kinds = wish.kinds
    names = _column_names(wish)
    key_columns = _keys(wish, kinds, names)
    columns = [*key_columns, *(_column(wish, names.pop(), name) for name in numbers.sample(sorted(kinds), numbers.randint(1, 6)))]
    if wish.has("type change", 0.1) and wish.server == "postgres":
        columns.append(Column(name=TURNED, kind="double", null=True))
    if wish.has("generated", 0.1):
        target = next((one for one in columns if one.kind == "int"), None)
        if target:
            quote = '"' if wish.server == "postgres" else "`"
            inner = quote + target.name.replace(quote, quote * 2) + quote
            columns.append(Column(name="gen", kind="int", generated=f"({inner} / 2)" if wish.server == "postgres" else f"({inner} DIV 2)"))
    name = f"t{number}" if not wish.has("odd table name", 0.1) else f"T {number}é"
    table = Table(name=name, columns=tuple(columns), keys=tuple(one.name for one in key_columns))
    table = _with_cursor(wish, table)
    table = _with_policy(wish, table, kinds)
    return _with_features(wish, table)


def child_of(wish: Wish, parent: Table) -> tuple[Table, ...]:
    """Returns a table whose rows go, or are changed, with those of another; none if the parent's key is not one number."""
    if len(parent.keys) != 1 or not _integer_key(parent) or parent.tail:
        return ()
    [key] = [one for one in parent.columns if one.name == parent.keys[0]]
    action = wish.numbers.choice(("ON DELETE CASCADE", "ON DELETE SET NULL", "ON UPDATE CASCADE ON DELETE CASCADE"))
    quoted = "`" + key.name.replace("`", "``") + "`"
    columns = (
        Column(name="id", kind="int", null=False),
        Column(name="parent", kind=key.kind, parent=parent.name),
        Column(name="note", kind="varchar"),
    )
    after = (f"ALTER TABLE {{table}} ADD FOREIGN KEY (`parent`) REFERENCES `{parent.name}` ({quoted}) {action}",)
    table = Table(name="child", columns=columns, keys=("id",), after=after)
    return (replace(_with_cursor(wish, table), features=("cascade",)),)


def literals(kinds: Mapping[str, Kind], column: Column, *, bad: bool = True) -> tuple[str, ...]:
    """Returns the literals of a column; without `bad`, those that a stored type holds."""
    if column.name == TURNED:
        return ("2", "-7", "0", "1048577", "9007199254740992")
    values = kinds[column.kind].values
    if column.kind in ("int", "bigint", "int u"):
        values = (*values, *map(str, range(1, 60)))
    values = (*values, *_MORE.get(column.kind, ()))
    return values if bad else tuple(one for one in values if not any(word in one for word in BAD_VALUES))


def _column_names(wish: Wish) -> list[str]:
    plain = [f"c{number}" for number in range(12, 0, -1)]
    if not wish.has("odd names", 0.35):
        return plain
    odd = [one for one in _NAMES if one != "A" or wish.server == "postgres"]
    if wish.server == "postgres":
        odd = [one for one in odd if one != "A"]
    wish.numbers.shuffle(odd)
    return plain[:4] + odd


def _keys(wish: Wish, kinds: Mapping[str, Kind], names: list[str]) -> list[Column]:
    numbers = wish.numbers
    possible = sorted(name for name, kind in kinds.items() if kind.key)
    shape = numbers.choices(("int", "one", "two", "three"), (35, 25, 30, 10))[0]
    drawn = numbers.sample(possible, 3)
    if wish.has("decimal key", 0.12):
        drawn[0] = numbers.choice(("dec38", "dec18"))
        shape = "one" if shape == "int" else shape
    chosen = {"int": ["int"], "one": drawn[:1], "two": [drawn[0], "int"], "three": drawn}[shape]
    if wish.has("text key", 0.0):
        chosen = ["text" if wish.server == "postgres" else "varchar", "int"]
    if wish.has("endless key", 0.0):
        chosen = ["int", numbers.choice(("date", "timestamp" if wish.server == "postgres" else "datetime"))]
    if wish.has("number key", 0.0):
        chosen = ["int"]
    if wish.server != "postgres":
        chosen = [kind if kind not in ("bit64",) else "int" for kind in chosen]
    return [Column(name=names.pop() if numbers.random() < 0.5 else f"k{index}", kind=kind, null=False) for index, kind in enumerate(chosen)]


def _column(wish: Wish, name: str, kind: str) -> Column:
    return Column(name=name, kind=kind, null=wish.numbers.random() < 0.8)


def _with_cursor(wish: Wish, table: Table) -> Table:
    numbers = wish.numbers
    bad = wish.has("endless cursor", 0.06)
    draw = numbers.random()
    base = "postgres" if wish.server == "postgres" else "mysql"
    good = ("timestamptz NOT NULL DEFAULT clock_timestamp()",) if base == "postgres" else _MYSQL_CURSORS
    declared = numbers.choice(_BAD_CURSORS[base] if bad else good)
    if wish.method == "log":
        settings: tuple[tuple[str, object], ...] = (("method", "log"),)
        return replace(table, settings=settings, cursor=declared if draw < 0.3 and not bad else "")
    if draw < 0.15 and not bad:
        return replace(table, settings=(("cursor", []),), features=("no cursor",))
    cursor: object = ["updated_at", table.keys[0]] if len(table.keys) == 1 and _integer_key(table) and draw < 0.5 else "updated_at"
    settings = (("cursor", cursor), ("lookback", numbers.choice(("0s", "2s"))))
    if bad:
        settings = (*settings, ("null_cursor", "checksum"))  # without it, rows without a cursor are left to comparisons
    return replace(table, settings=settings, cursor=declared, features=("endless cursor",) if bad else ())


def _integer_key(table: Table) -> bool:
    column = table.column(table.keys[0])
    return column is not None and column.kind in ("int", "bigint")


def _with_policy(wish: Wish, table: Table, kinds: Mapping[str, Kind]) -> Table:
    numbers = wish.numbers
    settings = dict(table.settings)
    features = [*table.features]
    settings["max_delete_ratio"] = 1.0
    if wish.has("partitioned lake", 0.25):
        possible = [one.name for one in table.columns if kinds[one.kind].folder and not one.generated]
        keys = [name for name in possible if name in table.keys]
        if possible:
            settings["partition_by"] = [numbers.choice(keys or possible) if numbers.random() < 0.6 else numbers.choice(possible)]
            features.append("partitioned lake")
    for feature, chance, name, value in _HISTORIES:
        if wish.has(feature, chance) and not any(known in features for known, _, _, _ in _HISTORIES):
            settings[name] = value
            features.append(feature)
    if wish.has("string dates", 0.15):
        settings["zero_dates"] = "string"
    if wish.has("change feed", 0.15):
        settings["change_feed"] = True
    if wish.has("metadata columns", 0.15):
        settings["metadata_columns"] = {"op": "_cdc_op", "synced_at": "_cdc_synced_at", "operation": "_cdc_operation"}
    if wish.has("few checkpoints", 0.7):
        settings["properties"] = {"delta.checkpointInterval": str(numbers.choice((2, 3, 10)))}
    settings["parallelism"] = numbers.choice((1, 2, 4))
    if wish.has("small chunks", 0.2):
        settings["chunk_rows"] = numbers.choice((2, 5, 20))
    return replace(table, settings=tuple(settings.items()), features=tuple(features))


def _with_features(wish: Wish, table: Table) -> Table:
    """Adds what a server has of its own: inheritance, partitions, versions, unlogged tables."""
    features, after, tail = [*table.features], [*table.after], table.tail
    simple = len(table.keys) == 1 and wish.server == "postgres"
    if wish.has("partial grant", 0.06):
        features.append("partial grant")
    if wish.server == "postgres":
        if wish.has("inherited", 0.1):
            key = ", ".join('"' + name.replace('"', '""') + '"' for name in table.keys)
            table = replace(table, columns=tuple(replace(one, null=one.name not in table.keys) for one in table.columns))
            rows = zip(
                *(literals(KINDS[wish.server], one, bad=False)[-4:] for one in table.columns if one.name in table.keys), strict=False
            )
            after.append(f"CREATE TABLE child_of_{{name}} (breed text, PRIMARY KEY ({key})) INHERITS ({{table}})")
            after.append(f"INSERT INTO child_of_{{name}} ({key}) VALUES {', '.join('(' + ', '.join(row) + ')' for row in rows)}")
            features.append("inherited")
        elif wish.has("partitions", 0.1) and simple:
            tail = " PARTITION BY HASH ({keys})"
            after += [
                f"CREATE TABLE part{number}_of_{{name}} PARTITION OF {{table}} FOR VALUES WITH (MODULUS 2, REMAINDER {number})"
                for number in (0, 1)
            ]
            features.append("partitions")
    elif wish.server == "mariadb" and wish.has("versioned", 0.15):
        tail = " WITH SYSTEM VERSIONING"
        features.append("versioned")
    return replace(table, features=tuple(features), after=tuple(after), tail=tail)


def with_cursor_column(table: Table) -> Table:
    """Returns a table with its cursor's column among its columns."""
    return replace(table, columns=(*table.columns, Column(name="updated_at", kind="cursor"))) if table.cursor else table


def cursor_kind(server: str, declared: str) -> str:
    """Returns the kind of a cursor's column."""
    word = declared.split(maxsplit=1)[0].lower()
    if server == "postgres":
        return word
    return "datetime" if word.startswith("datetime") else "timestamp"
