"""The status page shows a ledger of 1,000 tables, each with a day of runs, beside reading the same ledger for `cdc-ops status`."""

import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from sqlalchemy import create_engine, select

from benchmarks._harness import arguments, report
from cdc_ops.state.db.schema import runs
from cdc_ops.state.sql import open_reader
from cdc_ops.web.listing import Listing
from cdc_ops.web.pages import Pages
from cdc_ops.web.summary import DAY
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


def main() -> None:
    options = arguments(__doc__, tables=1000, per_day=96, runs=20)
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{Path(name)}/ledger.db"
        fill(url, options.tables, options.per_day)
        with open_reader(url) as reader:
            pages = Pages(lambda: reader)
            infos = {"big": PipelineInfo(every=timedelta(minutes=15), dag_ids=("cdc_big",))}

            def view() -> None:
                assert pages.overview(infos, Listing()).status_code == 200

            first = processor(view)
            views = [processor(view) for _ in range(options.runs)]
            day = processor(lambda: reader.rows_written(reader.now() - DAY))
        with open_reader(url) as reader:
            status = processor(reader.overview)
    report(
        f"The page of {options.tables} tables with {options.per_day} runs each in a day; seconds of the processor",
        (
            f"first view of a process    {first:6.3f}",
            f"a later view, median       {statistics.median(views):6.3f}   slowest {max(views):.3f}",
            f"rows of the last day       {day:6.3f}   in the first view, and then once in ten minutes",
            f"the ledger read once       {status:6.3f}   a later view takes {statistics.median(views) / status:.2f} times that",
        ),
    )


if __name__ == "__main__":
    main()
