"""The status page as a FastAPI application: GET only, no JavaScript, links relative so that it works under any prefix.

Who may look is decided by whoever mounts it: `dependencies` guard every route, the style sheet included, and `visible_pipelines` says which
pipelines a visitor may see. Without them the page is open, which suits a test or one's own machine.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.middleware.base import RequestResponseEndpoint

from cdc_ops import __version__
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError
from cdc_ops.metrics.families import table_families
from cdc_ops.metrics.openmetrics import CONTENT_TYPE, openmetrics_text
from cdc_ops.state.base import StateReader, TableOverview
from cdc_ops.web import view
from cdc_ops.web.view import Health, PipelineInfo

HISTORY = 50
"""Runs on the page of a table."""

Visible = Mapping[str, PipelineInfo] | None
"""Pipelines that a visitor may see, with what is known of them; None = all."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def _everything() -> Visible:
    return None


def create_app(
    reader_factory: Callable[[], StateReader],
    *,
    dependencies: Sequence[Any] = (),
    visible_pipelines: Callable[..., Visible] = _everything,
) -> FastAPI:
    """Builds the application.

    Args:
        reader_factory: Returns the ledger; called for each request, so it may fail when the ledger is away.
        dependencies: FastAPI dependencies that every request must pass.
        visible_pipelines: FastAPI dependency that returns what the visitor may see.
    """
    app = FastAPI(title="cdc-ops", dependencies=list(dependencies), openapi_url=None, docs_url=None, redoc_url=None)
    pages = _Pages(reader_factory)

    @app.middleware("http")
    async def add_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Adds the security headers to every answer."""
        response = await call_next(request)
        response.headers.update(_HEADERS)
        return response

    @app.get("/ui", response_class=HTMLResponse)
    def overview(visible: Annotated[Visible, Depends(visible_pipelines)], health: Annotated[str, Query()] = "") -> HTMLResponse:
        """Answers with the page of all tables, or those of one health; another word shows all."""
        return pages.overview(visible, Health(health) if health in list(Health) else None)

    @app.get("/table", response_class=HTMLResponse)
    def table(visible: Annotated[Visible, Depends(visible_pipelines)], pipeline: str, name: str) -> HTMLResponse:
        """Answers with the page of one table."""
        return pages.table(visible, pipeline, name)

    @app.get("/metrics")
    def metrics(visible: Annotated[Visible, Depends(visible_pipelines)]) -> Response:
        """Answers with the figures of all tables that the visitor may see, as OpenMetrics text."""
        return pages.metrics(visible)

    @app.get("/style.css")
    def style() -> Response:
        """Answers with the style sheet."""
        return Response(pages.style, media_type="text/css")

    return app


class _Pages:
    """Renders pages; an error of the ledger becomes a page too."""

    def __init__(self, reader_factory: Callable[[], StateReader]) -> None:
        self._reader = reader_factory
        self._jinja = Environment(
            loader=PackageLoader("cdc_ops.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._jinja.globals.update(version=__version__, Health=Health)
        self._jinja.filters.update(
            duration=view.duration, ago=view.ago, size=view.size, instant=view.instant, took=view.took, spent=view.spent
        )
        self.style = (files("cdc_ops.web") / "style.css").read_text("utf-8")

    def overview(self, visible: Visible, only: Health | None) -> HTMLResponse:
        """All tables that the visitor may see."""
        try:
            now, shown = self._shown(visible)
        except CdcError as error:
            return self._unavailable(error)
        infos = visible or {}
        everything = view.sections(shown, infos, now)
        return self._page(
            "overview.html",
            now=now,
            total=len(shown),
            tally=view.tally(everything),
            only=only,
            sections=everything if only is None else view.sections(shown, infos, now, only),
            pipelines=len(everything),
            restricted=visible is not None,
        )

    def table(self, visible: Visible, pipeline: str, name: str) -> HTMLResponse:
        """One table with its last runs; what the visitor may not see looks the same as what is not there."""
        try:
            reader = self._reader()
            now = reader.now()
            allowed = visible is None or pipeline in visible
            overview = next((item for item in reader.overview(pipeline) if str(item.state.table) == name), None) if allowed else None
            runs = reader.history(pipeline, TableName.parse(name), limit=HISTORY) if overview else ()
        except CdcError as error:
            return self._unavailable(error)
        if overview is None:
            return self._page("missing.html", 404, now=now, pipeline=pipeline, name=name)
        row = view.table_row(overview, (visible or {}).get(pipeline, PipelineInfo()), now)
        return self._page("table.html", now=now, row=row, runs=runs)

    def metrics(self, visible: Visible) -> Response:
        """The figures of all tables that the visitor may see."""
        try:
            now, shown = self._shown(visible)
        except CdcError as error:
            return PlainTextResponse(str(error), 503)
        return Response(openmetrics_text(table_families(shown, now)), media_type=CONTENT_TYPE)

    def _shown(self, visible: Visible) -> tuple[datetime, tuple[TableOverview, ...]]:
        """Returns the ledger's clock, and the tables that the visitor may see."""
        reader = self._reader()
        return reader.now(), tuple(item for item in reader.overview() if visible is None or item.state.pipeline in visible)

    def _unavailable(self, error: CdcError) -> HTMLResponse:
        return self._page("unavailable.html", 503, error=str(error))

    def _page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        return HTMLResponse(self._jinja.get_template(template).render(values), status_code=status)
