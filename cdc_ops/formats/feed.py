"""Envelopes of a format, typed for one table: the canonical change feed of `core.feeds`; Spark expressions only."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.event_values import ValueFamily, family_of
from cdc_ops.core.events import EventFormat, Images, Operation, RecordKind, check_format
from cdc_ops.core.feeds import feed_columns, key_columns, struct_type
from cdc_ops.core.tables import Column, TableName, TableSchema
from cdc_ops.core.type_policies import OnUnstorable
from cdc_ops.formats.base import Format
from cdc_ops.formats.records import is_doubled
from cdc_ops.formats.values import any_of

_CARRIED: Final = ("snapshot", "transaction", "source_time", "ddl", "raw", "file", "line")


def records_of(envelopes: DataFrame, table: TableName, *, strays: bool = True) -> DataFrame:
    """Returns what concerns one table: its own records, and those that no table could be found for.

    Args:
        envelopes: Of a topic or folder.
        table: Which.
        strays: False leaves out what no table was found for. Where tables of one reading are counted together, one of them takes the
            strays, or `strays_of` does: each record counts once.
    """
    name = F.col("table")
    mine = F.coalesce((name["schema"] == table.schema) & (name["name"] == table.name), F.lit(False))
    return envelopes.where(_tableless() | mine) if strays else envelopes.where(mine)


def strays_of(envelopes: DataFrame) -> DataFrame:
    """Returns what no table could be found for: `bad` records that are no JSON, statements and `control` records without a table."""
    return envelopes.where(_tableless())


def _tableless() -> Expr:
    return F.coalesce(F.col("table")["name"], F.lit("")) == ""


def canonical_feed(form: Format, envelopes: DataFrame, schema: TableSchema, keys: Iterable[str], chosen: EventFormat) -> DataFrame:
    """Types the envelopes of one table.

    A record whose images, key or position cannot be read exactly becomes `bad`, with the columns and the reason; nothing of it is applied.

    Args:
        form: The format that took the records apart.
        envelopes: What `form.envelopes` returned, of this table only: see `records_of`.
        schema: The table, as the source has it.
        keys: The columns that identify a row.
        chosen: What the pipeline file says of the format.

    Raises:
        ConfigError: settings that lose data are not accepted.
        SourceTableError: the table cannot be fed from this format.
    """
    names = tuple(keys)
    check_format(form.facts, chosen, schema, names)
    sides = {name: _Side(schema, name) for name in ("before", "after")}
    change = F.col("kind") == RecordKind.CHANGE
    read = _rows(form, envelopes, schema, chosen)
    parts = {name: _keys(schema, names, f"__{name}") for name in sides}
    deletes = F.col("op") == Operation.DELETE
    key = F.when(deletes, parts["before"]).otherwise(F.coalesce(parts["after"], parts["before"]))
    old_key = F.when(F.col("op") == Operation.UPDATE, parts["before"])
    found = {"__present": sides["after"].present, "__nulled": sides["after"].nulled, "__key": F.when(change, key), "__old_key": old_key}
    read = read.withColumns(found)
    problem = F.array_join(F.array_compact(F.array(*_problems(sides, form))), "; ")
    read = read.withColumn("__problem", F.when(change & (problem != ""), problem))
    good = change & F.col("__problem").isNull()
    columns = {
        "kind": F.when(F.col("__problem").isNotNull(), RecordKind.BAD.value).otherwise(F.col("kind")),
        "op": F.when(good, F.col("op")),
        "table": F.col("table"),
        "key": F.when(good, F.col("__key")),
        "previous_key": F.when(good & (F.col("__old_key") != F.col("__key")), F.col("__old_key")),
        "before": F.when(good, F.col("__before")),
        "after": F.when(good & ~deletes, F.col("__after")),
        "present": F.when(good & ~deletes, F.col("__present")).otherwise(F.array().cast("array<string>")),
        "nulled": F.when(good & ~deletes, F.col("__nulled")).otherwise(F.array().cast("array<string>")),
        "unmapped": F.when(good, _unmapped(schema)).otherwise(F.array().cast("array<string>")),
        "position": F.col("position"),
        "reason": F.coalesce(F.col("__problem"), F.col("reason")),
        **{name: F.col(name) for name in _CARRIED},
    }
    return read.select(*(columns[name].cast(kind).alias(name) for name, kind in feed_columns(form.facts, schema, names)))


def _rows(form: Format, envelopes: DataFrame, schema: TableSchema, chosen: EventFormat) -> DataFrame:
    """Reads the values of both images.

    In stages, each of columns of its own: Spark computes a stage once, where an expression that is used in ten places is computed, and
    compiled, ten times.
    """
    texts, values = {}, {}
    for index, column in enumerate(schema.columns):
        name = F.lit(column.name)
        texts[f"__k{index}"] = F.try_element_at(F.col("types"), name)
        for side in ("before", "after"):
            text, kind = F.col(f"__t_{side}{index}"), F.col(f"__k{index}")
            texts[f"__t_{side}{index}"] = F.try_element_at(F.col(side), name)
            reading = form.reading(column, text, kind, chosen)
            values[f"__v_{side}{index}"] = reading.value.cast(column.delta_type)
            values[f"__u_{side}{index}"] = F.lit(False) if reading.unstorable is None else F.coalesce(reading.unstorable, F.lit(False))
    images = {f"__{side}": _Side(schema, side).row for side in ("before", "after")}
    return envelopes.withColumns(texts).withColumns(values).withColumns(images)


@dataclass(frozen=True, slots=True)
class _Side:
    """One image of a row, before or after, whose values have been read."""

    schema: TableSchema
    name: str

    @property
    def row(self) -> Expr:
        """The image as a struct; NULL if there is none."""
        values = [self._value(index).alias(column.name) for index, column in enumerate(self.schema.columns)]
        return F.when(F.col(self.name).isNotNull(), F.struct(*values)).cast(struct_type(self.schema.columns))

    @property
    def present(self) -> Expr:
        """Names of the columns that the image has."""
        return self._names([F.map_contains_key(F.col(self.name), column.name) for column in self.schema.columns])

    @property
    def nulled(self) -> Expr:
        """Names of the columns for which NULL stands because no stored type holds the value."""
        return self._names([self._unstorable(index) for index in range(len(self.schema.columns))])

    def problems(self) -> list[Expr]:
        """Returns for each column what is wrong with its value, NULL if nothing is."""
        return [self._problem(index, column) for index, column in enumerate(self.schema.columns)]

    def _problem(self, index: int, column: Column) -> Expr:
        text, lost = F.col(f"__t_{self.name}{index}"), self._unstorable(index)
        said = F.concat(F.lit(f"column {column.name!r} of the image {self.name}: "), F.substring(text, 1, 40))
        told = F.when(
            text.isNotNull() & self._value(index).isNull() & ~lost, F.concat(said, F.lit(f" cannot be read as {column.source_type}"))
        )
        if not _must_not_be_lost(self.schema, column):
            return told
        return told.when(lost, F.concat(said, F.lit(" has no stored form, and the policy is to fail")))

    def _names(self, conditions: list[Expr]) -> Expr:
        named = (F.when(one, column.name) for one, column in zip(conditions, self.schema.columns, strict=True))
        return F.array_compact(F.array(*named))

    def _value(self, index: int) -> Expr:
        return F.col(f"__v_{self.name}{index}")

    def _unstorable(self, index: int) -> Expr:
        return F.col(f"__u_{self.name}{index}")


def _must_not_be_lost(schema: TableSchema, column: Column) -> bool:
    policy = schema.types.not_a_number if family_of(column) is ValueFamily.DECIMAL else schema.types.zero_dates
    return policy is OnUnstorable.FAIL


def _keys(schema: TableSchema, keys: tuple[str, ...], image: str) -> Expr:
    """Returns the key of an image, NULL if it lacks a part of it."""
    parts = [F.col(image)[column.name].alias(column.name) for column in key_columns(schema, keys)]
    missing = any_of([part.isNull() for part in parts])
    return F.when(F.col(image).isNotNull() & ~missing, F.struct(*parts))


def _problems(sides: dict[str, _Side], form: Format) -> list[Expr]:
    op, key = F.col("op"), F.col("__key")
    keyless = (op != Operation.TRUNCATE) & key.isNull()
    moved = (F.col("__old_key") != key) & (F.size("__present") < len(sides["after"].schema.columns))
    imageless = op.isin(Operation.READ, Operation.CREATE, Operation.UPDATE) & F.col("after").isNull()
    unplaced = any_of([F.col("position")[part.name].isNull() for part in form.facts.order]) | F.col("position").isNull()
    tableless = _tableless() & F.lit(form.facts.names_table)
    return [
        F.when(~op.isin(*Operation) | op.isNull(), F.concat(F.lit("unknown operation "), F.coalesce(op, F.lit("NULL")))),
        F.when(tableless, "it names no table"),
        F.when(unplaced, "its place in the order is not known"),
        F.when(imageless, "it has no row after the change"),
        F.when(keyless, "it does not name the whole key"),
        *(F.when(is_doubled(F.col(name)), f"its image {name} names a column twice") for name in sides),
        F.when(moved & F.lit(form.facts.images is Images.PARTIAL), "it changes the key and does not have the whole row"),
        *(problem for side in sides.values() for problem in side.problems()),
    ]


def _unmapped(schema: TableSchema) -> Expr:
    names = F.array(*(F.lit(column.name) for column in schema.columns))
    image = F.coalesce(F.col("after"), F.col("before"))
    return F.coalesce(F.array_except(F.map_keys(image), names), F.array().cast("array<string>"))
