"""What `cdc-ops run` shows at a real terminal of 80 columns: how far the read is, a bar, and nothing that is wider than the terminal."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_ops.dev.servers import MariaDBServer
from tests.integration.test_killed_jvm import environment
from tests.world import ORDERS, World

ROWS = 400_000


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("reader", ["jdbc", "native"])
def test_a_first_load_is_seen_at_80_columns_and_is_plain_lines_elsewhere(
    mariadb: MariaDBServer, tmp_path: Path, jar_folder: Path, reader: str
) -> None:
    world = World(mariadb, tmp_path, None)  # type: ignore[arg-type]
    world.sql(ORDERS, f"INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_{ROWS}")
    variables = environment(world, jar_folder) | {"COLUMNS": "80", "TERM": "xterm", "CDC_OPS_LEDGER": world.ledger}
    file = Path(variables["CDC_OPS_PIPELINES"]) / "shop.yaml"
    file.write_text(file.read_text().replace("kind: mariadb,", f"kind: mariadb, reader: {reader},"))
    pid, terminal = pty.fork()
    if not pid:
        os.execve(sys.executable, [sys.executable, "-m", "cdc_ops.cli", "run"], variables)
    told = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        told += part
        if not part:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, told.decode()
    frames = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", one) for one in re.split(r"\x1b\[[0-9]*[AK]|\r|\n", told.decode())]
    assert max(map(len, frames)) <= 80
    name = f"{world.schema}.orders"
    reads = [one for one in frames if f"{name}: reads " in one]
    assert reads, frames
    assert any("━" in one for one in reads), reads
    if reader == "native":  # Spark tells of rows that it reads over JDBC every other second, which may be too late
        whole = " ".join(re.sub(r"[━╸╺]+ \d:\d\d:\d\d", "", one).strip() for one in frames)
        assert re.search(r"reads [\d.]+ k of about \d+ k rows, [\d,]+ +rows/s, +about \d+ s left", whole), reads
    plain = subprocess.run([sys.executable, "-m", "cdc_ops.cli", "run"], env=variables, capture_output=True, text=True, check=True)
    assert "━" not in plain.stderr
