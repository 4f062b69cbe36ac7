"""The scanner of JSON: what it takes is JSON, and its members lie where it says."""

import json
from typing import Any

import numpy as np
import pytest
from cdc_ops.decode.json.grammar import ABSENT, ARRAY, ESCAPED, FALSE, FRACTION, INTEGER, NULL, OBJECT, STRING, TRUE
from cdc_ops.decode.json.layout import Member, Members, is_plain_name, layout_arrays, tokens
from cdc_ops.decode.json.members import Spans, room_for_objects, scan_members
from hypothesis import given
from hypothesis import strategies as st

LAYOUT = layout_arrays(
    Members(
        named={
            "a": Member(slot=0),
            "o": Member(
                slot=1, tokens=tokens(OBJECT, NULL), members=Members(named={"b": Member(slot=2), "a": Member(slot=3)}, closed=True)
            ),
            "n": Member(tokens=tokens(NULL, INTEGER)),
        }
    )
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def scan(*records: bytes) -> Spans:
    spans = Spans.empty(4, len(records))
    data = np.frombuffer(b"\n".join(records), np.uint8)
    ends = np.cumsum([len(record) + 1 for record in records]) - 1
    starts = ends - [len(record) for record in records]
    scan_members(LAYOUT, data, starts, ends, len(records), spans, room_for_objects())
    return spans


def is_plain(record: bytes) -> bool:
    return bool(scan(record).plain[0])


@given(value=VALUES, other=VALUES, ascii_only=st.booleans(), indent=st.none() | st.integers(0, 2))
def test_members_of_every_document_are_found(value: Any, other: Any, ascii_only: bool, indent: int | None) -> None:
    record = json.dumps({"x": other, "o": {"a": other}, "a": value}, ensure_ascii=ascii_only, indent=indent).encode(errors="surrogatepass")
    spans = scan(record)
    if spans.plain[0] == 0:
        assert b"\\u" not in record or not ascii_only  # surrogates alone are no UTF-8
        return
    low, high, token = spans.low[0, 0], spans.high[0, 0], spans.token[0, 0]
    quoted = token in (STRING, ESCAPED)
    assert json.loads(record[low - quoted : high + quoted]) == value
    kinds = {
        type(None): [NULL],
        bool: [TRUE, FALSE],
        int: [INTEGER],
        float: [FRACTION],
        str: [STRING, ESCAPED],
        list: [ARRAY],
        dict: [OBJECT],
    }
    assert token in kinds[type(value)]
    assert spans.token[1, 0] == OBJECT
    assert spans.token[2, 0] == ABSENT


@given(value=VALUES, places=st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), min_size=1, max_size=3))
def test_what_is_taken_of_damaged_documents_is_json(value: Any, places: list[tuple[int, int]]) -> None:
    record = bytearray(json.dumps({"a": value, "o": {"b": [value, 1.5, "x\n"]}}).encode())
    for place, byte in places:
        record[place % len(record)] = byte
    if is_plain(bytes(record)):
        json.loads(bytes(record), parse_constant=lambda _: pytest.fail("a number that is none"))


@pytest.mark.parametrize(
    "record",
    [
        b'{"a":1,"a":2}', b'{"o":{"a":1,"a":1}}', b'{"o":null,"o":null}', b'{"o":{"c":1}}', b'{"o":1}', b'{"n":1.0}', b'{"n":"1"}',
        b'{"a":1} x', b'{"a":1}{', b'{"a":1,}', b'{"a" 1}', b'{"a":}',
        b"{'a':1}", b"{a:1}", b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":1.}',
        b'{"a":1e}', b'{"a":NaN}', b'{"a":tru}', b'{"a":"\x01"}',
        b'{"a":"\\x"}', b'{"a":"\\u12g4"}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}',
        b'{"\\u0061":1}', b'{"a":[1,]}', b'{"a":[1 2]}', b'{"a":{"b"}}', b'{"a":[}',
        b'{"a":"x', b'{"a":1', b"", b"null", b"[]", b'\xef\xbb\xbf{"a":1}',
        b'{"a":' + b"[" * 61 + b"]" * 61 + b"}", b'{"a":' + b"1" * 61 + b"}",
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left(record: bytes) -> None:
    assert not is_plain(record)


def test_a_document_may_have_blanks_and_members_that_nobody_asked_for() -> None:
    assert is_plain(b' \t{ "x" : [ { } , [ ] , { "y" : -1.5E+3 } ] ,\r "a" : "\\ud834" , "n" : null } \r')
    assert is_plain(b"{}")


def test_names_that_writers_spell_differently_are_told() -> None:
    assert is_plain_name("größe")
    assert not any(map(is_plain_name, ('a"b', "a\\b", "a/b", "a\tb", "a\x7fb")))
