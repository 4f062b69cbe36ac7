"""Checks of each table's settings, with the defaults under them: contradictions, and columns that are named but not copied."""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from cdc_ops.config.build import table_settings
from cdc_ops.config.reading.diagnostics import Mark, Problem
from cdc_ops.config.reading.document import Document, Path
from cdc_ops.config.reading.explain import place_of
from cdc_ops.core.cursor.cursors import coalesced_columns
from cdc_ops.core.pipeline.contradictions import Contradiction, contradictions
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.reserved_names import reserved_name
from cdc_ops.core.text import without_columns

Data = Mapping[str, Any]

_COLUMN_FIELDS: Final = (
    *("keys", "cursor", "previous_key", "track_history_column_list", "track_history_except_column_list"),
    *("ignore_null_updates_column_list", "ignore_null_updates_except_column_list", "cluster_by", "partition_by"),
)
"""Fields whose columns cdc-ops must copy. Columns of `sequence_by` and of conditions may be read without being stored."""


def check_tables(data: Data, document: Document, suspect: Container[Path]) -> Iterator[Problem]:
    """Yields what is wrong between the settings of each table, all of it.

    Args:
        data: What the adapter returned; of a file with errors, what is left of it.
        document: For the lines.
        suspect: Sections and entries that have errors: what is left of them may contradict each other only because of the errors.
    """
    defaults = data.get("defaults", {})
    for pattern, entry in data.get("tables", {}).items():
        if (entry or {}).get("exclude"):
            continue
        yield from _uncopied_columns(pattern, entry or {}, defaults, document)
        if ("defaults",) in suspect or ("tables", pattern) in suspect:
            continue
        settings = table_settings(defaults, entry)
        yield from _reserved_names(pattern, settings, data, document)
        for found in contradictions(settings):
            mark, own = _mark(found, pattern, entry or {}, defaults, document)
            yield Problem(mark=mark, message=f"{pattern!r}: {found.text}" if own else found.text, valid=found.remedy)


def _reserved_names(pattern: str, settings: TableSettings, data: Data, document: Document) -> Iterator[Problem]:
    """Yields a column that the file itself declares, and that the Delta table cannot have."""
    left_out = {name.lower() for name in settings.load.except_column_list}
    declared = [name for name in (data.get("source", {}).get("tables") or {}).get(pattern, ()) if name.lower() not in left_out]
    if found := reserved_name(declared, change_feed=settings.records_changes):
        mark = place_of(document, ("source", "tables", pattern, found.column)).key
        message = f"Column {found.column!r} of {pattern!r}: {found.why}"
        yield Problem(mark=mark, message=message, valid=f"Exclude it ('{without_columns([found.column])}'), or rename it.")


def _mark(found: Contradiction, pattern: str, own: Data, defaults: Data, document: Document) -> tuple[Mark, bool]:
    """Returns where a contradiction is reported, and False if that is in `defaults`: it is then reported once for all tables."""
    if field := next((name for name in found.settings if name in own), ""):
        return place_of(document, ("tables", pattern, field)).key, True
    if field := next((name for name in found.settings if name in defaults), ""):
        return place_of(document, ("defaults", field)).key, False
    return place_of(document, ("tables", pattern)).key, True


def _uncopied_columns(pattern: str, own: Data, defaults: Data, document: Document) -> Iterator[Problem]:
    merged = {**defaults, **own}
    left_out = {name.lower() for name in merged.get("except_column_list", ())}
    chosen = {name.lower() for name in merged.get("columns", ())}
    for field in _COLUMN_FIELDS:
        for name in (column for text in merged.get(field, ()) for column in coalesced_columns(text) or (text,)):
            at = place_of(document, ("tables", pattern, field) if field in own else ("tables", pattern)).key
            if name.lower() in left_out:
                message = f"Column {name!r} of {pattern!r} is in {field!r}, and 'except_column_list' excludes it."
                yield Problem(mark=at, message=message, valid="cdc-ops must copy this column.")
            elif chosen and name.lower() not in chosen:
                message = f"Column {name!r} of {pattern!r} is in {field!r}, but not in 'columns'."
                yield Problem(mark=at, message=message, valid="cdc-ops must copy this column: add it to 'columns'.")
