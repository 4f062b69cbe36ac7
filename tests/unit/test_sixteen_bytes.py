"""Values are put side by side sixteen bytes at a time: they are what they were, wherever they begin and end, and at the ends of buffers."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_ops.decode.batch import Batch
from cdc_ops.decode.cells import ASIDE, NULL, VALUE
from cdc_ops.decode.program import Field, Program


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
