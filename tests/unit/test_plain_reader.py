"""The reader of plain events is used again for the next lines of a file: what it has handed out stays as it is."""

import numpy as np
import pyarrow as pa
from cdc_ops.decode.json.reader import PlainReader
from cdc_ops.decode.plain_rows import OPERATION
from cdc_ops.formats.feed.plain import plain_format

from cdc_ops.core.events.format_spec import FormatOptions
from tests.plain_events import TABLE, TEXT_SETTINGS, Records, plain_rows

OPTIONS = FormatOptions(name="debezium-mysql", settings=TEXT_SETTINGS, accept_losses=("schemas.enable=false",))


def read(reader: PlainReader, lines: list[bytes]) -> pa.Table:
    """The rows of lines that are all plain."""
    ends = np.cumsum([len(line) + 1 for line in lines]) - 1
    starts = ends - [len(line) for line in lines]
    rows, plain = reader.read(np.frombuffer(b"\n".join(lines), np.uint8), starts, ends, np.arange(len(lines)), 0)
    assert plain.all(), "lines that are left out make a copy of the others"
    return rows


def test_rows_stay_as_they_are_when_the_next_ones_are_read() -> None:
    lines = Records(1).lines(2000)
    taken = plain_rows(TABLE, OPTIONS, lines, 0)
    deletes, changes = ([lines[line] for line, row in taken.items() if (row["op"] == "d") is deleted] for deleted in (True, False))
    count = min(len(deletes), len(changes))
    assert count > 20
    form = plain_format(TABLE, TABLE.primary_key, OPTIONS)
    assert form is not None
    reader = PlainReader(form=form)
    first = read(reader, deletes[:count])
    before = first.to_pylist()
    assert {row[OPERATION] for row in before} == {ord("d")}
    read(reader, changes[:count])
    assert first.to_pylist() == before
