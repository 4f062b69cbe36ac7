"""The text of the MERGE statement, from a plan; Spark-free."""

from typing import Final

from cdc_ops.core.merging import MergePlan, quoted
from cdc_ops.core.tables import TableSchema

_INCOMPARABLE: Final = ("map<", "variant")


def merge_statement(target: str, source: str, plan: MergePlan, schema: TableSchema) -> str:
    """Returns the MERGE of a batch, source `s`, into its table, target `t`.

    A matched row that is equal in all columns is left alone: an overlap that is read again rewrites nothing.

    Args:
        target: SQL name of the table.
        source: SQL name of the batch; one row per key.
        plan: Keys, columns, pruning, and what is deleted.
        schema: Types of the columns.
    """
    values = [name for name in plan.columns if name not in plan.keys]
    lines = [f"MERGE INTO {target} t USING {source} s ON {plan.condition}"]
    if values:
        changed = _changed(values, schema)
        lines.append(f"WHEN MATCHED{changed} THEN UPDATE SET " + ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in values))
    names, inserted = (", ".join(prefix + quoted(name) for name in plan.columns) for prefix in ("", "s."))
    lines.append(f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({inserted})")
    if plan.delete_missing_where:
        lines.append(f"WHEN NOT MATCHED BY SOURCE AND ({plan.delete_missing_where}) THEN DELETE")
    return "\n".join(lines)


def _changed(values: list[str], schema: TableSchema) -> str:
    types = {column.name: column.delta_type.lower() for column in schema.columns}
    if any(part in types[name] for name in values for part in _INCOMPARABLE):
        return ""
    equal = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in values)
    return f" AND NOT ({equal})"
