"""A real Postgres that subscribes to another one: its rows are stamped elsewhere, so it is no source without a declared lag."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import PostgresServer
from cdc_ops.errors import SourceError
from cdc_ops.sources.bounds.clock import METHOD_REPLICA
from cdc_ops.sources.postgres.source import PostgresSource

DB = "subscriber_tests"
CONFIG = SourceConfig(kind=SourceKind.POSTGRES, connection="test")


def bound_of(source: PostgresSource) -> SafeBound:
    schema = source.schema(TableName(schema="public", name="events"))
    return source.safe_bound(schema, source.cursor(schema, ("u",))[0], timedelta(0), None)


def test_a_subscriber_is_refused_by_name_or_read_behind_the_lag_that_is_declared(postgres: PostgresServer) -> None:
    """What a subscription applies has older stamps than its commit here."""
    postgres.create_database(DB)
    postgres.execute("CREATE TABLE events (id int PRIMARY KEY, u timestamptz NOT NULL DEFAULT now())", database=DB)
    url = ConnectionUrl.from_parts("postgresql", postgres.host, postgres.port, postgres.user, postgres.password, DB).render()
    options = "connect = false, slot_name = 'cdc_none'"
    postgres.execute(f"CREATE SUBSCRIPTION orders CONNECTION 'host=127.0.0.1 port=1' PUBLICATION p WITH ({options})", database=DB)
    postgres.execute("ALTER SUBSCRIPTION orders ENABLE", database=DB)
    lagging = replace(CONFIG, replication_lag=timedelta(minutes=5))
    try:
        with closing(PostgresSource(CONFIG, url)) as alone, pytest.raises(SourceError, match=r"logical replication \(orders\)"):
            bound_of(alone)
        with closing(PostgresSource(lagging, url)) as behind:
            found = bound_of(behind)
            assert found.method == METHOD_REPLICA
            assert "'replication_lag'" in " ".join(found.warnings)
    finally:
        postgres.execute("ALTER SUBSCRIPTION orders DISABLE", "ALTER SUBSCRIPTION orders SET (slot_name = NONE)", database=DB)
        postgres.execute("DROP SUBSCRIPTION orders", database=DB)
