"""Reads tables from pg_catalog: columns with domains resolved, keys, indexes, sizes, sequences."""

from collections.abc import Iterable
from typing import Final

from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping
from cdc_ops.core.schema.source_traits import SourceTraits
from cdc_ops.core.schema.table_identity import TableIdentity
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.value_policies import TypePolicies
from cdc_ops.core.text import without_columns
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.postgres.session import PostgresSession
from cdc_ops.sources.sql.catalog import check_mapping, choose_columns, hidden_columns, missing_table
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import NOTHING, Row

_TABLE_KINDS: Final = ("r", "p")
_KIND_NAMES: Final = {"v": "view", "m": "materialized view", "f": "foreign table"}

_TEXT_OF_EXTENSIONS: Final = (
    "hstore",
    "ltree",
    "lquery",
    "ltxtquery",
    "cube",
    "seg",
    "isbn",
    "issn",
    "ean13",
    "vector",
    "halfvec",
    "sparsevec",
)
"""Types of extensions that declare no cast to text, but whose output is all there is to a value."""

_LOOSE: Final = {"citext": "citext", "numeric": "1.0 = 1.00", "interval": "1 day = 24:00:00", "jsonb": "1.0 = 1.00"}
"""Types whose values can be equal and print differently."""

_NORMAL: Final = {
    # What its own comparison does, whatever the column's collation.
    "citext": 'lower({column}::text COLLATE "default")',
    "numeric": "trim_scale({column})::text",
}
"""Of these: a text that is the same for equal values. Keys of collations that are not deterministic cannot be asked for in SQL."""

_COLUMNS: Final = """
    SELECT a.attrelid::bigint AS table_id, a.attname AS name, NOT a.attnotnull AND NOT t.typnotnull AS nullable,
      has_column_privilege(a.attrelid, a.attnum, 'SELECT') AS readable,
      format_type(base.type_id, base.typmod) AS declared, leaf.typname AS leaf,
      COALESCE((SELECT c.collname::text FROM pg_collation c WHERE c.oid = a.attcollation AND NOT c.collisdeterministic), '') AS loose,
      leaf.typtype <> 'b' OR n.nspname = 'pg_catalog' OR EXISTS (
        SELECT 1 FROM pg_cast c WHERE c.castsource = leaf.oid AND c.casttarget = 'pg_catalog.text'::regtype) AS has_text
    FROM pg_attribute a
    JOIN pg_type t ON t.oid = a.atttypid
    CROSS JOIN LATERAL (
      WITH RECURSIVE chain AS (
        SELECT a.atttypid AS type_id, a.atttypmod AS typmod, t.typtype AS kind, t.typbasetype AS beneath, t.typtypmod AS beneath_typmod
        UNION ALL
        SELECT b.oid, CASE WHEN chain.typmod >= 0 THEN chain.typmod ELSE chain.beneath_typmod END, b.typtype, b.typbasetype, b.typtypmod
        FROM chain JOIN pg_type b ON b.oid = chain.beneath WHERE chain.kind = 'd')
      SELECT type_id, typmod FROM chain WHERE kind <> 'd') AS base
    JOIN pg_type bt ON bt.oid = base.type_id
    JOIN pg_type leaf ON leaf.oid = CASE WHEN bt.typcategory = 'A' AND bt.typelem <> 0 THEN bt.typelem ELSE bt.oid END
    JOIN pg_namespace n ON n.oid = leaf.typnamespace
    WHERE a.attrelid {of} AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attrelid, a.attnum"""

_INDEXES: Final = """
    SELECT i.indrelid::bigint AS table_id, ic.relname AS index_name, i.indisprimary AS is_primary, a.attname AS name,
      am.amname = 'btree' AND i.indisvalid AND i.indpred IS NULL AS is_usable
    FROM pg_index i
    JOIN pg_class ic ON ic.oid = i.indexrelid
    JOIN pg_am am ON am.oid = ic.relam
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, position)
    LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0
    WHERE i.indrelid {of} AND k.position <= i.indnkeyatts
    ORDER BY i.indrelid, NOT i.indisprimary, ic.relname, k.position"""

# Of tgtype: 2 is BEFORE, 16 is UPDATE, 1 is FOR EACH ROW.
_UPDATE_TRIGGERS: Final = """
    SELECT tgrelid::bigint AS table_id FROM pg_trigger
    WHERE tgrelid {of} AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 19 = 19"""

_DEFAULTS: Final = """
    SELECT d.adrelid::bigint AS table_id, a.attname AS name, lower(pg_get_expr(d.adbin, d.adrelid)) AS preset
    FROM pg_attrdef AS d JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE d.adrelid {of}"""

_EXPRESSION_INDEXES: Final = """
    SELECT i.indrelid::bigint AS table_id, pg_get_indexdef(i.indexrelid, 1, true) AS expression FROM pg_index i
    WHERE i.indrelid {of} AND i.indisvalid AND i.indpred IS NULL AND i.indkey[0] = 0"""

_TABLES: Final = """
    SELECT n.nspname AS table_schema, c.relname AS table_name, c.oid::bigint AS id, c.relkind AS kind,
      COALESCE((SELECT sum(p.reltuples) FROM pg_partition_tree(c.oid) AS t JOIN pg_class p ON p.oid = t.relid
        WHERE t.isleaf AND p.reltuples > 0), c.reltuples)::bigint AS estimate,
      -- With what is stored outside of the rows themselves.
      (COALESCE((SELECT sum(pg_table_size(t.relid)) FROM pg_partition_tree(c.oid) AS t WHERE t.isleaf), pg_table_size(c.oid))
        / NULLIF(COALESCE((SELECT sum(p.reltuples) FROM pg_partition_tree(c.oid) AS t JOIN pg_class p ON p.oid = t.relid
        WHERE t.isleaf AND p.reltuples > 0), NULLIF(c.reltuples, -1)), 0))::bigint AS row_bytes,
      has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT') AS readable,
      -- Tables that inherit; partitions are a table's own parts.
      ARRAY(SELECT i.inhrelid::regclass::text FROM pg_inherits i JOIN pg_class child ON child.oid = i.inhrelid
        WHERE i.inhparent = c.oid AND NOT child.relispartition ORDER BY 1) AS children,
      ARRAY(SELECT p.oid::regclass::text FROM pg_partition_tree(c.oid) t JOIN pg_class p ON p.oid = t.relid
        WHERE t.isleaf AND p.relkind = 'f' ORDER BY 1) AS foreign_parts,
      c.relpersistence = 'u' OR EXISTS (SELECT FROM pg_partition_tree(c.oid) t JOIN pg_class p ON p.oid = t.relid
        WHERE t.isleaf AND p.relpersistence = 'u') AS unlogged,
      -- By way of JSON: servers before 12 have no such column.
      ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        AND COALESCE(to_jsonb(a) ->> 'attgenerated', '') <> '' ORDER BY a.attnum) AS computed,
      c.relkind = 'p' AND NOT EXISTS (SELECT FROM pg_publication_tables p
        WHERE p.schemaname = n.nspname AND p.tablename = c.relname) AS by_parts,
      -- Filters and lists of columns: servers before 15 have none; the root's name: those before 13.
      ARRAY(SELECT format('%s (leaves out %s)', b.pubname, concat_ws(', ',
          CASE WHEN NOT b.pubinsert THEN 'inserts' END, CASE WHEN NOT b.pubupdate THEN 'updates' END,
          CASE WHEN NOT b.pubdelete THEN 'deletes' END, CASE WHEN NOT b.pubtruncate THEN 'TRUNCATE' END,
          CASE WHEN to_jsonb(r) ->> 'prqual' IS NOT NULL THEN 'rows (WHERE)' END,
          CASE WHEN to_jsonb(r) ->> 'prattrs' IS NOT NULL THEN 'columns' END,
          CASE WHEN c.relkind = 'p' AND to_jsonb(b) ->> 'pubviaroot' = 'false' THEN 'the name of the table' END))
        FROM pg_publication b LEFT JOIN pg_publication_rel r ON r.prpubid = b.oid AND r.prrelid = c.oid
        WHERE (b.puballtables OR r.prrelid IS NOT NULL) AND NOT (b.pubinsert AND b.pubupdate AND b.pubdelete AND b.pubtruncate
          AND to_jsonb(r) ->> 'prqual' IS NULL AND to_jsonb(r) ->> 'prattrs' IS NULL
          AND (c.relkind <> 'p' OR to_jsonb(b) ->> 'pubviaroot' = 'true'))
        ORDER BY b.pubname) AS narrow
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname {schemas} AND c.relname {names} AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"""


class PostgresCatalog:
    """Reads the schemas of one database.

    Args:
        session: The connection.
        dialect: How names are quoted.
    """

    def __init__(self, session: PostgresSession, dialect: Dialect) -> None:
        self._session = session
        self._dialect = dialect

    def tables(self) -> tuple[TableName, ...]:
        """Returns the tables that the user may read, partitions within their table, without the server's own schemas."""
        rows = self._session.rows(
            "SELECT n.nspname AS table_schema, c.relname AS table_name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE c.relkind IN {_TABLE_KINDS} AND NOT c.relispartition AND n.nspname <> 'information_schema'"
            " AND n.nspname !~ '^pg_' AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')"
        )
        return tuple(sorted(TableName(schema=row["table_schema"], name=row["table_name"]) for row in rows))

    def schema(self, table: TableName, *, columns: Iterable[str], except_columns: Iterable[str], types: TypePolicies) -> TableSchema:
        """Reads columns, primary key and indexes; see `Source.schema`."""
        facts = self._table_row(table)
        rows = self._rows(_COLUMNS, table)
        chosen = choose_columns(table, rows, tuple(columns), tuple(except_columns))
        _check_case(table, chosen)
        if hidden := [str(row["name"]) for row in chosen if not row["readable"]]:
            grant = f"GRANT SELECT ({', '.join(map(self._dialect.name, hidden))}) ON {self._dialect.table(table)} to the user"
            without = f"leave them out: '{without_columns(hidden)}' in the pipeline file."
            raise hidden_columns(self._session, table, f"not {', '.join(map(repr, hidden))}", f"{grant}; or {without}")
        primary_key, indexes = self._indexes(table)
        return TableSchema(
            table=table,
            columns=tuple(self._column(table, row, types) for row in chosen),
            primary_key=primary_key,
            indexes=indexes,
            approximate_rows=max(int(facts["estimate"]), 0),
            row_bytes=max(int(facts["row_bytes"] or 0), 0),
            types=types,
        )

    def traits(self, table: TableName) -> SourceTraits:
        """Reads what may keep a copy from being equal; see `Source.traits`.

        The server carries out foreign keys by statements of its own, which fire triggers and are in its log.
        """
        facts = self._table_row(table)
        foreign = ", ".join(facts["foreign_parts"])
        return SourceTraits(
            children=tuple(facts["children"]),
            elsewhere=f"another server (foreign tables among its partitions: {foreign})" if foreign else "",
            unlogged=bool(facts["unlogged"]),
            unlogged_columns=tuple(facts["computed"]),
            partitioned=facts["kind"] == "p",
            logged_by_parts=bool(facts["by_parts"]),
            narrow_publications=tuple(facts["narrow"]),
            # It stays through ALTER, TRUNCATE and VACUUM FULL, and on replicas.
            identity=TableIdentity(made=str(facts["id"]), exact=True),
        )

    def sequence(self, table: TableName, column: str) -> str | None:
        """Returns the quoted name of the sequence that a serial or identity column owns; None for other columns."""
        owner, name = self._dialect.text(self._dialect.table(table)), self._dialect.text(column)
        found: str | None = self._session.row(f"SELECT pg_get_serial_sequence({owner}, {name}) AS sequence")["sequence"]
        return found

    def next_number(self, table: TableName, column: str) -> int | None:
        """Returns the next number of a serial or identity column; None for others, and if the user may not read its sequence."""
        sequence = self.sequence(table, column)
        if sequence is None:
            return None
        rows = self._session.rows_if_allowed(f"SELECT last_value + CASE WHEN is_called THEN 1 ELSE 0 END AS counter FROM {sequence}")
        return int(rows[0]["counter"]) if rows else None

    def sequence_cache(self, sequence: str) -> int:
        """Returns how many numbers a session takes from a sequence at once."""
        row = self._session.row(f"SELECT seqcache FROM pg_sequence WHERE seqrelid = {self._dialect.text(sequence)}::regclass")
        return int(row["seqcache"])

    def has_update_trigger(self, table: TableName) -> bool:
        """True if some trigger of the table can change rows that are being updated."""
        return bool(self._rows(_UPDATE_TRIGGERS, table))

    def is_stamped(self, table: TableName, column: str) -> bool:
        """True if a column's default is the time of the session, in its zone."""
        rows = [row for row in self._rows(_DEFAULTS, table) if row["name"] == column]
        clocks = ("now()", "current_timestamp", "localtimestamp", "_timestamp()")
        fixed = ("at time zone", "timezone(")
        return any(any(one in row["preset"] for one in clocks) and not any(one in row["preset"] for one in fixed) for row in rows)

    def presets(self, table: TableName) -> dict[str, str]:
        """Returns the defaults of a table's columns, as the server prints them, in lower case."""
        return {row["name"]: str(row["preset"]) for row in self._rows(_DEFAULTS, table)}

    def _table_row(self, table: TableName) -> Row:
        rows = self._facts(table)
        if not rows or not rows[0]["readable"]:
            raise missing_table(self._session, self._dialect, table, self.tables())
        if rows[0]["kind"] not in _TABLE_KINDS:
            raise _no_table(table, rows[0]["kind"])
        return rows[0]

    def expression_indexes(self, table: TableName) -> tuple[str, ...]:
        """Returns the first expression of each valid index of a table that begins with one, as the server prints it."""
        return tuple(str(row["expression"]) for row in self._rows(_EXPRESSION_INDEXES, table))

    def _rows(self, listing: str, table: TableName) -> list[Row]:
        """Returns what one of the listings above says of a table."""
        return self._session.rows(listing.format(of=f"= {self._dialect.text(self._dialect.table(table))}::regclass"))

    def _facts(self, table: TableName) -> list[Row]:
        schema, name = self._dialect.text(table.schema), self._dialect.text(table.name)
        return self._session.rows(_TABLES.format(schemas=f"= {schema}", names=f"= {name}"))

    def _column(self, table: TableName, row: Row, types: TypePolicies) -> Column:
        if not row["has_text"] and row["leaf"] not in _TEXT_OF_EXTENSIONS:
            raise SourceTableError(
                f"Column {row['name']!r} of {table} has type {row['declared']}, which cannot be copied.",
                why="It belongs to an extension without a cast to text, so cdc-ops cannot store every value of it.",
                data=NOTHING,
                next=f"Exclude the column: '{without_columns([row['name']])}' in the pipeline file.",
            )
        mapping = check_mapping(table, row["name"], row["declared"], postgres_mapping(row["declared"], types.for_column(row["name"])))
        kind, quoted = row["declared"].rpartition(".")[2], self._dialect.name(row["name"])
        loose = row["loose"] or _LOOSE.get(kind, "")
        return Column(
            name=row["name"],
            source_type=row["declared"],
            delta_type=mapping.delta_type,
            nullable=row["nullable"],
            expression=mapping.expression(quoted),
            lossy=mapping.lossy,
            loose=loose,
            normal=_NORMAL[kind].format(column=quoted) if kind in _NORMAL and loose else "",
        )

    def _indexes(self, table: TableName) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        names: dict[str, list[str]] = {}
        ended: set[str] = set()
        primary_key: list[str] = []
        for row in self._rows(_INDEXES, table):
            index = row["index_name"]
            if row["is_primary"]:
                primary_key.append(row["name"])
            if row["name"] is None or not row["is_usable"]:
                ended.add(index)  # an expression ends what the index can order by
            elif index not in ended:
                names.setdefault(index, []).append(row["name"])
        return tuple(primary_key), tuple(tuple(columns) for columns in names.values())


class PostgresCatalogOfMany(PostgresCatalog):
    """Reads the schemas of some tables together: one statement per listing, however many tables there are.

    Args:
        session: The connection.
        dialect: How names are quoted.
        tables: The tables; of others it knows nothing.
    """

    def __init__(self, session: PostgresSession, dialect: Dialect, tables: tuple[TableName, ...]) -> None:
        super().__init__(session, dialect)
        self._tables = tables
        self._known: dict[TableName, Row] | None = None
        self._found: dict[str, dict[int, list[Row]]] = {}

    def _facts(self, table: TableName) -> list[Row]:
        if self._known is None:
            schemas = self._among({one.schema for one in self._tables})
            rows = self._session.rows(_TABLES.format(schemas=schemas, names=self._among({one.name for one in self._tables})))
            every = {TableName(schema=row["table_schema"], name=row["table_name"]): row for row in rows}
            self._known = {one: every[one] for one in self._tables if one in every}
        return [self._known[table]] if table in self._known else []

    def _rows(self, listing: str, table: TableName) -> list[Row]:
        [facts] = self._facts(table)
        if listing not in self._found:
            self._found[listing] = {}
            ids = ", ".join(str(int(row["id"])) for row in (self._known or {}).values())
            for row in self._session.rows(listing.format(of=f"IN ({ids})")):
                self._found[listing].setdefault(row["table_id"], []).append(row)
        return self._found[listing].get(facts["id"], [])

    def _among(self, names: set[str]) -> str:
        return f"IN ({', '.join(self._dialect.text(name) for name in sorted(names))})"


def _check_case(table: TableName, rows: list[Row]) -> None:
    seen: dict[str, str] = {}
    for row in rows:
        other = seen.setdefault(row["name"].lower(), row["name"])
        if other != row["name"]:
            raise SourceTableError(
                f"Columns {other!r} and {row['name']!r} of {table} differ only in case.",
                why="Delta column names ignore case.",
                data=NOTHING,
                next="Rename one of them, or exclude both with 'except_column_list'.",
            )


def _no_table(table: TableName, kind: str) -> SourceTableError:
    """Returns the error for what only looks like a table."""
    if kind == "f":
        why, instead = (
            "Its rows are on another server, whose transactions this one does not see.",
            "Copy it from the server that has its rows.",
        )
    else:
        why, instead = "It has no key, and its changes leave no trace.", "Copy its base tables."
    return SourceTableError(f"{table} is a {_KIND_NAMES[kind]}, not a table.", why=why, data=NOTHING, next=instead)
