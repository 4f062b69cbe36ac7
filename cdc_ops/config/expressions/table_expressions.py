"""The conditions and expressions of a pipeline's tables, checked as far as that needs no table: `cdc-ops validate`."""

from collections.abc import Iterator

from cdc_ops.config.expressions.sequence_by import split_parts
from cdc_ops.config.expressions.spark_conditions import check_form
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.errors import ConfigError


def check_expressions(pipeline: Pipeline) -> None:
    """Checks the conditions and expressions of all entries of a pipeline file; their columns are checked at the plan.

    Raises:
        ConfigError: one cannot be parsed, or returns another value each time; the text names the entry.
    """
    for rule in pipeline.tables:
        for setting, text in _expressions(rule.settings):
            try:
                check_form(setting, text)
            except ConfigError as error:
                raise ConfigError(
                    f"Entry {rule.pattern!r} of {pipeline.origin}: {error.what}", why=error.why, data=error.data, next=error.next
                ) from error


def _expressions(settings: TableSettings) -> Iterator[tuple[str, str]]:
    """Yields field and text of each; a part of `sequence_by` that is one word is the name of a column, whatever word that is."""
    conditions = (("apply_as_deletes", settings.apply.apply_as_deletes), ("apply_as_truncates", settings.apply.apply_as_truncates))
    yield from ((setting, text) for setting, text in conditions if text)
    yield from (("sequence_by", part) for part in split_parts(settings.order.sequence_by) if "(" in part)
