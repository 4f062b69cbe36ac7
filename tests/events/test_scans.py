"""Scans of archived files: what counts, what is set aside, what is told of a table. Tables of one folder get what each gets alone."""

import gc
import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.events.ddl_changes import Renaming
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.core.pipeline.tables.unknown_tables import KnownTables
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.errors import ArchiveFileError, from_payload
from cdc_ops.events.formats.debezium import records as debezium_records
from cdc_ops.events.record import NOT_JSON, NOT_UTF8, Record
from cdc_ops.events.scan import spreading
from cdc_ops.events.scan.facts import FileFacts
from cdc_ops.events.scan.merging import merged_facts
from cdc_ops.events.scan.request import FileTask, FileTasks, TableTask, UnknownWatch
from cdc_ops.events.scan.scan import collector_paused, scan_file
from cdc_ops.events.scan.spreading import is_unknown
from cdc_ops.events.scan.tables import TableScan
from tests.events.scanned import DEBEZIUM, Scans, changes_of, event, feed_of, folded, without_parts
from tests.unit.test_events import column

TRUNCATE: dict[str, Any] = {"op": "t", "before": None, "after": None}


def table(name: str, kind: str = "varchar(20)") -> TableSchema:
    """A table with a key and a column c0."""
    return TableSchema(table=TableName(schema="shop", name=name), columns=(column("id", "int"), column("c0", kind)), primary_key=("id",))


@pytest.fixture
def scans(tmp_path: Path) -> Scans:
    return Scans(tmp_path, DEBEZIUM)


def rows_of(task: TableTask, *facts: FileFacts, **rules: Any) -> dict[int, Any]:
    """What the events come to: the value of each key, None for one that is gone."""
    found = folded(task, facts, **rules)
    return {} if found is None else {row["id"]: None if row[DELETE_MARK] else row["c0"] for row in found.rows.to_pylist()}


def test_events_come_to_the_last_state_of_each_key_wherever_their_files_and_lines_are(scans: Scans) -> None:
    task = scans.task(table("a"))
    first = scans.write("1.json", *(event("a", 10 * n, n) for n in range(1, 6)), "null", event("other", 25, 1), "")
    second = scans.write(
        "2.json",
        event("a", 60, 1, "one", op="u"),
        event("a", 61, 1, "one more", op="u"),
        event("a", 62, 2, op="d"),
        event("a", 63, 30, "moved", op="u", before={"id": 3, "c0": "x"}),
        event("a", 65, 5, 'quoted "text" \\ and\nline Größe', op="u"),
        event("a", 67, 2, "again"),
        event("a", 67, 2, "again"),
        event("a", 5, 4, "late"),
        event("a", 68, 6, op="d"),
    )
    facts = [scans.one(name, task) for name in (first, second)]
    assert [(one.lines, one.blank, one.found.events, one.found.bad) for one in facts] == [(7, 0, 5, 0), (9, 0, 9, 0)]
    expected = {1: "one more", 2: "again", 3: None, 30: "moved", 4: "x", 5: 'quoted "text" \\ and\nline Größe', 6: None}
    assert rows_of(task, *facts) == rows_of(task, *reversed(facts)) == expected
    kept = scans.task(table("a"), moves_leave=False)
    assert rows_of(kept, *(scans.one(name, kept) for name in (first, second)), deletes=False)[3] == "x"


def test_updates_that_name_some_columns_keep_the_others_and_are_counted(scans: Scans) -> None:
    task = scans.task(table("a"))
    name = scans.write(
        "1.json", event("a", 1, 1, "one"), event("a", 2, 1, op="u", after={"id": 1}), event("a", 3, 2, op="u", after={"id": 2})
    )
    facts = scans.one(name, task)
    assert (facts.found.events, facts.found.partial) == (3, 2)
    found = folded(task, [facts])
    assert found is not None
    assert {row["id"]: (row["c0"], row[PRESENT]) for row in found.rows.to_pylist()} == {1: ("one", None), 2: (None, ["id"])}


def test_a_truncate_empties_the_table_at_its_place_and_nothing_behind_it(scans: Scans) -> None:
    task = scans.task(table("a"))
    name = scans.write("1.json", event("a", 10, 1), event("a", 80, 0, **TRUNCATE), event("a", 81, 2, "new"), event("a", 79, 3))
    facts = scans.one(name, task)
    [place] = facts.found.truncates
    assert place[:2] == (3, 80)
    assert rows_of(task, facts) == {2: "new"}
    assert set(rows_of(task, facts, barrier=None)) == {1, 2, 3}


def test_what_cannot_be_read_is_counted_shown_and_set_aside_byte_by_byte_and_nothing_else(scans: Scans) -> None:
    twice = event("a", 31, 3).replace('"c0": "x"', '"c0": "x", "c0": "y"')
    garbled, strange = b'{"op": "d", "before": {"id": "\xff"}}', '{"op": "x", "source": {"db": "shop", "table": "a"}}'
    wrong = event("a", 66, 6).replace('"id": 6', '"id": "six"')
    lines: list[str | bytes] = [event("a", 1, 1), "garbage", twice, garbled, strange, wrong, event("a", 2, 2), "null"]
    facts = scans.one(scans.write("1.json", *lines), task := scans.task(table("a")))
    rows = feed_of(task, [facts])
    assert {row["kind"] for row in rows} == {"bad"}
    assert [(row["line"], row["raw"]) for row in rows] == [
        (1, "garbage"),
        (2, twice),
        (3, "eyJvcCI6ICJkIiwgImJlZm9yZSI6IHsiaWQiOiAi/yJ9fQ=="),
        (4, strange),
        (5, wrong),
    ]
    reasons = [row["reason"] for row in rows]
    assert reasons[:3] == [NOT_JSON, "the after image has a column twice", NOT_UTF8]
    assert "unknown operation x" in reasons[3]
    assert "column 'id' of the after image: six cannot be read as int" in reasons[4]
    assert (facts.found.bad, facts.found.events) == (5, 2)
    assert [(one.line, one.reason) for one in facts.found.shown] == list(enumerate(reasons, 1))
    assert rows_of(task, facts) == {1: "x", 2: "x"}


def test_a_table_with_a_history_gets_all_rows_with_their_images(scans: Scans) -> None:
    name = scans.write("1.json", event("a", 1, 1), event("a", 2, 1, "y", op="u", before={"id": 1, "c0": "x"}), "null", event("b", 3, 1))
    facts = scans.one(name, task := scans.task(table("a"), keeps_all=True))
    assert [(row["line"], row["kind"], row["before"] and row["before"]["c0"], row["raw"]) for row in feed_of(task, [facts])] == [
        (0, "change", None, None),
        (1, "change", "x", None),
        (2, "control", None, None),
    ]
    assert rows_of(task, facts) == {1: "y"}


def test_records_that_the_table_has_are_counted_and_not_read(scans: Scans) -> None:
    name = scans.write("1.json", event("a", 1, 1), "garbage", event("a", 2, 2))
    facts = scans.one(name, task := scans.task(table("a")), first_line=2)
    assert (facts.lines, facts.found.events, facts.found.bad) == (3, 1, 0)
    assert rows_of(task, facts) == {2: "x"}


KNOWN = KnownTables(entries=("shop.[abc]", "shop.d?"))


@pytest.mark.parametrize("keeps_raw", [True, False])
def test_records_of_tables_that_nobody_names_are_counted_and_set_aside_only_where_that_is_wanted(scans: Scans, keeps_raw: bool) -> None:
    lines = [event("a", 1, 1), event("b", 2, 1), event("d", 3, 1), event("Other", 4, 1), event("d", 5, 2), "null"]
    watch = UnknownWatch(known=KNOWN, url=str(scans.archive), keeps_raw=keeps_raw)
    task = scans.task(table("a"), watch=watch)
    facts = scans.one(scans.write("1.json", *lines), task)
    assert facts.found.unknown == (("shop.Other", 1), ("shop.d", 2))
    assert (facts.found.events, facts.found.bad) == (1, 0)
    rows = [row for row in feed_of(task, [facts]) if row["kind"] == "unknown"]
    assert [row["raw"] for row in rows] == [lines[line] if keeps_raw else None for line in (2, 3, 4)]
    assert rows[1]["reason"] == "the record is of table shop.Other, which the pipeline file does not name"


def test_a_table_with_a_folder_of_its_own_is_known_in_that_only_and_names_are_compared_exactly(scans: Scans) -> None:
    url = "/archive/{schema}.{table}/"
    tables = [("shop", "a"), ("shop", "b"), ("Shop", "a"), ("crm", "x"), ("shop", "ab"), ("", "a")]
    known = KnownTables(entries=("shop.?", "crm.x"))
    own = scans.task(table("a"))
    own = replace(own, archive=replace(own.archive, url="/archive/shop.a"), watch=UnknownWatch(known=known, url=url))
    shared = replace(own, archive=replace(own.archive, url="/archive"), watch=UnknownWatch(known=known, url="/archive"))
    assert [name for name in tables if is_unknown(own, *name)] == tables[1:]
    assert [name for name in tables if is_unknown(shared, *name)] == [tables[2], tables[4], tables[5]]
    assert not any(is_unknown(replace(own, watch=None), *name) for name in tables)


def test_tables_of_a_folder_get_of_one_scan_what_each_gets_alone_and_a_record_is_parsed_once(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [event(name, 10 * n, n, f"{name}{n}") for n in range(20) for name in "abcd"]
    lines += ["null", "garbage", event("a", 300, 0, **TRUNCATE), event("a", 301, 7), event("c", 302, 3).replace('"id": 3', '"id": "three"')]
    name = scans.write("1.json", *lines)
    tables = [table("a"), table("b"), table("c"), table("gone")]
    watch = UnknownWatch(known=KNOWN, url=str(scans.archive), keeps_raw=True)
    settings: list[dict[str, Any]] = [{"watch": watch}, {"keeps_all": True}, {}, {"buckets": 4}]

    parsed = Counter[int]()
    form_of = debezium_records.open_format

    def counting(options: FormatOptions) -> Any:
        form = form_of(options)
        envelopes = form.envelopes

        def counted(record: Record) -> Any:
            parsed[record.line] += 1
            return envelopes(record)

        monkeypatch.setattr(form, "envelopes", counted, raising=False)
        return form

    together = [scans.task(one, **more) for one, more in zip(tables, settings, strict=True)]
    monkeypatch.setattr(debezium_records, "open_format", counting)
    found = scans.read(name, *together)
    monkeypatch.setattr(debezium_records, "open_format", form_of)
    assert set(parsed.values()) == {1}
    assert len(parsed) == len(lines) - 1  # one has no value
    for task, facts, one, more in zip(together, found, tables, settings, strict=True):
        alone = scans.task(one, **more)
        apart = scans.one(name, alone)
        assert without_parts(facts.found) == without_parts(apart.found)
        assert feed_of(task, [facts]) == feed_of(alone, [apart])
        mine, theirs = changes_of(task, [facts]), changes_of(alone, [apart])
        assert (mine is None) == (theirs is None)
        assert mine is None or theirs is None or mine.equals(theirs)
    assert [one.found.events for one in found] == [22, 20, 20, 0]
    assert [one.found.bad for one in found] == [1, 1, 2, 1]  # a record that is of no table is one of each


def test_each_bucket_has_all_changes_of_its_keys_and_a_try_that_is_repeated_writes_other_files(scans: Scans) -> None:
    names = [scans.write(f"{file}.json", *(event("a", 100 * file + n, n % 30, f"{file} {n}") for n in range(90))) for file in range(3)]
    task = scans.task(table("a"), buckets=4)
    facts = [scans.one(name, task) for name in names]
    again = scans.one(names[0], task)
    first, second = (one.found.changes for one in (facts[0], again))
    assert {part.name for part in first}.isdisjoint(part.name for part in second)
    assert [part.size for part in first] == [part.size for part in second]
    seen: dict[int, set[int]] = {}
    for part in (part for one in facts for part in one.found.changes):
        file = pq.ParquetFile(f"{task.changes}/{part.name}")
        assert file.num_row_groups == len(part.buckets)
        for number, bucket in enumerate(part.buckets):
            for row in file.read_row_group(number).to_pylist():
                seen.setdefault(row["key"]["id"], set()).add(bucket)
    assert len(seen) == 30
    assert {len(buckets) for buckets in seen.values()} == {1}, "a key is in two buckets"
    assert len({bucket for buckets in seen.values() for bucket in buckets}) > 1
    single = scans.task(table("a"))
    assert rows_of(task, *facts) == rows_of(single, *(scans.one(name, single) for name in names))


def test_parts_of_a_file_add_up_to_the_file(scans: Scans) -> None:
    lines = [event("a", n, n, op="c" if n % 3 else "r") for n in range(1, 40)]
    lines += ["garbage", event("a", 50, 0, **TRUNCATE), event("a", 51, 1, op="u", after={"id": 1}), event("d", 52, 1), *["bad"] * 9]
    name = scans.write("1.json", *lines)
    watch = UnknownWatch(known=KNOWN, url=str(scans.archive))
    whole = scans.one(name, task := scans.task(table("a"), watch=watch))
    ends = [0]
    for line in lines:
        ends.append(ends[-1] + len(line.encode()) + 1)
    size, parts = ends[-1], []
    for begin, stop in ((0, 7), (7, 41), (41, len(lines))):
        cut = FileTasks(files=(FileTask(path=name, size=size),), start=ends[begin], stop=ends[stop], first_line=begin)
        parts += scan_file((task,), cut)
    [merged] = merged_facts(parts)
    assert (merged.lines, merged.blank) == (whole.lines, whole.blank) == (len(lines), 0)
    assert without_parts(merged.found) == without_parts(whole.found)
    assert rows_of(task, merged) == rows_of(task, whole)


def test_files_that_begin_with_a_mark_end_lines_with_cr_lf_or_are_packed_are_read_as_any_other(scans: Scans) -> None:
    plain = scans.write("1.json", *(event("a", n, n % 7, f"first {n}") for n in range(50)))
    second = [f"{event('a', 100 + n, n % 5, f'then {n}', op='u')}\n".encode() for n in range(50)]
    (scans.archive / plain).write_bytes(b"\xef\xbb\xbf" + (scans.archive / plain).read_bytes().replace(b"\n", b"\r\n").rstrip(b"\r\n"))
    (scans.archive / "2.json.gz").write_bytes(gzip.compress(b"".join(second[:20])) + gzip.compress(b"".join(second[20:])))
    task = scans.task(table("a"))
    facts = [scans.one(name, task) for name in (plain, "2.json.gz")]
    assert [(one.lines, one.found.bad) for one in facts] == [(50, 0), (50, 0)]
    assert rows_of(task, *facts) == {**{n: f"then {45 + n}" for n in range(5)}, 5: "first 47", 6: "first 48"}


def test_a_file_that_cannot_be_read_fails_all_tables_by_the_same_words_and_names_itself(scans: Scans) -> None:
    (scans.archive / "t.json.gz").write_bytes(gzip.compress(event("a", 1, 1).encode())[:40])
    (scans.archive / "t.json.lz4").write_bytes(b"...")
    for name in ("t.json.gz", "t.json.lz4"):
        first, second = scans.read(name, scans.task(table("a")), scans.task(table("b")))
        assert first.failure == second.failure
        error = from_payload(dict(first.failure))
        assert isinstance(error, ArchiveFileError)
        assert name in str(error)


def test_events_before_a_statement_are_read_under_the_name_of_now_and_no_others(scans: Scans) -> None:
    def record(pos: int, image: str) -> str:
        return event("a", pos, 0).replace('"id": 0, "c0": "x"', image)

    lines = (
        *(record(100, '"id": 1, "NAME": 7'), record(200, '"id": 2, "name": 7'), record(300, '"id": 3, "c": 7')),
        *(record(400, '"id": 4, "name": 7'), record(100, '"id": 5, "name": 7, "c0": 8')),
        *(record(100, '"id": 6, "name": 7, "name": 8'), record(100, '"id": 7, "c": 7')),
        *(record(900, '"id": 8, "other": 7'), record(100, '"id": 9, "other": 7, "other": 8')),
    )
    first = Renaming(old="name", new="c0", since=(), until=(3, 300, 1, -1, 0))
    second = Renaming(old="c", new="c0", since=(3, 300, 1, -1, 0), until=(3, 400, 1, -1, 0))
    task = scans.task(table("a", "int"), keeps_all=True, renamed=(("other", "c0"),), renamings=(first, second))
    facts = scans.one(scans.write("1.json", *lines), task)
    assert [(row["kind"], row["after"] and row["after"]["c0"]) for row in feed_of(task, [facts])] == [
        *(("change", 7), ("change", 7), ("change", 7), ("change", None)),
        *(("change", 8), ("bad", None), ("change", None)),
        *(("change", 7), ("bad", None)),
    ]


def test_what_events_tell_of_columns_is_told_of_the_file(scans: Scans) -> None:
    lines = (
        event("a", 1, 1, after={"id": 1}),
        event("a", 2, 2, after={"id": 2, "strange": 1}),
        event("a", 3, 1, "y", op="u", after={"id": 1, "c0": "y", "odd": 1}),
        json.dumps({"source": json.loads(event("a", 4, 1))["source"], "databaseName": "shop", "ddl": "ALTER TABLE a ADD x INT"}),
    )
    facts = scans.one(scans.write("1.json", *lines), scans.task(table("a"), declared=("id", "c0")))
    drift = facts.found.drift
    assert (drift.lacking, drift.named, drift.unmapped, drift.undeclared) == (2, (("id",),), ("strange",), ("odd", "strange"))
    assert [(one.text, one.schema) for one in drift.statements] == [("ALTER TABLE a ADD x INT", "shop")]


def test_changes_behind_the_newest_one_before_are_counted(scans: Scans) -> None:
    name = scans.write("1.json", event("a", 10, 1), event("a", 20, 2), event("a", 5, 3), event("a", 4, 4, op="r"))
    everything = scans.one(name, task := scans.task(table("a")))
    order = everything.found.order
    assert (order.lowest[:2], order.place[:2], order.behind) == ((3, 4), (3, 20), 0)
    assert (order.last, order.at) == ("2023-11-14T22:13:20.020000",) * 2
    late = scans.one(name, task, newest=order.place).found.order
    assert (late.behind, late.behind_at) == (2, "2023-11-14T22:13:20.010000")  # rows of a snapshot do not count


def test_files_of_a_scan_say_by_which_calendar_their_dates_are_so_that_spark_reads_those_before_1582(scans: Scans) -> None:
    task = scans.task(table("orders", "date"), keeps_all=True)
    facts = scans.one(scans.write("a.json", event("orders", 1, 1, -500_000)), task)
    parts = [*((task.changes, part) for part in facts.found.changes), *((task.feed, part) for part in facts.found.feed)]
    assert len(parts) == 2
    for folder, part in parts:
        assert b"org.apache.spark.version" in pq.read_metadata(f"{folder}/{part.name}").metadata


def test_tables_read_what_they_have_before_they_hold_too_many_bytes_of_others(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record's values are views into the bytes of all that was taken apart with it: a rare table would keep those of a whole file."""
    monkeypatch.setattr(spreading, "_AT_ONCE", 2_000)
    monkeypatch.setattr(spreading, "_MOST_HELD", 10_000)
    reads: list[int] = []
    read = TableScan.read

    def counted(table: TableScan) -> None:
        reads.append(len(table._records))
        read(table)

    monkeypatch.setattr(TableScan, "read", counted)
    task = scans.task(table("rare"))
    path = scans.write("1.json", *(event("rare" if n % 50 == 0 else "big", n, n, str(n)) for n in range(1, 501)))
    facts = scans.one(path, task)
    assert facts.found.events == 10
    assert sum(reads) == 10
    assert len(reads) > 5


def test_the_collector_is_on_again_however_scans_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second scan begins while the first one runs, and ends behind it; or the other way round."""
    assert gc.isenabled()
    for order in ("first", "second"):
        first, second = collector_paused(), collector_paused()
        first.__enter__()
        assert not gc.isenabled()
        second.__enter__()
        for one in (first, second) if order == "first" else (second, first):
            one.__exit__(None, None, None)
        assert gc.isenabled()
    with pytest.raises(ValueError, match="broken"), collector_paused():
        raise ValueError("broken")
    assert gc.isenabled()
    first, second, is_enabled = collector_paused(), collector_paused(), gc.isenabled
    first.__enter__()

    def asked_before_the_first_one_ends() -> bool:
        found = is_enabled()
        first.__exit__(None, None, None)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(gc, "isenabled", asked_before_the_first_one_ends)
        second.__enter__()
    second.__exit__(None, None, None)
    assert gc.isenabled()
