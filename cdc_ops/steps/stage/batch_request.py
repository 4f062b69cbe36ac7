"""What the readers of a batch are given: the frozen operation, its statement, and where its rows are."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.operation.merging.merge_plan import MergePlan
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest
from cdc_ops.errors import StateError
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.sources.base import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """The request for the batch of one operation.

    Args:
        spark: A session of its own.
        source: The open source, for operations that land nowhere.
        operation: The frozen operation.
        plan: Its statement, as far as operation and manifest determine it; readers refine it.
        manifest: What was landed, None for operations that land nowhere.
        number_taken: The table has the operation's number already, or a larger one: Delta will skip the statement.
        first: The table is not there yet, or is one that an earlier try left without a row.
    """

    spark: SparkSession
    source: Source
    operation: Operation
    plan: MergePlan
    manifest: Manifest | None
    number_taken: bool
    first: bool = False

    @property
    def landed(self) -> Manifest:
        """The manifest of an operation that lands its rows.

        Raises:
            StateError: this one lands nowhere.
        """
        if self.manifest is None:
            raise StateError(f"Operation {self.operation.op_seq} of {self.operation.table} lands no rows.")
        return self.manifest

    def batch_of(self, rows: DataFrame) -> Batch:
        """Returns rows as a batch with the operation's statement."""
        read_rows = self.manifest.landed.rows if self.manifest else None
        return Batch(rows=rows, plan=self.plan, manifest=self.manifest, read_rows=read_rows, first=self.first)
