"""MariaDB's own reader of binlogs, `mariadb-binlog`, for tests: the installed one, or that of Debian, unpacked; outside the data path."""

import shutil
from pathlib import Path

from cdc_ops.dev.databases import debian
from cdc_ops.dev.databases.mariadb import cache_folder

_PACKAGE = "mariadb-client"
_PROGRAM = "usr/bin/mariadb-binlog"


def command() -> list[str]:
    """Returns the start of its command line; the first call may download it.

    Raises:
        EnvironmentSetupError: it is neither installed nor to be had, as on systems other than Debian.
    """
    installed = shutil.which("mariadb-binlog")
    if installed is not None:
        return [installed, "--no-defaults"]
    return [*debian.linked_command(_unpacked(), _PROGRAM), "--no-defaults"]


def _unpacked() -> Path:
    found = sorted(cache_folder().glob(f"mariadb-tools-*/{_PROGRAM}"))
    if found:
        return found[-1].parents[2]
    return debian.unpack(
        _PACKAGE, lambda version: cache_folder() / f"mariadb-tools-{version}", lambda name: name.startswith(("lib", "mariadb-client"))
    )
