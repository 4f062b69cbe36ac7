"""The wheel in an environment of its own: what users install runs without the clone, the demo included.

    python -m tests.wheel_check [--without-demo]

The source distribution is built from the clone and the wheel from that; pip installs it with the pins of constraints.txt into a new virtual
environment. All commands run in a temporary folder, which is also their home; those of docker-compose.yaml too (`container_services`). Of
the clone they are given the folder of jars and the cache of the demo, which would be fetched again otherwise.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests import container_services

ROOT: Final = Path(__file__).resolve().parents[1]
LOCAL: Final = ROOT / ".local"
WORK: Final = LOCAL / "wheel-check"

ORIGIN: Final = """
import importlib.metadata, json, pathlib, sys
import cdc_ops
from cdc_ops.airflow.spark.submit import application
from cdc_ops.core.operation.job import Step
from cdc_ops.demo.layout import Layout
clone, environment = pathlib.Path(sys.argv[1]), pathlib.Path(sys.prefix)
own = importlib.metadata.distribution("cdc-ops")
files = [pathlib.Path(own.locate_file(file)).resolve() for file in own.files]
assert len(files) > 600 and all(file.is_file() for file in files)
used = [cdc_ops.__file__, application(Step.SYNC), Layout.default().dags / "cdc_pipelines.py", *sys.path[1:]]
strangers = [str(one) for one in used if pathlib.Path(one).resolve().is_relative_to(clone) and environment not in pathlib.Path(one).parents]
assert not strangers, strangers
assert not json.loads(own.read_text("direct_url.json")).get("dir_info"), "this is no wheel"
print(len(files), "files of", own.name, own.version, "below", environment.name)
"""

STARTER: Final = """
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder="dags", bundle_name="starter")
assert not bag.import_errors, bag.import_errors
assert "cdc_shop" in bag.dags, sorted(bag.dags)
print("DAGs of the starter:", *sorted(bag.dags))
"""

PAGE: Final = """
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.testclient import TestClient
with TestClient(create_app(apps="core")) as client:
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="t", role="viewer"))
    login = {"Authorization": f"Bearer {token}"}
    for route in ("/cdc/ui", "/cdc/style.css", "/cdc/page.js"):
        assert client.get(route).status_code == 401, route
        answer = client.get(route, headers=login)
        assert answer.status_code == 200, (route, answer.status_code, answer.text)
        print(route, answer.status_code, len(answer.content), "bytes")
"""


def build(work: Path) -> Path:
    """Builds the source distribution, and from it the wheel, whose path is returned."""
    for kind, project in (("sdist", ROOT), ("wheel", work / "source")):
        run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(work / kind)], project, dict(os.environ))
        if kind == "sdist":
            [archive] = (work / kind).iterdir()
            with tarfile.open(archive) as file:
                file.extractall(work, filter="data")
            (work / archive.name.removesuffix(".tar.gz")).rename(work / "source")
    [wheel] = (work / "wheel").iterdir()
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Installs the wheel into a new virtual environment, and returns the folder of its programs."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    run(
        [*pip, "install", "--quiet", "--progress-bar", "off", "-c", str(ROOT / "constraints.txt"), f"{wheel}[demo]"],
        folder,
        surroundings_of_pip(),
    )
    run([*pip, "check"], folder, surroundings_of_pip())
    return folder / "bin"


def surroundings_of_pip() -> dict[str, str]:
    """Returns the environment variables of this process without those that lead Python elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def surroundings(programs: Path, home: Path) -> dict[str, str]:
    """Returns the environment variables of a user who has nothing but the environment."""
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | {
        "PATH": f"{programs}{os.pathsep}{os.defpath}",
        "HOME": str(home),
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "t:viewer",
        "PYTHONNOUSERSITE": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "CDC_OPS_JARS": str(LOCAL / "jars"),
        "CDC_OPS_CACHE": str(LOCAL / "cache"),
    }


def check(programs: Path, home: Path, *, demo: bool) -> None:
    """Runs what a user would run, in a folder that has nothing to do with the clone."""
    environment = surroundings(programs, home)
    python = str(programs / "python")

    def say(what: str, *command: str, folder: Path = home, has: str = "") -> None:
        print(f"\n== {what}", flush=True)
        run([str(programs / command[0]), *command[1:]], folder, environment, has)

    say("all files are the wheel's", "python", "-c", ORIGIN, str(ROOT))
    say("the command line", "cdc-ops", "--help", has="reconcile")
    say("a starter project", "cdc-ops", "init", "starter", "--kind", "mariadb", has="dags/pipelines/shop.yaml")
    print("\n== the starter project is taken as it is", flush=True)
    line = f'set -a; . ./.env.example; set +a; cdc-ops validate && airflow db migrate > migrate.log 2>&1 && "{python}" -c "$1"'
    run(["/bin/bash", "-c", line, "-", STARTER], home / "starter", environment, "cdc_shop")
    say("Airflow knows the provider", "airflow", "providers", "get", "cdc-ops", "--full", has="cdc_ops_spark")
    say("Airflow can import what the forms need", "airflow", "providers", "hooks", has="cdc_ops.airflow.spark.hook.CdcSparkHook")
    say("Airflow loads the plugin", "airflow", "plugins", has="CdcOpsPlugin")
    say("the page answers, and only to those who may see it", "python", "-c", PAGE, has="/cdc/ui 200")
    print("\n== the services of docker-compose.yaml", flush=True)
    with tempfile.TemporaryDirectory(prefix="cdc-ops-services-") as folder:
        container_services.check(programs, Path(folder))
    if demo:
        print("\n== the demo", flush=True)
        try:
            subprocess.run([python, "-m", "cdc_ops.demo", "up"], cwd=home, env=environment, check=True)
        finally:
            subprocess.run([python, "-m", "cdc_ops.demo", "down"], cwd=home, env=environment, check=False)


def run(command: Sequence[str], folder: Path, environment: dict[str, str], has: str = "") -> None:
    """Runs a command and shows the end of what it says.

    Raises:
        SystemExit: it fails, or does not say what it should.
    """
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = done.stdout.rstrip().splitlines()
    good = done.returncode == 0 and has in done.stdout
    print("\n".join(lines[-5:] if good else lines), flush=True)
    if not good:
        raise SystemExit(f"exit code {done.returncode}{f', and {has!r} should be there' if has else ''}: {' '.join(command)[:200]}")


def main() -> None:
    """Builds, installs, checks."""
    parser = argparse.ArgumentParser(prog="python -m tests.wheel_check", description=__doc__.splitlines()[0])
    parser.add_argument("--without-demo", action="store_true", help="leave out the demo, which takes some minutes")
    without_demo = parser.parse_args().without_demo
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    wheel = build(WORK)
    print(f"\n== installing {wheel.name} with what it needs (a minute or more)", flush=True)
    programs = install(wheel, WORK / "venv")
    with tempfile.TemporaryDirectory(prefix="cdc-ops-wheel-") as home:
        check(programs, Path(home), demo=not without_demo)
    print("\nThe wheel runs in an environment of its own.")


if __name__ == "__main__":
    main()
