"""The command that becomes a Spark Connect server: spark-connect. Services and containers run it; it writes nothing but scratch data."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cdc_ops.cli.commands.pipelines import app, guarded
from cdc_ops.config.secret_files import take_secret
from cdc_ops.config.settings import load_settings
from cdc_ops.core.pipeline.connect_address import PORT, TOKEN_VARIABLE
from cdc_ops.errors import ConfigError, RequestError


@app.command("spark-connect")
def spark_connect(
    port: Annotated[int, typer.Option(metavar="PORT", help="Where it listens, on 127.0.0.1.", min=1, max=65535)] = PORT,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of its JVM, e.g. 2g.")] = "2g",
    folder: Annotated[Path | None, typer.Option(metavar="PATH", help="Its scratch data; below CDC_OPS_HOME unless given.")] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark; may be given again.")] = None,
    properties: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings of Spark that others shall not see, such as spark.authenticate.secret.")
    ] = None,
) -> None:
    """Become a Spark Connect server on this machine, for pipelines with spark.connect; stays until it is stopped.

    Jars come from CDC_OPS_JARS. Clients must show the token in SPARK_CONNECT_AUTHENTICATE_TOKEN (_FILE), if there is one.
    """
    with guarded(as_json=False):
        from cdc_ops.lake.spark.server import server_command

        settings = load_settings(os.environ)
        if settings.jars is None:
            raise ConfigError(
                "CDC_OPS_JARS is not set, and the server needs the jars.",
                data="Nothing was started.",
                next="python -m cdc_ops.lake.spark.jars /opt/cdc-ops/jars && export CDC_OPS_JARS=/opt/cdc-ops/jars",
            )
        chosen = _settings(conf or [])
        place = (folder or settings.home / "spark-connect").absolute()
        command = server_command(place, settings.jars, port=port, memory=memory, conf=chosen, properties=_readable(properties))
        take_secret(TOKEN_VARIABLE, os.environ)  # Spark reads the variable; on the command line everybody would see it
        place.mkdir(parents=True, exist_ok=True)
        os.chdir(place)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of its Python workers: with the packages of this process
        sys.stdout.flush()
        os.execv(command[0], command)


def _settings(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not equals or not name.startswith("spark."):
            raise RequestError(
                f"--conf {name!r} is not a setting of Spark.",
                data="Nothing was started.",
                next="Write it as --conf spark.executor.memory=2g",
            )
    return {name: value for name, _, value in pairs}


def _readable(path: Path | None) -> Path | None:
    if path is not None and not os.access(path, os.R_OK):
        raise RequestError(f"The file of --properties cannot be read: {path}", data="Nothing was started.", next=f"ls -l {path}")
    return path.absolute() if path else None
