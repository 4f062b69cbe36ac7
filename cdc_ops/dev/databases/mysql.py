"""A MySQL server for tests, installed or fetched; outside the data path."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from cdc_ops.dev.databases import debian
from cdc_ops.dev.databases.database_server import DatabaseServer
from cdc_ops.dev.databases.mariadb import cache_folder, socket_path
from cdc_ops.dev.processes import run_tool
from cdc_ops.errors import EnvironmentSetupError

OLDEST = (8, 0)
"""The first version with the data dictionary, roles and password plugins that this module relies on."""

_PACKAGE = "mysql-server-core"
_PROGRAM = "usr/sbin/mysqld"


class MySQLServer(DatabaseServer):
    """MySQL with a full row-based binlog and its default password plugin: the installed server, or one that is downloaded once.

    The downloaded server is the newest of Debian's unstable release, unpacked into the cache; nothing is installed.
    """

    name = "MySQL"
    driver = "mysql+pymysql"
    admin = "root"
    default_database = "mysql"

    @classmethod
    def ensure_installed(cls) -> Path:
        """Returns the path of the server's program; downloads it if MySQL is not installed."""
        return _installed_mysql() or _fetched_mysql()

    def create_database(self, name: str) -> None:
        """Creates a database unless it exists; `cdc` has all rights on this server."""
        self.execute(f"CREATE DATABASE IF NOT EXISTS `{name}`")

    def _create_data(self) -> None:
        try:
            run_tool([*self._program(), "--initialize-insecure"], what="creating MySQL's data")
        except BaseException:
            shutil.rmtree(self.data, ignore_errors=True)
            raise

    def _program(self) -> list[str]:
        """Returns the start of both commands: the one that creates the data, and the one that runs the server."""
        program = self.ensure_installed()
        base = program.parents[1]
        own = program.is_relative_to(cache_folder())
        return [
            *(debian.linked_command(base.parent, _PROGRAM) if own else (str(program),)),
            *("--no-defaults", f"--basedir={base}", f"--datadir={self.data}"),
            *((f"--lc-messages-dir={base / 'share' / 'mysql'}", f"--plugin-dir={base / 'lib/mysql/plugin'}") if own else ()),
            *(("--user=root",) if os.geteuid() == 0 else ()),
            *("--innodb-redo-log-capacity=64M", "--innodb-buffer-pool-size=256M"),
        ]

    def _command(self) -> list[str]:
        # The server sets the logins from this file before it accepts connections, so they always have a password.
        logins = self.folder / "logins.sql"
        logins.touch(mode=0o600)
        logins.write_text(self._logins(), "ascii")
        return [
            *self._program(),
            *("--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve", "--mysqlx=OFF", "--secure-file-priv=NULL"),
            *(f"--socket={socket_path(self.folder)}", f"--pid-file={self.data / 'mysqld.pid'}", f"--init-file={logins}"),
            *("--server-id=1", "--log-bin=binlog", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL"),
            *("--default-time-zone=+00:00", "--log-error-verbosity=2"),
            # Data of tests: no disk sync per commit, because it need not survive a power cut.
            *("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--innodb-doublewrite=OFF"),
            *self._options,
        ]

    def _logins(self) -> str:
        lines = ["SET SESSION sql_log_bin = 0;"]  # changes by the server itself are not events of a source
        for login, password in ((self.admin, self.admin_password), (self.user, self.password)):
            for host in ("localhost", "127.0.0.1"):
                lines.append(f"CREATE USER IF NOT EXISTS '{login}'@'{host}';")
                lines.append(f"ALTER USER '{login}'@'{host}' IDENTIFIED BY '{password}';")
                option = " WITH GRANT OPTION" if login == self.admin else ""
                lines.append(f"GRANT ALL PRIVILEGES ON *.* TO '{login}'@'{host}'{option};")
        return "\n".join(lines) + "\n"

    def _prepare(self) -> None:
        (self.folder / "logins.sql").unlink(missing_ok=True)


def _installed_mysql() -> Path | None:
    places = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
    found = shutil.which("mysqld", path=places)
    if found is None:
        return None
    shown = subprocess.run([found, "--no-defaults", "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"Ver (\d+)\.(\d+)\.\d+", shown)
    if "MariaDB" in shown or number is None or (int(number[1]), int(number[2])) < OLDEST:
        return None
    return Path(found).resolve()


def _fetched_mysql() -> Path:
    found = [*cache_folder().glob(f"mysql-[0-9]*/{_PROGRAM}")]
    if found:
        return max(found, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parents[2].name)])
    print("fetching MySQL from Debian's unstable release (about 60 MB), because none is installed ...", file=sys.stderr, flush=True)
    root = debian.unpack(_PACKAGE, lambda version: cache_folder() / f"mysql-{version}", _is_library)
    if not (root / _PROGRAM).exists():
        raise EnvironmentSetupError(
            "MySQL is missing", why=f"the package has no {_PROGRAM}", data="no server was started", next=f"look into {root}"
        )
    return root / _PROGRAM


def _is_library(package: str) -> bool:
    return package.startswith("lib") and "perl" not in package
