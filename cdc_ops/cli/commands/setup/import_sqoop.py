"""A pipeline file from what Sqoop has: import-sqoop. It connects to nothing."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.markup import escape

from cdc_ops.cli.commands.pipelines import Folder, Json, app, guarded
from cdc_ops.cli.new_files import write_new
from cdc_ops.cli.output import render
from cdc_ops.config.settings import load_settings
from cdc_ops.core import json_codec
from cdc_ops.core.pipeline.connections import variable_name
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from cdc_ops.cli.sqoop.command_line import Found
    from cdc_ops.cli.sqoop.translation import Translation

_COLOURS: Final = {"loses": "red", "differs": "yellow", "left out": "dim"}


@app.command("import-sqoop")
def import_sqoop(  # noqa: PLR0913, PLR0917  a command line has as many parameters as it has options
    words: Annotated[
        list[str] | None, typer.Argument(metavar="-- SQOOP'S ARGUMENTS", help="One import, behind `--`: import --connect ... --table ...")
    ] = None,
    file: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="A script with sqoop commands, or what 'sqoop job --show' printed; '-' = standard input. Several become one pipeline.",
        ),
    ] = "",
    name: Annotated[str, typer.Option(metavar="NAME", help="The pipeline's name. Default: that of the database.")] = "",
    connection: Annotated[str, typer.Option(metavar="ID", help="Id of the connection. Default: the pipeline's name and _db.")] = "",
    root: Annotated[str, typer.Option(metavar="URI", help="Folder of the lake. Default: below the object store that Sqoop wrote to.")] = "",
    staging: Annotated[str, typer.Option(metavar="URI", help="Folder for temporary data. Default: beside the lake.")] = "",
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Write a pipeline file from imports of Sqoop, and say what of them is not carried over.

    Reads command lines (also with --options-file) and saved jobs. Never writes a password, and never over a file that exists.
    """
    from cdc_ops.cli.sqoop.pipeline_text import pipeline_text
    from cdc_ops.cli.sqoop.translation import translate

    with guarded(as_json):
        translation = translate(_found(words or [], file))
        chosen = name or _name_of(translation.url.database)
        identity = connection or f"{chosen}_db"
        text = pipeline_text(translation, name=chosen, connection=identity, root=root, staging=staging)
        path = (folder or load_settings(os.environ).pipelines) / f"{chosen}.yaml"
        write_new({path: text}, pipelines=[path])
    if as_json:
        notes = [json_codec.to_data(note) for note in translation.notes]
        render.print_json({"file": str(path), "pipeline": chosen, "connection": identity, "notes": notes})
        return
    _print(translation, path, chosen, identity)


def _found(words: list[str], file: str) -> "Found":
    from cdc_ops.cli.sqoop.command_line import Found, read_script, read_words
    from cdc_ops.cli.sqoop.saved_job import is_saved_job, read_saved_jobs

    if bool(words) == bool(file):
        raise RequestError(
            "It is not said which import of Sqoop is meant." if not words else "Two sources of imports are named.",
            data="Nothing was written.",
            next="Write the import behind --, or name a file: cdc-ops import-sqoop --file imports.sh.",
        )
    if words:
        return Found(imports=(read_words(words, Path(), "command line"),))
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "It is not UTF-8."
        raise RequestError(f"{file} cannot be read.", why=why, data="Nothing was written.", next="Correct the path.") from None
    return read_saved_jobs(text) if is_saved_job(text) else read_script(text, Path())


def _name_of(database: str) -> str:
    """Returns the name of a pipeline for a database: small letters, digits and `_`, a letter in front."""
    name = re.sub(r"[^a-z0-9_]+", "_", database.lower()).strip("_")[:100]
    return name if name[:1].isalpha() else f"db_{name}".rstrip("_")


def _print(translation: "Translation", path: Path, name: str, connection: str) -> None:
    url = translation.url
    for note in translation.notes:
        render.out.print(f"[{_COLOURS[note.weight]}]{note.weight:<8}[/] {escape(note.line)}", highlight=False, soft_wrap=True)
    port, user = f":{url.port}" if url.port else "", translation.user or "USER"
    address = f"{url.scheme}://{user}:PASSWORD@{url.host}{port}/{url.database}{url.suffix}"
    tables = [entry for entry in translation.tables if not entry.settings.get("exclude")]
    lines = (
        f"Wrote {path}: {len(tables)} {'table' if len(tables) == 1 else 'tables'}. The remarks above stand in it as comments.",
        "",
        "Next: the connection, with its password in place of PASSWORD (percent-encode @ / ? # %),",
        f"  export {variable_name(connection)}='{address}'",
        f"  airflow connections add {connection} --conn-uri '{address}'      # in Airflow",
        "then",
        f"  cdc-ops check --pipelines {path.parent} {name}",
        f"  cdc-ops run --pipelines {path.parent} {name} --limit 100          # a trial: writes no lake, no ledger",
    )
    for line in lines:
        render.out.print(line, highlight=False, soft_wrap=True, markup=False)
