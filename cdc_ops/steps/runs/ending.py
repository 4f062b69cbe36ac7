"""outcome: the last verb of a run. Puts right in the ledger what tasks that were killed, or failed at their very end, have left there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.errors import JobLostError
from cdc_ops.state.base import StateStore
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.context import Context
from cdc_ops.steps.runs.table_groups import record_failure


def take_back_events(store: StateStore, runs: Iterable[TableRun]) -> None:
    """Notes that no asset event has told of what was committed: Airflow drops the events of a task that fails.

    The range of the table's next event begins before these commits, as it does after a silent run.

    Args:
        store: The ledger.
        runs: Lines of tables whose commit task has failed.
    """
    for run in runs:
        if run.status is TableRunStatus.COMMITTED and not run.events.silent:
            store.record(replace(run, events=replace(run.events, silent=True)))


def end_unfinished(
    context: Context, request: RunRequest, configs: Iterable[TableConfig], runs: Mapping[str, TableRun], failed_tasks: Sequence[str]
) -> dict[str, TableRun]:
    """Records the tables of a run as failed that it has left without a line, or with one that has not ended.

    Args:
        context, request: The run, of which no task works any more.
        configs: Its tables.
        runs: Their lines in the run's record by name, as far as there are any.
        failed_tasks: Names of its tasks that failed.

    Returns:
        The lines of all tables by name.

    Raises:
        LedgerUnavailableError: the ledger does not answer.
    """
    left = [config for config in configs if str(config.table) not in runs or not runs[str(config.table)].status.has_ended]
    return {**runs, **{str(config.table): record_failure(context, request, config, _lost(config, failed_tasks)) for config in left}}


def unexplained_tasks(
    groups: Mapping[str, Sequence[Sequence[str]]], runs: Mapping[str, TableRun], failed_tasks: Iterable[str]
) -> list[str]:
    """Returns the failed tasks of which no failed table tells: copying binlogs, maintenance, and those of groups that came through.

    Args:
        groups: By the name of a group of tasks: for each of its numbers, in their order, the names of its tables.
        runs: The tables' lines in the run's record by name.
        failed_tasks: Names of tasks; that of a group ends in its number, such as `tables.sync_0`.
    """
    told = {
        (group, str(number))
        for group, numbers in groups.items()
        for number, names in enumerate(numbers)
        if any(name in runs and runs[name].status is TableRunStatus.FAILED for name in names)
    }
    parts = {name: name.rpartition("_") for name in failed_tasks}
    return [name for name, (step, _, number) in parts.items() if (step.partition(".")[0], number) not in told or step.endswith("maintain")]


def unexplained_text(tasks: Sequence[str]) -> str:
    """Returns what receivers are told of such tasks, in the form of an error's text; "" for none."""
    if not tasks:
        return ""
    return (
        f"Tasks of a run failed, and no failed table says why: {', '.join(tasks)}."
        "\n  data: What the tables' lines of the run say holds: what is committed stays, and watermarks stand where it ends."
        "\n  next: See the logs of these tasks in Airflow; the next run does what they did not."
    )


def _lost(config: TableConfig, failed_tasks: Sequence[str]) -> JobLostError:
    failed = f"Failed tasks: {', '.join(failed_tasks)}. " if failed_tasks else ""
    return JobLostError(
        f"The run ended without a result for {config.table}.",
        why=f"{failed}They were killed, ran out of time, or failed in a way that only their logs tell."
        if failed
        else "Its tasks came to no end.",
        data="What the run had planned is frozen in the ledger and is done once, whether the lake has it by now or not.",
        next="See the logs of these tasks in Airflow; the next run of the table goes on there.",
    )
