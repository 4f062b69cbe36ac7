"""What a pipeline file may say, for editors (JSON Schema) and for readers (docs/configuration.md); both are made from the same shape.

`python -m cdc_ops.config.fields.json_schema > docs/configuration.md` writes the reference.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from cdc_ops.config.fields.adapter import document_adapter, written
from cdc_ops.config.fields.model_fields import FieldShape, Kind, Section, document_section, entry_section
from cdc_ops.config.fields.values import format_duration, format_size
from cdc_ops.config.settings import VARIABLES
from cdc_ops.core.pipeline.connections import FORM

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

EXAMPLE: Final = """\
pipeline: shop
schedule: "*/15 * * * *"
source: {kind: mysql, connection: shop_db}
target:
  root: "${CDC_OPS_LAKE:-/data/lake}"
  staging: "${CDC_OPS_STAGING:-/data/staging}"
defaults: {cursor: updated_at, lookback: 30s}
tables:
  shop.customers:                          # all as in defaults
  shop.orders: {cursor: [updated_at, id]}  # an entry goes over the defaults, field by field
  shop.log_*: {parallelism: 1}
  shop.log_tmp: {exclude: true}
"""

_INTRO: Final = """\
<!-- Generated: python -m cdc_ops.config.fields.json_schema > docs/configuration.md -->
# Configuration reference

One YAML file per pipeline, in `dags/pipelines/` or the folder in `CDC_OPS_PIPELINES` (not in folders below it). `cdc-ops validate` checks
them; `cdc-ops schema` prints a JSON Schema for editors. [shop.yaml](../dags/pipelines/shop.yaml) is a file to start from,
[warehouse.yaml](../dags/pipelines/examples/warehouse.yaml) shows every field.

```yaml
{example}```
"""

_WRITING: Final = """\
## How values are written
- **Text** is read as in YAML 1.2: `on`, `yes`, `no`, `12:30` and dates are text without quotes; `true`, `false`, numbers and `null` are
  not, so put them in quotes where text is wanted. Nothing is converted silently.
- **Lists of text** with one item can be written without the brackets: `cursor: updated_at`.
- **Durations** are numbers with units, `500ms`, `30s`, `5m`, `2h`, `1d`, `2w`, `1h30m`, or ISO 8601, `PT30S`, `P7D`.
- **Sizes** are numbers with `KiB`, `MiB`, `GiB`, `TiB` (or `kB`, `MB`, `GB`, `TB`), or plain numbers of bytes.
- **Dates** are `2026-01-31`, midnight in UTC, or a date and time with its zone, `2026-01-31T06:00:00Z`.
- **Variables** of the environment stand in values as `${NAME}`, or `${NAME:-default}` if they may be missing; `$${` is a plain `${`. In
  braces or brackets, put them in quotes. Names that look like secrets (`PASSWORD`, `SECRET`, `TOKEN`, `KEY`, ...) are refused.
- **Secrets** have no place in these files. Connections are named; a URL with a password is an error wherever it stands, comments included.
- **Patterns** of tables know `*`, `?` and `[...]`. In YAML a name that begins with `*` needs quotes. `exclude: true` takes matching tables
  out again; a table with an entry of its own stays.
- **Defaults** and a table's entry are merged field by field: lists are replaced, `maintenance`, `max_cost`,
  `metadata_columns` and `properties` are merged.
- Unknown fields, fields that stand twice and wrong types are errors. All problems of a file are reported at once, each with its line.
"""

_CONNECTIONS: Final = """\
## Connections
In Airflow a connection is an Airflow connection of that id. Outside, and in every Spark application, its URL is in the variable
`CDC_OPS_CONN_<ID>`: the id in capitals, with `_` for all that is neither letter nor digit, so `shop_db` is `CDC_OPS_CONN_SHOP_DB`.

```
{form}
```

The scheme is `mysql`, `mariadb` or `postgresql`. Special characters in user and password are percent-encoded: `@` is `%40`, `/` is `%2F`,
`?` is `%3F`, `#` is `%23`, `%` is `%25`. An IPv6 address stands in brackets. No message shows any of it.
"""


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema of pipeline files, Draft 2020-12."""
    schema = document_adapter().json_schema()
    return {"$schema": DIALECT, **schema, "title": "cdc-ops pipeline"}


def reference_markdown() -> str:
    """Returns the text of docs/configuration.md."""
    document, entry = document_section(), entry_section()
    parts = [_INTRO.replace("{example}", EXAMPLE), _WRITING]
    parts.append(_table("The file", document.doc, document))
    for name in ("source", "target", "archive", "spark", "airflow"):
        inner = _inner(document, name)
        parts.append(_table(f"`{name}`", "", inner))
        parts += [_table(f"{named} in `{name}`", section.doc, section) for named, section in _inner_parts(inner)]
    parts.append(_table("`defaults` and the entries of `tables`", entry.doc, entry))
    parts.append(_table("The entries of `notify`", _inner(document, "notify").doc, _inner(document, "notify")))
    for name in ("metadata_columns", "maintenance", "max_cost"):
        parts.append(_table(f"`{name}`", _inner(entry, name).doc, _inner(entry, name)))
    parts.append(_CONNECTIONS.replace("{form}", FORM))
    rows = [f"| `{one.name}` | {one.default} | {_cell(one.meaning)} |" for one in VARIABLES]
    parts.append("\n".join(["## Environment variables", "| variable | default | meaning |", "|---|---|---|", *rows, ""]))
    return "\n".join(parts)


def _inner(section: Section, name: str) -> Section:
    inner = section.fields[name].section
    if inner is None:
        raise TypeError(f"{name} is no section")
    return inner


def _inner_parts(section: Section) -> Iterator[tuple[str, Section]]:
    """Yields the sections in a section, each once, with the names of the fields that have it."""
    shapes = [shape for shape in section.fields.values() if shape.section]
    for part in dict.fromkeys(shape.section for shape in shapes if shape.section):
        yield " and ".join(f"`{shape.name}`" for shape in shapes if shape.section is part), part


def _table(title: str, text: str, section: Section) -> str:
    rows = [
        f"| `{name}` | {_cell(_type(shape))} | {_cell(_default(shape))} | {_cell(' '.join(_meaning(shape)))} |"
        for name, shape in section.fields.items()
    ]
    head = [f"## {title}", *([text, ""] if text else []), "| field | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _type(shape: FieldShape) -> str:
    if shape.kind is Kind.CHOICES:
        return "list of " + ", ".join(f"`{one}`" for one in shape.rule.choices)
    if shape.kind is Kind.CHOICE:
        return ", ".join(f"`{one}`" for one in shape.rule.choices[:-1]) + f" or `{shape.rule.choices[-1]}`"
    return str(shape.kind.value)


def _default(shape: FieldShape) -> str:
    if shape.required:
        return "**required**"
    if shape.default is None:
        return "see below"
    text = written(shape, shape.default)
    if isinstance(text, bool):
        return f"`{str(text).lower()}`"
    if shape.kind is Kind.CHOICES:
        return ", ".join(f"`{one}`" for one in text)
    return f"`{text}`" if text not in ("", [], {}) else "empty"


def _meaning(shape: FieldShape) -> Iterator[str]:
    if shape.doc:
        yield shape.doc
    if shape.section is not None and not shape.doc:
        yield shape.section.doc
    if least := shape.rule.minimum:
        shown = format_duration(least) if isinstance(least, timedelta) else format_size(least) if shape.kind is Kind.SIZE else str(least)
        yield f"At least {shown}{f', at most {shape.rule.maximum}' if shape.rule.maximum else ''}."
    if shape.kind in (Kind.TEXT, Kind.NAMES, Kind.INSTANT) and shape.rule.examples and "e.g." not in shape.doc:
        yield "E.g. " + " or ".join(f"`{_flow(one)}`" for one in shape.rule.examples) + "."


def _flow(value: Any) -> str:
    return f"[{', '.join(value)}]" if isinstance(value, list) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference_markdown(), end="")
