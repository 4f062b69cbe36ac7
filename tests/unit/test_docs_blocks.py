"""The blocks of README and docs/ hold what somebody who types them needs: they load, they parse, and what they name exists."""

import argparse
import ast
import copy
import functools
import importlib
import inspect
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from cdc_ops.config.loading import load_pipeline
from cdc_ops.metrics.exposition import prometheus_text
from cdc_ops.metrics.families import read_families
from cdc_ops.state.sql import open_store
from tests.unit.test_docs import CODE, FENCE, PAGES, ROOT, command_line, name_of, text_of

HOW_TOS = [page for page in PAGES if "adr" not in page.parts and page.name != "CHANGELOG.md"]
BASE: dict[str, Any] = {
    "pipeline": "shop",
    "source": {"kind": "mysql", "connection": "shop_db"},
    "target": {"root": "/data/lake", "staging": "/data/staging"},
    "tables": {"shop.orders": {"cursor": "updated_at"}},
}
CHART = ("airflowVersion:", "scheduler:", "apiVersion:")
"""How values of Airflow's Helm chart begin; `test_kubernetes_page` holds them."""

ARCHIVE: dict[str, Any] = {
    "url": "s3://bucket/topics/shop.{schema}.{table}",
    "format": "debezium-mysql",
    "settings": {
        "skipped.operations": "none",
        "converter.replace.null.with.default": "false",
        "event.converting.failure.handling.mode": "fail",
        "enable.time.adjuster": "false",
    },
}


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """Yields the blocks of a page in one of the languages."""
    yield from (body for language, body in FENCE.findall(text_of(page)) if language in languages)


def shell_lines(page: Path) -> Iterator[str]:
    """Yields the commands of a page's blocks, without comments."""
    for body in blocks(page, "", "bash"):
        yield from (re.sub(r"\s#.*$", "", line).strip() for line in body.splitlines())


def fragments(page: Path) -> Iterator[dict[str, Any]]:
    """Yields the YAML examples that are parts of a pipeline file."""
    yield from (yaml.safe_load(body) for body in blocks(page, "yaml") if not body.startswith(("pipeline:", *CHART)))


def completed(fragment: dict[str, Any]) -> dict[str, Any]:
    """Returns a pipeline that has a fragment and, besides, no more than it needs to be one."""
    whole = {**copy.deepcopy(BASE), "defaults": {}} | fragment
    if whole.get("schedule") == "archive":
        whole["tables"] = {"shop.orders": {"method": "log"}}
    elif whole["defaults"].get("method") != "log":
        whole["defaults"].setdefault("cursor", "updated_at")
    if "archive" in fragment or any(one.get("method") == "log" for one in whole["tables"].values() if one):
        whole.setdefault("archive", ARCHIVE)
    return whole


def with_block(language: str) -> list[Path]:
    return [page for page in HOW_TOS if any(blocks(page, language))]


@pytest.mark.parametrize("page", [page for page in HOW_TOS if any(fragments(page))], ids=name_of)
def test_parts_of_pipelines_on_a_page_load_within_one(page: Path, tmp_path: Path) -> None:
    for number, fragment in enumerate(fragments(page)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(completed(fragment)), "utf-8")
        assert load_pipeline(file).tables


@pytest.mark.parametrize("page", with_block("json"), ids=name_of)
def test_json_on_a_page_is_json(page: Path) -> None:
    assert all(isinstance(json.loads(body), dict) for body in blocks(page, "json"))


def parsed(command: str) -> str:
    """Returns why the command line does not take a command as it stands, "" if it does; nothing is run."""
    words = shlex.split(command)[1:]
    at: click.Command = command_line()
    try:
        context = at.make_context("cdc-ops", words[:1], resilient_parsing=True)
        while hasattr(at, "commands"):
            at = at.commands[words.pop(0)]
            context = click.Context(at, parent=context)
        at.parse_args(context, words)
    except Exception as error:
        if not hasattr(error, "format_message"):  # what Typer's own copy of click raises has one
            raise
        return f"{command}: {error.format_message()}"
    return ""


def lines_of_commands(page: Path) -> list[str]:
    return [line for line in shell_lines(page) if line.startswith("cdc-ops ")]


@pytest.mark.parametrize("page", [page for page in HOW_TOS if lines_of_commands(page)], ids=name_of)
def test_commands_in_the_blocks_of_a_page_are_taken_as_they_stand(page: Path) -> None:
    assert [why for command in lines_of_commands(page) if (why := parsed(command))] == []


def test_a_command_that_would_be_refused_is_noticed() -> None:
    assert "Missing" in parsed("cdc-ops as-of shop.orders")
    assert "unexpected extra argument" in parsed("cdc-ops unlock shop.orders shop")
    assert "valid integer" in parsed("cdc-ops run shop --limit many")
    assert "is not one of" in parsed("cdc-ops resync --pipeline shop --mode all")
    assert parsed("cdc-ops run shop --limit 100") == ""


@pytest.mark.parametrize("page", HOW_TOS, ids=name_of)
def test_modules_and_targets_that_a_page_runs_exist(page: Path) -> None:
    text = text_of(page)
    for module in re.findall(r"python -m ((?:cdc_ops|benchmarks|tests)[\w.]*)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    targets = re.findall(r"^([a-z0-9-]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
    called = re.findall(r"`make ([a-z][a-z0-9-]*)", text) + re.findall(r"^make ([a-z][a-z0-9-]*)", text, re.MULTILINE)
    assert set(called) <= set(targets)


PROGRAMS = re.compile(r"python -m ((?:benchmarks|tests\.soak)[\w.]*)([^`\n#]*)")


@pytest.mark.parametrize("page", [page for page in HOW_TOS if PROGRAMS.search(text_of(page))], ids=name_of)
def test_programs_of_the_repository_take_the_options_that_a_page_gives_them(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is started and ended once it has read its options; without options there is nothing that it could refuse."""
    parse = argparse.ArgumentParser.parse_args

    def parsed_only(self: argparse.ArgumentParser) -> None:
        parse(self)
        raise EOFError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed_only)
    for module, options in PROGRAMS.findall(text_of(page)):
        if options.strip():
            monkeypatch.setattr("sys.argv", [module, *shlex.split(options)])
            with pytest.raises(EOFError):
                importlib.import_module(module).main()


def test_pages_run_modules_and_targets() -> None:
    texts = "\n".join(text_of(page) for page in HOW_TOS)
    assert "python -m cdc_ops.lake.spark.jars" in texts
    assert "\nmake demo" in texts


@functools.cache
def code() -> str:
    return "\n".join(text_of(file) for file in CODE if "tests" not in file.parts)


@pytest.mark.parametrize("page", [page for page in HOW_TOS if "CDC_OPS_" in text_of(page)], ids=name_of)
def test_variables_on_a_page_are_read_by_the_code(page: Path) -> None:
    for name in set(re.findall(r"\bCDC_OPS_[A-Z0-9_]*[A-Z0-9]\b", text_of(page))):
        known = "CDC_OPS_CONN_" if name.startswith("CDC_OPS_CONN") else name
        assert known in code(), f"{name}: nothing reads it"


@pytest.mark.parametrize("page", with_block("python"), ids=name_of)
def test_python_on_a_page_compiles_and_calls_what_there_is(page: Path) -> None:
    names: dict[str, Any] = {"cdc_ops": importlib.import_module("cdc_ops")}
    for body in blocks(page, "python"):
        tree = ast.parse(body)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                exec(compile(ast.Module([node], []), name_of(page), "exec"), names)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            check_call(call, names)


def check_call(call: ast.Call, names: dict[str, Any]) -> None:
    """Binds the arguments of a call to a function or class that the block imports."""
    root = ast.unparse(call.func).partition(".")[0].partition("(")[0]
    if root not in names:
        return
    function = eval(compile(ast.Expression(call.func), "page", "eval"), names)
    inspect.signature(function).bind(*call.args, **{word.arg: word.value for word in call.keywords if word.arg})


def test_a_call_that_python_would_refuse_is_noticed() -> None:
    call = ast.parse("cdc_ops.changes(spark, '/t', begin=41, end=44, fashion='full')", mode="eval").body
    assert isinstance(call, ast.Call)
    with pytest.raises(TypeError, match="fashion"):
        check_call(call, {"cdc_ops": importlib.import_module("cdc_ops")})


def test_the_page_of_metrics_names_every_figure_that_there_is_and_no_other(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as store:
        known = set(re.findall(r"^# TYPE (\w+)", prometheus_text(read_families(store, ())), re.MULTILINE))
    assert len(known) > 25
    assert set(re.findall(r"\bcdc_ops_[a-z_]+\b(?!\.)", (ROOT / "docs/monitor.md").read_text())) == known
