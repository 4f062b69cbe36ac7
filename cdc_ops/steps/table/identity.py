"""Another table under the name of the one that was copied: an increment of it is refused, or told where the catalog only suspects it."""

from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.operation.table_state import TableState
from cdc_ops.core.schema.table_identity import Sameness, TableIdentity, compare_identity
from cdc_ops.errors import TableReplacedError
from cdc_ops.steps.table.source_table import SourceTable


def check_identity(source_table: SourceTable, state: TableState, request: RunRequest) -> tuple[str, ...]:
    """Compares the table at the source with the one that was copied, before an increment of it is planned.

    Args:
        source_table: What the source says.
        state: The table's state, which says of which table its rows are.
        request: The run. All but increments read rows on purpose, whichever table has them.

    Returns:
        A warning, if it may be another table.

    Raises:
        TableReplacedError: it is another table.
    """
    if request.kind is not RunKind.INCREMENT:
        return ()
    match compare_identity(state.identity, source_table.identity):
        case Sameness.OTHER:
            raise _replaced(source_table, state.identity)
        case Sameness.UNSURE:
            return (_suspected(source_table),)
        case _:
            return ()


def _replaced(source_table: SourceTable, before: TableIdentity) -> TableReplacedError:
    config = source_table.config
    which = f"--pipeline {config.pipeline} --table {config.table}"
    return TableReplacedError(
        f"{config.table} is another table than the one that was copied: its oid is {source_table.identity.made}; it was {before.made}.",
        why="It was dropped and made again, another table was renamed to its name, or the database was restored from a dump.",
        data="Nothing was read; the watermark stays. Rows of the new table below the watermark were never read, and no increment would.",
        next=f"cdc-ops resync {which} --mode full   (replaces the rows of the lake by those of the new table)\n"
        f"        or, if most rows are the same: cdc-ops reconcile {which} --rows   (compares all of them, and copies those that differ)",
    )


def _suspected(source_table: SourceTable) -> str:
    config = source_table.config
    which = f"--pipeline {config.pipeline} --table {config.table}"
    return (
        f"was made anew or rebuilt on {source_table.identity.made} UTC, and the server does not say which. If another table took the name,"
        f" its rows below the watermark were not read. 'cdc-ops verify {which}' tells; 'cdc-ops reconcile {which} --rows' copies them, and"
        " ends this warning"
    )
