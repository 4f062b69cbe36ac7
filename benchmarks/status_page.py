"""The status page shows a ledger of 1,000 tables, each with a day of runs, beside reading the same ledger for `cdc-ops status`."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from sqlalchemy import create_engine, func, make_url, select, update

from benchmarks._harness import arguments, report
from cdc_ops.state.db.schema import runs, tables
from cdc_ops.state.sql import open_reader
from cdc_ops.web.listing import Listing
from cdc_ops.web.pages import Pages
from cdc_ops.web.view import PipelineInfo
from tests.status_case import fill_many


def fill(url: str, tables: int, per_day: int) -> None:
    """Fills a ledger with tables and their runs, all within a day."""
    fill_many(url, "big", tables)
    engine = create_engine(url)
    with engine.begin() as connection:
        lines = [dict(line) for line in connection.execute(select(runs)).mappings()]
        for number in range(1, per_day):
            earlier = timedelta(hours=22) * number / per_day
            lines_of_run = [{**line, "run_id": f"scheduled__{number + 1}", "started_at": line["started_at"] - earlier} for line in lines]
            connection.execute(runs.insert(), lines_of_run)
    engine.dispose()


def processor(work: Callable[[], object]) -> float:
    """Returns the seconds of the processor that something takes."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def run_over_all(url: str, number: int) -> None:
    """Adds a run that has come to each table, and moves its state."""
    engine = create_engine(url)
    with engine.begin() as connection:
        newest = select(runs).where(runs.c.run_id == "scheduled__1")
        lines = [dict(line) for line in connection.execute(newest).mappings()]
        now = max(line["started_at"] for line in lines) + timedelta(seconds=number)
        fresh = [
            {**line, "run_id": f"later__{number}", "started_at": now, "body": line["body"].replace("scheduled__1", f"later__{number}")}
            for line in lines
        ]
        connection.execute(runs.insert(), fresh)
        connection.execute(update(tables).values(state=func.replace(tables.c.state, '"op_seq":', f'"op_seq":{number}')))
    engine.dispose()


def main() -> None:
    options = arguments(__doc__, tables=1000, per_day=96, runs=20)
    with tempfile.TemporaryDirectory() as name:
        url = os.environ.get("BENCH_LEDGER") or f"sqlite:///{Path(name)}/ledger.db"
        fill(url, options.tables, options.per_day)
        infos = {"big": PipelineInfo(every=timedelta(minutes=15), dag_ids=("cdc_big",))}
        with open_reader(url) as reader:
            pages: list[Pages] = []
            built = processor(lambda: pages.append(Pages(lambda: reader)))

            def view(wanted: Listing | None = None) -> None:
                assert pages[0].overview(infos, wanted or Listing()).status_code == 200

            def table() -> None:
                assert pages[0].table(infos, "big", "big.table_0007", 1).status_code == 200

            first = processor(view)
            later = [processor(view) for _ in range(options.runs)]
            touched = []
            for number in range(1, 6):
                run_over_all(url, number)
                touched.append(processor(view))
            others = {
                "page 5": [processor(lambda: view(Listing(page=5))) for _ in range(options.runs)],
                "a search": [processor(lambda: view(Listing(search="table_07"))) for _ in range(options.runs)],
                "one table": [processor(table) for _ in range(options.runs)],
            }
        with open_reader(url) as reader:
            status = processor(reader.overview)
    report(
        f"The page of {options.tables} tables with {options.per_day} runs each in a day, {make_url(url).get_backend_name()}; seconds of the"
        " processor, without imports",
        (
            f"the application is built   {built:6.3f}   templates compiled, when the server starts",
            f"first view of a process    {first:6.3f}",
            f"nothing has changed        {_text(later)}",
            f"a run came to all tables   {_text(touched)}",
            *(f"{name:26} {_text(seconds)}" for name, seconds in others.items()),
            f"the ledger read once       {status:6.3f}   a view takes {statistics.median(later) / status:.2f} times that",
        ),
    )


def _text(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):6.3f}   slowest {max(seconds):.3f}"


if __name__ == "__main__":
    main()
