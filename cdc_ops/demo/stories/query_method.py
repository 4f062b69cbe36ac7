"""The story of the query method: snapshot, increment, backfill, resync; the last two on a Spark server that lives on."""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_ops.demo import shop
from cdc_ops.demo.layout import Layout
from cdc_ops.demo.report import Screen
from cdc_ops.demo.spark_server import use_server
from cdc_ops.demo.stage import Stage
from cdc_ops.demo.stories.phase import Excuse, Play

WRITER_SECONDS: Final = 2.0
BACKFILL_DAYS_AGO: Final = 3
UNSEEN_DELETE: Final = "increments by a cursor do not see deletes: 'cdc-ops reconcile' and a resync of the key (below) find them"


UNSEEN: Final = {"shop.sales": Excuse(only_in_lake=1, why=UNSEEN_DELETE)}


class Story(Play):
    """The pipeline `shop`, whose tables are read by query."""

    def __init__(self, stage: Stage, layout: Layout, screen: Screen) -> None:
        super().__init__(stage, layout, screen)
        self._writer = stage.writer

    def tell(self) -> bool:
        """Runs all phases; returns True if source and lake were equal wherever they should be."""
        phases = (self._snapshot, self._increment, self._backfill, self._resync)
        outcomes = [phase() for phase in phases]  # a difference does not end the story: later phases show more of it
        return all(outcomes)

    def _snapshot(self) -> bool:
        self._screen.heading("1 of 4: snapshot")
        self._changed("a table of 4 sales and one of 200,000 orders; the lake is empty")
        return self._phase("the first run reads both tables", self._first_run, {})

    def _increment(self) -> bool:
        self._screen.heading("2 of 4: increment")
        stage = self._stage
        before = self._writer.work()
        with self._screen.step("the writer works"):
            self._writer.resume()
            time.sleep(WRITER_SECONDS / 2)
            changes = shop.change_sales(stage.server)
            time.sleep(WRITER_SECONDS / 2)
            after = self._writer.pause()
        self._changed(*(f"{change.table}: {change.text}" for change in changes))
        self._changed(f"shop.orders: {after.since(before)}")
        return self._phase("a manual run reads the changes", lambda: self._trigger({}, "increment"), UNSEEN)

    def _backfill(self) -> bool:
        self._screen.heading("3 of 4: backfill, on a Spark server that lives on")
        with self._screen.step("starting a Spark Connect server, and naming it in the pipeline file"):
            address = use_server(self._layout, outlive=self._stage.outlive)
        self._screen.line(f"  the pipeline says spark.connect: {address}; tasks start no JVM from here on")
        since, until = self._interval()
        changes = shop.change_silently(self._stage.server, _sql(since), _sql(until))
        self._changed(*(f"{change.table}: {change.text}: no increment can see this change" for change in changes))
        return self._phase("Airflow's backfill reads that interval again", lambda: self._start_backfill(since), UNSEEN)

    def _resync(self) -> bool:
        self._screen.heading("4 of 4: resync")
        self._changed("nothing; the row of shop.sales that was deleted at the source in step 2 is still in the lake")
        params = {"tables": ["shop.sales"], "mode": "keys", "keys": ["1"]}
        return self._phase("a manual run with parameters reads key 1 again", lambda: self._trigger(params, "resync of a key"), {})

    def settle(self) -> None:
        """See `Play`."""
        self._writer.pause()
        shop.let_bound_pass(self._stage.server)

    def _first_run(self) -> str:
        """Waits for the DAG's first run: a DAG with a schedule starts by itself, with the latest complete interval."""
        stage = self._stage
        stage.api.unpause(self._layout.dag_id)
        if not stage.dag.get("timetable_summary"):
            return self._trigger({}, "snapshot")
        return stage.api.wait_for_new_run(self._layout.dag_id, "scheduled", ())

    def _start_backfill(self, since: datetime) -> str:
        api = self._stage.api
        known = api.runs(self._layout.dag_id, "backfill")
        api.backfill(self._layout.dag_id, since, since)
        return api.wait_for_new_run(self._layout.dag_id, "backfill", known)

    def _interval(self) -> tuple[datetime, datetime]:
        """Returns an interval of the DAG's schedule some days ago, as Airflow splits it."""
        day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=BACKFILL_DAYS_AGO)
        first, second, *_ = self._stage.api.intervals(self._layout.dag_id, day, day + timedelta(days=1))
        return first, second


def _sql(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M:%S")
