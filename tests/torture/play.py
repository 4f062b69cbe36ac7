"""Plays a case: makes its database, does its steps in order, and asks the oracle at the end."""

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql

from tests.torture.again import differences_again, key_texts, request_of
from tests.torture.archiver import ArchiverCopies
from tests.torture.beside import beside
from tests.torture.copies import BinlogCopies
from tests.torture.driver import Commands
from tests.torture.events import DebeziumEvents, Engine
from tests.torture.grants import USER, grant_less
from tests.torture.model import (
    AddColumn,
    Admin,
    Again,
    Case,
    Change,
    Copy,
    DropColumn,
    End,
    Finish,
    Kind,
    LoseLedger,
    Raw,
    Run,
    Table,
    Transaction,
    What,
)
from tests.torture.oracle.delta_log import replay, table_folder
from tests.torture.oracle.lake import read_lake
from tests.torture.oracle.points import point_faults
from tests.torture.oracle.relation import Key, false_keys, judge, key_of, living_rows
from tests.torture.oracle.truth import Truth, read_truth
from tests.torture.outcome import Outcome
from tests.torture.product import Kit, Product
from tests.torture.render import Dialect, pipeline_file
from tests.torture.schemas import KINDS, cursor_kind, with_cursor_column
from tests.torture.source import Session

_QUIET_S = 1.3
"""After this long the clock is a bound above all rows, whose cursors may have been rounded up to a second."""
_QUIET_OF_A_CLUSTER_S = 3.5
"""On several nodes the bound stays two seconds behind their clocks, so that they may differ."""


class Player:
    """Plays cases on one server, one after the other.

    Args:
        server: A server that runs, of a cluster its first node; its name decides the dialect.
        driver: The product.
        folder: Below which each case has a folder of its own.
        say: Receives one line for each step.
        others: The other nodes of a cluster.
        engine: Starts Debezium, for cases whose changes come from it.
    """

    def __init__(
        self,
        server: Any,
        driver: Commands,
        folder: Path,
        say: Callable[[str], None] = lambda _: None,
        *,
        others: Sequence[Any] = (),
        engine: Engine | None = None,
    ) -> None:
        self.kit = Kit(nodes=(server, *others), driver=driver, say=say, engine=engine)
        self.server, self.folder, self.say = server, folder, say
        self.kind = server.name.lower()
        self._numbers = 0

    def play(self, case: Case, *, keep: bool = False) -> Outcome:
        """Plays one case from an empty database; nothing of it stays unless `keep`."""
        self._numbers += 1
        database = f"torture_{os.getpid()}_{self._numbers}"
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{case.server}-{case.seed}-", dir=self.folder))
        begun = time.monotonic()
        self.server.create_database(database)
        game = _Game(self, case, database, folder)
        try:
            outcome = game.play()
        finally:
            game.end()
            drop = f'DROP DATABASE "{database}" WITH (FORCE)' if self.kind == "postgres" else f"DROP DATABASE `{database}`"
            if not keep:
                with suppress(Exception):
                    self.server.execute(drop)
                    if game.less:
                        self.server.execute(f"DROP {'ROLE' if self.kind == 'postgres' else 'USER'} IF EXISTS {USER}")
                shutil.rmtree(folder, ignore_errors=True)
        outcome.seconds = round(time.monotonic() - begun, 1)
        return outcome


class _Game:
    """One case under way."""

    def __init__(self, player: Player, case: Case, database: str, folder: Path) -> None:
        self.player, self.case, self.database, self.folder = player, case, database, folder
        self.kind, self.server = player.kind, player.server
        self.dialect, self.kinds = Dialect(self.kind), dict[str, Kind](KINDS[self.kind])
        self.schema = "public" if self.kind == "postgres" else database
        self.tables = {table.name: table for table in case.tables}
        self.open: dict[str, Session] = {}
        self.undo: list[str] = []
        self.seen: dict[str, set[Key]] = {table.name: set() for table in case.tables}
        self.passing: dict[int, list[tuple[str, set[Key]]]] = {}
        self.outcome = Outcome()
        self.copies: BinlogCopies | ArchiverCopies | DebeziumEvents | None = None
        self.behind = False
        self.less = any("partial grant" in table.features for table in case.tables)
        self.keys: dict[str, dict[Key, tuple[str, ...]]] = {table.name: {} for table in case.tables}
        self.begun = time.time()
        self.product = Product(player.kit, database, folder, less=self.less, broken=self.outcome.broken)

    # ------------------------------------------------------------------------------------------------------------- steps
    def play(self) -> Outcome:
        if self.case.method == "log":
            self.copies = self._copies()
        self._write_pipeline()
        with self._session() as session:
            for statement in self.case.prelude:
                session.rows(statement)
            for table in self.case.tables:
                for statement in self.dialect.create(table):
                    if not session.does(statement):
                        self.player.say(f"not made: {session.errors[-1]}")
                        self.tables.pop(table.name, None)
        if self.kind == "postgres":
            self.server.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {self.server.user}", database=self.database)
        if self.less:
            grant_less(self.server, self.database, list(self.tables.values()), self.dialect)
        if self.case.method == "events" and self.player.kit.engine:
            self.copies = DebeziumEvents(self.player.kit.engine, self.server, self.case, self.database, self.folder)
        for step in self.case.steps:
            self._step(step)
        self._settle()
        return self.outcome

    def end(self) -> None:
        """Ends what is open, and takes back what was set for the whole server."""
        for session in self.open.values():
            session.close()
        if isinstance(self.copies, DebeziumEvents):
            self.copies.close()
        for statement in self.undo:
            with suppress(Exception):
                self.server.execute(statement)

    def _step(self, step: Any) -> None:
        match step:
            case Transaction():
                self._transaction(step)
            case Finish():
                self._finish(step)
            case Admin():
                for statement in step.statements:
                    self._set(self.dialect.named(statement, self.case, self.database))
            case Run():
                self._run(step)
            case LoseLedger():
                (self.folder / "ledger.db").unlink(missing_ok=True)
                self.product.failures(self.product.call("state", "rebuild", "--pipeline", "torture", "--json"))
            case Again():
                self._again(step)
            case Copy():
                if isinstance(self.copies, BinlogCopies):
                    self.copies.script(step)

    def _set(self, statement: str) -> None:
        """Changes a setting of the server; that it does not know a setting is no concern of ours."""
        with suppress(Exception):
            name = statement.removeprefix("SET GLOBAL ").partition(" = ")[0]
            if name != statement:
                [(before,)] = self.server.execute(f"SELECT @@GLOBAL.{name}")
                self.undo.append(f"SET GLOBAL {name} = {before}" if isinstance(before, int) else f"SET GLOBAL {name} = '{before}'")
            self.server.execute(statement)

    def _transaction(self, step: Transaction) -> None:
        session = self._session(step.session, step.node)
        name = f"x{id(step) % 100000}"
        try:
            if step.end is not End.AUTOCOMMIT:
                session.does(f"XA START '{name}'" if self._is_xa(step.end) else "BEGIN")
            for change in step.changes:
                self._change(session, change, step)
            if step.end is End.OPEN:
                self.open[step.name] = session
            else:
                self._end_transaction(session, step.end, name)
        finally:
            self.outcome.refused_statements += len(session.errors)
            for text in session.errors:
                self.player.say(f"refused: {text[:300]}".replace(chr(10), " "))
            if step.end is not End.OPEN:
                session.close()

    def _is_xa(self, end: End) -> bool:
        return self.kind != "postgres" and end in (End.PREPARED, End.PREPARED_ROLLBACK)

    def _change(self, session: Session, change: Change, step: Transaction) -> None:
        name = getattr(change, "table", "")
        if name and name not in self.tables:
            return
        sql = self.dialect.named(self.dialect.change(change, self.tables.get(name)), self.case, self.database)
        self.outcome.statements += 1
        in_block = step.end is not End.AUTOCOMMIT and self.kind == "postgres" and not isinstance(change, Raw)
        if in_block:
            session.does("SAVEPOINT each_one")  # a statement that is refused does not end the transaction of Postgres
        before = self._uncommitted(name)
        done = session.does(sql)
        self._note_passing(session, sql, name, self._uncommitted(name) - before, step)
        if in_block:
            session.does("RELEASE SAVEPOINT each_one" if done else "ROLLBACK TO SAVEPOINT each_one")
        table = self.tables.get(name)
        if done and table and isinstance(change, AddColumn):
            self.tables[name] = replace(table, columns=(*table.columns, change.column))
        elif done and table and isinstance(change, DropColumn):
            self.tables[name] = replace(table, columns=tuple(one for one in table.columns if one.name != change.name))

    def _uncommitted(self, name: str) -> set[Key]:
        """Returns the keys that a table has now, those of open transactions too; none where only rows that stay are read."""
        table = self.tables.get(name)
        if table is None or self.case.method == "query" or self.kind == "postgres":
            return set()
        try:
            with self._session(("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "SET lock_wait_timeout = 1")) as session:
                return set(key_texts(session.rows, table, self.kinds, server=self.kind))
        except pymysql.Error:  # a column is on its way, or the table is locked
            return set()

    def _note_passing(self, session: Session, sql: str, name: str, keys: set[Key], step: Transaction) -> None:
        """Notes the keys that come with a statement: the log has them, whatever becomes of them before somebody looks."""
        passing = self.passing.setdefault(id(session), [])
        if sql.startswith("ROLLBACK TO"):
            del passing[max((at for at, (kind, _) in enumerate(passing) if kind == "SAVEPOINT"), default=len(passing)) :]
        elif sql.startswith("SAVEPOINT"):
            passing.append(("SAVEPOINT", set()))
        elif name in self.tables:
            passing.append((name, keys))
        if step.end is End.AUTOCOMMIT:
            self._note_passed(session)

    def _note_passed(self, session: Session) -> None:
        for name, keys in self.passing.pop(id(session), ()):
            if name in self.seen:
                self.seen[name] |= keys

    def _end_transaction(self, session: Session, end: End, name: str) -> None:
        if end in (End.ROLLBACK, End.PREPARED_ROLLBACK):
            self.passing.pop(id(session), None)
        else:
            self._note_passed(session)
        if self._is_xa(end):
            last = f"XA COMMIT '{name}'" if end is End.PREPARED else f"XA ROLLBACK '{name}'"
            for statement in (f"XA END '{name}'", f"XA PREPARE '{name}'", last):
                session.does(statement)
        elif end in (End.PREPARED, End.PREPARED_ROLLBACK):
            unique = f"{self.database}_{name}"
            if session.does(f"PREPARE TRANSACTION '{unique}'"):
                session.does(f"COMMIT PREPARED '{unique}'" if end is End.PREPARED else f"ROLLBACK PREPARED '{unique}'")
        elif end is not End.AUTOCOMMIT:
            session.does("ROLLBACK" if end is End.ROLLBACK else "COMMIT")

    def _finish(self, step: Finish) -> None:
        session = self.open.pop(step.name, None)
        if session is not None:
            self._end_transaction(session, step.end, step.name)
            session.close()

    # -------------------------------------------------------------------------------------------------------------- runs
    def _run(self, step: Run) -> None:
        self._look()
        rounds, trap = ([self.dialect.named(one, self.case, self.database) for one in texts] for texts in (step.beside, step.trap))
        limit = "SET lock_timeout = '2s'" if self.kind == "postgres" else "SET lock_wait_timeout = 2"
        with beside(lambda: self._session((limit,)), rounds, trap, step.hold):
            self._copy(step.copy_kill)
            first, *rest = step.arguments
            command = (first, *rest, "--json") if first == "run" else (first, "--pipeline", "torture", *rest, "--json")
            answer = self.product.call(*command, kill=step.kill)
        self.behind = bool(self.product.failures(answer)) or answer.code is None
        self._look()

    def _again(self, step: Again) -> None:
        """Reads rows again, and compares them with the source at once."""
        self._look()
        table = self.tables.get(step.table)
        if table is None:
            return
        full, known = f"{self.schema}.{table.name}", self.keys[table.name]
        number = self.case.seed + len(self.outcome.rereads)
        request = request_of(step, table, full, known, self.begun, time.time(), number)
        if step.what is What.KEYS and not request.keys:
            return
        self._copy()
        before = self._lake_keys(table)
        answer = self.product.call(*request.arguments, kill=step.kill)
        failures = self.product.failures(answer)
        names = ", ".join(str(failure.get("error")) for failure in failures.values())
        self.outcome.rereads.append(f"{step.what} {names or ('killed' if answer.code is None else 'read')}")
        self.behind = self.behind or answer.code is None
        for failure in failures.values():
            self.player.say(f"not read again: {failure.get('error')}: {str(failure.get('what'))[:300]}")
        if answer.code == 0 and not failures:
            truths = self._truths(table)
            lake = read_lake(replay(table_folder(self.folder / "lake" / self.schema, table.name)))
            whole = with_cursor_column(table)
            found = min(([*differences_again(step, request, whole, truth, lake, before)] for truth in truths), key=len)
            self.outcome.differences.setdefault(table.name, []).extend(found)
        self._look()

    def _lake_keys(self, table: Table) -> set[Key]:
        with suppress(FileNotFoundError):
            lake = read_lake(replay(table_folder(self.folder / "lake" / self.schema, table.name)))
            return {key_of(row, table) for row in living_rows(table, lake)}
        return set()

    def _copy(self, kill: float = 0.0) -> None:
        if isinstance(self.copies, ArchiverCopies):
            self.copies.copy(self.product, kill=kill)
        elif self.copies:
            self.copies.copy()

    # ------------------------------------------------------------------------------------------------------------ the end
    def _settle(self) -> None:
        """Ends all transactions, lets time pass, runs until all is read, and judges: before and after a reconcile."""
        for name in list(self.open):
            self._finish(Finish(name=name, end=End.ROLLBACK))
        self._look()
        time.sleep(_QUIET_S if len(self.player.kit.nodes) == 1 else _QUIET_OF_A_CLUSTER_S)
        self._copy()
        if self.behind:  # what was planned and not done is done first, with the bounds that it had
            self.product.failures(self.product.call("run", "--json"))
        failures = self.product.failures(self.product.call("run", "--json"))
        self._compare(failures, reconciled=self.case.method != "query")
        if self.case.reconcile and self.case.method == "query" and not self.outcome.failed:
            arguments = ("reconcile", "--pipeline", "torture", "--rows", "--json")
            failures = self.product.failures(self.product.call(*arguments))
            self._compare(failures, reconciled=True)

    def _compare(self, failures: dict[str, dict[str, str]], *, reconciled: bool) -> None:
        whole = failures.get("") or getattr(self.copies, "refusal", None)
        for table in self.tables.values():
            full = f"{self.schema}.{table.name}"
            refused = failures.get(full) or whole
            if refused:
                self._note_refusal(table, refused)
                continue
            truths = self._truths(table)
            try:
                snapshot = replay(table_folder(self.folder / "lake" / self.schema, table.name))
                lake = read_lake(snapshot)
            except FileNotFoundError as error:
                if truths[0].rows:
                    self.outcome.differences.setdefault(table.name, []).append(f"no table: {error}")
                continue
            found = min((judge(table, one, lake, self.seen[table.name], reconciled=reconciled).differences for one in truths), key=len)
            shown = self.folder / "shown" / f"{len(table.name)}-{time.monotonic_ns()}"
            found += point_faults(snapshot, lake, table.keys, shown, random.Random(self.case.seed))
            if found:
                stage = "after reconcile" if reconciled and self.case.method == "query" else "after increments"
                self.outcome.differences.setdefault(table.name, []).extend(f"{text} ({stage})" for text in found)

    def _truths(self, table: Table) -> list[Truth]:
        """Returns what the lake may be equal to: of a table with children, its own rows, or theirs as well."""
        with self._session() as session:
            inherited = ("ONLY ", "") if "inherited" in table.features else ("",)
            whole, kinds = with_cursor_column(table), self._kinds(table)
            truths = [read_truth(session.rows, whole, kinds, server=self.kind, only=one) for one in inherited]
        self.seen[table.name] |= {key_of(row, table) for row in truths[-1].rows}
        return truths

    def _note_refusal(self, table: Table, refused: dict[str, str]) -> None:
        """Notes the name of an error: a refused table may be behind, but nothing in it may be false, and the reason must be its own."""
        text = f"{refused.get('error', '?')}: {refused.get('what', '')} {refused.get('why', '')}"
        self.outcome.refusals.setdefault(table.name, []).append(text[:400].replace("\n", " "))
        found = list(self._falsified(table))
        if "bystander" in text:
            found.append(f"refused for another table: {text[:300]}")
        if found:
            self.outcome.differences.setdefault(table.name, []).extend(f"{one} (refused)" for one in found)

    def _falsified(self, table: Table) -> Iterator[str]:
        with suppress(FileNotFoundError):
            lake = read_lake(replay(table_folder(self.folder / "lake" / self.schema, table.name)))
            yield from (f"log: {text}" for text in dict.fromkeys(lake.faults))
            yield from false_keys(table, lake)

    def _kinds(self, table: Table) -> dict[str, Kind]:
        return self.kinds | ({"cursor": self.kinds[cursor_kind(self.kind, table.cursor)]} if table.cursor else {})

    def _look(self) -> None:
        """Notes the keys that the source has now: no other may ever be in the lake."""
        with self._session() as session:
            for table in self.tables.values():
                with suppress(Exception):
                    known = key_texts(session.rows, table, self.kinds, server=self.kind)
                    self.keys[table.name] |= known
                    self.seen[table.name] |= set(known)

    def _session(self, statements: tuple[str, ...] = (), node: int = 0) -> Session:
        if len(self.player.kit.nodes) > 1:  # each statement sees what was committed on any node before it
            statements = ("SET SESSION wsrep_sync_wait = 15", *statements)
        return Session(self.kind, self.player.kit.nodes[node], self.database, statements)

    def _copies(self) -> BinlogCopies | ArchiverCopies:
        folder = self.folder / "binlogs"
        if self.case.archiver:
            return ArchiverCopies(self.server, folder, self.outcome.differences.setdefault("", []))
        return BinlogCopies(self.server, folder)

    def _write_pipeline(self) -> None:
        (self.folder / "pipelines").mkdir()
        first = self.copies.first if isinstance(self.copies, ArchiverCopies) else ""
        text = pipeline_file(self.case, schema=self.schema, folder=str(self.folder), first=first)
        (self.folder / "pipelines" / "torture.yaml").write_text(text, "utf-8")
