"""Batches of the decoder: what is put in comes out as Arrow, and nothing that is unsettled is handed over."""

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops import decode
from cdc_ops.decode import compiler
from cdc_ops.decode.batch import Batch
from cdc_ops.decode.cells import ABSENT, MARKED, TEXT, VALUE
from cdc_ops.decode.program import Field, Program, is_supported

NOTHING = np.zeros(0, np.uint8)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "decimal(38,6)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda value: Decimal((value < 0, tuple(map(int, str(abs(value)))), -6))),
    "float": st.floats(allow_nan=False, width=32),
    "double": st.floats(allow_nan=False),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "string": st.text(max_size=9),
    "binary": st.binary(max_size=9),
}
ROWS = st.lists(st.tuples(*(st.none() | values for values in VALUES.values())), max_size=12)


@given(rows=ROWS)
def test_values_of_every_type_come_out_as_they_were_put_in(rows: list[tuple[Any, ...]]) -> None:
    program = Program.of([Field.of(f"c{number}", ddl) for number, ddl in enumerate(VALUES)])
    batch = Batch(program, len(rows))
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            batch.put(row, column, value)
    found = batch.record_batch(NOTHING, len(rows))
    found.validate(full=True)
    assert found.schema == program.arrow
    assert [tuple(row.values()) for row in found.to_pylist()] == rows


def test_a_batch_that_is_used_again_holds_nothing_of_its_last_rows() -> None:
    batch = Batch(Program.of([Field.of("text", "string"), Field.of("number", "int")]), 4)
    for row in range(4):
        batch.put(row, 0, "long text")
        batch.put(row, 1, row)
    first = batch.record_batch(NOTHING, 4)
    batch.clear()
    batch.put(1, 0, "x")
    assert batch.record_batch(NOTHING, 2).to_pylist() == [{"text": None, "number": None}, {"text": "x", "number": None}]
    assert first.to_pylist()[3] == {"text": "long text", "number": 3}


@pytest.mark.parametrize("state", [MARKED, TEXT])
def test_a_cell_that_is_not_settled_is_never_handed_over(state: int) -> None:
    batch = Batch(Program.of([Field.of("number", "int")]), 3)
    batch.cells.state[0, :] = VALUE
    batch.cells.state[0, 2] = state
    assert batch.record_batch(NOTHING, 2).num_rows == 2
    with pytest.raises(ValueError, match="marked"):
        batch.record_batch(NOTHING, 3)


def test_a_column_that_a_record_does_not_have_is_null() -> None:
    batch = Batch(Program.of([Field.of("number", "int")]), 1)
    batch.cells.state[0, 0] = ABSENT
    assert batch.record_batch(NOTHING, 1).to_pylist() == [{"number": None}]


@pytest.mark.parametrize(
    ("ddl", "value"),
    [("tinyint", 128), ("int", -(2**31) - 1), ("bigint", 2**63), ("decimal(4,2)", Decimal("100.00")), ("decimal(4,2)", Decimal("0.001"))],
)
def test_the_exact_way_cannot_put_what_a_type_does_not_hold(ddl: str, value: Any) -> None:
    batch = Batch(Program.of([Field.of("number", ddl)]), 1)
    with pytest.raises(OverflowError):
        batch.put(0, 0, value)


def test_types_without_kernels_are_told_before() -> None:
    assert all(is_supported(ddl) for ddl in VALUES)
    assert not any(is_supported(ddl) for ddl in ("array<int>", "decimal(39,0)", "decimal(2,3)", "interval day", ""))


def test_dates_and_times_before_1970_keep_their_day() -> None:
    batch = Batch(Program.of([Field.of("day", "date"), Field.of("moment", "timestamp_ntz")]), 1)
    batch.put(0, 0, date(1, 1, 1))
    batch.put(0, 1, datetime(1969, 12, 31, 23, 59, 59, 999_999))
    assert batch.record_batch(NOTHING, 1).to_pylist() == [{"day": date(1, 1, 1), "moment": datetime(1969, 12, 31, 23, 59, 59, 999_999)}]


@pytest.mark.long
def test_all_kernels_can_be_compiled_before_they_are_needed() -> None:
    assert decode.is_available()
    assert decode.warm_up() == len(compiler.kernels) >= 4


def test_a_second_process_finds_the_machine_code_of_the_first(tmp_path: Path) -> None:
    program = """
import os, sys
os.environ["CDC_OPS_CACHE"] = sys.argv[1]
import numpy as np
from cdc_ops.decode.cells import Cells
from cdc_ops.decode.text_columns import find_marked
find_marked(Cells.empty(1, 1), 1, np.zeros(1, np.int64), np.zeros(1, np.int64))
print(sum(find_marked.compiled().stats.cache_hits.values()))
"""
    found = [
        subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    assert found == ["0\n", "1\n"]
    assert (tmp_path / "kernels").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels").chmod(0o777)
    for name in ("CDC_OPS_CACHE", "CDC_OPS_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    folder = compiler.cache_folder.__wrapped__()
    assert folder is not None
    assert folder.parent.name != tmp_path.name


def test_without_numba_the_decoder_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    decode.why_unavailable.cache_clear()
    try:
        assert "numba" in decode.why_unavailable()
        assert not decode.is_available()
        assert decode.warm_up() == 0
    finally:
        decode.why_unavailable.cache_clear()
