"""The file `.env` of the working directory: its variables, for the command that begins."""

import os
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from cdc_ops.config.env_file import EnvFile, find_env_file, read_env_file

_READ: Final[ContextVar[EnvFile | None]] = ContextVar("env_file", default=None)


def use_env_file() -> EnvFile | None:
    """Gives this process the variables of the file, those that it does not have.

    Returns:
        What it has from the file, None if there is none.

    Raises:
        ConfigError: the file cannot be read, or may come from somebody else.
    """
    path = find_env_file(os.environ, Path.cwd(), os.getuid())
    found = read_env_file(path, os.environ) if path else None
    os.environ.update(found.variables if found else {})
    _READ.set(found)
    return found


def used_env_file() -> EnvFile | None:
    """Returns what the command that runs has from the file, None if there is none."""
    return _READ.get()
