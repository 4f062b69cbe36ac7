"""What the ledger keeps of approvals: questions of runs, who answered them, and which operation an answer has let through."""

from abc import ABC, abstractmethod

from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus
from cdc_ops.core.schema.tables import TableName


class ApprovalReader(ABC):
    """Reads the questions."""

    @abstractmethod
    def approvals(
        self,
        pipeline: str | None = None,
        table: TableName | None = None,
        *,
        run_id: str | None = None,
        status: ApprovalStatus | None = None,
        limit: int = 200,
    ) -> tuple[ApprovalRecord, ...]:
        """Returns questions, the newest first.

        Args:
            pipeline: Only of this pipeline.
            table: Only of this table.
            run_id: Only of this run.
            status: Only those that stand so.
            limit: How many at most.
        """


class ApprovalStore(ApprovalReader):
    """Writes them. It needs no lease: an answer is only used by a plan, which marks it in the transaction that freezes the operation.

    `StateStore.freeze` refuses operations whose approval was not granted to their table and run, or has let through another plan.
    """

    @abstractmethod
    def ask_approval(self, record: ApprovalRecord) -> None:
        """Adds a question."""

    @abstractmethod
    def answer_approval(self, approval_id: str, status: ApprovalStatus, who: str = "") -> ApprovalRecord:
        """Answers a question, by the ledger's clock. One that is answered already keeps its first answer.

        A grant or a refusal that comes when the question's time is over counts as none: it has timed out.

        Returns:
            The question as it stands now.

        Raises:
            RequestError: there is no such question.
        """
