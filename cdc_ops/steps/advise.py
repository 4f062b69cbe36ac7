"""advise: what a table's files are like, which layout would pay, what maintenance would do now. Reads ledger, log and source; no Spark."""

from dataclasses import dataclass

from cdc_ops.core.layout.advice import Advice, LayoutFacts, Profile, layout_advice, profile
from cdc_ops.core.layout.compaction import Rewrite
from cdc_ops.core.maintenance import Maintenance, MaintenancePlan, choose_files, plan_maintenance
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.type_widening import canonical_type
from cdc_ops.errors import RequestError
from cdc_ops.lake.log.data_files import partitioning, read_files
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.sources.base import Source
from cdc_ops.steps.context import Context
from cdc_ops.steps.table.source_table import read_source_table


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAdvice:
    """What is said of one table.

    Args:
        table: Its name.
        path: Its Delta table.
        version: The Delta version that was looked at.
        profile: What its files are like.
        advice: Which layout would pay.
        rewrites: The statements that maintenance would find worth it now, whether they are due or not.
        due: What of maintenance is due now, one sentence each; () = nothing.
        last_upkeep: What maintenance did last, None if there was none.
        upkeep_bytes: Bytes that all maintenance has written.
    """

    table: str
    path: str
    version: int
    profile: Profile
    advice: tuple[Advice, ...]
    rewrites: tuple[Rewrite, ...]
    due: tuple[str, ...]
    last_upkeep: Maintenance | None
    upkeep_bytes: int


def advise(context: Context, source: Source, config: TableConfig) -> TableAdvice:
    """Returns advice about a table. Nothing is written.

    Raises:
        RequestError: it has no Delta table yet.
        CdcError: the source's table cannot be read as its settings say.
    """
    log = DeltaLog(config.path)
    version = log.newest()
    if version is None:
        raise RequestError(
            f"Table {config.table} has no Delta table at {config.path} yet.", data="Nothing was read.", next="Run 'cdc-ops run' first."
        )
    found = read_source_table(context.pipeline, source, config)
    columns = {column.name.lower(): canonical_type(column.delta_type) for column in found.schema.columns}
    keys = tuple((key, columns.get(key.lower(), "")) for key in found.keys)
    divided, files = partitioning(log, version), read_files(log, version, [key for key, _ in keys[:1]])
    policy, stats = config.settings.storage.maintenance, context.store.stats(config.pipeline, config.table)
    due = plan_maintenance(policy, stats, context.store.now())
    last = stats.upkeep.last_upkeep if stats else None
    worth = choose_files(MaintenancePlan(optimize=True, reasons=("",)), policy, files, divided, last)
    due = choose_files(due, policy, files, divided, last) if due.optimize else due
    shape = profile(files, policy.limits(sum(file.size for file in files)).small_bytes)
    facts = LayoutFacts(
        keys=keys,
        dates=tuple(column.name for column in found.schema.columns if columns[column.name.lower()] == "date"),
        cluster_by=divided.cluster_by,
        partition_by=tuple(name for name, _ in divided.partition_by),
    )
    return TableAdvice(
        table=str(config.table),
        path=config.path,
        version=version,
        profile=shape,
        advice=layout_advice(shape, facts),
        rewrites=worth.rewrites,
        due=due.reasons if due.due else (),
        last_upkeep=last,
        upkeep_bytes=stats.upkeep.upkeep_bytes if stats else 0,
    )
