"""What a dataclass says of its fields: the `Args:` section of its docstring, so that help texts have one source."""

import inspect
import re
from typing import Final

_ENTRY: Final = re.compile(r"^    (\w+(?:, \w+)*): (.*)$")
_MORE: Final = re.compile(r"^     +(\S.*)$")


def summary(cls: type) -> str:
    """Returns the first paragraph of a class's docstring as one line."""
    return " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())


def field_docs(cls: type) -> dict[str, str]:
    """Returns the description of each field, as one line; `a, b: text` describes both."""
    docs: dict[str, str] = {}
    names: list[str] = []
    section = (inspect.getdoc(cls) or "").partition("Args:\n")[2].partition("\n\n")[0]
    for line in section.splitlines():
        if entry := _ENTRY.match(line):
            names = entry[1].split(", ")
            docs.update(dict.fromkeys(names, entry[2].strip()))
        elif more := _MORE.match(line):
            docs.update({name: f"{docs[name]} {more[1].strip()}" for name in names})
    return docs
