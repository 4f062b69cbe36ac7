"""What is known of a tool that writes change events stands in the tool's package, and nowhere else in cdc_ops.

The words of a tool are its name, the names of its settings, and names of members in its records that no other tool has. Looked at are the
texts of the code. Docstrings and comments may name tools: they explain, and nothing follows from them.
"""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from cdc_ops.core.formats.known_losses import FULL_ROW_IMAGE, NO_TRUNCATE
from cdc_ops.events.registry import FORMAT_SPECS

PACKAGE: Final = Path(__file__).resolve().parents[2] / "cdc_ops"
FORMATS: Final = PACKAGE / "events/formats"
WORDS: Final = {
    "binlog": ("mysql-binlog",),
    "canal": ("canal", "ticdc", "isDdl", "_tidb"),
    "debezium": ("debezium", "__deleted", "updateDescription", "txSeq", "databaseName", "add.fields", "io.confluent"),
    "dms": ("aws-dms", "AR_H_CHANGE_SEQ", "CsvDelimiter"),
    "dts": ("dts-", "recordid", "beforeimages", "member_array"),
    "goldengate": ("goldengate", "op_type", "_isMissing"),
    "hudi": ("hudi", "_hoodie_"),
    "maxwell": ("maxwell", "bootstrap-insert", "xoffset"),
}
"""By the tool's package, what stands in its texts, as a whole text or a part of one."""
SHARED: Final = {FULL_ROW_IMAGE.name, NO_TRUNCATE.name}
"""Names of settings that several tools have."""
APART: Final = ("demo", "dev")
"""Folders outside of the data path, which run tools: Debezium's connectors for the demo and for tests."""
ELSEWHERE: Final = {
    **{(tool, "events/registry.py"): "the names of all formats" for tool in WORDS},
    ("debezium", "config/checks/pipeline.py"): "an example in an error",
    ("debezium", "config/fields/field_rules.py"): "examples in the JSON Schema",
    ("debezium", "steps/planning/log.py"): "an example in an error",
    ("debezium", "steps/table/source_traits.py"): "what to do at a source that is partitioned, in an error",
    ("debezium", "core/schema/declared_tables.py"): "'document.column' is a setting of ours, for documents of any tool",
    ("maxwell", "config/reading/explain.py"): "'exclude_columns' is what people write in place of 'except_column_list'",
    ("dms", "core/archive/file_names.py"): "a layout of folders, which says nothing of what the files hold",
}
"""Modules that have words of a tool, and why they may."""


def texts_of(module: Path) -> list[str]:
    """The texts in a module's code; a text that is a statement of its own explains something."""
    tree = ast.parse(module.read_text("utf-8"))
    explains = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in explains]
    return [text for text in found if isinstance(text, str)]


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    """The texts of all modules, by their paths in cdc_ops."""
    return {path.relative_to(PACKAGE).as_posix(): texts_of(path) for path in PACKAGE.rglob("*.py")}


def has(tool: str, texts: list[str]) -> set[str]:
    """The words of a tool that stand in some texts."""
    specs = import_module(f"cdc_ops.events.formats.{tool}.specs").SPECS
    settings = {name for spec in specs for name in (*spec.settings, *(item.name for item in spec.lossy))}
    parts = [word for word in WORDS[tool] for text in texts if re.search(rf"(?<![a-z]){re.escape(word)}", text, re.IGNORECASE)]
    return {*parts, *((settings - SHARED).intersection(texts))}


def test_every_tool_is_looked_at() -> None:
    assert {folder.name for folder in FORMATS.iterdir() if (folder / "__init__.py").exists()} == WORDS.keys()


def test_the_registry_names_what_the_packages_declare() -> None:
    declared = [spec for tool in WORDS for spec in import_module(f"cdc_ops.events.formats.{tool}.specs").SPECS]
    assert len(declared) == len(FORMAT_SPECS)
    assert {spec.name: spec for spec in declared} == dict(FORMAT_SPECS)


@pytest.mark.parametrize("tool", WORDS)
def test_the_words_of_a_tool_stand_in_its_package_alone(texts: dict[str, list[str]], tool: str) -> None:
    own = f"events/formats/{tool}/"
    found = {module: words for module, here in texts.items() if (words := has(tool, here))}
    inside = set().union(*(words for module, words in found.items() if module.startswith(own)))
    assert inside >= set(WORDS[tool]), "a word that the package does not have shows nothing"
    outside = {module: words for module, words in found.items() if not module.startswith((own, *(f"{one}/" for one in APART)))}
    assert outside.keys() == {module for of, module in ELSEWHERE if of == tool}, outside


def test_a_word_outside_would_be_seen() -> None:
    assert has("maxwell", ["the type bootstrap-insert"]) == {"bootstrap-insert"}
    assert has("dms", ["CdcInsertsOnly", "a_dms"]) == {"CdcInsertsOnly"}
    assert has("hudi", ["a word of nobody"]) == set()
