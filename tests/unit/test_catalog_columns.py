"""Columns in a metastore: Delta writes them in the background, so the job waits until the metastore has them. No Spark here."""

from unittest.mock import Mock

import pytest

from cdc_ops.core.operation.catalog_entry import CatalogEntry
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CatalogUnavailableError
from cdc_ops.lake.table import catalog
from cdc_ops.lake.table.catalog import lost_metastore

ENTRY = CatalogEntry(table=TableName(schema="shop", name="orders"), path="/lake/shop/orders", name=("shop", "orders"))


def session(*answers: str) -> Mock:
    """A session whose metastore answers like this, one after the other."""
    rows = [Mock(collect=Mock(return_value=[{"information": text}])) for text in answers]
    return Mock(sql=Mock(side_effect=[Mock(), *rows]))


def test_a_job_waits_until_the_metastore_itself_has_the_columns_that_delta_writes_in_the_background() -> None:
    spark = session("of before", "of before", "Table Properties: [cdc_ops.registered=shop.orders new]")
    catalog._publish_columns(spark, ENTRY, "shop.orders new")
    alter, *looks = [call.args[0] for call in spark.sql.call_args_list]
    assert alter.startswith("ALTER TABLE `shop`.`orders`")
    assert looks == ["SHOW TABLE EXTENDED IN `shop` LIKE 'orders'"] * 3


def test_a_metastore_that_never_has_the_columns_is_an_error_and_the_registration_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_PATIENCE", 0.0)
    with pytest.raises(CatalogUnavailableError, match=r"did not have the columns"):
        catalog._publish_columns(session(*["of before"] * 9), ENTRY, "shop.orders new")


class SparkError(Exception):
    """An error as Spark raises it while the metastore is away: the reason is only in the causes' stack trace."""

    _stackTrace = (
        "Caused by: java.lang.reflect.InvocationTargetException\n"
        "Caused by: MetaException(message:Could not connect to meta store using any of the URIs provided. Most recent failure:"
        " org.apache.thrift.transport.TTransportException: java.net.UnknownHostException: metastore\n\tat org.apache.thrift"
    )


INSTANTIATE = (
    "HiveException: java.lang.RuntimeException: Unable to instantiate org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClient"
)


def test_a_metastore_that_is_away_is_named_with_its_address_and_the_reason_which_spark_does_not_say() -> None:
    spark = Mock(conf=Mock(get=Mock(return_value="thrift://metastore:9083")))
    error = lost_metastore(spark, "Table shop.orders", SparkError(INSTANTIATE))
    assert error is not None
    assert (error.what, error.why) == (
        "Table shop.orders failed: Hive's metastore thrift://metastore:9083 does not answer.",
        "java.net.UnknownHostException: metastore",
    )
    assert error.retryable
    assert lost_metastore(spark, "Table shop.orders", ValueError("another")) is None


def test_registering_at_a_metastore_that_is_away_says_why_too() -> None:
    assert (
        catalog._unavailable(ENTRY, SparkError(INSTANTIATE)).why
        == "Hive's metastore does not answer: java.net.UnknownHostException: metastore"
    )
