"""The commands of docker-compose.yaml are started, with their secrets as files; `make wheel-check` does so in an environment of its own."""

import sys
from pathlib import Path

import pytest

from tests.container_services import check


@pytest.mark.long
@pytest.mark.timeout(1200)  # ten processes, six of them JVMs or Airflow's
def test_every_service_of_compose_starts_and_takes_its_secrets_from_files(jar_folder: Path, tmp_path: Path) -> None:
    check(Path(sys.executable).parent, tmp_path)
