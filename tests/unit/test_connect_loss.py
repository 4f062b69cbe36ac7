"""Errors that say that a Spark server is gone."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectException, SparkConnectGrpcException

from cdc_ops.errors import SparkServerLostError
from cdc_ops.lake.spark.connect import is_loss, translated_loss

STARTED_AGAIN = "[INVALID_HANDLE.SESSION_CHANGED] The handle ... is invalid. The existing Spark server driver instance has restarted."


@contextmanager
def cleaned_up() -> Iterator[None]:
    try:
        yield
    finally:  # a view is to be dropped, by a client that PySpark has closed
        raise SparkConnectException(errorClass="NO_ACTIVE_SESSION", messageParameters={}) from None


def test_a_loss_that_cleaning_up_hides_is_a_loss() -> None:
    with pytest.raises(SparkServerLostError), translated_loss("sc://127.0.0.1"), cleaned_up():
        raise SparkConnectGrpcException(STARTED_AGAIN)


@pytest.mark.parametrize(
    "error", [AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] INVALID"), ValueError(STARTED_AGAIN), SparkConnectException("anything else")]
)
def test_other_errors_are_none(error: Exception) -> None:
    assert not is_loss(error)
