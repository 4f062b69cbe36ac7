"""Tables of millions of rows, batches of changes of them, and copies for each way of merging: files of a Delta table never change."""

import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks._harness import BENCH
from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from tests.lake_case import Case, schema

ROWS_OF_A_FILE: Final = 375_000
KEYS: Final = ("random", "recent", "clustered")
NEW: Final = 10
"""Of a batch one row in so many is new; the others are updates."""

_COLUMNS: Final = (
    ("id", "bigint"), ("customer_id", "int"), ("status", "string"), ("total", "decimal(12,2)"), ("currency", "string"), ("quantity", "int"),
    ("weight", "double"), ("note", "string"), ("express", "boolean"), ("ordered_on", "date"), ("created_at", "timestamp"),
    ("updated_at", "timestamp"),
)  # fmt: skip
SCHEMA: Final = schema(*_COLUMNS)
SPARK_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS)


def rows_of(ids: DataFrame, batch: int) -> DataFrame:
    """Returns the rows of the given ids, as a batch leaves them; 0 = as they were loaded."""
    return ids.selectExpr(
        "id",
        "CAST(hash(id) % 200000 AS INT) customer_id",
        f"elt(1 + CAST((id + {batch}) % 5 AS INT), 'new', 'paid', 'shipped', 'delivered', 'returned') status",
        f"CAST(5 + (abs(hash(id)) % 50000 + {batch}) / 100 AS DECIMAL(12, 2)) total",
        "elt(1 + CAST(id % 3 AS INT), 'EUR', 'USD', 'GBP') currency",
        f"CAST(id % 100 + {batch} AS INT) quantity",
        "CAST(id % 4000 AS DOUBLE) / 8 weight",
        f"concat('parcel ', id, ', ring twice, leave at the door: ', hash(id, {batch})) note",
        "id % 10 = 0 express",
        "date_add(DATE'2026-01-01', CAST(id % 200 AS INT)) ordered_on",
        "timestamp_seconds(1767225600 + id) created_at",
        f"timestamp_seconds(1767225600 + id + {batch} * 3600) updated_at",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeTable:
    """A table of so many rows, ids from 0 on in the order of loading, which is made once and stays below .local/bench."""

    rows: int

    @property
    def case(self) -> Case:
        """Operations of the table as loaded."""
        return Case(root=str(BENCH / f"changes-{self.rows}"))

    def load(self, spark: SparkSession) -> None:
        """Makes the table unless it is there, and the same files as a table without deletion vectors for those who cannot write these."""
        done = Path(self.case.root) / "loaded"
        if done.exists():
            return
        print(f"writing a table of {self.rows:,} rows ...", flush=True)
        shutil.rmtree(self.case.root, ignore_errors=True)
        operation = self.case.operation(1, ApplyMode.APPEND, schema=SCHEMA)
        frame = rows_of(spark.range(0, self.rows, 1, -(-self.rows // ROWS_OF_A_FILE)), 0)
        apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), read_rows=self.rows))
        plain = self.plain
        _link(Path(self.case.path), plain)
        shutil.rmtree(plain / "_delta_log")
        spark.sql(f"CONVERT TO DELTA parquet.`{plain}`")
        done.touch()

    @property
    def plain(self) -> Path:
        """The same rows as a Delta table without any feature."""
        return Path(self.case.root) / "plain"

    def copy(self, way: str, *, plain: bool = False) -> Case:
        """Returns a fresh copy of the table, whose files are those of the original."""
        case = Case(root=str(BENCH / "changes-copies" / f"{way}-{self.rows}"))
        shutil.rmtree(case.root, ignore_errors=True)
        _link(self.plain if plain else Path(self.case.path), Path(case.path))
        return case

    def ids(self, keys: str, count: int, seed: int) -> list[int]:
        """Returns the keys of a batch: of rows that are there, and of some new ones."""
        new = list(range(self.rows, self.rows + count // NEW))
        updates, choice = count - len(new), random.Random(seed)
        match keys:
            case "random":
                return choice.sample(range(self.rows), updates) + new
            case "recent":
                return list(range(self.rows - updates, self.rows)) + new
            case _:  # ten ranges somewhere
                width = updates // 10
                starts = choice.sample(range(self.rows // width - 1), 10)
                return [start * width + number for start in starts for number in range(width)] + new


def staged(spark: SparkSession, ids: list[int], seed: int) -> Path:
    """Writes a batch as a landed one is, Parquet, and returns its folder."""
    folder = BENCH / "changes-batch"
    frame = spark.createDataFrame([(number,) for number in ids], "id bigint")
    rows_of(frame, seed).coalesce(2).write.mode("overwrite").parquet(str(folder))
    return folder


def bytes_below(folder: Path, pattern: str = "*.parquet") -> int:
    """Returns the bytes of the files of a folder, those of the log not counted."""
    return sum(file.stat().st_size for file in folder.rglob(pattern) if "_delta_log" not in file.parts)


def _link(origin: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "--archive", "--link", str(origin), str(copy)], check=True)
