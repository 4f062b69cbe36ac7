"""Settings of a process, as opposed to those of a pipeline: where the ledger, the pipeline files and the jars are."""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cdc_ops.config.secret_files import secret_value
from cdc_ops.errors import ConfigError

_LEDGER_SCHEMES: Final = ("sqlite", "postgresql", "mysql", "mariadb")
_SCHEME: Final = re.compile(r"^([a-z][a-z0-9]*)(\+[a-z0-9_]+)?://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable: its name, its default in words, what it means."""

    name: str
    default: str
    meaning: str


VARIABLES: Final = (
    Variable(name="CDC_OPS_HOME", default="`~/.cdc-ops`", meaning="Folder for what cdc-ops keeps on this machine."),
    Variable(
        name="CDC_OPS_LEDGER",
        default="`sqlite:///$CDC_OPS_HOME/ledger.db`",
        meaning="SQLAlchemy URL of the ledger: `sqlite:///...`, `postgresql://...` or `mysql://...`. All processes share one."
        " `CDC_OPS_LEDGER_FILE` names a file that has it.",
    ),
    Variable(name="CDC_OPS_PIPELINES", default="`dags/pipelines`", meaning="Folder of the pipeline files."),
    Variable(
        name="CDC_OPS_JARS",
        default="none",
        meaning="Folder of the jars for Delta and the databases; without it Spark resolves them by their coordinates at every start.",
    ),
    Variable(
        name="CDC_OPS_CLASSES",
        default="`$CDC_OPS_HOME/classes`",
        meaning="Folder for archives of Java classes, by which the JVMs of small jobs start faster; some hundred MB. `off` = none.",
    ),
    Variable(
        name="CDC_OPS_CACHE",
        default="`$CDC_OPS_HOME`",
        meaning="Folder for compiled functions, which are made once; of the demo and the tests also for servers that they fetch.",
    ),
    Variable(
        name="CDC_OPS_IVY_SETTINGS",
        default="none",
        meaning="File with Ivy's settings, for a mirror of your own that jars are fetched from.",
    ),
    Variable(
        name="CDC_OPS_LOGS",
        default="`$CDC_OPS_HOME/logs`",
        meaning="Folder for the logs of Spark, one file a run of `cdc-ops`; the newest 20 stay. In Airflow they are in the tasks' logs.",
    ),
    Variable(
        name="CDC_OPS_ENV_FILE",
        default="`.env` in the working directory",
        meaning="File with variables for `cdc-ops`; those that begin with `CDC_OPS_` and are not set are taken from it. `off` = none.",
    ),
    Variable(
        name="CDC_OPS_CONN_<ID>",
        default="none",
        meaning="URL of the connection `<id>`, upper-cased, other characters than letters and digits as `_`. Used outside Airflow."
        " `CDC_OPS_CONN_<ID>_FILE` names a file that has it.",
    ),
)
"""Every variable that the package reads for users, with its default and meaning: the one list, which the reference is made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where this process finds its surroundings.

    Args:
        home: Folder for what cdc-ops keeps on this machine.
        ledger: SQLAlchemy URL of the ledger; hidden, it may carry a password.
        pipelines: Folder of the pipeline files.
        jars: Folder of jars, None to resolve them at every start.
        logs: Folder of the log files of Spark's JVM.
        classes: Folder of the archives of Java classes, None for none.
    """

    home: Path
    ledger: str = field(repr=False)
    pipelines: Path
    jars: Path | None
    logs: Path
    classes: Path | None = None


def load_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Reads the settings; an empty variable counts as not set. Nothing is created.

    Raises:
        ConfigError: a variable's value cannot be meant, or the file that it names not be read.
    """
    home = _folder(environ, "CDC_OPS_HOME") or (Path(environ.get("HOME") or Path.home()) / ".cdc-ops")
    home = home.absolute()
    return Settings(
        home=home,
        ledger=_ledger(secret_value("CDC_OPS_LEDGER", environ)) or f"sqlite:///{home / 'ledger.db'}",
        pipelines=_folder(environ, "CDC_OPS_PIPELINES") or Path("dags/pipelines"),
        jars=_folder(environ, "CDC_OPS_JARS"),
        logs=_folder(environ, "CDC_OPS_LOGS") or home / "logs",
        classes=None if environ.get("CDC_OPS_CLASSES", "").strip() == "off" else _folder(environ, "CDC_OPS_CLASSES") or home / "classes",
    )


def _folder(environ: Mapping[str, str], name: str) -> Path | None:
    text = environ.get(name, "").strip()
    if "://" in text:
        raise ConfigError(
            f"{name} is not a local folder.",
            why="Its value looks like a URL.",
            data="Nothing was read or written.",
            next=f"Set {name} to a path, or unset it for the default.",
        )
    return Path(text).expanduser() if text else None


def _ledger(url: str) -> str:
    found = _SCHEME.match(url)
    if not url or (found and found[1] in _LEDGER_SCHEMES):
        return url
    near = difflib.get_close_matches(found[1], _LEDGER_SCHEMES, n=1) if found else []
    raise ConfigError(
        "CDC_OPS_LEDGER is not the URL of a ledger.",
        why=(f"Did you mean {near[0]!r}? " if near else "") + f"Valid schemes are: {', '.join(_LEDGER_SCHEMES)}.",
        data="Nothing was read or written.",
        next="export CDC_OPS_LEDGER='sqlite:////absolute/path/ledger.db'   # or 'postgresql://user:password@host/database'",
    )
