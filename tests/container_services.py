"""Starts the commands of docker-compose.yaml without containers: each in an environment that has the wheel, with the secrets as files.

    python -m tests.container_services FOLDER_OF_PROGRAMS

What a container would give is replaced, and nothing else: paths, names of hosts, ports; Postgres by SQLite. The image's own providers are
not in the wheel. Where they are missing, Airflow's simple login takes the place of FAB's, and logs stay local without Amazon's.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import fsspec
import yaml

from cdc_ops.dev.object_store import ObjectStore
from cdc_ops.dev.processes import free_port

ROOT: Final = Path(__file__).resolve().parents[1]
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text("utf-8"))
PATIENCE: Final = 240.0

STARTED: Final = (
    "spark-master",
    "spark-worker",
    "spark-connect",
    "airflow-apiserver",
    "airflow-scheduler",
    "airflow-dag-processor",
    "airflow-triggerer",
)
"""What lives on, in the order in which it is started."""
RUN: Final = ("object-store-bucket", "airflow-init", "cdc-ops")
"""What ends by itself."""
OTHERS: Final = ("kafka", "connect", "connectors", "postgres", "mysql", "object-store", "loopback")
"""Images of others, and what only talks to them or sleeps."""

USER: Final = """
airflow users create --username "$_AIRFLOW_WWW_USER_USERNAME" --firstname A --lastname B --email a@example.com --role Admin \\
    --password "$(eval "$_AIRFLOW_WWW_USER_PASSWORD_CMD")"
"""
LEDGER: Final = """
from cdc_ops.config.settings import load_settings
from cdc_ops.state.sql import open_store
open_store(load_settings().ledger).close()
"""
"""What makes the ledger, as the first run does."""

WITH_TOKEN: Final = """
import os
from cdc_ops.config.secret_files import take_secret
take_secret("SPARK_CONNECT_AUTHENTICATE_TOKEN", os.environ)
"""
ON_THE_SERVER: Final = """
from cdc_ops.core.pipeline.pipeline import SparkConfig
from cdc_ops.lake.spark.session import close_session, open_session
session = open_session("check", SparkConfig(connect="{address}"))
session.range(1000).write.format("delta").mode("overwrite").save("s3a://lake/check")
print("rows", session.read.format("delta").load("s3a://lake/check").count())
close_session(session)
"""


@dataclass
class Services:
    """The services of compose as processes of this machine.

    Args:
        programs: Folder with `python`, `airflow`, `spark-class` and `cdc-ops`.
        folder: For secrets, data and logs.
        endpoint: The object store.
    """

    programs: Path
    folder: Path
    endpoint: str
    ports: dict[str, int] = field(default_factory=lambda: {port: free_port() for port in ("7077", "8080", "8081", "8082", "8974", "15002")})

    def __post_init__(self) -> None:
        self.secrets, self.packages = self.folder / "secrets", dict[str, bool]()
        subprocess.run([sys.executable, ROOT / "docker/make_secrets.py", self.secrets], check=True, capture_output=True)
        (self.secrets / "airflow_database").write_text(f"sqlite:///{self.folder}/airflow.db")
        (self.secrets / "cdc_ops_ledger").write_text(f"sqlite:///{self.folder}/ledger.db")
        (self.folder / "dags").mkdir()
        (self.folder / "dags" / "cdc_pipelines.py").write_text((ROOT / "dags" / "cdc_pipelines.py").read_text("utf-8"))

    def translated(self, text: str) -> str:
        """Returns a text with what a container would give replaced."""
        text = text.replace("http://object-store:9000", self.endpoint)
        places = {
            "/run/secrets": self.secrets,
            "/opt/airflow/pipelines": ROOT / "docker/pipelines",
            "/opt/cdc-ops/jars": ROOT / ".local/jars",
            "/opt/spark-work": self.folder / "spark-work",
            "/opt/scripts": ROOT / "docker/scripts",
        }
        for place, mine in places.items():
            text = text.replace(place, str(mine))
        text = re.sub(
            r"(?<=[/= ])(spark-master|airflow-apiserver|loopback|localhost)(?=[: /]|$)|^(spark-master|loopback)$", "127.0.0.1", text
        )
        return re.sub(r"(?<![\d.])(7077|8080|8081|8082|8974|15002)(?!\d)", lambda found: str(self.ports[found[0]]), text)

    def environment(self, name: str) -> dict[str, str]:
        """Returns the variables of a service: those of compose, and the least that a machine has."""
        given = {variable: self.translated(str(value)) for variable, value in COMPOSE["services"][name].get("environment", {}).items()}
        kept = {variable: os.environ[variable] for variable in ("JAVA_HOME", "LANG", "TMPDIR") if variable in os.environ}
        mine = {
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "HOSTNAME": os.uname().nodename,
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW__API__PORT": str(self.ports["8080"]),
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(self.ports["8974"]),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "AWS_EC2_METADATA_DISABLED": "true",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONNOUSERSITE": "1",
        }
        if name.startswith("airflow"):
            mine |= self.without_providers()
        return {**kept, **given, **mine}

    def without_providers(self) -> dict[str, str]:
        """Returns what takes the place of providers that the image has, where this environment lacks them."""
        instead = {}
        if not self.has("airflow.providers.fab"):
            instead["AIRFLOW__CORE__AUTH_MANAGER"] = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
        if not self.has("airflow.providers.amazon"):
            instead["AIRFLOW__LOGGING__REMOTE_LOGGING"] = "false"
        return instead

    def has(self, package: str) -> bool:
        """True if the environment has a package."""
        if package not in self.packages:
            code = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
            self.packages[package] = subprocess.run(self.found(["python", "-c", code, package]), check=False, timeout=60).returncode == 0
        return self.packages[package]

    def command(self, name: str) -> list[str]:
        """Returns the command of a service, as its entry point would run it."""
        service = COMPOSE["services"][name]
        command = service.get("command", [])
        words = [self.translated(str(word)) for word in (command.split() if isinstance(command, str) else command)]
        entry = [word for word in service.get("entrypoint", ["airflow"]) if word not in ("/usr/bin/dumb-init", "--")]
        return self.found([*entry, *words])

    def found(self, words: list[str]) -> list[str]:
        """Returns a command with the program of the environment in front.

        Raises:
            AssertionError: the environment has no such program.
        """
        program = self.programs / words[0] if words[0] != "bash" else Path("/bin/bash")
        assert program.exists(), f"the environment has no {words[0]}"
        return [str(program), *words[1:]]

    @contextmanager
    def started(self, name: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Starts a service, and waits until its health check says that it works."""
        begun = time.monotonic()
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                self.command(name), env=self.environment(name), cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self.wait(name, process)
            print(f"{name}: healthy after {time.monotonic() - begun:.0f} s", flush=True)
            yield process
        finally:
            end(process)

    def wait(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        """Waits for the health check of compose.

        Raises:
            AssertionError: the service has ended, or is not healthy in time.
        """
        kind, *test = COMPOSE["services"][name]["healthcheck"]["test"]
        words = [self.translated(str(word)).replace("$$", "$") for word in test]
        checked = ["/bin/bash", "-c", *words] if kind == "CMD-SHELL" else [shutil.which(words[0]) or words[0], *words[1:]]
        until, last = time.monotonic() + PATIENCE, ""
        while time.monotonic() < until:
            assert process.poll() is None, f"{name} has ended with {process.returncode}:\n{self.tail(name)}"
            done = subprocess.run(checked, env=self.environment(name), cwd=self.folder, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            last = done.stdout + done.stderr
            time.sleep(1)
        raise AssertionError(f"{name} is not healthy after {PATIENCE:.0f} s: {last[-500:]}\n{self.tail(name)}")

    def run(self, name: str, *words: str) -> str:
        """Runs a service that ends by itself, or another command in its surroundings, and returns what it says."""
        command = self.found(list(words)) if words else self.command(name)
        done = subprocess.run(
            command, env=self.environment(name), cwd=self.folder, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, f"{name}: {' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}"
        print(f"{name}: {' '.join(' '.join(words or command[1:]).split())[:100]}", flush=True)
        return done.stdout

    def fails(self, words: list[str], environment: Mapping[str, str]) -> str:
        """Runs a command that must fail, and returns what it says."""
        done = subprocess.run(
            self.found(words), env=dict(environment), cwd=self.folder, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode != 0, done.stdout
        return done.stdout + done.stderr

    def logs_of_tasks(self) -> list[str]:
        """The logs of Airflow's tasks on this machine."""
        found = sorted((self.folder / "airflow" / "logs").glob("dag_id=*/**/*.log"))
        return [path.read_text("utf-8", errors="replace") for path in found]

    def logs_in_store(self) -> list[str]:
        """The logs of Airflow's tasks in the object store, where compose wants them."""
        place = str(self.environment("airflow-scheduler")["AIRFLOW__LOGGING__REMOTE_BASE_LOG_FOLDER"])
        store = fsspec.filesystem("s3", endpoint_url=self.endpoint, use_listings_cache=False, skip_instance_cache=True)
        return [store.cat_file(path).decode("utf-8", errors="replace") for path in store.find(place) if "dag_id=" in path]

    def log(self, name: str) -> Path:
        """The output of a service."""
        return self.folder / f"{name}.log"

    def tail(self, name: str) -> str:
        """The end of the output of a service."""
        return self.log(name).read_text("utf-8", errors="replace")[-3000:]


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a service and all that it has started: they are in a session of their own."""
    for number in (15, 9):
        try:
            os.killpg(process.pid, number)
            process.wait(30)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def check(programs: Path, folder: Path) -> None:
    """Starts all services of ours, and works with them.

    Raises:
        AssertionError: one does not start, or does not do what it is for.
    """
    assert {*STARTED, *RUN, *OTHERS} == set(COMPOSE["services"])
    with closing(ObjectStore()) as store, ExitStack() as stack:
        services = Services(programs, folder, store.endpoint)
        assert "archive, lake, logs" in services.run("object-store-bucket")
        services.run("airflow-init", "airflow", "db", "migrate")  # which the image's entry point does, as the variables tell it
        assert "3.3" in services.run("airflow-init")
        if services.has(
            "airflow.providers.fab"
        ):  # as the entry point does; a person's password is not for this machine's list of processes
            services.run("airflow-init", "bash", "-c", USER)
        for name in STARTED:
            stack.enter_context(services.started(name))
        check_spark(services)
        check_airflow(services)
        check_task(services)
        services.run("cdc-ops", "python", "-c", LEDGER)
        services.run("cdc-ops")
        check_secrets(services)


def check_spark(services: Services) -> None:
    """Works on the Spark server with the token, and is refused without it; a worker without the secret is not taken."""
    address = f"sc://127.0.0.1:{services.ports['15002']}"
    code, environment = ON_THE_SERVER.format(address=address), services.environment("cdc-ops")
    told = services.run("cdc-ops", "python", "-c", WITH_TOKEN + code)
    assert "rows 1000" in told
    assert "Launching executor" in services.log("spark-master").read_text() or "executor" in services.log("spark-worker").read_text()
    for wrong in ({}, {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "wrong"}):
        refused = services.fails(["python", "-c", code], environment | wrong)
        assert "UNAUTHENTICATED" in refused or "Invalid authentication token" in refused, refused[-2000:]
    print("spark-connect: refuses clients without its token", flush=True)
    stranger = [word for word in services.command("spark-worker") if "spark.conf" not in word and word != "--properties-file"]
    stranger[stranger.index("--webui-port") + 1] = "0"
    with (services.folder / "stranger.log").open("wb") as log:
        process = subprocess.Popen(
            stranger, env=services.environment("spark-worker"), cwd=services.folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        until = time.monotonic() + 60
        told = ""
        while not re.search(r"Failed to connect|Exception|rejected", told) and time.monotonic() < until:
            time.sleep(1)
            told = (services.folder / "stranger.log").read_text("utf-8", errors="replace")
        assert re.search(r"Failed to connect|Exception|rejected", told), told[-2000:]
        assert "Successfully registered with master" not in told
        print("spark-master: takes no worker without the secret", flush=True)
    finally:
        end(process)


def check_airflow(services: Services) -> None:
    """Keys and connections are those of the files, for services and for tasks, and the DAGs of the pipelines are there."""
    name = "airflow-scheduler"
    key = services.run(name, "airflow", "config", "get-value", "core", "fernet_key").strip().splitlines()[-1]
    assert key == (services.secrets / "airflow_fernet_key").read_text()
    password = (services.secrets / "mysql_cdc_password").read_text()
    for code in (
        "from airflow.models.connection import Connection as C; print(C.get_connection_from_secrets('shop_db').password)",
        "from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded as e;"
        " print([c.password for b in e() if (c := b.get_connection('shop_db'))])",
    ):
        assert password in services.run(name, "python", "-c", code)
    listed = json.loads(services.run(name, "airflow", "dags", "list", "--output", "json").strip().splitlines()[-1])
    assert {"cdc_shop", "cdc_shop_events"} <= {dag["dag_id"] for dag in listed}, listed


def check_task(services: Services) -> None:
    """A task of the scheduler takes the connection from the file; its log is in the object store, where Amazon's provider is there.

    There is no MySQL here: the task fails because it cannot find the host that only the file names.
    """
    name = "airflow-scheduler"
    services.run(name, "airflow", "dags", "unpause", "cdc_shop", "--yes")
    services.run(name, "airflow", "dags", "trigger", "cdc_shop")
    remote = services.has("airflow.providers.amazon")
    until, said = time.monotonic() + PATIENCE, ""
    while "cdc@mysql" not in said and "'mysql'" not in said and time.monotonic() < until:
        time.sleep(3)
        said = "\n".join(services.logs_in_store() if remote else services.logs_of_tasks())
    assert "cdc@mysql" in said or "'mysql'" in said, said[-3000:] or "no log of a task came"
    assert (services.secrets / "mysql_cdc_password").read_text() not in said
    print(
        f"airflow-scheduler: its task's log is {'in the object store' if remote else 'in a local file'}, and names the host of the file",
        flush=True,
    )


def check_secrets(services: Services) -> None:
    """No process of the services has a secret on its command line, and none but Spark's in its environment."""
    values = {
        path.name: path.read_text().strip() for path in services.secrets.iterdir() if path.name not in ("object_store_user", "spark.conf")
    }
    seen = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words, variables = (
                (place / "cmdline").read_bytes().decode(errors="replace"),
                (place / "environ").read_bytes().decode(errors="replace"),
            )
        except OSError:
            continue  # it has ended, or is somebody else's
        if str(services.folder) not in variables:
            continue
        seen += 1
        assert not [name for name, value in values.items() if value in words], words
        in_environment = {name for name, value in values.items() if value in variables}
        assert in_environment <= {"spark_connect_token", "spark_secret"}, in_environment
    assert seen >= len(STARTED), seen
    print(f"secrets: on none of {seen} command lines", flush=True)


def main() -> None:
    """Checks the programs of a folder."""
    with tempfile.TemporaryDirectory(prefix="cdc-ops-services-") as folder:
        check(Path(sys.argv[1]).absolute(), Path(folder))
    print("\nThe services of docker-compose.yaml run.")


if __name__ == "__main__":
    main()
