"""The page docs/quickstart.md, done: its six commands in an empty folder, typed at a terminal, from a database to a table that is equal."""

import os
import pty
import re
import resource
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.dev.servers import MariaDBServer

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/quickstart.md").read_text("utf-8")
TABLES = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, amount DECIMAL(12,2), updated_at DATETIME(6) NOT NULL DEFAULT NOW(6)"
    " ON UPDATE NOW(6), KEY (updated_at))",
    "INSERT INTO orders (id, amount) SELECT seq, seq / 7 FROM seq_1_to_1000",
    "CREATE TABLE countries (code CHAR(2) PRIMARY KEY, name VARCHAR(40))",
    "INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France')",
)


def commands() -> list[str]:
    """The commands of the section that has them all."""
    section = PAGE.partition("## Six commands\n")[2].partition("\n## ")[0]
    return [line for line in section.partition("```\n")[2].partition("```")[0].splitlines() if line]


def test_the_page_needs_six_commands_and_at_most_eight_things() -> None:
    assert len(commands()) == 6
    needs = PAGE.partition("## What you need\n")[2].partition("\n## ")[0]
    rows = [line for line in needs.splitlines() if line.startswith("| ") and not line.startswith("| |")]
    assert 1 < len(rows) <= 8


def typed(script: str, folder: Path, password: str) -> tuple[int, str]:
    """Runs a script at a terminal of 80 columns, and types the password when it is asked for."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CDC_OPS_", "COLUMNS", "PYTHONPATH", "VIRTUAL_ENV"))}
    caches = {"PIP_CACHE_DIR": subprocess.run(["pip", "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()}
    variables = kept | caches | {"HOME": str(folder.parent), "COLUMNS": "80", "TERM": "xterm", "SPARK_LOCAL_IP": "127.0.0.1"}
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execvpe("bash", ["bash", "-ec", script], variables)
    told, answered = b"", False
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        told += part
        sys.stdout.buffer.write(part)
        sys.stdout.flush()
        if not answered and b"Password of" in told:
            os.write(terminal, f"{password}\n".encode())
            answered = True
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), told.decode("utf-8", "replace")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_commands_lead_from_an_empty_folder_to_a_table_that_is_equal(mariadb: MariaDBServer, tmp_path: Path) -> None:
    database = f"quick_{uuid.uuid4().hex[:6]}"
    mariadb.create_database(database)
    mariadb.execute(*TABLES, database=database)
    clone, folder = tmp_path / "cdc-ops", tmp_path / "mine"
    folder.mkdir()
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", clone], check=True)
    for path in ("cdc_ops", "docs"):  # as they are now, committed or not
        shutil.copytree(ROOT / path, clone / path, dirs_exist_ok=True)
    address = str(ConnectionUrl.from_parts("mariadb", mariadb.host, mariadb.port, mariadb.user, None, database).render())
    script = "\n".join(commands())
    for written, meant in (("~/cdc-ops", str(clone)), ("mariadb://cdc@db.example.com/shop", address), ("\npip ", "\ntime pip ")):
        assert written in script
        script = script.replace(written, meant)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    code, told = typed(script, folder, mariadb.password)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime:.0f} s of processor")
    assert code == 0, told
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told)
    verified = shown.rpartition("Rows of source and lake")[2]
    for table in ("orders", "countries"):
        assert re.search(rf"{table} +equal", verified), verified
    assert mariadb.password not in told
    assert oct((folder / ".env").stat().st_mode & 0o777) == "0o600"
    assert (folder / "data/jars").is_dir()
