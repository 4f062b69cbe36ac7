"""Where everything of the demo is kept; outside the data path."""

from dataclasses import dataclass
from pathlib import Path

PIPELINE = "shop"
ARCHIVE_PIPELINE = "shop_events"
"""Its table is fed from archived change events."""
DATABASE = "shop"
CONNECTION = "shop_db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Folders and files of one demo.

    Args:
        root: The demo's own folder; removed and created again by every new demo.
        repository: The clone that the demo shows.
        pipeline: Which of its pipelines.
        endpoint: URL of the object store that holds the archive, "" if the pipeline reads none.
    """

    root: Path
    repository: Path
    pipeline: str = PIPELINE
    endpoint: str = ""

    @classmethod
    def default(cls, pipeline: str = PIPELINE) -> "Layout":
        """Returns the layout of the clone that this file belongs to."""
        repository = Path(__file__).resolve().parents[2]
        return cls(root=repository / ".local" / "demo", repository=repository, pipeline=pipeline)

    @property
    def dag_id(self) -> str:
        """The DAG of the pipeline."""
        return f"cdc_{self.pipeline}"

    @property
    def mariadb(self) -> Path:
        """The database server's folder."""
        return self.root / "mariadb"

    @property
    def writer(self) -> Path:
        """The writer's folder: its pid, log, orders and status."""
        return self.root / "writer"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.root / "airflow"

    @property
    def services(self) -> Path:
        """A pid file for each Airflow process."""
        return self.root / "services"

    @property
    def logs(self) -> Path:
        """One log for each process."""
        return self.root / "logs"

    @property
    def lake(self) -> Path:
        """The Delta tables: `<lake>/<schema>/<table>`."""
        return self.root / "lake"

    @property
    def staging(self) -> Path:
        """Landed windows, manifests, job specs and results."""
        return self.root / "staging"

    @property
    def ledger(self) -> Path:
        """The ledger's SQLite file."""
        return self.root / "ledger" / "ledger.db"

    @property
    def environment(self) -> Path:
        """A shell file that makes `cdc-ops` commands work on the demo."""
        return self.root / "env.sh"

    @property
    def jars(self) -> Path:
        """Delta's jars and the JDBC drivers."""
        return self.repository / ".local" / "jars"

    @property
    def cache(self) -> Path:
        """What later demos use again: the unpacked database server, an empty Airflow database."""
        return self.repository / ".local" / "cache"

    @property
    def dags(self) -> Path:
        """Airflow's DAG folder, straight from the clone."""
        return self.repository / "dags"

    @property
    def pipelines(self) -> Path:
        """The pipeline files."""
        files = self.dags / "pipelines"
        return files / "examples" / "archive" if self.pipeline == ARCHIVE_PIPELINE else files

    def settings(self) -> dict[str, str]:
        """Returns the environment variables that point cdc-ops to this demo; no secret is among them."""
        return {
            "CDC_OPS_LAKE": str(self.lake),
            "CDC_OPS_STAGING": str(self.staging),
            "CDC_OPS_LEDGER": f"sqlite:///{self.ledger}",
            "CDC_OPS_PIPELINES": str(self.pipelines),
            "CDC_OPS_JARS": str(self.jars),
            "CDC_OPS_CACHE": str(self.cache),
            **({"CDC_OPS_ARCHIVE_ENDPOINT": self.endpoint} if self.endpoint else {}),
        }
