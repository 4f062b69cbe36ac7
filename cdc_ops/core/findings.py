"""Findings of `cdc-ops check`: one for each check. Pure."""

import enum
from dataclasses import dataclass

from cdc_ops.errors import CdcError


class Verdict(enum.StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    """Runs work, but slower, later, or with less information."""
    FAILED = "failed"
    """Runs will fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check, with its subject and remedy.

    Args:
        what: The thing, e.g. `ledger` or `shop.orders`.
        verdict: How it stands.
        seen: What was found.
        next: What to do; "" if nothing.
        pipeline: Which pipeline it is about, "" for what all of them share.
        error: Name of the error that a run would end with; "" unless it failed.
        code: The exit code that it stands for.
    """

    what: str
    verdict: Verdict
    seen: str
    next: str = ""
    pipeline: str = ""
    error: str = ""
    code: int = 0


def ok(what: str, seen: str) -> Finding:
    """Returns the finding of a check that passed."""
    return Finding(what=what, verdict=Verdict.OK, seen=seen)


def warning(what: str, seen: str, next: str = "") -> Finding:
    """Returns the finding of a check that found something to improve."""
    return Finding(what=what, verdict=Verdict.WARNING, seen=seen, next=next)


def failed(what: str, error: CdcError) -> Finding:
    """Returns the finding of a check that failed."""
    seen = ": ".join(" ".join(part.split()).rstrip(".") for part in (error.what, error.why) if part)
    return Finding(what=what, verdict=Verdict.FAILED, seen=seen, next=" ".join(error.next.split()), error=type(error).__name__)
