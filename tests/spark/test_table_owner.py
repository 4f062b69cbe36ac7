"""A Delta table gets another owner: its rows stay, and no number that was drawn under the old name commits any more."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.operation import app_id
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import owner_of, read_head
from cdc_ops.lake.spark.session import idempotent_write, private_session
from cdc_ops.lake.table.owner import HandOver, hand_over
from tests.lake_case import PIPELINE, TABLE, Lake, watermark

NEW = "renamed"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    made = Lake(spark, tmp_path)
    made.load([(1, "a"), (2, "b")])
    return made


def give(lake: Lake, number: int, old: str = PIPELINE, new: str = NEW) -> None:
    hand_over(lake.spark, HandOver(path=lake.path, table=TABLE, old=old, new=new, number=number, run_id="run"))


def append(lake: Lake, pipeline: str, number: int) -> None:
    """Appends a row as the statement of an operation does, behind all checks."""
    with private_session(lake.spark, idempotent_write(app_id(pipeline, TABLE), number)) as session:
        session.table(f"delta.`{lake.path}`").limit(1).write.format("delta").mode("append").save(lake.path)


def test_the_new_owner_finds_the_state_and_the_old_one_a_table_of_another(lake: Lake) -> None:
    before = read_head(lake.path, PIPELINE, TABLE)
    give(lake, 3)
    head = read_head(lake.path, NEW, TABLE)
    assert head is not None
    assert head.record is not None
    assert (head.txn_version, head.record.op_seq, head.record.pipeline) == (3, 3, NEW)
    assert head.record.progress.watermark == watermark(1)
    assert (head.foreign_app_ids, head.foreign_changes, owner_of(lake.path)) == ((), (), (NEW, str(TABLE)))
    old = read_head(lake.path, PIPELINE, TABLE)
    assert before is not None
    assert before.record is not None
    assert old is not None
    assert (old.txn_version, old.record, old.foreign_app_ids) == (None, None, (app_id(NEW, TABLE),))
    assert lake.rows() == [(1, "a"), (2, "b")]


def test_no_number_of_the_old_name_commits_any_more_and_the_next_of_the_new_one_does(lake: Lake) -> None:
    give(lake, 3)
    for number in (2, 3):
        append(lake, PIPELINE, number)
    append(lake, NEW, 3)
    assert len(lake.rows()) == 2
    append(lake, NEW, 4)
    assert len(lake.rows()) == 3


def test_it_may_be_repeated_and_given_back(lake: Lake) -> None:
    give(lake, 3)
    version = DeltaLog(lake.path).newest() or 0
    give(lake, 3)
    state = DeltaLog(lake.path).state(version)
    assert state.property("cdc_ops.former_pipelines") == PIPELINE
    give(lake, 5, NEW, PIPELINE)
    head = read_head(lake.path, PIPELINE, TABLE)
    assert head is not None
    assert (head.txn_version, head.foreign_app_ids, owner_of(lake.path)) == (5, (), (PIPELINE, str(TABLE)))
    append(lake, NEW, 5)
    assert len(lake.rows()) == 2


def test_a_third_pipeline_still_finds_a_table_of_another(lake: Lake) -> None:
    give(lake, 3)
    head = read_head(lake.path, "third", TABLE)
    assert head is not None
    assert app_id(NEW, TABLE) in head.foreign_app_ids
