"""Variables whose value is in a file: `<NAME>_FILE` names the file, as images of databases and engines of containers have it.

A process's environment is inherited by all that it starts, and shown by the engine that runs its container; a file is not.
"""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from cdc_ops.errors import ConfigError

SUFFIX: Final = "_FILE"
_DATA: Final = "Nothing was read or written."


def secret_value(name: str, environ: Mapping[str, str]) -> str:
    """Returns the value of a variable, or what is in the file that the variable `<name>_FILE` names, without white space at its ends.

    Args:
        name: The variable.
        environ: The variables of the process; one that is empty counts as not set.

    Returns:
        The value, "" if neither is set.

    Raises:
        ConfigError: both are set, or the file cannot be read or is empty; the message shows nothing of a value.
    """
    value, path = environ.get(name, "").strip(), secret_file(name, environ)
    if not path:
        return value
    if value:
        raise ConfigError(
            f"{name} and {name}{SUFFIX} are both set.",
            why="Which of them is meant cannot be told.",
            data=_DATA,
            next=f"Keep one of them: unset {name}",
        )
    return _content(name, Path(path).expanduser())


def secret_file(name: str, environ: Mapping[str, str]) -> str:
    """Returns the path that `<name>_FILE` names, "" if it is not set; a URL there is that of a connection whose name ends so."""
    path = environ.get(f"{name}{SUFFIX}", "").strip()
    return "" if "://" in path else path


def take_secret(name: str, environ: MutableMapping[str, str]) -> None:
    """Puts what a file has into the variable of a process, for libraries that read only that; without a file nothing changes.

    Raises:
        ConfigError: see `secret_value`.
    """
    if secret_file(name, environ):
        environ[name] = secret_value(name, environ)
        del environ[f"{name}{SUFFIX}"]


def _content(name: str, path: Path) -> str:
    problem, following = "", f"Correct {name}{SUFFIX}, or let this user read the file: ls -l {path}"
    try:
        if text := path.read_text("utf-8").strip():
            return text
        problem = "It is empty."
    except UnicodeDecodeError:
        problem = "It is not UTF-8."
    except OSError as error:
        problem = f"{error.strerror}."
    raise ConfigError(f"The file that {name}{SUFFIX} names has no value: {path}", why=problem, data=_DATA, next=following)
