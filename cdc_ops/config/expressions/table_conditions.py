"""The conditions of a pipeline's tables, checked as far as that needs no table: `cdc-ops validate`.

`sequence_by` is left to the plan: any text in it may be the name of a column, which only the source can tell.
"""

from cdc_ops.config.expressions.spark_conditions import check_form
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.errors import ConfigError


def check_conditions(pipeline: Pipeline) -> None:
    """Checks the conditions of all entries of a pipeline file; their columns are checked at the plan.

    Raises:
        ConfigError: one cannot be parsed, or returns another value each time; the text names the entry.
    """
    for rule in pipeline.tables:
        apply = rule.settings.apply
        conditions = {"apply_as_deletes": apply.apply_as_deletes, "apply_as_truncates": apply.apply_as_truncates}
        for setting, text in conditions.items():
            if not text:
                continue
            try:
                check_form(setting, text)
            except ConfigError as error:
                what = f"Entry {rule.pattern!r} of {pipeline.origin}: {error.what}"
                raise ConfigError(what, why=error.why, data=error.data, next=error.next) from error
