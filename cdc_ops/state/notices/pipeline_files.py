"""The pipeline files that runs have worked by, as the ledger keeps them for people: each change of a file is a version."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Final

KEPT: Final = 100
"""Versions of a pipeline that are kept, the newest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineVersion:
    """A pipeline file as it was from one run on.

    Args:
        pipeline: The pipeline.
        number: Of the version, from 1 on.
        text: The file, without comments and secrets.
        run_id: The first run that worked by it.
        since: When that run began, by the ledger's clock, UTC.
    """

    pipeline: str
    number: int
    text: str
    run_id: str
    since: datetime


class PipelineFileReader(ABC):
    """Reads the versions."""

    @abstractmethod
    def pipeline_versions(self, pipeline: str, *, limit: int = KEPT) -> tuple[PipelineVersion, ...]:
        """Returns the versions of a pipeline's file, the newest first; () for one that no run has worked by yet."""


class PipelineFileStore(PipelineFileReader):
    """Writes them. No lease is needed: nothing is decided by them."""

    @abstractmethod
    def note_pipeline_file(self, pipeline: str, text: str, run_id: str) -> None:
        """Notes the file that a run works by; a text that is the newest version's already changes nothing.

        Args:
            pipeline: The pipeline.
            text: The file, without comments and secrets.
            run_id: The run.
        """
