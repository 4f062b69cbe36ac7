"""The commands of a shell script and their words, before anything looks at what they mean. Nothing is expanded."""

import re
from collections.abc import Iterator
from typing import Final

from cdc_ops.errors import RequestError

_TOKEN: Final = re.compile(
    r"""
      (?P<joined>\\\n)
    | (?P<blank>[^\S\n]+)
    | (?P<comment>\#[^\n]*)
    | (?P<redirection>&>>?|\d*(?:<<<|<<-?|<&|<>|<|>>|>&|>\||>)(?!\())
    | (?P<end>[\n;&|()<>`]+)
    | (?P<single>'[^']*')
    | (?P<double>"(?:\\.|[^"\\])*")
    | (?P<escaped>\\.)
    | (?P<plain>[^\s'"\\;&|()<>`]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_PARTS: Final = frozenset(("single", "double", "escaped", "plain"))
"""Kinds of tokens that words are made of."""


def commands(text: str) -> Iterator[tuple[int, list[str]]]:
    r"""Yields the simple commands of a script: the line on which each begins, from 1, and its words.

    Redirections and comments are left out. A `$` that the shell would not expand comes as `\$`.

    Raises:
        RequestError: a quote is not closed.

    >>> list(commands("set -e  # stop\nsqoop help 2>&1 && echo 'a $b'"))
    [(1, ['set', '-e']), (2, ['sqoop', 'help']), (2, ['echo', 'a \\$b'])]
    """
    text = text.replace("\r\n", "\n") + "\n"
    words, word, begin, at = list[str](), "", 0, 0
    opened = False  # whether a word has begun, be it an empty one
    aside = False  # whether the word that comes is the target of a redirection
    while at < len(text):
        kind, part = _token(text, at, opened)
        if kind in _PARTS:
            begin = begin or text.count("\n", 0, at) + 1
            word, opened = word + _unquoted(kind, part), True
        elif kind != "joined":
            if opened and not aside:
                words.append(word)
            aside = kind == "redirection" or (aside and not opened and kind == "blank")
            word, opened = "", False
        if kind == "end":
            if words:
                yield begin, words
            words, begin = [], 0
        at += len(part)


def _token(text: str, at: int, opened: bool) -> tuple[str, str]:
    found = _TOKEN.match(text, at)
    if found is None:
        raise _unclosed(text.count("\n", 0, at) + 1)
    if found["comment"] and opened:  # `a"b"#c` is one word
        return "plain", "#"
    return str(found.lastgroup), found[0]


def _unquoted(kind: str, part: str) -> str:
    if kind == "single":
        return re.sub(r"\\?\$", r"\\$", part[1:-1])
    if kind == "double":
        return re.sub(r'\\(?:\n|([\\"`]))', lambda found: found[1] or "", part[1:-1])
    return part if kind == "plain" or part == "\\$" else part[1:]


def _unclosed(line: int) -> RequestError:
    return RequestError(
        f"The script cannot be read from line {line} on.",
        why="A quote is not closed.",
        data="Nothing was written.",
        next="Close it, or give the imports alone.",
    )
