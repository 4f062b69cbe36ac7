"""What pydantic found, in the words of the file: which line, what stands there, what is valid, and the nearest valid name."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cdc_ops.config.fields.model_fields import FieldShape, Kind, Section, document_section, receiver_section
from cdc_ops.config.fields.renamed import RENAMED_FIELDS, RENAMED_VALUES
from cdc_ops.config.reading.diagnostics import Mark, Problem, is_secret_name, sentence
from cdc_ops.config.reading.document import Document, Path, Place
from cdc_ops.core.text import did_you_mean

_START: Final = Mark(line=1, column=1)
_OTHER_NAMES: Final = {
    "name": "pipeline", "cron": "schedule", "schedule_interval": "schedule", "conn_id": "connection",
    "connection_id": "connection", "primary_key": "keys",
    "key": "keys", "cursor_column": "cursor", "cursor_field": "cursor", "watermark": "cursor", "type": "kind",
    "exclude_columns": "except_column_list", "tblproperties": "properties", "table": "tables", "timezone": "time_zone",
}  # fmt: skip
"""What people bring from other tools. What fields were called before is in `config.fields.renamed`."""


def explain(errors: Iterable[Mapping[str, Any]], document: Document) -> list[Problem]:
    """Turns pydantic's errors into problems; those about values that could not be read anyway are left out."""
    found = (one for one in errors if not any(one["loc"][:end] in document.unusable for end in range(1, len(one["loc"]) + 1)))
    return [_problem(one, document) for one in found]


def place_of(document: Document, path: Path) -> Place:
    """Returns where a value stands, or else the nearest mapping around it."""
    for end in range(len(path), 0, -1):
        if place := document.places.get(path[:end]):
            return place
    return Place(key=_START, value=_START)


def _problem(error: Mapping[str, Any], document: Document) -> Problem:
    path: Path = tuple(part for part in error["loc"] if part != "[key]")
    place = place_of(document, path)
    match error["type"]:
        case "extra_forbidden":
            return _unknown_field(path, error["input"], place.key)
        case "missing":
            return missing_field(path, document)
        case "value_error" if error["loc"][-1:] == ("[key]",):
            return Problem(mark=place.key, message=sentence(str(error["ctx"]["error"])))
        case "value_error":
            return Problem(mark=place.value, message=sentence(str(error["ctx"]["error"])))
        case "greater_than_equal" | "less_than_equal":
            limit = next(iter(error["ctx"].values()))
            word = "least" if error["type"] == "greater_than_equal" else "most"
            return Problem(mark=place.value, message=f"{error['input']} is out of range for {str(path[-1])!r}: at {word} {limit}.")
        case "too_short":
            return Problem(mark=place.key, message=f"{str(path[-1])!r} has no entry.", valid="Name a table: 'shop.orders: {}'.")
        case kind:
            return _wrong_type(kind, error["input"], path, place)


def _unknown_field(path: Path, given: Any, mark: Mark) -> Problem:
    name, section = str(path[-1]), _section_at(path[:-1])
    known = RENAMED_FIELDS.get(name) or _OTHER_NAMES.get(name)
    where = _called(path[:-1])
    valid = f"Valid {where}: {', '.join(section.fields)}."
    if is_secret_name(name) and known is None:
        rule = "Pipeline files must not contain secrets: they name connections, whose URLs come from Airflow or the environment."
        message = f"Unknown field {name!r} {where}. {rule}"
        return Problem(mark=mark, message=message, valid=valid)
    if known in section.fields:
        value = RENAMED_VALUES.get((known, given)) if isinstance(given, str) else None
        meant = f"{known}: {value}" if value else known
        return Problem(mark=mark, message=f"Unknown field {name!r} {where}. Did you mean {meant!r}?", valid=valid)
    if homes := [home for home, fields in _homes() if RENAMED_FIELDS.get(name, name) in fields]:
        it = f"It is {RENAMED_FIELDS[name]!r} now, and belongs" if name in RENAMED_FIELDS else "It belongs"
        return Problem(mark=mark, message=f"Unknown field {name!r} {where}. {it} {' or '.join(homes)}.", valid=valid)
    hint = did_you_mean(name, section.fields)
    near = f" {hint}" if hint.startswith("Did you mean") else ""
    return Problem(mark=mark, message=f"Unknown field {name!r} {where}.{near}", valid=valid)


def _homes() -> list[tuple[str, Iterable[str]]]:
    document = document_section()
    homes: list[tuple[str, Iterable[str]]] = [("at the top level", document.fields)]
    for name in ("source", "target", "archive", "spark", "airflow"):
        homes.append((f"in {name!r}", _section_at((name,)).fields))
    homes.append(("in 'tasks' or 'spark_tasks' in 'airflow'", _section_at(("airflow", "tasks")).fields))
    homes.append(("in 'defaults' or in a table's entry", _section_at(("defaults",)).fields))
    for name in ("maintenance", "metadata_columns"):
        homes.append((f"in {name!r}, in 'defaults' or in a table's entry", _section_at(("defaults", name)).fields))
    homes.append(("in a table's entry", ("exclude",)))
    homes.append(("in an entry of 'notify'", receiver_section().fields))
    return homes


def missing_field(path: Path, document: Document) -> Problem:
    """Returns the problem of a field that has to be there and is not."""
    mark = place_of(document, path[:-1]).key
    shape = _shape_at(path)
    example = f" Write '{path[-1]}: {_example(shape)}'." if shape else ""
    return Problem(
        mark=mark, message=f"The field {str(path[-1])!r} is missing {_called(path[:-1])}.{example}", valid=shape.doc if shape else ""
    )


def _wrong_type(kind: str, given: Any, path: Path, place: Place) -> Problem:
    wanted = {
        "string_type": "text", "bool_type": "true or false", "int_type": "a whole number", "int_from_float": "a whole number",
        "list_type": "a name, or a list of names", "dict_type": "a mapping of fields to values",
    }.get(kind, "another value")  # fmt: skip
    name = next((part for part in reversed(path) if isinstance(part, str)), "the file")
    if given is None:
        hint = "Give a value, or remove the line for the default."
        return Problem(mark=place.value, message=f"{name!r} is empty and needs {wanted}.", valid=hint)
    message = f"{name!r} needs {wanted}, not {_described(given, place)}."
    return Problem(mark=place.value, message=message, valid=_remedy(kind, given, path, place))


def _remedy(kind: str, given: Any, path: Path, place: Place) -> str:
    raw = place.raw
    match kind, given:
        case "bool_type", str() if raw.lower() in ("yes", "on", "y", "no", "off", "n"):
            return f"Write {'true' if raw.lower() in ('yes', 'on', 'y') else 'false'}: {raw!r} is text in YAML 1.2."
        case "bool_type", str() if raw.lower() in ("true", "false"):
            return f"Write {raw.lower()} without quotes."
        case "int_type", str() if raw.isdigit() and raw.startswith("0"):
            return f"Write {raw.lstrip('0') or '0'}: a leading zero means octal in some versions of YAML."
        case "int_type", str() if raw.replace("_", "").isdigit():
            return f"Write {raw.replace('_', '')} without {'quotes' if raw.isdigit() else 'the _'}."
        case "int_type", str() if "${" in raw:
            return "Interpolation gives text, and this field needs a number."
        case "string_type", bool() | int() | float():
            return f'Put it in quotes: "{raw}".'
        case "dict_type", list() if path == ("tables",):
            return "Write each table as a field: 'shop.orders: {}'."
        case _:
            shape = _shape_at(path)
            return f"For example '{path[-1]}: {_example(shape)}'." if shape and shape.rule.examples else ""


def _described(given: Any, place: Place) -> str:
    match given:
        case bool():
            return f"the truth value {place.raw}"
        case int() | float():
            return f"the number {place.raw}"
        case str():
            return f"the text {place.raw!r}"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _example(shape: FieldShape | None) -> str:
    if shape is None or shape.kind is Kind.SECTION:
        return "{...}"
    if shape.kind is Kind.TABLES:
        return "{shop.orders: {}}"
    if shape.kind is Kind.RECEIVERS:
        return "{on_call: {webhook: on_call_hook}}"
    values = shape.rule.examples or shape.rule.choices or ("...",)
    return str(values[0])


def _called(path: Path) -> str:
    match path:
        case ():
            return "at the top level"
        case ("tables" | "notify", name):
            return f"in the entry {str(name)!r}"
        case _:
            return f"in {str(path[-1])!r}"


def _shape_at(path: Path) -> FieldShape | None:
    names = [part for part in path if isinstance(part, str)]
    if not names or (names[0] in ("tables", "notify") and len(names) == 2):
        return None
    return _section_at(tuple(names[:-1])).fields.get(names[-1])


def _section_at(path: Path) -> Section:
    section, parts = document_section(), list(path)
    while parts:
        shape = section.fields.get(str(parts.pop(0)))
        if shape is None or shape.section is None:
            return section
        if shape.kind in (Kind.TABLES, Kind.RECEIVERS) and parts:
            parts.pop(0)
        section = shape.section
    return section
