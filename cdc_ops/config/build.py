"""From checked data to core values: defaults laid under each table's entry, field by field."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cdc_ops.config.fields.model_fields import FieldShape, Kind, Section, document_section, section_of
from cdc_ops.config.reading.document import Document
from cdc_ops.core.pipeline.airflow_settings import JsonMapping, TaskOptions
from cdc_ops.core.pipeline.grouped import Grouped
from cdc_ops.core.pipeline.pipeline import Pipeline, TableRule
from cdc_ops.core.pipeline.receivers import Receiver
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.declared_tables import DeclaredTable

Data = Mapping[str, Any]


def build_pipeline(data: Data, document: Document, path: str) -> Pipeline:
    """Builds the pipeline of a file whose data has passed all checks.

    Args:
        data: What the adapter returned: only fields that are given, with parsed values.
        document: For the lines.
        path: The file, as the user named it.
    """
    section = document_section()
    shapes = section.fields
    own = {name: value for name, value in data.items() if shapes[name].attribute and shapes[name].kind is not Kind.TABLES}
    if "airflow" in own:
        own["airflow"] = _with_spark_tasks(own["airflow"])
    given = {shape.attribute: value for shape, value in _given(section, own)}
    return Pipeline.of(**given, tables=tuple(_rules(data, document, path)), origin=path)


def _given(section: Section, data: Data) -> Iterator[tuple[FieldShape, Any]]:
    for name, value in data.items():
        shape = section.fields[name]
        match shape.kind:
            case Kind.NAMES | Kind.CHOICES:
                yield shape, tuple(value)
            case Kind.PAIRS:
                yield shape, tuple(sorted(value.items()))  # equal files give equal values
            case Kind.COLUMNS:
                yield shape, tuple(DeclaredTable(name=table, columns=tuple(columns.items())) for table, columns in value.items())
            case Kind.RECEIVERS if shape.section is not None:
                yield shape, tuple(_receiver(shape.section, name, entry) for name, entry in value.items())
            case Kind.MAPPING:
                yield shape, JsonMapping(json.dumps(value, sort_keys=True))
            case Kind.SECTION if shape.section is not None:
                yield shape, _made(shape.section.cls, {inner.attribute: one for inner, one in _given(shape.section, value)})
            case _:
                yield shape, value


def _receiver(section: Section, name: str, entry: Data) -> Receiver:
    return Receiver(name=name, **{shape.attribute: value for shape, value in _given(section, entry)})


def _with_spark_tasks(airflow: Data) -> Data:
    """Returns the block `airflow` with the options of all tasks laid under those of the tasks that start Spark."""
    tasks, spark = airflow.get("tasks", {}), airflow.get("spark_tasks", {})
    return {**airflow, "spark_tasks": _merged(section_of(TaskOptions), tasks, spark)}


def _made(cls: type, values: dict[str, Any]) -> Any:
    return cls.of(**values) if issubclass(cls, Grouped) else cls(**values)


def _merged(section: Section, under: Data, over: Data) -> dict[str, Any]:
    merged = {**under, **over}
    for name in under.keys() & over.keys():
        shape = section.fields[name]
        if shape.kind is Kind.PAIRS:
            merged[name] = {**under[name], **over[name]}
        elif shape.kind is Kind.SECTION and shape.section is not None:
            merged[name] = _merged(shape.section, under[name], over[name])
    return merged


def table_settings(defaults: Data, entry: Data | None) -> TableSettings:
    """Returns the settings of a table: its entry, with the defaults of the file under it."""
    section = section_of(TableSettings)
    own = {name: value for name, value in (entry or {}).items() if name in section.fields}
    return TableSettings.of(**{shape.attribute: value for shape, value in _given(section, _merged(section, defaults, own))})


def _rules(data: Data, document: Document, path: str) -> Iterator[TableRule]:
    defaults, plain = data.get("defaults", {}), None
    for pattern, entry in data["tables"].items():
        if entry:
            settings = table_settings(defaults, entry)
        else:
            settings = plain = plain or table_settings(defaults, None)
        line = document.places["tables", pattern].key.line
        yield TableRule(pattern=pattern, settings=settings, exclude=(entry or {}).get("exclude", False), origin=f"{path}:{line}")
