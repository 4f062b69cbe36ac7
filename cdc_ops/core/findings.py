"""What `cdc-ops check` finds: one finding for each thing that was tried. Pure."""

import enum
from dataclasses import dataclass

from cdc_ops.errors import CdcError


class Verdict(enum.StrEnum):
    """How a thing stands."""

    OK = "ok"
    WARNING = "warning"
    """Runs work, but slower, later or with less than they could."""
    FAILED = "failed"
    """Runs will fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was tried.

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
    """Returns the finding on what is as it should be."""
    return Finding(what=what, verdict=Verdict.OK, seen=seen)


def warning(what: str, seen: str, next: str = "") -> Finding:
    """Returns the finding on what could be better."""
    return Finding(what=what, verdict=Verdict.WARNING, seen=seen, next=next)


def failed(what: str, error: CdcError) -> Finding:
    """Returns the finding on what ended in an error."""
    seen = ": ".join(" ".join(part.split()).rstrip(".") for part in (error.what, error.why) if part)
    return Finding(what=what, verdict=Verdict.FAILED, seen=seen, next=" ".join(error.next.split()), error=type(error).__name__)
