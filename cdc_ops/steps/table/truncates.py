"""`apply_as_truncates` at the plan: which tables may have rows that empty them. No Spark here; `steps.stage.truncates` applies them."""

from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.collated_keys import source_names
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.errors import ConfigError


def check_truncates(config: TableConfig, schema: TableSchema, keys: tuple[str, ...]) -> None:
    """Checks that rows that empty the table are changes.

    Raises:
        ConfigError: each is the row of a key of its own.
    """
    named = tuple(name.lower() for name in source_names(schema, keys))
    if config.settings.apply.apply_as_truncates and named == tuple(name.lower() for name in schema.primary_key):
        raise ConfigError(
            f"'apply_as_truncates' of {config.table} has no effect: its keys are the primary key, so its rows are not changes.",
            data="Nothing was read or written; the watermark stays.",
            next="Remove the setting from the pipeline file, or set the keys of the changed rows: 'keys: [id]'.",
        )
