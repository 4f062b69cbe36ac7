"""How a run of a pipeline has ended, from the lines of its tables and the states of its tasks."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from cdc_ops.airflow.task_context import APPROVED, ASK, TaskContext
from cdc_ops.core.operation.job import Step
from cdc_ops.state.table_run import TableRun
from cdc_ops.steps.approvals import refusal_of, refused_text


def asked_again(context: Any) -> list[list[str]]:
    """Returns the tables that the run has asked a person about, each as a group of one; empty where it asks nobody."""
    return context["ti"].xcom_pull(task_ids=ASK) or []


def refused_before(here: TaskContext, runs: Mapping[str, TableRun]) -> dict[str, str]:
    """Returns the tables that a person has refused to let go on, in an earlier run and for the same reason, with what is to be said."""
    found = {name: refusal_of(here.context, here.request, line) for name, line in runs.items()}
    return {name: refused_text(refusal) for name, refusal in found.items() if refusal is not None}


def still_broken(
    failed_tasks: Sequence[str],
    mapped: Mapping[str, Sequence[Sequence[str]]],
    runs: Mapping[str, TableRun],
    refused: Container[str] = (),
) -> list[str]:
    """Returns the failed tasks of a run without those that were made good: a refused table of theirs was let through, and all came through.

    Args:
        failed_tasks: Names of tasks; that of a group ends in its number, such as `tables.sync_0`.
        mapped: By the name of a group of tasks: for each of its numbers, in their order, the names of its tables.
        runs: The tables' lines in the run's record by name.
        refused: Tables that somebody has refused to let go on, in an earlier run: they are as good as they can be.
    """
    again = {name for part in mapped[APPROVED] for name in part}
    good = {
        f"tables.{step}_{number}"
        for number, names in enumerate(mapped["tables"])
        if any(name in again or name in refused for name in names)
        and all(name in refused or (name in runs and runs[name].status.is_good) for name in names)
        for step in ("plan", Step.EXTRACT, Step.MERGE, Step.SYNC)
    }
    return [name for name in failed_tasks if name not in good]


def line_of(run: TableRun) -> str:
    """Returns one line on how a table fared."""
    counts, message = run.result.counts, run.messages.message
    rows = f", {counts.read:,} rows read" if counts.read else ""
    version = f", Delta version {run.result.delta_version}" if run.result.delta_version is not None else ""
    first = f": {message.splitlines()[0]}" if message else ""
    return f"{run.table}: {run.status} ({run.kind}{rows}{version}){first}"


def verdict_of(names: Sequence[str], runs: dict[str, TableRun], broken: Sequence[str]) -> str:
    """Returns why a run has failed, "" if it has not.

    Args:
        names: The tables of the run.
        runs: Their lines in the run's record, as far as there are any.
        broken: Tasks that failed.
    """
    wrong = [name for name in names if name not in runs or not runs[name].status.is_good]
    waiting = [name for name in names if name in runs and name not in wrong and runs[name].waits_for_somebody]
    lines = [f"{len(wrong)} table{'s' if len(wrong) != 1 else ''} failed."] if wrong else []
    lines += [f"- {line_of(runs[name]) if name in runs else f'{name}: not looked at'}" for name in wrong]
    lines += [f"Waiting at a gap in the archive, with all earlier events merged: {', '.join(waiting)}."] if waiting else []
    lines += [f"Failed tasks: {', '.join(broken)}; see their logs."] if broken else []
    alerts = [f"{name}: {run.messages.alert}" for name, run in sorted(runs.items()) if run.messages.alert]
    return "\n".join((*lines, *alerts)) if lines else ""
