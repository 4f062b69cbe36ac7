"""How a table is kept equal is decided by what it has: a cursor, keys, columns with checksums."""

from collections.abc import Iterable
from typing import cast

import pytest

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.base import Source
from cdc_ops.steps.planning.reconcile import compare_level, method_summary
from cdc_ops.steps.table.source_table import SourceTable

TABLE = TableName(schema="shop", name="orders")
SCHEMA = TableSchema(
    table=TABLE,
    columns=tuple(
        Column(name=name, source_type=kind, delta_type=kind, nullable=False, expression=name)
        for name, kind in (("id", "bigint"), ("weight", "double"), ("at", "timestamp"))
    ),
    primary_key=("id",),
)
PIPELINE = Pipeline(
    name="shop",
    source=SourceConfig(kind=SourceKind.MARIADB, connection="shop_db"),
    target=TargetConfig(root="/lake", staging="/staging"),
    tables=(),
)


class Digests:
    """The part of a source that is asked: which columns have no checksum."""

    def __init__(self, *missing: str) -> None:
        self.missing = missing

    def undigestible(self, schema: TableSchema, columns: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in columns if name in self.missing)


def source_table(*, cursor: bool, keys: bool = True) -> SourceTable:
    lead = (CursorColumn(name="at", type=CursorType.TIMESTAMP, precision=6),) if cursor else ()
    config = TableConfig(pipeline="shop", table=TABLE, settings=TableSettings(), path="/lake/shop/orders")
    return SourceTable(
        pipeline=PIPELINE, config=config, schema=SCHEMA, keys=("id",) if keys else (), cursor=Cursor(columns=lead), warnings=()
    )


@pytest.mark.parametrize(
    ("cursor", "keys", "missing", "wanted", "strength", "said"),
    [
        (True, True, ("weight",), None, CompareLevel.KEYS, "increments by at"),
        (True, True, ("weight",), CompareLevel.ROWS, CompareLevel.WHOLE, "increments by at"),
        (False, True, (), None, CompareLevel.ROWS, "no cursor, so every run compares: checksums of rows"),
        (False, True, ("weight",), None, CompareLevel.WHOLE, "no checksum covers weight"),
        (False, False, (), None, CompareLevel.ROWS, "the whole table is replaced if anything differs"),
    ],
)
def test_the_method_follows_from_cursor_keys_and_columns(
    cursor: bool, keys: bool, missing: tuple[str, ...], wanted: CompareLevel | None, strength: CompareLevel, said: str
) -> None:
    source = cast(Source, Digests(*missing))
    given = source_table(cursor=cursor, keys=keys)
    assert compare_level(source, given, wanted)[0] is strength
    assert said in method_summary(source, given)


def test_a_table_with_a_cursor_and_no_keys_cannot_be_compared() -> None:
    with pytest.raises(SourceTableError):
        compare_level(cast(Source, Digests()), source_table(cursor=True, keys=False))
