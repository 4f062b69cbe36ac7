"""Functions for the catalogs of all servers: selecting columns by name, and the errors for what is missing or hidden."""

from cdc_ops.core.schema.server_types.mysql_types import TypeMapping
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import did_you_mean, without_columns
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import NOTHING, Row, SqlSession


def choose_columns(table: TableName, rows: list[Row], wanted: tuple[str, ...], unwanted: tuple[str, ...]) -> list[Row]:
    """Returns the catalog's rows of the columns that a pipeline copies, in the order of the table.

    Raises:
        SourceTableError: a setting names a column that does not exist.
    """
    known = {row["name"].lower() for row in rows}
    for setting, names in (("columns", wanted), ("except_column_list", unwanted)):
        for name in names:
            if name.lower() not in known:
                raise SourceTableError(
                    f"Table {table} has no column {name!r}, which '{setting}' names.",
                    why=did_you_mean(name, (row["name"] for row in rows)),
                    data=NOTHING,
                    next=f"Correct '{setting}' in the pipeline file.",
                )
    keep, drop = {name.lower() for name in wanted} or known, {name.lower() for name in unwanted}
    return [row for row in rows if row["name"].lower() in keep - drop]


def missing_table(session: SqlSession, dialect: Dialect, table: TableName, known: tuple[TableName, ...]) -> SourceTableError:
    """The error for a table that does not exist, with the nearest one that does."""
    near = [one.name for one in known if one.schema == table.schema]
    nowhere = f"No table is visible in {table.schema!r}. " + did_you_mean(str(table), map(str, known))
    return SourceTableError(
        f"Table {table} does not exist at {session.place}, or user {session.user!r} may not read it.",
        why=did_you_mean(table.name, near) if near else nowhere,
        data=NOTHING,
        next=f"Correct the name in the pipeline file, or GRANT SELECT ON {dialect.table(table)} to the user.",
    )


def hidden_columns(session: SqlSession, table: TableName, which: str, remedy: str) -> SourceTableError:
    """The error for a table of which the user may read only some columns, though the pipeline wants all."""
    return SourceTableError(
        f"User {session.user!r} may not read all columns of {table}: {which}.",
        why="A copy without them would look complete.",
        data=NOTHING,
        next=remedy,
    )


def check_mapping(table: TableName, name: str, declared: str, mapping: TypeMapping | None) -> TypeMapping:
    """Returns the mapping of a column that can be copied.

    Raises:
        SourceTableError: nobody knows the type, or a policy forbids how it would be stored.
    """
    why = mapping.refusal if mapping else "cdc-ops cannot store every value of this type."
    if mapping is not None and not why:
        return mapping
    raise SourceTableError(
        f"Column {name!r} of {table} has type {declared}, which cannot be copied.",
        why=why,
        data=NOTHING,
        next=f"Exclude the column: '{without_columns([name])}' in the pipeline file"
        + (", or allow text with 'decimal_overflow: string'." if mapping else "."),
    )
