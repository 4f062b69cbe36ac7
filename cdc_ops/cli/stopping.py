"""Ctrl-C and SIGTERM: the command ends within seconds, says what became of its work, and has an exit code of its own.

    signal -> a thread hears of it, whatever the main thread waits for: it ends the JVM, and after `LIMIT` seconds the process
           -> Python's handler raises `Stopped` in the main thread: leases are given back, a text is printed, the process ends

A second one ends the process at once. Where SIGINT was ignored from the start, as in the background of a shell, it stays so.
"""

import json
import logging
import os
import select
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Final, NoReturn

from cdc_ops.errors import CdcError, RunStoppedError, Stopped

LIMIT: Final = 9.0
"""Seconds after which the process ends, whatever its main thread waits for."""

JVM_SECONDS: Final = 3.0
"""Seconds that the JVM has for its end before it is killed."""

CODES: Final = {"Ctrl-C": 130, "SIGTERM": 143}
"""Exit codes by what has ended the command: 128 and the number of the signal, as shells have it."""

_NAMES: Final = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
_TWICE: Final = 0.5
"""Seconds in which a second signal is the same one: `timeout` and wrappers send it to the process and to its group."""
_PRINTING: Final = 0.5


class _Stop:
    """What is known of the end of this process; the thread and the main thread share it."""

    def __init__(self) -> None:
        self.by = ""
        self.raised = False
        self.as_json = False
        self.lease_ttl: timedelta | None = None
        self.said = False
        self.end_jvm: Callable[[signal.Signals], None] = lambda number: None


_stop = _Stop()


def requested() -> bool:
    """True once the process was told to end."""
    return bool(_stop.by)


def check() -> None:
    """Does nothing, or ends what goes on although the process was told to end: an exception is lost where Python collects garbage.

    Raises:
        Stopped: the process was told to end.
    """
    if _stop.by:
        raise Stopped(_stop.by)


def by(error: BaseException) -> str:
    """Returns what has told the process to end, e.g. `Ctrl-C`; `error` is what the main thread knows of it."""
    return _stop.by or (Stopped.of(error).by if isinstance(error, KeyboardInterrupt) else "Ctrl-C")


def ends_with(end_jvm: Callable[[signal.Signals], None]) -> None:
    """Names what sends a signal to the JVM of this process, if there is one by then."""
    _stop.end_jvm = end_jvm


def shows(*, as_json: bool) -> None:
    """Says in which form the command shows its result."""
    _stop.as_json = as_json


def takes_leases(lease_ttl: timedelta) -> None:
    """Says that the command takes leases, and how long they live."""
    _stop.lease_ttl = lease_ttl


def has_said() -> None:
    """Says that the command has shown, or is about to show, that and how it was ended."""
    _stop.said = True


def same_command() -> str:
    """Returns the command as it was called."""
    return shlex.join(["cdc-ops", *sys.argv[1:]])


def stopped_error(by: str, data: str) -> RunStoppedError:
    """Returns the error of a command that has nothing to tell but that it was ended.

    Args:
        by: What has ended it.
        data: What that means for the data.
    """
    return RunStoppedError(f"{by} stopped the command before it was through.", data=data, next=same_command())


@contextmanager
def handled(show: Callable[[CdcError, bool], None]) -> Iterator[None]:
    """Lets signals end the command that runs in the block, and then the process: no thread that still works keeps it.

    Args:
        show: Shows an error, as JSON if that is asked for.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in _NAMES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)
    threading.Thread(target=_watch, args=(reading,), name="cdc-ops-signals", daemon=True).start()
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as error:
        if not requested() and not isinstance(error, KeyboardInterrupt):
            for number in _NAMES:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, signal.SIG_DFL)  # all is done and said; what is left is to close
            raise
        _end(by(error), show)
    except Exception as error:
        if not requested():
            raise
        _end(by(error), show)


@contextmanager
def kept_handlers() -> Iterator[None]:
    """Gives the signals their handlers back: PySpark sets one for Ctrl-C when a session starts."""
    before = {number: signal.getsignal(number) for number in _NAMES}
    try:
        yield
    finally:
        for number, handler in before.items():
            if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _raise(number: int, frame: FrameType | None) -> None:
    """Raises `Stopped` in the main thread, once: what it does then is what gives the leases back."""
    _stop.by = _stop.by or _NAMES[signal.Signals(number)]
    if not _stop.raised:
        _stop.raised = True
        _hush()
        raise Stopped(_stop.by)


def _hush() -> None:
    """Ends all logging: py4j has a traceback, and a job a line, for each call that a signal, or the end of the JVM, interrupts."""
    logging.disable()


def _end(by: str, show: Callable[[CdcError, bool], None]) -> NoReturn:
    """Ends the process: `sys.exit` would wait for threads that ask a source, or wait for its load to fall."""
    if not _stop.said:
        has_said()
        show(stopped_error(by, "What is committed stays."), _stop.as_json)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(CODES[by])


def _watch(reading: int) -> None:
    """Waits for a signal; ends the JVM, and at a second one, or when the main thread takes too long, the process."""
    while not (name := _next_signal(reading, None)):
        pass
    begun = time.monotonic()
    _stop.by = _stop.by or name
    _hush()
    _stop.end_jvm(signal.SIGTERM)
    killed = False
    while (waited := time.monotonic() - begun) < LIMIT:
        again = _next_signal(reading, min(LIMIT, LIMIT if killed else JVM_SECONDS) - waited)
        if again and time.monotonic() - begun > _TWICE:
            _give_up(f"A second {again} ended it at once.")
        if not killed and time.monotonic() - begun >= JVM_SECONDS:
            _stop.end_jvm(signal.SIGKILL)
            killed = True
    _give_up(f"What it waited for did not end within {LIMIT:.0f} s, so the process was ended.")


def _next_signal(reading: int, seconds: float | None) -> str:
    """Returns the name of the next signal that ends the process, "" for another one or if none comes in time."""
    ready, _, _ = select.select([reading], [], [], None if seconds is None else max(seconds, 0.0))
    if not ready:
        return ""
    return _NAMES.get(signal.Signals(os.read(reading, 1)[0]), "")


def _give_up(why: str) -> NoReturn:
    """Ends JVM and process, and says so if the main thread has not: it may stand in a write that nobody reads."""
    _stop.end_jvm(signal.SIGKILL)
    if not _stop.said:
        has_said()
        printing = threading.Thread(target=_print_stop, args=(why,), daemon=True)
        printing.start()
        printing.join(_PRINTING)
    os._exit(CODES[_stop.by])


def _print_stop(why: str) -> None:
    error = RunStoppedError(f"{_stop.by} stopped the command before it was through. {why}", data=_kept_leases(), next=same_command())
    text = json.dumps({"error": error.to_payload(), "retryable": True}, indent=2) if _stop.as_json else str(error)
    with suppress(OSError):
        os.write(1 if _stop.as_json else 2, f"\n{text}\n".encode())  # not through a stream that the main thread may hold


def _kept_leases() -> str:
    """Returns what an end without a look at the ledger means for the data."""
    if _stop.lease_ttl is None:
        return "What is committed stays."
    end = datetime.now(UTC) + _stop.lease_ttl
    return (
        "What is committed stays, what is planned is finished by the next run. Leases that it held are not given back: they run out"
        f" by {end:%Y-%m-%d %H:%M:%S} UTC, and a run on this machine takes them at once."
    )
