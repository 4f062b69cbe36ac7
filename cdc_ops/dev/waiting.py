"""Waiting for a server or a process, with a limit; outside the data path."""

from collections.abc import Callable
from typing import TypeVar

import tenacity

T = TypeVar("T")


def wait_until(look: Callable[[], T], timeout: float, *, every: float = 0.05, hopeless: Callable[[], bool] = lambda: False) -> T:
    """Calls `look` until its result is true; returns the last result, which is false if the wait was in vain.

    Args:
        look: Returns what the caller waits for, or a false value. Its errors end the wait.
        timeout: Seconds until the wait ends.
        every: Seconds between two calls.
        hopeless: Ends the wait early after a call, when it returns True.
    """
    late = tenacity.stop_after_delay(timeout)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda result: not result),
        stop=lambda state: late(state) or hopeless(),
        wait=tenacity.wait_fixed(every),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    return retrying(look)
