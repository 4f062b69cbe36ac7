"""What random records are read as: their canonical feed, and a digest of it that is kept beside the tests.

    python -m tests.events.random_digests --write

writes `tests/golden/random_records.json` anew, after a change of what records are read as, or of how they are made.
"""

import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.events.format import Format
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import Envelope, Record
from cdc_ops.events.registry import FORMAT_SPECS, open_format
from cdc_ops.events.table import TableReader, is_of
from tests.events.changed_golden import changed_records, golden_folder
from tests.events.random_formats import CASES

FILE: Final = Path(__file__).resolve().parents[1] / "golden" / "random_records.json"
SEED: Final = 20260101
COUNTS: Final = (600, 3000)
GOLDEN_COUNTS: Final = (250, 1000)
"""How many records are looked at: the first ones by `make test`, all of them by `make test-long`."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """Records, and the table that they are read for."""

    options: FormatOptions
    schema: TableSchema
    keys: tuple[str, ...]
    records: Sequence[Record]

    @property
    def form(self) -> Format:
        """The format of the records, opened."""
        return open_format(self.options)

    def taken_apart(self) -> list[tuple[Record, Envelope]]:
        """The records with what they say."""
        form = self.form
        return [(record, envelope) for record in self.records for envelope in envelopes_of(form, record)]

    def of_the_table(self) -> list[tuple[Record, Envelope]]:
        """Those that are of the table, or of none."""
        return [(record, envelope) for record, envelope in self.taken_apart() if is_of(envelope, self.schema.table)]

    def rows(self, parts: Sequence[tuple[Record, Envelope]], form: Format | None = None) -> list[Row]:
        """The feed of records that were taken apart, read at once, with numbers in place of dates and times."""
        reader = TableReader(form or self.form, self.schema, self.keys)
        feed = reader.read([record for record, _ in parts], [envelope for _, envelope in parts]).feed()
        found: list[Row] = feed.cast(pa.schema([field.with_type(_in_numbers(field.type)) for field in feed.schema])).to_pylist()
        return found


def random_records(name: str, count: int) -> Given:
    """So many random records of one of `CASES`."""
    case = CASES[name]
    records = [Record(line, "f", number, 0, 1000 + number) for number, line in enumerate(case.records(SEED).lines(count))]
    return Given(case.format, case.table, case.table.primary_key, records)


def golden_records(name: str, root: Path, count: int) -> Given:
    """So many golden records of a format, changed at random."""
    golden = golden_folder(name)
    return Given(golden.options, golden.schema, golden.keys, changed_records(golden, root, SEED, count))


def told(rows: Sequence[Row]) -> dict[str, Any]:
    """What is kept of a feed: how many rows of each kind it has, and its SHA-256. The text of a number tells 0.0 from -0.0."""
    digest = hashlib.sha256("\n".join(map(repr, rows)).encode("utf-8", "surrogatepass")).hexdigest()
    return {**dict(sorted(Counter(row["kind"] for row in rows).items())), "sha256": digest}


def expected() -> dict[str, Any]:
    """What was kept, by the name of the records and how many there are."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def _in_numbers(kind: pa.DataType) -> pa.DataType:
    """A type with numbers in place of dates and times: Python's types do not hold all of them."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_numbers(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_in_numbers(kind.value_type))
    return pa.int32() if pa.types.is_date32(kind) else pa.int64() if pa.types.is_timestamp(kind) else kind


def _all() -> dict[str, Any]:
    found = {}
    for name, count in product(CASES, COUNTS):
        given = random_records(name, count)
        found[f"{name}: {count}"] = told(given.rows(given.of_the_table()))
    for name, count in product(FORMAT_SPECS, GOLDEN_COUNTS):
        with tempfile.TemporaryDirectory() as root:
            given = golden_records(name, Path(root), count)
            found[f"golden: {name}: {count}"] = told(given.rows(given.of_the_table()))
    return found


if __name__ == "__main__":
    text = json.dumps(_all(), indent=1) + "\n"
    if "--write" in sys.argv:
        FILE.write_text(text, "utf-8")
    else:
        print(text, end="")
