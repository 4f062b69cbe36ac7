"""`cdc-ops run --limit`: reads the first rows of tables into a folder of their own, and shows how they would be stored."""

import logging
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from cdc_ops.cli.chosen.tables import free_folder
from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.session import LocalSpark, chosen_pipelines, connect
from cdc_ops.core import json_codec
from cdc_ops.errors import CdcError

if TYPE_CHECKING:
    from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
    from cdc_ops.steps.trial import TriedTable

logger = logging.getLogger("cdc_ops.cli")

WIDE = 120
"""Columns of a terminal from which on values of three rows are shown, and not of one."""

_LONGEST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a trial showed, and the tables that a run would refuse."""

    folder: str
    tables: "list[TriedTable]" = field(default_factory=list)
    refused: dict[str, CdcError] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Returns it as JSON data."""
        refused = [{"table": name, "retryable": error.retryable, **error.to_payload()} for name, error in self.refused.items()]
        return {"folder": self.folder, "tables": [json_codec.to_data(tried) for tried in self.tables], "refused": refused}


def try_pipelines(folder: Path | None, names: list[str], tables: tuple[str, ...], limit: int, into: str, quiet: bool) -> Trial:
    """Reads the first rows of the tables of some pipelines.

    Args:
        folder, names: Which pipelines.
        tables: Which of their tables, all if none is named.
        limit: Rows of a table.
        into: A folder that is not there; "" = one below the system's folder for temporary files.
        quiet: Say nothing meanwhile.

    Raises:
        CdcError: no table can be looked at.
    """
    chosen = chosen_pipelines(folder, names)
    trial = Trial(folder=free_folder(into) or tempfile.mkdtemp(prefix="cdc-ops-trial-"))
    for pipeline in chosen:
        with progress(quiet), closing(connect(pipeline.source)) as source, LocalSpark(pipeline) as spark:
            from cdc_ops.steps.trial import try_table

            for config in _configs(pipeline, source.tables(), tables, trial):
                logger.info(f"{config.table}: reads at most {limit:,} rows")
                try:
                    place = f"{trial.folder.rstrip('/')}/{pipeline.name}"
                    trial.tables.append(try_table(spark.session(), pipeline, source, config, limit, place))
                except CdcError as error:
                    trial.refused[str(config.table)] = error
    if not trial.tables and not into:
        Path(trial.folder).rmdir()
    return trial


def _configs(pipeline: "Pipeline", there: Any, tables: tuple[str, ...], trial: Trial) -> "tuple[TableConfig, ...]":
    from cdc_ops.core.pipeline.tables.table_selection import select_tables
    from cdc_ops.steps.table.entries import matched_entries

    configs, wrong = matched_entries(pipeline, there)
    trial.refused.update((name, error) for name, error in wrong if not tables or name in tables)
    known = tuple(name for name in tables if name not in trial.refused)
    return select_tables(configs, known) if known or not tables else ()


def print_trial(trial: Trial) -> None:
    """Shows each table: its columns, their types and first values; what a run would refuse; and where the rows are."""
    for tried in trial.tables:
        _print_table(tried)
    for name, error in trial.refused.items():
        render.err.print(f"[red]refused[/] {escape(name)}", soft_wrap=True, highlight=False)
        render.print_error(error, as_json=False)
    if trial.tables:
        folder = escape(trial.folder)
        text = f"The rows are Delta tables in {folder}; ledger, lake and staging were not touched. Remove them: rm -r {folder}"
        render.out.print(text, soft_wrap=True, highlight=False)


def _print_table(tried: "TriedTable") -> None:
    from cdc_ops.steps.reporting.progress_lines import rows_text

    how = f"key {', '.join(tried.keys) or 'none'}, cursor {', '.join(tried.cursor) or 'none'}"
    title = f"{tried.table}: {tried.rows:,} of about {rows_text(tried.rows_at_source)} rows, {how}"
    shown = 3 if render.out.width >= WIDE else 1
    table = Table(title=escape(title), title_justify="left", header_style="bold")
    for header in ("column", "at the source", "stored as", *(f"row {number}" for number in range(1, min(shown, tried.rows) + 1))):
        table.add_column(header, overflow="fold")
    for column in tried.columns:
        values = ("[dim]NULL[/]" if value is None else escape(_short(value)) for value in column.values[:shown])
        table.add_row(escape(column.name), escape(column.source_type), escape(column.stored_as), *values)
    render.out.print(table)
    for remark in tried.remarks:
        render.out.print(f"[yellow]{escape(tried.table)}[/] {escape(remark)}", soft_wrap=True, highlight=False)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
