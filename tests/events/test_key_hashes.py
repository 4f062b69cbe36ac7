"""Hashes of keys depend on their values alone, and spread them."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_ops.events.fold.hashes import bucket_of, key_hashes

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [0, -1, 127]),
    "int64": (pa.int64(), [0, -(2**63), 2**63 - 1]),
    "boolean": (pa.bool_(), [True, False]),
    "decimal": (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("999999999999999999999999999999999999.99")]),
    "date": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 0, 0, 0, 1, UTC)]),
    "local time": (pa.timestamp("us"), [datetime(1, 1, 1), datetime(2024, 2, 29, 0, 0, 0, 1)]),
    "float": (pa.float32(), [0.0, 1.5, float("inf"), float("nan")]),
    "double": (pa.float64(), [0.0, 0.1, -float("inf"), float("nan")]),
    "text": (pa.string(), ["", "a", "abcdefgh", "abcdefghi", "é", "x" * 511, "x" * 512, "x" * 513, "x" * 600]),
    "large text": (pa.large_string(), ["", "a", "abcdefghi"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\x00\x00", b"\x00" * 8, b"\x00" * 9, b"\xff" * 600]),
}


@settings(max_examples=100, derandomize=True)
@given(data=st.data(), kinds=st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
def test_equal_keys_have_equal_hashes_whichever_buffer_slice_or_chunk_they_are_in(data: st.DataObject, kinds: list[str]) -> None:
    keys = data.draw(st.lists(st.tuples(*(st.sampled_from(VALUES[kind][1]) for kind in kinds)), min_size=1, max_size=12))
    columns = [pa.array(values, VALUES[kind][0]) for kind, values in zip(kinds, zip(*keys, strict=True), strict=True)]
    alone = [key_hashes([pa.array([value], VALUES[kind][0]) for kind, value in zip(kinds, key, strict=True)])[0] for key in keys]
    assert key_hashes(columns).tolist() == alone
    cut = data.draw(st.integers(0, len(keys)))
    assert key_hashes([column.slice(cut) for column in columns]).tolist() == alone[cut:]
    pieces = [pa.chunked_array([column.slice(0, cut), column.slice(0, 0), column.slice(cut)]) for column in columns]
    assert key_hashes(pieces).tolist() == alone
    struct = pa.StructArray.from_arrays(columns, names=[str(number) for number in range(len(columns))])
    assert bucket_of(struct, 7).tolist() == bucket_of(pieces, 7).tolist()
    assert len(set(alone)) == len({repr(key) for key in keys})


def test_zeros_of_both_signs_are_one_number_and_nans_are() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x7FF0000000000001], np.uint64)
    assert len(set(key_hashes([pa.array(bits.view(np.float64))]).tolist())) == 1
    for kind in (pa.float32(), pa.float64()):
        assert len(set(key_hashes([pa.array([0.0, -0.0], kind)]).tolist())) == 1


def test_an_integer_has_one_hash_whatever_its_width() -> None:
    kinds = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())
    assert len({key_hashes([pa.array([5], kind)])[0] for kind in kinds}) == 1
    assert key_hashes([pa.array(["a", "b"]).dictionary_encode()]).tolist() == key_hashes([pa.array(["a", "b"])]).tolist()


@pytest.mark.parametrize("kind", sorted(VALUES))
def test_null_has_a_hash_of_its_own(kind: str) -> None:
    given_type, values = VALUES[kind]
    hashes = key_hashes([pa.array([None, *values, None], given_type)]).tolist()
    assert hashes[0] == hashes[-1]
    assert len(set(hashes)) == len(values) + 1
    assert key_hashes([pa.nulls(2, given_type)]).tolist() == [hashes[0]] * 2


def test_no_keys_have_no_hashes_and_keys_of_other_types_are_refused() -> None:
    assert len(key_hashes([pa.array([], pa.string())])) == len(key_hashes([pa.chunked_array([], pa.int64())])) == 0
    with pytest.raises(TypeError, match="list"):
        key_hashes([pa.array([[1]])])


@pytest.mark.parametrize("kind", ["numbers", "texts", "two columns"])
@pytest.mark.parametrize("buckets", [2, 7, 64])
def test_keys_are_spread_evenly_over_buckets_and_hashes_are_told_apart(kind: str, buckets: int) -> None:
    numbers = pa.array(range(0, 40_000_000, 1000))
    texts = numbers.cast(pa.string())
    columns = {"numbers": [numbers], "texts": [texts], "two columns": [texts, pa.array([1] * len(numbers))]}[kind]
    sizes = np.bincount(bucket_of(columns, buckets), minlength=buckets)
    expected = len(numbers) / buckets
    assert (abs(sizes - expected) < 6 * expected**0.5).all()
    assert len(set(key_hashes(columns).tolist())) == len(numbers)
