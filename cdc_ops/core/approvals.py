"""Approvals: what a refused table asks a person for, and what the person decided. Pure.

    an error that a person may lift -> Asked -> ApprovalRecord in the ledger -> answer -> Approval -> the next try, and its commit record

An approval lets one operation of one run through, and nothing beyond what was asked.
"""

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from cdc_ops.core import json_codec
from cdc_ops.core.run_cost import RunCost, cost_text
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import joined, minute_text
from cdc_ops.errors import CdcError


class Decision(enum.StrEnum):
    """What a person can decide so that a table goes on."""

    DELETES = "deletes"
    """A comparison deletes more rows than `max_delete_ratio` or `max_delete_rows` allow."""
    COST = "cost"
    """A table costs more than a `max_cost`, by its estimate: a full resync of a large table, for example."""
    GAP = "gap"
    """Events are missing in an archive, and the table continues behind them."""
    COLUMNS = "columns"
    """Columns changed at the source in a way that the table's policy does not follow, and all rows are read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for.

    Args:
        decision: The kind of the question.
        deletes: For `deletes`: how many rows would be deleted; not one more is covered.
        rows: For `deletes`: how many rows the table has; of one that has shrunk since, the same number is another share.
        cost: For `cost`: the estimate.
        gaps: For `gap`: the names of the gaps, as `cdc-ops gap list` shows them.
        keys: For `deletes`: a digest of the keys of these rows, "" if they have none, or of a version that took none.
    """

    decision: Decision
    deletes: int = 0
    rows: int = 0
    cost: RunCost | None = None
    gaps: tuple[str, ...] = ()
    keys: str = ""

    @property
    def words(self) -> str:
        """What would be done, in words."""
        match self.decision:
            case Decision.DELETES:
                return f"delete {self.deletes:,} of {self.rows:,} rows"
            case Decision.COST:
                return f"begin what costs {cost_text(self.cost)}{_unbounded(self.cost)}" if self.cost else "begin it"
            case Decision.GAP:
                return f"go on without the events of {len(self.gaps)} gap{'s' if len(self.gaps) != 1 else ''} in the archive"
            case Decision.COLUMNS:
                return "read all rows again, with the source's columns and keys"
            case _:
                assert_never(self.decision)


def _unbounded(cost: RunCost) -> str:
    """Returns which figures of an estimate say only the least that it costs, or nothing; "" if none."""
    figures = {"rows": cost.rows, "written bytes": cost.written_bytes, "time": cost.seconds}
    names = [name for name, found in figures.items() if found.at_least or found.value is None]
    return f", with no upper bound on {joined(names)}" if names else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A decision that lets an operation through; the operation carries it, and so does its commit record.

    Args:
        approval_id: Of the record in the ledger.
        asked: What was asked for.
        who: Who granted it.
        at: When, UTC.
    """

    approval_id: str
    asked: Asked
    who: str
    at: datetime


class ApprovalStatus(enum.StrEnum):
    """How a question stands."""

    ASKED = "asked"
    """Nobody has answered yet."""
    GRANTED = "granted"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    """Nobody answered in time: as if refused."""
    WITHDRAWN = "withdrawn"
    """The run ended before anybody answered."""

    @property
    def words(self) -> str:
        """The status as people read it."""
        return self.value.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord:
    """A question and its answer, as the ledger keeps them.

    Args:
        approval_id: Unique.
        pipeline, table: Whose question; None = of the pipeline as a whole.
        run_id: The run that asks, and that goes on once it is granted.
        asked: What is asked for.
        text: What would happen, for people: the text of the error.
        asked_at: By the ledger's clock, UTC.
        expires_at: Until when an answer is waited for, UTC.
        users: Who may answer, by their ids in Airflow; empty = everybody who may act on the DAG.
        status: How it stands.
        who: Who answered, "" for nobody.
        decided_at: When, UTC; None while it is open.
        op_seq: The operation that the approval has let through, None as long as there is none.
    """

    approval_id: str
    pipeline: str
    table: TableName | None
    run_id: str
    asked: Asked
    text: str
    asked_at: datetime
    expires_at: datetime
    users: tuple[str, ...] = ()
    status: ApprovalStatus = ApprovalStatus.ASKED
    who: str = ""
    decided_at: datetime | None = None
    op_seq: int | None = None

    @property
    def subject(self) -> str:
        """The pipeline's or the table's name."""
        return str(self.table or self.pipeline)

    def is_open(self, now: datetime) -> bool:
        """True if somebody may still answer.

        Args:
            now: The ledger's clock, UTC.
        """
        return self.status is ApprovalStatus.ASKED and now < self.expires_at

    @property
    def approval(self) -> Approval | None:
        """What the next try may use; None if nothing was granted, or an operation has used it."""
        if self.status is not ApprovalStatus.GRANTED or self.decided_at is None or self.op_seq is not None:
            return None
        return Approval(approval_id=self.approval_id, asked=self.asked, who=self.who, at=self.decided_at)


def is_same_question(before: ApprovalRecord, asked: Asked, text: str) -> bool:
    """True if a question asks what another has asked: about the same rows, the same gaps, the same columns, or the same cost.

    Args:
        before: The question that was asked.
        asked, text: What is to be asked now, and the text of the error behind it.
    """
    if before.asked.decision is not asked.decision:
        return False
    match asked.decision:
        case Decision.DELETES:
            return bool(asked.keys) and (before.asked.keys, before.asked.deletes) == (asked.keys, asked.deletes)
        case Decision.GAP:
            return before.asked.gaps == asked.gaps
        case Decision.COST:
            return before.asked.words == asked.words
        case Decision.COLUMNS:
            return before.text == text
        case _:
            assert_never(asked.decision)


def answer_text(record: ApprovalRecord) -> str:
    """Returns how a question was answered, by whom and when."""
    by = f" by {record.who}" if record.who else ""
    at = f" at {minute_text(record.decided_at)}" if record.decided_at else ""
    return f"{record.status.words}{by}{at}"


def question_text(record: ApprovalRecord) -> str:
    """Returns what an open question asks, who is asked and until when, in one sentence."""
    who = f" of {', '.join(record.users)}" if record.users else ""
    return f"run {record.run_id} waits for an answer{who} in Airflow, until {minute_text(record.expires_at)}: {record.asked.words}?"


def asks(asked: Asked) -> str:
    """Returns the text by which an error carries what a person may decide; `asked_by` reads it."""
    return json_codec.dumps(asked)


def asked_by(error: CdcError | None) -> Asked | None:
    """Returns what a person may decide so that a table goes on after an error; None if nothing helps but other action."""
    return json_codec.loads(Asked, error.asks) if error is not None and error.asks else None
