"""How the rows of an operation enter its Delta table: keys, statement, deletes, history, quarantine. Pure."""

import enum
from dataclasses import dataclass

from cdc_ops.core.apply.scd import LATEST, TableStorage
from cdc_ops.core.schema.schema_evolution import SchemaChange
from cdc_ops.core.schema.tables import Column


class ApplyMode(enum.StrEnum):
    """How the rows enter the Delta table, always as one statement."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


class Landing(enum.StrEnum):
    """Where rows stop between source and table."""

    STAGED = "staged"
    """As Parquet in the staging area: extract and merge are separately retryable, and the source is read once."""
    DIRECT = "direct"
    """Nowhere: one append or overwrite reads the source once and commits; a retry reads again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySpec:
    """What an operation does with the rows that it reads, by the table's settings at the plan.

    Args:
        keys: Key columns, as the lake's rows are matched: where the source compares loosely, the columns that stand for its own.
        mode, landing: How rows are applied, and where they stop in between.
        stored_as: How the table stores what is applied to it.
        delete_where: Spark SQL condition on a row that was read; such rows are deleted from the table and not inserted ("" = none).
        truncate_where: Spark SQL condition on a row that was read; one that it is true of empties the table of what is older ("" = none).
        delete_missing_where: Spark SQL condition on the target; rows that match it and are not in the batch are deleted ("" = none).
        deleted_column: Column of the Delta table, and not of the source, that is set to true in deleted rows; "" = they are deleted.
        quarantine: Delta table for rows that are read by query and have NULL in a key or in `sequence_by`, "" = they stop the operation.
            It may change between tries, until the rows are landed.
        update_only: Columns that are set in rows that are there; then nothing is inserted and no other column changed.
        replaces_schema: True if the rows replace the table's columns too.
        schema_changes: What is altered in the Delta table before the statement, unless it has been altered already. It may change
            between tries, with the columns of the source.
        unique_keys: The source promises each key once in what is read, so that landed rows are not searched for the last of each key.
        previous_keys: What is read besides the columns, one for each key column: the row's old key, if the source has no row with it any
            more.
    """

    keys: tuple[str, ...]
    mode: ApplyMode
    landing: Landing
    stored_as: TableStorage = LATEST
    delete_where: str = ""
    truncate_where: str = ""
    delete_missing_where: str = ""
    deleted_column: str = ""
    quarantine: str = ""
    update_only: tuple[str, ...] = ()
    replaces_schema: bool = False
    schema_changes: tuple[SchemaChange, ...] = ()
    previous_keys: tuple[Column, ...] = ()
    unique_keys: bool = False
