"""The shape of a pipeline file, derived from the dataclasses of core: a field added there can be written here, with default and meaning."""

import dataclasses
import enum
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from cdc_ops.config.fields.docstrings import field_docs, summary
from cdc_ops.config.fields.field_rules import RULES, Rule
from cdc_ops.core.json_codec import group_of
from cdc_ops.core.pipeline.airflow_settings import JsonMapping
from cdc_ops.core.pipeline.pipeline import Pipeline, TableRule
from cdc_ops.core.pipeline.receivers import Receiver
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.declared_tables import DeclaredTable


class Kind(enum.Enum):
    """How a field is written; the value is what the reference calls it."""

    TEXT = "text"
    FLAG = "true or false"
    NUMBER = "whole number"
    SIZE = "size"
    RATIO = "share from 0 to 1"
    DURATION = "duration"
    INSTANT = "date"
    CHOICE = "choice"
    NAMES = "list of text"
    CHOICES = "list of choices"
    PAIRS = "mapping of text to text"
    SECTION = "section"
    TABLES = "mapping of names to sections"
    RECEIVERS = "mapping of receivers to sections"
    COLUMNS = "mapping of tables to columns and their types"
    MAPPING = "nested mapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldShape:
    """One field of a section.

    Args:
        name: As it is written in the file.
        attribute: As it is called in the dataclass.
        kind: How it is written.
        required: True if it has no default.
        default: The dataclass's default, None for required fields and sections.
        doc: What it means.
        rule: What else is asked of its value.
        section: The section in it, or in each of its items.
    """

    name: str
    attribute: str
    kind: Kind
    required: bool
    default: Any
    doc: str
    rule: Rule
    section: "Section | None" = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Section:
    """A mapping with known fields; `cls` is what it becomes. There is one of each, so it is compared by identity."""

    cls: type
    doc: str
    fields: dict[str, FieldShape]


SIZE_SUFFIX: Final = "_bytes"
DEFAULTS_DOC: Final = "Settings of all tables; a table's own entry goes over them field by field."
TABLES_DOC: Final = (
    "The tables, by `schema.table` or a pattern such as `shop.orders_*`. The exact name wins over patterns, an earlier pattern over a "
    "later one. An entry without settings has those of `defaults`."
)


@cache
def document_section() -> Section:
    """Returns the shape of a whole pipeline file."""
    shapes = section_of(Pipeline).fields
    fields = {"pipeline": dataclasses.replace(shapes["name"], name="pipeline")}
    for name in ("description", "owner", "tags", "schedule", "start_on", "reconcile_schedule", "start_date", "source", "target"):
        fields[name] = shapes[name]
    fields |= {name: shape for name, shape in shapes.items() if name not in {"name", "tables", "origin", *fields}}
    nothing = Rule()
    settings = section_of(TableSettings)
    fields["defaults"] = FieldShape(
        name="defaults", attribute="", kind=Kind.SECTION, required=False, default=None, doc=DEFAULTS_DOC, rule=nothing, section=settings
    )
    fields["tables"] = dataclasses.replace(shapes["tables"], doc=TABLES_DOC, section=entry_section())
    fields["notify"] = dataclasses.replace(shapes["notify"], section=receiver_section())
    return Section(cls=Pipeline, doc="One pipeline: which tables of a source are kept equal, where, and when.", fields=fields)


@cache
def entry_section() -> Section:
    """Returns the shape of one entry of `tables`."""
    settings, exclude = section_of(TableSettings), _field(TableRule, "exclude")
    return Section(cls=TableRule, doc=settings.doc, fields={**settings.fields, "exclude": exclude})


@cache
def receiver_section() -> Section:
    """Returns the shape of one entry of `notify`, whose name stands before it."""
    section = section_of(Receiver)
    return Section(cls=Receiver, doc=section.doc, fields={name: shape for name, shape in section.fields.items() if name != "name"})


@cache
def section_of(cls: type) -> Section:
    """Returns the shape of a dataclass of core."""
    return Section(cls=cls, doc=summary(cls), fields=dict(_fields(cls)))


def _fields(cls: type) -> Iterator[tuple[str, FieldShape]]:
    """Yields the fields of a section; those of a class's groups are written beside its own."""
    hints, groups = typing.get_type_hints(cls), set(group_of(cls).values())
    for field in dataclasses.fields(cls):
        if field.name in groups:
            yield from _fields(hints[field.name])
        else:
            yield field.name, _field(cls, field.name)


def _field(cls: type, name: str) -> FieldShape:
    declared = next(field for field in dataclasses.fields(cls) if field.name == name)
    hint = typing.get_type_hints(cls)[name]
    kind = _kind(name, hint, RULES.get((cls, name), Rule()))
    default = declared.default_factory() if declared.default_factory is not dataclasses.MISSING else declared.default
    required = default is dataclasses.MISSING
    return FieldShape(
        name=name,
        attribute=name,
        kind=kind,
        required=required,
        default=None if required or kind is Kind.SECTION else default,
        doc=field_docs(cls).get(name, ""),
        rule=_with_choices(RULES.get((cls, name), Rule()), hint),
        section=section_of(hint) if kind is Kind.SECTION else None,
    )


def _kind(name: str, hint: Any, rule: Rule) -> Kind:
    if choice := _choice_of(hint):
        return Kind.CHOICES if choice is not hint else Kind.CHOICE
    if rule.choices:
        return Kind.CHOICE
    if hint is int and name.endswith(SIZE_SUFFIX):
        return Kind.SIZE
    if dataclasses.is_dataclass(hint):
        return Kind.SECTION
    simple: dict[Any, Kind] = {
        str: Kind.TEXT,
        bool: Kind.FLAG,
        int: Kind.NUMBER,
        float: Kind.RATIO,
        timedelta: Kind.DURATION,
        datetime: Kind.INSTANT,
        tuple[str, ...]: Kind.NAMES,
        tuple[tuple[str, str], ...]: Kind.PAIRS,
        tuple[TableRule, ...]: Kind.TABLES,
        tuple[DeclaredTable, ...]: Kind.COLUMNS,
        tuple[Receiver, ...]: Kind.RECEIVERS,
        JsonMapping: Kind.MAPPING,
    }
    if hint not in simple or isinstance(hint, types.UnionType):
        raise TypeError(f"field {name!r} of type {hint} has no form in pipeline files yet: add one to cdc_ops.config.fields.model_fields")
    return simple[hint]


def _with_choices(rule: Rule, hint: Any) -> Rule:
    if choice := _choice_of(hint):
        return dataclasses.replace(rule, choices=tuple(str(one.value) for one in choice), convert=choice)
    return rule


def _choice_of(hint: Any) -> type[enum.Enum] | None:
    """Returns the choices of a field that takes one of them, or a list of them; None for other fields."""
    one = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
    return one if isinstance(one, type) and issubclass(one, enum.Enum) else None
