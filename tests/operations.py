"""Operations for tests, by names of fields that do not say in which group of the operation a field is."""

from dataclasses import fields, replace
from typing import Any, Final, TypeVar, cast, get_type_hints

from cdc_ops.core.apply.apply_spec import ApplyMode, ApplySpec
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import Operation, Planning, SourceColumns, Target
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.reads import ArchiveRead, ChunkRead, CompareRead, KeysRead, Read, ReplayRead, WindowRead

T = TypeVar("T")

_GROUPS: Final = {
    "plan": Planning,
    "target": Target,
    "source": SourceColumns,
    "before": TableProgress,
    "after": TableProgress,
    "apply": ApplySpec,
}
_NAMED: Final = {
    **{f"{name}_before": ("before", name) for name in ("watermark", "snapshot")},
    **{f"{name}_after": ("after", name) for name in ("watermark", "snapshot", "archive", "seen", "nulls")},
    "fresh_at": ("after", "fresh_at"),
    "delta_version_before": ("target", "version"),
    **{name: ("plan", name) for name in ("run_id", "planned_at")},
    "source_fingerprint": ("source", "fingerprint"),
    **{name: ("target", name) for name in ("path", "staging", "properties", "cluster_by", "partition_by")},
    **{name: ("source", name) for name in ("schema", "cursor", "hidden")},
    **{field.name: ("apply", field.name) for field in fields(ApplySpec)},
    "before": ("apply", "previous_keys"),
}
_READ: Final = {
    **{name: name for name in ("window", "slices", "expected_rows", "bound_method", "with_nulls", "compare", "replay")},
    "log": "batch",
    "band": "lookback",
}


def made(kind: type[T], /, **named: Any) -> T:
    """Returns a ledger state or a commit record with the given fields, whichever group they stand in."""
    hints = get_type_hints(kind)
    groups = {name: {field.name for field in fields(hints[name])} for name in getattr(kind, "JSON_INLINE", ())}
    inner = {name: hints[name](**{field: named.pop(field) for field in own & named.keys()}) for name, own in groups.items()}
    return kind(**inner, **named)


def changed(value: T, **named: Any) -> T:
    """Returns a ledger state or a commit record with some fields changed, whichever group they stand in."""
    for name in getattr(type(value), "JSON_INLINE", ()):
        group = getattr(value, name)
        inner = {field.name: named.pop(field.name) for field in fields(group) if field.name in named}
        named |= {name: replace(group, **inner)}
    return replace(cast(Any, value), **named)


def operation_with(**named: Any) -> Operation:
    """Returns an operation with the given fields; what it reads follows from them."""
    plain = {name: value for name, value in named.items() if name not in _NAMED and name not in _READ}
    groups: dict[str, dict[str, Any]] = {name: {} for name in _GROUPS}
    for name in named.keys() & _NAMED.keys():
        group, field = _NAMED[name]
        groups[group][field] = named[name]
    made = {name: kind(**groups[name]) for name, kind in _GROUPS.items()}
    return Operation(**made, **plain, read=_read(plain, made, {field: named[name] for name, field in _READ.items() if name in named}))


def with_fields(operation: Operation, **named: Any) -> Operation:
    """Returns an operation with some fields changed; what it reads follows from them, as in `operation`."""
    made = {name: getattr(operation, name) for name in _GROUPS}
    for name in named.keys() & _NAMED.keys():
        group, field = _NAMED[name]
        made[group] = replace(made[group], **{field: named[name]})
    plain = {name: value for name, value in named.items() if name not in _NAMED and name not in _READ}
    known = {name: getattr(operation.read, name) for name in _READ.values() if hasattr(operation.read, name)}
    wanted = {field: named[name] for name, field in _READ.items() if name in named}
    moved = replace(operation, **made, **plain)
    if not named.keys() & {*_READ, "kind", "mode", "update_only"}:
        return moved
    return replace(moved, read=_read({"kind": moved.kind}, made, known | wanted))


def _read(plain: dict[str, Any], made: dict[str, Any], named: dict[str, Any]) -> Read:
    """Returns a read of the kind that the fields are of; without any, parts of the table or single keys."""
    given = {name: value for name, value in named.items() if value not in (None, "", False)}
    counted = {"slices": named.get("slices", ()), "expected_rows": named.get("expected_rows", 0)}
    if "batch" in given:
        return ArchiveRead(batch=given["batch"])
    if "replay" in given:
        return ReplayRead(replay=given["replay"])
    if "compare" in given:
        return CompareRead(compare=given["compare"], **counted)
    if {"window", "lookback", "with_nulls"} & given.keys():
        return WindowRead(**({"window": Window(low=None, high=None)} | given | counted))
    if plain["kind"].is_snapshot or made["apply"].mode is ApplyMode.OVERWRITE or made["apply"].update_only:
        return ChunkRead(bound_method=named.get("bound_method", ""), **counted)
    return KeysRead(**counted)
