"""Kernels of binlogs read and write nothing outside of the arrays that they are given, whatever a file holds."""

import os
import subprocess
import sys

import pytest

from tests.conftest import LOCAL
from tests.unit import test_fast_binlogs


@pytest.mark.long
def test_no_kernel_reads_or_writes_outside_of_what_it_was_given() -> None:
    chosen = "changed_bytes or cut_file or batches_of_any_size or after_it_was_scanned"
    command = [sys.executable, "-m", "pytest", "-q", test_fast_binlogs.__file__, "-k", chosen]
    checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "CDC_OPS_CACHE": str(LOCAL / "cache" / "checked")}
    done = subprocess.run(command, env=checked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "11 passed" in done.stdout
