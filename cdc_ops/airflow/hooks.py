"""The connection types of Airflow's forms that are ours: a database as source or ledger. `Test` in the form logs in and asks who it is."""

from contextlib import closing
from typing import Any, ClassVar

from airflow.sdk import BaseHook

from cdc_ops.airflow.connections import source_url
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.pipeline.table_settings import LoadSettings
from cdc_ops.errors import CdcError
from cdc_ops.sources.base import Source, open_source


class DatabaseHook(BaseHook):
    """A database that a connection of Airflow names.

    Args:
        cdc_ops_conn_id: The connection's id.
    """

    conn_name_attr = "cdc_ops_conn_id"
    kind: ClassVar[SourceKind]

    def __init__(self, cdc_ops_conn_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._config = SourceConfig(kind=self.kind, connection=cdc_ops_conn_id)

    def get_conn(self) -> Source:
        """Returns the source, as pipelines read it; it connects when it is asked."""
        return open_source(self._config, source_url(self._config))

    def test_connection(self) -> tuple[bool, str]:
        """Returns whether the login works, and what the server says, or the error."""
        try:
            with closing(self.get_conn()) as source:
                access = source.access(LoadSettings().lookback)
        except CdcError as error:
            return False, str(error)
        return True, " ".join(part for part in (f"{access.version}, as {access.account}.", access.missing_grant, access.replica) if part)


class MySqlHook(DatabaseHook):
    """MySQL or MariaDB."""

    conn_type = "cdc_ops_mysql"
    hook_name = "CDC: MySQL, MariaDB"
    kind = SourceKind.MYSQL


class PostgresHook(DatabaseHook):
    """Postgres."""

    conn_type = "cdc_ops_postgres"
    hook_name = "CDC: Postgres"
    kind = SourceKind.POSTGRES
