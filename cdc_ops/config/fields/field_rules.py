"""What is asked of single fields beyond their type: patterns, limits, choices, examples. The types themselves come from core."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from cdc_ops.config.fields import values
from cdc_ops.core.apply.metadata_columns import MetadataColumns
from cdc_ops.core.maintenance import MaintenancePolicy
from cdc_ops.core.pipeline.airflow_settings import AirflowSettings, ApproveSettings, DagLimits, TaskOptions
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, CopySettings, EventSettings, FileSettings
from cdc_ops.core.pipeline.pipeline import Pipeline, PipelineInfo, RunSettings, SourceConfig, SourceKind, SparkConfig, TargetConfig
from cdc_ops.core.pipeline.receivers import Receiver
from cdc_ops.core.pipeline.table_settings import (
    ApplySettings,
    HistorySettings,
    LoadSettings,
    OrderSettings,
    StorageSettings,
    TableSettings,
    ValueSettings,
)
from cdc_ops.core.pipeline.tables.catalog_names import parse_catalog_name
from cdc_ops.core.run_cost import MaxCost


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a field's value has to be.

    Args:
        convert: Turns the value into what core has, or raises ValueError with the remedy; for lists it gets each item.
        pattern: Regular expression for editors, "" for any text.
        minimum, maximum: Limits of numbers, sizes and durations, both allowed.
        choices: The only values allowed.
        examples: Values as they are written.
    """

    convert: Callable[[Any], Any] | None = None
    pattern: str = ""
    minimum: int | timedelta | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    examples: tuple[Any, ...] = ()


def _optional(check: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: check(text) if text else text


_NO_TIME: Final = timedelta(0)
_LOCATION: Final = Rule(
    convert=values.parse_location, pattern=values.LOCATION_PATTERN, examples=("s3a://bucket/lake", "${CDC_OPS_LAKE:-/data/lake}")
)

_CALLBACKS: Final = Rule(convert=values.parse_callback_path, examples=("company.alerts.page_on_call",))

RULES: Final[dict[tuple[type, str], Rule]] = {
    (Pipeline, "name"): Rule(convert=values.parse_pipeline_name, pattern="^[a-z][a-z0-9_]{0,99}$", examples=("shop",)),
    (Pipeline, "schedule"): Rule(
        convert=values.parse_schedule, pattern=values.SCHEDULE_PATTERN, examples=("*/15 * * * *", "@daily", "archive")
    ),
    (RunSettings, "start_on"): Rule(examples=(["cdc/crm/crm.customers"], ["s3://bucket/exports/done"])),
    (Pipeline, "reconcile_schedule"): Rule(convert=values.parse_cron, pattern=values.CRON_PATTERN, examples=("0 3 * * *", "@weekly")),
    (Pipeline, "start_date"): Rule(pattern=values.START_PATTERN, examples=("2026-01-01",)),
    (RunSettings, "tables_per_job"): Rule(minimum=1, maximum=1000),
    (RunSettings, "lease_wait"): Rule(minimum=_NO_TIME, examples=("30m",)),
    # Less would forget operations that a doubled commit step may still ask about.
    (RunSettings, "run_retention"): Rule(minimum=timedelta(days=1), examples=("90d",)),
    (MaxCost, "rows"): Rule(minimum=0, examples=(50_000_000,)),
    (MaxCost, "written_bytes"): Rule(minimum=0, examples=("20GiB",)),
    (MaxCost, "duration"): Rule(minimum=_NO_TIME, examples=("2h",)),
    (PipelineInfo, "tags"): Rule(examples=(["shop", "nightly"],)),
    (SourceConfig, "connection"): Rule(convert=values.parse_connection, pattern="^[A-Za-z0-9][A-Za-z0-9_.-]*$", examples=("shop_db",)),
    (SourceConfig, "snapshot_connection"): Rule(convert=_optional(values.parse_connection), examples=("shop_replica",)),
    (SourceConfig, "writers"): Rule(convert=values.parse_connection, examples=(["shop_node_2", "shop_node_3"],)),
    (SourceConfig, "replication_lag"): Rule(minimum=_NO_TIME, examples=("5m",)),
    (SourceConfig, "time_zone"): Rule(convert=values.parse_zone, examples=("Europe/Berlin", "+02:00")),
    (SourceConfig, "jdbc_driver"): Rule(choices=("mariadb", "mysql")),
    (SourceConfig, "max_threads_running"): Rule(minimum=0, examples=(40,)),
    (SourceConfig, "max_load_wait"): Rule(minimum=_NO_TIME, examples=("30m",)),
    (SourceConfig, "tables"): Rule(examples=({"SHOP.ORDERS": {"ID": "number(19) primary key", "NAME": "varchar2(40)"}},)),
    (SourceConfig, "max_connections"): Rule(minimum=0, maximum=256, examples=(8,)),
    (TargetConfig, "root"): _LOCATION,
    (TargetConfig, "staging"): Rule(
        convert=values.parse_location,
        pattern=values.LOCATION_PATTERN,
        examples=("s3a://bucket/staging", "${CDC_OPS_STAGING:-/data/staging}"),
    ),
    (TargetConfig, "catalog"): Rule(convert=_optional(parse_catalog_name), examples=("{schema}.{table}", "lake.{schema}.{table}")),
    (ArchiveConfig, "url"): Rule(examples=("s3://bucket/topics", "/data/archive/shop.{schema}.{table}")),
    (EventSettings, "format"): Rule(examples=("debezium-mysql",)),
    (EventSettings, "settings"): Rule(examples=({"skipped.operations": "none"},)),
    (EventSettings, "accept_losses"): Rule(examples=("truncate=dropped",)),
    (CopySettings, "connection"): Rule(convert=_optional(values.parse_connection), examples=("shop_db",)),
    (CopySettings, "server"): Rule(convert=_optional(values.parse_folder_name), pattern=values.FOLDER_PATTERN, examples=("shop-primary",)),
    (CopySettings, "first_file"): Rule(convert=_optional(values.parse_binlog), pattern=values.BINLOG_PATTERN, examples=("binlog.000120",)),
    (ArchiveConfig, "options"): Rule(examples=({"endpoint_url": "https://minio.example.com:9000"},)),
    (FileSettings, "min_file_age"): Rule(minimum=_NO_TIME, examples=("1m",)),
    (FileSettings, "full_listing_interval"): Rule(minimum=_NO_TIME, examples=("1d",)),
    (FileSettings, "lookback"): Rule(minimum=_NO_TIME, examples=("1d",)),
    (FileSettings, "max_offset_gap"): Rule(minimum=0),
    (FileSettings, "files_per_run"): Rule(minimum=1),
    (SparkConfig, "connection"): Rule(convert=values.parse_connection, pattern="^[A-Za-z0-9][A-Za-z0-9_.-]*$", examples=("spark_default",)),
    (SparkConfig, "conf"): Rule(examples=({"spark.sql.shuffle.partitions": "8"},)),
    (SparkConfig, "driver_memory"): Rule(convert=values.parse_memory, pattern="^[1-9][0-9]{0,6}[kmgtKMGT]$", examples=("2g",)),
    (SparkConfig, "jars"): Rule(convert=_optional(values.parse_location), examples=("/opt/cdc-ops/jars",)),
    (SparkConfig, "connect"): Rule(convert=_optional(values.parse_connect), pattern="^(sc://.+)?$", examples=("sc://127.0.0.1:15002",)),
    (Receiver, "repeat"): Rule(minimum=_NO_TIME, examples=("4h",)),
    (Receiver, "webhook"): Rule(convert=_optional(values.parse_connection), examples=("on_call_hook",)),
    (Receiver, "mail"): Rule(convert=_optional(values.parse_connection), examples=("mail_server",)),
    (Receiver, "to"): Rule(convert=values.parse_address, examples=(["data-team@example.com"],)),
    (Receiver, "sender"): Rule(convert=_optional(values.parse_address), examples=("cdc-ops@example.com",)),
    (Receiver, "notifier"): Rule(
        convert=_optional(values.parse_import_path),
        pattern=values.IMPORT_PATTERN,
        examples=("airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier",),
    ),
    (Receiver, "arguments"): Rule(examples=({"slack_webhook_conn_id": "slack", "text": "{{ alert.text }}"},)),
    (AirflowSettings, "time_zone"): Rule(convert=values.parse_schedule_zone, examples=("Europe/Berlin", "UTC")),
    (DagLimits, "max_active_runs"): Rule(minimum=1, maximum=100),
    (DagLimits, "max_active_tasks"): Rule(minimum=0, examples=(8,)),
    (DagLimits, "run_timeout"): Rule(minimum=_NO_TIME, examples=("6h",)),
    (DagLimits, "task_timeout"): Rule(minimum=timedelta(minutes=1), examples=("15m",)),
    (DagLimits, "spark_timeout"): Rule(minimum=timedelta(minutes=1), examples=("6h",)),
    (AirflowSettings, "watch_interval"): Rule(minimum=timedelta(seconds=1), examples=("30s",)),
    (AirflowSettings, "spark_history_url"): Rule(
        convert=_optional(values.parse_web_address), pattern="^(https?://.+)?$", examples=("https://spark.example.com:18080",)
    ),
    (AirflowSettings, "owner_links"): Rule(examples=({"data-platform": "mailto:data@example.com"},)),
    (AirflowSettings, "access_control"): Rule(examples=({"analysts": ["can_read"]},)),
    (ApproveSettings, "users"): Rule(examples=(["ann", "ben"],)),
    (ApproveSettings, "timeout"): Rule(minimum=timedelta(minutes=1), examples=("1d",)),
    **{(AirflowSettings, f"on_{event}_callback"): _CALLBACKS for event in ("success", "failure")},
    **{(TaskOptions, f"on_{event}_callback"): _CALLBACKS for event in ("execute", "success", "failure", "retry", "skipped")},
    (TaskOptions, "pool"): Rule(examples=("spark",)),
    (TaskOptions, "pool_slots"): Rule(minimum=1),
    (TaskOptions, "queue"): Rule(examples=("large",)),
    (TaskOptions, "executor"): Rule(examples=("KubernetesExecutor",)),
    (TaskOptions, "executor_config"): Rule(examples=({"pod_template_file": "/opt/airflow/spark-task.yaml"},)),
    (TaskOptions, "priority_weight"): Rule(minimum=1, maximum=1_000_000),
    (TaskOptions, "retries"): Rule(minimum=0, maximum=100),
    (TaskOptions, "retry_delay"): Rule(minimum=_NO_TIME, examples=("30s",)),
    (TaskOptions, "max_retry_delay"): Rule(minimum=_NO_TIME, examples=("10m",)),
    (TableSettings, "keys"): Rule(examples=("id", ["order_id", "line"])),
    (LoadSettings, "cursor"): Rule(examples=("updated_at", ["updated_at", "id"], "COALESCE(updated_at, created_at)")),
    (LoadSettings, "lookback"): Rule(minimum=_NO_TIME, examples=("30s", "5m")),
    (LoadSettings, "long_transaction_alert"): Rule(minimum=_NO_TIME, examples=("1h", "15m")),
    (LoadSettings, "max_lag"): Rule(minimum=_NO_TIME, examples=("1h",)),
    (StorageSettings, "path"): Rule(convert=_optional(values.parse_location), examples=("s3a://bucket/elsewhere/orders",)),
    (StorageSettings, "catalog_name"): Rule(convert=_optional(parse_catalog_name), examples=("sales.orders",)),
    (LoadSettings, "parallelism"): Rule(minimum=1, maximum=256),
    (LoadSettings, "chunk_rows"): Rule(minimum=1),
    (LoadSettings, "chunk_bytes"): Rule(minimum=1024 * 1024, examples=("4GiB",)),
    (ValueSettings, "renamed"): Rule(examples=({"old_name": "new_name"},)),
    (HistorySettings, "stored_as_scd_type"): Rule(minimum=1, maximum=2),
    (OrderSettings, "sequence_by"): Rule(examples=("changed_at", ["changed_at", "change_id"], "CAST(version AS bigint)")),
    (HistorySettings, "track_history_column_list"): Rule(examples=(["city", "plan"],)),
    (HistorySettings, "track_history_except_column_list"): Rule(examples=(["last_seen"],)),
    (ApplySettings, "ignore_null_updates_column_list"): Rule(examples=(["note", "phone"],)),
    (ApplySettings, "ignore_null_updates_except_column_list"): Rule(examples=(["closed_at"],)),
    (MetadataColumns, "op"): Rule(examples=("_cdc_op",)),
    (MetadataColumns, "synced_at"): Rule(examples=("_cdc_synced_at",)),
    (MetadataColumns, "operation"): Rule(examples=("_cdc_operation",)),
    (MetadataColumns, "deleted_at"): Rule(examples=("_deleted_at",)),
    (OrderSettings, "tombstone_retention"): Rule(minimum=timedelta(hours=1), examples=("7d",)),
    (ApplySettings, "apply_as_deletes"): Rule(examples=("is_deleted = 1", "deleted_at IS NOT NULL")),
    (ApplySettings, "apply_as_truncates"): Rule(examples=("operation = 'TRUNCATE'",)),
    (OrderSettings, "previous_key"): Rule(examples=("old_id", ["old_order_id", "old_line"])),
    (ApplySettings, "max_delete_ratio"): Rule(examples=(0.1,)),
    (ApplySettings, "max_delete_rows"): Rule(minimum=0),
    (StorageSettings, "properties"): Rule(examples=({"delta.logRetentionDuration": "interval 90 days"},)),
    (StorageSettings, "cluster_by"): Rule(examples=("id", ["region", "id"])),
    (StorageSettings, "partition_by"): Rule(examples=("ordered_on",)),
    (MaintenancePolicy, "min_small_files"): Rule(minimum=1),
    (MaintenancePolicy, "target_file_bytes"): Rule(minimum=0, examples=("128MiB",)),
    (MaintenancePolicy, "max_deleted_share"): Rule(examples=(0.25,)),
    (MaintenancePolicy, "max_bytes"): Rule(minimum=0, examples=("50GiB",)),
    (MaintenancePolicy, "max_duration"): Rule(minimum=_NO_TIME, examples=("30m",)),
    (MaintenancePolicy, "purge_every"): Rule(minimum=_NO_TIME, examples=("30d",)),
    (MaintenancePolicy, "vacuum_full_every"): Rule(minimum=_NO_TIME, examples=("7d",)),
    (MaintenancePolicy, "optimize_every"): Rule(minimum=_NO_TIME, examples=("1h",)),
    (MaintenancePolicy, "vacuum_every"): Rule(minimum=_NO_TIME, examples=("1d",)),
    # Less would take files away from statements that are still reading them.
    (MaintenancePolicy, "retention"): Rule(minimum=timedelta(hours=1), examples=("7d",)),
}

SECTION_SCHEMAS: Final[dict[type, dict[str, Any]]] = {
    SourceConfig: {
        "if": {"properties": {"kind": {"const": SourceKind.NONE.value}}, "required": ["kind"]},
        "then": {"required": ["tables"]},
        "else": {"required": ["connection"]},
    },
    Receiver: {"oneOf": [{"required": ["webhook"]}, {"required": ["mail", "to", "sender"]}, {"required": ["notifier"]}]},
}
"""What editors know of sections whose fields depend on each other; modules of `config.checks` check it."""
