"""A pipeline file as plain data that still knows its lines.

Scalars are read as YAML 1.2 does, so `on`, `yes`, `no`, dates and `12:30` are text; PyYAML's own YAML 1.1 would make booleans, dates and
numbers of them. Only `true`, `false`, whole numbers, decimals and null are anything else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from cdc_ops.config.reading.diagnostics import Mark, Problem, has_login
from cdc_ops.config.reading.interpolation import Interpolation, interpolate

Path = tuple[str | int, ...]
"""Where a value stands: field names, and indexes of lists."""

MAX_DEPTH: Final = 20
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_VALUES: Final = 100_000
"""Values after aliases are followed: a few lines of nested aliases can stand for billions."""

_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_PLAIN_TAGS: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))
_INTEGER: Final = re.compile(r"^[-+]?(0|[1-9][0-9]*)$")
_DECIMAL: Final = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?$")
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value and its key stand in the text.

    Args:
        key: The key, or the item itself in a list.
        value: The value.
        raw: The scalar as it is written, without quotes; "" for mappings and lists.
        quoted: True if the scalar is in quotes or a block, so that it was meant as text.
    """

    key: Mark
    value: Mark
    raw: str = ""
    quoted: bool = False


@dataclass(slots=True)
class Document:
    """A file after parsing.

    Args:
        lines: The text's lines.
        data: Plain data, None if the file is no mapping.
        places: Where each value stands.
        problems: What is wrong with it as YAML.
        unusable: Paths whose value could not be made out; further complaints about them would only be noise.
        used: Environment variables that were looked at, with the value found (None = not set).
    """

    lines: list[str]
    data: dict[str, Any] | None = None
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unusable: set[Path] = field(default_factory=set)
    used: dict[str, str | None] = field(default_factory=dict)


def parse_document(raw: bytes, environ: Mapping[str, str]) -> Document:
    """Parses a file's bytes; whatever is wrong is in the document's problems, nothing is raised."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", errors="replace")
        mark = Mark(line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))
        return Document(lines=[], problems=[Problem(mark=mark, message="The file is not UTF-8 text.", valid="Save it as UTF-8.")])
    document = Document(lines=text.splitlines())
    document.problems += _logins(document.lines)
    if len(raw) > MAX_BYTES:
        document.problems.append(Problem(mark=Mark(line=1, column=1), message=f"The file is larger than {MAX_BYTES} bytes."))
        return document
    root = _compose(text, document)
    if isinstance(root, yaml.MappingNode):
        reader = _Reader(document, environ)
        data = reader.mapping(root, ())
        document.data = None if reader.exhausted else data
    elif not document.problems:
        what = "The file is empty." if root is None else "The file is not a mapping of fields to values."
        document.problems.append(
            Problem(
                mark=Mark(line=1, column=1), message=what, valid="A pipeline begins with 'pipeline: <name>', then source, target, tables."
            )
        )
    return document


def _logins(lines: list[str]) -> list[Problem]:
    message = "This URL has a password. Pipeline files name connections by their id."
    valid = "Give the connection's id; its URL comes from Airflow, or from the variable CDC_OPS_CONN_<ID>."
    found = (number for number, line in enumerate(lines, start=1) if has_login(line))
    return [
        Problem(mark=Mark(line=number, column=lines[number - 1].find("://") + 1 or 1), message=message, valid=valid) for number in found
    ]


def _compose(text: str, document: Document) -> yaml.Node | None:
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):  # before compose, which recurses in C and would take the process with it
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                document.problems.append(Problem(mark=_mark(event), message=f"Nested more than {MAX_DEPTH} levels deep."))
                return None
        node: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
        return node
    except yaml.MarkedYAMLError as error:
        document.problems.append(_syntax_problem(error, document.lines))
    except yaml.reader.ReaderError as error:
        before = text[: int(error.position)]
        mark = Mark(line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))
        document.problems.append(Problem(mark=mark, message="A control character, which YAML does not allow."))
    return None


def _syntax_problem(error: yaml.MarkedYAMLError, lines: list[str]) -> Problem:
    where = error.problem_mark or error.context_mark
    if error.problem == "could not find expected ':'":  # which is noticed a line later
        where = error.context_mark or where
    mark = Mark(line=where.line + 1, column=where.column + 1) if where else Mark(line=1, column=1)
    line = lines[mark.line - 1] if mark.line <= len(lines) else ""
    begin, problem = line[mark.column - 1 :], error.problem or ""
    match problem:
        case _ if begin.startswith("\t") or re.match(r" *\t", line):
            message, valid = "A tab. YAML is indented with spaces.", "Replace the tab by spaces."
        case _ if "alias" in problem or "alias" in (error.context or ""):
            message, valid = "Text that begins with * has to be in quotes.", f"Write {_quoted_line(line)}"
        case "mapping values are not allowed in this context":
            message, valid = "A second ': ' on one line, or a line that is indented wrongly.", "Put text that contains ': ' in quotes."
        case "found character that cannot start any token":
            message, valid = f"Text that starts with {begin[:1]!r} has to be in quotes.", f'Write "{begin.strip()[:40]}"'
        case "could not find expected ':'":
            message, valid = "A field without a value: a ':' is missing.", "Write 'field: value', with a space after the colon."
        case "but found another document":
            message, valid = "A second document starts here.", "Write one pipeline per file."
        case _ if "${" in line and "{" in line.replace("${", ""):
            message, valid = f"Not valid YAML: {problem}.", "Put ${...} in quotes when it stands inside { }."
        case _:
            context = f" {error.context}" if error.context else ""
            message, valid = f"Not valid YAML:{context}: {problem}.".replace(": :", ":"), ""
    return Problem(mark=mark, message=message, valid=valid)


def _quoted_line(line: str) -> str:
    """Returns a line of YAML with what begins with * in quotes: a name in front of its colon, or the text behind it.

    >>> _quoted_line("schedule: */5 * * * *   # often"), _quoted_line("  *.orders: {cursor: id}")
    ('schedule: "*/5 * * * *"', '"*.orders": {cursor: id}')
    """
    text = re.sub(r"\s+#.*", "", line).strip()
    if text.startswith("*"):
        return re.sub(r"^(\*[^:]*)", r'"\1"', text)
    return re.sub(r"([:\[{,-]\s*)(\*[^,\]}]*)", lambda found: f'{found[1]}"{found[2].rstrip()}"', text, count=1)


def _mark(node: Any) -> Mark:
    start, end = node.start_mark, node.end_mark
    width = end.column - start.column if end.line == start.line else 1
    return Mark(line=start.line + 1, column=start.column + 1, width=max(width, 1))


class _Reader:
    """Turns nodes into data, noting the place of each and what is wrong with it."""

    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self._document = document
        self._environ = environ
        self._open: set[int] = set()
        self._left = MAX_VALUES

    @property
    def exhausted(self) -> bool:
        """True if the file stands for so many values that some were left out."""
        return self._left < 0

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        """Returns the fields of a mapping; one that stands twice is a problem, and the first one counts."""
        data: dict[str, Any] = {}
        for key, value in node.value:
            name = self._key(key)
            if name is None:
                continue
            here = (*path, name)
            if name in data:
                first = self._document.places[here].key.line
                self._complain(key, f"{name!r} appears twice; the first one is in line {first}.", "Keep one of them.")
                continue
            self._document.places[here] = self._place(_mark(key), value)
            data[name] = self._value(value, here)
        return data

    def _key(self, node: yaml.Node) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._complain(node, "A field's name has to be plain text.")
            return None
        name = str(node.value)
        if name == "<<":
            self._complain(
                node, "Merge keys (<<) are not supported.", "Put common settings of tables into 'defaults', or into a pattern's entry."
            )
            return None
        return name

    def _place(self, key: Mark, node: yaml.Node) -> Place:
        if not isinstance(node, yaml.ScalarNode):
            return Place(key=key, value=_mark(node))
        # A value that is left out has no width of its own: its key is what can be shown.
        return Place(key=key, value=_mark(node) if node.value or node.style else key, raw=str(node.value), quoted=bool(node.style))

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self._left -= 1
        if self._left < 0:
            if self._left == -1:
                self._complain(node, f"More than {MAX_VALUES} values, with aliases followed.", "Use fewer aliases.")
            return None
        if node.tag not in _PLAIN_TAGS:
            self._complain(node, f"Tags such as {node.tag!r} are not supported.", "Remove it.")
            self._document.unusable.add(path)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            self._complain(node, "This value contains itself.", "Remove the alias.")
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.discard(id(node))

    def _item(self, node: yaml.Node, path: Path) -> Any:
        self._document.places[path] = self._place(_mark(node), node)
        return self._value(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text = str(node.value)
        if not node.style:
            if text in _WORDS:
                return _WORDS[text]
            if _INTEGER.match(text):
                return int(text) if len(text) <= 30 else text
            if _DECIMAL.match(text):
                return float(text)
        if "$" not in text:
            return text
        result: Interpolation = interpolate(text, self._environ)
        self._document.used.update(result.used)
        for problem in result.problems:
            self._complain(node, problem)
            self._document.unusable.add(path)
        return result.text

    def _complain(self, node: yaml.Node, message: str, valid: str = "") -> None:
        self._document.problems.append(Problem(mark=_mark(node), message=message, valid=valid))
