"""`cdc-ops verify`: compares source and lake, names the keys that differ, and with --repair reads them again."""

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cdc_ops.cli import stopping
from cdc_ops.cli.chosen.pipeline_names import Names, Tables, pipeline_argument
from cdc_ops.cli.commands.pipelines import TABLES_FAILED, TRY_AGAIN, Folder, Json, Quiet, app, guarded, isolated_errors
from cdc_ops.cli.help_format import WHICH_COMMAND
from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import Grid, print_sentence, show_grid
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.output.verbosity import verbose_option
from cdc_ops.cli.session import LocalSpark, chosen_pipelines, new_request, opened
from cdc_ops.core import json_codec
from cdc_ops.core.operation.run_request import Accepts, AskedComparison, RunKind, RunRequest
from cdc_ops.core.pipeline.tables.dropped_tables import DroppedTables
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.errors import CdcError, RequestError, from_payload

if TYPE_CHECKING:
    from cdc_ops.core.pipeline.pipeline import TableConfig
    from cdc_ops.core.reconcile.key_buckets import BucketSelection
    from cdc_ops.sources.base import Source
    from cdc_ops.steps.context import Context
    from cdc_ops.steps.planning.reconcile import VerifyPlan

logger = logging.getLogger("cdc_ops.cli")

_LONGEST_SCOPE: Final = 10_000
"""Buckets that one operation is told; where more differ, it computes its own checksums, as every reconcile does."""

_NAMED_TABLES: Final = 3
"""So many tables that differ are named in the command that repairs them; of more, it repairs the whole pipeline."""

_KINDS: Final = {"only in source": "missing", "only in lake": "extra", "different": "different", "duplicate": "duplicate"}
_BARE: Final = re.compile(r"[\w.:+-]+")


@app.command(epilog=WHICH_COMMAND)
@verbose_option
@pipeline_argument
def verify(
    folder: Folder = None,
    pipeline: Names = None,
    table: Tables = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Read the differing rows again, merge them, and compare that part again.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare source and lake, by checksums and then row by row, and name the keys that differ. Without --repair it changes no table.

    Changes that no run has copied yet show up as differences.
    """
    documents: list[dict[str, Any]] = []
    stopped: dict[str, CdcError] = {}
    with guarded(as_json, lambda: _stopped(len(documents), repair=repair)):
        request = new_request(tables=tuple(table or ()))
        pipelines = chosen_pipelines(folder, pipeline or [])
        for chosen in pipelines:
            with (
                isolated_errors(chosen.name, pipelines, stopped, as_json),
                progress(as_json or quiet),
                opened(chosen) as (context, source),
                LocalSpark(chosen) as spark,
            ):
                verifier = TableVerifier(context=context, source=source, spark=spark)
                for config in _tables(context, source, request):
                    documents.append(verifier.compare(config, repair=repair))
    failed = [{"pipeline": name, **_failed(error)} for name, error in stopped.items()]
    if as_json:
        render.print_json([*documents, *failed])
    else:
        print_verification(documents)
    if code := _exit_code([*documents, *failed]):
        raise typer.Exit(code)


def _stopped(compared: int, *, repair: bool) -> str:
    """Says what it means for the data that the command was ended."""
    changed = "What a repair had begun is planned, and the next run finishes it." if repair else "No table was changed."
    return f"{compared:,} {'table was' if compared == 1 else 'tables were'} compared before. {changed}"


def _tables(context: "Context", source: "Source", request: RunRequest) -> "tuple[TableConfig, ...]":
    """Returns what is compared: also tables that the source does not show, but for those of which that is to be ignored."""
    from cdc_ops.steps.discovery import discover_all

    discovered, listed = discover_all(context, source, request).tables, set(context.tables(source))
    named = bool(request.tables)
    return tuple(
        config
        for config in discovered
        if named or config.table in listed or config.settings.apply.dropped_tables is not DroppedTables.IGNORE
    )


def _failed(error: CdcError) -> dict[str, Any]:
    return {"equal": False, "error": error.to_payload(), "retryable": error.retryable}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVerifier:
    """What tables of a pipeline are verified and repaired with."""

    context: "Context"
    source: "Source"
    spark: LocalSpark

    def compare(self, config: "TableConfig", *, repair: bool = False) -> dict[str, Any]:
        """Compares a table and tells what was found; an error of one table leaves the others to be compared."""
        from cdc_ops.steps.verify import find_differences

        document: dict[str, Any] = {"table": str(config.table), "pipeline": config.pipeline}
        try:
            question, missing = self._question(config)
        except CdcError as error:
            return document | _failed(error)
        logger.info(f"{config.table}: comparing source and lake")
        session = self.spark.session()
        try:
            result = find_differences(session, self.source, question)
            document |= {"equal": result.comparison.equal, "not_compared": missing, "keys": list(question.keys)}
            document |= {"columns": list(question.schema.names), **json_codec.to_data(result.comparison)}
            if repair and not result.comparison.equal:
                logger.info(f"{config.table}: reading again what differs")
                document["repair"] = self._repair(config, result.scope)
            self._note(config, document)
        except CdcError as error:
            document |= _failed(error)
        return document

    def _note(self, config: "TableConfig", document: dict[str, Any]) -> None:
        """Keeps the verdict in the ledger, for `cdc-ops alerts`."""
        from cdc_ops.steps.reporting.findings import note_verification

        found = document["repair"]["left"] if "repair" in document else document
        equal = document["equal"] or ("repair" in document and document["repair"]["equal"])
        counts = {"only_in_source": "missing in the lake", "only_in_lake": "in the lake only", "different": "different"}
        counts |= {"duplicates": "duplicate"}
        told = ", ".join(f"{found[field]:,} {text}" for field, text in counts.items() if found[field])
        text = "" if equal else f"Source and lake differ in {config.table}. Rows: {told}."
        kinds = {"values": bool(found["different"]), "duplicates": bool(found["duplicates"])}
        note_verification(self.context.store, config.pipeline, config.table, text, **kinds)

    def _repair(self, config: "TableConfig", scope: "BucketSelection") -> dict[str, Any]:
        """Lets an operation read the part that differs, and compares that part again."""
        from cdc_ops.steps.runs.run import run_pipeline
        from cdc_ops.steps.verify import verify_part

        stopping.takes_leases(self.context.lease_ttl)

        known_scope = None if scope.is_whole or len(scope.members) > _LONGEST_SCOPE else scope
        tables = (str(config.table),)
        request = new_request(
            kind=RunKind.RECONCILE,
            tables=tables,
            compare=AskedComparison(strength=CompareLevel.ROWS, scope=known_scope),
            accepts=Accepts(cost=True),
        )
        report = run_pipeline(self.context, self.source, request, self.spark.execute)
        left = verify_part(self.spark.session(), self.source, self._question(config)[0], scope)
        return {"equal": left.equal, "run": render.report_data(report), "left": json_codec.to_data(left)}

    def _question(self, config: "TableConfig") -> tuple["VerifyPlan", list[str]]:
        """Returns what is compared of a table, and the columns that are not, because the lake does not have them."""
        from cdc_ops.core.schema.schema_evolution import only_columns
        from cdc_ops.lake.log.head import read_head
        from cdc_ops.steps.planning.reconcile import plan_verification
        from cdc_ops.steps.table.source_table import read_source_table

        source_table = read_source_table(self.context.pipeline, self.source, config)
        head = read_head(config.path, config.pipeline, config.table)
        if head is None:
            raise RequestError(
                f"Table {config.table} cannot be compared: there is no Delta table at {config.path}.",
                why="It has not been loaded yet.",
                data="Nothing was compared or changed.",
                next=f"cdc-ops run --pipeline {config.pipeline} --table {config.table}",
            )
        schema = only_columns(source_table.schema, (name for name, _ in head.columns))
        missing = [column.name for column in source_table.schema.columns if schema.column(column.name) is None]
        return plan_verification(self.source, replace(source_table, schema=schema), config.settings.load.parallelism), missing


def print_verification(documents: Sequence[dict[str, Any]]) -> None:
    """Shows what a comparison of source and lake found: a line for each table, then one for each key that is named."""
    from cdc_ops.core.schema.tables import TableName

    rows = [(TableName.parse(document["table"]), _row(document)) for document in documents]
    columns = ("table", "verdict", "at source", "in lake", "missing", "extra", "different")
    show_grid(render.out, Grid(title="Rows of source and lake", columns=columns, groups=render.by_schema(rows)))
    for document in documents:
        for line in _lines(document):
            print_sentence(render.out, line, name=document["table"])
    for pipeline in dict.fromkeys(document["pipeline"] for document in documents if _can_be_repaired(document)):
        differing = [one["table"] for one in documents if one["pipeline"] == pipeline and _can_be_repaired(one)]
        tables = "".join(f" --table {name}" for name in differing) if len(differing) <= _NAMED_TABLES else ""
        print_sentence(render.out, f"To repair: cdc-ops verify --pipeline {pipeline}{tables} --repair")


def _can_be_repaired(document: dict[str, Any]) -> bool:
    return not document["equal"] and "repair" not in document and "error" not in document


def _row(document: dict[str, Any]) -> tuple[str, ...]:
    if "error" in document:
        return ("[red]failed[/]", *[""] * 5)
    repaired = document.get("repair", {}).get("equal", False)
    verdict = "[green]equal[/]" if document["equal"] else "[green]repaired[/]" if repaired else "[red]differs[/]"
    return (verdict, *(f"{document[name]:,}" for name in ("rows_source", "rows_lake", "only_in_source", "only_in_lake", "different")))


def _lines(document: dict[str, Any]) -> Iterator[str]:
    """Yields what there is to say of a table below the list of all."""
    if "error" in document:
        yield str(from_payload(document["error"]))
        return
    if document.get("not_compared"):
        yield f"not compared, because the lake does not have these columns (yet): {', '.join(document['not_compared'])}"
    if document.get("kept"):
        yield f"{document['kept']:,} rows are in the lake only, and stay ('deletes: ignore')"
    yield from _keys(document)
    if "repair" in document:
        yield from _repaired(document["repair"])


def _keys(document: dict[str, Any]) -> Iterator[str]:
    samples = document.get("samples") or ()
    if samples and not document["keys"]:
        yield "the table has no keys: all values identify a row"
    for kind, values in samples:
        yield f"{_KINDS[kind]:9} {named(document['keys'] or document['columns'], values)}"
    counts = {"only in source": "only_in_source", "only in lake": "only_in_lake", "different": "different"}
    shown = {kind: sum(sample[0] == kind for sample in samples) for kind in counts}
    more = [f"{document[field] - shown[kind]:,} {_KINDS[kind]}" for kind, field in counts.items() if document[field] > shown[kind]]
    if more:
        yield f"and more: {', '.join(more)}"
    if document.get("duplicates"):
        yield f"{document['duplicates']:,} rows are duplicates: their keys appear several times"


def named(columns: Sequence[str], values: Sequence[str]) -> str:
    """Returns a key as people read it: each value behind the name of its column, in quotes where it would not be told from the rest."""
    shown = (value if _BARE.fullmatch(value) else json.dumps(value, ensure_ascii=False) for value in values)
    return ", ".join(f"{column}={value}" for column, value in zip(columns, shown, strict=True))


def _repaired(repair: dict[str, Any]) -> Iterator[str]:
    run, left = repair["run"], repair["left"]
    for failure in run["failures"]:
        yield f"not repaired: {failure['what']}" + (f" Next: {failure['next']}" if failure.get("next") else "")
    for table in run["tables"]:
        counts = table["counts"]
        if table["status"] == "committed":
            changes = f"{counts['inserted']:,} inserted, {counts['updated']:,} updated, {counts['deleted']:,} deleted"
            yield f"repaired: {changes}; the watermark stays"
    if repair["equal"]:
        yield "compared again: the rows are equal now"
        return
    still = f"{left['only_in_source']:,} missing, {left['only_in_lake']:,} extra, {left['different']:,} different"
    yield f"compared again: {still}" + (f", {left['duplicates']:,} duplicates" if left["duplicates"] else "")
    if left["duplicates"]:
        yield "next: cdc-ops resync --mode full removes duplicate rows"


def _exit_code(documents: Sequence[dict[str, Any]]) -> int:
    """Returns 0 if all is equal, or was made so."""
    bad = [document for document in documents if not (document["equal"] or document.get("repair", {}).get("equal"))]
    if not bad:
        return 0
    return TRY_AGAIN if all(document.get("retryable") for document in bad) else TABLES_FAILED
