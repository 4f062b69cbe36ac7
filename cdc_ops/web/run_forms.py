"""The runs that somebody can ask for of a table: what each does, what it costs, and what its form sends to Airflow. Pure.

A form asks Airflow for a run by its public API, as the visitor: Airflow decides whether they may, and remembers who it was. The page itself
writes nothing.
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cdc_ops.core.archive.completeness import GapRecord, GapStatus
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.text import plural
from cdc_ops.state.base import TableOverview
from cdc_ops.state.table_run import TableRun
from cdc_ops.web.words import instant, size, took

_READS_ALL: Final = (OperationKind.RESYNC, OperationKind.SNAPSHOT_CHUNK)
_COMPARES: Final = (OperationKind.RECONCILE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Something that a form can add.

    Args:
        name: Of the run's configuration; it becomes true.
        label: What it does.
    """

    name: str
    label: str


_DRY_RUN: Final = Switch(name="dry_run", label="Only say what would be done, in the log of the task discover; nothing is written")
_ACCEPT_COST: Final = Switch(name="accept_cost", label="Run although the estimate is above the table's max_cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForm:
    """A run that somebody can ask for.

    Args:
        name: The place of its form on the page.
        title: What it does.
        explanation: The same in a sentence.
        happens: What will happen, step by step.
        cost: What it reads and how long it takes, as far as the ledger knows.
        command: The same on the command line.
        conf: The run's configuration; empty where only the command line can do it.
        confirm: What somebody says who sends the form.
        switches: What they can add.
        asks_why: They have to give a reason.
    """

    name: str
    title: str
    explanation: str
    happens: tuple[str, ...]
    cost: str
    command: str
    conf: Mapping[str, Any] = field(default_factory=dict)
    confirm: str = ""
    switches: tuple[Switch, ...] = ()
    asks_why: bool = False

    @property
    def conf_text(self) -> str:
        """The configuration as JSON, "" without one."""
        return json.dumps(self.conf) if self.conf else ""


def run_forms(
    table: TableOverview, runs: Sequence[TableRun], gaps: Iterable[GapRecord] = (), *, has_database: bool = True
) -> tuple[RunForm, ...]:
    """Returns what can be asked for of a table, filled in.

    Args:
        table: Which.
        runs: Its runs, newest first.
        gaps: Of its archive; those that are open can be accepted.
        has_database: False if the table has an archive alone: its rows can neither be read again nor compared.
    """
    pipeline, name = table.state.pipeline, str(table.state.table)
    which = f"--pipeline {shlex.quote(pipeline)} --table {shlex.quote(name)}"
    accepted = tuple(_accept(one, name, which) for one in gaps if one.status is GapStatus.OPEN)
    if not has_database:
        return accepted
    return (*accepted, _resync(table, runs, name, which), _reconcile(table, runs, name, which), _verify(table, runs, name, which))


def _accept(gap: GapRecord, name: str, which: str) -> RunForm:
    return RunForm(
        name=f"gap-{gap.gap_id}",
        title="Accept the gap",
        explanation=f"The events of {gap.gap} are lost, and the run goes on behind them.",
        happens=(
            f"The ledger notes that the loss of the events of {gap.gap} is accepted for {name}, by whom and why.",
            "The run goes on behind the gap. What changed in between is missing in the lake, and rows that were deleted stay in it.",
            "It cannot be taken back. A resync or a comparison with the source brings the table right again, where there is a database.",
        ),
        cost="What an ordinary run over the events behind the gap costs.",
        command=f"cdc-ops gap accept {shlex.quote(gap.gap_id)} {which} --why 'the reason, which the ledger keeps'",
        conf={"tables": [name], "accept_gaps": [gap.gap_id]},
        confirm="These events are given up",
        asks_why=True,
    )


def _resync(table: TableOverview, runs: Sequence[TableRun], name: str, which: str) -> RunForm:
    return RunForm(
        name="resync",
        title="Resync",
        explanation="Reads all rows again. The watermark stays.",
        happens=(
            f"A run reads all rows of {name} at the source and puts them in the place of those in the lake, in one commit.",
            "Rows that the source no longer has go with it, unless the table keeps deleted rows. Until then readers see the old rows.",
            "The watermark stays; the next scheduled run goes on from it.",
        ),
        cost=_cost(table, runs, _READS_ALL, "The source sends the whole table."),
        command=f"cdc-ops resync {which} --mode full",
        conf={"mode": "full", "tables": [name]},
        confirm=f"Read all rows of {name} again",
        switches=(_DRY_RUN, _ACCEPT_COST),
    )


def _reconcile(table: TableOverview, runs: Sequence[TableRun], name: str, which: str) -> RunForm:
    return RunForm(
        name="reconcile",
        title="Verify and repair",
        explanation="Compares by checksums, copies rows that differ, and deletes rows that the source lacks.",
        happens=(
            f"A run compares {name} with the source by checksums of groups of rows, and reads only the groups that differ.",
            "Rows that differ are copied, and rows that the source lacks are deleted. If these are more than the table's limits allow,"
            " nothing is deleted and the run fails.",
            "If nothing differs, nothing is written. The watermark stays.",
        ),
        cost=_cost(table, runs, _COMPARES, "Source and lake each read the table once and send checksums, not rows."),
        command=f"cdc-ops reconcile {which}",
        conf={"mode": "reconcile", "tables": [name]},
        confirm=f"Compare {name}, and correct what differs",
        switches=(_DRY_RUN, _ACCEPT_COST),
    )


def _verify(table: TableOverview, runs: Sequence[TableRun], name: str, which: str) -> RunForm:
    return RunForm(
        name="verify",
        title="Verify only",
        explanation="Compares source and lake and changes nothing.",
        happens=(
            f"The command compares {name} with the source by checksums, and shows the keys of rows that differ.",
            "It changes nothing. Airflow has no run for it: its runs repair what they find.",
        ),
        cost=_cost(table, runs, _COMPARES, "Source and lake each read the table once and send checksums, not rows."),
        command=f"cdc-ops verify {which}",
    )


def _cost(table: TableOverview, runs: Sequence[TableRun], kinds: Iterable[OperationKind], what: str) -> str:
    """Returns what a run reads: how large the table is, and how long the last run of the kind took."""
    stats = table.stats
    rows = f"{stats.rows - stats.deleted_rows:,} rows, " if stats and stats.rows is not None else ""
    known = f" The Delta table has {rows}{size(stats.size_bytes)} in {plural(stats.files, 'file')}." if stats else ""
    last = next((run for run in runs if run.kind in kinds and run.status.is_good), None)
    before = f" The last such run, {instant(last.timing.started_at)}, took {took(last)}." if last else ""
    return f"{what}{known}{before}"
