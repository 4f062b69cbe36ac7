"""What the commands on one Delta table share: finding it by its name, and writing rows somewhere."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_ops.cli.session import chosen_pipelines
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_ops.core.pipeline.pipeline import Pipeline


def place_of_table(folder: Path | None, pipeline: str, table: str) -> "tuple[Pipeline, str]":
    """Returns the pipeline that writes a table, and the path of its Delta table.

    Raises:
        RequestError: none does, or more than one and none is named.
    """
    from cdc_ops.core.pipeline.pipeline import current_settings, table_path
    from cdc_ops.core.schema.tables import TableName

    name = TableName.parse(table)
    places = []
    for chosen in chosen_pipelines(folder, [pipeline] if pipeline else []):
        settings = current_settings(chosen, name)
        if settings is not None:
            places.append((chosen, table_path(chosen, name, settings)))
    if len(places) != 1:
        raise RequestError(
            f"{'No' if not places else 'More than one'} pipeline has the table {table}.",
            why=f"Pipelines are {', '.join(chosen.name for chosen, _ in places)}." if places else "",
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
    """
    from pyspark.sql import functions as F

    if kind != "json":
        rows.write.format(kind).save(target)
        return
    lines = rows.select(F.to_json(F.struct(*rows.columns), {"ignoreNullFields": "false"}).alias("value"))
    if target:
        lines.write.text(target)
        return
    for line in lines.toLocalIterator():
        sys.stdout.write(f"{line[0]}\n")
