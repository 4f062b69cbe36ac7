"""Problems of a pipeline file: where each is, what it is, and all of them as one ConfigError that shows the lines and hides secrets."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cdc_ops.errors import ConfigError

SHOWN_IN_FULL: Final = 12
"""Problems that are shown with their source line; further ones get one line each, so that an error stays readable."""

_WORDS: Final = r"pass(?:word|wd|phrase)|pwd|secret|token|credential|(?:api|access|private|account)[._-]?key"
_SECRET_NAME: Final = re.compile(rf"(?i){_WORDS}|(?:^|[^a-z])(?:key|pass|auth)(?:$|[^a-z])")
_SECRET_CONF: Final = re.compile(
    r"(?i)secret|password|passphrase|token$|(access|account|api|private)\W?key|(encryption|sas)\W?key(?![a-z])"
)
_ASSIGNED: Final = re.compile(rf"(?i)([\w.-]*(?:{_WORDS})[\w.-]*[\"']?\s*[:=]\s*)(\"[^\"]*\"?|'[^']*'?|[^\s,}}&;\"']+)")
_URL_LOGIN: Final = re.compile(r"(://[^\s/@:]*:)(?!\d+(?:[/?#\s\"']|$))([^\s\"']+)@")
_WEB_PATH: Final = re.compile(r"(?i)(https?://[^/?#\s\"']*[/?#])([^\s\"']+)")
"""The path of a webhook's URL is the secret, and a webhook can stand at any place, under any name."""
_LOGIN_OPTION: Final = re.compile(r"(?i)([?&;](?:password|passwd|pwd)=)([^\s&;\"']+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place in a text: line and column from 1, and how many characters on that line belong to it."""

    line: int
    column: int
    width: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong.

    Args:
        mark: Where.
        message: What is wrong, in one sentence or two, with the nearest valid name.
        valid: What would be right there ("" if the message says it).
    """

    mark: Mark
    message: str
    valid: str = ""


def sentence(text: str) -> str:
    """Returns the text with a full stop at its end, unless it ends as a sentence already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def is_secret_name(name: str) -> bool:
    """True for names of environment variables and fields that say they hold a secret."""
    return bool(_SECRET_NAME.search(name))


def is_secret_conf(name: str) -> bool:
    """True for Spark settings that hold a secret: what Spark itself hides, and the object stores' keys."""
    return bool(_SECRET_CONF.search(name))


def has_login(text: str) -> bool:
    """True if a text contains a URL with a password in it."""
    return bool(_URL_LOGIN.search(text) or _LOGIN_OPTION.search(text))


def has_web_path(text: str) -> bool:
    """True for a URL of the web that names more than a server."""
    return bool(_WEB_PATH.fullmatch(text.strip()))


def redacted(text: str) -> str:
    """Returns the text without passwords and web paths of URLs, and without values that stand beside a secret's name."""
    for pattern in (_URL_LOGIN, _WEB_PATH, _LOGIN_OPTION, _ASSIGNED):
        text = pattern.sub(lambda found: f"{found[1]}***" + ("@" if found.re is _URL_LOGIN else ""), text)
    return text


def config_error(path: str, lines: Sequence[str], problems: Sequence[Problem]) -> ConfigError:
    """Returns all problems of one file as one error, in the order of the file.

    Args:
        path: The file, as the user named it.
        lines: Its lines.
        problems: At least one.
    """
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: (problem.mark.line, problem.mark.column))
    blocks = [_block(path, lines, problem) for problem in ordered[:SHOWN_IN_FULL]]
    rest = [_headline(path, problem) for problem in ordered[SHOWN_IN_FULL:]]
    return ConfigError(
        "\n".join(blocks + rest),
        why=f"{len(ordered)} problems in this file." if len(ordered) > 1 else "",
        data="Nothing was read or written; the watermark stays.",
        next="Correct the file, then: cdc-ops validate",
    )


def unreadable(path: str, message: str, remedy: str) -> ConfigError:
    """Returns the error for a file or folder that cannot be read at all."""
    return ConfigError(f"{path}:1:1: {message}", data="Nothing was read or written; the watermark stays.", next=remedy)


def _headline(path: str, problem: Problem) -> str:
    return f"{path}:{problem.mark.line}:{problem.mark.column}: {redacted(problem.message)}"


def _block(path: str, lines: Sequence[str], problem: Problem) -> str:
    parts = [_headline(path, problem)]
    number = problem.mark.line
    if 0 < number <= len(lines) and lines[number - 1].strip():
        raw = lines[number - 1].replace("\t", "→").rstrip()
        line = redacted(raw)[:160]
        parts.append(f"  {number:>4} | {line}")
        end = min(problem.mark.column - 1 + problem.mark.width, len(line))
        # The caret would point beside the place if something before it had been masked.
        if line[:end] == raw[:end] and problem.mark.column <= end:
            parts.append(f"       | {' ' * (problem.mark.column - 1)}{'^' * (end - problem.mark.column + 1)}")
    if problem.valid:
        parts.append(f"         {problem.valid}")
    return "\n".join(parts)
