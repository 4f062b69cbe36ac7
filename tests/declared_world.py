"""A pipeline file with one declared table and an archive in a folder: plans of the log method without server and Spark."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.requests import RunRequest
from cdc_ops.sources.base import open_source
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.steps.commit import Rebuilt, rebuild_table
from cdc_ops.steps.context import Context
from cdc_ops.steps.plan import TablePlan, discover, freeze_table, plan_table

FILE = """\
pipeline: shop
source:
  kind: declared
  dialect: mysql
  tables:
    shop.orders: {id: bigint primary key, name: varchar(40)}
target: {root: "@/lake", staging: "@/staging"}
archive: {url: "@/archive", format: maxwell, settle: 0s}
defaults: {method: log}
tables:
  shop.orders:
"""


@dataclass
class DeclaredWorld:
    """One folder with everything: pipeline file, archive, ledger and lake."""

    folder: Path
    runs: int = 0

    def __post_init__(self) -> None:
        self.file.write_text(FILE.replace("@", str(self.folder)))

    @property
    def file(self) -> Path:
        """The pipeline file."""
        return self.folder / "shop.yaml"

    def correct(self, old: str, new: str) -> None:
        """Replaces a part of the pipeline file, as somebody does by hand."""
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def archive(self, offset: int, records: str = "{}\n", folder: str = "archive") -> Path:
        """Writes a file of partition 0 as a sink does."""
        path = self.folder / folder / f"t/partition=0/t+0+{offset:010}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(records)
        return path

    def store(self) -> SqlStateStore:
        """The ledger, opened."""
        return open_store(f"sqlite:///{self.folder / 'ledger.db'}")

    def plan(self, *, freeze: bool = True) -> TablePlan:
        """Plans the table as a new run does, and gives its lease back."""
        pipeline = load_pipeline(self.file, {})
        with closing(self.store()) as store, closing(open_source(pipeline.source, "")) as source:
            context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, ""))
            request = self._request()
            (config,) = discover(pipeline, source, request)
            if not freeze:
                return plan_table(context, source, request, config)
            plan = freeze_table(context, source, request, config)
            store.release(store.acquire("shop", config.table, request.holder, ttl=context.lease_ttl, live=True))
            return plan

    def rebuild(self) -> Rebuilt:
        """`cdc-ops state rebuild`."""
        pipeline = load_pipeline(self.file, {})
        with closing(self.store()) as store, closing(open_source(pipeline.source, "")) as source:
            context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, ""))
            (config,) = discover(pipeline, source, self._request())
            return rebuild_table(context, self._request(), config)

    def _request(self) -> RunRequest:
        self.runs += 1
        return RunRequest(run_id=f"run-{self.runs}", trigger="test", holder=f"run-{self.runs}").checked()
