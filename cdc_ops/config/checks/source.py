"""Checks of a pipeline's source against the rest of the file: a connection where one is needed, and what a declared source cannot do."""

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cdc_ops.config.reading.diagnostics import Problem, sentence
from cdc_ops.config.reading.document import Document, Path
from cdc_ops.config.reading.explain import missing_field, place_of
from cdc_ops.core.pipeline.archive_config import InitialLoad, OnGap
from cdc_ops.core.pipeline.pipeline import SourceKind
from cdc_ops.core.schema.declared_tables import DOCUMENT_COLUMN, TypeDialect, declared_column
from cdc_ops.core.text import did_you_mean
from cdc_ops.events.registry import FORMAT_SPECS

Data = Mapping[str, Any]

_DECLARES: Final = ("tables", "dialect")
_NEEDS_DATABASE: Final[tuple[tuple[tuple[str, ...], object, str], ...]] = (
    (("reconcile_schedule",), None, "compares tables with the database"),
    (("archive", "initial_load"), InitialLoad.SNAPSHOT, "reads rows from the database"),
    (("archive", "on_gap"), OnGap.RECONCILE, "compares tables with the database"),
)
"""Fields that need a database, with the value that does (None = any)."""


def check_source(data: Data, document: Document, logs: list[str]) -> Iterator[Problem]:
    """Yields what is wrong with the source, and what of the rest does not go with it.

    Args:
        data: What the adapter returned.
        document: For the lines.
        logs: The entries of `tables` that are fed from the archive.
    """
    source = data.get("source")
    if source is None:
        return
    if source.get("kind") is SourceKind.NONE:
        yield from _check_declared(data, document, logs)
        return
    if "connection" not in source:
        yield missing_field(("source", "connection"), document)
    for name in (name for name in _DECLARES if name in source):
        message = f"{name!r} is for sources of kind 'none'; this one is asked."
        yield Problem(mark=place_of(document, ("source", name)).key, message=message, valid="Remove it, or set 'kind: none'.")


def _check_declared(data: Data, document: Document, logs: list[str]) -> Iterator[Problem]:
    source = data["source"]
    for name in source.keys() - {"kind", *_DECLARES}:
        message = f"{name!r} is for a database, and a source of kind 'none' has none."
        yield Problem(mark=place_of(document, ("source", name)).key, message=message, valid="Remove the line.")
    if not source.get("tables"):
        yield missing_field(("source", "tables"), document)
        return
    for path, value, why in _NEEDS_DATABASE:
        given = data.get(path[0], {}).get(path[1]) if len(path) > 1 else data.get(path[0])
        if given and (value is None or given is value):
            message = f"{str(path[-1])!r} {why}, and a source of kind 'none' has none."
            yield Problem(mark=place_of(document, path).key, message=message, valid="Remove the line, or name the database in 'source'.")
    yield from _check_types(source, document)
    yield from _check_dialect(data, document)
    yield from _check_entries(data, document, logs)
    yield from _check_document_column(data, document)


def _check_document_column(data: Data, document: Document) -> Iterator[Problem]:
    name = data.get("archive", {}).get("settings", {}).get(DOCUMENT_COLUMN)
    without = [table for table, columns in data["source"]["tables"].items() if name not in columns]
    if name and without:
        message = f"{DOCUMENT_COLUMN!r} is {name!r}, and {without[0]!r} has no column of that name: its documents would be lost."
        mark = place_of(document, ("archive", "settings", DOCUMENT_COLUMN)).value
        yield Problem(mark=mark, message=message, valid=f"Declare '{name}: json', or remove the setting.")


def _check_types(source: Data, document: Document) -> Iterator[Problem]:
    dialect = source.get("dialect", TypeDialect.DELTA)
    for table, columns in source["tables"].items():
        here: Path = ("source", "tables", table)
        if not columns:
            message = f"{table!r} has no columns."
            yield Problem(mark=place_of(document, here).key, message=message, valid="Write them as 'name: type'.")
        doubled = {name.lower(): name for name in columns}
        for name, text in columns.items():
            if doubled[name.lower()] != name:
                message = f"{name!r} and {doubled[name.lower()]!r} differ only in case: Delta column names ignore case."
                yield Problem(mark=place_of(document, (*here, name)).key, message=message)
            try:
                declared_column(name, text, dialect)
            except ValueError as error:
                yield Problem(mark=place_of(document, (*here, name)).value, message=sentence(str(error)))


def _check_dialect(data: Data, document: Document) -> Iterator[Problem]:
    form, chosen = data.get("archive", {}).get("format", ""), data["source"].get("dialect", TypeDialect.DELTA)
    spec = FORMAT_SPECS.get(form)
    needed = spec.dialect if spec is not None else None
    if needed is not None and needed is not chosen:
        message = f"Events of the format {form!r} need the types of their source, and 'tables' uses those of {chosen.value!r}."
        mark = place_of(document, ("source", "dialect")).value
        yield Problem(mark=mark, message=message, valid=f"Write 'dialect: {needed.value}', and the columns as that source declares them.")


def _check_entries(data: Data, document: Document, logs: list[str]) -> Iterator[Problem]:
    tables = data["source"]["tables"]
    for pattern, entry in data.get("tables", {}).items():
        if (entry or {}).get("exclude"):
            continue
        at = place_of(document, ("tables", pattern)).key
        if pattern not in logs:
            message = f"{pattern!r} is read by query, and a source of kind 'none' has no rows to read."
            yield Problem(mark=at, message=message, valid="Write 'method: log', in the entry or in 'defaults'.")
        elif not any(fnmatch.fnmatchcase(name, pattern) for name in tables):
            message = f"{pattern!r} is missing in 'tables' of the source. {did_you_mean(pattern, tables)}"
            yield Problem(mark=at, message=message, valid="Correct the name, or declare its columns there.")
