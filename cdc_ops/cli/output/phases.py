"""What a run spent its time on, a line for each table."""

from typing import TYPE_CHECKING

from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import print_sentence
from cdc_ops.core.phases import PLANNING, phases_text, total_seconds

if TYPE_CHECKING:
    from cdc_ops.steps.runs.run import RunReport


def print_phases(report: "RunReport") -> None:
    """Shows the phases of each table that was worked on; an idle one has only been planned, and has no line."""
    for run in report.runs:
        phases = run.timing.phases
        if any(item.phase not in PLANNING for item in phases):
            text = f"{total_seconds(phases):,.1f} s: {phases_text(phases)}"
            print_sentence(render.out, text, name=str(run.table), colour="dim")
