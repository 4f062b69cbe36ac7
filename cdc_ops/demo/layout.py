"""The folders and files of the demo; outside the data path."""

from dataclasses import dataclass
from pathlib import Path

PIPELINE = "shop"
ARCHIVE_PIPELINE = "shop_events"
"""The pipeline whose table is loaded from archived change events."""
DATABASE = "shop"
CONNECTION = "shop_db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Folders and files of one demo.

    Args:
        root: The demo's folder; every new demo removes and creates it.
        repository: The clone that the demo runs.
        pipeline: The name of one of its pipelines.
        endpoint: URL of the object store that holds the archive, "" if the pipeline reads no archive.
    """

    root: Path
    repository: Path
    pipeline: str = PIPELINE
    endpoint: str = ""

    @classmethod
    def default(cls, pipeline: str = PIPELINE) -> "Layout":
        """Returns the layout of the clone that holds this file."""
        repository = Path(__file__).resolve().parents[2]
        return cls(root=repository / ".local" / "demo", repository=repository, pipeline=pipeline)

    @property
    def dag_id(self) -> str:
        """Returns the id of the pipeline's DAG."""
        return f"cdc_{self.pipeline}"

    @property
    def mariadb(self) -> Path:
        """Returns the database server's folder."""
        return self.root / "mariadb"

    @property
    def writer(self) -> Path:
        """Returns the writer's folder: its pid, log, orders and status."""
        return self.root / "writer"

    @property
    def airflow(self) -> Path:
        """Returns AIRFLOW_HOME."""
        return self.root / "airflow"

    @property
    def services(self) -> Path:
        """Returns the folder of pid files, one for each Airflow process."""
        return self.root / "services"

    @property
    def logs(self) -> Path:
        """Returns the folder of logs, one for each process."""
        return self.root / "logs"

    @property
    def lake(self) -> Path:
        """Returns the folder of the Delta tables: `<lake>/<schema>/<table>`."""
        return self.root / "lake"

    @property
    def staging(self) -> Path:
        """Returns the folder of landed windows, manifests, job specs and results."""
        return self.root / "staging"

    @property
    def ledger(self) -> Path:
        """Returns the path of the ledger's SQLite file."""
        return self.root / "ledger" / "ledger.db"

    @property
    def environment(self) -> Path:
        """Returns the path of a shell file with the environment for `cdc-ops` commands on the demo."""
        return self.root / "env.sh"

    @property
    def jars(self) -> Path:
        """Returns the folder of Delta's jars and the JDBC drivers."""
        return self.repository / ".local" / "jars"

    @property
    def cache(self) -> Path:
        """Returns the folder that later demos use again: the unpacked database server, an empty Airflow database."""
        return self.repository / ".local" / "cache"

    @property
    def dags(self) -> Path:
        """Returns Airflow's DAG folder, in the clone."""
        return self.repository / "dags"

    @property
    def spark_server(self) -> Path:
        """Returns the folder of the Spark server that the second half of the story works on."""
        return self.root / "spark-server"

    @property
    def pipelines(self) -> Path:
        """Returns the folder of the pipeline files: copies, because the second half names a Spark server in them."""
        return self.root / "pipelines"

    @property
    def shipped_pipelines(self) -> Path:
        """Returns the folder of the pipeline files in the clone."""
        files = self.dags / "pipelines"
        return files / "examples" / "archive" if self.pipeline == ARCHIVE_PIPELINE else files

    def settings(self) -> dict[str, str]:
        """Returns the environment variables with which cdc-ops uses this demo; none of them is secret."""
        return {
            "CDC_OPS_LAKE": str(self.lake),
            "CDC_OPS_STAGING": str(self.staging),
            "CDC_OPS_LEDGER": f"sqlite:///{self.ledger}",
            "CDC_OPS_PIPELINES": str(self.pipelines),
            "CDC_OPS_JARS": str(self.jars),
            "CDC_OPS_CACHE": str(self.cache),
            "CDC_OPS_CLASSES": "off",  # the demo keeps an archive of its own (`demo.jvm`)
            **({"CDC_OPS_ARCHIVE_ENDPOINT": self.endpoint} if self.endpoint else {}),
        }
