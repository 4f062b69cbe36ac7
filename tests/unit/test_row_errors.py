"""Failures of statements at a row, as the errors that name it."""

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from cdc_ops.errors import CdcError
from cdc_ops.steps.stage.row_errors import translated_row_errors


def test_a_reason_that_is_a_cause_on_a_server_is_found() -> None:
    trace = "org.apache.spark.SparkException\nCaused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] row 7"
    failed = SparkConnectGrpcException("[TASK_WRITE_FAILED] Task failed while writing rows.", server_stacktrace=trace)
    with (
        pytest.raises(CdcError, match="it is row 7"),
        translated_row_errors(lambda text: CdcError("it is row 7") if "row 7" in text else None),
    ):
        raise failed


def test_a_failure_that_nobody_knows_passes() -> None:
    with pytest.raises(SparkConnectGrpcException, match="no memory"), translated_row_errors(lambda text: None):
        raise SparkConnectGrpcException("no memory")
