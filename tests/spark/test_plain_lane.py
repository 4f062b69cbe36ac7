"""Operations read by the compiled decoder land what they land by the exact way: rows, manifest, bad records, errors."""

import gzip
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cdc_ops.steps.log.plain import opening, probe
from cdc_ops.steps.log.plain.lane import PlainEvents
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.archives.registry import open_archive
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, Decoder
from cdc_ops.core.pipeline.unknown_tables import KnownTables
from cdc_ops.errors import CdcError
from cdc_ops.lake.spark.session import sibling_session
from cdc_ops.steps.log import folded_rows
from cdc_ops.steps.log.land_events import feed_folder, land_events
from cdc_ops.steps.log.shared_scan import SharedScans
from tests.operations import with_fields
from tests.spark.test_shared_reading import Folder, event, facts_of

NULL = "null"


def update(pos: int, number: int, name: str, **others: Any) -> str:
    record = json.loads(event("a", pos, number, name, op="u"))
    return json.dumps({**record, **others})


def batch_of(operation: Operation) -> Any:
    assert isinstance(operation.read, ArchiveRead)
    return operation.read.batch


def decoded_by(operation: Operation, decoder: Decoder) -> Operation:
    log = batch_of(operation)
    return with_fields(operation, log=replace(log, archive=replace(log.archive, decoder=decoder)))


def landed(spark: SparkSession, operation: Operation, decoder: Decoder, said: list[str] | None = None) -> tuple[Any, ...]:
    """What an operation comes to by a decoder; or its error."""
    log = batch_of(operation)
    own = with_fields(decoded_by(operation, decoder), staging=f"{operation.target.staging}-{decoder}")
    session = sibling_session(spark)
    known = KnownTables(entries=("shop.a",)) if log.unknown else None
    readings = SharedScans(spark, (), "app", (said if said is not None else []).append, known)
    try:
        manifest = land_events(session, own, batch_of(own), "try", readings)
    except CdcError as error:
        return type(error), str(error)
    bad = []
    if Path(feed_folder(own, "try")).exists():
        feed = session.read.parquet(feed_folder(own, "try")).where(F.col("raw").isNotNull())
        bad = sorted(tuple(row) for row in feed.select("file", "line", "reason", "raw").collect())
    rows = sorted(map(str, session.read.parquet(f"{own.target.staging}/{manifest.attempt}").collect()))
    return facts_of(manifest), rows, bad


def taken(spark: SparkSession, operation: Operation) -> int:
    """How many events of an operation the fast lane takes."""
    own = decoded_by(operation, Decoder.AUTO)
    found = opening.open_plain(sibling_session(spark), own, batch_of(own), "look")
    assert found is not None
    return found.events(found.scans)


def fill(folder: Folder) -> None:
    """Three files with events of all kinds, and lines that are none."""
    twice = update(31, 3, "x").replace('"c0": "x"', '"c0": "x", "c0": "y"')
    folder.write(*(event("a", 10 * n, n) for n in range(1, 6)), NULL, event("other", 25, 1), "garbage", '{"op": "x"}')
    folder.write(
        update(60, 1, "one"),
        update(61, 1, "one more"),
        event("a", 62, 2, op="d"),
        NULL,
        "",
        update(63, 30, "moved", before={"id": 3, "c0": "x"}),
        update(64, 4, "", after={"id": 4}),
        twice,
        update(65, 5, 'quoted "text" \\ and\nline Größe'),
        event("a", 66, 6).replace('"id": 6', '"id": "six"'),
        event("a", 67, 2, "again"),
        event("a", 67, 2, "again"),
    )
    folder.write(event("a", 70, 7), event("b", 71, 8), event("a", 5, 9, "late"), "", "")


def test_events_of_all_kinds_land_the_same_by_both_decoders(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    fill(folder)
    mixed = folder.operation("a", 0, 1, 2, unknown="elsewhere")
    assert taken(spark, mixed) == 13
    found = []
    for operation in (mixed, folder.operation("a", 0, 1, 2, reached=5), folder.operation("a", 0, 2), folder.operation("a", 1, reached=3)):
        found.append(landed(spark, operation, Decoder.AUTO))
        assert found[-1] == landed(spark, operation, Decoder.EXACT)
    assert sum(not isinstance(one[0], type) for one in found) >= 3, "two equal errors prove nothing"
    folder.write(json.dumps({**json.loads(event("a", 80, 0)), "op": "t", "before": None, "after": None}), event("a", 81, 1, "new"))
    emptied = folder.operation("a", 0, 1, 2, 3)
    assert landed(spark, emptied, Decoder.AUTO) == landed(spark, emptied, Decoder.EXACT)


def test_plain_events_alone_are_folded_in_workers_whatever_their_file_looks_like(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(*(event("a", n, n % 7, f"first {n}") for n in range(50)))
    folder.write(*(update(100 + n, n % 5, f"then {n}") for n in range(50)), event("a", 160, 3, op="d"))
    [plain, second] = [Path(f"{folder.root}/archive/{path}") for path in folder.paths]
    plain.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n").rstrip(b"\r\n"))
    packed = second.with_suffix(".json.gz")
    lines = second.read_bytes().splitlines(keepends=True)
    packed.write_bytes(gzip.compress(b"".join(lines[:20])) + gzip.compress(b"".join(lines[20:])))
    second.unlink()
    folder.paths[1] += ".gz"
    operation = folder.operation("a", 0, 1)
    assert taken(spark, operation) == 101
    said = list[str]()
    by_workers, exact = landed(spark, operation, Decoder.AUTO, said), landed(spark, operation, Decoder.EXACT)
    assert by_workers == exact
    assert not said
    assert len(by_workers[1]) == 7
    assert not Path(f"{operation.target.staging}-auto/try-plain").exists()


def test_events_that_are_written_down_at_one_place_and_differ_are_told_by_both(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(event("a", 10, 1, "x"), event("a", 10, 1, "y"), event("a", 11, 2))
    folder.paths = ["plain.json"]
    Path(f"{folder.root}/archive/plain.json").write_text("\n".join((event("a", 10, 1, "x"), event("a", 10, 1, "y"), event("a", 11, 2))))
    operation = folder.operation("a", 0)
    assert taken(spark, operation) == 3
    told = landed(spark, operation, Decoder.AUTO)
    assert told == landed(spark, operation, Decoder.EXACT)
    assert "no total order" in told[1]


def fill_plain(spark: SparkSession, folder: Folder) -> Operation:
    """Files of which all events are plain: 30 keys, of which one is gone at the end."""
    folder.write(*(event("a", n, n % 30, f"first {n}") for n in range(90)))
    folder.write(*(update(100 + n, n, f"then {n}") for n in range(9)), event("a", 160, 3, op="d"))
    operation = folder.operation("a", 0, 1)
    assert taken(spark, operation) == 100
    return operation


def test_rows_that_a_task_lands_twice_count_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, land, twice = fill_plain(spark, Folder(tmp_path)), PlainEvents.land, list[int]()

    def landed_again(plain: PlainEvents, *arguments: Any) -> Any:
        twice.append(len(land(plain, *arguments)))  # as a task does whose executor dies before it has answered
        return land(plain, *arguments)

    monkeypatch.setattr(PlainEvents, "land", landed_again)
    said = list[str]()
    by_workers = landed(spark, operation, Decoder.AUTO, said)
    assert sum(twice) >= 1
    assert not said
    assert by_workers == landed(spark, operation, Decoder.EXACT)
    assert len(by_workers[1]) == 30


def test_what_workers_cannot_land_spark_lands(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, failures, land = fill_plain(spark, Folder(tmp_path)), list[str](), PlainEvents.land

    def noted(plain: PlainEvents, *arguments: Any) -> Any:
        answers = land(plain, *arguments)
        failures.extend(answer.failure for answer in answers)
        return answers

    monkeypatch.setattr(folded_rows, "make_folder", lambda _: None)  # where executors have no such folder
    monkeypatch.setattr(PlainEvents, "land", noted)
    said = list[str]()
    found = landed(spark, operation, Decoder.AUTO, said)
    assert failures
    assert [line.partition(",")[0] for line in said] == ["shop.a: Spark lands what the events come to"]
    assert all("No such file" in failure for failure in failures)
    assert found == landed(spark, operation, Decoder.EXACT)


def _postgres(place: int, number: int, name: str, op: str) -> str:
    row = {"id": number, "c0": name}
    source = {"schema": "shop", "table": "a", "lsn": place, "sequence": f'["{place}","{place}"]', "ts_ms": 1700000000000 + place}
    return json.dumps({"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": source})


def _flat(place: int, number: int, name: str, op: str) -> str:
    said = {"__op": op, "__deleted": str(op == "d").lower(), "__file": "bin.000003", "__pos": place, "__row": 0, "__connector": "mysql"}
    return json.dumps({"id": number, "c0": name, **said})


def _maxwell(place: int, number: int, name: str, op: str) -> str:
    kinds = {"c": "insert", "u": "update", "d": "delete"}
    head = {"database": "shop", "table": "a", "type": kinds[op], "ts": 1700000000 + place, "position": f"bin.000003:{place}", "xoffset": 0}
    return json.dumps({**head, "data": {"id": number, "c0": name}})


def _ticdc(place: int, number: int, name: str, op: str) -> str:
    kinds = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}
    head = {"database": "shop", "table": "a", "type": kinds[op], "es": 1700000000 + place, "isDdl": False, "_tidb": {"commitTs": place}}
    return json.dumps({**head, "data": [{"id": str(number), "c0": name}]})


OTHER_FORMATS = {
    "maxwell": (
        _maxwell,
        {"output_binlog_position": "true", "output_xoffset": "true", "ignore_producer_error": "false"},
        ("truncate=dropped",),
    ),
    "canal": (_ticdc, {}, ()),
    "ticdc-canal": (_ticdc, {}, ()),
    "debezium-postgres": (_postgres, {"skipped.operations": "none"}, ()),
    "debezium-mysql-unwrapped": (
        _flat,
        {
            "add.fields": "op,file,pos,row,connector",
            "delete.tombstone.handling.mode": "rewrite",
            "replace.null.with.default": "false",
        },
        ("truncate=dropped",),
    ),
}


SHORT = ("maxwell",)
"""The formats of every run: one that is written by rows; envelopes are all above. The others repeat them (`make test-long`)."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in OTHER_FORMATS])
def test_events_of_other_formats_land_the_same_by_both_decoders(spark: SparkSession, tmp_path: Path, name: str) -> None:
    written, settings, losses = OTHER_FORMATS[name]
    folder = Folder(tmp_path)
    folder.write(*(written(10 + n, n, f"first {n}", "c") for n in range(1, 6)), "garbage", written(20, 1, "x", "u").replace('"c0"', '"c1"'))
    folder.write(written(30, 2, "", "d"), written(31, 1, "then", "u"), written(31, 1, "then", "u"), written(29, 4, "late", "u"))
    both = folder.operation("a", 0, 1)
    log = batch_of(both)
    common = {"event.converting.failure.handling.mode": "fail", "converter.replace.null.with.default": "false", "schemas.enable": "false"}
    rules = ArchiveConfig.of(
        format=name,
        settings=tuple(({**common, **settings} if name.startswith("debezium") else settings).items()),
        accept_losses=(*(("schemas.enable=false",) if name.startswith("debezium") else ()), *losses),
        **({} if name.startswith("debezium") else {"time_zone": "UTC"}),
    )
    both = with_fields(both, log=replace(log, archive=replace(rules, url=log.url)))
    assert taken(spark, both) == 9
    by_workers = landed(spark, both, Decoder.AUTO)
    assert by_workers == landed(spark, both, Decoder.EXACT)
    assert not isinstance(by_workers[0], type)


def test_executors_that_cannot_decode_leave_all_to_the_exact_way_and_the_run_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    folder.write(event("a", 10, 1))
    operation, said = folder.operation("a", 0), list[str]()
    monkeypatch.setitem(probe._found, spark.conf.get("spark.app.id"), "of Spark's executors: no module named numba")
    assert landed(spark, operation, Decoder.AUTO, said) == landed(spark, operation, Decoder.EXACT)
    assert said == ["shop.a: Spark reads all events, because the compiled decoder cannot run: of Spark's executors: no module named numba"]


def test_an_archive_that_workers_cannot_read_is_read_by_the_exact_way(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(event("a", 10, 1))
    operation, said = folder.operation("a", 0), list[str]()
    log = batch_of(operation)
    with closing(open_archive(log.url, {})) as archive:
        damaged = Path(f"{folder.root}/archive/{folder.paths[0]}").with_suffix(".json.gz")
        damaged.write_bytes(gzip.compress(event("a", 10, 1).encode())[:40])
        listed = archive.stat([f"{folder.paths[0]}.gz"])
    broken = decoded_by(with_fields(operation, log=replace(log, files=tuple(listed.values()))), Decoder.AUTO)
    assert opening.open_plain(sibling_session(spark), broken, batch_of(broken), "look", said.append) is None
    [line] = said
    assert "could not" in line
