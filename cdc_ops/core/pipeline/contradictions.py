"""Contradictions between the settings of one table, as far as its pipeline file alone shows them. Pure.

`config.checks.tables` reports them with their lines when a file is loaded, so `cdc-ops validate` needs no connection. The plan checks
again, because a pipeline can also be made without a file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.table_settings import Method, TableSettings

MOST_CLUSTERED: Final = 4
"""Columns by which Delta clusters a table at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Settings of a table that cannot stand together.

    Args:
        settings: Their names in the pipeline file; the first is the one to look at.
        text: What is wrong, as a sentence.
        remedy: What to change in the pipeline file, as a sentence.
    """

    settings: tuple[str, ...]
    text: str
    remedy: str = "Remove one of the two."


def contradictions(settings: TableSettings) -> Iterator[Contradiction]:
    """Yields all contradictions between a table's settings.

    >>> [found.text for found in contradictions(TableSettings.of(event_history=True))]
    ["'event_history' needs 'method: log': tables that are read by query have no events."]
    """
    yield from _of_order(settings)
    yield from _of_deletes(settings)
    yield from _of_truncates(settings)
    yield from _of_null_updates(settings)
    for text in settings.storage.metadata_columns.problems():
        yield Contradiction(settings=("metadata_columns",), text=f"{text}.", remedy="Correct the names.")
    yield from _of_history(settings)
    yield from _of_layout(settings)


def _of_order(settings: TableSettings) -> Iterator[Contradiction]:
    order, log = settings.order, settings.method is Method.LOG
    if log and order.sequence_by:
        text = "'sequence_by' does not go with 'method: log': the events of an archive have their own order."
        yield Contradiction(settings=("sequence_by", "method"), text=text, remedy="Remove 'sequence_by'.")
    if order.sequence_by and order.previous_key:
        text = "'previous_key' does not go with 'sequence_by': an old key has no place in the order."
        yield Contradiction(settings=("previous_key", "sequence_by"), text=text)
    if order.previous_key and settings.keys and len(order.previous_key) != len(settings.keys):
        text = f"'previous_key' names {len(order.previous_key)} columns, and 'keys' names {len(settings.keys)}."
        yield Contradiction(settings=("previous_key", "keys"), text=text, remedy="Name one column of 'previous_key' for each key column.")
    if order.bad_records is OnBadRecord.QUARANTINE and not (log or order.sequence_by):
        text = "'bad_records: quarantine' needs 'method: log' or 'sequence_by': other rows would be lost."
        yield Contradiction(settings=("bad_records", "method"), text=text, remedy="Set one of the two, or remove 'bad_records'.")


def _of_deletes(settings: TableSettings) -> Iterator[Contradiction]:
    deletes = settings.apply.deletes
    if settings.order.previous_key and deletes is Deletes.IGNORE:
        text = "'previous_key' does not go with 'deletes: ignore': the one deletes the row under its old key, the other keeps it."
        yield Contradiction(settings=("previous_key", "deletes"), text=text)
    excluded = {name.lower() for name in settings.load.except_column_list}
    if deletes is not Deletes.HARD and any(name.lower() in excluded for name in settings.order.sequence_by):
        text = f"'deletes: {deletes}' keeps rows that only the lake has, and 'except_column_list' excludes a column of 'sequence_by':"
        text += " a full resync would lose their order."
        remedy = "Remove the column from 'except_column_list'."
        yield Contradiction(settings=("except_column_list", "deletes"), text=text, remedy=remedy)
    if settings.history.stored_as_scd_type == 2 and deletes is Deletes.SOFT:
        text = "'deletes: soft' does not go with 'stored_as_scd_type: 2': there, a deleted row stays anyway, and its last version ends."
        yield Contradiction(settings=("deletes", "stored_as_scd_type"), text=text)


def _of_truncates(settings: TableSettings) -> Iterator[Contradiction]:
    name = "apply_as_truncates"
    if not settings.apply.apply_as_truncates:
        return
    if settings.method is Method.LOG:
        text = f"'{name}' does not go with 'method: log': the events of an archive show a TRUNCATE themselves."
        yield Contradiction(settings=(name, "method"), text=text, remedy=f"Remove '{name}'.")
    elif not settings.order.sequence_by:
        text = f"'{name}' needs 'sequence_by': without it, cdc-ops does not know which rows are older."
        yield Contradiction(settings=(name, "sequence_by"), text=text, remedy=f"Set 'sequence_by', or remove '{name}'.")
    if settings.history.stored_as_scd_type == 2:
        text = f"'{name}' does not go with 'stored_as_scd_type: 2', as in AUTO CDC."
        yield Contradiction(settings=(name, "stored_as_scd_type"), text=text)
    if settings.apply.deletes is Deletes.IGNORE:
        text = f"'{name}' does not go with 'deletes: ignore': the one deletes rows that the other keeps."
        yield Contradiction(settings=(name, "deletes"), text=text)


def _of_null_updates(settings: TableSettings) -> Iterator[Contradiction]:
    name, apply = "ignore_null_updates", settings.apply
    lists = (f"{name}_column_list", f"{name}_except_column_list")
    given = tuple(field for field in (name, *lists) if getattr(apply, field))
    if not given:
        return
    if len(given) > 1:
        text = f"{' and '.join(map(repr, given))} exclude each other."
        yield Contradiction(settings=given, text=text, remedy="Keep one of them.")
    if settings.method is Method.LOG:
        return
    if not settings.order.sequence_by:
        text = f"'{given[0]}' needs 'method: log' or 'sequence_by': in a row that is read by query, a NULL is a value."
        yield Contradiction(settings=(given[0], "method"), text=text, remedy=f"Set one of the two, or remove '{given[0]}'.")
    if apply.deletes is Deletes.SOFT:
        text = f"'{given[0]}' does not go with 'deletes: soft' in a table of changes: a deleted row's last values are not known."
        yield Contradiction(settings=(given[0], "deletes"), text=text)


def _of_layout(settings: TableSettings) -> Iterator[Contradiction]:
    storage = settings.storage
    if storage.cluster_by and storage.partition_by:
        text = "'cluster_by' does not go with 'partition_by': Delta clusters tables without partitions only."
        yield Contradiction(settings=("cluster_by", "partition_by"), text=text)
    if len(storage.cluster_by) > MOST_CLUSTERED:
        text = f"'cluster_by' names {len(storage.cluster_by)} columns; Delta takes {MOST_CLUSTERED} at most."
        yield Contradiction(settings=("cluster_by",), text=text, remedy="Keep the columns that queries and batches look for.")


def _of_history(settings: TableSettings) -> Iterator[Contradiction]:
    history, lists = settings.history, ("track_history_column_list", "track_history_except_column_list")
    given = tuple(field for field in lists if getattr(history, field))
    if given and history.stored_as_scd_type == 1:
        text = f"{' and '.join(map(repr, given))} need 'stored_as_scd_type: 2': other tables keep no versions."
        yield Contradiction(settings=given, text=text.replace("need ", "needs ", 1) if len(given) == 1 else text)
    if len(given) > 1:
        yield Contradiction(settings=given, text=f"{' and '.join(map(repr, given))} exclude each other.")
    if history.event_history and settings.method is not Method.LOG:
        text = "'event_history' needs 'method: log': tables that are read by query have no events."
        yield Contradiction(settings=("event_history", "method"), text=text, remedy="Set 'method: log', or remove 'event_history'.")
