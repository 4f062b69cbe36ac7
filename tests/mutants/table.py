"""The mechanisms that keep the promises of docs/guarantees.md, and how each one is broken on purpose: promise-<n>.toml beside this file."""

import ast
import functools
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PROMISES_PAGE: Final = ROOT / "docs" / "guarantees.md"
PAGE: Final = Path(__file__).with_name("README.md")
BEGIN: Final = "<!-- Generated: python -m tests.mutants --write-docs -->"
END: Final = "<!-- End of what is generated. -->"


class Needs(StrEnum):
    """What the tests of a mechanism need, cheapest first."""

    NOTHING = "unit"
    SERVERS = "servers"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """One thing that makes a promise true.

    Args:
        name: For `--only`.
        promise: The number of the promise in docs/guarantees.md.
        mechanism: What it does.
        broken: What becomes of it.
        file: Where it is, from the root.
        old, new: The edit that breaks it; `old` stands in the file exactly once.
        tests: Node ids, of which one has to fail.
    """

    name: str
    promise: int
    mechanism: str
    broken: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def needs(self) -> Needs:
        """What its tests need."""
        return max((needs_of(test) for test in self.tests), key=list(Needs).index)

    def broken_text(self, root: Path = ROOT) -> str:
        """Returns the text of the file with the edit.

        Raises:
            ValueError: the old text is not there exactly once, or the edit is none.
            SyntaxError: a module of Python would be none any more.
        """
        text = (root / self.file).read_text("utf-8")
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: its old text stands {text.count(self.old)} times in {self.file}; correct the entry in"
                f" tests/mutants/promise-{self.promise}.toml so that it breaks the mechanism as the file is now: {self.old!r}"
            )
        if self.old == self.new:
            raise ValueError(f"{self.name}: the edit changes nothing")
        broken = text.replace(self.old, self.new)
        if self.file.endswith(".py"):
            compile(broken, self.file, "exec")
        return broken


@functools.cache
def needs_of(test: str) -> Needs:
    """Returns what a test needs, by its folder and by the fixtures that it asks for."""
    path, _, name = test.partition("[")[0].partition("::")
    if path.startswith(("tests/unit/", "tests/events/")):
        return Needs.NOTHING
    if path.startswith(("tests/spark/", "tests/airflow/")):
        return Needs.SPARK
    wanted, seen = [name.rpartition("::")[2]], set[str]()
    functions = {node.name: node for node in ast.walk(_parsed(ROOT / path)) if isinstance(node, ast.FunctionDef)}
    while wanted:
        one = wanted.pop()
        if one == "spark":
            return Needs.SPARK
        if one not in seen and one in functions:
            wanted += [argument.arg for argument in functions[one].args.args]
        seen.add(one)
    return Needs.SERVERS


@functools.cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


@functools.cache
def mechanisms() -> tuple[Mechanism, ...]:
    """Returns the whole table, in the order of the promises."""
    found: list[Mechanism] = []
    for file in sorted(Path(__file__).parent.glob("promise-*.toml")):
        promise = int(file.stem.partition("-")[2])
        for one in tomllib.loads(file.read_text("utf-8"))["mechanism"]:
            found.append(Mechanism(**{**one, "tests": tuple(one["tests"]), "promise": promise}))
    return tuple(found)


def functions_of(file: Path) -> frozenset[str]:
    """Returns the test functions of a file, those of classes with the class's name ahead: `TestX::test_y`."""
    names: set[str] = set()
    for node in _parsed(file).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
            names |= {f"{node.name}::{name}" for base in node.bases for name in _inherited(file, base)}
    return frozenset(names)


def _inherited(file: Path, base: ast.expr) -> Iterable[str]:
    """Returns the tests of a class that a file imports: suites that run on several servers."""
    wanted = ast.unparse(base).rpartition(".")[2]
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.ImportFrom) and node.module and wanted in {alias.asname or alias.name for alias in node.names}:
            home = ROOT / (node.module.replace(".", "/") + ".py")
            if home.exists():
                yield from (name.partition("::")[2] for name in functions_of(home) if name.startswith(f"{wanted}::"))


def markdown(table: Iterable[Mechanism]) -> str:
    """Returns the part of README.md beside this file that is made from the table."""
    rows = list(table)
    titles = {line[3:].partition(".")[0]: line[3:] for line in PROMISES_PAGE.read_text("utf-8").splitlines() if line.startswith("## ")}
    lines = [BEGIN, ""]
    for promise in sorted({row.promise for row in rows}):
        lines += [f"## {titles[str(promise)]}", "", "| mechanism | broken how | test that notices |", "|---|---|---|"]
        for row in rows:
            if row.promise == promise:
                tests = ", ".join(f"`{test.partition('[')[0]}`" for test in row.tests)
                lines.append(f"| {row.mechanism} | {row.broken} | {tests} |")
        lines.append("")
    return "\n".join([*lines, END])


def with_table(page: str, table: Iterable[Mechanism]) -> str:
    """Returns a page with its generated part replaced."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + markdown(table) + tail
