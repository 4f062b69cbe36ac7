"""What a run of the archiver has copied, or would copy: a line for each file."""

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rich.markup import escape

from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import Grid, Group, print_sentence, show_grid
from cdc_ops.core.text import size_text

if TYPE_CHECKING:
    from cdc_ops.steps.archive.copy_binlogs import CopyReport


def print_copies(report: "CopyReport", *, quiet: bool = False) -> None:
    """Shows what was copied, what is left, what is missing, and what somebody should know."""
    rows = [
        (escape(PurePosixPath(item.path).name), size_text(item.summary.size), size_text(item.stored_bytes), item.summary.end.value)
        for item in report.copied
    ]
    rows += [(escape(file.name), size_text(file.size), "", "not copied yet") for file in report.pending]
    if rows:
        title = f"Binlogs of {report.pipeline} in {report.folder}"
        show_grid(render.out, Grid(title=title, columns=("binlog", "size", "stored", "end"), groups=[Group(label="", rows=rows)]))
    print_sentence(render.out, _state(report), name=report.pipeline, colour="green")
    if not quiet:
        render.print_warnings(report.warnings)
    if report.gap:
        render.print_error(report.gap, as_json=False)


def _state(report: "CopyReport") -> str:
    what = (
        f"{_files(len(report.pending))} to copy"
        if report.pending
        else f"{_files(len(report.copied))} copied"
        if report.copied
        else "nothing new"
    )
    return f"{what}; the archive has {_files(report.archived)} of {report.server}, which writes {report.active}"


def _files(count: int) -> str:
    return "1 binlog" if count == 1 else f"{count:,} binlogs"
