"""Each golden case has one expected feed, and each feed is written once."""

from collections import Counter

import pyarrow as pa
import pytest

from cdc_ops.events.registry import FORMAT_SPECS, format_spec
from cdc_ops.testing import format_suite
from cdc_ops.testing.format_suite import GoldenFolder
from tests.conftest import GOLDEN

FOLDERS = [GoldenFolder(GOLDEN / name, format_spec(name).files.container) for name in FORMAT_SPECS]


@pytest.mark.parametrize("golden", FOLDERS, ids=[golden.folder.name for golden in FOLDERS])
def test_each_case_has_one_expected_feed_here_or_in_the_folder_that_is_named(golden: GoldenFolder) -> None:
    own = {path.name.removesuffix(".expected.json") for path in golden.folder.glob("*.expected.json")}
    elsewhere = {case for case in golden.cases if golden.expected_file(case).parent != golden.folder}
    assert len(golden.cases) >= 10
    assert own == {*golden.cases} - elsewhere, "a file beside the one that table.json names is never compared"
    assert [case for case in golden.cases if not golden.expected_file(case).is_file()] == []


def test_no_feed_of_a_case_is_written_twice() -> None:
    files = {golden.expected_file(case) for golden in FOLDERS for case in golden.cases}
    assert len(files) > 200
    written = Counter((path.name, path.read_bytes()) for path in files)
    assert {name: count for (name, _), count in written.items() if count > 1} == {}, "name the other folder in expected_in of table.json"


def test_no_case_gets_lost() -> None:
    assert sum(len(golden.cases) for golden in FOLDERS) >= 397


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        *((1e10, kind, "1.0E10") for kind in (pa.float64(), pa.float32())),
        *((-1.2e8, kind, "-1.2E8") for kind in (pa.float64(), pa.float32())),
        *((float("nan"), kind, "NaN") for kind in (pa.float64(), pa.float32())),
        (5e-324, pa.float64(), "4.9E-324"),
        (0.10000000149011612, pa.float32(), "0.1"),
        (0.10000000149011612, pa.float64(), "0.10000000149011612"),
        (16777216.0, pa.float32(), "1.6777216E7"),
        (-0.0, pa.float64(), "-0.0"),
    ],
)
def test_expected_feeds_have_numbers_as_java_prints_them(value: float, kind: pa.DataType, shown: str) -> None:
    assert format_suite._shown(value, kind) == shown
