"""Finds the tables without news: what planning would ask the source for each of them is asked for all of them together.

    probe = open_idle_probe(source, tables)  # observes the clock and the writers, once, before anything is counted
    plan a table with probe.source           # raises AnswerPending where an answer is not there yet, and PlanAlone where the probe has none
    probe.ask()                              # all that waits, up to 250 questions in a statement; then plan the table again

Planning is the same code as for a single table, and is repeated from its beginning until all of its questions are answered. A probe is good
for one thing only: to find the tables that have nothing new. All others are planned alone, on the source itself.

The order is what no row is lost by. The bound is made of one observation of clock and writers, which is complete before the first question
is asked, and is a part of the text of the questions: a row that becomes visible after a question was answered lies above that bound, or was
not stamped by the source's clock, as it would have if the table had been planned alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Never, cast

from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.cursors import Cursor, CursorValue
from cdc_ops.core.cursor.windows import SafeBound, next_window
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.errors import CdcError, SourceInterruptedError, SourceUnreachableError
from cdc_ops.sources.base import Source
from cdc_ops.sources.bounds.activity import ServerActivity, Writer
from cdc_ops.sources.bounds.clock import Probe
from cdc_ops.sources.sql.session import Row, SqlSession
from cdc_ops.sources.sql_source import SqlSource
from cdc_ops.sources.topology import Topology

AT_ONCE: Final = 250
"""Questions in one statement, at most: more would be a load for the server's parser."""

_RETRIES: Final = 20
"""Statements that one `ask` adds, at most, to find the tables that the server refuses to read."""

_LARGE: Final = 100_000
"""Rows of a table that is read whole by a question, at most: a statement waits for the slowest of its tables."""

_NUMBER: Final = "cdc_question"
_ANSWERED: Final = frozenset(
    ("config", "traits", "origin", "cursor", "window_predicate", "null_predicate", "checksum", "undigestible", "literal")
)
"""What a plan may use of the source besides what `_ProbedSource` has itself; the answers of these wait, or need no answer."""


class AnswerPending(Exception):
    """An answer is not there yet: plan the table again after `IdleProbe.ask`."""


class PlanAlone(Exception):
    """The table has something new, or its plan needs more than a probe answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A SELECT of one row.

    Args:
        sql: The statement.
        names: Its columns; questions with the same columns are asked together.
    """

    sql: str
    names: tuple[str, ...]


class WaitingSession(SqlSession):
    """Collects questions in place of running them; it answers only what was asked by `ask`.

    Args:
        session: The connection.
    """

    def __init__(self, session: SqlSession) -> None:
        self.place, self.user = session.place, session.user
        self._asked = session
        self._waiting: dict[Question, None] = {}
        self._answers: dict[Question, Row] = {}
        self._refused: set[Question] = set()
        self._retries = 0
        self._limited = False

    def answer(self, sql: str, names: tuple[str, ...]) -> Row:
        """Returns the answer to a question, once it was asked.

        Raises:
            AnswerPending: it will be, with the next `ask`.
            PlanAlone: the server did not answer.
        """
        question = Question(sql=sql, names=names)
        if question in self._refused:
            raise PlanAlone(sql)
        if question not in self._answers:
            self._waiting[question] = None
            raise AnswerPending(sql)
        return self._answers[question]

    def rows(self, sql: str) -> list[Row]:
        """Refuses: what is no question is asked for one table at a time."""
        raise PlanAlone(sql)

    def rows_if_allowed(self, sql: str) -> list[Row] | None:
        """Refuses, like `rows`."""
        raise PlanAlone(sql)

    def close(self) -> None:
        """Ends the limit for locks; the connection stays open, because it belongs to the source."""
        if self._limited:
            self._limited = False
            self._asked.execute(self._asked.lock_limit[1])

    def ask(self) -> None:
        """Asks all questions that wait.

        Raises:
            SourceUnreachableError: the server is gone.
        """
        waiting, self._waiting, self._retries = list(self._waiting), {}, _RETRIES
        if not waiting:
            return
        for batch in batches(waiting):
            self._ask(batch)

    def _ask(self, batch: tuple[Question, ...]) -> None:
        self._limit()
        try:
            rows = self._asked.rows(union(batch))
        except SourceUnreachableError:
            raise
        except SourceInterruptedError:
            self._limited = False  # the connection was given up, and the next one knows no limit
            self._refused.update(batch)
            return
        except CdcError:
            self._ask_halves(batch)
            return
        for row in rows:
            self._answers[batch[int(row[_NUMBER])]] = {name: row[name] for name in batch[0].names}
        self._refused.update(question for question in batch if question not in self._answers)

    def _limit(self) -> None:
        """Lets statements wait for locks for seconds only: one locked table must not keep all others from those who want to alter them."""
        if not self._limited and self._asked.lock_limit[0]:
            self._asked.execute(self._asked.lock_limit[0])
            self._limited = True

    def _ask_halves(self, batch: tuple[Question, ...]) -> None:
        """Asks the halves of a refused statement: one table that cannot be read does not keep the others from their answers."""
        if len(batch) == 1 or self._retries < 2:
            self._refused.update(batch)
            return
        self._retries -= 2
        middle = len(batch) // 2
        self._ask(batch[:middle])
        self._ask(batch[middle:])


def batches(questions: Iterable[Question], at_once: int = AT_ONCE) -> Iterator[tuple[Question, ...]]:
    """Yields the questions in statements: of the same columns, and not too many."""
    alike: dict[tuple[str, ...], list[Question]] = {}
    for question in questions:
        alike.setdefault(question.names, []).append(question)
    for group in alike.values():
        for start in range(0, len(group), at_once):
            yield tuple(group[start : start + at_once])


def union(batch: tuple[Question, ...]) -> str:
    """Returns one statement for several questions; each row of its answer has the number of its question.

    >>> print(union((Question(sql="SELECT COUNT(*) AS n FROM a", names=("n",)), Question(sql="SELECT COUNT(*) AS n FROM b", names=("n",)))))
    SELECT 0 AS cdc_question, COUNT(*) AS n FROM a UNION ALL SELECT 1 AS cdc_question, COUNT(*) AS n FROM b
    """
    select = "SELECT "
    return " UNION ALL ".join(
        f"{select}{number} AS {_NUMBER}, {question.sql.removeprefix(select)}" for number, question in enumerate(batch)
    )


class SharedProbe:
    """A server as one observation has seen it; see `Probe`. The observation is complete when the object is.

    Args:
        probe: The server.
    """

    look_again_seconds = 0.0

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        # The replica is asked first: rows that it applies later are covered by its lag of now.
        self._replica = probe.replica()
        self._seen = probe.observe()
        self._zone: tuple[str, bool] | None = None
        self._origin: str | None = None
        self._walls: dict[tuple[datetime, ...], tuple[datetime, ...]] = {}

    def now(self) -> datetime:
        """Returns the clock of the observation."""
        return self._seen.now

    def observe(self) -> ServerActivity:
        """Returns the observation."""
        return self._seen

    def replica(self) -> Any:
        """Returns the replica's lag as of the observation."""
        return self._replica

    def topology(self) -> Topology:
        """Returns what the server is a part of."""
        return self._probe.topology()

    def origin(self) -> str:
        """Returns who stamps the rows; asks once."""
        if self._origin is None:
            self._origin = self._probe.origin()
        return self._origin

    def zone(self) -> tuple[str, bool]:
        """Returns the zone of new sessions; asks once."""
        if self._zone is None:
            self._zone = self._probe.zone()
        return self._zone

    def session_zones(self) -> tuple[str, ...]:
        """Returns the zones of other sessions."""
        return self._probe.session_zones()

    def wall_clock(self, instants: tuple[datetime, ...]) -> tuple[datetime, ...]:
        """Converts instants, each only once."""
        if instants not in self._walls:
            self._walls[instants] = self._probe.wall_clock(instants)
        return self._walls[instants]

    def earliest_stamp(self, writer: Writer, lookback: timedelta) -> datetime:
        """Returns the earliest time that a writer may have put into a row."""
        return self._probe.earliest_stamp(writer, lookback)

    def missing_grant(self, seen: ServerActivity, instead: str) -> str:
        """Returns the warning that names the missing grant."""
        return self._probe.missing_grant(seen, instead)

    def unknown_start(self, writer: Writer) -> str:
        """Returns the warning about a writer whose start is unknown."""
        return self._probe.unknown_start(writer)

    def server(self) -> tuple[str, datetime]:
        """Refuses: only counters ask, whose bound needs readings of its own."""
        raise PlanAlone("server")

    def running(self) -> int:
        """Refuses."""
        raise PlanAlone("running")

    def next_number(self, table: TableName, column: str) -> int | None:
        """Refuses, as `server` does."""
        raise PlanAlone(column)


class _ProbedSource:
    """The part of `Source` that a plan without news needs; whatever else is asked for means that the table is planned alone.

    Args:
        source: The source with shared schemas, a shared observation and a session that waits.
    """

    def __init__(self, source: SqlSource) -> None:
        self._source = source
        self._schemas: dict[tuple[object, ...], TableSchema] = {}

    def schema(self, table: TableName, *, columns: Any = (), except_columns: Any = (), **types: Any) -> TableSchema:
        """Returns a table's schema; the plan that is repeated gets the same again."""
        key = (table, tuple(columns), tuple(except_columns))
        if key not in self._schemas:
            self._schemas[key] = self._source.schema(table, columns=columns, except_columns=except_columns, **types)
        return self._schemas[key]

    def safe_bound(
        self,
        schema: TableSchema,
        cursor: Cursor,
        lookback: timedelta,
        since: CursorValue | None,
        readings: CounterSamples | None = None,
    ) -> SafeBound:
        """Returns the bound by the shared observation.

        Raises:
            PlanAlone: there are rows between `since` and the bound: what the lookback would cost need not be asked. Or the table is
                large and has no index for its questions.
        """
        if schema.approximate_rows > _LARGE and not any(index[0] == cursor.lead.name for index in schema.indexes):
            raise PlanAlone(str(schema.table))
        bound = self._source.safe_bound(schema, cursor, lookback, since, readings)
        if since is not None and not cursor.lead.is_coarse and (window := next_window(cursor, since, bound)) is not None:
            self.count(schema.table, self._source.window_predicate(cursor, window), 1)
        return bound

    def count(self, table: TableName, where: str, limit: int) -> int:
        """Returns 0.

        Raises:
            PlanAlone: there is a row.
        """
        if self._source.count(table, where, min(limit, 1)):
            raise PlanAlone(where)
        return 0

    def __getattr__(self, name: str) -> Any:
        if name not in _ANSWERED:
            raise PlanAlone(name)
        return getattr(self._source, name)

    def now(self) -> Never:
        """Refuses: only what has something new asks for it."""
        raise PlanAlone("now")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleProbe:
    """A probe of the tables of a source for news.

    Args:
        source: For planning tables; see above for what it raises.
        session: Collects the questions.
    """

    source: Source
    session: WaitingSession

    def ask(self) -> None:
        """Asks what the plans wait for.

        Raises:
            SourceError: the server is gone; then no table can be planned by this probe.
        """
        self.session.ask()

    def close(self) -> None:
        """Ends the probe; the source stays open.

        Raises:
            SourceError: the server is gone.
        """
        self.session.close()


def open_idle_probe(source: Source, tables: tuple[TableName, ...]) -> IdleProbe | None:
    """Observes the clock and the writers of a source, for all of some tables.

    Returns:
        The probe; None from a source that has no such thing.

    Raises:
        SourceError: the source cannot be asked.
    """
    if not isinstance(source, SqlSource) or not tables:
        return None
    session = WaitingSession(source.parts.session)
    shared = source.shared(tables, session, SharedProbe(source.parts.probe))
    return None if shared is None else IdleProbe(source=cast("Source", _ProbedSource(shared)), session=session)
