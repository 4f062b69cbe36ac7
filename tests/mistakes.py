"""A mistake at the terminal: what is typed, what the answer says, and what its `next:` line tells to do, which is then done."""

import io
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.cli.output import render
from cdc_ops.state.sql import open_store
from tests.declared_world import MAXWELL

WIDTHS: Final = (80, 120)
UNBROKEN: Final = re.compile(r"(?:cdc-ops|export|pip|python) .*|\S+")
"""What may be wider than the terminal: a command that somebody copies, or one long name."""

DECLARED: Final = f"""\
pipeline: shop
source: {{kind: none, dialect: mysql, tables: {{shop.orders: {{id: bigint primary key}}}}}}
target: {{root: "${{DESK}}/lake", staging: "${{DESK}}/staging"}}
archive: {{url: "${{DESK}}/archive", {MAXWELL}, min_file_age: 0s}}
defaults: {{method: log}}
lease_wait: 0s
tables:
  shop.orders:
"""


@dataclass
class Desk:
    """A folder with a pipeline file, a ledger and a terminal.

    Args:
        folder: The working directory of what is typed.
        patch: Undone after the test.
    """

    folder: Path
    patch: pytest.MonkeyPatch
    told: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.patch.chdir(self.folder)
        for name in [name for name in os.environ if name.startswith("CDC_OPS_CONN_")]:
            self.patch.delenv(name)
        self.patch.delenv("CDC_OPS_PIPELINES", raising=False)
        self.patch.setenv("DESK", str(self.folder))
        self.patch.setenv("CDC_OPS_LEDGER", f"sqlite:///{self.folder / 'ledger.db'}")
        (self.folder / "archive").mkdir()
        self.file.parent.mkdir(parents=True)
        self.file.write_text(DECLARED)

    @property
    def file(self) -> Path:
        """The pipeline file."""
        return self.folder / "dags/pipelines/shop.yaml"

    @property
    def url(self) -> str:
        """Of the ledger."""
        return os.environ["CDC_OPS_LEDGER"]

    def edit(self, old: str, new: str) -> None:
        """Replaces a part of the pipeline file."""
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new, 1))

    def set(self, name: str, value: str) -> None:
        """Sets a variable, as `export` does."""
        self.patch.setenv(name, value)

    def type(self, command: str, width: int = 120) -> tuple[int, str]:
        """Types a command of `cdc-ops`, and returns its exit code and what the terminal shows."""
        screen = io.StringIO()
        for name in ("out", "err"):
            console = Console(file=screen, force_terminal=True, width=width, color_system=None, legacy_windows=False)
            self.patch.setattr(render, name, console)
        self.patch.setenv("COLUMNS", str(width))
        self.patch.setattr("typer.rich_utils.MAX_WIDTH", width)
        self.patch.setattr("cdc_ops.cli.stopping.sys.argv", ["cdc-ops", *shlex.split(command)])
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        lines = re.sub(r"\r|\x1b\[[0-9]*[AK]", "\n", screen.getvalue() + result.output)  # what moves is drawn again and again
        self.told = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", lines)
        return result.exit_code, self.told

    def part(self, label: str) -> str:
        """The part of the last answer behind `why:`, `data:` or `next:`, as one line."""
        found = re.search(rf"^  {label}: +(.*(?:\n {{8}}.*)*)", self.told, re.MULTILINE)
        return " ".join(found[1].split()) if found else ""

    def command_of_next(self) -> str:
        """The first command that the last answer tells to type, without `cdc-ops` and without the remark behind it."""
        found = re.search(r"cdc-ops ((?:[^,;#'\s]+ ?)+)", self.part("next"))
        assert found, self.told
        return found[1].strip()


def types_next(desk: Desk) -> None:
    """Follows a `next:` line by typing its command, which succeeds."""
    code, text = desk.type(desk.command_of_next())
    assert code == 0, text


def exports_next(**values: str) -> Callable[[Desk], None]:
    """Follows a `next:` line by pasting its `export`, with the values of one's own in place of those of the example."""

    def follow(desk: Desk) -> None:
        [command] = re.findall(r"export .*", desk.part("next"))
        (word, assignment) = shlex.split(command, comments=True)  # a shell takes the line as it stands
        name, _, value = assignment.partition("=")
        assert (word, bool(value)) == ("export", True)
        desk.set(name, values.get(name) or value)

    return follow


def edits(old: str, new: str) -> Callable[[Desk], None]:
    """Changes the pipeline file: the mistake itself, or what a `next:` line says of it."""
    return lambda desk: desk.edit(old, new)


def nothing(desk: Desk) -> None:
    """Does nothing: the command itself is the mistake, or the answer's advice is another command."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One mistake.

    Args:
        typed: The command, without `cdc-ops`.
        says: Parts of the answer, blanks and line ends being one.
        next: A part of its `next:` line; "" where the answer is that of the parser of the command line, or of the file.
        make: Makes the mistake, if it is not the command.
        follow: Does what the `next:` line says.
        code: The exit code.
        data: A part of what the answer says of the data.
        then: What is typed at last. Default: the same command.
        end: How that ends, and a part of what it says.
    """

    typed: str
    says: tuple[str, ...]
    next: str
    make: Callable[[Desk], None] = nothing
    follow: Callable[[Desk], None] = nothing
    code: int = 2
    data: str = "Nothing was"
    then: str = ""
    end: tuple[int, str] = (0, "")

    def __str__(self) -> str:
        return f"{self.typed}: {self.says[0]}"

    def check(self, desk: Desk) -> None:
        """Makes the mistake at two widths of the terminal, reads the answer, follows it, and types the command again."""
        self.make(desk)
        for width in WIDTHS:
            code, text = desk.type(self.typed, width)
            assert code == self.code, text
            assert "Traceback" not in text
            flat = " ".join(text.replace("│", " ").split())
            assert [part for part in self.says if part not in flat] == [], text
            wide = [line for line in text.splitlines() if cell_len(line) > width and not _is_unbroken(line)]
            assert wide == [], text
            if self.next:
                assert self.next in desk.part("next"), text
                assert self.data in desk.part("data"), text
        self.follow(desk)
        code, text = desk.type(self.then or self.typed)
        assert code == self.end[0], text
        assert self.end[1] in " ".join(text.split()), text


def _is_unbroken(line: str) -> bool:
    return UNBROKEN.fullmatch(re.sub(r"^ *(?:next|why|data): +", "", line).strip()) is not None


def ids(mistakes: "tuple[Mistake, ...]") -> list[str]:
    """Names for the reports of tests."""
    return [re.sub(r"[^\w]+", "-", str(one))[:60].strip("-") for one in mistakes]


def ledger_of(desk: Desk) -> None:
    """Makes the ledger, as a first run does."""
    open_store(desk.url).close()
