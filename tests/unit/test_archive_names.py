"""What the names of archived files say, tool by tool, and that numbers are numbers."""

import pytest

from cdc_ops.core.archive.file_names import (
    BinlogName,
    Compression,
    DmsName,
    IgnoredFile,
    KafkaName,
    Layout,
    PlainName,
    UnrecognizedFile,
    parse_name,
)
from cdc_ops.core.archive.finished_files import TAIL, has_valid_footer
from cdc_ops.errors import ConfigError

KAFKA = Layout.KAFKA_CONNECT


def kafka(path: str, layout: Layout = KAFKA, **options: str) -> KafkaName:
    name = parse_name(layout, path, **options)
    assert isinstance(name, KafkaName), name
    return name


def test_the_default_partitioner_names_topic_partition_and_offset() -> None:
    name = kafka("topics/shop.orders/partition=3/shop.orders+3+0000000100.json.gz")
    assert (name.topic, name.partition, name.start_offset, name.digits) == ("shop.orders", 3, 100, 10)
    assert (name.extension, name.compression, name.folders, name.stream) == ("json", Compression.GZIP, (), "shop.orders/3")


@pytest.mark.parametrize(
    ("path", "folders"),
    [
        (
            "t/year=2026/month=01/day=31/hour=12/t+0+0000000007.avro",
            (("year", "2026"), ("month", "01"), ("day", "31"), ("hour", "12")),
        ),
        ("t/region=eu/kind=a=b/t+0+0000000007.json", (("region", "eu"), ("kind", "a=b"))),
    ],
)
def test_folders_of_time_and_field_partitioners_are_kept_as_pairs(path: str, folders: tuple[tuple[str, str], ...]) -> None:
    name = kafka(path)
    assert (name.start_offset, name.folders) == (7, folders)


@pytest.mark.parametrize(
    ("file", "extension", "compression"),
    [
        ("t+0+0000000000.snappy.parquet", "snappy.parquet", Compression.NONE),
        ("t+0+0000000000.json.zst", "json", Compression.ZSTD),
        ("t+0+0000000000.json.bz2", "json", Compression.BZIP2),
        ("t+0+0000000000.bin", "bin", Compression.NONE),
        ("t+0+0000000000", "", Compression.NONE),
        ("t+0+0000000000.gz", "", Compression.GZIP),
    ],
)
def test_the_suffix_tells_what_is_around_the_whole_file(file: str, extension: str, compression: Compression) -> None:
    name = kafka(f"t/partition=0/{file}")
    assert (name.extension, name.compression) == (extension, compression)


def test_a_file_in_the_folder_of_another_partition_is_a_stranger() -> None:
    assert isinstance(parse_name(KAFKA, "t/partition=1/t+2+0000000000.json"), UnrecognizedFile)


@pytest.mark.parametrize("file", ["t+0+0000000000.keys.json", "t+0+0000000000.headers.avro", "_SUCCESS", ".part.json", "t+0+1.json.crc"])
def test_what_a_sink_puts_beside_its_data_holds_no_changes(file: str) -> None:
    assert isinstance(parse_name(KAFKA, f"t/partition=0/{file}"), IgnoredFile)


@pytest.mark.parametrize("file", ["t-0-5.json", "t+x+5.json", "notes.txt", "t+0+.json"])
def test_a_name_that_nobody_knows_is_a_stranger_and_not_left_out(file: str) -> None:
    name = parse_name(KAFKA, f"t/partition=0/{file}")
    assert isinstance(name, UnrecognizedFile)
    assert name.why


def test_aivens_default_has_unpadded_offsets_and_topics_with_hyphens() -> None:
    name = kafka("backup/my-topic-12-345.gz", Layout.AIVEN)
    assert (name.topic, name.partition, name.start_offset) == ("my-topic", 12, 345)
    assert (name.digits, name.compression) == (0, Compression.GZIP)


def test_aivens_template_may_have_folders_padding_and_times() -> None:
    template = "{{topic}}/{{timestamp:unit=yyyy}}/{{partition:padding=true}}-{{start_offset:padding=true}}.jsonl"
    name = kafka("prefix/orders/2026/0000000003-00000000000000000100.jsonl.gz", Layout.AIVEN, template=template)
    assert (name.topic, name.partition, name.start_offset, name.digits) == ("orders", 3, 100, 20)
    assert isinstance(parse_name(Layout.AIVEN, "orders/x/3-100.jsonl", template), UnrecognizedFile)


@pytest.mark.parametrize("template", ["{{key}}", "{{topic}}-{{partition}}", "plain"])
def test_a_template_that_does_not_tell_the_records_is_refused(template: str) -> None:
    with pytest.raises(ConfigError, match="template of file names"):
        parse_name(Layout.AIVEN, "a-0-1", template)


def test_binlogs_have_numbers_that_grow_beyond_their_digits() -> None:
    names = [parse_name(Layout.BINLOG, f"db1/mysql-bin.{number}") for number in ("999999", "1000000", "000123")]
    numbers = [name.number for name in names if isinstance(name, BinlogName)]
    assert sorted(numbers) == [123, 999999, 1000000]


def test_binlogs_of_two_hosts_are_two_streams() -> None:
    one, other = (parse_name(Layout.BINLOG, f"{host}/mysql-bin.000001.gz") for host in ("db1", "db2"))
    assert isinstance(one, BinlogName)
    assert isinstance(other, BinlogName)
    assert one.compression is Compression.GZIP
    assert one.stream != other.stream


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("mysql-bin.index", IgnoredFile),
        ("mysql-bin.000001.txt", UnrecognizedFile),
        ("binlog-000001.ibb", UnrecognizedFile),
        ("dump.sql", UnrecognizedFile),
    ],
)
def test_what_lies_beside_binlogs_is_told_apart(file: str, kind: type) -> None:
    assert isinstance(parse_name(Layout.BINLOG, file), kind)


def test_dms_counts_load_files_in_hexadecimal() -> None:
    name = parse_name(Layout.AWS_DMS, "shop/orders/LOAD0000000A.csv.gz")
    assert isinstance(name, DmsName)
    assert (name.schema, name.table, name.is_load, name.order, name.extension) == ("shop", "orders", True, (10,), "csv")


@pytest.mark.parametrize("folder", ["shop/orders", "shop/orders/2014/10/29", "target/shop/orders/20141029"])
def test_dms_changes_are_ordered_by_date_time_and_fraction(folder: str) -> None:
    names = [
        parse_name(Layout.AWS_DMS, f"{folder}/{file}.parquet") for file in ("20141029-1134010000", "20141029-113401999", "20141029-113401")
    ]
    found = [name for name in names if isinstance(name, DmsName)]
    assert {(name.schema, name.table) for name in found} == {("shop", "orders")}
    assert [name.order for name in found] == [(20141029, 113401, 0), (20141029, 113401, 999000000), (20141029, 113401, 0)]


def test_plain_files_say_their_extension_only() -> None:
    assert parse_name(Layout.PLAIN, "a/b.json.gz") == PlainName(path="a/b.json.gz", extension="json", compression=Compression.GZIP)


# ---------------------------------------------------------------------------------------------- endings


def binlog_event(kind: int, body: bytes, end: int) -> bytes:
    length = 19 + len(body)
    return bytes(4) + bytes([kind]) + bytes(4) + length.to_bytes(4, "little") + end.to_bytes(4, "little") + bytes(2) + body


@pytest.mark.parametrize("kind", [3, 4])
def test_a_binlog_that_ends_with_rotate_or_stop_is_closed(kind: int) -> None:
    rows = binlog_event(30, b"x" * 100, 500)
    body = b"" if kind == 3 else bytes(8) + b"mysql-bin.000002"
    size = 500 + 19 + len(body) + 4
    closed = rows + binlog_event(kind, body + b"crc!", size)
    assert has_valid_footer("binlog", closed[-TAIL:], size) is True
    assert has_valid_footer("binlog", rows[-TAIL:], 500) is False
    assert has_valid_footer("binlog", closed[:-3][-TAIL:], size - 3) is False
    assert has_valid_footer("binlog", b"", 0) is False


@pytest.mark.parametrize(
    ("kind", "tail", "answer"),
    [
        ("snappy.parquet", b"PAR1" + bytes(20) + b"PAR1", True),
        ("parquet", b"PAR1" + bytes(20), False),
        ("json", b'{"a":1}\n', True),
        ("jsonl", b'{"a":', False),
        ("avro", b"anything", None),
    ],
)
def test_only_kinds_that_have_an_end_are_judged_by_it(kind: str, tail: bytes, answer: bool | None) -> None:
    assert has_valid_footer(kind, tail, len(tail)) is answer
