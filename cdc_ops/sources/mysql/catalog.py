"""What information_schema of MySQL and MariaDB says of tables: columns, keys, indexes, sizes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.schema.server_types.mysql_types import DeclaredType, mysql_mapping
from cdc_ops.core.schema.source_traits import ForeignKeyAction, SourceTraits
from cdc_ops.core.schema.table_identity import NO_IDENTITY, TableIdentity
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.value_policies import TypePolicies
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.mysql.session import MySQLSession
from cdc_ops.sources.sql.catalog import check_mapping, choose_columns, hidden_columns, missing_table
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import Row

_NOTHING: Final = "Nothing was read; the watermark stays."
_VERSIONED: Final = "SYSTEM VERSIONED"
_BASE_TABLES: Final = ("BASE TABLE", _VERSIONED)
_PLAIN_WEIGHTS: Final = re.compile(r"^(latin1_\w+|(utf8|utf8mb3|utf8mb4|ascii)_(general_ci|bin))$")
_COLLATION: Final = re.compile(r"^\w+$")
_PLAIN_NAME: Final = re.compile(r"^[A-Za-z0-9_]+$")
_OF_COLUMNS: Final = re.compile(r"^GRANT .*\bSELECT \(")
"""A line of `SHOW GRANTS`, which has what active roles give too, that grants the columns of a table one by one."""
_OWN_SCHEMAS: Final = ("mysql", "information_schema", "performance_schema", "sys")
_ELSEWHERE: Final = {
    "mrg_myisam": "the tables of its UNION",
    "federated": "another server",
    "connect": "what it connects to",
    "spider": "other servers",
    "ndbcluster": "the nodes of a cluster, which other servers write too",
}
"""By engine, in lower case: where the rows are that a table shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """A listing of information_schema, its order within a table, and its column with the schema."""

    select: str
    order: str
    schema: str = "TABLE_SCHEMA"


_TABLES: Final = _Listing(
    select="SELECT TABLE_SCHEMA AS table_schema, TABLE_NAME AS table_name, TABLE_TYPE AS table_type, TABLE_ROWS AS table_rows,"
    " AVG_ROW_LENGTH AS row_bytes, ENGINE AS engine, CREATE_TIME AS made, @@hostname AS host, @@server_id AS server_id"
    " FROM information_schema.tables",
    order="TABLE_NAME",
)
_COLUMNS: Final = _Listing(
    select="SELECT TABLE_SCHEMA AS table_schema, TABLE_NAME AS table_name, COLUMN_NAME AS name, COLUMN_TYPE AS declared,"
    " IS_NULLABLE AS nullable, EXTRA AS extra, COLUMN_DEFAULT AS preset, COLLATION_NAME AS collation, PRIVILEGES AS privileges"
    " FROM information_schema.columns",
    order="ORDINAL_POSITION",
)
_STATISTICS: Final = _Listing(select="SELECT * FROM information_schema.statistics", order="INDEX_NAME, SEQ_IN_INDEX")
_FOREIGN_KEYS: Final = _Listing(
    select="SELECT CONSTRAINT_SCHEMA AS table_schema, TABLE_NAME AS table_name, CONSTRAINT_NAME AS name,"
    " REFERENCED_TABLE_NAME AS parent, DELETE_RULE AS on_delete, UPDATE_RULE AS on_update"
    " FROM information_schema.referential_constraints",
    order="CONSTRAINT_NAME",
    schema="CONSTRAINT_SCHEMA",
)
_IDLE_RULES: Final = ("RESTRICT", "NO ACTION")


class Catalog:
    """Reads the schemas of one server.

    Args:
        session: The connection.
        dialect: How names are quoted.
    """

    def __init__(self, session: MySQLSession, dialect: Dialect) -> None:
        self._session = session
        self._dialect = dialect
        self._grants_columns: bool | None = None

    def tables(self) -> tuple[TableName, ...]:
        """Returns the base tables that the user may read, without the server's own schemas."""
        rows = self._session.rows(
            "SELECT TABLE_SCHEMA AS table_schema, TABLE_NAME AS table_name FROM information_schema.tables"
            f" WHERE TABLE_TYPE IN {_texts(_BASE_TABLES)} AND TABLE_SCHEMA NOT IN {_texts(_OWN_SCHEMAS)}"
        )
        return tuple(sorted(TableName(schema=row["table_schema"], name=row["table_name"]) for row in rows))

    def schema(self, table: TableName, *, columns: Iterable[str], except_columns: Iterable[str], types: TypePolicies) -> TableSchema:
        """Reads columns, primary key and indexes; see `Source.schema`."""
        facts = self._table_row(table)
        table = TableName(schema=facts["table_schema"], name=facts["table_name"])
        rows, wanted = self.column_rows(table), tuple(columns)
        if not wanted and self._has_grants_of_columns():
            self._check_may_read(table, rows, "*")
        chosen = choose_columns(table, rows, wanted, tuple(except_columns))
        if not all("select" in str(row["privileges"]).lower().split(",") for row in chosen):
            self._check_may_read(table, rows, ", ".join(self._dialect.name(row["name"]) for row in chosen))
        primary_key, indexes = self._indexes(table)
        return TableSchema(
            table=table,
            columns=tuple(self._column(table, row, types) for row in chosen),
            primary_key=primary_key,
            indexes=indexes,
            approximate_rows=int(facts["table_rows"] or 0),
            row_bytes=int(facts["row_bytes"] or 0),
            types=types,
        )

    def traits(self, table: TableName) -> SourceTraits:
        """Reads what may keep a copy from being equal; see `Source.traits`.

        InnoDB carries out foreign keys beneath the binlog, triggers and ON UPDATE CURRENT_TIMESTAMP. From MySQL 9.6 on, the SQL layer does
        it, and the binlog has it (tried on 9.7.4; the stamps stay all the same), unless innodb_native_foreign_keys is ON.
        """
        facts = self._table_row(table)
        engine = str(facts["engine"] or "")
        actions = tuple(
            ForeignKeyAction(
                name=row["name"], parent=row["parent"], on_delete=_action(row["on_delete"]), on_update=_action(row["on_update"])
            )
            for row in self._rows(_FOREIGN_KEYS, table)
            if _is(table, row) and (_action(row["on_delete"]) or _action(row["on_update"]))
        )
        where = _ELSEWHERE.get(engine.lower(), "")
        return SourceTraits(
            elsewhere=f"{where} (ENGINE={engine})" if where else "",
            actions=actions,
            actions_logged=not actions or self._logs_foreign_keys(),
            actions_stamped=not actions,
            versioned=facts["table_type"] == _VERSIONED,
            identity=self._identity(facts),
        )

    def _identity(self, facts: Row) -> TableIdentity:
        """Returns when a table was made, altered or rebuilt, and InnoDB's number of it, if the user may see it (PROCESS)."""
        if facts["made"] is None:
            return NO_IDENTITY
        table = TableName(schema=facts["table_schema"], name=facts["table_name"])
        # InnoDB writes other names in another way, and has partitions in place of their table.
        known = str(facts["engine"]).lower() == "innodb" and _PLAIN_NAME.match(table.schema) and _PLAIN_NAME.match(table.name)
        number = self._numbers(table).get(f"{table.schema}/{table.name}", "") if known else ""
        return TableIdentity(made=str(facts["made"]), server=f"{facts['host']}/{facts['server_id']}", number=number)

    def _numbers(self, table: TableName) -> dict[str, str]:
        """Returns InnoDB's numbers of tables, the given one among them; none without the grant."""
        return self._read_numbers((table,))

    def _read_numbers(self, tables: tuple[TableName, ...]) -> dict[str, str]:
        listing = "innodb_sys_tables" if self._session.is_mariadb or self._session.version.startswith("5.") else "innodb_tables"
        names = ", ".join(self._dialect.text(f"{table.schema}/{table.name}") for table in tables)
        sql = f"SELECT NAME AS name, TABLE_ID AS number FROM information_schema.{listing} WHERE NAME IN ({names})"
        return {row["name"]: str(row["number"]) for row in self._session.rows_if_allowed(sql) or ()}

    def _logs_foreign_keys(self) -> bool:
        found = self._session.rows("SHOW VARIABLES LIKE 'innodb_native_foreign_keys'")
        return bool(found) and str(found[0]["value"]).upper() in ("OFF", "0")

    def column_rows(self, table: TableName) -> list[Row]:
        """Returns name, declared type, nullability and extras of a table's columns, in order."""
        return [row for row in self._rows(_COLUMNS, table) if _is(table, row)]

    def auto_increment(self, table: TableName, column: str) -> int | None:
        """Returns the next number that an AUTO_INCREMENT column will get; None for other columns."""
        extras = (str(row["extra"]) for row in self.column_rows(table) if row["name"].lower() == column.lower())
        if not any("auto_increment" in extra.lower() for extra in extras):
            return None
        rows = self._session.rows(
            "SELECT TABLE_SCHEMA AS table_schema, TABLE_NAME AS table_name, AUTO_INCREMENT AS counter FROM information_schema.tables"
            f" WHERE {self._of(table)}"
        )
        return next((int(row["counter"]) for row in rows if _is(table, row) and row["counter"] is not None), None)

    def expression_indexes(self, table: TableName) -> tuple[str, ...]:
        """Returns the expressions that indexes of a table begin with, as the server prints them; a MySQL from 8.0.13 on knows such."""
        rows = (row for row in self._rows(_STATISTICS, table) if row["seq_in_index"] == 1)
        usable = (row for row in rows if _is(table, row) and _is_usable(row))
        return tuple(str(row["expression"]) for row in usable if row.get("expression"))

    def _has_grants_of_columns(self) -> bool:
        """True if the user has grants of single columns: then `information_schema` may hide others, as if they did not exist."""
        if self._grants_columns is None:
            grants = (str(text) for row in self._session.rows("SHOW GRANTS") for text in row.values())
            self._grants_columns = any(_OF_COLUMNS.match(text) for text in grants)
        return self._grants_columns

    def _check_may_read(self, table: TableName, rows: list[Row], what: str) -> None:
        """Asks the server itself, which knows what the user may read; it reads no row.

        Raises:
            SourceTableError: the user may not read all of it.
        """
        if self._session.rows_if_allowed(f"SELECT {what} FROM {self._dialect.table(table)} LIMIT 0") is None:
            shown = tuple(str(row["name"]) for row in rows if "select" in str(row["privileges"]).lower().split(","))
            raise hidden_columns(
                self._session,
                table,
                "the server does not show all of them",
                f"GRANT SELECT ON {self._dialect.table(table)} to the user; or name those to copy, as only they are shown:"
                f" 'columns: [{', '.join(shown)}]' in the pipeline file.",
            )

    def _rows(self, listing: "_Listing", table: TableName) -> list[Row]:
        """Returns what a listing says of a table, and of others whose names the server holds for equal."""
        return self._session.rows(f"{listing.select} WHERE {self._of(table, listing.schema)} ORDER BY {listing.order}")

    def _of(self, table: TableName, schema: str = "TABLE_SCHEMA") -> str:
        return f"{schema} = {self._dialect.text(table.schema)} AND TABLE_NAME = {self._dialect.text(table.name)}"

    def _table_row(self, table: TableName) -> Row:
        rows = self._rows(_TABLES, table)
        # The comparison above may ignore case; names that differ only in case can be two tables.
        found = next((row for row in rows if _is(table, row)), None)
        if found is None and rows and self._session.row("SELECT @@lower_case_table_names AS folded")["folded"]:
            found = rows[0]
        if found is None:
            raise missing_table(self._session, self._dialect, table, self.tables())
        if found["table_type"] not in _BASE_TABLES:
            raise SourceTableError(
                f"{table} is a {str(found['table_type']).lower()}, not a table.",
                why="A view has no key, and its changes leave no trace.",
                data=_NOTHING,
                next="Copy the base tables of the view.",
            )
        return found

    def _column(self, table: TableName, row: Row, types: TypePolicies) -> Column:
        mapping = check_mapping(table, row["name"], row["declared"], mysql_mapping(row["declared"], types.for_column(row["name"])))
        quoted, collation = self._dialect.name(row["name"]), row["collation"] or ""
        loose = _loose(row["declared"].lower(), collation)
        return Column(
            name=row["name"],
            source_type=row["declared"],
            delta_type=mapping.delta_type,
            nullable=row["nullable"] == "YES",
            expression=mapping.expression(quoted),
            lossy=mapping.lossy,
            loose=loose,
            normal=normal_text(row["declared"], collation, quoted, mariadb=self._session.is_mariadb) if loose else "",
        )

    def _indexes(self, table: TableName) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        rows = self._rows(_STATISTICS, table)
        names: dict[str, list[str | None]] = {}
        primary_key: list[str] = []
        for row in rows:
            if row["index_name"] == "PRIMARY" and _is(table, row):
                primary_key.append(row["column_name"])
            if _is(table, row) and _is_usable(row):
                # An expression, or a prefix of a column, ends what the index can order by.
                plain = row["column_name"] is not None and row["sub_part"] is None
                names.setdefault(row["index_name"], []).append(row["column_name"] if plain else None)
        whole = tuple(_until_none(names[name]) for name in sorted(names, key=lambda name: (name != "PRIMARY", name)))
        return tuple(primary_key), tuple(columns for columns in whole if columns)


class CatalogOfMany(Catalog):
    """Reads the schemas of some tables together: one statement per listing, however many tables there are.

    Args:
        session: The connection.
        dialect: How names are quoted.
        tables: The tables; of others it knows nothing.
    """

    def __init__(self, session: MySQLSession, dialect: Dialect, tables: tuple[TableName, ...]) -> None:
        super().__init__(session, dialect)
        self._tables = tables
        self._found: dict[_Listing, dict[TableName, list[Row]]] = {}
        self._known_numbers: dict[str, str] | None = None

    def _rows(self, listing: "_Listing", table: TableName) -> list[Row]:
        if listing not in self._found:
            self._found[listing] = self._read(listing)
        return self._found[listing].get(table, [])

    def _numbers(self, table: TableName) -> dict[str, str]:
        if self._known_numbers is None:
            self._known_numbers = self._read_numbers(self._tables)
        return self._known_numbers

    def _read(self, listing: "_Listing") -> dict[TableName, list[Row]]:
        schemas = [self._dialect.text(name) for name in sorted({table.schema for table in self._tables})]
        names = ", ".join(self._dialect.text(name) for name in sorted({table.name for table in self._tables}))
        # MariaDB looks into one schema only where it is compared by "=".
        within = f"= {schemas[0]}" if len(schemas) == 1 else f"IN ({', '.join(schemas)})"
        where = f"{listing.schema} {within} AND TABLE_NAME IN ({names})"
        found: dict[TableName, list[Row]] = {table: [] for table in self._tables}
        for row in self._session.rows(f"{listing.select} WHERE {where} ORDER BY {listing.order}"):
            table = TableName(schema=row["table_schema"], name=row["table_name"])
            if table in found:
                found[table].append(row)
        return found


def _is(table: TableName, row: Row) -> bool:
    return (row["table_schema"], row["table_name"]) == (table.schema, table.name)


def _loose(declared: str, collation: str) -> str:
    """Returns the collation of a column if texts that differ are equal in it: by case or accents, or by spaces at their end."""
    if declared.startswith(("enum", "set")):
        return ""  # stored as the declared spelling, whichever was written
    binary = collation in ("", "binary") or collation.endswith("_bin")
    pads = binary and collation.endswith("_bin") and not ("_0900_" in collation or "_nopad_" in collation or declared.startswith("char"))
    return collation if pads or not binary else ""


def normal_text(declared: str, collation: str, column: str, *, mariadb: bool) -> str:
    """Returns SQL for a text that is the same for texts which a collation holds for equal, and for no others; "" if none is known.

    It is made of the collation's weights, which the servers' own indexes are ordered by. Checked against `=` on MariaDB 11.4 and MySQL 9.7.
    Where texts are compared as if they were of one length, the weights of spaces at the end are cut off; filling up before gives the
    server room for all weights of characters that have several. Not known for the collations of MariaDB that weigh case or accents on
    levels of their own, for those of MySQL in which other blanks weigh what a space does without being equal to it
    (`utf8mb4_unicode_ci`), and for texts without a declared length.

    Args:
        declared: The column's type.
        collation: Its collation, named in the text, so that another one is another text.
        column: Its quoted name.
        mariadb: The server is a MariaDB.
    """
    kind = DeclaredType.parse(declared)
    if kind.base not in ("char", "varchar") or not kind.numbers or not _COLLATION.match(collation):
        return ""
    if "_0900_" in collation or "_nopad_" in collation:
        return "" if collation.endswith("_ai_cs") else f"HEX(WEIGHT_STRING({column} COLLATE {collation}))"
    if not _PLAIN_WEIGHTS.match(collation) and (not mariadb or ("_uca1400_" in collation and not collation.endswith("_ai_ci"))):
        return ""
    space = f"CONVERT(0x20 USING {collation.partition('_')[0]})"
    filled = f"RPAD({column}, {3 * kind.numbers[0]}, ' ')"
    return f"TRIM(TRAILING HEX(WEIGHT_STRING({space} COLLATE {collation})) FROM HEX(WEIGHT_STRING({filled} COLLATE {collation})))"


def _is_usable(row: Row) -> bool:
    hidden = row.get("is_visible") == "NO" or row.get("ignored") == "YES"
    return row["index_type"] == "BTREE" and not hidden


def _until_none(names: list[str | None]) -> tuple[str, ...]:
    whole = []
    for name in names:
        if name is None:
            break
        whole.append(name)
    return tuple(whole)


def _action(rule: str) -> str:
    return "" if rule in _IDLE_RULES else rule


def _texts(names: tuple[str, ...]) -> str:
    return "(" + ", ".join(f"'{name}'" for name in names) + ")"
