"""The text of statements on Delta tables; Spark-free."""

from typing import Final

from cdc_ops.core.apply.metadata_columns import START
from cdc_ops.core.operation.log_batch import REST_IS_NULL
from cdc_ops.core.operation.merging.merge_plan import FROM, GONE, REUSED, MergePlan
from cdc_ops.core.operation.merging.metadata_values import RowOp
from cdc_ops.core.text import quoted
from cdc_ops.lake.sql_text import text_literal


def merge_statement(target: str, source: str, plan: MergePlan) -> str:
    """Returns the MERGE of a batch, source `s`, into its table, target `t`.

    A matched row is updated without asking whether it differs. The question makes Delta read and shuffle every column of every row of the
    files that it touches, where otherwise it needs the keys only: 20,000 rows spread over 2 million of 40 columns took 7 s without and 68 s
    with it. The price is that rows of a lookback that is read again are written again; deletion vectors keep that to those rows.

    Args:
        target: SQL name of the table.
        source: SQL name of the batch; one row per key.
        plan: Keys, columns, pruning, and what is deleted.
    """
    values = plan.update_only or [name for name in plan.columns if name not in plan.keys]
    lines = [f"MERGE INTO {target} t USING {source} s ON {plan.condition}"]
    marker = quoted(plan.deleted_column) if plan.deleted_column else ""
    gone = f"UPDATE SET t.{marker} = TRUE{_stamped(plan, RowOp.UPDATE, 'TRUE')}" if marker else "DELETE"
    marked = f"s.{marker}" if marker and plan.deleted_column in (plan.update_only or plan.columns) else ""
    order = f"t.{quoted(plan.sequence)}" if plan.sequence else ""
    newer = f" AND ({order} IS NULL OR {order} <= s.{quoted(plan.sequence)})" if order else ""
    if plan.deleted_flag:
        placed = f", {order} = s.{quoted(plan.sequence)}" if order and marker else ""
        lines.append(f"WHEN MATCHED AND s.{quoted(plan.deleted_flag)}{newer} THEN {gone}{placed}")
    if values:
        # What is older than the row, and not to be written, is also no delete: the clause above has let it pass.
        living = f" AND NOT s.{quoted(plan.deleted_flag)}" if newer and plan.deleted_flag else ""
        # Of a row of which only some columns are set nothing is known of what else became of it.
        stamped = _stamped(plan, RowOp.UPDATE, marked, marks=not plan.update_only or bool(marked))
        pairs = ", ".join(f"t.{quoted(name)} = {_value(plan, name)}" for name in values)
        lines.append(f"WHEN MATCHED{living}{newer} THEN UPDATE SET {pairs}{stamped}")
    if not plan.update_only:
        inserted, wanted = inserted_rows(plan)
        lines.append(f"WHEN NOT MATCHED{f' AND {wanted}' if plan.deleted_flag else ''} THEN {_insert(plan, inserted, marked)}")
    if plan.delete_missing_where:
        known = f" AND NOT COALESCE(t.{marker}, FALSE)" if marker else ""
        lines.append(f"WHEN NOT MATCHED BY SOURCE AND ({plan.delete_missing_where}){known} THEN {gone}")
    return "\n".join(lines)


def inserted_rows(plan: MergePlan) -> tuple[dict[str, str], str]:
    """Returns what a MERGE inserts of a batch, source `s`, none of whose rows the table has.

    Args:
        plan: Of a batch that is merged.

    Returns:
        The columns and their values, and the condition of the rows, as Spark SQL.
    """
    return {name: _inserted(plan, name) for name in plan.columns}, f"NOT s.{quoted(plan.deleted_flag)}" if plan.deleted_flag else "true"


def replace_condition(target: str, source: str, plan: MergePlan) -> str:
    """Returns the condition of the rows that a batch replaces: those with its keys.

    Args:
        target: Alias of the table; no column may have its name.
        source: Alias of the batch; the same.
        plan: Keys and pruning.
    """
    equal = [f"{target}.{quoted(key)} = {source}.{quoted(key)}" for key in plan.keys]
    ranges = [f"{target}.{quoted(one.column)} BETWEEN {one.low} AND {one.high}" for one in plan.prune]
    return " AND ".join(equal + ranges)


def versions_statement(target: str, source: str, plan: MergePlan) -> str:
    """Returns the MERGE of what becomes of a table's versions, source `s`, into its table, target `t`.

    Every value comes from the source: of the table nothing is read but the keys and where versions begin.

    Args:
        target: SQL name of the table.
        source: SQL name of the batch of `lake.merge.scd2`.
        plan: Keys, columns, pruning.
    """
    same = f"s.{REUSED} AND t.{quoted(START)} <=> s.{FROM}"
    pairs = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in plan.columns) + _stamped(plan, RowOp.UPDATE)
    return "\n".join(
        (
            f"MERGE INTO {target} t USING {source} s ON {plan.condition} AND {same}",
            f"WHEN MATCHED AND s.{GONE} THEN DELETE",
            f"WHEN MATCHED THEN UPDATE SET {pairs}",
            f"WHEN NOT MATCHED AND NOT s.{REUSED} THEN {_insert(plan, {name: f's.{quoted(name)}' for name in plan.columns})}",
        )
    )


def commit_values(plan: MergePlan) -> dict[str, str]:
    """Returns the columns that say which commit wrote a row, each with its Spark SQL, for rows that are written with the whole table."""
    marked = quoted(plan.deleted_column) if plan.deleted_column else ""
    return dict(plan.metadata.values(RowOp.READ, marked=marked))


def _insert(plan: MergePlan, values: dict[str, str], marked: str = "") -> str:
    """Returns the INSERT of a row of these values, with what says which commit wrote it."""
    told = {**values, **dict(plan.metadata.values(RowOp.INSERT, marked=marked))}
    return f"INSERT ({', '.join(map(quoted, told))}) VALUES ({', '.join(told.values())})"


def _stamped(plan: MergePlan, op: RowOp, marked: str = "", *, marks: bool = True) -> str:
    """Returns what an UPDATE sets of these columns, behind the others."""
    return "".join(f", t.{quoted(name)} = {value}" for name, value in plan.metadata.values(op, marked=marked, marks=marks))


INCOMPLETE: Final = "CDC_OPS_INCOMPLETE:"
"""Begins the message of a statement that would insert a row of which not every column is known."""


def _value(plan: MergePlan, name: str) -> str:
    """Returns what a column of a matched row becomes: what no event spoke of stays as it is."""
    if not plan.present or name == plan.deleted_column:
        return f"s.{quoted(name)}"
    present = f"s.{quoted(plan.present)}"
    said = f"{present} IS NULL OR array_contains({present}, {text_literal(name)})"
    if plan.truncates and plan.delete_missing_where:  # what was there from before the table was emptied is gone
        said += f" OR (array_contains({present}, {text_literal(REST_IS_NULL)}) AND ({plan.delete_missing_where}))"
    return f"IF({said}, s.{quoted(name)}, t.{quoted(name)})"


def _inserted(plan: MergePlan, name: str) -> str:
    """Returns what a column of a new row becomes; a row that is not known as a whole ends the statement."""
    if not plan.present or name != plan.keys[0]:
        return f"s.{quoted(name)}"
    key = ", ".join(f"CAST(s.{quoted(part)} AS STRING)" for part in plan.keys)
    failure = f"raise_error(concat('{INCOMPLETE}', hex(concat_ws(', ', {key})), ':'))"
    present = f"s.{quoted(plan.present)}"
    return f"IF({present} IS NULL OR array_contains({present}, {text_literal(REST_IS_NULL)}), s.{quoted(name)}, {failure})"
