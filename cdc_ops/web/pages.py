"""What each address of the status page answers: the ledger is read, `view` and `listing` decide, a template writes it down."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from fastapi import Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from cdc_ops import __version__
from cdc_ops.core.approvals import ApprovalStatus
from cdc_ops.core.operation.run_request import ledger_run_id
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import plural
from cdc_ops.errors import CdcError
from cdc_ops.metrics.exposition import negotiated_text
from cdc_ops.metrics.families import read_families
from cdc_ops.state.base import StateReader, TableOverview
from cdc_ops.web import view, words
from cdc_ops.web.history import History, charts
from cdc_ops.web.listing import PAGE, Listing, Pager, Shown, Sort, listed, part_of
from cdc_ops.web.run_forms import run_forms
from cdc_ops.web.summary import DayOfRows, summaries
from cdc_ops.web.table_health import column_changes, comparisons, holds, questions, run_summary, worst_first
from cdc_ops.web.versions import file_changes
from cdc_ops.web.view import Health, PipelineInfo

HISTORY = 500
"""Runs of a table that its charts show."""

RUNS = 50
"""Of them, how many are listed on one page."""

QUESTIONS = 20
"""Questions to people that the page of a table shows."""

RUN_TABLES = 1000
"""Tables of a run that its pages show."""

OPEN_QUESTIONS = 200
"""Open questions that the overview shows, the newest ones."""

EVERY = 60
"""Seconds after which a page that is open asks for itself again."""

VERSIONS = 20
"""Versions of a pipeline's file of which the changes are shown."""

READINGS = 3
"""How often the overview reads the ledger at most, where runs change its tables in between."""

SCRIPTS = ("page.js", "forms.js")
"""Files that browsers run."""

Visible = Mapping[str, PipelineInfo] | None
"""Pipelines that a visitor may see, with what is known of them; None = all."""

FindTask = Callable[[str, str, str], str]
"""Returns where in a run's page in Airflow the work on a table is shown, as the rest of the run's address, from the DAG's id, the run's id
in Airflow and the table's name; "" for the run itself."""


def of_run(dag_id: str, run_id: str, table: str) -> str:
    """Finds the run itself."""
    return ""


class Pages:
    """Renders pages; an error of the ledger becomes a page too.

    Args:
        reader_factory: Returns the ledger.
        find_task: Finds the work on a table in Airflow.
    """

    def __init__(self, reader_factory: Callable[[], StateReader], find_task: FindTask = of_run) -> None:
        self._reader = reader_factory
        self._find_task = find_task
        self._rows = DayOfRows()
        self._jinja = Environment(
            loader=PackageLoader("cdc_ops.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self.style = (files("cdc_ops.web") / "style.css").read_text("utf-8")
        self.scripts = {name: (files("cdc_ops.web") / name).read_text("utf-8") for name in SCRIPTS}
        integrity = {name: _digest(text) for name, text in self.scripts.items()}
        self._jinja.globals.update(version=__version__, Health=Health, Sort=Sort, every=EVERY, integrity=integrity)
        self._jinja.filters.update(
            {one.__name__: one for one in (words.duration, words.ago, words.size, words.instant, words.took, words.spent, plural)}
        )
        for name in self._jinja.list_templates(extensions=["html"]):
            self._jinja.get_template(name)  # compiled here, and not while the first visitor waits

    def overview(self, visible: Visible, wanted: Listing) -> HTMLResponse:
        """The tables that the visitor wants to see, of those that they may see."""
        try:
            reader = self._reader()
            now, infos = reader.now(), visible or {}
            for _ in range(READINGS):
                glances = (one for one in reader.glances() if visible is None or one.pipeline in visible)
                signs = view.table_signs(glances, infos, now)
                shown = listed(signs, wanted)
                rows = view.table_rows(_in_order(shown, reader), infos, now)
                if [row.glance for row in rows] == [sign.glance for sign in shown.signs]:
                    break  # no run has changed a table between the two: the order, the sums and the lines are of one moment
            asked = [one for one in reader.approvals(status=ApprovalStatus.ASKED, limit=OPEN_QUESTIONS) if one.is_open(now)]
            written = self._rows.of(reader, now)
        except CdcError as error:
            return self._unavailable(error)
        newest_last = asked[::-1]
        return self._page(
            "overview.html",
            now=now,
            total=len(signs),
            wanted=wanted,
            shown=shown,
            rows=rows,
            pager=wanted.pager(shown),
            summaries=[one for one in summaries(signs, asked, written) if wanted.pipeline in ("", one.name)],
            waiting={(one.pipeline, one.table): text for one, text in zip(newest_last, questions(newest_last, now), strict=True)},
            info=infos.get(wanted.pipeline, PipelineInfo()),
            pipelines=sorted({sign.pipeline for sign in signs}),
            restricted=visible is not None,
        )

    def pipeline(self, visible: Visible, name: str) -> HTMLResponse:
        """A pipeline's file as its runs have it, and its changes."""
        try:
            reader = self._reader()
            now = reader.now()
            allowed = visible is None or name in visible
            versions = reader.pipeline_versions(name, limit=VERSIONS + 1) if allowed else ()
        except CdcError as error:
            return self._unavailable(error)
        return self._page(
            "pipeline.html",
            200 if allowed else 404,
            now=now,
            name=name,
            info=(visible or {}).get(name, PipelineInfo()),
            newest=next(iter(versions), None),
            changes=file_changes(versions)[:VERSIONS],
        )

    def of_dag(self, visible: Visible, dag_id: str) -> HTMLResponse:
        """The tables of a DAG's pipeline, for the tab on the DAG."""
        pipeline = _pipeline_of(visible, dag_id)
        return self._foreign(dag_id) if pipeline is None else self.overview(visible, Listing(pipeline=pipeline))

    def run(self, visible: Visible, pipeline: str | None, run_id: str, dag_id: str = "", page: int = 1) -> HTMLResponse:
        """What one run did with each table; also the tab on a run of a DAG, which gives the DAG in place of the pipeline."""
        if pipeline is None:
            pipeline, run_id = _pipeline_of(visible, dag_id), ledger_run_id(run_id, reconcile_dag=_reconciles(visible, dag_id))
        if pipeline is None:
            return self._foreign(dag_id)
        try:
            reader = self._reader()
            now = reader.now()
            allowed = visible is None or pipeline in visible
            lines = reader.table_runs(pipeline, run_id=run_id, limit=RUN_TABLES) if allowed else ()
        except CdcError as error:
            return self._unavailable(error)
        part = part_of(worst_first(lines), page, PAGE)
        return self._page(
            "run.html",
            now=now,
            pipeline=pipeline,
            run_id=run_id,
            lines=part.items,
            pager=Pager(address="run", query={"pipeline": pipeline, "run_id": run_id}, page=part.page, pages=part.pages),
            summary=run_summary(lines),
            most=RUN_TABLES if len(lines) == RUN_TABLES else 0,
            info=(visible or {}).get(pipeline, PipelineInfo()),
        )

    def task(self, visible: Visible, pipeline: str, name: str, run_id: str) -> Response:
        """Leads to the work of a run on a table, in Airflow: to the log of its task, or to the question that somebody has to answer."""
        info = (visible or {}).get(pipeline, PipelineInfo())
        found = info.dag_of_run(run_id)
        if found is None:
            return self._page("nowhere.html", 404, pipeline=pipeline, run_id=run_id)
        return RedirectResponse(info.run_address(run_id) + self._find_task(*found, name), 303)

    def table(self, visible: Visible, pipeline: str, name: str, page: int) -> HTMLResponse:
        """One table with its last runs; what the visitor may not see looks the same as what is not there."""
        try:
            reader = self._reader()
            now = reader.now()
            found = self._one(reader, visible, pipeline, name)
            if found is None:
                return self._page("missing.html", 404, now=now, pipeline=pipeline, name=name)
            table = found.state.table
            runs = reader.history(pipeline, table, limit=HISTORY)
            gaps, unfinished = reader.archive_gaps(pipeline, table), reader.open_numbers(pipeline, table)
            asked, findings = reader.approvals(pipeline, table, limit=QUESTIONS), reader.findings(pipeline)
        except CdcError as error:
            return self._unavailable(error)
        info = (visible or {}).get(pipeline, PipelineInfo())
        row = view.table_row(found, info, now)
        history = History(runs=runs[::-1], info=info, now=now, fresh_at=found.state.progress.fresh_at)
        part, here = part_of(runs, page, RUNS), {"pipeline": pipeline, "name": name}
        return self._page(
            "table.html",
            now=now,
            row=row,
            runs=part,
            pager=Pager(address="table", query=here, page=part.page, pages=part.pages, anchor="runs", back="Newer", on="Older"),
            charts=charts(history),
            holds=holds(row, gaps, unfinished),
            compared=comparisons(row, runs, findings),
            changes=column_changes(runs),
            questions=questions(asked, now),
            forms=run_forms(found, runs, gaps, has_database=info.has_database),
        )

    def ask(self, visible: Visible, pipeline: str, name: str) -> HTMLResponse:
        """The forms by which somebody asks for a run of one table."""
        try:
            reader = self._reader()
            now, found = reader.now(), self._one(reader, visible, pipeline, name)
            if found is None:
                return self._page("missing.html", 404, now=now, pipeline=pipeline, name=name)
            table = found.state.table
            runs, gaps = reader.history(pipeline, table, limit=HISTORY), reader.archive_gaps(pipeline, table)
        except CdcError as error:
            return self._unavailable(error)
        info = (visible or {}).get(pipeline, PipelineInfo())
        forms = run_forms(found, runs, gaps, has_database=info.has_database)
        return self._page("ask.html", now=now, pipeline=pipeline, table=table, info=info, forms=forms)

    def metrics(self, visible: Visible, accept: str) -> Response:
        """The figures of all tables that the visitor may see, in the format that the header `accept` prefers."""
        try:
            reader = self._reader()
            families = read_families(reader, (one for one in reader.overview() if visible is None or one.state.pipeline in visible))
        except CdcError as error:
            return PlainTextResponse(str(error), 503)
        text, content_type = negotiated_text(families, accept)
        return Response(text, headers={"Content-Type": content_type})

    def _one(self, reader: StateReader, visible: Visible, pipeline: str, name: str) -> TableOverview | None:
        """Returns a table; None for what the visitor may not see, as for what is not there."""
        table = _table_of(name)
        allowed = table is not None and (visible is None or pipeline in visible)
        return next(iter(reader.overview(pipeline, table)), None) if allowed else None

    def _foreign(self, dag_id: str) -> HTMLResponse:
        return self._page("foreign.html", 404, dag_id=dag_id)

    def _unavailable(self, error: CdcError) -> HTMLResponse:
        return self._page("unavailable.html", 503, error=str(error))

    def _page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        return HTMLResponse(self._jinja.get_template(template).render(values), status_code=status)


def _digest(text: str) -> str:
    """Returns what a browser checks a script by."""
    return f"sha384-{base64.b64encode(hashlib.sha384(text.encode()).digest()).decode()}"


def _in_order(shown: Shown, reader: StateReader) -> tuple[TableOverview, ...]:
    """Returns all that the ledger has of the tables of a page; one that has been forgotten since is left out."""
    wanted = [(one.pipeline, one.glance.table) for one in shown.signs]
    found = {(one.state.pipeline, one.state.table): one for one in reader.overviews(wanted)}
    return tuple(found[key] for key in wanted if key in found)


def _table_of(name: str) -> TableName | None:
    try:
        return TableName.parse(name)
    except ValueError:
        return None


def _pipeline_of(visible: Visible, dag_id: str) -> str | None:
    """Returns the pipeline of a DAG, None if the visitor sees none of that DAG."""
    return next((name for name, info in (visible or {}).items() if dag_id in info.dag_ids), None)


def _reconciles(visible: Visible, dag_id: str) -> bool:
    return any(dag_id in info.dag_ids[1:] for info in (visible or {}).values())
