"""`apply_as_truncates` at the plan: which tables may have rows that empty them. No Spark here; `steps.stage.truncates` applies them."""

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.core.schema.collated_keys import source_names
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.errors import ConfigError


def contradicting_truncates(settings: TableSettings) -> str:
    """Returns what contradicts `apply_as_truncates` among a table's settings, "" if nothing does."""
    if not settings.apply.apply_as_truncates:
        return ""
    if settings.method is Method.LOG:
        return "'apply_as_truncates' is for tables that are read by query; events of an archive tell a TRUNCATE themselves"
    if not settings.order.sequence_by:
        return "'apply_as_truncates' needs 'sequence_by': else nobody knows what is older"
    if settings.history.stored_as_scd_type == 2:
        return "'apply_as_truncates' and 'stored_as_scd_type: 2' do not go together, as in AUTO CDC"
    if settings.apply.deletes is Deletes.IGNORE:
        return "'apply_as_truncates' and 'deletes: ignore' do not go together: the one deletes what the other keeps"
    return ""


def check_truncates(config: TableConfig, schema: TableSchema, keys: tuple[str, ...]) -> None:
    """Checks that rows that empty the table are changes.

    Raises:
        ConfigError: each is the row of a key of its own.
    """
    named = tuple(name.lower() for name in source_names(schema, keys))
    if config.settings.apply.apply_as_truncates and named == tuple(name.lower() for name in schema.primary_key):
        raise ConfigError(
            f"'apply_as_truncates' of {config.table} has no meaning: its keys are the primary key, so its rows are no changes.",
            data="Nothing was read or written; the watermark stays.",
            next="Remove the setting from the pipeline file, or name the keys of the rows that the changes are about: 'keys: [id]'.",
        )
