"""A value that a reader can hold in the head has few fields: those that are one thought are a value of their own."""

import ast
from pathlib import Path
from typing import Final

MOST: Final = 14


def test_no_value_has_more_fields_than_a_reader_can_hold() -> None:
    fields: dict[str, int] = {}
    for path in Path("cdc_ops").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
                fields[node.name] = max(fields.get(node.name, 0), sum(_is_field(one) for one in node.body))
    assert len(fields) > 300
    assert {name: count for name, count in fields.items() if count > MOST} == {}


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and not ast.unparse(node.annotation).startswith("ClassVar")
