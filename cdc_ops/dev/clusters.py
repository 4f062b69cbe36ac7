"""Clusters for tests, in which several nodes write: Galera of MariaDB, and Group Replication of MySQL; outside the data path."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Self

import pymysql

from cdc_ops.dev.databases.mariadb import MariaDBServer, cache_folder
from cdc_ops.dev.databases.mysql import MySQLServer
from cdc_ops.dev.processes import free_port, run_tool
from cdc_ops.errors import EnvironmentSetupError

_PROVIDER: Final = "usr/lib/galera/libgalera_smm.so"
_JOIN_SECONDS: Final = 90.0
_GROUP: Final = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa"
_RECOVERY: Final = "recovery", "pw"
_SMALL: Final = "--innodb-buffer-pool-size=64M"


class GaleraNode(MariaDBServer):
    """A node whose data has the logins already: what a node would change at its start goes to all nodes.

    Args:
        folder: See `DatabaseServer`.
        number: From 1 on.
        group_port: Where it listens to the other nodes.
        cluster: Ports of those that it joins; () = it begins the cluster.
    """

    def __init__(self, folder: Path, number: int, group_port: int, cluster: Sequence[int]) -> None:
        super().__init__(folder)
        self._number, self.group_port, self._cluster = number, group_port, tuple(cluster)

    def _command(self) -> list[str]:
        address = "gcomm://" + ",".join(f"127.0.0.1:{port}" for port in self._cluster)
        provider = {
            "gmcast.listen_addr": f"tcp://127.0.0.1:{self.group_port}",
            "ist.recv_addr": f"127.0.0.1:{free_port()}",
            "gcache.size": "16M",
            "repl.causal_read_timeout": "PT5S",  # tests wait for it
        }
        return [
            *(*super()._command(), _SMALL, "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON", f"--wsrep-provider={ensure_galera()}"),
            *(f"--wsrep-cluster-name=cdc-ops-{self.folder.parent.name}", f"--wsrep-cluster-address={address}"),
            *(f"--wsrep-node-name=node-{self._number}", "--wsrep-node-address=127.0.0.1", "--wsrep-sst-method=skip"),
            f"--wsrep-node-incoming-address=127.0.0.1:{self.port}",
            "--wsrep-provider-options=" + ";".join(f"{name}={value}" for name, value in provider.items()),
            *(() if self._cluster else ("--wsrep-new-cluster",)),
        ]

    def _logins(self) -> str:
        return "SELECT 1;\n"

    def state(self, name: str) -> str:
        """Returns a status variable of Galera."""
        return str(self.execute(f"SHOW GLOBAL STATUS LIKE 'wsrep_{name}'")[0][1])


class GaleraCluster:
    """Some nodes of Galera on this machine; all begin with copies of the same data, so that none has to send its data to another.

    Args:
        folder: Holds a folder for each node.
        size: How many nodes.
    """

    def __init__(self, folder: Path, size: int = 2) -> None:
        self._folder, self._size = folder, size
        self.nodes: list[GaleraNode] = []

    def __enter__(self) -> Self:
        with MariaDBServer(self._folder / "node-1"):
            pass  # sets the logins, without a cluster
        for number in range(2, self._size + 1):
            shutil.copytree(self._folder / "node-1", self._folder / f"node-{number}", ignore=shutil.ignore_patterns("*.log", "socket"))
        try:
            for number in range(1, self._size + 1):
                self._add(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in reversed(self.nodes):
            node.stop()

    def _add(self, number: int) -> None:
        node = GaleraNode(self._folder / f"node-{number}", number, free_port(), [other.group_port for other in self.nodes])
        if self.nodes:
            # It has all that the cluster has: only what joining itself counts is missing.
            first = self.nodes[0]
            state = (first.state("local_state_uuid"), first.state("last_committed"))
            text = "# GALERA saved state\nversion: 2.1\nuuid:    {}\nseqno:   {}\nsafe_to_bootstrap: 0\n".format(*state)
            (node.data / "grastate.dat").write_text(text, "ascii")
        node.start()
        self.nodes.append(node)
        _wait(lambda: all(one.state("local_state") == "4" and int(one.state("cluster_size")) == number for one in self.nodes), node)


def ensure_galera() -> Path:
    """Returns Galera's library: the installed one, or that of Debian's package, unpacked into the cache without installing it.

    Raises:
        EnvironmentSetupError: the machine does not run Debian, or its mirror does not answer.
    """
    for found in (Path("/") / _PROVIDER, *sorted(cache_folder().glob(f"galera-*/{_PROVIDER}"))):
        if found.exists():
            return found
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise EnvironmentSetupError(
            "Galera is missing", why="this machine has no apt-get", data="no server was started", next="install galera-4"
        )
    print("fetching Galera from Debian (1 MB), because it is not installed ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="cdc-ops-galera-") as name:
        Path(name).chmod(0o755)
        if subprocess.run(["apt-get", "--quiet", "download", "galera-4"], cwd=name, capture_output=True, check=False).returncode:
            run_tool(["apt-get", "--quiet", "update"], what="reading the package lists")
            done = subprocess.run(["apt-get", "--quiet", "download", "galera-4"], cwd=name, capture_output=True, text=True, check=False)
            if done.returncode:
                raise EnvironmentSetupError(
                    "Galera cannot be fetched", why=done.stderr, data="nothing was changed", next="install galera-4"
                )
        [package] = Path(name).glob("galera-4_*.deb")
        target = cache_folder() / f"galera-{re.sub(r'[^0-9.].*', '', package.name.split('_')[1])}"
        run_tool(["dpkg-deb", "--extract", str(package), str(target)], what=f"unpacking {package.name}")
    return target / _PROVIDER


class ReplicationGroup:
    """Some members of a replication group of MySQL on this machine.

    Args:
        folder: Holds a folder for each member.
        size: How many members.
        all_write: True if every member is a primary.
    """

    def __init__(self, folder: Path, size: int = 2, *, all_write: bool) -> None:
        self._folder, self._all_write = folder, all_write
        self._ports = [free_port() for _ in range(size)]
        self.members: list[MySQLServer] = []

    def __enter__(self) -> Self:
        try:
            for number in range(len(self._ports)):
                member = MySQLServer(self._folder / f"member-{number + 1}", options=self._options(number)).start()
                self.members.append(member)
                self._join(member)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for member in reversed(self.members):
            member.stop()

    def _options(self, number: int) -> tuple[str, ...]:
        seeds = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        group = {
            "group_name": _GROUP,
            "start_on_boot": "OFF",
            "local_address": f"127.0.0.1:{self._ports[number]}",
            "group_seeds": seeds,
            "ip_allowlist": "127.0.0.1",
            "recovery_get_public_key": "ON",
            "single_primary_mode": "OFF" if self._all_write else "ON",
            "enforce_update_everywhere_checks": "ON" if self._all_write else "OFF",
        }
        return (
            *(f"--server-id={number + 1}", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", _SMALL, "--report-host=127.0.0.1"),
            "--plugin-load-add=group_replication.so",
            *(f"--loose-group_replication_{name}={value}" for name, value in group.items()),
        )

    def _join(self, member: MySQLServer) -> None:
        user, secret = _RECOVERY
        statements = [
            "SET sql_log_bin = 0",
            f"CREATE USER IF NOT EXISTS {user}@'%' IDENTIFIED BY '{secret}'",
            f"GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO {user}@'%'",
            "SET sql_log_bin = 1",
            f"SET GLOBAL group_replication_bootstrap_group = {'ON' if len(self.members) == 1 else 'OFF'}",
            f"START GROUP_REPLICATION USER = '{user}', PASSWORD = '{secret}'",
            "SET GLOBAL group_replication_bootstrap_group = OFF",
        ]
        password = member.admin_password.encode()
        reached = pymysql.connect(host=member.host, port=member.port, user=member.admin, password=password, autocommit=True)
        with closing(reached) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        online = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'"
        _wait(lambda: all(one.execute(online)[0][0] == len(self.members) for one in self.members), member)


def _wait(condition: Callable[[], bool], server: MariaDBServer | MySQLServer) -> None:
    end = time.monotonic() + _JOIN_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise EnvironmentSetupError(
                f"The node in {server.folder} did not join its cluster", why=server.dump_log(20), data="nothing", next="read its log"
            )
        time.sleep(0.1)
