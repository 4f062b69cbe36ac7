"""Commands on records of archives that could not be read: quarantine list, show and replay. The first two connect to no source."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cdc_ops.cli.chosen.pipeline_names import Names, One, Tables, one_name, pipeline_argument, tables_option
from cdc_ops.cli.commands.pipelines import Folder, Json, Quiet, app, guarded, run_all
from cdc_ops.cli.help_format import WHICH_COMMAND, Application
from cdc_ops.cli.output import render
from cdc_ops.cli.output.verbosity import verbose_option
from cdc_ops.cli.session import chosen_pipelines, new_request
from cdc_ops.core.operation.run_request import Accepts, ResyncMode, RunKind
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from cdc_ops.core.pipeline.pipeline import Pipeline
    from cdc_ops.core.schema.tables import TableName
    from cdc_ops.lake.quarantine.read import QuarantinedRecord

quarantine_app = Application(help="The quarantine: records of archives that cdc-ops could not read.")
app.add_typer(quarantine_app, name="quarantine")


@quarantine_app.command("list")
@pipeline_argument
def list_records(pipeline: Names = None, table: Tables = None, folder: Folder = None, as_json: Json = False) -> None:
    """List the records: file, line, and why each could not be read."""
    with guarded(as_json):
        records = [item for chosen in chosen_pipelines(folder, pipeline or []) for item in _records(chosen, table or [])]
    if as_json:
        render.print_json([_data(*item) for item in records])
        return
    if not records:
        render.out.print("The quarantine holds no records.")
    for chosen, name, record in records:
        text = f"{chosen.name}  {name}  operation {record.op_seq}  {record.file} line {record.line + 1}: {record.reason}"
        render.out.print(escape(text), highlight=False, soft_wrap=True)


@quarantine_app.command("show")
def show(
    file: Annotated[str, typer.Argument(help="The file, as 'quarantine list' names it.")],
    pipeline: One = "",
    line: Annotated[int, typer.Option(help="The line, counted from 1. 0 = all quarantined lines of the file.")] = 0,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Show records exactly as they are in the archive."""
    with guarded(as_json):
        [chosen] = chosen_pipelines(folder, [one_name(folder, pipeline)])
        wanted = [item for item in _records(chosen, []) if item[2].file == file and line in (0, item[2].line + 1)]
        if not wanted:
            raise RequestError(
                f"The quarantine of pipeline {chosen.name!r} has no record of {file}.",
                data="Nothing was changed.",
                next="Take file and line from 'cdc-ops quarantine list'.",
            )
    if as_json:
        render.print_json([_data(*item) for item in wanted])
        return
    for _, name, record in wanted:
        head = f"{name}  line {record.line + 1}, set aside {record.set_aside_at:%Y-%m-%d %H:%M:%S} UTC by run {record.run_id}"
        render.out.print(escape(f"{head}: {record.reason}"), highlight=False, soft_wrap=True)
        render.out.print(escape(record.raw.decode("utf-8", "backslashreplace")), highlight=False, soft_wrap=True)


@quarantine_app.command("replay", epilog=WHICH_COMMAND)
@verbose_option
@pipeline_argument
def replay(
    pipeline: One = "",
    table: Annotated[list[str] | None, tables_option("all that have quarantined records")] = None,
    folder: Folder = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read quarantined records again with today's settings and merge them in order. Records that still cannot be read stay."""
    with guarded(as_json):
        [chosen] = chosen_pipelines(folder, [one_name(folder, pipeline)])
        names = tuple(dict.fromkeys(str(name) for _, name, _ in _records(chosen, table or [])))
        if not names:
            of_tables = f" of {', '.join(table)}" if table else ""
            raise RequestError(
                f"The quarantine of pipeline {chosen.name!r} has no record{of_tables}.",
                data="Nothing was read or written.",
                next="Nothing to do. 'cdc-ops quarantine list' shows the records of all pipelines.",
            )
        request = new_request(kind=RunKind.RESYNC, mode=ResyncMode.QUARANTINE, tables=names, accepts=Accepts(cost=True))
        run_all(folder, [chosen.name], request, as_json, quiet)


def _records(pipeline: "Pipeline", tables: list[str]) -> "Iterator[tuple[Pipeline, TableName, QuarantinedRecord]]":
    from cdc_ops.core.pipeline.tables.paths import quarantine_path, quarantine_root
    from cdc_ops.lake.quarantine.read import quarantined_tables, read_quarantine

    for name in quarantined_tables(quarantine_root(pipeline)):
        if not tables or str(name) in tables:
            for record in read_quarantine(quarantine_path(pipeline, name)):
                yield pipeline, name, record


def _data(pipeline: "Pipeline", table: "TableName", record: "QuarantinedRecord") -> dict[str, object]:
    return {
        "pipeline": pipeline.name,
        "table": str(table),
        "operation": record.op_seq,
        "run": record.run_id,
        "file": record.file,
        "line": record.line + 1,
        "position": record.position,
        "reason": record.reason,
        "raw": record.raw.decode("utf-8", "backslashreplace"),
        "set_aside_at": record.set_aside_at.isoformat(),
    }
