"""What an event history comes to is what Spark's expressions made of it, which folded histories before."""

from hashlib import sha256

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.events.fold.history import RANK
from cdc_ops.events.fold.rules import WHOLE, FoldRules
from cdc_ops.lake.history.rows import column_types
from cdc_ops.steps.history import folded_history
from cdc_ops.steps.history.folded_history import fold_rows, of_today
from tests.history_case import KEYS, NAMES, ROWS, SCHEMA, history_rows

STATES = "623eda996140718e"
LANDED: dict[tuple[bool, bool, tuple[str, ...]], str] = {
    (True, False, ()): "0be683ede52686a7",
    (True, False, ("n", "text", "at")): "126a99049f2d1e34",
    (True, True, ()): "93cb028e145621e2",
    (True, True, ("n", "text", "at")): "5a40dc00e2e7902a",
    (False, False, ()): "2157c1eecab1f3f4",
    (False, False, ("n", "text", "at")): "1c263979530bb262",
    (False, True, ()): "a303b9568b3c1f74",
    (False, True, ("n", "text", "at")): "50a9e7682109e634",
}
"""Digests of the rows that Spark's expressions came to, by what the table wants: deletes, versions, NULLs of which columns to ignore."""


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    kinds = column_types(SCHEMA, KEYS)
    return spark.createDataFrame(history_rows(3, 200), ", ".join(f"{name} {kinds[name]}" for name in ROWS.names))


def digest(folded: DataFrame) -> str:
    texts = sorted(repr(sorted(row.items())) for row in folded.toArrow().to_pylist())
    return sha256("\n".join(texts).encode()).hexdigest()[:16]


@pytest.fixture(params=["in tasks", "in this process"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By tasks of Spark, or in this process, as the size of a history decides."""
    monkeypatch.setattr(folded_history, "stored_bytes", lambda _: 3 * folded_history._HERE if request.param == "in tasks" else 0)
    return str(request.param)


def landed(rows: DataFrame, deletes: bool, versions: bool, nulls: tuple[str, ...]) -> DataFrame:
    rules = FoldRules(schema=SCHEMA, keys=KEYS, order=(), deletes=deletes, versions=versions, nulls_ignored=nulls)
    return fold_rows(of_today(rows, SCHEMA.columns, KEYS), rules, ()).drop(RANK)


def states(rows: DataFrame) -> DataFrame:
    folded, gone = fold_rows(rows, FoldRules(schema=SCHEMA, keys=KEYS, order=(), states=True), ()), F.col(DELETE_MARK)
    present = F.when(gone, F.array().cast("array<string>")).otherwise(F.coalesce(PRESENT, F.array(*map(F.lit, NAMES))))
    columns: dict[str, Column] = {
        "key": F.struct(*KEYS), "deleted": gone, "whole": F.col(WHOLE), "row": F.when(~gone, F.struct(*NAMES)), "present": present,
        "place": F.col(SEQUENCE), "rank": F.col(RANK),
    }  # fmt: skip
    return folded.select(*(column.alias(name) for name, column in columns.items()))


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("case", LANDED, ids=str)
def test_what_is_landed_of_a_history_stays_as_it_was(rows: DataFrame, case: tuple[bool, bool, tuple[str, ...]]) -> None:
    assert digest(landed(rows, *case)) == LANDED[case]


@pytest.mark.usefixtures("where")
def test_the_states_that_are_kept_of_a_history_stay_as_they_were(rows: DataFrame) -> None:
    assert digest(states(rows)) == STATES
