"""Spark's hook with the master that the connection names: there is none that it would choose itself."""

from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Connection

from cdc_ops.airflow.connections import SPARK_TYPE, named_master
from cdc_ops.errors import CdcError


class CdcSparkHook(SparkSubmitHook):
    """Submits to the master of a connection of type `spark` or `cdc_ops_spark`, and to no other.

    Args:
        cdc_ops_spark_conn_id: The connection's id.
        **kwargs: As for Airflow's own hook.
    """

    conn_name_attr = "cdc_ops_spark_conn_id"
    conn_type = SPARK_TYPE
    hook_name = "CDC: Spark"

    def __init__(self, cdc_ops_spark_conn_id: str, **kwargs: Any) -> None:
        super().__init__(conn_id=cdc_ops_spark_conn_id, **kwargs)

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """Returns the connection as Airflow's own hook understands it.

        Raises:
            ConfigError: it is missing, or names no master.
        """
        connection, master = named_master(conn_id)
        return Connection(conn_id=conn_id, conn_type="spark", host=master, extra=connection.extra)

    def test_connection(self) -> tuple[bool, str]:
        """Returns which master the connection names; nothing is started there."""
        try:
            _, master = named_master(self._conn_id)
        except CdcError as error:
            return False, str(error)
        return True, f"Spark applications go to {master}. Nothing was started there."
