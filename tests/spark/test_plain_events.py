"""The compiled decoder of change events beside the exact way: what it takes, both read alike; what it does not take, it leaves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.testing.format_suite import GoldenFolder
from tests.conftest import LOCAL, ROOT
from tests.plain_events import BYTES_SETTINGS, TABLE, TEXT_SETTINGS, Records, differences, exact_rows, plain_rows

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "formats"


@pytest.mark.parametrize(("decimals", "chosen"), [("string", TEXT_SETTINGS), ("precise", BYTES_SETTINGS)])
@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=2, deadline=None, derandomize=True, phases=(Phase.generate,), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_the_decoder_takes_of_valid_strange_and_damaged_records_the_exact_way_reads_alike(
    spark: SparkSession, decimals: str, chosen: dict[str, str], seed: int
) -> None:
    lines = Records(seed, decimals).lines(2500)
    options = FormatOptions(name="debezium-mysql", settings=chosen, accept_losses=("schemas.enable=false",))
    for first in (-1, 1000):
        plain = plain_rows(TABLE, options, lines, first)
        assert 1000 < len(plain) < len(lines)
        exact = exact_rows(spark, TABLE, options, lines, first, plain)
        assert [(lines[line], one, other) for line, one, other in differences(exact, plain)] == []


@pytest.mark.parametrize("folder", ["debezium-mysql"])
def test_golden_records_are_read_alike(spark: SparkSession, folder: str) -> None:
    golden = GoldenFolder(GOLDEN / folder)
    lines = [(value or "").encode() for value, *_ in golden.records()]
    plain = plain_rows(golden.schema, golden.options, lines, 0)
    assert len(plain) > 10
    assert list(differences(exact_rows(spark, golden.schema, golden.options, lines, 0, plain), plain)) == []


def test_no_kernel_reads_or_writes_outside_of_its_arrays() -> None:
    program = """
from cdc_ops.core.events.format_spec import FormatOptions
from tests.plain_events import TABLE, TEXT_SETTINGS, Records, plain_rows
options = FormatOptions(name="debezium-mysql", settings=TEXT_SETTINGS, accept_losses=("schemas.enable=false",))
print(len(plain_rows(TABLE, options, Records(7).lines(3000), 0)))
"""
    checked = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_BOUNDSCHECK": "1", "CDC_OPS_CACHE": str(LOCAL / "cache" / "checked")}
    done = subprocess.run([sys.executable, "-c", program], env=checked, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 1000
