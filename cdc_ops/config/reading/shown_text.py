"""A pipeline file as it is shown to people and kept in the ledger: as it is written, without comments and without what could be a secret.

Files that load have no secrets as values. A comment may have anything in it, such as the login that somebody has replaced.
"""

import re
from typing import Any, Final

import yaml

from cdc_ops.config.reading.diagnostics import redacted

_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_COMMENT: Final = re.compile(r"#[^\n]*")
_BLOCK: Final = re.compile(r"[|>][-+0-9]*[ \t]*(#[^\n]*)")
"""The head of a text of several lines, which has a comment in its token."""


def shown_text(raw: bytes) -> str:
    r"""Returns the text of a file that loads; lines end with a line feed each.

    >>> shown_text(b"# old: secret\npipeline: shop  # mine\nname: 'a # b'\n")
    "pipeline: shop\nname: 'a # b'\n"
    """
    text = "".join(f"{line.rstrip()}\n" for line in re.split(r"\r\n|\n|\r", raw.decode("utf-8-sig").rstrip()))
    kept, end = [], 0
    for start, stop in _comments(text):
        line = text.rfind("\n", 0, start) + 1
        alone = not text[line:start].strip()
        kept.append(text[end:line] if alone else text[end:start].rstrip(" \t"))
        end = stop + 1 if alone else stop
    return redacted("".join((*kept, text[end:])).lstrip("\n"))


def _comments(text: str) -> list[tuple[int, int]]:
    """Returns where the comments of a text begin and end: they stand between its tokens, and in the heads of blocks."""
    found, end = [], 0
    for token in yaml.scan(text, Loader=_LOADER):
        start, stop = token.start_mark.index, token.end_mark.index
        found += [match.span() for match in _COMMENT.finditer(text, end, max(start, end))]
        if head := _BLOCK.match(text, start, stop):
            found.append(head.span(1))
        end = max(end, stop)
    return found + [match.span() for match in _COMMENT.finditer(text, end)]
