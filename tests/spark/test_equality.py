"""verify, reconcile and the lookback window agree on which rows are equal: every pair of values, of the same type and of others."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.lake.diff.changes import DELETED, difference, same_rows
from cdc_ops.lake.diff.comparison import compare_tables
from cdc_ops.lake.diff.equality import Equality
from cdc_ops.lake.diff.row_diff import DIFFERENT, ONLY_IN_LAKE, ONLY_IN_SOURCE, diff_by_digest, diff_by_values

Values = dict[str, str]
"""Values of a column as SQL, each with what it stands for: two values are equal if that is the same."""

NULL: Values = {"NULL": "null"}
FLOATS: Values = {
    "0.0D": "0",
    "-0.0D": "0",
    "double('NaN')": "nan",
    "double('Infinity')": "inf",
    "double('-Infinity')": "-inf",
    "1.5D": "1.5",
}
TEXTS: Values = {"''": "", "' '": " ", "'a'": "a", "'a '": "a_", "'A'": "A", "'\\u00e4'": "ae", "'a\\u0308'": "a-umlaut", "'NULL'": "text"}
BINARIES: Values = {"X''": "", "X'00'": "00", "X'0000'": "0000", "X'61'": "a", "X'6120'": "a_", "X'FF'": "ff"}
INTEGERS: Values = {"0": "0", "-1": "-1", "7": "7", "127": "127"}
BIG: Values = {"7L": "7", "9007199254740992L": "2^53", "9007199254740993L": "2^53+1", "-9007199254740993L": "-2^53-1"}
WIDE: Values = {"7": "7", "99999999999999999999999999999999999999": "10^38-1", "10000000000": "10^10"}
DATES: Values = {"DATE'1970-01-01'": "1970", "DATE'2026-03-01'": "march", "DATE'0001-01-01'": "0001"}
TIMES: Values = {
    "TIMESTAMP_NTZ'1970-01-01 00:00:00'": "1970", "TIMESTAMP_NTZ'1970-01-01 00:00:00.000001'": "1970+",
    "TIMESTAMP_NTZ'2026-03-01 00:00:00'": "march", "TIMESTAMP_NTZ'2026-03-29 02:30:00'": "gap",
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A column with its type and values on both sides; no type in the lake = the lake does not have it."""

    source_type: str
    source: Values
    lake_type: str
    lake: Values


def same(kind: str, values: Values) -> Pair:
    return Pair(kind, values, kind, values)


COLUMNS = (
    same("boolean", {"TRUE": "yes", "FALSE": "no"}),
    same("tinyint", INTEGERS),
    same("bigint", BIG),
    same("float", FLOATS),
    same("double", FLOATS | {"0.1D": "0.1", "1e-320D": "tiny", "float(0.1)": "0.1f"}),
    same("decimal(10,2)", {"0.01": "0.01", "-0.00": "0", "0": "0", "1.5": "1.5", "1.50": "1.5"}),
    same("decimal(38,10)", {"1.5": "1.5", "1.5000000001": "1.5+"}),
    same("string", TEXTS),
    same("binary", BINARIES),
    same("date", DATES),
    same("timestamp", TIMES),
    same("timestamp_ntz", TIMES),
    # In the type that holds both.
    Pair("int", INTEGERS, "bigint", BIG | {"0L": "0", "4294967296L": "2^32"}),
    Pair("bigint", INTEGERS, "smallint", INTEGERS | {"128": "128"}),
    Pair("bigint", BIG, "decimal(20,0)", {"9007199254740992": "2^53", "9007199254740993": "2^53+1", "7": "7"}),
    Pair("decimal(4,1)", {"1.5": "1.5", "1.0": "1", "0": "0"}, "decimal(20,2)", {"1.50": "1.5", "1.54": "1.54", "1.00": "1", "-0.0": "0"}),
    Pair("smallint", INTEGERS, "decimal(12,2)", {"7.00": "7", "7.01": "7.01", "0": "0"}),
    Pair("float", {"0.5": "0.5", "0.1": "0.1f", "-0.0D": "0", "double('NaN')": "nan"}, "double", FLOATS | {"0.5D": "0.5", "0.1D": "0.1"}),
    Pair("int", INTEGERS, "double", FLOATS | {"7.0D": "7", "7.5D": "7.5", "-1D": "-1"}),
    Pair("date", DATES, "timestamp_ntz", TIMES),
    # In both types.
    Pair("bigint", BIG, "double", {"9007199254740992D": "2^53", "7D": "7", "7.5D": "7.5", "1e300D": "huge", "double('NaN')": "nan"}),
    Pair("double", FLOATS | {"9007199254740992D": "2^53"}, "bigint", BIG | {"0L": "0", "1L": "1", "9223372036854775807L": "most"}),
    Pair("decimal(10,2)", {"0.1": "0.1", "1.5": "1.5", "0": "0"}, "double", FLOATS | {"0.1D": "0.1", "0.104D": "0.104", "1e300D": "huge"}),
    Pair("float", {"0.5": "0.5", "0.1": "0.1f", "1e30D": "huge"}, "decimal(10,2)", {"0.5": "0.5", "0.25": "0.25"}),
    Pair("decimal(38,0)", WIDE, "decimal(38,10)", {"7": "7", "7.0000000001": "7+", "10000000000": "10^10"}),
    Pair("decimal(38,10)", {"7": "7", "7.5": "7.5", "10000000000": "10^10"}, "decimal(38,0)", WIDE | {"8": "8"}),
    # As texts.
    Pair("boolean", {"TRUE": "true", "FALSE": "false"}, "string", {"'true'": "true", "'TRUE'": "TRUE", "'1'": "1", "''": ""}),
    Pair("boolean", {"TRUE": "true", "FALSE": "false"}, "int", {"1": "1", "0": "0", "2": "2"}),
    Pair("int", INTEGERS, "string", {"'7'": "7", "' 7'": " 7", "'7.0'": "7.0", "'x'": "x", "''": "", "'-1'": "-1"}),
    Pair("string", TEXTS | {"'7'": "7"}, "int", INTEGERS),
    Pair("string", TEXTS, "binary", BINARIES),
    Pair("binary", BINARIES, "string", {"''": "", "'a'": "a", "'a '": "a_"}),
    Pair("timestamp", TIMES, "timestamp_ntz", TIMES),
    Pair("date", DATES, "string", {"'1970-01-01'": "1970", "'1970-1-1'": "1970-1-1", "''": ""}),
    # Missing in the lake.
    Pair("string", TEXTS, "", {}),
    Pair("double", FLOATS, "", {}),
)  # fmt: skip

Indexes = list[int | None]
"""Of each column the number of its value, None for NULL."""
Chosen = list[tuple[int, Indexes]]
"""Rows of one side: an id, and their values."""
Rows = list[tuple[int, Indexes, Indexes]]
"""Rows of both sides."""


def means(values: Values, index: int | None) -> str:
    return "null" if index is None else list((values or NULL).values())[index]


def are_equal(source: Indexes, lake: Indexes) -> bool:
    return all(means(pair.source, s) == means(pair.lake, x) for pair, s, x in zip(COLUMNS, source, lake, strict=True))


def indexes(values: Values) -> Indexes:
    return [None, *range(len(values))]


def single_pairs() -> Iterator[tuple[Indexes, Indexes]]:
    """Yields rows in which one column has values, and each of them beside each."""
    for number, pair in enumerate(COLUMNS):
        for source in indexes(pair.source):
            for lake in indexes(pair.lake):
                rows: list[Indexes] = [[None] * len(COLUMNS) for _ in range(2)]
                rows[0][number], rows[1][number] = source, lake
                yield rows[0], rows[1]


def random_rows(count: int, seed: int) -> Iterator[tuple[Indexes, Indexes]]:
    """Yields rows with values in all columns, equal ones in the lake, or others in a few columns."""
    chance = random.Random(seed)
    every = [[(s, x) for s in indexes(pair.source) for x in indexes(pair.lake)] for pair in COLUMNS]
    shared = [[(s, x) for s, x in cells if means(p.source, s) == means(p.lake, x)] for p, cells in zip(COLUMNS, every, strict=True)]
    for _ in range(count):
        cells = [chance.choice(choices) for choices in shared]
        for number in chance.sample(range(len(COLUMNS)), chance.choice((0, 0, 1, 2))):
            cells[number] = chance.choice(every[number])
        yield [s for s, _ in cells], [x for _, x in cells]


def numbered(rows: Iterable[tuple[Indexes, Indexes]]) -> Rows:
    return [(number, source, lake) for number, (source, lake) in enumerate(rows)]


def both(spark: SparkSession, rows: Rows) -> tuple[DataFrame, DataFrame]:
    return tables(spark, [(number, s) for number, s, _ in rows], [(number, x) for number, _, x in rows])


def tables(spark: SparkSession, source: Chosen, lake: Chosen) -> tuple[DataFrame, DataFrame]:
    """Returns both tables: `id`, and the columns `c0`, `c1`, ... of their types."""

    def side(kinds: list[str], values: list[Values], chosen: Chosen) -> DataFrame:
        columns = [(i, kind, one) for i, (kind, one) in enumerate(zip(kinds, values, strict=True)) if kind]
        arrays = ", ".join(f"CAST(array({', '.join(map(cell, one))}) AS array<{kind}>) v{i}" for i, kind, one in columns)
        picked = [f"get(v{i}, chosen[{i}]) AS c{i}" for i, _, _ in columns]
        table = spark.createDataFrame(chosen, "id bigint, chosen array<int>")
        return table.crossJoin(spark.sql(f"SELECT {arrays}")).selectExpr("id", *picked)

    def cell(sql: str) -> str:
        return f"CAST({sql} AS TIMESTAMP)" if sql.startswith("TIMESTAMP_NTZ") else sql

    left = side([pair.source_type for pair in COLUMNS], [pair.source for pair in COLUMNS], source)
    right = side([pair.lake_type for pair in COLUMNS], [pair.lake for pair in COLUMNS], lake)
    return left.localCheckpoint(), right.localCheckpoint()


def found_by_verify(source: DataFrame, lake: DataFrame) -> set[int]:
    kinds = {(row["key"][0], row["kind"]) for row in diff_by_digest(source, lake, ("id",)).where("kind IS NOT NULL").collect()}
    assert {kind for _, kind in kinds} <= {DIFFERENT}
    assert compare_tables(source, lake, ("id",)).different == len(kinds)
    return {int(key) for key, _ in kinds}


def found_by_reconcile(source: DataFrame, lake: DataFrame) -> set[int]:
    rows = difference(source, lake, ("id",)).collect()
    assert not [row for row in rows if row[DELETED]]
    return {row["id"] for row in rows}


def found_by_lookback(source: DataFrame, lake: DataFrame) -> set[int]:
    equality = Equality.between(source, lake)
    renamed = lake.select(*(F.col(name).alias(f"__lake_{name}") for name in lake.columns))
    joined = source.join(renamed, F.col("id") == F.col("__lake_id"))
    equal = (equality.equal_values(name, F.col(name), equality.lake_value(name, f"__lake_{name}")) for name in source.columns)
    return {row["id"] for row in joined.where(reduce(or_, (~one for one in equal))).select("id").collect()}


@pytest.mark.parametrize("seed", [None, 1])
def test_verify_reconcile_and_lookback_find_the_same_rows_different(spark: SparkSession, seed: int | None) -> None:
    rows = numbered(single_pairs() if seed is None else random_rows(400, seed))
    source, lake = both(spark, rows)
    expected = {number for number, left, right in rows if not are_equal(left, right)}
    assert 100 < len(expected) < len(rows) - 100

    def described(numbers: set[int]) -> list[str]:
        chosen = [(number, zip(COLUMNS, left, right, strict=True)) for number, left, right in rows if number in numbers]
        cells = [(number, pair, s, x) for number, row in chosen for pair, s, x in row if s is not None or x is not None]
        return [f"{n}: {p.source_type} {means(p.source, s)} | {p.lake_type} {means(p.lake, x)}" for n, p, s, x in cells][:20]

    for found in (found_by_verify, found_by_reconcile, found_by_lookback):
        different = found(source, lake)
        assert described(different ^ expected) == [], found.__name__


def test_tables_without_keys_are_the_same_if_their_rows_are_equal_and_as_many(spark: SparkSession) -> None:
    rows = numbered(random_rows(60, 2))
    equal = [row for row in rows if are_equal(row[1], row[2])]
    other = next(row for row in rows if not are_equal(row[1], row[2]))
    assert len(equal) > 10
    source, lake = (side.drop("id") for side in both(spark, equal))
    assert same_rows(source, lake)
    assert compare_tables(source.distinct(), lake.distinct(), source.columns).equal
    assert not same_rows(source, lake.union(lake.limit(1)))
    source, lake = (side.drop("id") for side in both(spark, [*equal, other]))
    assert not same_rows(source, lake)


def test_verify_and_reconcile_find_the_same_keys_on_one_side_only(spark: SparkSession) -> None:
    """Each value is a key: of column 3 that of `c3`, with NULL in the others."""
    expected: Counter[tuple[int, str]] = Counter()
    sides: tuple[Chosen, Chosen] = ([], [])
    for number, pair in enumerate(COLUMNS):
        labels = [{means(values, index): index for index in indexes(values)} for values in (pair.source, pair.lake)]
        for side, found in zip(sides, labels, strict=True):
            side += [(number, [index if i == number else None for i in range(len(COLUMNS))]) for index in found.values()]
        expected[number, ONLY_IN_SOURCE] = len(labels[0].keys() - labels[1].keys())
        expected[number, ONLY_IN_LAKE] = len(labels[1].keys() - labels[0].keys())
    source, lake = tables(spark, *sides)
    verified = diff_by_digest(source, lake, source.columns).where("kind IS NOT NULL")
    reconciled = diff_by_values(source, lake, source.columns).select(F.coalesce("source_row.id", "lake_row.id").alias("id"), "kind")
    assert sum(expected.values()) > 100
    assert Counter((int(row["key"][0]), row["kind"]) for row in verified.collect()) == +expected
    assert Counter((row["id"], row["kind"]) for row in reconciled.collect()) == +expected


def test_a_key_that_only_the_lake_has_is_deleted_as_the_lake_has_it(spark: SparkSession) -> None:
    source = spark.sql("SELECT DATE'2026-03-01' AS day, 1 AS n")
    lake = spark.sql("SELECT * FROM VALUES (TIMESTAMP_NTZ'2026-03-01 00:00:00', 1), (TIMESTAMP_NTZ'2026-03-01 10:00:00', 1) AS t(day, n)")
    assert [(str(row["day"]), row[DELETED]) for row in difference(source, lake, ("day",)).collect()] == [("2026-03-01 10:00:00", True)]


def test_a_key_that_the_lake_has_twice_is_one_row_to_merge(spark: SparkSession) -> None:
    source = spark.sql("SELECT * FROM VALUES (1, 'new'), (2, 'same') AS t(id, v)")
    lake = spark.sql("SELECT * FROM VALUES (1, 'old'), (1, 'older'), (2, 'same'), (2, 'same'), (3, 'gone'), (3, 'gone') AS t(id, v)")
    found = difference(source, lake, ("id",)).orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, "new", False), (3, None, True)]
    assert compare_tables(source, lake, ("id",)).duplicates == 3
