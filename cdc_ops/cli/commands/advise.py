"""The command about the layout of a table: advise. It reads ledger, Delta log and the source's schema, without Spark."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.markup import escape

from cdc_ops.cli.chosen.pipeline_names import OfTable, Table
from cdc_ops.cli.chosen.tables import place_of_table
from cdc_ops.cli.commands.pipelines import Folder, Json, app, guarded
from cdc_ops.cli.output import render
from cdc_ops.cli.session import opened
from cdc_ops.core import json_codec
from cdc_ops.core.text import minute_text, size_text

if TYPE_CHECKING:
    from cdc_ops.steps.advise import TableAdvice


@app.command()
def advise(
    table: Table,
    pipeline: OfTable = "",
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Show what a table's files are like, which layout would pay, and what maintenance would do now; with the setting to write."""
    from cdc_ops.core.pipeline.pipeline import TableConfig, current_settings
    from cdc_ops.core.schema.tables import TableName
    from cdc_ops.steps.advise import advise as advise_table

    with guarded(as_json):
        chosen, path = place_of_table(folder, pipeline, table)
        name = TableName.parse(table)
        settings = current_settings(chosen, name)
        assert settings is not None  # place_of_table has found it
        with opened(chosen) as (context, source):
            found = advise_table(context, source, TableConfig(pipeline=chosen.name, table=name, path=path, settings=settings))
    if as_json:
        render.print_json(json_codec.to_data(found))
        return
    for line in _lines(found):
        render.out.print(escape(line), highlight=False, soft_wrap=True)


def _lines(found: "TableAdvice") -> Iterator[str]:
    shape = found.profile
    yield f"{found.table}, Delta version {found.version}: {shape.files:,} files, {size_text(shape.bytes)}"
    yield f"  small files      {shape.small_files:,}, {size_text(shape.small_bytes)}"
    rows = f"{shape.deleted_rows:,}" + (f" of {shape.rows:,} ({shape.deleted_share:.1%})" if shape.rows else "")
    yield f"  deleted rows     {rows}, in {shape.vector_files:,} files"
    yield f"  a key lies in    {'unknown: no statistics' if shape.depth is None else f'{shape.depth:.1f} of {shape.files:,} files'}"
    yield "Layout:"
    for one in found.advice:
        yield f"  {one.text}"
        if one.setting:
            yield f"    {one.setting}"
    yield "Maintenance:"
    for rewrite in found.rewrites:
        yield f"  would write again {rewrite.words}; about {size_text(rewrite.live_bytes)} written"
    if not found.rewrites:
        yield "  no file is worth to be written again"
    yield f"  due now: {'; '.join(found.due) or 'nothing'}"
    if last := found.last_upkeep:
        yield f"  last, {minute_text(last.at)}: {last.words}; {size_text(found.upkeep_bytes)} written in all"
