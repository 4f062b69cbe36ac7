"""`cdc-ops check`: everything that a run needs is tried, one after the other, and nothing of it is changed. No Spark here.

    ledger, Java, PySpark      once
    source, clock, tables      for each pipeline; a pattern's tables that are fine share one line
    jars, target, staging      for each pipeline; a probe file is written and removed
    archiver                   where binlogs are copied: login, grants, and a probe file in the archive
    archive                    where tables are fed from one

A check that fails ends only itself. Nothing of a URL's user or password gets into a finding.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.config.connections import connection_url
from cdc_ops.core.archive.files import ListedRange
from cdc_ops.core.findings import Finding, Verdict, failed, ok, warning
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.pipeline.archive_config import store_options
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.pipeline.tables.dropped_tables import DroppedTables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import some_of
from cdc_ops.errors import CdcError, ConfigError, EnvironmentSetupError, LedgerUnavailableError, SourceTableError, StateError
from cdc_ops.lake.spark.jars import DEFAULT, S3A, Coordinate, is_unfilled
from cdc_ops.lake.spark.probes import SUPPORTED_JAVA, broken_jars, java_version, probe_folder, probe_server
from cdc_ops.sources.base import Source
from cdc_ops.state.health import ledger_health
from cdc_ops.state.sql import open_reader
from cdc_ops.steps.planning.warnings import event_key_warnings, key_warnings
from cdc_ops.steps.table.entries import matched_entries
from cdc_ops.steps.table.missing_tables import IF_ON_PURPOSE, missing_tables
from cdc_ops.steps.table.source_table import read_source_table

CLOCKS_APART: Final = 5.0
"""Seconds by which the clocks of source and ledger may differ."""

_DEPTH: Final = 20
_FLUSH: Final = ", and close the newest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the checks start from.

    Args:
        ledger: URL of the ledger.
        jars: Folder of jars, None where Spark resolves them.
        connect: Opens the source of a pipeline.
        code: The exit code of an error.
        environ: Where connections are looked up.
    """

    ledger: str
    jars: Path | None
    connect: Callable[[Pipeline], Source]
    code: Callable[[CdcError], int]
    environ: Mapping[str, str]


def check_machine(around: Surroundings) -> Iterator[Finding]:
    """Checks what all pipelines share: ledger, Java, PySpark."""
    yield from _tried(around, "ledger", lambda: _ledger(around))
    yield from _tried(around, "Java", _java)
    yield from _tried(around, "PySpark", _pyspark)


def check_pipeline(around: Surroundings, pipeline: Pipeline) -> Iterator[Finding]:
    """Checks what one pipeline needs."""
    for finding in _pipeline(around, pipeline):
        yield replace(finding, pipeline=pipeline.name)


def _pipeline(around: Surroundings, pipeline: Pipeline) -> Iterator[Finding]:
    configs: tuple[TableConfig, ...] = ()
    try:
        source = around.connect(pipeline)
    except CdcError as error:
        yield _hidden(around, pipeline, replace(failed("source", error), code=around.code(error)))
    else:
        with closing(source):
            found = list(_source(around, pipeline, source))
            yield from (_hidden(around, pipeline, one) for one in found)
            if found[0].verdict is not Verdict.FAILED:
                tried: list[TableConfig] = []
                yield from (_hidden(around, pipeline, one) for one in _tables(around, pipeline, source, tried))
                configs = tuple(tried)
    rest: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("Spark server", lambda: _server(pipeline)) if pipeline.spark.connect else ("jars", lambda: _jars(around, pipeline)),
        ("target", lambda: _folder("target", pipeline.target.root)),
        ("staging", lambda: _folder("staging", pipeline.target.staging)),
    )
    if pipeline.archive.copy.is_set:
        rest += (("archiver", lambda: _archiver(around, pipeline)),)
    for what, check in rest:
        yield from (_hidden(around, pipeline, one) for one in _tried(around, what, check))
    places = sorted({pipeline.archive.location(one.table) for one in configs if one.settings.method is Method.LOG and pipeline.archive.url})
    for place in places:
        looked = _tried(around, "archive", lambda place=place: _archive(pipeline, place))  # type: ignore[misc]
        yield from (_hidden(around, pipeline, one) for one in looked)


def _tried(around: Surroundings, what: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yields what a check finds; an error of the package is what it found last."""
    try:
        yield from check()
    except CdcError as error:
        yield replace(failed(what, error), code=around.code(error))


def _ledger(around: Surroundings) -> Iterator[Finding]:
    health = ledger_health(around.ledger)
    if health.version is None:
        yield ok("ledger", f"{health.safe_url}: reachable; there is no ledger yet, the first run creates it")
        if health.safe_url.startswith("sqlite"):
            probe_folder(str(Path(around.ledger.partition("///")[2].partition("?")[0]).absolute().parent))
    elif not health.current:
        yield warning("ledger", f"{health.safe_url}: version {health.version}, of an older cdc-ops", "Nothing: the next run upgrades it.")
    else:
        yield ok("ledger", f"{health.safe_url}: version {health.version}, may be written")


def _java() -> Iterator[Finding]:
    text, number = java_version()
    if number in SUPPORTED_JAVA:
        yield ok("Java", text)
    elif number > SUPPORTED_JAVA[0]:
        yield warning("Java", f"{text}; Spark 4 is made for 17 and 21", "Install Java 17 or 21, or set JAVA_HOME to one.")
    else:
        raise EnvironmentSetupError(f"Java {text} is too old.", why="Spark 4 needs 17 or 21.", next="Install one, or set JAVA_HOME to it.")


def _pyspark() -> Iterator[Finding]:
    try:
        yield ok("PySpark", f"{version('pyspark')}, Delta {version('delta-spark')}")
    except PackageNotFoundError as error:
        raise EnvironmentSetupError(f"{error.name} is not installed.", next="pip install -c constraints.txt .") from None


def _source(around: Surroundings, pipeline: Pipeline, source: Source) -> Iterator[Finding]:
    if pipeline.source.is_declared:
        yield ok("source", "declared in the pipeline file: there is no server to connect to")
        return
    lookback = pipeline.tables[0].settings.load.lookback
    try:
        access = source.access(lookback)
    except CdcError as error:
        yield replace(failed("source", error), code=around.code(error))
        return
    yield ok("source", f"{access.place}: {access.version}, as {access.account}")
    if access.missing_grant:
        seen, _, grant = access.missing_grant.partition(" Grant it: ")
        yield warning("open writers", seen, f"Grant it: {grant}" if grant else "Grant the user the right to see other sessions.")
    else:
        yield ok("open writers", "the user sees who still writes, so that windows end safely below them")
    if access.replica:
        yield warning("replica", access.replica)
    yield from _tried(around, "clock", lambda: _clock(around, source))


def _clock(around: Surroundings, source: Source) -> Iterator[Finding]:
    before = datetime.now(UTC)
    at_source = source.now()
    between = datetime.now(UTC)
    at_ledger = ledger_health(around.ledger).now
    after = datetime.now(UTC)
    # Each clock against this machine's, in the middle of asking.
    apart = (at_source - (before + (between - before) / 2)) - (at_ledger - (between + (after - between) / 2))
    seconds = apart.total_seconds()
    text = f"the source's clock is {abs(seconds):.1f} s {'ahead of' if seconds >= 0 else 'behind'} the ledger's"
    if abs(seconds) < CLOCKS_APART:
        yield ok("clock", text)
    else:
        yield warning("clock", f"{text}; freshness is shown wrong by that much, rows are right", "Let both follow a time server (NTP).")


def _tables(around: Surroundings, pipeline: Pipeline, source: Source, tried: list[TableConfig]) -> Iterator[Finding]:
    """Looks at each table of a pipeline; `tried` gets those that there are."""
    try:
        there = source.tables()
    except CdcError as error:
        yield replace(failed("tables", error), code=around.code(error))
        return
    configs, wrong = matched_entries(pipeline, there)
    tried += configs
    missing = tuple(_missing(around, pipeline, there))
    yield from missing
    known = {one.what for one in missing}
    yield from (replace(failed(name, error), code=around.code(error)) for name, error in wrong if name not in known)
    fine: list[str] = []
    for config in configs:
        name = str(config.table)
        found = tuple(_tried(around, name, lambda config=config: _table(pipeline, source, config)))  # type: ignore[misc]
        yield from found
        fine += () if found else (name,)
    if fine:
        yield ok("tables", f"{some_of(fine)}: may be read; keys, cursors and indexes are as they should be")
    compared = [str(one.table) for one in configs if not one.settings.load.cursor and one.settings.method is Method.QUERY]
    if compared:
        yield ok("no cursor", f"{some_of(compared)}: each run compares the whole table with the source")


def _missing(around: Surroundings, pipeline: Pipeline, there: tuple[TableName, ...]) -> Iterator[Finding]:
    """Yields the tables that were copied and that the source does not show; a ledger that does not answer is a finding of its own."""
    with closing(open_reader(around.ledger)) as ledger:
        try:
            found = missing_tables(pipeline, ledger, there)
        except SourceTableError as error:
            yield replace(failed("tables", error), code=around.code(error))
            return
        except (ConfigError, StateError, LedgerUnavailableError):  # of entries, and of the ledger: told where these are checked
            return
    for config, absence in found:
        seen = absence.idle.removesuffix(f" {IF_ON_PURPOSE}")
        if absence.error is not None:
            yield replace(failed(str(config.table), absence.error), code=around.code(absence.error))
        elif config.settings.apply.dropped_tables is DroppedTables.IGNORE:
            yield ok(str(config.table), seen)
        else:
            yield warning(str(config.table), seen, IF_ON_PURPOSE)


def _table(pipeline: Pipeline, source: Source, config: TableConfig) -> Iterator[Finding]:
    """Yields what is wrong with a table, or could be better; nothing for one that is fine."""
    source_table = read_source_table(pipeline, source, config)
    if not pipeline.source.is_declared:
        source.count(config.table, "", 1)  # what the catalog shows may still not be read
    new = TableState(pipeline=config.pipeline, table=config.table)
    for text in (*source_table.warnings, *key_warnings(source_table, new), *event_key_warnings(source_table)):
        seen, mark, statement = text.partition(": every run reads the whole table. ")
        yield warning(str(config.table), f"{seen}{mark}".strip().rstrip(".:"), statement) if mark else warning(str(config.table), text)


def _jars(around: Surroundings, pipeline: Pipeline) -> Iterator[Finding]:
    folder = Path(pipeline.spark.jars) if pipeline.spark.jars else around.jars
    if folder is None:
        yield warning(
            "jars",
            "no folder: Spark resolves them at every start, which takes seconds and a network, and s3a:// is not among them",
            "python -m cdc_ops.lake.spark.jars FOLDER, and set CDC_OPS_JARS to it.",
        )
        return
    if is_unfilled(folder):
        seen = f"{folder} is empty: 'cdc-ops run' fills it once, 31 MB; a run in Airflow does not"
        yield warning("jars", seen, f"At once: python -m cdc_ops.lake.spark.jars {folder}")
        return
    on_s3 = any(one.startswith(("s3a:", "s3:")) for one in (pipeline.target.root, pipeline.target.staging, pipeline.archive.url))
    needed = broken_jars(folder, _needed(on_s3))
    if needed:
        raise EnvironmentSetupError(
            f"Jars are missing in {folder}, or not whole: {some_of(needed)}",
            why="They were never fetched, for another version of cdc-ops, or the download broke off.",
            next=f"python -m cdc_ops.lake.spark.jars {folder}",
        )
    yield ok("jars", f"{folder}: complete")


def _server(pipeline: Pipeline) -> Iterator[Finding]:
    probe_server(pipeline.spark.connect)
    yield ok("Spark server", f"{pipeline.spark.connect}: listens; each run checks its versions and settings")


def _needed(on_s3: bool) -> tuple[Coordinate, ...]:
    return DEFAULT if on_s3 else tuple(one for one in DEFAULT if one not in S3A)


def _folder(what: str, path: str) -> Iterator[Finding]:
    probe_folder(path)
    if path.startswith("s3://"):
        yield warning(what, f"{path}: Spark has a file system for s3:// only where a cluster brings one", f"Write s3a{path[2:]}.")
        return
    yield ok(what, f"{path}: a probe file was written, read and removed")


def _archiver(around: Surroundings, pipeline: Pipeline) -> Iterator[Finding]:
    from cdc_ops.sources.mysql.binlogs.server import BinlogServer

    rules = pipeline.archive
    with closing(BinlogServer(connection_url(rules.copy.connection, around.environ))) as server:
        identity = server.may_be_copied(flush=rules.copy.flush)
        yield ok("archiver", f"{server.place}: {identity.version}; the user may list and read the binlogs{_FLUSH * rules.copy.flush}")
    probe_folder(rules.url, store_options(dict(rules.options)))
    yield ok("archiver", f"{rules.url}: a probe file was written, read and removed")


def _archive(pipeline: Pipeline, place: str) -> Iterator[Finding]:
    with closing(open_archive(place, dict(pipeline.archive.options))) as archive:
        path = _some_file(archive)
        if path is None:
            fill = f"cdc-ops archive --pipeline {pipeline.name}" if pipeline.archive.copy.is_set else "Start the tool that writes it"
            yield warning("archive", f"{place}: no file yet", f"{fill}, or correct 'url' of 'archive'.")
            return
        archive.head(path, 1)
        yield ok("archive", f"{place}: files are listed and read")


def _some_file(archive: Archive) -> str | None:
    """Returns the path of a file: of the last folder that has one, so that not all of a large archive is listed."""
    within = ""
    for _ in range(_DEPTH):
        below = archive.folders(within)
        if not below:
            break
        within = below[-1]
    files = archive.list([ListedRange(prefix=within)]).files
    return files[-1].path if files else None


def _connections(pipeline: Pipeline) -> tuple[str, ...]:
    source = pipeline.source
    return (source.connection, source.snapshot_connection, *source.writers, pipeline.archive.copy.connection)


def _hidden(around: Surroundings, pipeline: Pipeline, finding: Finding) -> Finding:
    """Takes passwords out of what servers and drivers said: they never belong there."""
    secrets = [value for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN") if (value := around.environ.get(name, ""))]
    for name in _connections(pipeline):
        try:
            secrets.append(ConnectionUrl.parse(connection_url(name, around.environ)).password if name else "")
        except CdcError:
            continue
    seen, next_ = finding.seen, finding.next
    for secret in filter(None, secrets):
        seen, next_ = seen.replace(secret, "***"), next_.replace(secret, "***")
    return replace(finding, seen=seen, next=next_)
