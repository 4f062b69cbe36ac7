"""Why executors cannot read change events, or rows natively, is said in the words of what failed there."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.steps.query.native_rows import why_not_native
from cdc_ops.steps.stage import executors


def test_executors_with_what_it_takes_can(spark: SparkSession) -> None:
    assert executors._asked(spark) == ""


def test_executors_without_python_are_told_by_the_program_that_is_missing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python3")
    why = executors._asked(spark)
    assert why.startswith('of Spark\'s executors: java.io.IOException: Cannot run program "/nowhere/python3"')


def test_executors_whose_python_lacks_packages_are_told_by_the_last_line_of_the_traceback(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Iterator[Any]) -> Iterator[Any]:
        yield __import__("no_such_package")

    monkeypatch.setattr(executors, "_question", lambda _: fails)
    assert executors._asked(spark) == "of Spark's executors: ModuleNotFoundError: No module named 'no_such_package'"


def test_executors_with_another_version_are_told_by_both(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    import cdc_ops

    theirs = cdc_ops.__version__
    monkeypatch.setattr(cdc_ops, "__version__", "9.9.9")
    assert executors._asked(spark) == f"of Spark's executors: their cdc-ops is {theirs}, this one is 9.9.9"


def test_why_rows_cannot_be_read_natively_is_said_in_the_same_words(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python3")
    assert why_not_native(spark, "mysql://nobody@127.0.0.1/x").startswith('java.io.IOException: Cannot run program "/nowhere/python3"')
