"""Jobs: what one Spark application is given to do, and what it answers; JSON on both ways (core.json_codec)."""

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_ops.core.events.event_history import EventHistory
from cdc_ops.core.maintenance import MaintenancePlan, TableStats
from cdc_ops.core.operation.catalog_entry import CatalogEntry, CatalogResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import OperationResult
from cdc_ops.core.phases import Phases
from cdc_ops.core.pipeline.pipeline import SourceConfig, SparkConfig
from cdc_ops.core.pipeline.tables.unknown_tables import KnownTables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, from_payload

PARALLEL_TABLES: Final = 4
"""Tables of a group that run at the same time in one application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableResult:
    """What a Spark application did with one table; `error` is a `CdcError.to_payload` and `retryable` its kind.

    `phases` are what the time went to, that of an operation which failed included. `catalog` says how its registration in Spark's catalog
    ended, None if nothing had to be registered.
    """

    table: TableName
    operations: tuple[OperationResult, ...] = ()
    maintenance: TableStats | None = None
    error: dict[str, str] | None = None
    retryable: bool = False
    phases: Phases = ()
    catalog: CatalogResult | None = None


class Step(enum.StrEnum):
    """The Spark steps; each has its entry point in spark_jobs/."""

    EXTRACT = "extract"
    MERGE = "merge"
    SYNC = "sync"
    MAINTAIN = "maintain"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceTask:
    """Maintenance of one table; with its VACUUM that of its event history, if it has one."""

    table: TableName
    path: str
    plan: MaintenancePlan
    stats: TableStats
    history: EventHistory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What one Spark application has to do: a step for a group of tables.

    Args:
        step: What to do.
        pipeline, run_id: For names and logs.
        source: Kind and connection *name*; the job finds the URL in its environment.
        operations: In the order to be executed; several of one table stand in op_seq order, and a failed one ends its table.
        maintenance: For the step `maintain`.
        result_path: Where the `StepResult` goes.
        package_version: The writer's version; a job of another version refuses.
        known: Which tables the pipeline file speaks of now, for those that read archives.
        small: Whether starting a JVM costs more than the work (`core.operation.job_size`); in doubt it is not.
        spark: The server to work on and the settings there. None = Spark as spark-submit, or whoever runs the job, has started it.
        catalog: Tables that have a name in Spark's catalog.
    """

    step: Step
    pipeline: str
    run_id: str
    source: SourceConfig
    operations: tuple[Operation, ...]
    result_path: str
    package_version: str
    maintenance: tuple[MaintenanceTask, ...] = ()
    known: KnownTables | None = None
    small: bool = False
    spark: SparkConfig | None = None
    catalog: tuple[CatalogEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What one Spark application did, table by table.

    `phases` are what it did once for all of them, `seconds` its work on them, and `spark_application` its id.
    """

    step: Step
    run_id: str
    tables: tuple[TableResult, ...]
    started_at: datetime
    finished_at: datetime
    phases: Phases = ()
    seconds: float = 0.0
    spark_application: str = ""

    @property
    def errors(self) -> dict[str, CdcError]:
        """The errors of the tables that failed, by the tables' names."""
        return {str(table.table): from_payload(table.error) for table in self.tables if table.error is not None}
