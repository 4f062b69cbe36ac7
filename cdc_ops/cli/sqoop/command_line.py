"""Reads `sqoop import ...` as it stands in a shell script, a terminal or an options file; secrets are forgotten while it is read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cdc_ops.cli.sqoop.notes import Note, Weight
from cdc_ops.cli.sqoop.options import KNOWN, SHORT, SWITCHES, kept, written
from cdc_ops.cli.sqoop.shell_words import commands
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError

TOOLS: Final = ("import", "import-all-tables")
_OTHER_TOOLS: Final = frozenset(
    (
        *("codegen", "create-hive-table", "eval", "export", "help", "import-mainframe", "job", "list-databases", "list-tables"),
        *("merge", "metastore", "version"),
    )
)
_SQOOP: Final = re.compile(r"sqoop|\$\{?\w*(?:sqoop|SQOOP)\w*\}?")
"""The word that calls Sqoop, without its folder; it may be a variable of the shell."""
_MENTIONED: Final = re.compile(
    r"sqoop(?:-(?:import|job)\S*\s+-|\S*\s+(?:-D\s*\S+\s+)*(?:import|job)\b)|^\S*sqoop\s+\$", re.IGNORECASE | re.MULTILINE
)
"""What looks like a call of Sqoop in words that are none: in quotes, through a wrapper, with its arguments in a variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqoopImport:
    """What one import says.

    Args:
        tool: `import` or `import-all-tables`.
        options: Names without hyphens, in order, with their values; "" for switches and for secrets. The JDBC URL may hold a password,
            so they are hidden.
        extra: Words behind `--`, which Sqoop hands to its connector.
        unknown: Options that Sqoop's import does not have.
        origin: Where it stands, for messages.
    """

    tool: str
    options: tuple[tuple[str, str], ...] = field(repr=False)
    extra: tuple[str, ...] = field(default=(), repr=False)
    unknown: tuple[str, ...] = ()
    origin: str

    def __getitem__(self, name: str) -> str:
        """The value of an option, "" if it is not there; of one that stands twice, the last."""
        return next((value for key, value in reversed(self.options) if key == name), "")

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self.options)

    @property
    def names(self) -> tuple[str, ...]:
        """The options that are there, each once, in order."""
        return tuple(dict.fromkeys(name for name, _ in self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a script or a file of saved jobs holds.

    Args:
        imports: The imports, in order.
        notes: What else calls Sqoop there, and is passed over.
    """

    imports: tuple[SqoopImport, ...]
    notes: tuple[Note, ...] = ()


def read_script(text: str, folder: Path) -> Found:
    """Reads the imports in a text: a command line, or a script with several.

    Args:
        text: Commands of a shell; what does not call Sqoop is passed over.
        folder: Where the options files lie that have a relative path.

    Raises:
        RequestError: a command cannot be read.
    """
    imports, notes = list[SqoopImport](), list[Note]()
    for line, words in commands(text):
        origin = f"line {line}"
        called = next(filter(None, (_called(words, at) for at in range(len(words)))), [])
        parts = _tool_and_options(called, folder)
        if parts and parts[0] in _OTHER_TOOLS and "--exec" not in parts:
            notes.append(other_tool(parts[0], origin))
        elif parts:
            imports.append(_read(parts, origin))
        if any(map(_MENTIONED.search, (word for word in words if " " in word) if called else [" ".join(words)])):
            notes.append(Note(weight=Weight.LOSES, about=origin, text=_HIDDEN))
    return Found(imports=tuple(imports), notes=tuple(notes))


_HIDDEN: Final = (
    "it seems to call Sqoop in quotes, by a wrapper or with a variable, which is not read. If it imports a table, write that import as a"
    " command of its own."
)


def other_tool(tool: str, origin: str) -> Note:
    """Returns the remark for a tool of Sqoop that imports nothing."""
    return Note(weight=Weight.DIFFERS, about=origin, text=f"'sqoop {tool}' is no import; nothing was done about it.")


def read_words(words: Sequence[str], folder: Path, origin: str) -> SqoopImport:
    """Reads the words of one command, from `import` on (`sqoop` before it may stand there).

    Raises:
        RequestError: it is no import, an option lacks its value, or an options file cannot be read.
    """
    words = _called(words, 0) or list(words[1:] if words[0] == "sqoop" else words)
    return _read(_tool_and_options(words, folder), origin)


def _called(words: Sequence[str], at: int) -> list[str]:
    """Returns the words behind one that calls Sqoop, with the tool first that `sqoop-import` names; [] if it does not call Sqoop."""
    name = words[at].rpartition("/")[2]
    rest = list(words[at + 1 :])
    first = rest[0] if rest else ""
    if _SQOOP.fullmatch(name) and (first in TOOLS or first in _OTHER_TOOLS or first.startswith("-D") or first == "--options-file"):
        return rest
    tool = name.removeprefix("sqoop-")  # a path such as /raw/sqoop-import is no call: no option follows
    return [tool, *rest] if tool != name and (tool in TOOLS or tool in _OTHER_TOOLS) and first.startswith("-") else []


def _tool_and_options(words: Sequence[str], folder: Path) -> list[str]:
    """Returns the words from the tool on, with those of options files; of a job that is created, those of its import."""
    words = _without_properties(_expanded(list(words), folder))
    if words[:1] == ["job"] and "--" in words:  # sqoop job --create daily -- import ...
        words = _without_properties(words[words.index("--") + 1 :])
    return words


def _without_properties(words: list[str]) -> list[str]:
    """Returns the words without the generic arguments that may stand before the tool."""
    while words and words[0].startswith("-D"):
        words = words[2 if words[0] == "-D" else 1 :]
    return words


def _read(words: list[str], origin: str) -> SqoopImport:
    if words[:1] == ["job"]:
        raise _unreadable(origin, "It calls a saved job. 'sqoop job --show NAME' prints what is in it; give that by --file.")
    if not words or words[0] not in TOOLS:
        hint = f" {did_you_mean(words[0], TOOLS)}" if words else ""
        raise _unreadable(origin, f"It does not begin with {' or '.join(TOOLS)}.{hint}")
    return _read_options(words[0], words[1:], origin)


def _read_options(tool: str, words: list[str], origin: str) -> SqoopImport:
    options: list[tuple[str, str]] = []
    unknown: list[str] = []
    at = 0
    while at < len(words) and words[at] != "--":
        name, given, value = _split(words[at])
        at += 1
        if not name:
            raise _unreadable(origin, "A value stands where an option is expected; quotes around a value with blanks may be missing.")
        if name not in KNOWN:
            unknown.append(written(name))
            if not given and at < len(words) and not words[at].startswith("-"):
                at += 1  # its value, which may be a secret
            continue
        if name not in SWITCHES and name != "P" and not given:
            if at >= len(words):
                raise _unreadable(origin, f"{written(name)} has no value.")
            value, at = words[at], at + 1
        options.append((name, value))
    extra = words[at + 1 :]
    _refuse_variables(options, extra, origin)
    return SqoopImport(
        tool=tool,
        options=tuple((name, kept(name, value.replace("\\$", "$"))) for name, value in options),
        extra=tuple(word.replace("\\$", "$") for word in extra),
        unknown=tuple(dict.fromkeys(unknown)),
        origin=origin,
    )


_VARIABLE: Final = re.compile(r"(?<!\\)\$[\w{(@*]")


def _refuse_variables(options: Sequence[tuple[str, str]], extra: Sequence[str], origin: str) -> None:
    """Raises an error if the shell would put something else in the place of a name."""
    for name, value in options:
        named = re.sub(r"//[^/]*@|\?(?!.*currentSchema=).*", "", value, flags=re.DOTALL) if name == "connect" else value
        if name in ("connect", "table", "check-column") and _VARIABLE.search(named):
            raise _variable(written(name), origin)
    if any(map(_VARIABLE.search, extra)):
        raise _variable("A word behind --", origin)


def _variable(where: str, origin: str) -> RequestError:
    return RequestError(
        f"The Sqoop command ({origin}) cannot be read.",
        why=f"{where} has a variable of the shell, whose value is not known here.",
        data="Nothing was written.",
        next="Write its value there, one command for each. A $ that belongs to the name is written \\$.",
    )


def _split(word: str) -> tuple[str, bool, str]:
    """Returns an option's name ("" if the word is none), whether its value is in the same word, and that value."""
    if not word.startswith("-") or word == "-":
        return "", False, ""
    bare = word.lstrip("-")
    name, given, value = bare.partition("=")
    if name in KNOWN or name in SHORT:
        return SHORT.get(name, name), bool(given), value
    if not word.startswith("--") and bare[0] in SHORT and (bare[1:].isdigit() or bare[0] == "D"):  # -m8, -Dname=value
        return SHORT[bare[0]], True, bare[1:]
    return name if word.startswith("--") else bare[0], bool(given), value  # -phunter2 may be a password


def _expanded(words: list[str], folder: Path) -> list[str]:
    """Puts the words of options files in their place, each line of which is one word."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word != "--options-file":
            found.append(word)
            continue
        name = next(rest, "")
        try:
            lines = (folder / name).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(
                f"The options file {name!r} cannot be read.",
                why=getattr(error, "strerror", None) or "It is not UTF-8.",
                data="Nothing was written.",
                next="Correct its path; a relative one begins at the working directory.",
            ) from None
        found += _options_of(lines)
    return found


def _options_of(lines: list[str]) -> Iterator[str]:
    """Yields the words of an options file: comments begin with `#`, a back-slash joins lines, quotes around a line are dropped."""
    pending = ""
    for line in (line.strip() for line in lines):
        if not line or line.startswith("#"):
            continue
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        quoted = len(pending) > 1 and pending[0] == pending[-1] and pending[0] in "\"'"
        yield pending[1:-1] if quoted else pending
        pending = ""
    if pending:
        yield pending


def _unreadable(origin: str, why: str) -> RequestError:
    return RequestError(
        f"The Sqoop command ({origin}) cannot be read.",
        why=why,
        data="Nothing was written.",
        next="Give it as Sqoop gets it: cdc-ops import-sqoop -- import --connect jdbc:mysql://host/shop --table orders ...",
    )
