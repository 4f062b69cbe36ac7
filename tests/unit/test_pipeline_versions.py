"""A pipeline's file on the status page: what is shown of it, which changes, and that runs keep it in the ledger."""

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient

from cdc_ops.config.loading import load_pipeline, shown_file
from cdc_ops.config.reading.shown_text import shown_text
from cdc_ops.state.notices.pipeline_files import PipelineVersion
from cdc_ops.state.sql import open_reader, open_store
from cdc_ops.steps.reporting.pipeline_file import note_pipeline_file
from cdc_ops.web.app import create_app
from cdc_ops.web.pages import VERSIONS
from cdc_ops.web.versions import file_changes
from cdc_ops.web.view import PipelineInfo
from tests.status_case import fill_ledger

SHIPPED = sorted((Path(__file__).parents[2] / "dags" / "pipelines").rglob("*.yaml"))
FILE = """\
# the old password was hunter2
pipeline: shop  # hunter2
source: {kind: mysql, connection: shop_db}
target: {root: "${LAKE:-/lake}", staging: /staging}  # ü
tables:
  # shop.old: {cursor: hunter2}
  shop.orders: {cursor: id}
"""


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_file_without_its_comments_says_the_same(file: Path) -> None:
    raw, shown = file.read_bytes(), shown_text(file.read_bytes())
    assert yaml.load(shown, Loader=yaml.BaseLoader) == yaml.load(raw, Loader=yaml.BaseLoader)
    assert len(shown) < len(raw)
    assert not re.search(r"^\s*#|\s#", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a: 1 # x\r\nb: 2\r\n", "a: 1\nb: 2\n"),
        ("a: 'x # y' # z\nb: x#y\n", "a: 'x # y'\nb: x#y\n"),
        ("a: | # secret\n  # text\n  more\n# secret\nb: >-\n  x # text\n", "a: |\n  # text\n  more\nb: >-\n  x # text\n"),
        ("a: [1, # secret\n  2]\n#secret", "a: [1,\n  2]\n"),
        ("\ufeff# ü\n\na: ü # ö\nb: 2 # x\n\n\n", "a: ü\nb: 2\n"),
        ("a: https://hooks.example/T0/hunter2\n", "a: https://hooks.example/***\n"),
        ("a: mysql://cdc:hunter2@db/shop\n", "a: mysql://cdc:***@db/shop\n"),
    ],
)
def test_comments_and_what_could_be_a_secret_are_left_out_and_texts_are_not_cut(text: str, shown: str) -> None:
    assert shown_text(text.encode()) == shown


def test_a_run_keeps_the_file_that_it_works_by_and_its_variables_by_name(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as store:
        for run_id, text in (("r1", FILE), ("r2", FILE), ("r3", FILE.replace("cursor: id}", "cursor: changed_at}"))):
            file.write_text(text)
            pipeline = load_pipeline(file, {"LAKE": f"/of-{run_id}"})
            note_pipeline_file(store, pipeline, run_id)
        assert shown_file(replace(pipeline, origin="")) == shown_file(replace(pipeline, name="another")) == ""
        newest, first = store.pipeline_versions("shop")
    assert (first.run_id, newest.run_id) == ("r1", "r3")
    assert "hunter2" not in first.text + newest.text
    assert 'root: "${LAKE:-/lake}"' in newest.text
    assert "of-r3" not in newest.text
    assert [line.text for line in file_changes([newest, first])[0].lines if line.look in ("added", "removed")] == [
        "-  shop.orders: {cursor: id}",
        "+  shop.orders: {cursor: changed_at}",
    ]


def version(number: int, text: str) -> PipelineVersion:
    since = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    return PipelineVersion(pipeline="shop", number=number, text=text, run_id=f"manual__{number}", since=since)


def test_a_change_shows_what_it_added_and_removed_with_the_lines_around() -> None:
    before = "".join(f"line {number}\n" for number in range(20))
    after = before.replace("line 10\n", "line ten\nline ten and a half\n").replace("line 0\n", "--- line 0\n")
    changed, first = file_changes([version(2, after), version(1, before)])
    assert (first.words, first.lines) == ("the first version that the ledger has", ())
    assert changed.words == "3 lines added, 2 removed"
    assert [line.text for line in changed.lines if line.look == "place"] == ["@@ -1,4 +1,4 @@", "@@ -8,7 +8,8 @@"]
    assert [line.text for line in changed.lines if line.look == "added"] == ["+--- line 0", "+line ten", "+line ten and a half"]
    assert file_changes([]) == ()


def test_the_page_shows_the_file_as_it_stands_and_its_changes_to_those_who_may_see_the_pipeline(tmp_path: Path) -> None:
    url = fill_ledger(tmp_path / "ledger.db")
    with open_store(url) as store:
        for number in range(VERSIONS + 2):
            store.note_pipeline_file("shop", f"pipeline: shop\nname: '<{number}>'\n", f"manual__{number}")
    infos = {"shop": PipelineInfo(dag_ids=("cdc_shop",))}
    client = TestClient(create_app(lambda: open_reader(url), visible_pipelines=lambda: infos))
    page = client.get("/pipeline?name=shop").text
    [file] = re.findall(r'<pre class="file".*?>(.*?)</pre>', page, re.DOTALL)
    assert html.unescape(file) == f"pipeline: shop\nname: '<{VERSIONS + 1}>'\n"
    assert page.count("<article") == page.count('<pre class="diff"') == VERSIONS, "the oldest one is compared as well"
    assert f"<del>-name: &#39;&lt;{VERSIONS}&gt;&#39;</del><ins>+name: &#39;&lt;{VERSIONS + 1}&gt;&#39;</ins>" in page
    assert f'href="../dags/cdc_shop/runs/manual__{VERSIONS + 1}"' in page
    assert 'href="pipeline?name=shop"' in client.get("/ui?pipeline=shop").text
    assert 'href="pipeline?name=shop"' in client.get("/table?pipeline=shop&name=shop.orders").text
    with open_store(url) as store:
        store.note_pipeline_file("clickstream", "pipeline: clickstream", "r")
    for name in ("clickstream", "none"):
        answer = client.get(f"/pipeline?name={name}")
        assert (answer.status_code, "pipeline: clickstream" in answer.text, "No file yet" in answer.text) == (404, False, True)
    everybody = TestClient(create_app(lambda: open_reader(url)))
    assert (everybody.get("/pipeline?name=clickstream").status_code, everybody.get("/pipeline?name=none").status_code) == (200, 200)
