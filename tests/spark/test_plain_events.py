"""The compiled decoder of change events beside the exact way: what it takes, both read alike; what it does not take, it leaves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cdc_ops.formats.registry import open_format
from pyspark.sql import SparkSession

from cdc_ops.testing.format_suite import GoldenFolder
from tests.conftest import LOCAL, ROOT
from tests.plain_events import differences, exact_rows, plain_rows
from tests.plain_formats import CASES, FormatCase

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "formats"
SHORT = {"debezium-mysql, decimals as text", "debezium-postgres, decimals as bytes", "maxwell"}
"""The formats of every run: one of each envelope. The others repeat its kernels (`make test-long`)."""
GOLDEN_PLAIN = {
    "debezium-mysql": 11,
    "debezium-postgres": 3,
    "debezium-mysql-unwrapped": 11,
    "debezium-postgres-unwrapped": 3,
    "canal": 5,
    "ticdc-canal": 5,
}
"""Folders of golden records, and how many of them at least are plain."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name, marks=() if name in SHORT else pytest.mark.long) for name, case in CASES.items()]
)
def test_what_the_decoder_takes_of_valid_strange_and_damaged_records_the_exact_way_reads_alike(
    spark: SparkSession, case: FormatCase
) -> None:
    lines = case.records(20260101).lines(5000)
    plain = plain_rows(case.table, case.format, lines, 1000)
    assert case.share * len(lines) < len(plain) < len(lines)
    without = {-1 - line: {**row, "line": -1 - line} for line, row in plain_rows(case.table, case.format, lines, -1).items()}
    assert not without if case.needs_offsets else case.share * len(lines) / 2 < len(without) <= len(plain)
    both = plain | without
    exact = exact_rows(spark, case.table, case.format, lines, 1000, both)
    assert [(lines[line if line >= 0 else -1 - line], one, other) for line, one, other in differences(exact, both, named=case.named)] == []


@pytest.mark.parametrize(("folder", "least"), GOLDEN_PLAIN.items())
def test_golden_records_are_read_alike(spark: SparkSession, folder: str, least: int) -> None:
    golden = GoldenFolder(GOLDEN / folder)
    lines = [(value or "").encode() for value, *_ in golden.records()]
    plain = plain_rows(golden.schema, golden.options, lines, 0)
    assert len(plain) >= least
    named = open_format(golden.options.name).spec.names_table
    assert list(differences(exact_rows(spark, golden.schema, golden.options, lines, 0, plain), plain, named=named)) == []


@pytest.mark.long
def test_no_kernel_reads_or_writes_outside_of_its_arrays() -> None:
    program = """
from tests.plain_events import plain_rows
from tests.plain_formats import CASES
print(min(len(plain_rows(case.table, case.format, case.records(7).lines(3000), 0)) / case.share for case in CASES.values()))
"""
    checked = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_BOUNDSCHECK": "1", "CDC_OPS_CACHE": str(LOCAL / "cache" / "checked")}
    done = subprocess.run([sys.executable, "-c", program], env=checked, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout) > 3000
