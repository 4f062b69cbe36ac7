"""Statistics of files are texts: what is not changed in them stays as it is, to the digit."""

import json

import pytest

from cdc_ops.lake.log.statistics_text import members, object_of, statistics_beside_deleted_rows

TEXTS = [
    "{}",
    '{"numRecords":3}',
    ' { "numRecords" : 3 , "minValues" : { "a b" : [ 1 , { } ] } } ',
    '{"numRecords":3,"minValues":{"k":0.123456789012345678},"maxValues":{"k":12345678901234566.890000000000000001},"nullCount":{"k":0}}',
    '{"minValues":{"k":1E-18,"f":-0.0,"g":"NaN","h":1.0E300,"n":{"deep":{"d":90071992547409.9231}}},"tightBounds":true,"numRecords":3}',
    '{"tightBounds":false,"minValues":{"s":"\\u0000\\"0\\u0000, \\\\","t":"Ü😀\\ud83d","when":"1500-03-01T12:00:00.000Z"}}',
    '{"minValues":{"k":123456789012345678901234567890},"a\\"b":null,"c":[]}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_members_of_an_object_are_its_texts(text: str) -> None:
    found = members(text)
    assert {name: json.loads(value) for name, value in found.items()} == json.loads(text)
    assert all(value in text for value in found.values())
    assert members(object_of(found)) == found


@pytest.mark.parametrize("text", ["", *TEXTS])
def test_beside_deleted_rows_only_the_number_of_rows_and_the_width_of_bounds_are_new(text: str) -> None:
    before, after = members(text or "{}"), members(statistics_beside_deleted_rows(text, 7))
    assert after == {**before, "numRecords": "7", "tightBounds": "false"}
