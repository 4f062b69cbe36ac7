"""The status page as a FastAPI application: GET only, links relative so that it works under any prefix.

Its scripts are files of their own: one keeps an open page up to date and follows Airflow's colours, one sends forms to Airflow's API and
copies commands. Without them the page stays as it was when it was opened, and shows commands.

Who may look is decided by whoever mounts it: `dependencies` guard every route, style sheet and script included, and `visible_pipelines`
says which pipelines a visitor may see. Without them the page is open, which suits a test or one's own machine.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.middleware.base import RequestResponseEndpoint

from cdc_ops.state.base import StateReader
from cdc_ops.web.listing import Listing, page_number
from cdc_ops.web.pages import FindTask, Pages, Visible, of_run

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'self'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def _everything() -> Visible:
    return None


def _file(text: str, media_type: str) -> Callable[[], Response]:
    def file() -> Response:
        """Answers with the style sheet or a script."""
        return Response(text, media_type=media_type)

    return file


async def _add_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """Adds the security headers to an answer."""
    response = await call_next(request)
    response.headers.update(_HEADERS)
    return response


def create_app(
    reader_factory: Callable[[], StateReader],
    *,
    dependencies: Sequence[Any] = (),
    visible_pipelines: Callable[..., Visible] = _everything,
    find_task: FindTask = of_run,
) -> FastAPI:
    """Builds the application.

    Args:
        reader_factory: Returns the ledger; called for each request, so it may fail when the ledger is away.
        dependencies: FastAPI dependencies that every request must pass.
        visible_pipelines: FastAPI dependency that returns what the visitor may see. Links to Airflow are there for pipelines of which it
            knows the DAGs.
        find_task: Finds the work on a table in Airflow.
    """
    app = FastAPI(title="cdc-ops", dependencies=list(dependencies), openapi_url=None, docs_url=None, redoc_url=None)
    pages = Pages(reader_factory, find_task)
    seen = Annotated[Visible, Depends(visible_pipelines)]
    app.middleware("http")(_add_headers)

    @app.get("/ui", response_class=HTMLResponse)
    def overview(visible: seen, request: Request) -> HTMLResponse:
        """Answers with the page of all tables, or of those that the query string asks for."""
        return pages.overview(visible, Listing.parse(request.query_params))

    @app.get("/table", response_class=HTMLResponse)
    def table(visible: seen, pipeline: str, name: str, page: str = "1") -> HTMLResponse:
        """Answers with the page of one table; `page` counts through its runs."""
        return pages.table(visible, pipeline, name, page_number(page))

    @app.get("/ask", response_class=HTMLResponse)
    def ask(visible: seen, pipeline: str, name: str) -> HTMLResponse:
        """Answers with the forms by which somebody asks for a run of a table."""
        return pages.ask(visible, pipeline, name)

    @app.get("/pipeline", response_class=HTMLResponse)
    def pipeline(visible: seen, name: str) -> HTMLResponse:
        """Answers with a pipeline's file and its changes."""
        return pages.pipeline(visible, name)

    @app.get("/dag", response_class=HTMLResponse)
    def dag(visible: seen, dag_id: str) -> HTMLResponse:
        """Answers with the tables of a DAG's pipeline."""
        return pages.of_dag(visible, dag_id)

    @app.get("/run", response_class=HTMLResponse)
    def run(visible: seen, run_id: str, pipeline: str | None = None, dag_id: str = "", page: str = "1") -> HTMLResponse:
        """Answers with what a run did with each table; either the pipeline or its DAG is given."""
        return pages.run(visible, pipeline, run_id, dag_id, page_number(page))

    @app.get("/task")
    def task(visible: seen, pipeline: str, name: str, run_id: str) -> Response:
        """Leads to a run's work on a table in Airflow."""
        return pages.task(visible, pipeline, name, run_id)

    @app.get("/metrics")
    def metrics(visible: seen, request: Request) -> Response:
        """Answers with the figures of all tables that the visitor may see, as OpenMetrics or in Prometheus' own format."""
        return pages.metrics(visible, request.headers.get("accept", ""))

    app.get("/style.css")(_file(pages.style, "text/css"))
    for name, text in pages.scripts.items():
        app.get(f"/{name}")(_file(text, "text/javascript"))

    return app
