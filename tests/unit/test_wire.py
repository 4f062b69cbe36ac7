"""JSON between Airflow, ledger, Spark and lake: whatever is written is read back the same, and anything else is refused."""

import dataclasses
import json
import types
import typing
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_ops.core import json_codec
from cdc_ops.core.cursor.cursors import CursorType, CursorValue
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.job import JobSpec, StepResult, TableResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_record import CommitRecord
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.reads import ChunkRead, KeysRead, Read
from cdc_ops.core.operation.results import Manifest, OperationResult
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import StateError
from cdc_ops.state.base import TableOverview
from cdc_ops.state.lease import Lease
from cdc_ops.state.table_run import TableRun
from tests.operations import made

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-9, minutes=-30))])
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=5),
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    datetime: st.datetimes(timezones=ZONES),
    timedelta: st.timedeltas(timedelta(0), timedelta(days=3650)),
    type(None): st.none(),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of an annotation, optional fields included."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values, inner))
    if origin is tuple:
        return st.lists(values(inner[0]), max_size=2).map(tuple) if inner[1:] == (...,) else st.tuples(*map(values, inner))
    if origin is dict:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=2)
    if dataclasses.is_dataclass(kind):
        return st.builds(
            cast(type, kind), **{field.name: values(typing.get_type_hints(kind)[field.name]) for field in dataclasses.fields(kind)}
        )
    return st.sampled_from(list(kind)) if issubclass(kind, Enum) else SCALARS[kind]


@pytest.mark.parametrize(
    "kind",
    [JobSpec, StepResult, Operation, OperationResult, CommitRecord, Manifest, TableState, TableStats, TableRun, Lease, TableOverview],
    ids=lambda kind: kind.__name__,
)
def test_every_value_that_crosses_a_border_comes_back_equal(kind: type) -> None:
    @settings(max_examples=25, deadline=None, database=None)
    @given(values(kind))
    def check(value: Any) -> None:
        text = json_codec.dumps(value)
        assert json_codec.loads(kind, text) == value
        assert json_codec.dumps(json_codec.loads(kind, text)) == text

    check()


def test_equal_values_give_equal_text() -> None:
    assert json_codec.dumps({"b": (1, 2), "a": CursorValue(parts=("ü",))}) == '{"a":{"parts":["ü"]},"b":[1,2]}'


STATS = {"delta_version": 1, "files": 2, "size_bytes": 3}


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        (TableStats, STATS | {"colour": "red"}, "unknown field colour"),
        (TableStats, {"files": 2, "size_bytes": 3}, "delta_version"),
        (TableStats, STATS | {"files": "2"}, "expected int"),
        (TableStats, STATS | {"files": True}, "expected int"),
        (TableStats, STATS | {"files": None}, "expected int"),
        (TableStats, STATS | {"optimized_at": "2026-01-01T00:00:00"}, "no time zone"),
        (TableStats, STATS | {"optimized_at": "yesterday"}, "isoformat"),
        (TableStats, [1, 2, 3], "expected an object"),
        (CursorValue, {"parts": "12"}, "expected a list"),
        (CursorValue, {"parts": [1]}, "expected str"),
        (TableResult, {"table": {"schema": "s", "name": "t"}, "error": ["what"]}, "expected an object"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(kind: type, data: Any, reason: str) -> None:
    with pytest.raises(StateError, match=reason):
        json_codec.loads(kind, json.dumps(data))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"slices": []}, "type None is none of archive, chunk, compare, keys, replay, window"),
        ({"type": "table", "slices": []}, "type 'table' is none of"),
        ({"type": ["keys"], "slices": []}, "is none of"),
        ("keys", "is none of"),
        ({"type": "keys", "slices": [], "bound_method": ""}, "KeysRead: unknown field bound_method"),
    ],
)
def test_a_tagged_union_is_read_by_its_tag_and_by_nothing_else(data: Any, reason: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError), match=reason):
        json_codec.from_data(cast(type, Read), data)


def test_the_tag_of_a_union_stands_in_the_json_of_each_of_its_classes() -> None:
    """Also where the class stands alone: two classes with the same fields are told apart."""
    read = KeysRead(slices=("a = 1",))
    assert json_codec.to_data(read) == {"type": "keys", "slices": ["a = 1"], "expected_rows": 0}
    assert json_codec.from_data(KeysRead, json_codec.to_data(read)) == read
    with pytest.raises(ValueError, match="ChunkRead: type is 'keys', not 'chunk'"):
        json_codec.from_data(ChunkRead, json_codec.to_data(read))


def test_the_fields_of_a_group_that_stands_inline_are_those_of_its_class() -> None:
    state = made(TableState, pipeline="p", table=TableName(schema="s", name="t"), watermark=CursorValue(parts=("1",)), generation=2)
    data = json_codec.to_data(state)
    assert (data["watermark"], data["generation"], "progress" in data) == ({"parts": ["1"]}, 2, False)
    assert set(data) == set(json_codec.field_names(TableState))
    assert json_codec.from_data(TableState, data) == state
    for wrong in ({"progress": {}}, {"colour": "red"}):
        with pytest.raises(KeyError, match=f"TableState: unknown field {next(iter(wrong))}"):
            json_codec.from_data(TableState, data | wrong)


def test_an_unknown_enum_value_is_refused() -> None:
    with pytest.raises(ValueError, match="leap"):
        json_codec.from_data(CursorType, "leap")


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(StateError, match="TableStats"):
        json_codec.loads(TableStats, "{")


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), {"at": datetime(2026, 1, 1)}, (datetime(2026, 1, 1),)])
def test_a_naive_datetime_does_not_leave(value: object) -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        json_codec.dumps(value)


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", float("nan"), float("inf")])
def test_what_has_no_json_form_does_not_leave(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        json_codec.dumps(value)
