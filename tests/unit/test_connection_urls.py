"""Connection URLs: nothing of a password gets lost, and nothing of it gets out."""

import re
import traceback

import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.config.connections import connection_url
from cdc_ops.core.pipeline.connections import ConnectionUrl, variable_name
from cdc_ops.errors import ConfigError
from cdc_ops.sources.mysql.session import Address as MySQLAddress
from cdc_ops.sources.postgres.session import PostgresAddress
from cdc_ops.sources.sql.session import ServerAddress

# Everything but lone surrogates, which are no text; hostile signs more often than chance would have them.
ANYTHING = st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from("@:/?#%&=+[] \\'\"$é\n\0"), max_size=30)
PASSWORD = "hunter" + "2" * 9
HOSTS = st.sampled_from(["localhost", "db-1.example.internal", "10.0.0.7", "::1", "2001:db8::7", "db_1"])
URLS = st.builds(
    ConnectionUrl,
    scheme=st.sampled_from(["mysql", "mariadb", "postgresql"]),
    host=HOSTS,
    port=st.none() | st.integers(1, 65535),
    user=ANYTHING,
    password=ANYTHING,
    database=ANYTHING,
    options=st.dictionaries(ANYTHING.filter(bool), ANYTHING, max_size=3).map(lambda options: tuple(options.items())),
)


@given(URLS)
def test_whatever_is_in_a_password_comes_back_from_the_rendered_url(url: ConnectionUrl) -> None:
    assert ConnectionUrl.parse(url.render()) == url


@given(URLS)
def test_a_rendered_url_is_plain_ascii_without_spaces(url: ConnectionUrl) -> None:
    assert re.fullmatch(r"[!-~]+", url.render())


@given(st.builds(ConnectionUrl, scheme=st.just("mysql"), host=HOSTS, user=ANYTHING.filter(bool), password=ANYTHING.filter(bool)))
def test_sqlalchemy_reads_the_same_login_from_a_rendered_url(url: ConnectionUrl) -> None:
    read = sqlalchemy.make_url(url.render())
    assert (read.username, read.password, read.host) == (url.user, url.password, url.host)


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=6, max_size=20).filter(lambda text: text.strip("*. ") == text))
def test_neither_repr_nor_str_shows_the_password(password: str) -> None:
    marked = f"hunter{password}2"
    url = ConnectionUrl(scheme="mysql", host="db", user="app", password=marked, options=(("trustStorePassword", marked),))
    assert marked not in repr(url)
    assert "hunter" not in repr(url) + str(url)


def test_all_parts_of_a_url_are_read_and_decoded() -> None:
    url = ConnectionUrl.parse("mysql://app%40shop:p%40ss%2Fw%25rd@db.example:3307/shop?ssl_mode=required&ssl_ca=/etc/ca.pem\n")
    assert url == ConnectionUrl(
        scheme="mysql",
        host="db.example",
        port=3307,
        user="app@shop",
        password="p@ss/w%rd",
        database="shop",
        options=(("ssl_mode", "required"), ("ssl_ca", "/etc/ca.pem")),
    )


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port"),
    [
        ("postgres://u:p@[::1]:5433/shop", "postgresql", "::1", 5433),
        ("postgresql+psycopg://u:p@db", "postgresql", "db", 5432),
        ("mysql+pymysql://u@[2001:db8::7]/shop", "mysql", "2001:db8::7", 3306),
        ("MariaDB://db", "mariadb", "db", 3306),
    ],
)
def test_drivers_capitals_and_ipv6_addresses_are_understood(text: str, scheme: str, host: str, port: int) -> None:
    url = ConnectionUrl.parse(text)
    assert (url.scheme, url.host, url.default_port) == (scheme, host, port)


def test_an_airflow_connection_becomes_a_url_whatever_it_leaves_out() -> None:
    assert ConnectionUrl.from_parts("mysql", "db", None, "app", "a:b@c", None).render() == "mysql://app:a%3Ab%40c@db/"
    assert ConnectionUrl.from_parts("postgres", "[::1]", 5432).render() == "postgresql://[::1]:5432/"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not start with a scheme"),
        ("app:hunter2@db/shop", "does not start with a scheme"),
        ("mysqll://app:hunter2@db/shop", "'mysql'"),
        ("oracle://app:hunter2@db/shop", "mariadb, mysql, "),
        ("mysql://app:hunter2", "port is not a number"),
        ("mysql://app:hunter2@/shop", "host is empty"),
        ("mysql://app:hunter2@db:99999/shop", "port is not between"),
        ("mysql://app:hun@ter2@db/shop", "%40"),
        ("mysql://app:hun/ter2@db/shop", "%2F"),
        ("mysql://app:hun?ter2@db/shop", "percent-encoded"),
        ("mysql://app:hun#ter2@db/shop", "%23"),
        ("mysql://app:hun%ter2@db/shop", "%25"),
        ("mysql://app:hun%ffter2@db/shop", "UTF-8"),
        ("mysql://app:hun ter2@db/shop", "%20"),
        ("mysql://app:hunter2@::1:3306/shop", "brackets"),
        ("mysql://app:hunter2@[::1/shop", "closed with ]"),
        ("mysql://app:hunter2@db/shop?a=1&a=2", "twice"),
    ],
)
def test_a_url_that_cannot_be_read_is_explained_without_showing_it(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connection_url("shop_db", {"CDC_OPS_CONN_SHOP_DB": text or "x"})
    shown = f"{caught.value}"
    assert says in shown
    assert "CDC_OPS_CONN_SHOP_DB" in shown
    assert not re.search("hun|ter2|shop\\?", shown)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_nor_does_the_error_lead_to_one_that_holds_it() -> None:
    with pytest.raises(ConfigError) as caught:
        ConnectionUrl.parse("mysql://app:hun%ffter2@db/shop")
    assert isinstance(caught.value.__context__, UnicodeDecodeError)
    assert caught.value.__suppress_context__


def test_the_variable_of_a_connection_is_its_id_in_capitals() -> None:
    assert variable_name("shop-db.eu 1") == "CDC_OPS_CONN_SHOP_DB_EU_1"


def test_a_connection_that_is_not_set_names_the_variable_the_form_and_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as caught:
        connection_url("shop_db", {"CDC_OPS_CONN_SHOPDB": "mysql://app:hunter2@db/shop"})
    text = str(caught.value)
    assert "CDC_OPS_CONN_SHOP_DB is not set" in text
    assert "Did you mean 'CDC_OPS_CONN_SHOPDB'?" in text
    assert "mysql://user:password@host:3306/database" in text
    assert "hunter2" not in text


def test_a_traceback_of_a_url_that_cannot_be_read_holds_nothing_of_it() -> None:
    with pytest.raises(ConfigError) as caught:
        ConnectionUrl.parse(f"mysql://app:{PASSWORD}%ff@db/shop")
    told = "".join(traceback.format_exception(caught.value))
    assert "not UTF-8" in told
    assert PASSWORD not in told
    assert caught.value.__suppress_context__, "what the decoder says has the bytes"


@pytest.mark.parametrize(
    ("address", "url"), [(MySQLAddress, "mysql://app:hunter2@db:3307/shop"), (PostgresAddress, "postgresql://app:hunter2@db:3307/shop")]
)
def test_the_address_of_a_server_shows_who_and_where_and_no_password(address: type[ServerAddress], url: str) -> None:
    one = address(url)  # type: ignore[call-arg, arg-type]
    assert str(one) == "app@db:3307"
    assert "hunter2" not in f"{one!r} {one} {[one]}"
    assert one.password == "hunter2"


@pytest.mark.parametrize("value", ["", "  ", "\n"])
def test_a_variable_that_is_set_but_empty_is_called_so(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connection_url("shop_db", {"CDC_OPS_CONN_SHOP_DB": value})
    text = str(caught.value)
    assert "CDC_OPS_CONN_SHOP_DB is set, but empty" in text
    assert "Did you mean" not in text
    with pytest.raises(ConfigError, match="set, but empty") as caught:
        connection_url("shop_db", {"CDC_OPS_CONN_SHOP_DB": value, "CDC_OPS_CONN_SHOP": "mysql://h/d", "CDC_OPS_CONN_SHOP_DBS": ""})
    assert "Did you mean 'CDC_OPS_CONN_SHOP'?" in str(caught.value)
    assert "SHOP_DBS" not in str(caught.value)


def test_a_connection_is_given_in_its_canonical_form() -> None:
    assert connection_url("shop_db", {"CDC_OPS_CONN_SHOP_DB": " mysql+pymysql://app:a%3ab@db \n"}) == "mysql://app:a%3Ab@db/"
