"""What a process that looks for alerts knows besides the ledger: which runs are at work, where questions are answered, its own disks."""

from collections.abc import Callable
from dataclasses import dataclass

from cdc_ops.core.approvals import ApprovalRecord


def nobody_knows(run_id: str) -> bool | None:
    """Tells nothing of a run."""
    return None


def nowhere(question: ApprovalRecord) -> str:
    """Knows of no page on which a question is answered."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file or folder of this machine on whose disk cdc-ops writes.

    Args:
        name: What is there: `lake`, `staging` or `ledger`.
        path: Where.
    """

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """See the module.

    Args:
        is_at_work: Whether a run has not ended, by its id in the ledger; None where it cannot be told. The command line cannot ask Airflow.
        answer_link: The page on which a question is answered, "" if it is not known.
        places: Where this machine's disks are looked at. None = nothing is said of them, neither that one is full nor that it is over.
    """

    is_at_work: Callable[[str], bool | None] = nobody_knows
    answer_link: Callable[[ApprovalRecord], str] = nowhere
    places: tuple[Place, ...] | None = None
