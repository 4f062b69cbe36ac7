"""What the commands on one Delta table share: finding it by its name, and writing rows somewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_ops.cli.session import chosen_pipelines
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_ops.core.pipeline.pipeline import Pipeline
    from cdc_ops.core.schema.tables import TableName


def parse_table(text: str) -> "TableName":
    """Returns a table by the name that somebody has typed.

    Raises:
        RequestError: it is not of the form schema.table.
    """
    from cdc_ops.core.schema.tables import TableName

    try:
        return TableName.parse(text)
    except ValueError as error:
        what = f"{text!r} is not the name of a table."
        raise RequestError(what, why=str(error), data="Nothing was changed.", next="Write it as 'cdc-ops status' shows it.") from error


def place_of_table(folder: Path | None, pipeline: str, table: str) -> "tuple[Pipeline, str]":
    """Returns the pipeline that writes a table, and the path of its Delta table.

    Raises:
        RequestError: none does, or more than one and none is named; or it is not the name of a table.
    """
    from cdc_ops.core.pipeline.pipeline import current_settings, table_path

    name = parse_table(table)
    places = []
    pipelines = chosen_pipelines(folder, [pipeline] if pipeline else [])
    for chosen in pipelines:
        settings = current_settings(chosen, name)
        if settings is not None:
            places.append((chosen, table_path(chosen, name, settings)))
    if len(places) != 1:
        named = {rule.pattern for one in pipelines for rule in one.tables if not (rule.is_pattern or rule.exclude)}
        raise RequestError(
            f"{'No' if not places else 'More than one'} pipeline has the table {table}.",
            why=f"Pipelines are {', '.join(chosen.name for chosen, _ in places)}." if places else did_you_mean(table, named),
            data="Nothing was read.",
            next="Name one with --pipeline." if places else "'cdc-ops status' shows the tables.",
        )
    return places[0]


def free_folder(target: str) -> str:
    """Returns a folder to write to, "" if none is named.

    Raises:
        RequestError: something is there.
    """
    from cdc_ops.lake.file_io import open_filesystem

    if target:
        filesystem, inner = open_filesystem(target)
        if filesystem.exists(inner):
            raise RequestError(f"{target} already exists.", data="Nothing was read or written.", next="Choose another folder.")
    return target


def write_rows(rows: "DataFrame", target: str, *, kind: str) -> None:
    """Writes rows to a folder.

    Args:
        rows: The rows.
        target: The folder; "" = JSON lines to standard output.
        kind: `json`, `parquet` or `delta`.

    Raises:
        EnvironmentSetupError: Spark has no file system for such a URL.
    """
    from pyspark.sql import functions as F

    from cdc_ops.lake.spark.expressions import EXACT_JSON

    lines = rows.select(F.to_json(F.struct(*rows.columns), EXACT_JSON).alias("value"))
    if not target:
        for line in lines.toLocalIterator():
            sys.stdout.write(f"{line[0]}\n")
        return
    with _known_place(target):
        if kind == "json":
            lines.write.text(target)
        else:
            rows.write.format(kind).save(target)


@contextmanager
def _known_place(target: str) -> Iterator[None]:
    """Turns Spark's error for a URL that it has no file system for into one that says so.

    Raises:
        EnvironmentSetupError: that is what failed.
    """
    from cdc_ops.lake.spark.error_text import unknown_store

    try:
        yield
    except Exception as error:  # Py4J's own errors come through as well as PySpark's
        if known := unknown_store(f"Writing to {target}", error, data="Nothing was written."):
            raise known from error
        raise
