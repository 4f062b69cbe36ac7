"""The story of binlogs: each Airflow run copies what the shop's server has written, and merges it, while the shop goes on writing."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Final

from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.files import ListedRange
from cdc_ops.core.text import size_text
from cdc_ops.demo import shop
from cdc_ops.demo.layout import BINLOG_PIPELINE, Layout
from cdc_ops.demo.report import Screen
from cdc_ops.demo.stage import Stage
from cdc_ops.demo.stories.phase import Play

BINLOGS: Final = "s3://archive/binlogs"
TABLE: Final = "shop.orders"
WRITER_SECONDS: Final = 2.0


class BinlogStory(Play):
    """The pipeline `shop_binlogs`: a table that is read once, and then follows the server's own log; no Debezium is needed.

    Args:
        stage, screen: See `Play`.
        layout: The demo's folders and files, whatever its pipeline.
    """

    def __init__(self, stage: Stage, layout: Layout, screen: Screen) -> None:
        super().__init__(stage, replace(layout, pipeline=BINLOG_PIPELINE), screen)
        self._writer = stage.writer

    def settle(self) -> None:
        """See `Play`: the run itself closes and copies the newest binlog."""
        self._writer.pause()

    def tell(self) -> bool:
        """Runs all phases; returns True if source and lake are equal at the end."""
        self._stage.api.wait_for_dag(self._layout.dag_id)
        self._stage.api.unpause(self._layout.dag_id)
        self._snapshot()
        self._changes()
        return self._rest()

    def _snapshot(self) -> None:
        self._screen.heading("3 of 5: binlogs: a snapshot, while the shop writes")
        self._changed(f"{shop.ORDERS:,} orders; a writer inserts, changes and deletes some")
        self._writer.resume()
        self._while_writing("the first run copies binlogs, then reads the table", "snapshot")

    def _changes(self) -> None:
        self._screen.heading("4 of 5: binlogs: changes, while the shop writes")
        self._changed(*(f"{change.table}: {change.text}" for change in shop.change_orders(self._stage.server)))
        self._while_writing("a run copies the new binlogs and merges them", "binlogs")

    def _rest(self) -> bool:
        self._screen.heading("5 of 5: binlogs: the shop rests")
        before = self._writer.work()
        with self._screen.step("the writer works, then pauses"):
            time.sleep(WRITER_SECONDS)
            after = self._writer.pause()
        self._changed(f"{TABLE}: {after.since(before)}")
        equal = self._phase("a run copies the last binlog and merges it", self._run_of("the last binlog"), {})
        self._tell_archive()
        return equal

    def _while_writing(self, title: str, note: str) -> None:
        before = self._writer.work()
        self._moving_phase(title, self._run_of(note), TABLE)
        self._tell_archive()
        self._screen.line(f"  meanwhile: {self._writer.work().since(before)}")

    def _run_of(self, note: str) -> Callable[[], str]:
        return lambda: self._trigger({}, note)

    def _tell_archive(self) -> None:
        with closing(open_archive(BINLOGS, {"endpoint_url": self._layout.endpoint})) as archive:
            files = archive.list([ListedRange()]).files
        size = size_text(sum(file.size for file in files))
        self._screen.line(f"  the archive: {files[0].path} .. {files[-1].path.rpartition('/')[2]}, {size}")
