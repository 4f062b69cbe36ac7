"""The tables of a run that have nothing new, found by one probe of the source and settled in the ledger together.

    free tables of the ledger -> heads of the lake -> plans without answers -> one probe -> plans again ... -> settled, if nothing happened

A table is planned by the same code as alone (`plan_new`), but its questions to the source wait for those of the other tables
(`cdc_ops.sources.sql.idle_probe`). What the search settles is what a run of the table alone would have written. In any doubt a table is
left: it is planned alone, under its lease, and so are all tables that have something new.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

from cdc_ops.core.maintenance import plan_maintenance
from cdc_ops.core.operation.protocol.ledger_and_lake import LedgerStatus, compare
from cdc_ops.core.operation.protocol.table_state import Phase
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.phases import PhaseSeconds, RunPhase, total_seconds
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError
from cdc_ops.lake.log.head import read_head
from cdc_ops.sources.base import Source
from cdc_ops.sources.sql.idle_probe import AnswerPending, IdleProbe, PlanAlone, open_idle_probe
from cdc_ops.state.base import FreeTable, IdleTable
from cdc_ops.state.table_run import RunTiming, TableRun
from cdc_ops.steps.context import Context
from cdc_ops.steps.plan import TablePlan, line_of_plan, observed_state, plan_new
from cdc_ops.steps.recover import TableHead
from cdc_ops.steps.reporting.stopwatch import measured, stopwatch
from cdc_ops.steps.runs.table_groups import GroupPlan, IfHeld, plan_group

FEWEST = 8
"""A run with fewer tables plans each of them alone: a probe takes as many statements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledIdle:
    """A table that the search has settled.

    Args:
        plan: Its plan, without operations.
        run: Its line in the ledger.
        warned_before: Warnings of the run before this one.
    """

    plan: TablePlan
    run: TableRun
    warned_before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedTables:
    """The tables of a run after the search.

    Args:
        idle: Tables that it has settled.
        rest: All others, to be planned alone.
    """

    idle: tuple[SettledIdle, ...] = ()
    rest: tuple[TableConfig, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """A table under the search."""

    config: TableConfig
    seen: FreeTable
    base: TableHead


def find_idle(context: Context, source: Source, request: RunRequest, configs: tuple[TableConfig, ...]) -> ProbedTables:
    """Finds the tables of a run without news, and settles them. It fails never: what it cannot do is left to the plans of single tables.

    Args:
        context, source, request: The run.
        configs: Its tables.
    """
    if request.kind is not RunKind.INCREMENT or len(configs) < FEWEST:
        return ProbedTables(rest=configs)
    settled: dict[TableName, SettledIdle] = {}
    with suppress(CdcError):  # the source or the ledger does not answer: the tables meet the same alone, and say so
        _IdleSearch(context=context, source=source, request=request).settle(configs, settled)
    rest = tuple(config for config in configs if config.table not in settled)
    return ProbedTables(idle=tuple(settled[config.table] for config in configs if config.table in settled), rest=rest)


def plan_tables(
    context: Context,
    source: Source,
    request: RunRequest,
    configs: tuple[TableConfig, ...],
    if_held: IfHeld = IfHeld.WAIT,
) -> GroupPlan:
    """Plans and freezes a group like `plan_group`, after one search of all of its tables for news."""
    found = find_idle(context, source, request, configs)
    alone = plan_group(context, source, request, found.rest, if_held)
    plans = {plan.table: plan for plan in (*(item.plan for item in found.idle), *alone.plans)}
    return replace(alone, plans=tuple(plans[config.table] for config in configs if config.table in plans))


@dataclass(slots=True, kw_only=True)
class _IdleSearch:
    """One search: see the top of this module for its steps."""

    context: Context
    source: Source
    request: RunRequest

    def settle(self, configs: tuple[TableConfig, ...], settled: dict[TableName, SettledIdle]) -> None:
        """Settles tables without news, and adds them to `settled`.

        Raises:
            CdcError: the source or the ledger does not answer.
        """
        store, started = self.context.store, self.context.store.now()
        with stopwatch() as watch, measured(RunPhase.PLAN):
            idle = self._idle(self._candidates(configs))
        if not idle:
            return
        share = PhaseSeconds(phase=RunPhase.PLAN, seconds=total_seconds(watch.phases) / len(configs))
        timing = RunTiming(started_at=started, phases=(share,))
        found = {item.config.table: (item, plan, line_of_plan(self.request, plan, plan.warnings, timing)) for item, plan in idle}
        lines = [IdleTable(seen=item.seen, new=observed_state(item.seen.state, plan), run=run) for item, plan, run in found.values()]
        names = store.settle_idle(self.context.pipeline.name, lines)
        for table in names:
            item, plan, run = found[table]
            before = item.seen.last_run.messages.warnings if item.seen.last_run else ()
            settled[table] = SettledIdle(plan=plan, run=run, warned_before=before)
        store.prune_idle(self.context.pipeline.name, names, started - self.context.pipeline.runs.run_retention)

    def _candidates(self, configs: tuple[TableConfig, ...]) -> list[_Candidate]:
        """Returns the tables of which a probe may be enough: nothing open, nobody's, nothing due, and as the lake has them."""
        store, names = self.context.store, [config.table for config in configs]
        free = {table.state.table: table for table in store.free_tables(self.context.pipeline.name, names)}
        now = store.now()
        found = []
        for config in configs:
            seen = free.get(config.table)
            if seen is None or not self._is_plain(config, seen):
                continue
            if plan_maintenance(config.settings.storage.maintenance, seen.stats, now).due:
                continue
            try:
                head = read_head(config.path, config.pipeline, config.table)
                equal = compare(seen.state, head) is LedgerStatus.EQUAL
            except CdcError:
                continue
            if equal and (head is None or head.exact_bounds or not config.settings.storage.maintenance.enabled):
                found.append(_Candidate(config=config, seen=seen, base=TableHead(state=seen.state, head=head)))
        return found

    def _is_plain(self, config: TableConfig, seen: FreeTable) -> bool:
        """True for a table that is read by a cursor, is past its snapshot, and was met by no other try of this run."""
        follows = config.settings.method is Method.QUERY and bool(config.settings.load.cursor) and seen.state.phase is Phase.READY
        again = seen.last_run is not None and seen.last_run.run_id == self.request.run_id
        return follows and not again and seen.state.missing_since is None and self.context.shows(self.source, config.table)

    def _idle(self, candidates: list[_Candidate]) -> list[tuple[_Candidate, TablePlan]]:
        """Plans the tables until all of their questions are answered, and returns those without news."""
        if len(candidates) < FEWEST:
            return []
        probe = open_idle_probe(self.source, tuple(item.config.table for item in candidates))
        if probe is None:
            return []
        try:
            return self._answered(probe, candidates)
        finally:
            probe.close()

    def _answered(self, probe: IdleProbe, candidates: list[_Candidate]) -> list[tuple[_Candidate, TablePlan]]:
        idle: list[tuple[_Candidate, TablePlan]] = []
        while candidates:
            waiting = []
            for item in candidates:
                try:
                    plan = plan_new(self.context, probe.source, self.request, item.config, item.base)
                except AnswerPending:
                    waiting.append(item)
                    continue
                except (PlanAlone, CdcError):
                    continue
                if _is_idle(plan):
                    idle.append((item, plan))
            probe.ask()
            candidates = waiting
        return idle


def _is_idle(plan: TablePlan) -> bool:
    """True for a plan of which nothing is to be kept but that the table was searched."""
    new = plan.new
    return not plan.operations and not plan.schema_changes and new.bound is not None and new.scan is None and new.error is None
