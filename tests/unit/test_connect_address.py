"""Addresses of Spark Connect servers, and what a pipeline file may say beside one."""

from pathlib import Path

import pytest

from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.pipeline.connect_address import ConnectAddress
from cdc_ops.errors import ConfigError

FILE = """\
pipeline: shop
source: {{kind: mariadb, connection: shop_db}}
target: {{root: /lake, staging: /staging}}
spark: {spark}
tables:
  shop.orders: {{cursor: id}}
"""


@pytest.mark.parametrize(
    "text",
    [
        *("sc://127.0.0.1:15002", "sc://localhost", "sc://127.8.9.1:1/", "sc://[::1]:65535"),
        *("sc://spark.example.com:443/;use_ssl=true", "sc://spark.example.com;use_ssl=true", "sc://127.0.0.1/;use_ssl=false"),
    ],
)
def test_addresses_on_this_machine_or_with_tls_are_accepted(text: str) -> None:
    address = ConnectAddress.parse(text)
    assert address.is_safe
    assert ConnectAddress.parse(address.url()) == address


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sc://spark.example.com:15002", "unencrypted"),
        ("sc://10.0.0.5", "sc://10.0.0.5:443/;use_ssl=true"),
        ("sc://127.0.0.1.example.com", "unencrypted"),
        ("sc://spark.example.com/;use_ssl=false", "unencrypted"),
        ("sc://0.0.0.0:15002", "unencrypted"),
        ("sc://host/;use_ssl=true;token=abc", "SPARK_CONNECT_AUTHENTICATE_TOKEN"),
        ("sc://host/;user_id=me;use_ssl=true", "SPARK_CONNECT_AUTHENTICATE_TOKEN"),
        ("sc://host/;use_ssl=true;x=1", "'x' is not an option"),
        ("sc://host/;use_ssl=yes", "true or false"),
        ("sc://host/path;use_ssl=true", "Write sc://host:15002"),
        ("sc://me@host;use_ssl=true", "Write sc://host:15002"),
        ("sc://127.0.0.1:70000", "Write sc://host:15002"),
        ("spark://127.0.0.1:7077", "Write sc://host:15002"),
        ("sc://", "Write sc://host:15002"),
    ],
)
def test_other_addresses_are_refused_and_no_token_is_shown(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"Write|Give") as refused:
        ConnectAddress.parse(text)
    assert told in str(refused.value)
    assert "abc" not in str(refused.value)


def test_a_token_goes_to_localhost_by_that_name() -> None:
    assert ConnectAddress.parse("sc://127.0.0.1:5").url(with_token=True) == "sc://localhost:5"
    assert ConnectAddress.parse("sc://a.example.com;use_ssl=true").url(with_token=True) == "sc://a.example.com:15002/;use_ssl=true"


def test_a_pipeline_file_names_a_server(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(FILE.format(spark='{connect: "sc://127.0.0.1:15002"}'))
    assert load_pipeline(file).spark.connect == "sc://127.0.0.1:15002"


@pytest.mark.parametrize(
    ("spark", "told"),
    [
        ('{connect: "sc://spark.example.com:15002"}', "unencrypted"),
        ('{connect: "sc://127.0.0.1", driver_memory: 2g}', "'driver_memory' has no effect with 'connect'"),
        ('{connect: "sc://127.0.0.1", jars: /jars}', "'jars' has no effect with 'connect'"),
        ('{connect: "sc://127.0.0.1", connection: spark_default}', "'connection' has no effect with 'connect'"),
    ],
)
def test_a_pipeline_file_is_refused(tmp_path: Path, spark: str, told: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(FILE.format(spark=spark))
    with pytest.raises(ConfigError) as refused:
        load_pipeline(file)
    assert told in str(refused.value)
