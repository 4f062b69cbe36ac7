"""The tables of a pipeline that a run selects. Pure."""

from collections.abc import Iterable

from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError


def select_tables(tables: tuple[TableConfig, ...], wanted: Iterable[str]) -> tuple[TableConfig, ...]:
    """Returns the configs of the named tables; all configs without names.

    Raises:
        RequestError: a wanted name is not one of the pipeline's tables.
    """
    asked = tuple(wanted)
    known = {str(config.table): config for config in tables}
    for name in asked:
        if name not in known:
            raise RequestError(
                f"This pipeline has no table {name!r}.",
                why=did_you_mean(name, known),
                data="Nothing was read or written.",
                next="Name tables as schema.table, spelled as in the pipeline file or the source.",
            )
    return tuple(known[name] for name in dict.fromkeys(asked)) if asked else tables
