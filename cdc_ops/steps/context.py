"""What every step needs: the pipeline, the ledger and a way to reach the source. No Spark here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.sources.base import Source
from cdc_ops.state.base import StateStore
from cdc_ops.state.table_run import TableRun, TableRunStatus

LEASE_TTL = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings of a run, handed to the Spark-free steps.

    Args:
        pipeline: What to keep equal.
        store: The ledger.
        connect: Opens a source; the caller closes it.
        lease_ttl: How long a lease lives without being renewed.
    """

    pipeline: Pipeline
    store: StateStore
    connect: Callable[[SourceConfig], Source]
    lease_ttl: timedelta = LEASE_TTL
    _listed: list[tuple[TableName, ...]] = field(default_factory=list, init=False, repr=False, compare=False)
    _committed: list[tuple[TableRun, ...]] = field(default_factory=list, init=False, repr=False, compare=False)
    _shown: set[TableName] = field(default_factory=set, init=False, repr=False, compare=False)

    def tables(self, source: Source) -> tuple[TableName, ...]:
        """Returns the tables that the pipeline's source has; it is asked once, however many tables of a run want to know.

        Raises:
            SourceError: it cannot be asked.
        """
        if not self._listed:
            self._listed.append(source.tables())
            self._shown.update(self._listed[0])
        return self._listed[0]

    def committed_runs(self) -> tuple[TableRun, ...]:
        """Returns the newest runs of the pipeline's tables that committed something; the ledger is asked once for all tables of a run."""
        if not self._committed:
            self._committed.append(self.store.table_runs(self.pipeline.name, status=TableRunStatus.COMMITTED))
        return self._committed[0]

    def shows(self, source: Source, table: TableName) -> bool:
        """True if the source has a table, or had it when it was asked for all of them; the answer is looked up, not asked for.

        Raises:
            SourceError: it cannot be asked.
        """
        self.tables(source)
        return table in self._shown
