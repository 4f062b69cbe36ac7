"""The conformance suite for formats: what every implementation of `Format` has to prove; for third parties too; outside the data path.

    class TestMyFormat(FormatSuite):
        name = "my_package.my_format:make"
        folder = Path(__file__).parent / "golden" / "my-format"

The folder holds `table.json` (columns, keys, settings of the format), two files per case of `CASES`, and `cannot.json` with a reason for
each case that the format cannot express. `<case>.jsonl` has the tool's records, one per line; `<case>.expected.json` has the rows of the
canonical feed, without fields that are NULL, false or empty. If a folder beside this one expects the same feed for a case, `expected_in`
in `table.json` names that folder and case instead of a copy. A fixture `spark` provides a session with the time zone UTC.

For CSV, `<case>.csv` is a whole file. For Parquet, `<case>.jsonl` has each row as the JSON object that a format gets. If file names matter,
`files` in `table.json` has the name for each case, or under `*` for all others. For Avro, `<case>.avro.json` is a list of files, each as
`{"schema": …, "records": […]}`; the suite writes and reads these, see `cdc_ops.dev.avro`. `schema` may be the name of a file with it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.archives.local import LocalArchive
from cdc_ops.core.events.change_feed import RECORD_COLUMNS, feed_columns
from cdc_ops.core.events.format_spec import Container, FormatOptions, FormatSpec, LossySetting, RecordKind
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.schema.declared_tables import TypeDialect, declared_column
from cdc_ops.core.schema.mysql_types import mysql_mapping
from cdc_ops.core.schema.postgres_types import postgres_mapping
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.unsigned_bigints import is_unsigned, too_large_column, widened
from cdc_ops.dev.avro import avro_file
from cdc_ops.errors import ConfigError, SourceTableError
from cdc_ops.formats.feed.canonical import canonical_feed, records_of
from cdc_ops.formats.feed.format import Format
from cdc_ops.formats.files.containers import dialect, open_files
from cdc_ops.formats.files.csv import csv_records
from cdc_ops.formats.files.json_lines import RecordFile
from cdc_ops.formats.registry import open_format

CASES: Final = (
    *("insert", "update", "delete", "tombstone", "update_pk", "truncate", "null_vs_missing", "unsigned_bigint", "decimal", "zero_date"),
    *("json", "enum_set", "ddl", "out_of_order", "duplicate", "snapshot"),
)
"""The names of the cases, the same for every format."""

_NOT_A_RECORD: Final = '{"half": "a rec'
_RECORDS: Final = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS)


class GoldenFolder:
    """The golden files of one format.

    Args:
        folder: The folder of the files.
        container: The format's kind of files.
    """

    def __init__(self, folder: Path, container: Container = Container.LINES) -> None:
        self.folder, self.container = folder, container
        described = json.loads((folder / "table.json").read_text("utf-8"))
        columns = [_column(name, declared, described["source"]) for name, declared in described["columns"].items()]
        table = TableName.parse(described["table"])
        self.keys = tuple(described["keys"])
        self.schema = TableSchema(table=table, columns=tuple(columns), primary_key=self.keys)
        self.options = FormatOptions(
            name=described["format"],
            settings=described.get("settings", {}),
            accept_losses=tuple(described.get("accept_losses", ())),
            time_zone=described.get("time_zone", ""),
        )
        self.has_offsets = bool(described.get("offsets"))
        self.names: dict[str, str] = described.get("files", {})
        self._owners: dict[str, str] = {case: other for other, cases in described.get("expected_in", {}).items() for case in cases}
        self.cannot: dict[str, str] = json.loads((folder / "cannot.json").read_text("utf-8"))
        self.cases = tuple(sorted(path.name.removesuffix(self._suffix) for path in folder.glob(f"*{self._suffix}")))
        """The names of the cases that have files."""

    def records(self) -> Iterator[tuple[str | None, str, int, int | None, int | None]]:
        """Yields the lines of all cases, in files whose names begin with the case; an empty line is a record without a value.

        If `offsets` is set in `table.json`, a record's line number is its offset in partition 0 of its topic.
        """
        for case in self.cases:
            name = self.names.get(case) or self.names.get("*")
            file = f"{case}/{name}" if name else case
            for number, line in enumerate(self._lines(case)):
                yield (line or None, file, number, *((0, number) if self.has_offsets else (None, None)))

    def _lines(self, case: str) -> list[str]:
        text = (self.folder / f"{case}{self._suffix}").read_bytes().decode("utf-8")  # read_text would read CR LF as LF
        return text.removesuffix("\n").split("\n")

    @property
    def _suffix(self) -> str:
        return {Container.CSV: ".csv", Container.AVRO: ".avro.json"}.get(self.container, ".jsonl")

    def write_avro(self, root: Path) -> tuple[RecordFile, ...]:
        """Writes the Avro files of all cases below a folder; with `offsets` in `table.json`, file names have partition 0 and offsets."""
        found = []
        for case in self.cases:
            offset = 0
            for number, file in enumerate(json.loads((self.folder / f"{case}{self._suffix}").read_text("utf-8"))):
                path, schema = root / case / f"{number:03}.avro", file["schema"]
                path.parent.mkdir(exist_ok=True)
                named = isinstance(schema, str)
                path.write_bytes(avro_file(json.loads((self.folder / schema).read_text("utf-8")) if named else schema, file["records"]))
                place = (0, offset) if self.has_offsets else (None, None)
                name = path.relative_to(root).as_posix()
                found.append(RecordFile(path=name, uri=str(path), size=path.stat().st_size, partition=place[0], start_offset=place[1]))
                offset += len(file["records"])
        return tuple(found)

    def expected(self, case: str) -> Any:
        """Returns the expected feed of a case."""
        return json.loads(self.expected_file(case).read_text("utf-8"))

    def expected_file(self, case: str) -> Path:
        """Returns the file with the expected feed of a case: in this folder, or in the one that `expected_in` names."""
        return self.folder.parent / self._owners.get(case, self.folder.name) / f"{case}.expected.json"


def shown(feed: DataFrame) -> list[tuple[str, dict[str, Any]]]:
    """Returns the rows of a feed as plain data by the file that they came from, without values that are NULL, false or empty."""
    rows = []
    formats = """map('timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")"""
    text = feed.selectExpr("file", "line", f"to_json(struct(*), {formats}) AS text")
    for row in text.collect():
        data = json.loads(row["text"], parse_float=str)
        place = list(data.get("position", {}).values())
        kept = {name: value for name, value in data.items() if name not in ("file", "line", "raw") and value not in (None, False, [], {})}
        rows.append((row["file"], row["line"], place, kept))
    return [(file, kept) for file, _, _, kept in sorted(rows, key=lambda row: (row[0], row[1], row[2]))]


def feed_of(spark: SparkSession, form: Format, golden: GoldenFolder, root: Path, extra: tuple[Any, ...] = ()) -> DataFrame:
    """Returns the canonical feed of the cases of a folder. Its files are written below `root`, which must exist while the feed is used."""
    if golden.container is Container.AVRO:
        ends, files = LocalArchive(str(root)), golden.write_avro(root)
        records = open_files(spark, files, form.spec, golden.options, ends).records().union(spark.createDataFrame([*extra], _RECORDS))
    else:
        records = spark.createDataFrame([*golden.records(), *extra], _RECORDS)
    if golden.container is Container.CSV:
        records = csv_records(records, dialect(form.spec, golden.options))
    envelopes = records_of(form.envelopes(records, golden.options), golden.schema.table)
    return canonical_feed(form, envelopes, golden.schema, golden.keys, golden.options)


class FormatSuite:
    """Subclass it with `name` and `folder`; every method is one promise of the protocol."""

    name: ClassVar[str]
    folder: ClassVar[Path]

    @pytest.fixture
    def golden(self) -> GoldenFolder:
        """The golden files."""
        return GoldenFolder(self.folder, open_format(self.name).spec.files.container)

    @pytest.fixture
    def form(self) -> Format:
        """The format under test."""
        return open_format(self.name)

    def test_each_case_is_there_or_it_is_said_why_not(self, golden: GoldenFolder) -> None:
        """The golden folder has each of `CASES`, or a reason of more than ten characters."""
        assert set(golden.cases) | set(golden.cannot) >= set(CASES)
        assert not set(golden.cases) & set(golden.cannot)
        assert all(len(reason) > 10 for reason in golden.cannot.values())

    def test_the_order_is_declared_and_made_of_numbers(self, form: Format) -> None:
        """A format declares its order key, and all parts of it are numbers."""
        assert form.spec.order
        assert {part.type.partition("(")[0] for part in form.spec.order} <= {"tinyint", "int", "bigint", "decimal"}

    def test_each_loss_is_refused_by_name_and_can_be_accepted(self, form: Format, golden: GoldenFolder) -> None:
        """`check_format` raises ConfigError for each lossy setting by its name, unless it is accepted."""
        for item in form.spec.lossy:
            if not item.families or any(item.touches(column) for column in golden.schema.columns):
                _assert_refused(form.spec, item, golden)

    def test_a_table_without_key_is_refused(self, form: Format, golden: GoldenFolder) -> None:
        """`check_format` raises SourceTableError for a table without keys."""
        with pytest.raises(SourceTableError, match="key"):
            check_format(form.spec, golden.options, golden.schema, ())

    def test_all_cases_come_out_as_they_are_expected(self, spark: SparkSession, form: Format, golden: GoldenFolder, tmp_path: Path) -> None:
        """The feed has the promised columns and the expected rows of every case; other records are bad, with a reason."""
        feed = feed_of(spark, form, golden, tmp_path, ((_NOT_A_RECORD, "half written", 0, None, None),))
        promised = ", ".join(f"{name} {kind}" for name, kind in feed_columns(form.spec, golden.schema, golden.keys))
        assert feed.dtypes == spark.createDataFrame([], promised).dtypes
        found: dict[str, list[Any]] = {}
        for case, row in shown(feed):
            found.setdefault(case.partition("/")[0], []).append(row)
        [half] = found.pop("half written")
        assert half["kind"] == RecordKind.BAD
        assert half["reason"]
        for case in golden.cases:
            assert found.get(case, []) == golden.expected(case), case

    def test_an_unsigned_number_that_its_column_does_not_hold_stops_the_read(
        self, spark: SparkSession, form: Format, golden: GoldenFolder, tmp_path: Path
    ) -> None:
        """A BIGINT UNSIGNED may be stored as BIGINT: a larger value then fails and names its column, which can be widened."""
        if "unsigned_bigint" in golden.cannot:
            return
        unsigned = {column.name for column in golden.schema.columns if is_unsigned(column)}
        kept = (column for column in golden.schema.columns if column.name in unsigned.union(golden.keys))
        columns = (replace(column, delta_type="bigint") if column.name in unsigned else column for column in kept)
        golden.schema, golden.cases = replace(golden.schema, columns=tuple(columns)), ("unsigned_bigint",)
        with pytest.raises(Exception) as failure:  # noqa: PT011 - Spark's own, whatever its class
            feed_of(spark, form, golden, tmp_path).collect()
        assert too_large_column(str(failure.value)) in unsigned


def _column(name: str, declared: str, source: str) -> Column:
    """Returns a column in a type that holds all of its values."""
    [column] = widened((_stored_column(name, declared, source),))
    return column


def _stored_column(name: str, declared: str, source: str) -> Column:
    if source not in ("mysql", "postgres"):
        return declared_column(name, declared, TypeDialect(source))[0]
    mapping = postgres_mapping(declared) if source == "postgres" else mysql_mapping(declared)
    if mapping is None:
        raise ValueError(f"column {name!r}: no map knows {declared!r}")
    return Column(name=name, source_type=declared, delta_type=mapping.delta_type, nullable=True, expression=name, lossy=mapping.lossy)


def _assert_refused(spec: FormatSpec, item: LossySetting, golden: GoldenFolder) -> None:
    value = item.default if item.loses_at(item.default) else "anything else"
    base = golden.options
    stated = {other.name: other.default for other in spec.lossy if other.stated_without}
    settings = {**stated, **base.settings, item.name: value}
    refused = FormatOptions(name=base.name, settings=settings, accept_losses=(), time_zone=base.time_zone or "UTC")
    others = tuple(other.accepted_by(settings.get(other.name, other.default)) for other in spec.lossy if other is not item)
    lone = FormatOptions(name=base.name, settings=settings, accept_losses=others, time_zone=base.time_zone or "UTC")
    with pytest.raises(ConfigError, match=item.name.replace(".", r"\.")):
        check_format(spec, lone, golden.schema, golden.keys)
    everything = (*others, item.accepted_by(value))
    check_format(
        spec,
        FormatOptions(name=base.name, settings=settings, accept_losses=everything, time_zone=refused.time_zone),
        golden.schema,
        golden.keys,
    )
