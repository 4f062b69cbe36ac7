"""The JSON Schema for editors and the reference for readers: both follow the dataclasses, and the files that are committed follow both."""

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cdc_ops.config.fields.json_schema import EXAMPLE, json_schema, reference_markdown
from cdc_ops.config.fields.model_fields import FieldShape, Section, document_section, section_of
from cdc_ops.config.loading import load_pipeline
from cdc_ops.config.reading.document import parse_document
from cdc_ops.core.maintenance import MaintenancePolicy
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SparkConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings

ROOT = Path(__file__).resolve().parents[2]
PIPELINES = ROOT / "dags" / "pipelines"
GROUPS_OF_A_TABLE = ("load", "order", "apply", "values", "history", "storage")
WAREHOUSE = PIPELINES / "examples" / "warehouse.yaml"


def complaints(text: str) -> list[str]:
    """What an editor shows: it does not interpolate."""
    document = parse_document(re.sub(r"\$\{", "$${", text).encode(), {})
    assert document.problems == []
    return [error.message for error in Draft202012Validator(json_schema()).iter_errors(document.data)]


def fields(section: Section) -> Iterator[FieldShape]:
    for shape in section.fields.values():
        yield shape
        if shape.section is not None:
            yield from fields(shape.section)


def test_the_schema_is_valid_draft_2020_12() -> None:
    Draft202012Validator.check_schema(json_schema())
    assert json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_no_mapping_of_the_schema_takes_unknown_fields() -> None:
    def objects(node: Any) -> Iterator[dict[str, Any]]:
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            for one in node.values():
                yield from objects(one)
        elif isinstance(node, list):
            for one in node:
                yield from objects(one)

    found, nested = list(objects(json_schema())), {"executor_config", "access_control"}
    assert len(found) > 8
    texts = {"type": "string"}
    assert all(
        one["additionalProperties"] in (False, texts, {"type": "object", "additionalProperties": texts})
        for one in found
        if one.get("title") not in nested
    )
    assert {one["title"] for one in found if one["additionalProperties"] is True} == nested, "what Airflow defines, and not we"


@pytest.mark.parametrize("path", [PIPELINES / "shop.yaml", WAREHOUSE], ids=lambda path: path.name)
def test_the_shipped_files_load_and_fit_the_schema(path: Path) -> None:
    assert load_pipeline(path, {}).tables
    assert complaints(path.read_text()) == []


def test_the_example_of_the_reference_loads_and_fits_the_schema(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(EXAMPLE)
    assert len(load_pipeline(tmp_path / "shop.yaml", {}).tables) == 4
    assert complaints(EXAMPLE) == []


def test_every_field_of_core_can_be_written_and_is_described() -> None:
    for cls in (SourceConfig, TargetConfig, SparkConfig, MaintenancePolicy):
        assert set(section_of(cls).fields) == {field.name for field in dataclasses.fields(cls)}
    assert (TableSettings.JSON_INLINE, ArchiveConfig.JSON_INLINE) == (GROUPS_OF_A_TABLE, ("events", "files"))
    assert Pipeline.JSON_INLINE == ("info", "runs")
    for grouped in (TableSettings, ArchiveConfig, Pipeline):
        groups = grouped.JSON_INLINE
        hints = typing.get_type_hints(grouped)
        flat = {field.name for group in groups for field in dataclasses.fields(hints[group])}
        assert set(section_of(grouped).fields) == flat | {field.name for field in dataclasses.fields(grouped)} - set(groups)
    written = {shape.attribute for shape in document_section().fields.values() if shape.attribute}
    assert {"execution", "owner", "archive"} <= written
    assert written == set(section_of(Pipeline).fields) - {"origin"}
    assert [shape.name for shape in fields(document_section()) if not shape.doc] == []


def test_the_full_example_shows_every_field() -> None:
    words = set(re.findall(r"[a-z_]+(?=:)", WAREHOUSE.read_text()))
    assert {shape.name for shape in fields(document_section())} - words == set()


def test_the_examples_in_the_schema_are_valid_values() -> None:
    def check(node: Any) -> None:
        if isinstance(node, dict):
            for example in node.get("examples", ()):
                assert list(Draft202012Validator({"$defs": json_schema()["$defs"], **node}).iter_errors(example)) == []
            for name, one in node.items():
                if name not in ("examples", "default"):
                    check(one)

    check({key: json_schema()[key] for key in ("$defs", "properties")})


def test_the_committed_reference_is_the_generated_one() -> None:
    committed = (ROOT / "docs" / "configuration.md").read_text()
    assert committed == reference_markdown(), "run: python -m cdc_ops.config.fields.json_schema > docs/configuration.md"


def test_the_reference_has_a_table_for_each_section_that_it_sends_readers_to() -> None:
    sections = re.findall(r"^\| `(\w+)` \| section \| see below", reference_markdown(), re.MULTILINE)
    headings = " ".join(re.findall(r"^## (.*)$", reference_markdown(), re.MULTILINE))
    assert len(sections) > 3
    assert [name for name in sections if f"`{name}`" not in headings] == []
