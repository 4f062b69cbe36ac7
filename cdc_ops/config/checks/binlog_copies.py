"""Checks of `archive.copy`: a server to copy from, and an archive that can hold binlogs."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cdc_ops.config.reading.diagnostics import Problem
from cdc_ops.config.reading.document import Document
from cdc_ops.config.reading.explain import missing_field, place_of
from cdc_ops.core.archive.file_names import Layout
from cdc_ops.core.pipeline.pipeline import SourceKind

Data = Mapping[str, Any]

_KINDS: Final = (SourceKind.MYSQL, SourceKind.MARIADB)


def check_binlog_copies(data: Data, document: Document) -> Iterator[Problem]:
    """Yields what does not go together with copies of binlogs.

    Args:
        data: What the adapter returned.
        document: For the lines.
    """
    archive = data.get("archive", {})
    copy = archive.get("copy")
    if copy is None:
        return
    place = place_of(document, ("archive", "copy")).key
    if not copy.get("connection"):
        yield missing_field(("archive", "copy", "connection"), document)
    kind = data.get("source", {}).get("kind")
    if kind is not None and kind not in _KINDS:
        yield Problem(mark=place, message=f"'copy' is for binlogs of MySQL and MariaDB, and the source is of kind {kind.value!r}.")
    if archive.get("layout", Layout.KAFKA_CONNECT) is not Layout.BINLOG:
        message = "'copy' writes binlogs, and the layout of the archive is that of other files."
        yield Problem(mark=place, message=message, valid="Write 'layout: binlog'.")
    url = archive.get("url", "")
    if not url:
        yield missing_field(("archive", "url"), document)
    elif "{schema}" in url or "{table}" in url:
        message = "Binlogs hold the changes of all tables of a server, so their folder cannot depend on a table."
        yield Problem(mark=place_of(document, ("archive", "url")).value, message=message, valid="Remove {schema} and {table}.")
