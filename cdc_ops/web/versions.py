"""A pipeline's file as it stands, and what each version of it has changed. Pure."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Final

from cdc_ops.core.text import plural
from cdc_ops.state.notices.pipeline_files import PipelineVersion

AROUND: Final = 3
"""Lines shown around a change."""

_LOOKS: Final = {"+": "added", "-": "removed", "@": "place", " ": "same"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of a comparison.

    Args:
        look: `added`, `removed`, `place` (where the lines that follow stand) or `same`.
        text: As a unified diff has it, its mark included.
    """

    look: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What a version has changed.

    Args:
        number: Of the version.
        run_id: The first run that worked by it.
        since: When that run began, UTC.
        words: How much has changed.
        lines: What; () for the first version that is known.
    """

    number: int
    run_id: str
    since: datetime
    words: str
    lines: tuple[DiffLine, ...]


def file_changes(versions: Sequence[PipelineVersion]) -> tuple[FileChange, ...]:
    """Returns what versions have changed, each beside the one before it.

    Args:
        versions: Newest first.
    """
    return tuple(_change(one, before) for one, before in zip_longest(versions, versions[1:]))


def _change(version: PipelineVersion, before: PipelineVersion | None) -> FileChange:
    lines = _diff(before.text, version.text) if before else ()
    added, removed = (sum(line.look == look for line in lines) for look in ("added", "removed"))
    words = f"{plural(added, 'line')} added, {removed:,} removed" if before else "the first version that the ledger has"
    return FileChange(number=version.number, run_id=version.run_id, since=version.since, words=words, lines=lines)


def _diff(before: str, after: str) -> tuple[DiffLine, ...]:
    found = difflib.unified_diff(before.split("\n"), after.split("\n"), n=AROUND, lineterm="")
    return tuple(DiffLine(look=_LOOKS[line[0]], text=line) for line in list(found)[2:])  # behind the names of the files
