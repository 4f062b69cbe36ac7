"""The text of the pipeline file that imports of Sqoop become: the remarks as comments, then the settings."""

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from cdc_ops.cli.sqoop.notes import Note, Weight
from cdc_ops.cli.sqoop.translation import TableEntry, Translation

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?")
_WORDS: Final = frozenset(("true", "false", "null"))
_WIDTH: Final = 120
_HEADS: Final = {
    Weight.LOSES: "What does not reach the lake, unless you change it:",
    Weight.DIFFERS: "What is not as it was with Sqoop:",
    Weight.LEFT_OUT: "What was left out, without loss:",
}


def pipeline_text(translation: Translation, *, name: str, connection: str, root: str = "", staging: str = "") -> str:
    """Returns the file.

    Args:
        translation: What the imports become.
        name: The pipeline's name.
        connection: The id of its connection.
        root, staging: Where tables and staging area go; "" = below the folder of an object store that Sqoop wrote to, else by variables.
    """
    lines = ["# Written by 'cdc-ops import-sqoop'. Every field: docs/configuration.md. 'cdc-ops validate' checks the file, 'cdc-ops check'"]
    lines += ["# what a run needs."]
    for weight, head in _HEADS.items():
        if notes := [note for note in translation.notes if note.weight is weight]:
            lines += ["#", f"# {head}", *(line for note in notes for line in _comment(note))]
    folder = translation.folder
    lines += [
        "",
        f"pipeline: {name}",
        '# schedule: "*/15 * * * *"            # cron, in UTC. Sqoop\'s command line has none; without it the pipeline runs by hand',
        '# reconcile_schedule: "0 3 * * *"     # compares all keys with the source, and removes rows that were deleted there',
        "source:",
        f"  kind: {translation.url.kind.value}",
        f"  connection: {connection}",
        "target:",
        f"  root: {_value(root or (f'{folder}/delta' if folder else '')) or _variable('CDC_OPS_LAKE', '/data/lake')}",
        f"  staging: {_value(staging or (f'{folder}/delta-staging' if folder else '')) or _variable('CDC_OPS_STAGING', '/data/staging')}",
        "tables:",
    ]
    return "\n".join([*lines, *(line for entry in translation.tables for line in _entry(entry))]) + "\n"


def _comment(note: Note) -> list[str]:
    return textwrap.wrap(note.line, _WIDTH, initial_indent="# - ", subsequent_indent="#   ", break_on_hyphens=False)


def _entry(entry: TableEntry) -> Iterator[str]:
    yield f"  {_value(entry.name)}:"
    for field, value in entry.settings.items():
        yield f"    {field}: {_value(value)}"
    for field, value in entry.proposed.items():
        yield f"    # {field}: {_value(value)}"


def _variable(name: str, default: str) -> str:
    return f'"${{{name}:-{default}}}"'


def _value(value: Any) -> str:
    """Returns a value as YAML; a `${` of a text stays one."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        plain = not value or (_PLAIN.fullmatch(value) and value not in _WORDS)
        return value if plain else json.dumps(value.replace("${", "$${"), ensure_ascii=False)
    return json.dumps(value)
