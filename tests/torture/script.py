"""A case for people: the pipeline file, and what each session and the command line do, in order."""

from collections.abc import Iterator

from tests.torture.model import Admin, Again, Case, Copy, End, Finish, LoseLedger, Run, Step, Transaction, What
from tests.torture.render import Dialect, pipeline_file


def script_of(case: Case) -> str:
    """Returns a script of SQL and YAML that shows a case."""
    schema = "public" if case.server == "postgres" else "torture"
    file = pipeline_file(case, schema=schema, folder="/tmp/torture")
    return "\n".join((f"-- {case.server}, {case.method} method, from seed {case.seed}", *_lines(case), "", "# torture.yaml", file))


def _lines(case: Case) -> Iterator[str]:
    dialect = Dialect(case.server)
    for statement in case.prelude:
        yield f"{statement};"
    for table in case.tables:
        yield from (f"{statement};" for statement in dialect.create(table))
    for step in case.steps:
        yield from (dialect.named(line, case, "torture") for line in _step(step, case, dialect))


def _step(step: Step, case: Case, dialect: Dialect) -> Iterator[str]:
    match step:
        case Transaction():
            head = f"session {step.name} stays open" if step.end is End.OPEN else f"a session: {step.end}"
            yield f"-- {head}{f', on node {step.node}' if case.nodes > 1 else ''}"
            yield from (f"{one};" for one in step.session)
            if step.end is not End.AUTOCOMMIT:
                yield "BEGIN;"
            yield from (f"{dialect.change(one, case.table(getattr(one, 'table', '')))};" for one in step.changes)
            if step.end not in (End.AUTOCOMMIT, End.OPEN):
                yield f"-- {step.end}"
        case Finish():
            yield f"-- session {step.name}: {step.end}"
        case Admin():
            yield from (f"{one};  -- by the administrator" for one in step.statements)
        case Run():
            yield from _run(step)
        case Again():
            kill = f", killed after {step.kill:.0%} of its time" if step.kill else ""
            yield f"-- $ cdc-ops reads again {step.what} of {step.table}: {_detail(step)}{kill}"
        case LoseLedger():
            yield "-- $ rm ledger.db; cdc-ops state rebuild"
        case Copy():
            yield "-- binlogs are copied"


def _run(step: Run) -> Iterator[str]:
    kill = f", killed after {step.kill:.0%} of its time" if step.kill else ""
    if step.copy_kill:
        yield f"-- $ cdc-ops archive, killed after {step.copy_kill:.0%} of its time"
    yield f"-- $ cdc-ops {' '.join(step.arguments)}{kill}"
    yield from (f"--   beside it, again and again, each open for {step.hold} s: {one}" for one in step.beside)
    if step.trap:
        yield f"--   beside it, held open until a reader of rows waits, then committed: {step.trap[0]}; afterwards: {step.trap[1]}"


def _detail(step: Again) -> str:
    texts = {
        What.KEYS: f"{step.keys} keys that it has or has had",
        What.RANGE: f"from {step.share[0]:.0%} to {step.share[1]:.0%} of the time since the case began",
        What.COLUMNS: ", ".join(step.columns),
        What.FULL: "all",
    }
    return texts[step.what]
