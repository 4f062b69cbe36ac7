"""`cdc-ops --version`: what is installed here, as it says of itself. Nothing is imported or started for it."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Final

import typer

from cdc_ops import __version__
from cdc_ops.cli.commands.pipelines import app

_PACKAGES: Final = (("PySpark", "pyspark"), ("Delta", "delta-spark"), ("Airflow", "apache-airflow"))


def versions() -> tuple[tuple[str, str], ...]:
    """Returns names with their versions, "not installed" for what is not there."""
    packages = ((name, _installed(package)) for name, package in _PACKAGES)
    return (("cdc-ops", __version__), ("Python", platform.python_version()), *packages)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _show(wanted: bool) -> None:
    if wanted:
        for name, found in versions():
            typer.echo(f"{name} {found}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show, is_eager=True, help="Show the versions of cdc-ops, Python, PySpark, Delta and Airflow."),
    ] = False,
) -> None:
    """Keeps Delta Lake tables equal to operational database tables, in batches."""
