"""What events tell of columns: added up, and said with the command that helps."""

import re
from dataclasses import replace

from cdc_ops.core.events.column_drift import NO_DRIFT, SHOWN, ColumnDrift
from cdc_ops.core.events.ddl_changes import DdlChange, TableChangeKind
from cdc_ops.core.json_codec import dumps, loads
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.schema.schema_evolution import COPY_ANEW
from cdc_ops.events.registry import format_spec


def test_nothing_is_said_where_events_speak_of_all_columns() -> None:
    assert NO_DRIFT.warning == ""
    assert ColumnDrift.total([NO_DRIFT, NO_DRIFT]) == NO_DRIFT


def test_columns_that_rows_came_without_are_named_with_the_command_that_fills_them() -> None:
    said = ColumnDrift(lacking=("region", "kind"), rows=1200).warning
    assert "1,200 events" in said
    assert "'cdc-ops backfill --columns region,kind'" in said
    assert "renamed" not in said


def test_a_table_that_keeps_versions_is_told_what_works_for_it() -> None:
    drift = ColumnDrift.total([ColumnDrift(), ColumnDrift(lacking=("region",), rows=1, keeps_versions=True)])
    assert "backfill" not in drift.warning
    assert "older rows keep their values in region until they change" in drift.warning
    assert drift.warning.endswith(COPY_ANEW)
    gone = replace(drift, changes=(DdlChange(kind=TableChangeKind.TRUNCATED),)).alert
    assert not set(re.findall(r"cdc-ops \w+", gone))
    assert gone.endswith(COPY_ANEW)
    altered = replace(drift, lacking=(), changes=(DdlChange(kind=TableChangeKind.ADDED, column="a", unread=("a",)),))
    assert "older rows keep their values in a until they change" in altered.warning


def test_columns_that_only_events_have_are_told_beside_those_that_they_lack() -> None:
    said = ColumnDrift(lacking=("title",), rows=1, unmapped=("name",)).warning
    assert "'name'" in said
    assert "if a column was renamed, set 'renamed'" in said


def test_columns_that_a_pipeline_leaves_out_are_no_news() -> None:
    assert ColumnDrift(unmapped=("left_out",)).warning == ""


def test_statements_are_said_in_their_own_words_and_not_all_of_many() -> None:
    texts = tuple(f"ALTER TABLE t ADD c{number} INT" for number in range(SHOWN + 2))
    said = ColumnDrift(statements=texts).warning
    assert texts[0] in said
    assert texts[-1] not in said
    assert "and 2 more" in said
    assert "'cdc-ops verify'" in said


def test_empty_lines_are_said() -> None:
    assert "1 line of the files is empty" in Counts(blank=1).warning
    assert "1,200 lines of the files are empty" in Counts(blank=1200).warning
    assert Counts().warning == ""
    assert not format_spec("maxwell").writes_tombstones  # where it is said
    assert format_spec("debezium-mysql").writes_tombstones


def test_operations_add_up() -> None:
    one = ColumnDrift(lacking=("a",), rows=2, unmapped=("x",), statements=("S",))
    two = ColumnDrift(lacking=("a", "b"), rows=3, unmapped=("w",), statements=("S", "T"))
    assert ColumnDrift.total([one, two]) == ColumnDrift(lacking=("a", "b"), rows=5, unmapped=("w", "x"), statements=("S", "T"))


def test_counts_say_it_and_counts_of_an_earlier_version_are_read() -> None:
    counts = Counts(read=1, columns=ColumnDrift(statements=("DROP TABLE t",)))
    assert "DROP TABLE t" in counts.warning
    assert loads(Counts, dumps(counts)) == counts
    assert loads(Counts, '{"read": 3}') == Counts(read=3)
