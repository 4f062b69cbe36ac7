"""What other sessions do while a command runs: rounds of statements that hold locks, and a change that commits under a waiting reader."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.torture.source import Session

_WAITING: Final = (
    "SELECT CASE WHEN query LIKE 'COPY (%' OR query LIKE '%LIMIT 0' THEN 1 ELSE 0 END FROM pg_stat_activity"
    " WHERE pg_backend_pid() <> pid AND {pid} = ANY (pg_blocking_pids(pid))"
)
"""Who waits for a session of Postgres: 1 for a reader of rows, which locks its table by asking for none of them, 0 for anybody else."""


@contextmanager
def beside(opened: Callable[[], Session], rounds: Sequence[str], trap: Sequence[str], hold: float) -> Iterator[None]:
    """Runs statements beside what stands in the block, and ends them with it.

    Args:
        opened: Opens a session.
        rounds: Statements, each in a transaction of its own, again and again.
        trap: What commits while a reader waits, and what takes it back afterwards.
        hold: Seconds that each round stays open.
    """
    stop = threading.Event()
    works = [(_rounds, (opened, stop, rounds, hold))] if rounds else []
    works += [(_trap, (opened, stop, trap[0], trap[1]))] if trap else []  # type: ignore[list-item]
    threads = [threading.Thread(target=work, args=arguments, daemon=True) for work, arguments in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _rounds(opened: Callable[[], Session], stop: threading.Event, rounds: Sequence[str], hold: float) -> None:
    with opened() as session:
        while not stop.is_set():
            for statement in rounds:
                session.does("BEGIN")
                session.does(statement)
                stop.wait(hold)
                session.does("COMMIT")
                if stop.is_set():
                    break
                stop.wait(hold / 2)
        for statement in rounds if len(rounds) > 1 else ():
            session.does(statement)


def _trap(opened: Callable[[], Session], stop: threading.Event, statement: str, back: str) -> None:
    """Holds a statement's lock; lets everybody pass but a reader of rows, under whom the statement is committed, once.

    What the catalog says does not change until then: a plan and its check see the table as it was.
    """
    with opened() as session, opened() as watch:
        waiting = _WAITING.replace("{pid}", str(session.rows("SELECT pg_backend_pid()")[0][0]))
        sprung = False
        while not stop.is_set() and not sprung:
            session.does("BEGIN")
            done = session.does(statement)
            found = list[int]()
            while done and not found and not stop.wait(0.003):
                found = [int(row[0]) for row in watch.rows(waiting)]
            sprung = done and bool(found) and min(found) == 1
            session.does("COMMIT" if sprung else "ROLLBACK")
            stop.wait(0.01)
        if sprung:
            stop.wait()
            session.does(back)
