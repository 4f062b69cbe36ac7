"""What a shell completes: names of pipelines and tables, from the pipeline files alone. No database is asked, and no error is shown."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cdc_ops.errors import CdcError

if TYPE_CHECKING:
    from cdc_ops.core.pipeline.pipeline import Pipeline


def complete_pipelines(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the pipelines whose names begin so."""
    return [pipeline.name for pipeline in _pipelines(ctx) if pipeline.name.startswith(incomplete)]


def complete_tables(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the tables whose names begin so, of the pipelines that the command line names so far; those of patterns are not known."""
    given, option = ctx.params.get("given"), ctx.params.get("pipeline")
    words = {*ctx.args, *((given,) if isinstance(given, str) else given or ()), *((option,) if isinstance(option, str) else option or ())}
    known = list(_pipelines(ctx))
    chosen = [pipeline for pipeline in known if pipeline.name in words] or known
    entries = (entry for pipeline in chosen for entry in pipeline.tables if not (entry.exclude or entry.is_pattern))
    return sorted({entry.pattern for entry in entries if entry.pattern.startswith(incomplete)})


def _pipelines(ctx: typer.Context) -> "Iterator[Pipeline]":
    """Yields the pipelines that load; a file that is wrong is left to the command."""
    from cdc_ops.cli.environment import use_env_file
    from cdc_ops.config.loading import read_folder
    from cdc_ops.config.settings import load_settings

    with suppress(CdcError):
        use_env_file()
        yield from read_folder(Path(ctx.params.get("folder") or load_settings(os.environ).pipelines)).pipelines
