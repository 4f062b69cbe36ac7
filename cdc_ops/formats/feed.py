"""Envelopes of a format, typed for one table: the canonical change feed of `core.feeds`; Spark expressions only."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add, and_
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
    problem = F.concat_ws("; ", *_problems(sides, form))
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
        "unmapped": F.when(good, _unmapped(sides, schema)).otherwise(F.array().cast("array<string>")),
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
    sides = [_Side(schema, name) for name in ("before", "after")]
    known = {f"__n_{side.name}": side.known for side in sides}
    images = {f"__{side.name}": side.row for side in sides}
    return envelopes.withColumns(texts).withColumns(known).withColumns(values).withColumns(images)


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
    def known(self) -> Expr:
        """How many of the table's columns the image has; as many as it has entries: none twice, and none that the table has not."""
        return reduce(add, (self._has(index).cast("int") for index in range(len(self.schema.columns))))

    @property
    def is_plain(self) -> Expr:
        """True if all entries of the image are of the table's columns, each of another: what nearly all images are.

        Spark does not compile functions of arrays of text; `is_plain` tells that they are not needed.
        """
        return F.size(self.name) == F.col(f"__n_{self.name}")

    @property
    def doubled(self) -> Expr:
        """True for an image that names a column twice."""
        return ~self.is_plain & is_doubled(F.col(self.name))

    @property
    def present(self) -> Expr:
        """Names of the columns that the image has."""
        return names_of([self._has(index) for index in range(len(self.schema.columns))], self.schema)

    def _has(self, index: int) -> Expr:
        text = F.col(f"__t_{self.name}{index}").isNotNull()
        return text | F.coalesce(F.map_contains_key(F.col(self.name), self.schema.columns[index].name), F.lit(False))

    @property
    def nulled(self) -> Expr:
        """Names of the columns for which NULL stands because no stored type holds the value."""
        return names_of([self._unstorable(index) for index in range(len(self.schema.columns))], self.schema)

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

    def _value(self, index: int) -> Expr:
        return F.col(f"__v_{self.name}{index}")

    def _unstorable(self, index: int) -> Expr:
        return F.col(f"__u_{self.name}{index}")


def names_of(conditions: list[Expr], schema: TableSchema) -> Expr:
    """Returns the names of the columns whose condition is true, in the order of the table; nearly always these are all of them, or none."""
    names = [column.name for column in schema.columns]
    some = F.array_compact(F.array(*(F.when(one, name) for one, name in zip(conditions, names, strict=True))))
    every = F.array(*map(F.lit, names))
    none = F.array().cast("array<string>")
    return F.when(reduce(and_, conditions), every).when(~any_of(conditions), none).otherwise(some)


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
        *(F.when(side.doubled, f"its image {name} names a column twice") for name, side in sides.items()),
        F.when(moved & F.lit(form.facts.images is Images.PARTIAL), "it changes the key and does not have the whole row"),
        *(problem for side in sides.values() for problem in side.problems()),
    ]


def _unmapped(sides: dict[str, _Side], schema: TableSchema) -> Expr:
    names, none = F.array(*(F.lit(column.name) for column in schema.columns)), F.array().cast("array<string>")
    before, after = (F.when(side.is_plain, none).otherwise(F.array_except(F.map_keys(name), names)) for name, side in sides.items())
    return F.coalesce(after, before, none)
