"""The shape of a pipeline file as a pydantic TypeAdapter: strict, no unknown fields, with what editors want to know about each field."""

import json
import re
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, Required, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainValidator, TypeAdapter, WithJsonSchema
from typing_extensions import TypedDict

from cdc_ops.config.fields import values
from cdc_ops.config.fields.field_rules import SECTION_SCHEMAS
from cdc_ops.config.fields.model_fields import FieldShape, Kind, Section, document_section, entry_section, receiver_section
from cdc_ops.config.fields.renamed import RENAMED_VALUES
from cdc_ops.core.text import did_you_mean

_NULL: Final = "null"
INTERPOLATED: Final = r"\$\{"

_PARSERS: Final[dict[Kind, tuple[Callable[[Any], Any], Callable[[Any], str]]]] = {
    Kind.DURATION: (values.parse_duration, values.format_duration),
    Kind.SIZE: (values.parse_size, values.format_size),
    Kind.RATIO: (values.parse_ratio, str),
    Kind.INSTANT: (values.parse_start, str),
}

_FIXED_SCHEMAS: Final[dict[Kind, dict[str, Any]]] = {
    Kind.FLAG: {"type": "boolean"},
    Kind.RATIO: {"type": "number", "minimum": 0, "maximum": 1},
    Kind.COLUMNS: {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}}},
    Kind.MAPPING: {"type": "object", "additionalProperties": True},
}


@cache
def document_adapter(*, partial: bool = False) -> TypeAdapter[dict[str, Any]]:
    """Returns the adapter of a whole file. It yields only the fields that are given, so that defaults can be laid under them.

    Args:
        partial: True requires no field, to look further at what is left of a file with errors.
    """
    return TypeAdapter(cast(Any, _typed_dict(document_section(), partial)))


def written(shape: FieldShape, value: Any) -> Any:
    """Returns a value of core as it would be written in a file."""
    match shape.kind:
        case Kind.DURATION:
            return values.format_duration(value)
        case Kind.SIZE:
            return values.format_size(value)
        case Kind.INSTANT:
            return value.strftime("%Y-%m-%d") if value.time().isoformat() == "00:00:00" else value.isoformat()
        case Kind.NAMES | Kind.CHOICES:
            return [one.value if isinstance(one, Enum) else one for one in value]
        case Kind.PAIRS:
            return dict(value)
        case Kind.COLUMNS:
            return {table.name: dict(table.columns) for table in value}
        case Kind.MAPPING:
            return json.loads(value)
        case _:
            return value.value if isinstance(value, Enum) else value


@cache
def _typed_dict(section: Section, partial: bool) -> Any:
    fields = {name: _annotated(shape, partial) for name, shape in section.fields.items()}
    made = cast(Any, TypedDict)(_title(section), fields, total=False)  # one that is put together at run time has no static type
    extra = {"description": section.doc, **SECTION_SCHEMAS.get(section.cls, {})}
    made.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, json_schema_extra=extra)
    return made


def _title(section: Section) -> str:
    if section is receiver_section():
        return "Receiver"
    return "TableEntry" if section is entry_section() else section.cls.__name__


def _annotated(shape: FieldShape, partial: bool) -> Any:
    kind: Any
    if shape.section is None:
        kind = Annotated[_leaf(shape), WithJsonSchema(_leaf_schema(shape))]
    else:
        inner = _typed_dict(shape.section, partial)
        kind = _section(shape, inner, partial)
    described = Annotated[kind, Field(description=shape.doc or None, title=shape.name)]
    return Required[described] if shape.required and not partial else described


def _section(shape: FieldShape, inner: Any, partial: bool) -> Any:
    match shape.kind:
        case Kind.TABLES:
            return _tables(inner, partial)
        case Kind.RECEIVERS:
            return _receivers(inner)
        case _:
            return Annotated[inner, BeforeValidator(_nothing_is_empty)]


def _receivers(entry: Any) -> Any:
    name = Annotated[str, AfterValidator(values.parse_receiver), WithJsonSchema({"type": "string", "pattern": values.RECEIVER_PATTERN})]
    closed = Field(json_schema_extra={"additionalProperties": False})
    return Annotated[dict[name, entry], BeforeValidator(_nothing_is_empty), closed]


def _tables(entry: Any, partial: bool) -> Any:
    name = Annotated[str, AfterValidator(values.parse_table_pattern), WithJsonSchema({"type": "string", "pattern": values.TABLE_PATTERN})]
    return Annotated[dict[name, entry | None], Field(min_length=0 if partial else 1, json_schema_extra={"additionalProperties": False})]


def _leaf(shape: FieldShape) -> Any:
    rule = shape.rule
    match shape.kind:
        case Kind.TEXT:
            return Annotated[str, AfterValidator(rule.convert or (lambda value: value))]
        case Kind.FLAG:
            return bool
        case Kind.NUMBER:
            return Annotated[int, Field(ge=rule.minimum, le=rule.maximum)]
        case Kind.NAMES | Kind.CHOICES:
            item = Annotated[str, AfterValidator(_choice(shape) if shape.kind is Kind.CHOICES else _list_item(shape))]
            return Annotated[list[item], BeforeValidator(_as_list), AfterValidator(_distinct)]
        case Kind.PAIRS | Kind.MAPPING:
            mapping: Any = dict[str, str] if shape.kind is Kind.PAIRS else dict[str, Any]
            return Annotated[mapping, BeforeValidator(_nothing_is_empty)]
        case Kind.COLUMNS:
            return dict[Annotated[str, AfterValidator(values.parse_table_name)], dict[str, str]]
        case Kind.CHOICE:
            return Annotated[str, BeforeValidator(_null_is_a_word(shape)), AfterValidator(_choice(shape))]
        case _:
            return Annotated[Any, PlainValidator(_parsed(shape))]


def _leaf_schema(shape: FieldShape) -> dict[str, Any]:
    rule, facts = shape.rule, {"title": shape.name, "description": shape.doc}
    schema: dict[str, Any] = {key: value for key, value in facts.items() if value}
    if not shape.required:
        schema["default"] = written(shape, shape.default)
    if rule.examples:
        schema["examples"] = list(rule.examples)
    if shape.kind in _FIXED_SCHEMAS:
        return schema | _FIXED_SCHEMAS[shape.kind]
    match shape.kind:
        case Kind.NUMBER:
            limits = {"minimum": rule.minimum, "maximum": rule.maximum}
            return {**schema, "type": "integer", **{key: value for key, value in limits.items() if value is not None}}
        case Kind.NAMES | Kind.CHOICES:
            item = {"enum": _choices(rule.choices)} if shape.kind is Kind.CHOICES else {"type": "string", "minLength": 1}
            return {**schema, "anyOf": [item, {"type": "array", "items": item, "uniqueItems": True}]}
        case Kind.PAIRS:
            return {**schema, "type": "object", "additionalProperties": {"type": "string"}}
        case Kind.CHOICE:
            return {**schema, "anyOf": [{"enum": _choices(rule.choices)}, {"type": "string", "pattern": INTERPOLATED}]}
        case Kind.SIZE:
            sizes = {"type": "string", "pattern": f"{values.SIZE_PATTERN}|{INTERPOLATED}"}
            return {**schema, "anyOf": [sizes, {"type": "integer", "minimum": rule.minimum or 0}]}
        case Kind.DURATION:
            return {**schema, "type": "string", "pattern": f"{values.DURATION_PATTERN}|{INTERPOLATED}"}
        case _:
            return {**schema, "type": "string", **({"pattern": f"{rule.pattern}|{INTERPOLATED}"} if rule.pattern else {})}


def _nothing_is_empty(value: Any) -> Any:
    return {} if value is None else value


def _choices(choices: tuple[str, ...]) -> list[str | None]:
    return [*choices, None] if _NULL in choices else list(choices)


def _null_is_a_word(shape: FieldShape) -> Callable[[Any], Any]:
    """`zero_dates: null` is how people write it, and nothing to YAML."""
    return lambda value: _NULL if value is None and _NULL in shape.rule.choices else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _list_item(shape: FieldShape) -> Callable[[str], Any]:
    return lambda text: (shape.rule.convert or str)(_name(text))


def _name(text: str) -> str:
    if not text.strip() or text != text.strip():
        raise ValueError(f"{text!r} is not a valid name: it is empty or has spaces at its ends")
    if "," in _outside_calls(text):
        parts = ", ".join(part.strip() for part in text.split(","))
        raise ValueError(f"{text!r} is one name with a comma in it. Write a list: [{parts}]")
    return text


def _outside_calls(text: str) -> str:
    """Returns a text without what stands in parentheses: `COALESCE(a, b)` is one cursor.

    >>> _outside_calls("GREATEST(a, LEAST(b, c))"), _outside_calls("a, b")
    ('GREATEST', 'a, b')
    """
    inner = re.sub(r"\([^()]*\)", "", text)
    return text if inner == text else _outside_calls(inner)


def _distinct(names: list[str]) -> list[str]:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ValueError(f"{name!r} appears twice in the list")
        seen.add(name.lower())
    return names


def _choice(shape: FieldShape) -> Callable[[str], Any]:
    def check(text: str) -> Any:
        if text not in shape.rule.choices:
            renamed = RENAMED_VALUES.get((shape.name, text))
            hint = f"Did you mean {renamed!r}?" if renamed else did_you_mean(text, shape.rule.choices)
            near = f" {hint}" if hint.startswith("Did you mean") else ""
            raise ValueError(f"{text!r} is not a value of {shape.name!r}.{near} Valid are: {', '.join(shape.rule.choices)}")
        return shape.rule.convert(text) if shape.rule.convert else text

    return check


def _parsed(shape: FieldShape) -> Callable[[Any], Any]:
    parse, show = _PARSERS[shape.kind]

    def check(value: Any) -> Any:
        if value is None:
            raise ValueError("The value is empty. Give a value, or remove the line for the default")
        parsed = parse(value)
        if shape.rule.minimum is not None and parsed < shape.rule.minimum:
            raise ValueError(f"{value!r} is too small for {shape.name!r}: at least {show(shape.rule.minimum)}")
        return parsed

    return check
