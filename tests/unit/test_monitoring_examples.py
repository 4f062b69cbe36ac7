"""docs/examples/monitoring: rules and dashboard ask only for figures that there are; Prometheus' own programs load, test and run them.

Those programs are Go's and are built by `make prometheus`, minutes of a processor. Where they are not there, their tests are skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from cdc_ops.core.schema.tables import TableName
from cdc_ops.metrics.exposition import prometheus_text
from cdc_ops.metrics.families import read_families
from cdc_ops.state.sql import open_reader, open_store
from tests.status_case import fill_ledger

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/examples/monitoring"
RULES, RULE_TESTS, DASHBOARD = FOLDER / "cdc-ops-rules.yaml", FOLDER / "cdc-ops-rules-test.yaml", FOLDER / "grafana-dashboard.json"
LINE = 'time() - node_textfile_mtime_seconds{file=~".*cdc_ops.prom"} > 900'
"""Of the one figure that is not ours."""

VARIABLES = {"$__rate_interval": "5m", "$pipeline": ".+", "$table": ".+", "${datasource}": "x"}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = fill_ledger(tmp_path_factory.mktemp("ledger") / "ledger.db")
    with open_store(url) as store:
        line = store.history("shop", TableName(schema="shop", name="orders"))[0]
        store.record(replace(line, max_lag=timedelta(minutes=30), result=replace(line.result, late_rows=3, max_commit_lag=7.5)))
    return url


@pytest.fixture(scope="module")
def text(ledger: str) -> str:
    with open_reader(ledger) as reader:
        return prometheus_text(read_families(reader, reader.overview()))


@pytest.fixture(scope="module")
def labels(text: str) -> dict[str, dict[str, set[str]]]:
    """The values of the labels of each series, by its name."""
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        series = f"{family.name}_total" if family.type == "counter" else family.name
        mine = found.setdefault(series, {})
        for sample in family.samples:
            for name, value in sample.labels.items():
                mine.setdefault(name, set()).add(value)
    return found


def rules() -> list[dict[str, Any]]:
    found = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    assert len(found) > 10
    return found


def expressions_of_dashboard() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(found) > 20
    for name, value in VARIABLES.items():
        found = [expression.replace(name, value) for expression in found]
    assert not [expression for expression in found if "$" in expression]
    return found


def all_expressions() -> list[str]:
    return [*(rule["expr"] for rule in rules()), *expressions_of_dashboard()]


SELECTED = re.compile(r"\b(cdc_ops_[a-z_]+)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')


@pytest.mark.parametrize("expression", all_expressions())
def test_an_expression_names_figures_and_labels_that_there_are(expression: str, labels: dict[str, dict[str, set[str]]]) -> None:
    selected = SELECTED.findall(expression)
    assert selected or expression == LINE
    for name, matchers in selected:
        assert name in labels
        for label, value in MATCHER.findall(matchers):
            assert label in labels[name], f"{name} has no label {label}"
            if label in ("operation", "result", "phase"):
                assert value in labels[name][label], f"{name} has no {label} {value}"
    grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in re.split(r",\s*", group)}
    assert grouped <= {label for name, _ in selected for label in labels[name]}


def test_the_panels_of_the_dashboard_fill_its_rows_and_lie_on_no_other() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        mine = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & mine, panel["title"]
        taken |= mine
    assert {x for x, _ in taken} == set(range(24))
    assert len(taken) == 24 * len({y for _, y in taken}), "a hole"


def test_counters_are_asked_by_how_much_they_grow_and_gauges_are_not() -> None:
    grown, counters, gauges = 0, 0, 0
    for expression in all_expressions():
        for name, _ in SELECTED.findall(expression):
            inside = re.search(rf"\bincrease\({name}\{{?[^\[]*\[[^\]]+\]", expression) is not None
            assert inside == name.endswith("_total"), f"{name} in {expression}"
            grown += inside
            counters += name.endswith("_total")
            gauges += not name.endswith("_total")
    assert grown == counters > 5
    assert gauges > 10


def test_each_alert_says_what_it_is_about_how_bad_it_is_and_is_tested() -> None:
    tested = {
        one["alertname"] for case in yaml.safe_load(RULE_TESTS.read_text())["tests"] for one in case["alert_rule_test"] if one["exp_alerts"]
    }
    assert {rule["alert"] for rule in rules()} == tested
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]


def test_names_in_alerts_and_legends_are_labels_that_the_expression_keeps(labels: dict[str, dict[str, set[str]]]) -> None:
    named = 0
    for rule in rules():
        (first, *_) = SELECTED.findall(rule["expr"]) or [("", "")]
        for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
            assert label in labels[first[0]], f"{rule['alert']} names {label}"
            named += 1
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                kept = re.search(rf"\bby \([^)]*\b{label}\b", target["expr"]) or not re.search(r"\b(sum|max|count)\b", target["expr"])
                assert kept, f"{panel['title']} names {label}"
                named += 1
    assert named > 15


# ------------------------------------------------------------------------------------------------------- with Prometheus' own programs


def program(name: str) -> str:
    """Where a program of Prometheus is, on PATH or as `make prometheus` builds it."""
    found = shutil.which(name) or shutil.which(name, path=str(ROOT / ".local/go/bin"))
    return found or _skip(name)


def _skip(name: str) -> NoReturn:
    pytest.skip(f"{name} is not on PATH; next: make prometheus, which needs Go")


def asked(*command: str | Path, given: str = "") -> str:
    done = subprocess.run(list(map(str, command)), input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.long
def test_promtool_finds_nothing_to_say_of_the_text(text: str) -> None:
    assert asked(program("promtool"), "check", "metrics", given=text).strip() == ""


@pytest.mark.long
def test_promtool_loads_the_rules_and_their_tests_pass(tmp_path: Path) -> None:
    tool = program("promtool")
    assert f"{len(rules())} rules found" in asked(tool, "check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert "SUCCESS" in asked(tool, "test", "rules", RULE_TESTS)
    for file in (RULES, RULE_TESTS):
        shutil.copy(file, tmp_path)
    broken = RULES.read_text().replace("cdc_ops_deletes_refused == 1", "cdc_ops_deletes_refused == 2")
    (tmp_path / RULES.name).write_text(broken)
    with pytest.raises(AssertionError, match="CdcOpsDeletesRefused"):
        asked(tool, "test", "rules", tmp_path / RULE_TESTS.name)


@pytest.mark.long
def test_promtool_parses_what_the_dashboard_asks_for(tmp_path: Path) -> None:
    recorded = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(expressions_of_dashboard())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    assert f"{len(recorded)} rules found" in asked(program("promtool"), "check", "rules", tmp_path / "panels.yaml")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_prometheus_scrapes_the_page_and_its_alerts_are_those_of_the_ledger(ledger: str, tmp_path: Path) -> None:
    server = program("prometheus")
    with open_reader(ledger) as reader:
        overviews = reader.overview()
    failed = {str(one.state.table) for one in overviews if one.last_run is not None and one.last_run.status == "failed"}
    assert 0 < len(failed) < len(overviews)
    with page(ledger) as address, prometheus(server, address, tmp_path) as api:
        found = until(lambda: queried(api, "cdc_ops_last_run_failed == 1"))
        assert {one["metric"]["table"] for one in found} == failed
        target = got(f"{api}/targets")["activeTargets"][0]
        assert (target["health"], target["lastError"]) == ("up", "")
        kinds = got(f"{api}/metadata")
        assert {name: kinds[name][0]["type"] for name in ("cdc_ops_rows", "cdc_ops_lag_seconds", "cdc_ops_build")} == {
            "cdc_ops_rows": "counter",
            "cdc_ops_lag_seconds": "gauge",
            "cdc_ops_build": "info",
        }
        loaded = [rule for group in got(f"{api}/rules")["groups"] for rule in group["rules"]]
        assert len(loaded) == len(rules())
        alerts = until(lambda: [one for one in got(f"{api}/alerts")["alerts"] if one["labels"]["alertname"] == "CdcOpsRunFailed"])
        assert {one["labels"]["table"] for one in alerts} == failed
        assert {rule["health"] for rule in [rule for group in got(f"{api}/rules")["groups"] for rule in group["rules"]]} == {"ok"}
        answered = [queried(api, expression) for expression in expressions_of_dashboard()]
    assert sum(bool(one) for one in answered) > len(answered) / 2, "most panels show something after one scrape"


@contextmanager
def page(ledger: str) -> Iterator[str]:
    """`cdc-ops ui` in a process of its own; yields host and port."""
    environment = {**os.environ, "CDC_OPS_LEDGER": ledger}
    command = [sys.executable, "-m", "cdc_ops.cli", "ui", "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = re.search(r"http://([^/]+)/ui", process.stdout.readline())
            assert told is not None
            yield told[1]
        finally:
            process.terminate()


@contextmanager
def prometheus(server: str, target: str, folder: Path) -> Iterator[str]:
    """Prometheus with our rules, which scrapes each second; yields the address of its API."""
    scraped = {"job_name": "cdc-ops", "static_configs": [{"targets": [target]}]}
    config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(RULES)], "scrape_configs": [scraped]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0"]
    with (folder / "log").open("w") as log, subprocess.Popen([server, *options], stdout=log, stderr=log) as process:
        try:
            listening = until(lambda: re.search(r'"?Listening on"?.*?address=(127\.0\.0\.1:\d+)', (folder / "log").read_text()))
            yield f"http://{listening[1]}/api/v1"
        finally:
            process.terminate()


def got(address: str) -> Any:
    with urlopen(address, timeout=30) as answer:
        return json.load(answer)["data"]


def queried(api: str, expression: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = got(f"{api}/query?query={quote(expression)}")["result"]
    return found


def until(look: Any, patience: float = 60) -> Any:
    end = time.monotonic() + patience
    while not (found := look()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.2)
    return found
