"""Settings of a table that contradict each other: the file tells all of them with their lines, and the plan refuses them too."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.config.fields.model_fields import section_of
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.apply.metadata_columns import MetadataColumns
from cdc_ops.core.apply.scd import TableStorage
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.contradictions import Contradiction, contradictions
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.errors import ConfigError
from cdc_ops.steps.table.storage import stored_as
from tests.unit.test_storing import SCHEMA, config, pipeline

FILE = """\
pipeline: shop
source: {{kind: mysql, connection: shop_db}}
target: {{root: /lake, staging: /staging}}
archive: {{url: /archive, format: maxwell}}
defaults: {defaults}
tables:
  shop.orders: {entry}
  shop.items: {{keys: [id]}}
"""

LOG = {"method": Method.LOG}
SEQUENCE = {"sequence_by": ("seq",)}
SCD2 = {"stored_as_scd_type": 2}
NULLS = "ignore_null_updates"
TRACKED, UNTRACKED = "track_history_column_list", "track_history_except_column_list"

CASES: list[tuple[dict[str, Any], str, str]] = [
    ({**LOG, **SEQUENCE}, "sequence_by", "have their own order"),
    ({**SEQUENCE, "previous_key": ("old",)}, "previous_key", "no place in the order"),
    ({"keys": ("a", "b"), "previous_key": ("old",)}, "previous_key", "names 1 columns, and 'keys' names 2"),
    ({"bad_records": OnBadRecord.QUARANTINE}, "bad_records", "other rows would be lost"),
    ({"previous_key": ("old",), "deletes": Deletes.IGNORE}, "previous_key", "the other keeps it"),
    ({**SEQUENCE, "except_column_list": ("SEQ",), "deletes": Deletes.IGNORE}, "except_column_list", "would lose their order"),
    ({**SCD2, "deletes": Deletes.SOFT}, "deletes", "last version ends"),
    ({**LOG, "apply_as_truncates": "op = 'T'"}, "apply_as_truncates", "show a TRUNCATE themselves"),
    ({"apply_as_truncates": "op = 'T'"}, "apply_as_truncates", "which rows are older"),
    ({**SEQUENCE, **SCD2, "apply_as_truncates": "op = 'T'"}, "apply_as_truncates", "as in AUTO CDC"),
    ({**SEQUENCE, "apply_as_truncates": "op = 'T'", "deletes": Deletes.IGNORE}, "apply_as_truncates", "rows that the other keeps"),
    ({**LOG, NULLS: True, f"{NULLS}_column_list": ("a",)}, NULLS, "exclude each other"),
    ({NULLS: True}, NULLS, "a NULL is a value"),
    ({**SEQUENCE, f"{NULLS}_column_list": ("a",), "deletes": Deletes.SOFT}, f"{NULLS}_column_list", "last values are not known"),
    ({TRACKED: ("a",)}, TRACKED, "needs 'stored_as_scd_type: 2'"),
    ({**SCD2, TRACKED: ("a",), UNTRACKED: ("b",)}, TRACKED, "exclude each other"),
    ({"event_history": True}, "event_history", "have no events"),
    ({"metadata_columns": MetadataColumns(op="X", synced_at="x")}, "metadata_columns", "names two columns 'x'"),
]


def written(settings: dict[str, Any]) -> str:
    """Settings as a flow mapping of YAML."""
    own = {"metadata_columns": {"op": "X", "synced_at": "x"}} if "metadata_columns" in settings else {}
    return json.dumps({**settings, **own})


def planned(settings: dict[str, Any]) -> TableStorage:
    """What the plan decides for settings that did not go through a file."""
    return stored_as(pipeline(), config(**settings), SCHEMA, ("id",))


def refused(tmp_path: Path, entry: str, defaults: str = "{cursor: updated_at}") -> ConfigError:
    path = tmp_path / "shop.yaml"
    path.write_text(FILE.format(entry=entry, defaults=defaults))
    with pytest.raises(ConfigError) as caught:
        load_pipeline(path, {})
    return caught.value


@pytest.mark.parametrize(("settings", "field", "words"), CASES, ids=[case[2] for case in CASES])
def test_the_file_tells_a_contradiction_at_its_line(tmp_path: Path, settings: dict[str, Any], field: str, words: str) -> None:
    entry = written(settings)
    error = refused(tmp_path, entry)
    column = len("  shop.orders: ") + entry.index(f'"{field}"') + 1
    lines = re.findall(rf"^{re.escape(str(tmp_path))}/shop.yaml:(\d+):(\d+): 'shop.orders': (.*)$", error.what, re.MULTILINE)
    assert [(line, place) for line, place, _ in lines] == [("7", str(column))]
    assert words in lines[0][2]


@pytest.mark.parametrize(("settings", "field", "words"), CASES, ids=[case[2] for case in CASES])
def test_the_plan_refuses_it_in_the_same_words(settings: dict[str, Any], field: str, words: str) -> None:
    (found,) = contradictions(TableSettings.of(**settings))
    assert words in found.text
    with pytest.raises(ConfigError) as caught:
        planned(settings)
    assert caught.value.why == found.text
    assert found.remedy in caught.value.next
    assert field == found.settings[0]


MANY = {**SCD2, **SEQUENCE, "deletes": Deletes.SOFT, "event_history": True, "previous_key": ("old",), "apply_as_truncates": "op = 'T'"}


def all_at_once() -> list[Contradiction]:
    return list(contradictions(TableSettings.of(**MANY)))


def test_all_contradictions_of_all_tables_are_told_at_once(tmp_path: Path) -> None:
    assert len(all_at_once()) == 4
    entry = "{deletes: soft, event_history: true, previous_key: old, sequence_by: seq, apply_as_truncates: op = 'T'}"
    defaults = "{cursor: updated_at, stored_as_scd_type: 2, bad_records: quarantine}"
    error = refused(tmp_path, entry, defaults)
    texts = [found.text for found in all_at_once()]
    assert all(f"'shop.orders': {text}" in error.what for text in texts)
    column = len("defaults: ") + defaults.index("bad") + 1
    assert f"5:{column}: 'bad_records: quarantine' needs" in error.what  # of shop.items, whose entry does not name it
    assert "5 problems in this file" in error.why
    with pytest.raises(ConfigError) as caught:
        planned(MANY)
    assert caught.value.why == " ".join(texts)


def test_what_defaults_alone_contradict_is_told_once(tmp_path: Path) -> None:
    defaults = "{cursor: updated_at, stored_as_scd_type: 2, deletes: soft}"
    error = refused(tmp_path, "{keys: [id]}", defaults)
    assert error.what.count("does not go with 'stored_as_scd_type: 2'") == 1
    assert f"shop.yaml:5:{len('defaults: ') + defaults.index('deletes') + 1}: 'deletes: soft' does not" in error.what


def test_an_entry_with_another_error_is_not_said_to_contradict_itself(tmp_path: Path) -> None:
    error = refused(tmp_path, "{method: logg, bad_records: quarantine}")
    assert "Did you mean 'log'?" in error.what
    assert "needs 'method: log'" not in error.what


def test_validate_tells_a_contradiction_and_connects_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.yaml").write_text(FILE.format(entry="{deletes: soft, stored_as_scd_type: 2}", defaults="{cursor: updated_at}"))
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(tmp_path))
    result = CliRunner().invoke(app, ["validate"])
    assert result.exit_code != 0
    assert "'deletes: soft' does not go with 'stored_as_scd_type: 2'" in " ".join(result.output.split())


def test_each_contradiction_names_fields_of_a_pipeline_file() -> None:
    fields = section_of(TableSettings).fields
    named = {name for settings, _, _ in CASES for found in contradictions(TableSettings.of(**settings)) for name in found.settings}
    assert len(named) > 10
    assert named <= fields.keys()
