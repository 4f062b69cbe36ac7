"""Commit records as text: the JSON that every data commit carries in Delta's userMetadata.

A record is JSON with the marker `"cdc_ops": 1`. The number is raised only for a change that an older reader must not overlook; a record
with
a higher number is refused, because reading it as another writer's text would lose the watermark. Within one number a newer version may add
fields: an older reader leaves them out, so that workers of two versions can share a table during an upgrade.
"""

import json
from typing import Any, Final

from cdc_ops.core import json_codec
from cdc_ops.core.operation.protocol.commit_record import CommitRecord
from cdc_ops.errors import StateError

MARKER: Final = "cdc_ops"
FORMAT: Final = 1

_NOT_RECORDED: Final = frozenset({"seen", "nulls", "fresh_at"})
"""Fields of `TableProgress` that only the ledger keeps: what a plan saw at the source."""


def render_record(record: CommitRecord) -> str:
    """Returns the text that goes into userMetadata; `parse_record` is the way back."""
    told = {name: value for name, value in json_codec.to_data(record).items() if name not in _NOT_RECORDED}
    return json_codec.dumps({MARKER: FORMAT, **told})


def parse_record(user_metadata: str | None) -> CommitRecord | None:
    """Reads a commit's userMetadata.

    Returns:
        The record, or None if another writer wrote the text.

    Raises:
        StateError: it is a record of ours that this version cannot read.
    """
    data = _marked(user_metadata)
    if data is None:
        return None
    if data[MARKER] != FORMAT:
        raise StateError(
            f"A commit record has format {data[MARKER]!r}; this version of cdc-ops reads format {FORMAT}.",
            why=f"The table was written by a newer cdc-ops ({data.get('package_version', 'unknown version')}).",
            data="Nothing was written; the table is as it was.",
            next="Install the newer version everywhere that this pipeline runs.",
        )
    known = set(json_codec.field_names(CommitRecord)) - _NOT_RECORDED
    return json_codec.loads(CommitRecord, json.dumps({name: value for name, value in data.items() if name in known}))


def _marked(text: str | None) -> dict[str, Any] | None:
    if not text or MARKER not in text:
        return None
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) and MARKER in data else None
