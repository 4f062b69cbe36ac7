"""Checks of what starts runs: an archive that is watched has to be there, to be read, and to get its files from elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_ops.config.reading.diagnostics import Problem
from cdc_ops.config.reading.document import Document
from cdc_ops.config.reading.explain import place_of
from cdc_ops.core.pipeline.pipeline import ARCHIVE
from cdc_ops.core.pipeline.watch import archive_root

Data = Mapping[str, Any]


def check_starts(data: Data, document: Document, logs: Sequence[str]) -> Iterator[Problem]:
    """Yields what does not go together with `schedule: archive` and `start_on`.

    Args:
        data: What the adapter returned.
        document: For the lines.
        logs: Entries of tables that follow the archive.
    """
    start_on = data.get("start_on", ())
    place = place_of(document, ("schedule",) if data.get("schedule") == ARCHIVE else ("start_on",)).value
    if ARCHIVE not in (data.get("schedule"), *start_on):
        if "watch_interval" in data.get("airflow", {}):
            at = place_of(document, ("airflow", "watch_interval")).key
            yield Problem(mark=at, message="'watch_interval' has no effect without 'schedule: archive'.", valid="Remove the line.")
        return
    archive = data.get("archive", {})
    if not logs:
        message = "New files of the archive start runs, and no table follows the archive."
        yield Problem(mark=place, message=message, valid="Set 'method: log' for tables, or write a cron expression.")
    if data.get("schedule") in (None, "", ARCHIVE) and archive.get("copy"):
        message = "The runs themselves copy the binlogs into the archive, so nothing lands there before a run."
        yield Problem(mark=place, message=message, valid="Write a cron expression.")
    url = archive.get("url", "")
    if url and ("/" not in (root := archive_root(url)) or root.endswith(":/")):
        message = "Every folder of the archive depends on the table, so there is none to watch."
        yield Problem(mark=place_of(document, ("archive", "url")).value, message=message, valid="Begin the URL with a fixed folder.")
