"""Cuts of the key axis: every key is in one bucket, on both sides the same, and what is read covers what differs."""

from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.reconcile.key_buckets import FINER, WHOLE, Buckets, BucketSelection, cut, span_condition

extents = st.tuples(st.integers(-(10**12), 10**12), st.integers(0, 10**9)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def inside(scope: BucketSelection, key: int) -> bool:
    return any((span.low is None or key >= span.low) and (span.high is None or key < span.high) for span in scope.spans())


@given(extent=extents, rows=st.integers(0, 10**9), data=st.data())
def test_every_key_is_in_the_range_of_its_bucket_and_in_no_other(extent: tuple[int, int], rows: int, data: st.DataObject) -> None:
    buckets = cut(("id",), rows, extent)
    if not buckets.by_range:
        return
    key = data.draw(st.integers(extent[0] - 10**6, extent[1] + 10**6))
    number = buckets.number(key)
    assert 0 <= number < buckets.count
    assert inside(BucketSelection(buckets=buckets, members=(number,)), key)
    for other in {number - 1, number + 1} & set(range(buckets.count)):
        assert not inside(BucketSelection(buckets=buckets, members=(other,)), key)


@given(extent=extents, data=st.data())
def test_a_finer_cut_splits_buckets_and_never_crosses_their_borders(extent: tuple[int, int], data: st.DataObject) -> None:
    buckets = cut(("id",), 0, extent)
    finer = buckets.finer() if buckets.by_range else None
    if finer is None:
        return
    key = data.draw(st.integers(*extent))
    assert finer.number(key) // FINER == buckets.number(key)


def test_buckets_whose_width_has_no_such_parts_are_not_cut_finer() -> None:
    buckets = Buckets(keys=("id",), count=3, low=0, width=2 * FINER)
    assert buckets.finer() == Buckets(keys=("id",), count=3 * FINER, low=0, width=2)
    assert Buckets(keys=("id",), count=3, low=0, width=2 * FINER + 1).finer() is None


@given(members=st.sets(st.integers(0, 4_999), max_size=900), readers=st.integers(1, 9))
def test_a_bounded_scope_holds_what_differs_and_its_parts_tile_it(members: set[int], readers: int) -> None:
    buckets = Buckets(keys=("id",), count=5_000, low=0, width=10)
    scope = BucketSelection(buckets=buckets, members=tuple(sorted(members))).bounded()
    assert members <= set(scope.members)
    assert len(scope.spans()) <= 200
    parts = scope.parts(readers)
    assert len(parts) <= readers
    assert [number for part in parts for number in part.members] == list(scope.members)
    assert sum(len(part.spans()) for part in parts) == len(scope.spans())


def test_sparse_keys_and_keys_that_are_no_numbers_are_cut_by_hash() -> None:
    assert not cut(("id",), 1_000, None).by_range
    assert not cut(("id",), 100_000, (1, 2**61)).by_range
    assert not cut(("id",), 0, (-(2**63), 2**63 - 1)).by_range
    assert cut(("id",), 100_000, (1, 1_000_000)).by_range


def test_too_many_buckets_by_hash_mean_the_whole_table() -> None:
    scope = BucketSelection(buckets=Buckets(keys=("k",), count=65_536), members=tuple(range(3_000)))
    assert scope.bounded() == WHOLE


def test_the_outer_ranges_are_open() -> None:
    buckets = Buckets(keys=("id",), count=3, low=10, width=5)
    assert span_condition("k", BucketSelection(buckets=buckets, members=(0,)).spans()) == "((k < 15))"
    assert span_condition("k", BucketSelection(buckets=buckets, members=(1, 2)).spans()) == "((k >= 15))"
    assert span_condition("k", BucketSelection(buckets=buckets, members=(0, 1, 2)).spans()) == ""
    assert span_condition("k", BucketSelection(buckets=buckets, members=()).spans()) == "1 = 0"
