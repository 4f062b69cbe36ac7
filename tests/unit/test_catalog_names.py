"""Names in Spark's catalog: what a pipeline file may say, and what is told apart."""

import pytest

from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.catalog_entry import CatalogEntry, same_place
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableRule, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.pipeline.tables.catalog_names import catalog_name, parse_catalog_name
from cdc_ops.core.schema.tables import TableName
from cdc_ops.steps.table.catalog import catalog_entries

ORDERS = TableName(schema="shop", name="orders")


@pytest.mark.parametrize("text", ["orders", "a.b.c.d", "{schema}.", ".{table}", "{db}.{table}", "{schema}.{table", "{schema} .{table}"])
def test_a_name_that_no_catalog_can_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="schema"):
        parse_catalog_name(text)


def test_a_dot_or_brace_in_a_source_name_makes_no_further_part() -> None:
    odd = TableName(schema="{table}", name="a.b")
    assert catalog_name(parse_catalog_name("lake.{schema}.{table}"), odd) == ("lake", "{table}", "a.b")
    assert CatalogEntry(table=odd, path="/l", name=("x`y", "a.b")).sql_name == "`x``y`.`a.b`"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("/lake/shop/a b#c?d", "file:/lake/shop/a b#c?d", True),
        ("s3a://lake/shop/orders/", "s3://lake/shop/orders", True),
        ("/lake/shop/x%2Fy", "file:/lake/shop/x/y", False),
        ("s3a://lake/shop/orders", "s3a://other/shop/orders", False),
        ("/lake/shop/orders", "hdfs:/lake/shop/orders", False),
    ],
)
def test_a_place_is_the_same_however_it_is_written(one: str, other: str, same: bool) -> None:
    assert same_place(one, other) is same


def test_a_fingerprint_changes_with_name_place_and_columns() -> None:
    columns = (("id", "bigint"),)
    entry = CatalogEntry(table=ORDERS, path="/lake/orders", name=("shop", "orders"))
    others = [
        CatalogEntry(table=ORDERS, path="/lake/orders", name=("shop", "orders_2")).fingerprint(columns),
        CatalogEntry(table=ORDERS, path="/lake/orders_2", name=("shop", "orders")).fingerprint(columns),
        entry.fingerprint((("id", "decimal(20,0)"),)),
        entry.fingerprint((*columns, ("note", "string"))),
    ]
    assert len({entry.fingerprint(columns), *others}) == 5


def test_a_job_knows_the_names_of_its_tables_and_what_is_registered() -> None:
    def pipeline(catalog: str, own: str = "") -> Pipeline:
        return Pipeline.of(
            name="shop",
            source=SourceConfig(kind=SourceKind.MYSQL, connection="shop_db"),
            target=TargetConfig(root="/lake", staging="/staging", catalog=catalog),
            tables=(TableRule(pattern="shop.*", settings=TableSettings.of(catalog_name=own)),),
        )

    stats = TableStats(delta_version=3, files=1, size_bytes=1, catalog="0a")
    [entry] = catalog_entries(pipeline("raw.{schema}_{table}"), {ORDERS: stats})
    assert (entry.name, entry.path, entry.registered) == (("raw", "shop_orders"), "/lake/shop/orders", "0a")
    [entry] = catalog_entries(pipeline("{schema}.{table}", "sales.{table}"), {ORDERS: None})
    assert (entry.name, entry.registered) == (("sales", "orders"), "")
    assert catalog_entries(pipeline(""), {ORDERS: stats}) == ()
