"""Envelopes of a format, typed for one table: the canonical change feed of `core.events.change_feed`; Spark expressions only."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import and_
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.balanced import balanced_reduce
from cdc_ops.core.events.change_feed import feed_columns, key_columns, struct_type
from cdc_ops.core.events.format_spec import WHOLE_ROW, EventOperation, FormatOptions, RecordKind, RowImage
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.value_policies import OnUnstorable
from cdc_ops.formats.feed.envelopes import is_doubled
from cdc_ops.formats.feed.format import Format, Reading
from cdc_ops.formats.feed.values import any_of, uncompiled

_SIDES: Final = ("before", "after")
_CARRIED: Final = ("snapshot", "transaction", "source_time", "ddl", "raw", "file", "line")


def records_of(envelopes: DataFrame, table: TableName) -> DataFrame:
    """Returns the envelopes of one table, and those whose table is unknown."""
    return envelopes.where(is_tableless() | is_of(table))


def is_of(table: TableName) -> Expr:
    """True for records of a table."""
    name = F.col("table")
    return F.coalesce((name["schema"] == table.schema) & (name["name"] == table.name), F.lit(False))


def is_tableless() -> Expr:
    """True for envelopes without a table: `bad` records that are not JSON, and statements and `control` records that do not name one."""
    return F.coalesce(F.col("table")["name"], F.lit("")) == ""


def canonical_feed(
    form: Format, envelopes: DataFrame, schema: TableSchema, keys: Iterable[str], options: FormatOptions, *, before: bool = True
) -> DataFrame:
    """Types the envelopes of one table by its columns.

    A record whose images, key or position cannot be read exactly becomes `bad`, with the columns and the reason; nothing of it is applied.

    Args:
        form: The format that took the records apart.
        envelopes: What `form.envelopes` returned, of this table only: see `records_of`.
        schema: The table, as the source has it.
        keys: The columns that identify a row.
        options: The format's options from the pipeline file.
        before: False if the caller does not need before images: only their key is read, and `before` is NULL.

    Raises:
        ConfigError: the archive has settings that lose data, and `accept_losses` does not name them.
        SourceTableError: the table cannot be fed from this format.
    """
    names = tuple(keys)
    check_format(form.spec, options, schema, names)
    in_key = key_columns(schema, names)
    wanted = schema.columns if before else tuple(column for column in schema.columns if column in in_key)
    sides = {name: _side(schema, name, form, options, columns) for name, columns in (("before", wanted), ("after", schema.columns))}
    kind, op = _given("kind"), _given("op")
    key, old_key, problems = F.col("__key"), F.col("__old_key"), _problems(sides, form)
    keyed = _read(_aligned(envelopes, schema), sides).withColumns(_keys(schema, names))
    checked = keyed.withColumn("__wrong", (kind == RecordKind.CHANGE) & any_of([condition for condition, _ in problems]))
    wrong = F.col("__wrong")
    good = (kind == RecordKind.CHANGE) & ~wrong
    row = good & (op != EventOperation.DELETE)
    told = F.concat_ws("; ", *(F.when(condition, text) for condition, text in problems))
    none = F.array().cast("array<string>")
    columns = {
        "kind": F.when(wrong, RecordKind.BAD.value).otherwise(kind),
        "op": F.when(good, op),
        "table": _given("table"),
        "key": F.when(good, key),
        "previous_key": F.when(good & (old_key != key), old_key),
        "before": F.when(good, sides["before"].image) if before else F.lit(None),
        "after": F.when(row, sides["after"].image),
        "present": F.when(row, _present(sides["after"], sparse=form.spec.sparse)).otherwise(none),
        "nulled": F.when(row, sides["after"].lost).otherwise(none),
        "unmapped": F.when(good, _unmapped(sides, schema)).otherwise(none),
        "position": _given("position"),
        "reason": F.coalesce(uncompiled(wrong, told), _given("reason")),
        **{name: _given(name) for name in _CARRIED},
    }
    return checked.select(*(columns[name].cast(its_type).alias(name) for name, its_type in feed_columns(form.spec, schema, names)))


def _present(after: "_Side", *, sparse: bool) -> Expr:
    """Returns the names of the columns that an image has; a whole row of a sparse format has all columns."""
    if not sparse:
        return after.present
    every = all_names(after.schema.columns)
    return F.when(_given("op").isin(*WHOLE_ROW), every).otherwise(after.present)


def _given(name: str) -> Expr:
    """Returns an envelope's column for the feed, once its images have been read."""
    return F.col(f"__e_{name}")


def _aligned(envelopes: DataFrame, schema: TableSchema) -> DataFrame:
    """Puts the entries of images into the order of the table's columns; an image is kept as a map only where its names differ from them.

    Nearly all records name the columns of the table in its order, so all names are compared at once instead of looked up one by one.
    Each stage is a separate projection, so that an expression with many uses is computed once. A stage has few columns, because each
    stage copies all of them.
    """
    given = [F.col(name).alias(f"__e_{name}") for name in envelopes.columns if name not in (*_SIDES, "types")]
    columns = []
    for name in (*_SIDES, "types"):
        image, names = F.col(name), all_names(schema.columns)
        plain = F.coalesce(F.map_keys(image) == names, F.lit(False))
        found = uncompiled(image.isNotNull(), _entries(image, names))
        columns.append(F.when(plain, F.map_values(image)).otherwise(found).alias(f"__in_order_{name}"))
        if name in _SIDES:
            columns += [plain.alias(f"__plain_{name}"), F.when(~plain, image).alias(f"__e_{name}")]
    return envelopes.select(*given, F.col("types").isNotNull().alias("__e_typed"), *columns)


def _entries(image: Expr, names: Expr) -> Expr:
    return F.transform(names, lambda name: F.try_element_at(image, name))


def _read(aligned: DataFrame, sides: dict[str, "_Side"]) -> DataFrame:
    """Reads the values of both images."""
    given = [F.col(name) for name in aligned.columns if name != "__in_order_types"]
    return aligned.select(*given, *(column for side in sides.values() for column in side.columns()))


def _side(schema: TableSchema, name: str, form: Format, options: FormatOptions, wanted: Iterable[Column]) -> "_Side":
    """Returns an image and the columns that are read of it."""
    texts, types, read = F.col(f"__in_order_{name}"), F.col("__in_order_types"), []
    for index, column in enumerate(schema.columns):
        if column in wanted:
            text, kind = F.get(texts, F.lit(index)), F.get(types, F.lit(index))
            read.append((column, text, form.reading(column, text, kind, options)))
    return _Side(schema, name, tuple(read))


@dataclass(frozen=True, slots=True)
class _Side:
    """One image of a row, before or after. Its entries are in the order of the table's columns, see `_aligned`.

    Args:
        schema: The table.
        name: `before` or `after`.
        read: The columns that are read of it, with the text and the reading of each.
    """

    schema: TableSchema
    name: str
    read: tuple[tuple[Column, Expr, Reading], ...]

    def columns(self) -> list[Expr]:
        """Returns three columns: the image's row, the number of columns that it has, and the names of its nullified columns."""
        texts, known = F.col(f"__in_order_{self.name}"), len(self.schema.columns)
        rows = [reading.value.cast(column.delta_type).alias(column.name) for column, _, reading in self.read]
        lost = {column: F.coalesce(reading.unstorable, F.lit(False)) for column, _, reading in self.read if reading.unstorable is not None}
        image = F.when(texts.isNotNull(), F.struct(*rows)).cast(struct_type([column for column, _, _ in self.read]))
        found = F.when(texts.isNull(), 0).when(self._is_plain, known).otherwise(uncompiled(F.lit(True), F.size(self._found)))
        return [
            image.alias(f"__image_{self.name}"),
            found.alias(f"__known_{self.name}"),
            names_of(list(lost.values()), lost).alias(f"__lost_{self.name}"),
        ]

    @property
    def image(self) -> Expr:
        """Returns the image as a struct of the table's columns; NULL if the record has no such image."""
        return F.col(f"__image_{self.name}")

    @property
    def lost(self) -> Expr:
        """Returns the names of columns that are NULL because the stored type cannot hold their value."""
        return F.col(f"__lost_{self.name}")

    @property
    def is_plain(self) -> Expr:
        """True if the image has each of the table's columns once and no others, as nearly all images have."""
        return self._is_plain | (F.coalesce(F.size(_given(self.name)), F.lit(0)) == F.col(f"__known_{self.name}"))

    @property
    def doubled(self) -> Expr:
        """True for an image that has a column twice."""
        return ~self.is_plain & uncompiled(F.lit(True), is_doubled(_given(self.name)))

    @property
    def present(self) -> Expr:
        """Returns the names of the columns that the image has."""
        every = all_names(self.schema.columns)
        some = F.coalesce(uncompiled(F.lit(True), self._found), F.array().cast("array<string>"))
        return F.when(F.col(f"__known_{self.name}") == len(self.schema.columns), every).otherwise(some)

    @property
    def _is_plain(self) -> Expr:
        """True for an image with exactly the table's columns; only its values are kept, in the table's order."""
        return F.col(f"__plain_{self.name}")

    @property
    def _found(self) -> Expr:
        """Returns the names of the columns that an image has whose names differ from the table's, in the order of the table."""
        return F.array_intersect(all_names(self.schema.columns), F.map_keys(_given(self.name)))

    def problems(self) -> list[tuple[Expr, Expr]]:
        """Returns pairs of a condition and a reason: the condition is true if a column's value cannot be stored."""
        return [found for column, text, reading in self.read for found in self._problems(column, text, reading)]

    def _problems(self, column: Column, text: Expr, reading: Reading) -> list[tuple[Expr, Expr]]:
        said = F.concat(F.lit(f"column {column.name!r} of the {self.name} image: "), F.substring(text, 1, 40))
        told = F.concat(said, F.lit(f" cannot be read as {column.source_type}"))
        if reading.untyped:
            told = F.concat(told, F.when(_given("typed"), "").otherwise(reading.untyped))
        unread = text.isNotNull() & self.image[column.name].isNull()
        if reading.unstorable is None:
            return [(unread, told)]
        lost = F.array_contains(self.lost, column.name)
        if not _must_not_be_lost(self.schema, column):
            return [(unread & ~lost, told)]
        return [(unread & ~lost, told), (lost, F.concat(said, F.lit(" does not fit the stored type, and the policy is to fail")))]


def all_names(columns: Iterable[Column]) -> Expr:
    """Returns the names of columns as an array, in their order."""
    return F.array(*(F.lit(column.name) for column in columns))


def names_of(conditions: list[Expr], columns: Iterable[Column]) -> Expr:
    """Returns the names of the columns whose condition is true, in the order of the table: for nearly all rows, all columns or none."""
    names = [column.name for column in columns]
    if not names:
        return F.array().cast("array<string>")
    some = F.array_compact(F.array(*(F.when(one, name) for one, name in zip(conditions, names, strict=True))))
    every = F.array(*map(F.lit, names))
    none = F.array().cast("array<string>")
    all_of_them = balanced_reduce(and_, conditions)
    return F.when(all_of_them, every).when(~any_of(conditions), none).otherwise(uncompiled(F.lit(True), some))


def _must_not_be_lost(schema: TableSchema, column: Column) -> bool:
    types = schema.types.for_column(column.name)
    policy = types.nan_values if logical_type_of(column) is LogicalType.DECIMAL else types.zero_dates
    return policy is OnUnstorable.FAIL


def _keys(schema: TableSchema, keys: tuple[str, ...]) -> dict[str, Expr]:
    """Returns two keys: the one after an event (of a delete, the deleted one), and the one before an update; NULL if it is unknown."""
    op = _given("op")
    before, after = (_key_of(F.col(f"__image_{side}"), schema, keys) for side in ("before", "after"))
    key = F.when(op == EventOperation.DELETE, before).otherwise(F.coalesce(after, before))
    return {"__key": F.when(_given("kind") == RecordKind.CHANGE, key), "__old_key": F.when(op == EventOperation.UPDATE, before)}


def _key_of(image: Expr, schema: TableSchema, keys: tuple[str, ...]) -> Expr:
    """Returns the key columns of an image as a struct, NULL if the image lacks one of them."""
    parts = [image[column.name].alias(column.name) for column in key_columns(schema, keys)]
    missing = any_of([part.isNull() for part in parts])
    return F.when(image.isNotNull() & ~missing, F.struct(*parts))


def _problems(sides: dict[str, _Side], form: Format) -> list[tuple[Expr, Expr]]:
    """Returns pairs of a condition and a reason: the condition is true if the record is bad for this reason."""
    op, key, position = _given("op"), F.col("__key"), _given("position")
    keyless = (op != EventOperation.TRUNCATE) & key.isNull()
    moved = (F.col("__old_key") != key) & (F.col("__known_after") < len(sides["after"].schema.columns))
    imageless = op.isin(EventOperation.READ, EventOperation.CREATE, EventOperation.UPDATE) & sides["after"].image.isNull()
    unplaced = any_of([position[part.name].isNull() for part in form.spec.order]) | position.isNull()
    tableless = (F.coalesce(_given("table")["name"], F.lit("")) == "") & F.lit(form.spec.names_table)
    whole_row = moved & F.lit(form.spec.images is RowImage.PARTIAL)
    return [
        (~op.isin(*EventOperation) | op.isNull(), F.concat(F.lit("unknown operation "), F.coalesce(op, F.lit("NULL")))),
        (tableless, F.lit("the record has no table name")),
        (unplaced, F.lit("the record has no complete position")),
        (imageless, F.lit("the record has no after image")),
        (keyless, F.lit("the record does not have all key columns")),
        *((side.doubled, F.lit(f"the {name} image has a column twice")) for name, side in sides.items()),
        (whole_row, F.lit("the update changes the key, and its after image does not have all columns")),
        *(problem for side in sides.values() for problem in side.problems()),
    ]


def _unmapped(sides: dict[str, _Side], schema: TableSchema) -> Expr:
    names, none = all_names(schema.columns), F.array().cast("array<string>")
    strange = {name: uncompiled(F.lit(True), F.array_except(F.map_keys(_given(name)), names)) for name in sides}
    before, after = (F.when(side.is_plain, none).otherwise(strange[name]) for name, side in sides.items())
    return F.coalesce(after, before, none)
