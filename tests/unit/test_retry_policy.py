"""Each public error has a decision: Airflow retries what may heal, and fails at once on what somebody has to act on."""

import re
from collections.abc import Iterator

import pytest
from airflow.sdk.exceptions import AirflowFailException

import cdc_ops.errors
from cdc_ops.airflow.exceptions import RetryableRunError, tables_failed, to_airflow, translated
from cdc_ops.errors import CdcError


def tree(root: type[CdcError]) -> Iterator[type[CdcError]]:
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


CLASSES = sorted({cls for cls in tree(CdcError) if cls.__module__ == "cdc_ops.errors"}, key=lambda cls: cls.__name__)
WRITTEN = {name: bool(retryable) for name, retryable in re.findall(r"[|`]-- (\w+Error)( +\(retryable\))?", cdc_ops.errors.__doc__ or "")}
"""The decision of each error as the page of errors has it: the module's own text."""


def test_the_text_has_a_decision_for_every_class() -> None:
    assert len(CLASSES) > 50
    assert {cls.__name__ for cls in CLASSES} - {"CdcError"} == set(WRITTEN)
    assert 10 < sum(WRITTEN.values()) < len(WRITTEN) / 2


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_airflow_does_with_an_error_what_its_text_says(cls: type[CdcError]) -> None:
    error, retries = cls("something failed"), WRITTEN.get(cls.__name__, False)
    kind = RetryableRunError if retries else AirflowFailException
    assert type(to_airflow(error)) is kind
    assert type(tables_failed("merge", {"shop.orders": error})) is kind
    with pytest.raises(kind, match="something failed"), translated():
        raise error
    assert issubclass(RetryableRunError, AirflowFailException) is False


def test_an_error_of_a_kind_that_nobody_declared_would_fail_at_once() -> None:
    assert CdcError.retryable is False
