"""What people read in Airflow: the trigger form of a pipeline's DAG and the text on its page, both generated from the pipeline.

Airflow's form takes a field whose type lacks "null" as required, and an empty text as missing: one such field makes its buttons grey, those
of the trigger and of the backfill. So all that may be empty is None and of a type with "null"; only choices and switches are required.
"""

from typing import Any, Final

from airflow.sdk import Param

from cdc_ops.airflow.run_conf import INCREMENT, MODES
from cdc_ops.core.operation.run_request import ResyncMode
from cdc_ops.core.pipeline.airflow_settings import Downstream
from cdc_ops.core.pipeline.pipeline import ARCHIVE, Pipeline, TableRule

_SECTION = "Read again (the watermark stays)"
_GAPS = "Gaps of the archive"
_DECLARED_MODES = (INCREMENT, ResyncMode.QUARANTINE.value, ResyncMode.REPLAY.value)
"""What can be asked of tables without a database."""
_TEXT: Final = ["null", "string"]
_LINES: Final = ["null", "array"]
_SHOWN = 200
"""Entries of tables that the page lists; beyond it only their number helps."""

_MODE_TEXTS = {
    INCREMENT: "increment: new changes, as in a scheduled run",
    "keys": "keys: read these rows of one table again",
    "range": "range: read the changes between since and until again",
    "full": "full: read all rows again",
    "quarantine": "quarantine: records of the archive that were set aside, by the settings of now",
    "replay": "replay: apply the event history again, from since on; without since, rebuild the table",
    "reconcile": "reconcile: compare by checksums; copy rows that differ, delete rows that the source lacks",
}


def params(pipeline: Pipeline) -> dict[str, Param]:
    """Returns the trigger form; every field has a valid default, with which Airflow's form can be sent, as a DAG with a schedule needs."""
    modes = _DECLARED_MODES if pipeline.source.is_declared else MODES
    exact = sorted(rule.pattern for rule in pipeline.tables if not rule.exclude)
    choice: dict[str, Any] = {} if any(rule.is_pattern for rule in pipeline.tables) else {"examples": exact}
    instant: dict[str, Any] = {"type": _TEXT, "format": "date-time", "section": _SECTION}
    tables = "schema.table, one per line; empty = all tables of the pipeline."
    return {
        "tables": Param(None, type=_LINES, title="Tables", description=tables, **choice),
        "mode": Param(
            INCREMENT,
            type="string",
            enum=list(modes),
            values_display={mode: _MODE_TEXTS[mode] for mode in modes},
            title="What to read",
            description="Only an increment moves the watermark. The other modes read rows again and merge them.",
        ),
        "since": Param(None, title="Since", description="Modes range and replay: from this instant on, with its time zone.", **instant),
        **({} if pipeline.source.is_declared else _of_a_database(instant)),
        **(_of_an_archive() if pipeline.archive.url else {}),
        "downstream": Param(
            None,
            type=_TEXT,
            enum=[None, *(one.value for one in Downstream)],
            values_display={"None": "as the pipeline says", "events": "events: tell them", "silent": "silent: do not tell them"},
            title="DAGs behind the tables",
            description="Of backfills, and of modes that read rows again: whether they emit asset events. After a silent run the next"
            " event's range of Delta versions has these commits too.",
            section=_SECTION,
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only say what would be done: tables, windows, rows and cost, in the log of 'discover'. Nothing is written.",
        ),
        "accept_cost": Param(
            False,
            type="boolean",
            title="Accept the cost",
            description="Run although the estimate is above max_cost. The log of the run that was refused shows the estimate.",
        ),
    }


def _of_a_database(instant: dict[str, Any]) -> dict[str, Param]:
    """Returns the fields of what reads rows at the source."""
    return {
        "until": Param(None, title="Until", description="Mode range: up to this instant (excluded).", **instant),
        "keys": Param(
            None,
            type=_LINES,
            title="Keys",
            description="Mode keys: one row per line. Separate parts of a composite key by commas; put a part with a comma or outer"
            " blanks in double quotes. Rows that the source lacks are deleted.",
            section=_SECTION,
        ),
        "columns": Param(
            None,
            type=_LINES,
            title="Columns",
            description="Mode increment: fill these columns, one a line, in the rows that the lake has; all rows, or since to until."
            " A name that begins or ends with a blank stands in double quotes.",
            section=_SECTION,
        ),
        "accept_deletes": Param(
            None,
            type=["null", "string", "integer"],
            minimum=0,
            pattern=r"^(\d+|\d{1,3}(\.\d+)?\s*%)?$",
            examples=["500", "30%"],  # with them Airflow asks in one line, without them in a box for JSON
            title="Accept deletes",
            description="Mode reconcile, one table: delete up to this number of rows (500) or share (30%), above its limits.",
            section=_SECTION,
        ),
        "accept_server": Param(
            False,
            type="boolean",
            title="Accept the server",
            description="Mode increment, after SourceServerChangedError: your word that the server that answers now has all that the one"
            " before it had committed, and that its clock is not behind. A reconcile proves it instead.",
        ),
    }


def _of_an_archive() -> dict[str, Param]:
    """Returns the fields of what is missing in an archive."""
    return {
        "accept_gaps": Param(
            None,
            type=_LINES,
            title="Accept gaps",
            description="Mode increment, with tables: names of gaps, one a line, as the table's page shows them. Their events are given up,"
            " and the tables go on behind them.",
            section=_GAPS,
        ),
        "why": Param(None, type=_TEXT, title="Why", description="Why the loss is acceptable. The ledger keeps it.", section=_GAPS),
    }


def reconcile_params(pipeline: Pipeline) -> dict[str, Param]:
    """Returns the trigger form of the DAG that reconciles."""
    wanted = params(pipeline)
    return {name: wanted[name] for name in ("tables", "accept_deletes", "dry_run", "accept_cost")}


def doc_md(pipeline: Pipeline) -> str:
    """Returns the text on the DAG's page: what is kept equal, by what, and where."""
    rules = [rule for rule in pipeline.tables if not rule.exclude]
    excluded = ", ".join(f"`{rule.pattern}`" for rule in pipeline.tables if rule.exclude)
    rows = [_row(pipeline, rule) for rule in rules[:_SHOWN]]
    more = [f"\n... and {len(rules) - _SHOWN} more."] if len(rules) > _SHOWN else []
    left_out = [f"\nLeft out: {excluded}."] if excluded else []
    times = [f"`{pipeline.cron}` ({pipeline.airflow.time_zone})"] if pipeline.cron else []
    files = ["new files in the archive"] if pipeline.watches_archive else []
    assets = [f"asset `{name}`" for name in pipeline.runs.start_on if name != ARCHIVE]
    schedule = ", or on ".join((*times, *files, *assets)) or "none: triggered manually or by other DAGs"
    facts = (
        f"- **Source:** {_source_of(pipeline)}\n"
        f"- **Target:** `{pipeline.target.root}`\n"
        f"- **Spark:** connection `{pipeline.spark.connection}`, {pipeline.runs.tables_per_job} tables per application\n"
        f"- **Schedule:** {schedule}\n"
    )
    head = f"{pipeline.info.description}\n\n" if pipeline.info.description else ""
    table = "\n".join(["| tables | cursor | keys | lookback |", "|---|---|---|---|", *rows, *more, *left_out])
    return f"{head}{facts}\n{table}\n\n{_USAGE}"


def _source_of(pipeline: Pipeline) -> str:
    if pipeline.source.is_declared:
        return f"the archive `{pipeline.archive.url}` alone; columns are declared in the pipeline's file"
    return f"{pipeline.source.kind} through the connection `{pipeline.source.connection}`"


def _row(pipeline: Pipeline, rule: TableRule) -> str:
    settings = rule.settings
    cursor = ", ".join(settings.load.cursor) or "none"
    keys = ", ".join(settings.keys) or "primary key"
    where = f" → `{settings.storage.path}`" if settings.storage.path else ""
    return f"| `{rule.pattern}`{where} | {cursor} | {keys} | {int(settings.load.lookback.total_seconds())} s |"


_USAGE = """\
**A scheduled run** carries every table from its watermark to a bound that the source guarantees; idle tables start no Spark.
**A backfill** of a date range reads that range again and never moves the watermark. **Trigger** with a mode to read keys, a range or
everything again. The tasks of a group of tables fail and retry for their tables only; `outcome` has one line per table."""
