"""The conformance suite for formats: what every implementation of `Format` has to prove; for third parties too; outside the data path.

    class TestMyFormat(FormatSuite):
        name = "my_package.my_format:make"
        folder = Path(__file__).parent / "golden" / "my-format"

The folder holds `table.json` (columns, keys, settings of the format), two files per case of `CASES`, and `cannot.json` with a reason for
each case that the format cannot express. `<case>.jsonl` has the tool's records, one per line; `<case>.expected.json` has the rows of the
canonical feed, without fields that are NULL, false or empty. If a folder beside this one expects the same feed for a case, `expected_in`
in `table.json` names that folder and case instead of a copy.

For CSV, `<case>.csv` is a whole file. For Parquet, `<case>.jsonl` has each row as the JSON object that a format gets. If file names matter,
`files` in `table.json` has the name for each case, or under `*` for all others. For Avro, `<case>.avro.json` is a list of files, each as
`{"schema": …, "records": […]}`; the suite writes and reads these, see `cdc_ops.dev.avro`. `schema` may be the name of a file with it.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pytest

from cdc_ops.archives.local import LocalArchive
from cdc_ops.core.events.change_feed import feed_columns
from cdc_ops.core.events.format_spec import Container, FormatOptions, FormatSpec, LossySetting, RecordKind
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.schema.declared_tables import TypeDialect, declared_column
from cdc_ops.core.schema.server_types.mysql_types import mysql_mapping
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping
from cdc_ops.core.schema.server_types.unsigned_bigints import is_unsigned, too_large_column, widened
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.dev.avro import avro_file
from cdc_ops.errors import ConfigError, SourceTableError
from cdc_ops.events.conversion.values import ValueTooLargeError
from cdc_ops.events.format import Format
from cdc_ops.events.images import of_64_bits
from cdc_ops.events.parse import envelopes_of_each
from cdc_ops.events.record import Record
from cdc_ops.events.records.files import open_records
from cdc_ops.events.registry import open_format
from cdc_ops.events.table import TableReader, is_of

__all__ = ["FormatSuite", "GoldenFolder"]

CASES: Final = (
    *("insert", "update", "delete", "tombstone", "update_pk", "truncate", "null_vs_missing", "unsigned_bigint", "decimal", "zero_date"),
    *("json", "enum_set", "ddl", "out_of_order", "duplicate", "snapshot"),
)
"""The names of the cases, the same for every format."""

_NOT_A_RECORD: Final = b'{"half": "a rec'


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

    def records(self, root: Path) -> Iterator[Record]:
        """Yields the records of all cases, in files whose names begin with the case.

        Args:
            root: An empty folder for files of containers other than lines.
        """
        for case in self.cases:
            name = self.names.get(case) or self.names.get("*")
            file = f"{case}/{name}" if name else case
            match self.container:
                case Container.AVRO:
                    yield from self._avro_records(case, root)
                case Container.CSV:
                    yield from self._read(root, case, (self.folder / f"{case}{self._suffix}").read_bytes(), file)
                case _:
                    yield from (self._record(line.encode() or None, file, number) for number, line in enumerate(self._lines(case)))

    def _record(self, value: bytes | None, file: str, line: int, offset: int | None = None) -> Record:
        place = (0, line if offset is None else offset) if self.has_offsets else (None, None)
        return Record(value, file, line, *place)

    def _read(self, root: Path, name: str, data: bytes, file: str, first: int = 0) -> Iterator[Record]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        with closing(LocalArchive(str(root))) as archive:
            spec = open_format(self.options).spec
            reader = open_records(archive, name, len(data), spec, self.options)
            for batch in reader.batches():
                yield from (self._record(value, file, line, first + line) for value, line in batch)

    def _avro_records(self, case: str, root: Path) -> Iterator[Record]:
        offset = 0
        for number, file in enumerate(json.loads((self.folder / f"{case}{self._suffix}").read_text("utf-8"))):
            schema = file["schema"]
            described = json.loads((self.folder / schema).read_text("utf-8")) if isinstance(schema, str) else schema
            name = f"{case}/{number:03}.avro"
            yield from self._read(root, name, avro_file(described, file["records"]), name, offset)
            offset += len(file["records"])

    def _lines(self, case: str) -> list[str]:
        text = (self.folder / f"{case}{self._suffix}").read_bytes().decode("utf-8")  # read_text would read CR LF as LF
        return text.removesuffix("\n").split("\n")

    @property
    def _suffix(self) -> str:
        return {Container.CSV: ".csv", Container.AVRO: ".avro.json"}.get(self.container, ".jsonl")

    def expected(self, case: str) -> Any:
        """Returns the expected feed of a case."""
        return json.loads(self.expected_file(case).read_text("utf-8"))

    def expected_file(self, case: str) -> Path:
        """Returns the file with the expected feed of a case: in this folder, or in the one that `expected_in` names."""
        return self.folder.parent / self._owners.get(case, self.folder.name) / f"{case}.expected.json"


def shown(feed: pa.Table) -> list[tuple[str, dict[str, Any]]]:
    """Returns the rows of a feed as plain data by the file that they came from, without values that are NULL, false or empty."""
    rows = []
    types = {field.name: field.type for field in feed.schema}
    for row in feed.cast(pa.schema([field.with_type(_in_numbers(field.type)) for field in feed.schema])).to_pylist():
        place = list(row["position"].values())
        data = {name: _shown(value, types[name]) for name, value in row.items() if name not in ("file", "line", "raw")}
        if row["kind"] == RecordKind.CONTROL:  # nobody looks at its place
            data.pop("position")
        kept = {name: value for name, value in data.items() if value not in (None, False, [], {})}
        rows.append((row["file"], row["line"], place, kept))
    return [(file, kept) for file, _, _, kept in sorted(rows, key=lambda row: (row[0], row[1], repr(row[2])))]


def _in_numbers(kind: pa.DataType) -> pa.DataType:
    """Returns a type with days and microseconds in place of dates and times: Python has no year 10000."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_numbers(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_in_numbers(kind.value_type))
    return pa.int32() if pa.types.is_date32(kind) else pa.int64() if pa.types.is_timestamp(kind) else kind


def _printed(number: int, kind: pa.DataType) -> str:
    """Returns a date or a time as Spark prints it; years beyond 9999 have a sign."""
    days, micros = (number, 0) if pa.types.is_date32(kind) else divmod(number, 86_400_000_000)
    text = str(np.datetime64(days, "D"))
    text = f"+{text}" if len(text.partition("-")[0]) > 4 else text
    if pa.types.is_date32(kind):
        return text
    seconds, fraction = divmod(micros, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return f"{text}T{clock}{'' if kind.tz is None else 'Z'}"


def _shown(value: Any, kind: pa.DataType) -> Any:
    """Returns a value as the expected files have it; numbers with a fraction are text there."""
    match value:
        case dict():
            return {field.name: shown for field in kind if (shown := _shown(value[field.name], field.type)) is not None}
        case list():
            return [_shown(inner, kind.value_type) for inner in value]
        case int() if pa.types.is_temporal(kind):
            return _printed(value, kind)
        case bool() | int() | str() | None:
            return value
        case float():
            return of_64_bits(value, str(np.float32(value)) if pa.types.is_float32(kind) else "")
        case Decimal():
            return int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else str(value)
        case bytes():
            return b64encode(value).decode()
        case _:
            raise TypeError(f"{value!r} is in no feed")


def feed_of(form: Format, golden: GoldenFolder, records: Iterable[Record]) -> pa.Table:
    """Returns the canonical feed of some records."""
    reader = TableReader(form, golden.schema, golden.keys)
    of_files = [list(some) for _, some in groupby(records, key=attrgetter("file"))]
    taken = [pair for some in of_files for pair in zip(some, envelopes_of_each(form, some), strict=True)]
    found = [(one, envelope) for one, envelopes in taken for envelope in envelopes if is_of(envelope, golden.schema.table)]
    return reader.read([record for record, _ in found], [envelope for _, envelope in found]).feed()


class FormatSuite:
    """Subclass it with `name` and `folder`; every method is one promise of the protocol."""

    name: ClassVar[str]
    folder: ClassVar[Path]

    @pytest.fixture
    def golden(self) -> GoldenFolder:
        """The golden files."""
        return GoldenFolder(self.folder, open_format(FormatOptions(name=self.name)).spec.files.container)

    @pytest.fixture
    def form(self, golden: GoldenFolder) -> Format:
        """The format under test."""
        return open_format(golden.options)

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

    def test_all_cases_come_out_as_they_are_expected(self, form: Format, golden: GoldenFolder, tmp_path: Path) -> None:
        """The feed has the promised columns and the expected rows of every case; other records are bad, with a reason."""
        half = Record(_NOT_A_RECORD, "half written", 0)
        feed = feed_of(form, golden, (*golden.records(tmp_path), half))
        assert feed.column_names == [name for name, _ in feed_columns(form.spec, golden.schema, golden.keys) if name != "raw"]
        found: dict[str, list[Any]] = {}
        for case, row in shown(feed):
            found.setdefault(case.partition("/")[0], []).append(row)
        [bad] = found.pop("half written")
        assert bad["kind"] == RecordKind.BAD
        assert bad["reason"]
        for case in golden.cases:
            assert found.get(case, []) == golden.expected(case), case

    def test_an_unsigned_number_that_its_column_does_not_hold_stops_the_read(
        self, form: Format, golden: GoldenFolder, tmp_path: Path
    ) -> None:
        """A BIGINT UNSIGNED may be stored as BIGINT: a larger value then fails and names its column, which can be widened."""
        if "unsigned_bigint" in golden.cannot:
            return
        unsigned = {column.name for column in golden.schema.columns if is_unsigned(column)}
        kept = (column for column in golden.schema.columns if column.name in unsigned.union(golden.keys))
        columns = (replace(column, delta_type="bigint") if column.name in unsigned else column for column in kept)
        golden.schema, golden.cases = replace(golden.schema, columns=tuple(columns)), ("unsigned_bigint",)
        with pytest.raises(ValueTooLargeError) as failure:
            feed_of(form, golden, golden.records(tmp_path))
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
