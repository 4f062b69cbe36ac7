"""A probe of many tables: questions wait, are asked together, and one that is refused keeps no other from its answer."""

import re
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, SourceInterruptedError, SourceTableError, SourceUnreachableError
from cdc_ops.sources.bounds.activity import ServerActivity
from cdc_ops.sources.declared import DeclaredSource
from cdc_ops.sources.sql.idle_probe import (
    AT_ONCE,
    AnswerPending,
    PlanAlone,
    Question,
    SharedProbe,
    WaitingSession,
    batches,
    open_idle_probe,
    union,
)
from cdc_ops.sources.sql.session import Row, SqlSession


class Server(SqlSession):
    """Answers questions about tables `t<number>` with the number, and refuses those in `broken`."""

    lock_limit = ("limit", "no limit")

    def __init__(self, broken: dict[str, CdcError] | None = None) -> None:
        self.place, self.user, self.broken = "here", "me", broken or {}
        self.statements: list[str] = []

    def rows(self, sql: str) -> list[Row]:
        self.statements.append(sql)
        found = re.findall(r"SELECT (\d+) AS cdc_question, COUNT\(\*\) AS n FROM (t(\d+))", sql)
        for _, table, _ in found:
            if table in self.broken:
                raise self.broken[table]
        return [{"cdc_question": int(number), "n": int(value)} for number, _, value in reversed(found)]


def error(kind: type[CdcError]) -> CdcError:
    return kind("no", why="", data="", next="")


def questions(count: int) -> list[Question]:
    return [Question(sql=f"SELECT COUNT(*) AS n FROM t{number}", names=("n",)) for number in range(count)]


def answers(session: WaitingSession, asked: list[Question]) -> list[int | None]:
    found: list[int | None] = []
    for question in asked:
        try:
            found.append(session.answer(question.sql, question.names)["n"])
        except PlanAlone:
            found.append(None)
    return found


def wait_for(session: WaitingSession, asked: list[Question]) -> None:
    for question in asked:
        with pytest.raises(AnswerPending):
            session.answer(question.sql, question.names)


def test_questions_with_the_same_columns_are_asked_together_and_not_too_many_at_once() -> None:
    others = [Question(sql=f"SELECT 1 AS a, 2 AS b FROM t{number}", names=("a", "b")) for number in range(3)]
    mixed = [question for pair in zip(questions(3), others, strict=True) for question in pair]
    assert list(batches([*mixed, *questions(5)[3:]], at_once=2)) == [
        tuple(questions(2)),
        tuple(questions(4)[2:]),
        tuple(questions(5)[4:]),
        tuple(others[:2]),
        tuple(others[2:]),
    ]
    assert union(tuple(questions(2))) == (
        "SELECT 0 AS cdc_question, COUNT(*) AS n FROM t0 UNION ALL SELECT 1 AS cdc_question, COUNT(*) AS n FROM t1"
    )


def test_a_thousand_questions_are_four_statements_and_each_gets_its_own_answer() -> None:
    server = Server()
    session, asked = WaitingSession(server), questions(4 * AT_ONCE)
    wait_for(session, asked)
    wait_for(session, asked[:10])
    session.ask()
    assert len(server.statements) == 1 + 4
    assert answers(session, asked) == list(range(4 * AT_ONCE))
    session.ask()
    assert len(server.statements) == 1 + 4, "nothing waits, nothing is asked"
    session.close()
    session.close()
    assert (server.statements[0], server.statements[5:]) == ("limit", ["no limit"])


def test_a_table_that_the_server_refuses_keeps_no_other_from_the_look() -> None:
    server = Server({"t17": error(SourceTableError)})
    session, asked = WaitingSession(server), questions(100)
    wait_for(session, asked)
    session.ask()
    assert answers(session, asked) == [None if number == 17 else number for number in range(100)]
    assert len(server.statements) < 25


def test_many_refused_tables_end_the_search_and_are_planned_alone() -> None:
    server = Server({f"t{number}": error(SourceTableError) for number in range(0, 100, 2)})
    session, asked = WaitingSession(server), questions(100)
    wait_for(session, asked)
    session.ask()
    assert len(server.statements) < 30
    assert not [answer for answer in answers(session, asked)[::2] if answer is not None]


def test_a_statement_that_waited_too_long_for_a_lock_is_not_tried_again() -> None:
    server = Server({"t17": error(SourceInterruptedError)})
    session, asked = WaitingSession(server), questions(100)
    wait_for(session, asked)
    session.ask()
    assert len(server.statements) == 2
    assert answers(session, asked) == [None] * 100


def test_the_limit_for_locks_holds_after_a_connection_that_was_given_up() -> None:
    server = Server({"t17": error(SourceInterruptedError)})
    session, asked = WaitingSession(server), questions(2 * AT_ONCE)
    wait_for(session, asked)
    session.ask()
    first, lost, again, second = server.statements
    assert (first, again) == ("limit", "limit"), "a new connection knows none"
    assert lost.endswith("FROM t249")
    assert second.endswith("FROM t499")


def test_a_server_that_is_gone_ends_the_look() -> None:
    session = WaitingSession(Server({"t1": error(SourceUnreachableError)}))
    wait_for(session, questions(3))
    with pytest.raises(SourceUnreachableError):
        session.ask()


def test_whatever_is_no_question_means_that_the_table_is_planned_alone() -> None:
    server = Server()
    session = WaitingSession(server)
    for ask in (session.rows, session.rows_if_allowed, session.row, session.execute):
        with pytest.raises(PlanAlone):
            ask("SELECT 1")
    session.close()
    assert server.statements == []


def test_clock_and_writers_are_observed_once_and_before_anything_is_asked() -> None:
    calls: list[str] = []
    seen = ServerActivity(now=datetime(2026, 1, 1, tzinfo=UTC), writers=(), complete=True, account="me")

    class Probe:
        def __getattr__(self, name: str) -> Any:
            calls.append(name)
            return {"replica": lambda: None, "observe": lambda: seen, "zone": lambda: ("UTC", True), "origin": lambda: "me"}[name]

    probe = SharedProbe(cast(Any, Probe()))
    assert calls == ["replica", "observe"], "the replica's lag first, and both when the look begins"
    assert [probe.observe(), probe.observe(), probe.now()] == [seen, seen, seen.now]
    assert probe.zone() == probe.zone() == ("UTC", True)
    assert probe.origin() == probe.origin() == "me"
    assert calls == ["replica", "observe", "zone", "origin"]
    for refused in (probe.server, probe.running, lambda: probe.next_number(TableName(schema="a", name="b"), "id")):
        with pytest.raises(PlanAlone):
            refused()


def test_a_source_without_a_database_has_no_look() -> None:
    source = DeclaredSource.__new__(DeclaredSource)
    assert open_idle_probe(cast(Any, source), (TableName(schema="a", name="b"),)) is None
