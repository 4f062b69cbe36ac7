"""A new project: init. It writes files, and connects to nothing."""

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from cdc_ops.cli.commands.pipelines import Json, app, guarded
from cdc_ops.cli.new_files import write_new
from cdc_ops.cli.output import render
from cdc_ops.cli.starter import IGNORED, pipeline_path, starter_files
from cdc_ops.core.pipeline.pipeline import SourceKind
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError

_KINDS: Final = (SourceKind.MYSQL, SourceKind.MARIADB, SourceKind.POSTGRES)


@app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The project's folder; it may exist.")] = Path(),
    name: Annotated[str, typer.Option(metavar="NAME", help="The pipeline's name.")] = "shop",
    kind: Annotated[str, typer.Option(metavar="KIND", help="Kind of the source: mysql, mariadb or postgres.")] = "mysql",
    as_json: Json = False,
) -> None:
    """Write a new project: a pipeline file with comments, the DAG file for Airflow, and the variables as an example.

    Nothing that exists is written over; a .gitignore that is there stays, and what belongs in it is said.
    """
    with guarded(as_json):
        files = starter_files(folder, name, _kind(kind))
        missing = _missing_lines(folder / ".gitignore")
        if missing is not None:
            del files[folder / ".gitignore"]
        write_new(files, pipelines=[pipeline_path(folder, name)], environ={"CDC_OPS_LAKE": "/lake", "CDC_OPS_STAGING": "/staging"})
    if as_json:
        render.print_json({"folder": str(folder), "pipeline": name, "files": [str(path) for path in files], "to_ignore": missing or []})
        return
    for line in (*_written(folder, files, missing), *_next_steps(folder, name)):
        render.out.print(line, highlight=False, soft_wrap=True, markup=False)


def _kind(text: str) -> SourceKind:
    known = {kind.value: kind for kind in _KINDS}
    if text not in known:
        raise RequestError(
            f"{text!r} is not a kind of source that can be queried.",
            why=did_you_mean(text, known),
            data="Nothing was written.",
            next="Write --kind mysql, mariadb or postgres. Other databases come by archived events: docs/archives.md.",
        )
    return known[text]


def _missing_lines(ignored: Path) -> list[str] | None:
    """Returns what a .gitignore does not have yet; None if there is none."""
    if not ignored.is_file():
        return None
    try:
        lines = {line.strip().strip("/") for line in ignored.read_text("utf-8", errors="replace").splitlines()}
    except OSError:
        lines = set()
    return [line for line in IGNORED if line.strip("/") not in lines]


def _written(folder: Path, files: dict[Path, str], missing: list[str] | None) -> list[str]:
    lines = [f"wrote {path}" for path in files]
    if missing is not None:
        remark = f"add {' and '.join(missing)} to it, .env has the password" if missing else "it has what is needed"
        lines.append(f"kept  {folder / '.gitignore'}: {remark}")
    return lines


def _next_steps(folder: Path, name: str) -> list[str]:
    steps = (
        *([(f"cd {shlex.quote(str(folder))}", "")] if folder != Path() else []),
        ("cp .env.example .env", "cdc-ops reads it here; give the connection its URL"),
        (f"edit dags/pipelines/{name}.yaml", "your tables and their cursors"),
        ("python -m cdc_ops.lake.spark.jars data/jars", "once, 31 MB: CDC_OPS_JARS"),
        ("cdc-ops validate", "the file alone"),
        (f"cdc-ops check {name}", "what a run needs"),
        (f"cdc-ops run {name} --limit 100", "first rows, into a folder of their own"),
        (f"cdc-ops run {name}", "all tables; again for what has changed since"),
    )
    return [
        "",
        "next",
        *(f"  {command:<52}{f'# {what}' if what else ''}".rstrip() for command, what in steps),
        "",
        "In Airflow: put dags/ into the DAGs folder, set the same variables for its processes, and add the connections (docs/install.md).",
    ]
