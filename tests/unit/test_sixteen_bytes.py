"""What is done sixteen bytes at a time is what is done one by one, wherever values begin and end, and at the ends of buffers."""

import json

import numpy as np
from cdc_ops.decode.json.layout import Members, layout_arrays
from cdc_ops.decode.json.lines import find_lines
from cdc_ops.decode.json.members import Spans, room_for_objects, scan_members
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_ops.decode.batch import Batch
from cdc_ops.decode.cells import ASIDE, NULL, VALUE
from cdc_ops.decode.program import Field, Program

PIECES = st.lists(st.sampled_from([b"\n", b"a", b"\n\n", b"x" * 15, b"y" * 16, b"z" * 17, "ü".encode()]), max_size=12).map(b"".join)
BEFORE_A_LINE = 3


@given(PIECES, st.integers(0, 20), st.integers(0, 20))
def test_lines_are_found_wherever_they_end(text: bytes, less: int, room: int) -> None:
    data = np.frombuffer(b"\n" * BEFORE_A_LINE + text, np.uint8)
    end = max(BEFORE_A_LINE, data.size - less)  # what stands behind the end is no line
    starts, ends = np.zeros(room, np.int64), np.zeros(room, np.int64)
    count = find_lines(data, BEFORE_A_LINE, end, starts, ends)
    expected = bytes(data[BEFORE_A_LINE:end]).split(b"\n")[:-1][:room]
    assert [bytes(data[first:last]) for first, last in zip(starts[:count], ends[:count], strict=True)] == expected


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=12), st.lists(st.booleans(), min_size=12, max_size=12))
@example(texts=[b"", b"x" * 16, b"", b"y" * 32], own=[False] * 12)
def test_values_stand_side_by_side_whatever_their_length_is(texts: list[bytes | None], own: list[bool]) -> None:
    batch, data = Batch(Program.of([Field.of("v", "binary")]), 12), b"".join(text or b"" for text in texts)
    at = 0
    for row, text in enumerate(texts):
        if text is None:
            batch.cells.state[0, row] = NULL
            continue
        begin = batch.put_aside(text) if own[row] else at
        batch.cells.low[0, row], batch.cells.high[0, row] = begin, begin + len(text)
        batch.cells.state[0, row] = ASIDE if own[row] else VALUE
        at += len(text)
    made = batch.record_batch(np.frombuffer(data, np.uint8), len(texts))
    made.validate(full=True)
    assert made.column(0).to_pylist() == texts


@given(st.text(max_size=40), st.integers(0, 20))
def test_texts_of_json_end_where_a_parser_says(text: str, behind: int) -> None:
    record = json.dumps({"a": text}, ensure_ascii=False).encode()
    data = np.frombuffer(record + b'"' * behind, np.uint8)
    spans = Spans.empty(0, 1)
    layout = layout_arrays(Members())
    begin, end = np.zeros(1, np.int64), np.full(1, len(record), np.int64)
    assert scan_members(layout, data, begin, end, 1, spans, room_for_objects()) == 1
    end[0] -= 2  # the quote and the brace are behind the end
    spans.plain[:] = 0
    assert scan_members(layout, data, begin, end, 1, spans, room_for_objects()) == 0
