"""What a server's catalog says of a table beyond columns and keys, where it decides what can be copied, and how."""

from dataclasses import dataclass

from cdc_ops.core.schema.table_identity import NO_IDENTITY, TableIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKeyAction:
    """A foreign key by which the server itself changes rows of a table when a row of another one is deleted or gets another key.

    Args:
        name: Of the constraint.
        parent: The table that it refers to.
        on_delete, on_update: What happens, as in SQL, e.g. `CASCADE`, `SET NULL`; "" = nothing.
    """

    name: str
    parent: str
    on_delete: str = ""
    on_update: str = ""

    @property
    def changes_rows(self) -> bool:
        """True if rows stay and get other values."""
        return bool(self.on_update) or self.on_delete not in ("", "CASCADE")

    def __str__(self) -> str:
        """E.g. `fk_order of orders (ON DELETE CASCADE)`."""
        actions = ((f"ON DELETE {self.on_delete}", self.on_delete), (f"ON UPDATE {self.on_update}", self.on_update))
        return f"{self.name} of {self.parent} ({', '.join(text for text, action in actions if action)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTraits:
    """What may keep a copy of a table from being equal.

    Args:
        children: Tables that inherit from it (Postgres, INHERITS): a SELECT brings their rows too, and its keys bind none of them.
        elsewhere: Where its rows are kept if that is not this table of this server, e.g. `another server (ENGINE=FEDERATED)`; "" = here.
        unlogged: No log of the server has its changes.
        unlogged_columns: What Postgres computes (GENERATED ALWAYS AS) and does not send to those who follow its log.
        partitioned: It has partitions of Postgres.
        logged_by_parts: Its log names these partitions in place of the table: no publication has the table under its own name.
        narrow_publications: Publications of Postgres that do not send all of its changes, with what they leave out.
        actions: Foreign keys by which the server changes its rows.
        actions_logged: The server's log has what these change.
        actions_stamped: What these change passes through triggers and `ON UPDATE CURRENT_TIMESTAMP`, as statements do.
        versioned: It keeps rows of the past beside the present ones (MariaDB, WITH SYSTEM VERSIONING), and logs both.
        identity: What tells it from other tables that have had its name; the origin of its rows is no part of a catalog.
    """

    children: tuple[str, ...] = ()
    elsewhere: str = ""
    unlogged: bool = False
    unlogged_columns: tuple[str, ...] = ()
    partitioned: bool = False
    logged_by_parts: bool = False
    narrow_publications: tuple[str, ...] = ()
    actions: tuple[ForeignKeyAction, ...] = ()
    actions_logged: bool = True
    actions_stamped: bool = True
    versioned: bool = False
    identity: TableIdentity = NO_IDENTITY


PLAIN = SourceTraits()
"""Of a table of which the catalog says nothing unusual."""
