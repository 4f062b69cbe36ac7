"""The story of the log method: Debezium's engine captures the shop, an S3 endpoint holds its events, and Airflow merges them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from cdc_ops.demo import shop
from cdc_ops.demo.layout import DATABASE, Layout
from cdc_ops.demo.report import Screen
from cdc_ops.demo.stage import Stage
from cdc_ops.demo.stories.phase import Play
from cdc_ops.dev.debezium import DebeziumEngine, running_debezium
from cdc_ops.dev.sink_archive import SinkArchive

ARCHIVE: Final = "s3://archive/topics"
RECORDS_PER_FILE: Final = 1000


class ArchiveStory(Play):
    """The pipeline `shop_events`: a table that no cursor can follow, loaded from archived events.

    Args:
        stage, layout, screen: See `Play`.
        engine: Debezium's engine on the source.
    """

    def __init__(self, stage: Stage, layout: Layout, screen: Screen, engine: DebeziumEngine) -> None:
        super().__init__(stage, layout, screen)
        self._engine = engine

    def settle(self) -> None:
        """Waits until the archive's files have all committed changes."""
        with self._screen.step("Debezium writes what has changed into the archive"):
            self._engine.catch_up()

    def tell(self) -> bool:
        """Runs all phases; returns True if source and lake were equal wherever they should be."""
        outcomes = [phase() for phase in (self._first_events, self._changes)]
        return all(outcomes)

    def _first_events(self) -> bool:
        self._screen.heading("1 of 5: the archive's first events")
        self._changed(f"{shop.PAYMENTS:,} payments, as events of Debezium; the lake is empty")
        self._stage.api.unpause(self._layout.dag_id)
        return self._phase("the first run merges the events", lambda: self._trigger({}, "first events"), {})

    def _changes(self) -> bool:
        self._screen.heading("2 of 5: changes")
        for change in shop.change_payments(self._stage.server):
            self._changed(f"{change.table}: {change.text}")
        return self._phase("a run merges the events, including deletes", lambda: self._trigger({}, "changes"), {})


@contextmanager
def following(stage: Stage, layout: Layout, screen: Screen) -> Iterator[DebeziumEngine]:
    """Runs Debezium beside the shop during the `with`; the first time its jars are downloaded (40 MB).

    Args:
        stage: The stage with the captured server.
        layout: Has the engine's folder, and the store that gets the events, in the layout of Kafka Connect's S3 sink.
        screen: Shows the progress.

    Raises:
        EnvironmentSetupError: the engine does not start.
    """
    sink = SinkArchive(ARCHIVE, layout.root / "sink", records_per_file=RECORDS_PER_FILE, options={"endpoint_url": layout.endpoint})
    with ExitStack() as running:
        with screen.step("starting Debezium (fetches its jars first, once, 40 MB)"):
            engine = running.enter_context(running_debezium(stage.server, [f"{DATABASE}.payments"], sink, layout.root / "debezium"))
        yield engine
