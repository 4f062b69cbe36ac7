"""From the package's errors to Airflow's: what may heal is retried, what somebody has to act on fails at once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from cdc_ops.errors import CdcError

SHOWN_IN_FULL = 3
"""Errors of tables that are printed in full; of further ones the first line is enough to see that they are alike."""


class RetryableRunError(AirflowException):
    """A step failed in a way that trying again may heal."""


@contextmanager
def translated() -> Iterator[None]:
    """Turns errors of the package into Airflow's, with their one-screen text and without our frames."""
    try:
        yield
    except CdcError as error:
        raise to_airflow(error) from None


def to_airflow(error: CdcError) -> AirflowException:
    """Returns the exception that makes Airflow do the right thing."""
    return RetryableRunError(str(error)) if error.retryable else AirflowFailException(str(error))


def tables_failed(step: str, errors: Mapping[str, CdcError]) -> AirflowException:
    """Returns one exception for the failed tables of a group; it is retryable as long as any of them is.

    Args:
        step: The verb.
        errors: By table.
    """
    retryable = [name for name, error in errors.items() if error.retryable]
    head = f"{step}: {_count(len(errors))} failed"
    head += f", {len(retryable)} of them with retryable errors." if retryable else "; someone has to act first."
    text = "\n".join([head, *_lines(list(errors.items()))])
    return RetryableRunError(text) if retryable else AirflowFailException(text)


def _lines(errors: Sequence[tuple[str, CdcError]]) -> Iterator[str]:
    for index, (name, error) in enumerate(errors):
        shown = str(error) if index < SHOWN_IN_FULL else error.what
        yield f"- {name}: " + shown.replace("\n", "\n  ")


def _count(tables: int) -> str:
    return "1 table" if tables == 1 else f"{tables} tables"
