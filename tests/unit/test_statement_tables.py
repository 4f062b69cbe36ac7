"""Which tables a statement concerns that a binlog has in place of rows, and that it is a gap for those tables only."""

import io

import pytest

from cdc_ops.core.archive.binlogs.binlog_sequence import facts_of
from cdc_ops.core.archive.files import ListedFile
from cdc_ops.core.archive.read_files import ReadFile
from cdc_ops.core.archive.watermarks import AcceptedGap, ArchiveWatermark, PartitionWatermark
from cdc_ops.core.binlog.unfollowed import UnfollowedChange
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.verified_batch import VerifiedBatch, after_reading
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.events.binlog.decoder import BinlogFile
from cdc_ops.events.statement_tables import changed_tables, concerns
from cdc_ops.steps.log.event_files import covers_of_files
from tests.binlog_files import BinlogWriter, read_file
from tests.state_values import NOON

ITEMS, OTHER = (TableName(schema="shop", name=name) for name in ("items", "other"))
RULES = ArchiveConfig.of(url="/binlogs", format="mysql-binlog", layout="binlog")


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("ALTER TABLE other DROP PARTITION p1", "shop.other"),
        ("alter table `Other` TRUNCATE PARTITION ALL", "shop.other"),
        ("ALTER TABLE other EXCHANGE PARTITION p1 WITH TABLE db2.`odd ``name`", "shop.other db2.odd `name"),
        ("ALTER TABLE other DISCARD TABLESPACE /* items */", "shop.other"),
        ("ALTER TABLE IF EXISTS other CONVERT PARTITION p TO TABLE aside", "shop.other shop.aside"),
        ("ALTER TABLE other COMMENT 'to table items', DROP PARTITION p", "shop.other"),
        ("INSERT INTO other SELECT * FROM items", "shop.other"),
        ("REPLACE LOW_PRIORITY other VALUES (1, 'items')", "shop.other"),
        ("UPDATE other SET a = (SELECT max(id) FROM items) WHERE b IN (SELECT 1 FROM items)", "shop.other"),
        ("UPDATE other, db2.t AS x JOIN u ON u.id = x.id SET other.a = 1, x.b = 2", "shop.other db2.t shop.u"),
        ("DELETE FROM other WHERE id IN (SELECT id FROM items)", "shop.other"),
        ("WITH c AS (SELECT id FROM items) DELETE FROM other WHERE id IN (SELECT id FROM c)", "shop.other"),
        ("CREATE TABLE other AS SELECT * FROM items", "shop.other"),
        ("LOAD DATA LOCAL INFILE '/tmp/items' IGNORE INTO TABLE `other` (a, b)", "shop.other"),
    ],
)
def test_a_statement_changes_the_tables_that_it_names_as_such(sql: str, tables: str) -> None:
    expected = {tuple(name.split(".", 1)) for name in tables.replace("odd `name", "odd_`name").split()}
    assert changed_tables(sql, "shop") == {(schema, name.replace("odd_", "odd ")) for schema, name in expected}
    change = UnfollowedChange(start=4, end=9, database="shop", sql=sql)
    assert concerns(change, OTHER)
    assert not concerns(change, ITEMS)


@pytest.mark.parametrize(
    ("sql", "items", "other"),
    [
        ("", True, True),  # not known at all
        ("CALL p()", True, True),
        ("DO f(1)", True, True),
        ("SELECT f()", True, True),
        ("MYSTERIOUS NEW STATEMENT ON items", True, False),
        ("MYSTERIOUS NEW STATEMENT ON my_items, items2, `other`", False, True),
        ("/*!50100 ALTER TABLE items DROP PARTITION p1 */", True, False),
        ('UPDATE "items" SET a = 1', True, False),  # ANSI_QUOTES
    ],
)
def test_a_statement_that_is_not_understood_concerns_what_its_text_names_and_one_that_calls_concerns_all(
    sql: str, items: bool, other: bool
) -> None:
    change = UnfollowedChange(start=4, end=9, database="shop", sql=sql)
    assert (concerns(change, ITEMS), concerns(change, OTHER)) == (items, other)


def test_of_a_statement_that_is_cut_only_the_begin_tells() -> None:
    for sql, items in (("INSERT INTO other VALUES (1", False), ("INSERT INTO items VALUES (1", True), ("UPDATE other SET a = 'x", True)):
        assert concerns(UnfollowedChange(start=4, end=9, database="shop", sql=sql, is_cut=True), ITEMS) is items


def files() -> list[ReadFile]:
    found = []
    for number, sql in ((1, ""), (2, "ALTER TABLE other DROP PARTITION p1"), (3, "")):
        writer = BinlogWriter()
        writer.gtid_list((0, 1, 10 * number))
        writer.transaction(10 * number + 1, (number, "x"))
        if sql:
            writer.gtid(10 * number + 2, flags=1)
            writer.query(sql)
        data = writer.rotate(f"binlog.00000{number + 1}")
        opened = BinlogFile.open(f"binlog.00000{number}", lambda data=data: io.BytesIO(data))  # type: ignore[misc]
        found.append(read_file(facts_of(opened.name, opened.scan)))
    return found


def proven(table: TableName, found: list[ReadFile], *decisions: AcceptedGap, before: tuple[int, int] = (1, 0)) -> VerifiedBatch:
    listed = tuple(ListedFile(path=file.path, size=1) for file in found)
    watermark = ArchiveWatermark(streams=(PartitionWatermark(stream="binlog", to=before),))
    log = LogBatch(archive=RULES, url="/binlogs", files=listed, before=watermark, decisions=decisions)
    return after_reading(log, covers_of_files(found, log, table), table=str(table))


def test_a_statement_is_a_gap_for_its_table_that_can_be_accepted_and_nothing_for_another_one() -> None:
    found = files()
    unhurt = proven(ITEMS, found)
    assert (unhurt.gaps, len(unhurt.merged), unhurt.watermark.position_of("binlog")) == ((), 3, (4, 0))

    stopped = proven(OTHER, found)
    [gap] = stopped.gaps
    assert stopped.merged == ("binlog.000001",)
    assert stopped.watermark.position_of("binlog") == (2, 0)  # the file is not read in part
    assert "binlog.000002: shop.other was changed by a statement and no rows: ALTER TABLE other DROP PARTITION p1" in str(gap)
    again = proven(OTHER, found[1:], before=(2, 0))  # told by a commit of nothing, so that somebody can decide
    assert (again.merged, again.gaps, again.watermark.position_of("binlog")) == ((), (gap,), (2, 0))

    decision = AcceptedGap(stream="binlog", low=gap.low, high=gap.high, who="me", at=NOON, why="known")
    accepted = proven(OTHER, found[1:], decision, before=(2, 0))
    assert (accepted.gaps, accepted.merged) == ((), ("binlog.000002", "binlog.000003"))
    assert accepted.watermark.position_of("binlog") == (4, 0)
