"""The command on the rows of a table: show. It reads the lake and connects to no source."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_ops.cli.chosen.pipeline_names import OfTable, Table
from cdc_ops.cli.chosen.tables import place_of_table
from cdc_ops.cli.commands.pipelines import Folder, Json, app, guarded
from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.output.rows import print_rows
from cdc_ops.cli.output.verbosity import verbose_option
from cdc_ops.cli.session import LocalSpark
from cdc_ops.core.text import did_you_mean, plural, split_list
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from cdc_ops.lake.read.current import CurrentRows


@app.command()
@verbose_option
def show(  # noqa: PLR0913, PLR0917  a command line has as many parameters as it has options
    table: Table,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many rows, at most.", min=1)] = 20,
    columns: Annotated[
        str, typer.Option(metavar="COLUMNS", help="Only these columns, separated by commas. Default: those of the source.")
    ] = "",
    where: Annotated[
        list[str] | None,
        typer.Option("--where", "-w", metavar="COLUMN=VALUE", help="Only rows with this value; may be repeated. Times are in UTC."),
    ] = None,
    version: Annotated[int | None, typer.Option(metavar="NUMBER", help="Delta version. Default: the newest.", min=0)] = None,
    pipeline: OfTable = "",
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Show rows of a table in the lake, any that come first: no old versions, no deleted rows. Connects to no source, but starts Spark."""
    from cdc_ops.lake.read.current import find_current

    with guarded(as_json):
        chosen, path = place_of_table(folder, pipeline, table)
        found = find_current(path, version)
        names = [_stored(found, name) for name in filter(None, split_list(columns))] or list(found.columns)
        values = [_value(found, text) for text in where or ()]
        with progress(as_json), LocalSpark(chosen) as spark:
            from cdc_ops.lake.read.current import find_rows, json_texts, row_texts

            rows = find_rows(spark.session(), found, names, values).limit(limit)
            texts, lines = ([], json_texts(rows)) if as_json else (row_texts(rows), [])
    if as_json:
        _print_document(lines)
        return
    if texts:
        print_rows(render.out, names, texts)
    more = "; --limit shows more" if len(texts) == limit else ""
    count = plural(len(texts), "row") if texts else "no such row" if values else "no row"
    render.err.print(f"{table}: {count} of Delta version {found.version}{more}", highlight=False, soft_wrap=True, markup=False)


def _print_document(lines: Iterable[str]) -> None:
    """Prints rows that are JSON already as one document, with the digits that they have."""
    print("[" + ",".join(f"\n  {line}" for line in lines) + "\n]")


def _stored(found: "CurrentRows", name: str) -> str:
    """Returns a column's name as it is stored.

    Raises:
        RequestError: the table has no such column.
    """
    names = {stored.lower(): stored for stored, _ in found.stored}
    if name.lower() not in names:
        raise RequestError(
            f"The table has no column {name!r}.",
            why=did_you_mean(name, names.values()),
            data="Nothing was read.",
            next="'cdc-ops show' without --columns shows all columns of the source.",
        )
    return names[name.lower()]


def _value(found: "CurrentRows", text: str) -> tuple[str, str]:
    """Returns column and value of a condition.

    Raises:
        RequestError: it is none, or the table has no such column.
    """
    name, sign, value = text.partition("=")
    if not sign:
        raise RequestError(f"{text!r} is no condition.", data="Nothing was read.", next="Write it as --where id=4711.")
    return _stored(found, name.strip()), value
