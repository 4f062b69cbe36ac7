"""A Postgres server for tests and the demo; outside the data path."""

import base64
import hashlib
import hmac
import os
import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from cdc_ops.dev.databases.database_server import DatabaseServer
from cdc_ops.dev.processes import run_tool
from cdc_ops.errors import EnvironmentSetupError

_ROUNDS: Final = 1


class PostgresServer(DatabaseServer):
    """The installed Postgres, 15 or later, with logical decoding; started by root it runs as another user, because it refuses root."""

    name = "Postgres"
    driver = "postgresql+psycopg"
    admin = "postgres"
    default_database = "postgres"
    stop_signal = signal.SIGINT  # the fast shutdown: SIGTERM waits until the last client has disconnected

    @classmethod
    def ensure_installed(cls) -> Path:
        """Returns the folder of Postgres's programs, of the newest version; root installs Postgres if it is missing."""
        found = _find_postgres()
        if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
            print("installing Postgres with apt-get ...", file=sys.stderr, flush=True)
            run_tool(["apt-get", "update"], what="reading the package lists")
            run_tool(["apt-get", "install", "-y", "--no-install-recommends", "postgresql"], what="installing Postgres")
            found = _find_postgres()
        if found is None:
            raise EnvironmentSetupError(
                "Postgres is missing",
                why="postgres and initdb are missing in /usr/lib/postgresql/*/bin or in PATH",
                data="no server was started",
                next="sudo apt-get install -y postgresql",
            )
        return found

    def create_database(self, name: str) -> None:
        """Creates a database that `cdc` owns, unless it exists."""
        if not self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
            self.execute(f'CREATE DATABASE "{name}" OWNER {self.user}')

    def _create_data(self) -> None:
        programs = self.ensure_installed()
        user = self._run_as()
        self.data.mkdir(mode=0o700)
        password_file = self.folder / "admin-password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.admin_password, "ascii")
        if user:
            shutil.chown(self.data, user)
            shutil.chown(password_file, user)
            self._check_reachable(user)
        try:
            run_tool(
                [
                    *(str(programs / "initdb"), f"--pgdata={self.data}", f"--username={self.admin}", f"--pwfile={password_file}"),
                    *("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"),
                ],
                what="creating Postgres's data",
                user=user,
            )
        except BaseException:
            shutil.rmtree(self.data, ignore_errors=True)
            raise
        finally:
            password_file.unlink()

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "wal_level": "logical",
            "timezone": "UTC",
            # Data of tests: no disk sync per commit, because it need not survive a power cut.
            "fsync": "off",
        }
        flags = (part for name, value in settings.items() for part in ("-c", f"{name}={value}"))
        return [str(self.ensure_installed() / "postgres"), "-D", str(self.data), *flags, *self._options]

    def _prepare(self) -> None:
        if not self.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{self.user}'"):
            self.execute(
                f"CREATE ROLE {self.user} LOGIN CREATEDB REPLICATION PASSWORD '{_quick_secret(self.password)}'",
                f"GRANT pg_monitor, pg_read_all_data, pg_write_all_data TO {self.user}",
            )

    def _run_as(self) -> str | None:
        if os.geteuid() != 0:
            return None
        return "postgres" if any(entry.pw_name == "postgres" for entry in pwd.getpwall()) else "nobody"

    def _check_reachable(self, user: str) -> None:
        looked = subprocess.run(["test", "-r", str(self.data)], user=user, group=os.stat(self.data).st_gid, cwd="/", check=False)
        if looked.returncode:
            shutil.rmtree(self.data)
            raise EnvironmentSetupError(
                f"the user {user} cannot enter {self.data}",
                why="Postgres refuses to run as root, and other users cannot enter a parent folder",
                data="nothing was created",
                next="choose a folder that other users can enter, for example below /tmp",
            )


def _find_postgres() -> Path | None:
    def version(folder: Path) -> int:
        return int(folder.parent.name) if folder.parent.name.isdigit() else 0

    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    if program := shutil.which("postgres"):
        folders.append(Path(program).resolve().parent)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def _quick_secret(password: str) -> str:
    """Returns what Postgres stores of a password (RFC 5803), with one round of hashing.

    Its own 4,096 rounds cost a client in Java 10 ms of each login, and guard nothing on a server that only this machine reaches.
    """
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ROUNDS)
    client, server = (hmac.digest(salted, key, "sha256") for key in (b"Client Key", b"Server Key"))
    parts = (base64.b64encode(part).decode() for part in (salt, hashlib.sha256(client).digest(), server))
    return "SCRAM-SHA-256${}:{}${}:{}".format(_ROUNDS, *parts)
